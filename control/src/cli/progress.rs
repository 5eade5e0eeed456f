//! Progress of a circuit or a file: a bar on a terminal, a few lines elsewhere. Always on stderr, because results go to
//! stdout.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::Duration;

use client::evaluate::{Evaluation, Progress};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Percentage points of progress between two lines, where the output is not a terminal.
const STEP_PERCENT: usize = 20;

/// Shows the progress of one circuit.
pub struct GateProgress {
    bar: ProgressBar,
    /// The last step of `STEP_PERCENT` for which a line was printed. `None` on a terminal, which shows a bar.
    plain_step: Option<Cell<usize>>,
}

impl GateProgress {
    /// Starts to show the progress of a circuit with `gates_total` gates.
    pub fn new(gates_total: usize) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(gates_total as u64), target);
        let template = "{bar:40} {pos}/{len} gates, {rate}, {eta} left";
        let rate = |state: &ProgressState, out: &mut dyn std::fmt::Write| {
            // writing to the bar's buffer cannot fail
            let _ = write!(out, "{:.0} gates/s", state.per_sec());
        };
        let style = ProgressStyle::with_template(template).expect("the template is well-formed").with_key("rate", rate);
        bar.set_style(style);
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar, plain_step: (!terminal).then(|| Cell::new(0)) }
    }

    /// Shows the present progress.
    pub fn update(&self, now: &Progress) {
        self.bar.set_position(now.gates_done as u64);
        let Some(shown) = &self.plain_step else { return };
        let step = 100 * now.gates_done / now.gates_total.max(1) / STEP_PERCENT;
        if step > shown.replace(step) {
            eprintln!("{} of {} gates", now.gates_done, now.gates_total);
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// Describes the bootstraps that the node ran for a circuit: their number and, if known, their levels and the
/// probability of a wrong bit. `None`: the answer does not contain the number.
pub fn bootstraps(evaluation: &Evaluation) -> Option<String> {
    let mut text = format!("{} bootstraps run", evaluation.bootstraps?);
    if let Some(levels) = evaluation.bootstrap_levels {
        text += &format!(" in {levels} levels");
    }
    if let Some(log2) = evaluation.failure_log2 {
        text += &format!(", a wrong bit has probability {}", probability(log2));
    }
    Some(text)
}

/// Formats a probability that is given by its log2.
pub fn probability(log2: f64) -> String {
    if log2 == f64::NEG_INFINITY { "0".to_owned() } else { format!("2^{log2:.1}") }
}

/// Shows how many bytes were written or sent: a bar on a terminal, nothing elsewhere.
pub struct ByteProgress {
    bar: ProgressBar,
}

impl ByteProgress {
    /// Starts to show the progress of writing or sending `bytes_total` bytes.
    pub fn new(bytes_total: u64) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let target = if terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(bytes_total), target);
        let template = "{bar:40} {bytes}/{total_bytes}, {eta} left";
        bar.set_style(ProgressStyle::with_template(template).expect("the template is well-formed"));
        Self { bar }
    }

    /// Shows the present number of bytes.
    pub fn update(&self, bytes: u64) {
        self.bar.set_position(bytes);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use api::MilliYen;

    use super::*;

    #[test]
    fn what_the_node_ran_is_told_as_far_as_the_node_says_it() {
        let silent = Evaluation {
            outputs: Vec::new(),
            gates: 376,
            bootstraps: None,
            bootstrap_levels: None,
            failure_log2: None,
            bootstrap_ops: 1,
            cost: MilliYen(0),
            compute_ms: 1.0,
        };
        assert_eq!(bootstraps(&silent), None);
        let counted = Evaluation { bootstraps: Some(126), bootstrap_levels: Some(64), ..silent };
        assert_eq!(bootstraps(&counted).unwrap(), "126 bootstraps run in 64 levels");
        let estimated = Evaluation { failure_log2: Some(-85.66), ..counted };
        let text = "126 bootstraps run in 64 levels, a wrong bit has probability 2^-85.7";
        assert_eq!(bootstraps(&estimated).unwrap(), text);
        assert_eq!(probability(f64::NEG_INFINITY), "0");
    }
}
