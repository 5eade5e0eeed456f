//! How much processor time `POST /v1/reconcile` takes, from the bytes of the body to the bytes of the answer, for bodies
//! that make the most work. Linux only, because the kernel's count of the thread's time is read.
//!
//! `cargo bench --workspace --bench reconcile [-- PART_OF_A_NAME]`

use docs_module::limit::Limit;
use docs_module::request::reconciled;
use serde_json::{Value, json};

/// Largest number of records of a side.
const ROWS: usize = 20_000;

/// Numbers below 2^24 that look random: a linear congruence (MMIX).
struct Random(u64);

impl Random {
    fn next(&mut self) -> i64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as i64
    }
}

/// A body of two full sides. `row`: the name and the amount of a record, by side and place.
fn body(kind: &str, tolerance: i64, mut row: impl FnMut(usize, usize) -> (String, Value)) -> Vec<u8> {
    let mut side = |side: usize| -> Vec<Value> {
        (0..ROWS)
            .map(|at| {
                let (name, amount) = row(side, at);
                json!({"name": name, "amount": amount})
            })
            .collect()
    };
    let (left, right) = (side(0), side(1));
    let body = json!({
        "left": left, "right": right, "left_key": "name", "left_amount": "amount", "kind": kind, "amount_tolerance": tolerance,
    });
    body.to_string().into_bytes()
}

fn of_twenty(at: usize) -> String {
    format!("取引先{}", at / 20)
}

/// Processor time of this thread, in milliseconds.
fn cpu_ms() -> f64 {
    let counts = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux");
    let on_core: u64 = counts.split_whitespace().next().and_then(|word| word.parse().ok()).expect("nanoseconds");
    on_core as f64 / 1e6
}

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let mut random = Random(7);
    let spread = |at: usize| json!(3 * 5i64.pow((at % 20) as u32));
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("each name once, equal amounts", body("bank", 0, |_, at| (format!("取引先{at}"), json!(at)))),
        (
            "1,000 names x 20 + 20, amounts far apart",
            body("bank", 0, |side, at| {
                (of_twenty(at), json!([1_000_000_000, 1_000_000][side] + random.next() % 1_000_000))
            }),
        ),
        (
            "1,000 names x 20 + 20, sums in reach",
            body("bank", 440, |side, at| {
                (of_twenty(at), json!([40_000_000_000, 10_000_000_000][side] + 1_009 * random.next()))
            }),
        ),
        (
            "1,000 names x 20 + 20, yen of real invoices",
            body("bank", 440, |_, at| (of_twenty(at), json!(1_000 + 10 * (random.next() % 50_000)))),
        ),
        (
            "1,000 names x 20 + 20, sums only with a part twice",
            body("bank", 0, |side, at| {
                let part = 5i64.pow((at % 20) as u32) * 3;
                let other = 5i64.pow(((at + 7) % 20) as u32) * 6;
                (of_twenty(at), json!(if side == 0 { 2 * part + other } else { part }))
            }),
        ),
        (
            "200 names x 100 + 100, a group for every record",
            body("bank", 0, |side, at| {
                (
                    format!("取引先{}", at / 100),
                    json!(if side == 0 { 6_000_000 + at as i64 * 60 } else { 1_000_000 + at as i64 * 10 }),
                )
            }),
        ),
        (
            "one name, all different",
            body("text", 3, |side, at| ("A".to_owned(), json!((at * (10 + side)).to_string()))),
        ),
        ("one name, all equal", body("text", 0, |side, _| ("A".to_owned(), json!([7, 9][side])))),
        (
            "20 + 20 powers of one name, the rest once",
            body("text", 0, |_, at| (if at < 20 { "A".into() } else { at.to_string() }, spread(at))),
        ),
        ("10 MB of names in kana", body("bank", 0, |_, at| (format!("{at}{}", "ｶﾞ".repeat(38)), json!(1)))),
        (
            "10 MB of names in Latin letters",
            body("bank", 0, |_, at| (format!("{at}{}", "ABCDEFGH".repeat(26)), json!(1))),
        ),
        (
            "10 MB of names that grow when folded",
            body("bank", 0, |_, at| (format!("{at}{}", "\u{FDFA}".repeat(80)), json!(1))),
        ),
        ("names of legal forms", body("bank", 0, |_, at| (format!("{at}{}", "株式会社(カ)".repeat(8)), json!(1)))),
    ];
    println!("| body | MB | CPU ms | matched | names cut |");
    println!("|---|---|---|---|---|");
    for (name, bytes) in cases.into_iter().filter(|(name, _)| name.contains(&wanted)) {
        let begun = cpu_ms();
        let answer = reconciled(&bytes, Limit::NONE);
        let took = cpu_ms() - begun;
        let size = bytes.len() as f64 / 1e6;
        let told: Value = answer.ok().and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
        let summary = &told["summary"];
        println!("| {name} | {size:.1} | {took:.0} | {} | {} |", summary["matched"], summary["groups_cut"]);
    }
}
