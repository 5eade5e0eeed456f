//! The measured figures, as a table and as JSON.

use kernels::DeviceInfo;
use serde_json::{Value, json};

/// One measured or reported quantity.
struct Figure {
    what: String,
    value: f64,
    unit: &'static str,
}

/// The figures of one device.
pub struct Figures {
    device: DeviceInfo,
    preset: &'static str,
    date: String,
    figures: Vec<Figure>,
    notes: Vec<String>,
}

impl Figures {
    pub fn new(device: &DeviceInfo, preset: &'static str, date: &str) -> Figures {
        Figures { device: device.clone(), preset, date: date.into(), figures: Vec::new(), notes: Vec::new() }
    }

    pub fn add(&mut self, what: impl Into<String>, value: f64, unit: &'static str) {
        self.figures.push(Figure { what: what.into(), value, unit });
    }

    pub fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// The largest of the figures added so far that have this unit.
    pub fn largest(&self, unit: &str) -> Option<f64> {
        let values = self.figures.iter().filter(|figure| figure.unit == unit).map(|figure| figure.value);
        values.max_by(f64::total_cmp)
    }

    pub fn table(&self) -> String {
        let DeviceInfo { backend, name, memory_bytes, rows_max, .. } = &self.device;
        let mut text = format!(
            "{name}, backend {backend}, {} GB for keys and rows, batches up to {rows_max}; {}; {}.\n\n| figure | value | unit |\n|---|---:|---|\n",
            memory_bytes / 1_000_000_000,
            self.preset,
            self.date
        );
        for Figure { what, value, unit } in &self.figures {
            text += &format!("| {what} | {} | {unit} |\n", readable(*value));
        }
        for note in &self.notes {
            text += &format!("\n{note}\n");
        }
        text
    }

    pub fn json(&self) -> Value {
        let DeviceInfo { backend, name, memory_bytes, rows_max, .. } = &self.device;
        let figure = |Figure { what, value, unit }: &Figure| json!({ "figure": what, "value": value, "unit": unit });
        json!({
            "date": self.date,
            "device": { "name": name, "backend": backend, "memory_bytes": memory_bytes, "rows_max": rows_max },
            "preset": self.preset,
            "figures": self.figures.iter().map(figure).collect::<Vec<Value>>(),
            "notes": self.notes,
        })
    }
}

/// Rounds to four significant digits. No measurement here is more precise.
fn readable(value: f64) -> String {
    let places = (3 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6) as usize;
    format!("{value:.places$}")
}
