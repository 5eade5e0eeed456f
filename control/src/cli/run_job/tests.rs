//! The watch of registration numbers, as an operator's timer runs it.

use clap::Parser;

use super::*;
use crate::office::audit_log::{ENTRIES_MAX, Place, Reading, Trail, Wanted};

#[derive(Parser)]
struct Program {
    #[command(subcommand)]
    job: Job,
}

/// A folder with the list of numbers, records and the log.
struct Bench(tempfile::TempDir);

impl Bench {
    fn new(watch: &str) -> Bench {
        let bench = Bench(tempfile::tempdir().unwrap());
        bench.write("watch.txt", watch);
        bench
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Runs the job with these files for 2025-12-01.
    fn run(&self, records: &[&str]) -> anyhow::Result<ExitCode> {
        let mut arguments =
            vec!["run-job".to_owned(), "monitor".to_owned(), "--as-of".to_owned(), "2025-12-01".to_owned()];
        arguments.extend(["--watch".to_owned(), self.path("watch.txt"), "--records".to_owned()]);
        arguments.extend(records.iter().map(|name| self.path(name)));
        let Job::Monitor(order) = Program::try_parse_from(arguments)?.job;
        monitor(&order, Some(Path::new(&self.path("audit.jsonl"))))
    }

    fn trail(&self, number: Option<&str>) -> Trail {
        let log = std::sync::Arc::new(AuditLog::at(Path::new(&self.path("audit.jsonl"))));
        let place = Place::Before(u64::MAX);
        let wanted = Wanted {
            account: OPERATOR.to_owned(),
            number: number.map(str::to_owned),
            days: None,
            place,
            limit: ENTRIES_MAX,
        };
        let mut reading = Reading::new(log, wanted);
        loop {
            if let Some(trail) = reading.step().unwrap() {
                return trail;
            }
        }
    }

    /// The values of a member in all entries, oldest first.
    fn logged(&self, member: &str) -> Vec<String> {
        let value = |line: &String| serde_json::from_str::<Value>(line).unwrap()[member].as_str().unwrap().to_owned();
        self.trail(None).entries.iter().map(value).collect()
    }
}

fn line(number: &str, process: &str, updated: &str, disposed: &str) -> String {
    format!("1,{number},{process},0,1,1,1,2023-10-01,{updated},{disposed},,,,,,,,,,,,,,\n")
}

#[test]
fn b38_a_batch_finds_revoked_numbers_and_logs_all() {
    let bench = Bench::new("\u{feff}# ours\nT7000012050002\n\nT1180301018771\r\n");
    let of = |more: Value| json!({"T7000012050002": more}).to_string();
    bench.write("records.json", &of(json!({"registrationDate": "2023-10-01"})));
    assert_eq!(bench.run(&["records.json"]).unwrap(), ExitCode::SUCCESS);
    bench.write("records.json", &of(json!({"registrationDate": "2023-10-01", "disposalDate": "2025-11-01"})));
    assert_eq!(bench.run(&["records.json"]).unwrap(), ExitCode::FAILURE);
    let trail = bench.trail(Some("T7000012050002"));
    let status = |line: &String| serde_json::from_str::<Value>(line).unwrap()["status"].as_str().unwrap().to_owned();
    let states: Vec<String> = trail.entries.iter().map(status).collect();
    assert_eq!((states, trail.broken_at, trail.head.seq), (vec!["active".to_owned(), "revoked".to_owned()], None, 4));
    // files that contain no records
    for (name, text) in [("empty", ""), ("blank", " \n"), ("broken", "{\"T1\": "), ("words", "a,b\n")] {
        bench.write(name, text);
        let error = bench.run(&[name]).unwrap_err();
        assert!(error.to_string().contains(name), "{error}");
    }
    assert!(bench.run(&["none"]).is_err() && bench.run(&[]).is_err());
    assert_eq!(bench.trail(None).head.seq, 4);
}

#[test]
fn e2_a_line_that_is_no_number_is_trouble_and_the_other_lines_are_checked() {
    let records = line("T7000012050002", "01", "2023-09-01", "");
    for bad in ["T17001500070", "T70000120500022", "invoice", "T1234567890123", "7000-0120-5000"] {
        let bench = Bench::new(&format!("T7000012050002\n# none\n{bad}\n"));
        bench.write("k_all.csv", &records);
        assert_eq!(bench.run(&["k_all.csv"]).unwrap(), ExitCode::from(TROUBLE), "{bad}");
        let lines = lines(Path::new(&bench.path("watch.txt"))).unwrap();
        assert_eq!((lines[1].at, lines[1].text.as_str()), (3, bad));
        let status = if bad == "T1234567890123" { "check_digit_mismatch" } else { "format_error" };
        assert_eq!(bench.logged("status"), ["active", status]);
    }
    // other spellings of a number are numbers, and a number without a record is no trouble
    let bench = Bench::new("Ｔ７０００－０１２０－５０００２\n t7000012050002 \n7000012050002\nT1180301018771\n");
    bench.write("k_all.csv", &records);
    assert_eq!(bench.run(&["k_all.csv"]).unwrap(), ExitCode::SUCCESS);
    assert_eq!(bench.logged("status"), ["active", "active", "active", "not_found"]);
}

#[test]
fn b10_full_files_and_daily_differences_are_applied_in_their_order() {
    let bench = Bench::new("T7000012050002\nT1180301018771\nT9011001029597\nT1000011000005\n");
    let head = |date: &str| format!("\u{feff}{date},1,1,1\r\n");
    bench.write("k_all_20251031.csv", &line("T1000011000005", "01", "2023-09-01", ""));
    let corporations = [line("T7000012050002", "01", "2023-09-01", ""), line("T1180301018771", "01", "2023-09-01", "")];
    bench.write("h_all_20251031.csv", &format!("{}{}", head("2025-10-31"), corporations.concat()));
    bench.write("j_all_20251031.csv", &line("T9011001029597", "01", "2023-09-01", ""));
    bench.write("diff_20251103.csv", &line("T7000012050002", "04", "2025-11-02", "2025-11-01"));
    // taken back on the next day, with the same day of update
    let restored = json!([{"number": "T7000012050002", "process": "02", "latest": "1", "registrationDate": "2023-10-01",
        "updateDate": "2025-11-02"}]);
    bench.write("diff_20251104.json", &restored.to_string());
    bench.write("diff_20251105.csv", &line("T9011001029597", "04", "2025-11-05", "2025-11-04"));
    let deleted = line("T1000011000005", "99", "2025-11-06", "").replace(",0,1,1,1,2023-10-01,", ",,,,,,");
    bench.write("diff_20251106.csv", &deleted);
    let full = ["j_all_20251031.csv", "h_all_20251031.csv", "k_all_20251031.csv"];
    assert_eq!(bench.run(&full).unwrap(), ExitCode::SUCCESS);
    let shuffled = [
        "diff_20251106.csv",
        "diff_20251104.json",
        "k_all_20251031.csv",
        "diff_20251103.csv",
        "diff_20251105.csv",
        "h_all_20251031.csv",
        "j_all_20251031.csv",
    ];
    assert_eq!(bench.run(&shuffled).unwrap(), ExitCode::FAILURE);
    let status = |number: &str| {
        let trail = bench.trail(Some(number));
        let last: Value = serde_json::from_str(trail.entries.back().unwrap()).unwrap();
        last["status"].as_str().unwrap().to_owned()
    };
    let states = ["T7000012050002", "T1180301018771", "T9011001029597", "T1000011000005"].map(status);
    assert_eq!(states, ["active", "active", "revoked", "not_found"]);
    // the digest is that of the files in the order in which they are read
    let digests = bench.logged("records_sha256");
    assert_eq!(
        bench
            .run(&[shuffled[5], shuffled[6], shuffled[2], shuffled[3], shuffled[1], shuffled[4], shuffled[0]])
            .unwrap(),
        ExitCode::FAILURE
    );
    assert_eq!(
        (&bench.logged("records_sha256")[8], &bench.logged("source")[4]),
        (&digests[4], &"diff_20251106.csv and 6 more".to_owned())
    );
}

#[test]
fn b10_files_are_ordered_by_the_dates_in_their_names() {
    let mut names =
        ["diff.csv", "diff_20251103.csv", "k_all_20251103_2.csv", "h_all.csv", "diff_20251102.zip.csv", "12345678.csv"];
    names.sort_by_key(|name| order_of(Path::new(name)));
    assert_eq!(
        names,
        ["12345678.csv", "h_all.csv", "diff_20251102.zip.csv", "k_all_20251103_2.csv", "diff_20251103.csv", "diff.csv"]
    );
    assert_eq!(date_in(Path::new("/20240101/k_all_20251103.csv")).unwrap().to_string(), "2025-11-03");
}
