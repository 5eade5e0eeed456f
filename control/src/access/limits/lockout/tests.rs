//! Tests of lockouts under a flood of failed attempts.

use super::*;

fn digest(kind: u8, number: usize) -> Digest {
    let mut digest = [kind; 32];
    digest[..8].copy_from_slice(&number.to_be_bytes());
    digest
}

fn network(number: usize) -> Digest {
    digest(1, number)
}

fn key(number: usize) -> Digest {
    digest(2, number)
}

#[tokio::test]
async fn a20_a_flood_of_made_up_keys_fills_no_memory_and_neither_frees_nor_locks_anybody_else() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite:{}", folder.path().join("test.db").display())).await.unwrap();
    let lockouts = Lockouts::new(store);
    let mut now = Timestamp(1_000_000_000_000_000);
    let (locked_network, locked_key, honest_network, honest_key) =
        (network(usize::MAX), key(usize::MAX), network(usize::MAX - 1), key(usize::MAX - 1));
    for number in 0..ADDRESS_FAILURES_MAX {
        lockouts.failed(Some(locked_network), Some(key(usize::MAX - 100 - number)), now);
    }
    for number in 0..KEY_FAILURES_MAX {
        lockouts.failed(Some(network(usize::MAX - 100 - number)), Some(locked_key), now);
    }
    // an honest user mistypes three times
    for number in 0..3 {
        lockouts.failed(Some(honest_network), Some(key(usize::MAX - 200 - number)), now);
    }

    // the flood sends ten keys from each of its networks; one more network keeps failing throughout
    let stubborn = network(usize::MAX - 2);
    for number in 0..3 * SUBJECTS_MAX {
        now = now.plus(Duration::from_micros(500));
        let from = if number % 1000 == 0 { stubborn } else { network(number / 10) };
        lockouts.failed(Some(from), Some(key(number)), now);
        assert!(lockouts.known.lock().subjects.len() <= SUBJECTS_MAX);
    }
    let known = lockouts.known.lock();
    assert!(known.untold.len() <= SUBJECTS_MAX && known.untold.iter().all(|one| known.subjects.contains_key(one)));
    drop(known);
    let is_locked = |subject| lockouts.check([Some(subject), None], now).is_err();
    assert!(is_locked(locked_network) && is_locked(locked_key) && is_locked(stubborn));
    assert!(!is_locked(honest_network) && !is_locked(honest_key));
    assert!(!is_locked(network(3 * SUBJECTS_MAX / 10 - 1)));
}

#[tokio::test]
async fn a20_locked_subjects_alone_do_not_fill_the_memory_either() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite:{}", folder.path().join("test.db").display())).await.unwrap();
    let lockouts = Lockouts::new(store);
    let mut now = Timestamp(1_000_000_000_000_000);
    for number in 0..SUBJECTS_MAX + 10 {
        now = now.plus(Duration::from_micros(10));
        (0..KEY_FAILURES_MAX).for_each(|_| lockouts.failed(None, Some(key(number)), now));
    }
    assert!(lockouts.known.lock().subjects.len() <= SUBJECTS_MAX);
    assert!(lockouts.check([None, Some(key(SUBJECTS_MAX))], now).is_err());
}

#[tokio::test]
async fn a20_what_the_database_says_after_the_clock_was_set_back_makes_no_told_wait_longer() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&format!("sqlite:{}", folder.path().join("test.db").display())).await.unwrap();
    let before = Timestamp(1_000_000_000_000_000);
    // `told` is the time from the first refusal until the node writes the failures: a second, or the whole wait that
    // the caller was shown
    for (number, (back_s, told)) in [(3600, Duration::from_secs(1)), (60, USER_WAIT_MAX)].into_iter().enumerate() {
        let (lockouts, user) = (Lockouts::new(store.clone()), key(number));
        (0..USER_FAILURES_KEPT).for_each(|_| lockouts.count(user, LockoutKind::User, before));
        let back = Timestamp(before.0 - back_s * 1_000_000);
        assert!(lockouts.check([Some(user)], back).is_err());
        // the database returns the same failures, with the end of the lock by the clock before it was set back
        lockouts.exchange(back.plus(told)).await;
        assert!(lockouts.check([Some(user)], back.plus(USER_WAIT_MAX)).is_ok(), "{back_s}");
    }
}
