//! Documents and their checks, on one thread: files of one page and of a thousand lines, two lists of 20,000 names
//! reconciled, and registrations checked against 500,000 records.
//!
//! `cargo bench --workspace --bench documents`

use std::fmt::Write;
use std::time::{Duration, Instant};

use benches::{median, only_once};
use docs_module::document::{Document, Draft, Issuer, Kind, Line, Theme};
use docs_module::limit::Limit;
use docs_module::reconcile::{NameKind, Record, amount, key, reconcile};
use docs_module::registration::{PartyNumber, RegistrationNumber, Snapshot, check, monitor};
use docs_module::rounding::Rounding;
use docs_module::tax::consumption::{Basis, Rate};
use rust_decimal::Decimal;
use time::macros::date;

fn main() {
    println!("| what | ms | KiB |\n|---|---|---|");
    let made = |lines: usize, rounds: usize| {
        let document = document(lines);
        let bytes = document.pdf().len();
        (time(rounds, || drop(document.pdf())), bytes)
    };
    let (one_page, bytes) = made(5, 200);
    row("PDF of one page, 5 lines", one_page, Some(bytes));
    let (many, bytes) = made(1000, 20);
    row("PDF of 1,000 lines", many, Some(bytes));
    let short = document(5);
    row("HTML of 5 lines", time(200, || drop(short.html())), Some(short.html().len()));
    row("JP PINT of 5 lines", time(200, || drop(short.xml())), short.xml().ok().map(|xml| xml.len()));
    lists();
    registrations();
}

fn row(what: &str, took: Duration, bytes: Option<usize>) {
    let size = bytes.map(|bytes| format!("{:.1}", bytes as f64 / 1024.0)).unwrap_or_default();
    println!("| {what} | {:.2} | {size} |", took.as_secs_f64() * 1e3);
}

/// The median time of several runs, after one unmeasured run.
fn time(rounds: usize, mut work: impl FnMut()) -> Duration {
    work();
    let rounds = if only_once() { 1 } else { rounds };
    let once = |_| {
        let begun = Instant::now();
        work();
        begun.elapsed()
    };
    median((0..rounds).map(once).collect())
}

fn document(lines: usize) -> Document {
    let line = |at: usize| Line {
        name: format!("品目{at}の設計および製作"),
        unit_price: Decimal::from(1_000 + at),
        quantity: Decimal::from(1 + at % 7),
        rate: if at.is_multiple_of(3) { Rate::Reduced } else { Rate::Standard },
    };
    let draft = Draft {
        kind: Kind::Invoice,
        number: "20251130-7K3QX2MA".to_owned(),
        issue_date: date!(2025 - 11 - 30),
        due_date: Some(date!(2025 - 12 - 31)),
        issuer: Issuer {
            name: "株式会社あんごデザイン".to_owned(),
            registration_number: RegistrationNumber::read("T7000012050002").expect("a number"),
            address: "東京都千代田区霞が関３－１－１".to_owned(),
            tel: "03-3581-4161".to_owned(),
        },
        recipient: "山田商事株式会社".to_owned(),
        recipient_number: PartyNumber::read("T1180301018771").ok(),
        honorific: "御中".to_owned(),
        lines: (0..lines).map(line).collect(),
        basis: Basis::Exclusive,
        rounding: Rounding::Floor,
        withholding: None,
        period: "2025年11月1日〜11月30日".to_owned(),
        payment_method: "bank_transfer".to_owned(),
        original_date: String::new(),
        original_number: String::new(),
        proviso: String::new(),
        bank: None,
        transfer_fee_note: String::new(),
        consignor: None,
        notes: "今月もありがとうございました。".to_owned(),
        theme: Theme::default(),
    };
    draft.complete().expect("a document")
}

/// Reconciles two lists of the same names: in one list the names are written as banks write them, in the other list as
/// in account books. The time is from the texts of the records to the result.
fn lists() {
    let count = if only_once() { 200 } else { 20_000 };
    let side = |name: &dyn Fn(usize) -> String| -> Vec<(String, String)> {
        (0..count).map(|at| (name(at), format!("{}", 1_000 + at % 97))).collect()
    };
    let left = side(&|at| format!("株式会社ヤマダ{:05}", at / 3));
    let right = side(&|at| format!("ｶ)ﾔﾏﾀﾞ{:05}", at / 3));
    let records = |side: &[(String, String)]| -> Vec<Record> {
        side.iter().map(|(name, yen)| Record { key: key(NameKind::Bank, name), amount: amount(yen) }).collect()
    };
    let took = time(5, || {
        let found = reconcile(&records(&left), &records(&right), Decimal::ZERO, Limit::NONE).expect("no limit");
        assert_eq!(found.matched.len(), count);
    });
    row(&format!("{count} x {count} records reconciled"), took, None);
}

fn registrations() {
    let count: u64 = if only_once() { 5_000 } else { 500_000 };
    let number = |at: u64| {
        let base = format!("{:012}", at * 7);
        let digits: [u8; 12] = std::array::from_fn(|at| base.as_bytes()[at] - b'0');
        format!("T{}{base}", docs_module::registration::corporate_check_digit(digits))
    };
    let mut file = String::new();
    for at in 0..count {
        let disposed = if at.is_multiple_of(100) { "2025-04-01" } else { "" };
        let number = number(at);
        writeln!(
            file,
            "{at},{number},01,0,2,1,1,2023-10-01,2023-10-01,{disposed},,東京都,13,101,,,,ヤマダ,株式会社山田{at},,,,,"
        )
        .expect("writing to memory");
    }
    let begun = Instant::now();
    let snapshot = Snapshot::from_csv(file.as_bytes()).expect("a file");
    row(&format!("{count} records read from CSV"), begun.elapsed(), Some(file.len()));
    let as_of = date!(2025 - 11 - 30);
    let thousand: Vec<String> = (0..1_000).map(|at| number(at * count / 1_000)).collect();
    let took = time(20, || {
        let active = thousand.iter().filter(|one| check(one, Some(&snapshot), as_of).finding.name() == "active");
        assert!(active.count() < 1_000);
    });
    row("1,000 numbers checked", took, None);
    let watched: Vec<String> = (0..100_000.min(count)).map(|at| number(at * 2 % count)).collect();
    let took = time(5, || {
        let found = monitor(&watched, Some(&snapshot), as_of, Limit::NONE).expect("no limit");
        assert!(!found.alerts.is_empty() && found.not_found.is_empty());
    });
    row(&format!("{} numbers of a watch", watched.len()), took, None);
}
