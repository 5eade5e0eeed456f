//! The audit log: what readers see, and what writers leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

fn batch(account: &str) -> Batch<'_> {
    Batch {
        at: "2025-11-30T00:00:00.000Z".to_owned(),
        account,
        operation: "verify",
        as_of: "2025-11-30".to_owned(),
        source: None,
        records_sha256: None,
    }
}

fn open(folder: &Path) -> Arc<AuditLog> {
    Arc::new(AuditLog::at(&folder.join("audit.jsonl")))
}

fn log(folder: &Path) -> Arc<AuditLog> {
    let log = open(folder);
    for number in ["T1", "T2", "T3"] {
        log.append(vec![batch("a").entry(number, "active"), batch("b").entry(number, "active")]).unwrap();
    }
    log
}

/// Adds this many entries of the accounts a, b and c in turn; the entry of the line `n` has the number `Tn`.
fn fill(log: &AuditLog, count: u64) {
    let entry = |at: u64| batch(["a", "b", "c"][(at % 3) as usize]).entry(&format!("T{}", at + 1), "active");
    log.append((0..count).map(entry).collect()).unwrap();
}

fn page(log: &Arc<AuditLog>, account: &str, number: Option<&str>, place: Place, limit: usize) -> Trail {
    let wanted = Wanted { account: account.to_owned(), number: number.map(str::to_owned), days: None, place, limit };
    read(&mut Reading::new(log.clone(), wanted))
}

fn read(reading: &mut Reading) -> Trail {
    loop {
        if let Some(trail) = reading.step().unwrap() {
            return trail;
        }
    }
}

/// Begins a page of the account's entries of December days.
fn of_days(log: &Arc<AuditLog>, account: &str, [first, last]: [u8; 2], place: Place, limit: usize) -> Reading {
    let day = |day| time::Date::from_calendar_date(2025, time::Month::December, day).unwrap();
    let days = Some(Days { first: day(first), last: day(last) });
    Reading::new(log.clone(), Wanted { account: account.to_owned(), number: None, days, place, limit })
}

/// Adds an entry of the account in the morning of this day of December, in Japan.
fn add(log: &AuditLog, account: &str, day: u64, number: &str) {
    // 8 o'clock in Japan is on the day before in UTC
    let at = format!("2025-12-{:02}T23:00:00.000Z", day - 1);
    log.append(vec![Batch { at, ..batch(account) }.entry(number, "active")]).unwrap();
}

fn newest(log: &Arc<AuditLog>, account: &str) -> Trail {
    page(log, account, None, Place::Before(u64::MAX), ENTRIES_MAX)
}

fn seqs(trail: &Trail) -> Vec<u64> {
    let seq = |line: &String| serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
    trail.entries.iter().map(seq).collect()
}

/// Replaces a text in the file, at its place.
fn change(log: &AuditLog, from: &str, to: &str) {
    let text = std::fs::read_to_string(&log.path).unwrap();
    assert!(text.contains(from));
    std::fs::write(&log.path, text.replacen(from, to, 1)).unwrap();
}

#[test]
fn b39_an_account_sees_its_own_entries_of_a_whole_chain() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let trail = newest(&log, "a");
    assert_eq!((trail.entries_total, trail.broken_at, trail.head.seq, seqs(&trail)), (3, None, 6, vec![1, 3, 5]));
    assert_eq!(seqs(&page(&log, "b", Some("T2"), Place::Before(u64::MAX), 9)), [4]);
    assert!(newest(&log, "c").entries.is_empty());
    let none = Arc::new(AuditLog::at(&folder.path().join("none")));
    assert_eq!(newest(&none, "a"), Trail::default());
}

#[test]
fn b39_changed_missing_and_reordered_lines_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let text = std::fs::read_to_string(&log.path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let broken = |lines: &[&str]| {
        std::fs::write(&log.path, lines.iter().map(|line| format!("{line}\n")).collect::<String>()).unwrap();
        // a log that was read before, and one that was not, find the same
        let found = newest(&log, "a").broken_at;
        assert_eq!(newest(&open(folder.path()), "a").broken_at, found);
        found
    };
    assert_eq!(broken(&lines), None);
    assert_eq!(broken(&[lines[1], lines[0]]), Some(1));
    assert_eq!(broken(&[lines[0], &lines[1].replace("active", "revoked"), lines[2]]), Some(2));
    // first the lines at the end are missing, then all lines, then the file itself
    assert_eq!(broken(&lines[..4]), Some(5));
    assert_eq!(broken(&[]), Some(1));
    std::fs::remove_file(&log.path).unwrap();
    assert_eq!(newest(&log, "a").broken_at, Some(1));
    // the missing lines are found even after a further entry was added
    assert_eq!(broken(&lines[..4]), Some(5));
    log.append(vec![batch("a").entry("T9", "active")]).unwrap();
    assert_eq!(newest(&log, "a").broken_at, Some(5));
    // and the log is whole again when the lines are back
    std::fs::write(&log.path, &text).unwrap();
    std::fs::write(log.head_path(), lines[5]).unwrap();
    assert_eq!(newest(&log, "a").broken_at, None);
}

#[test]
fn half_a_line_is_no_line_and_is_cut_off_when_something_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let mut file = OpenOptions::new().append(true).open(&log.path).unwrap();
    file.write_all(b"{\"account\":").unwrap();
    // another process may be writing this line now
    assert_eq!((newest(&log, "a").broken_at, newest(&log, "a").head.seq), (None, 6));
    log.append(vec![batch("a").entry("T9", "active")]).unwrap();
    let trail = newest(&log, "a");
    assert_eq!((trail.broken_at, trail.entries_total), (None, 4));
}

#[test]
fn many_writers_make_one_chain() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        let shared = open(folder.path());
        for at in 0..8 {
            // half of the writers are like other processes: they share nothing but the file
            let log = if at % 2 == 0 { shared.clone() } else { open(folder.path()) };
            scope.spawn(move || {
                for _ in 0..20 {
                    log.append(vec![batch("a").entry("T1", "active")]).unwrap();
                }
            });
        }
    });
    let trail = newest(&open(folder.path()), "a");
    assert_eq!((trail.broken_at, trail.entries_total), (None, 160));
}

#[test]
fn a2_pages_lead_through_all_entries_in_both_directions() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 2_000);
    let all: Vec<u64> = (1..=2_000).filter(|seq| (seq - 1) % 3 == 1).collect();
    for limit in [1, 7, 100, 10_000] {
        let (mut forward, mut after) = (Vec::new(), 0);
        while after < 2_000 {
            let trail = page(&log, "b", None, Place::After(after), limit);
            assert!(trail.entries.len() <= limit && trail.lines.0 == after && trail.lines.1 > after);
            forward.extend(seqs(&trail));
            after = trail.lines.1;
        }
        assert_eq!(forward, all, "{limit}");
        let (mut backward, mut before) = (Vec::new(), u64::MAX);
        while before > 1 {
            let trail = page(&log, "b", None, Place::Before(before), limit);
            assert!(trail.lines.1 == (before - 1).min(2_000) && trail.entries_total == all.len() as u64);
            backward.splice(0..0, seqs(&trail));
            before = trail.lines.0 + 1;
        }
        assert_eq!(backward, all, "{limit}");
    }
    // one number among all lines, and places outside the log
    assert_eq!(seqs(&page(&log, "c", Some("T1500"), Place::Before(u64::MAX), 10)), [1_500]);
    assert_eq!(seqs(&page(&log, "c", Some("T1500"), Place::After(0), 10)), [1_500]);
    for place in [Place::After(2_000), Place::After(u64::MAX), Place::Before(0), Place::Before(1)] {
        assert!(page(&log, "b", None, place, 10).entries.is_empty(), "{place:?}");
    }
    // a page behind the end leads on when there is something
    let end = page(&log, "b", None, Place::After(2_000), 10).lines;
    assert_eq!(end, (2_000, 2_000));
    log.append(vec![batch("b").entry("T5", "active")]).unwrap();
    assert_eq!(seqs(&page(&log, "b", None, Place::After(end.1), 10)), [2_001]);
}

#[test]
fn a2_a_change_of_lines_that_were_checked_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 3_000);
    let is_whole = || newest(&log, "a").broken_at;
    assert_eq!(is_whole(), None);
    // in place, with the same length, far from the page
    change(&log, "\"number\":\"T20\"", "\"number\":\"T29\"");
    assert_eq!(page(&log, "a", None, Place::Before(u64::MAX), 1).broken_at, Some(20));
    change(&log, "\"number\":\"T29\"", "\"number\":\"T20\"");
    assert_eq!(is_whole(), None);
    // and an entry of this node behind the change
    change(&log, "\"number\":\"T20\"", "\"number\":\"T29\"");
    log.append(vec![batch("a").entry("T1", "active")]).unwrap();
    assert_eq!(page(&log, "a", None, Place::Before(u64::MAX), 1).broken_at, Some(20));
    change(&log, "\"number\":\"T29\"", "\"number\":\"T20\"");
    assert_eq!(is_whole(), None);
    // and an entry of another process behind the change
    change(&log, "\"number\":\"T20\"", "\"number\":\"T29\"");
    open(folder.path()).append(vec![batch("a").entry("T1", "active")]).unwrap();
    assert_eq!(page(&log, "a", None, Place::Before(u64::MAX), 1).broken_at, Some(20));
}

#[test]
fn a2_a_change_that_leaves_no_trace_in_the_file_system_is_found_in_turn() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 3_000);
    assert_eq!(newest(&log, "a").broken_at, None);
    change(&log, "\"number\":\"T20\"", "\"number\":\"T29\"");
    // as if the time of the change had not moved
    log.known.lock().forget_the_file();
    let mut looks = 0;
    while page(&log, "a", None, Place::Before(u64::MAX), 1).broken_at != Some(20) {
        looks += 1;
        assert!(looks <= 3_000 / 256 + 1);
    }
    // a page whose own lines were changed finds it at once
    change(&log, "\"number\":\"T29\"", "\"number\":\"T20\"");
    assert_eq!(newest(&log, "a").broken_at, None);
    change(&log, "\"number\":\"T2998\"", "\"number\":\"T2999\"");
    log.known.lock().forget_the_file();
    assert_eq!(page(&log, "a", None, Place::Before(u64::MAX), 1).broken_at, Some(2_998));
}

#[test]
fn a2_a_log_that_was_rewritten_with_new_hashes_is_found_by_the_noted_end() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    assert_eq!(newest(&log, "a").broken_at, None);
    let other = tempfile::tempdir().unwrap();
    let forged = open(other.path());
    for _ in 0..6 {
        forged.append(vec![batch("a").entry("T1", "revoked")]).unwrap();
    }
    std::fs::copy(&forged.path, &log.path).unwrap();
    assert_eq!(newest(&log, "a").broken_at, Some(6));
}

#[test]
fn a2_a_long_log_keeps_few_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 1_500);
    assert_eq!(newest(&log, "a").broken_at, None);
    log.known.lock().join_blocks();
    fill(&log, 1_500);
    let trail = page(&log, "a", None, Place::After(0), 10_000);
    assert_eq!((trail.entries.len(), trail.broken_at), (1_000, None));
    assert_eq!(seqs(&page(&log, "c", Some("T1500"), Place::Before(u64::MAX), 10)), [1_500, 3_000]);
}

#[test]
fn a2_readers_hold_up_no_writer_and_see_only_whole_entries() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 1_000);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for account in ["a", "b", "c", "d"] {
            let (log, is_over) = (log.clone(), &is_over);
            scope.spawn(move || {
                let mut seen = 0;
                // each reader begins its next page before the others have ended theirs
                while !is_over.load(Ordering::Relaxed) {
                    let trail = newest(&log, account);
                    assert_eq!(trail.broken_at, None);
                    assert!(trail.head.seq >= seen, "the log grows");
                    seen = trail.head.seq;
                }
            });
        }
        // a writer that shares only the file, as another process does, and the node's own writers
        let writers: Vec<_> = [log.clone(), log.clone(), open(folder.path())]
            .into_iter()
            .map(|log| {
                scope.spawn(move || {
                    for at in 0..50 {
                        log.append(vec![batch("d").entry(&format!("T{at}"), "active"); 3]).unwrap();
                    }
                })
            })
            .collect();
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
    });
    let trail = newest(&log, "d");
    assert_eq!((trail.broken_at, trail.head.seq, trail.entries_total), (None, 1_450, 450));
}

#[test]
fn a2_a_line_that_no_reader_could_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let log = log(folder.path());
    let source = "局".repeat(30_000);
    let long = Batch { source: Some(&source), ..batch("a") };
    assert_eq!(log.append(vec![long.entry("T1", "active")]).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    assert_eq!((newest(&log, "a").broken_at, newest(&log, "a").head.seq), (None, 6));
}

#[test]
fn b39_entries_of_days_are_those_of_japan() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    // the clock was set back once, so days are in no order
    for (at, day) in [2, 3, 3, 9, 4, 20].into_iter().enumerate() {
        add(&log, "a", day, &format!("T{at}"));
        add(&log, "b", day, "T9");
    }
    let of = |days| seqs(&read(&mut of_days(&log, "a", days, Place::Before(u64::MAX), 10)));
    assert_eq!(
        (of([3, 4]), of([1, 31]), of([2, 2]), of([5, 8])),
        (vec![3, 5, 9], vec![1, 3, 5, 7, 9, 11], vec![1], vec![])
    );
    let page = |place, limit| {
        let trail = read(&mut of_days(&log, "a", [3, 9], place, limit));
        (seqs(&trail), trail.lines, trail.entries_total)
    };
    assert_eq!(page(Place::After(0), 2), (vec![3, 5], (0, 5), 6));
    assert_eq!(page(Place::After(5), 2), (vec![7, 9], (5, 9), 6));
    assert_eq!(page(Place::After(9), 2), (vec![], (9, 12), 6));
    assert_eq!(page(Place::Before(9), 2), (vec![5, 7], (4, 8), 6));
    // an entry that says no day is in no range
    log.append(vec![Batch { at: String::new(), ..batch("a") }.entry("T1", "active")]).unwrap();
    assert_eq!((of([1, 31]).len(), newest(&log, "a").entries.len()), (6, 7));
}

#[test]
fn b39_a_range_without_entries_is_not_searched_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    fill(&log, 2_000);
    add(&log, "a", 20, "T1");
    assert_eq!(newest(&log, "a").head.seq, 2_001);
    let mut reading = of_days(&log, "a", [2, 19], Place::After(0), 10);
    let trail = read(&mut reading);
    // one block is checked again, as with each page
    assert!(trail.entries.is_empty() && trail.lines == (0, 2_001) && reading.bytes_read() < 256 << 10, "{trail:?}");
    log.known.lock().join_blocks();
    assert_eq!(seqs(&read(&mut of_days(&log, "a", [2, 20], Place::Before(u64::MAX), 10))), [2_001]);
}

#[test]
fn b39_a_page_that_finds_nothing_within_its_bound_leads_on() {
    let folder = tempfile::tempdir().unwrap();
    let log = open(folder.path());
    // each block has an entry of the account and an entry of the day, but not of both
    for _ in 0..4 {
        fill(&log, 300);
        add(&log, "b", 20, "T1");
    }
    add(&log, "a", 20, "T1");
    let (mut found, mut after, mut pages) = (Vec::new(), 0, 0);
    while after < 1_205 {
        let trail = read(&mut of_days(&log, "a", [20, 20], Place::After(after), 10).of_one_block());
        assert!(trail.lines.1 > after);
        found.extend(seqs(&trail));
        (after, pages) = (trail.lines.1, pages + 1);
    }
    assert!(found == [1_205] && pages >= 4, "{found:?} {pages}");
}

#[test]
fn a_check_of_the_whole_log_finds_gaps_changes_and_a_missing_end() {
    let folder = tempfile::tempdir().unwrap();
    let (noted, chain) = open(folder.path()).check().unwrap();
    assert_eq!((noted, chain.head.seq, chain.broken_at), (None, 0, None), "there is no log yet");
    let log = log(folder.path());
    let (noted, chain) = log.check().unwrap();
    assert_eq!((noted.as_ref(), chain.head.seq, chain.broken_at), (Some(&chain.head), 6, None));
    let path = folder.path().join("audit.jsonl");
    let whole = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = whole.lines().collect();
    let ends = |text: String| {
        std::fs::write(&path, text).unwrap();
        let (noted, chain) = log.check().unwrap();
        assert_eq!(noted.map(|head| head.seq), Some(6));
        (chain.head.seq, chain.broken_at)
    };
    assert_eq!(ends(whole.clone() + &lines[5][..40]), (6, None), "a crash left half a line");
    assert_eq!(ends(lines[..4].join("\n") + "\n"), (4, None), "the end is missing");
    assert_eq!(ends(whole.replace("\"T2\"", "\"T9\"")), (2, Some(3)));
    assert_eq!(ends([&lines[..1], &lines[2..]].concat().join("\n") + "\n"), (1, Some(2)));
    assert_eq!(ends(whole.clone() + &"x".repeat(LINE_BYTES_MAX as usize + 1)), (6, Some(7)));
}
