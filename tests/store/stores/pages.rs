//! Pages of lists (readings I7): nothing is skipped or repeated, whatever is inserted between two pages.

use rand_chacha::ChaCha20Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

use super::*;

/// Number of rounds of random insertions. Each round has another seed.
const ROUNDS: u64 = 30;

/// Returns a random number below `end`.
fn below(random: &mut ChaCha20Rng, end: u32) -> u32 {
    random.next_u32() % end
}

fn session_at(digest: &[u8; 32], created_at: i64, expires_at: i64) -> NewGateSession<'_> {
    NewGateSession { created_at, expires_at, ..session(digest, "acct_1") }
}

on_both! {
    async fn i7_sessions_that_come_while_somebody_pages_are_neither_skipped_nor_repeated(store: Store) {
        for account in ["acct_1", "acct_2"] {
            store.insert_api_key(&key(&[account.as_bytes()[5]; 32], account, account)).await.unwrap();
        }
        for seed in 0..ROUNDS {
            println!("seed {seed}");
            let mut random = ChaCha20Rng::seed_from_u64(seed);
            // the sessions of a round expire before the next round begins; another account opens sessions at the same
            // times
            let (start, end) = (1000 * seed as i64, 1000 * seed as i64 + 900);
            let mut clock = start;
            let mut made = Vec::new();
            let mut insert = async |random: &mut ChaCha20Rng, clock: &mut i64| {
                // every second session, on average, is made at the same time as the session before
                *clock += i64::from(below(random, 2));
                let mut digest = [0; 32];
                random.fill_bytes(&mut digest);
                open(&store, &session_at(&digest, *clock, end)).await;
                let of_another = NewGateSession { account_id: "acct_2", ..session_at(&digest, *clock, end) };
                let mut other = digest;
                other[0] ^= 1;
                open(&store, &NewGateSession { digest: &other, ..of_another }).await;
                made.push((*clock, digest.to_vec()));
            };
            for _ in 0..below(&mut random, 30) {
                insert(&mut random, &mut clock).await;
            }
            // rows that are inserted from here on are newer than all existing rows
            clock += 1;
            let first_new = clock;
            let limit = i64::from(1 + below(&mut random, 7));
            let (mut seen, mut after) = (Vec::new(), None::<(i64, Vec<u8>)>);
            loop {
                let from = after.as_ref().map(|(created_at, digest)| (*created_at, digest.as_slice()));
                let page = store.gate_sessions_page("acct_1", "node_1", start, from, limit).await.unwrap();
                assert_eq!(page.total, made_count(&store, start).await, "seed {seed}");
                assert!(page.rows.len() as i64 <= limit);
                let Some(last) = page.rows.last() else { break };
                after = Some((last.created_at, last.digest.clone()));
                seen.extend(page.rows.into_iter().map(|row| (row.created_at, row.digest)));
                for _ in 0..below(&mut random, 4) {
                    insert(&mut random, &mut clock).await;
                }
            }
            let mut expected: Vec<_> = made.into_iter().filter(|(at, _)| *at < first_new).collect();
            expected.sort_by(|a, b| b.cmp(a));
            // the pages show exactly the rows that existed when the first page was read
            assert_eq!(seen, expected, "seed {seed}");
        }
    }

    async fn i7_deleted_and_expired_rows_are_not_counted(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        for n in 0..5 {
            open(&store, &session_at(&[n; 32], 10, 100 + i64::from(n))).await;
        }
        let page = async |now, after, rows_max| {
            store.gate_sessions_page("acct_1", "node_1", now, after, rows_max).await.unwrap()
        };
        assert_eq!((page(20, None, 2).await.rows.len(), page(20, None, 2).await.total), (2, 5));
        store.end_gate_session(&[3; 32], SessionEnd::Deleted, 20).await.unwrap();
        assert_eq!(page(20, None, 2).await.total, 4);
        assert_eq!(page(101, None, 2).await.total, 2);
        // a page that begins after the last row is empty, and still has the total
        assert_eq!(page(20, Some((10, &[0; 32][..])), 2).await, PageRows { rows: Vec::new(), total: 4 });
    }

    async fn a_replaced_circuit_keeps_its_place(store: Store) {
        store.insert_api_key(&key(&[1; 32], "ak_1", "acct_1")).await.unwrap();
        let max = CircuitsMax { count: 10, bytes: 1000 };
        for (name, now) in [("a", 1), ("b", 2), ("c", 2), ("d", 3), ("b", 9)] {
            store.put_circuit(&circuit("acct_1", name, &NetlistPlace::Text("text".to_owned()), now), max).await.unwrap();
        }
        let names = async |after, rows_max| {
            let page = store.circuits_page("acct_1", after, rows_max).await.unwrap();
            assert_eq!(page.total, 4);
            page.rows.into_iter().map(|row| row.name).collect::<Vec<_>>()
        };
        assert_eq!(names(None, 2).await, ["d", "c"]);
        assert_eq!(names(Some((2, "c")), 9).await, ["b", "a"]);
        assert!(names(Some((1, "a")), 9).await.is_empty());
    }
}

/// Counts the active sessions of the first account that have not expired: the rows of one long page.
async fn made_count(store: &Store, now: i64) -> i64 {
    store.gate_sessions_page("acct_1", "node_1", now, None, 1000).await.unwrap().rows.len() as i64
}
