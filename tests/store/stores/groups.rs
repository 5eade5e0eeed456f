//! Units of many callers in one commit: each unit has the same effect and answer as if it had a commit of its own.

use std::pin::pin;
use std::task::Poll;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tokio::task::JoinSet;

use super::*;

/// A caller's request to the store.
#[derive(Clone, Debug)]
enum Asked {
    GiveBack(String, String),
    Reserve(NewReservation),
    Submit(Box<Unit>),
    Claim(NewClaim),
    Release([u8; 32], [u8; 16]),
}

impl Asked {
    /// Sends the request. Returns the answer as text, or the kind of the failure.
    async fn ask(self, store: &Store) -> String {
        let kind = |error: Error| match error {
            Error::ClaimLost => "claim lost",
            Error::OperationEnded => "ended",
            Error::ReservationLost => "lost",
            _ => "refused",
        };
        let of = |result: Result<()>| result.map_or_else(kind, |()| "done").to_owned();
        match self {
            Asked::GiveBack(transfer, account) => of(store.void_reservation(&transfer, &account, 20).await),
            Asked::Reserve(reservation) => format!("{:?}", store.reserve(reservation).await.unwrap()),
            Asked::Submit(unit) => of(store.submit(*unit).await),
            Asked::Claim(claim) => match store.claim(claim).await {
                Ok(claimed) => format!("{claimed:?}"),
                Err(error) => kind(error).to_owned(),
            },
            Asked::Release(digest, claim) => of(store.release_claim(&digest, &claim).await),
        }
    }
}

/// Sends all requests at the same time, so that the requests for one writer form a group. Returns their answers.
async fn at_once(store: &Store, asked: Vec<Asked>) -> Vec<String> {
    let mut callers = JoinSet::new();
    for (at, asked) in asked.into_iter().enumerate() {
        let store = store.clone();
        callers.spawn(async move { (at, asked.ask(&store).await) });
    }
    let mut answers = callers.join_all().await;
    answers.sort_unstable();
    answers.into_iter().map(|(_, answer)| answer).collect()
}

async fn one_after_another(store: &Store, asked: Vec<Asked>) -> Vec<String> {
    let mut answers = Vec::new();
    for asked in asked {
        answers.push(asked.ask(store).await);
    }
    answers
}

/// Makes two trial accounts. The first account also gets three sessions and a cap on its spending.
async fn furnish(store: &Store) {
    for (digest, account) in [([1; 32], "acct_1"), ([2; 32], "acct_2")] {
        let (role, environment, expires_at) = (Role::Trial, Environment::Trial, Some(1000));
        store
            .insert_api_key(&NewApiKey { role, environment, expires_at, ..key(&digest, account, account) })
            .await
            .unwrap();
    }
    for n in 1..=3 {
        open(store, &session(&[n; 32], "acct_1")).await;
    }
    // claims of these tests are of this generation
    store.begin_generation("node", 1, 3_600_000_000).await.unwrap();
    let budget = MonthlyCap { cap_nano_usd: 20_000_000, ..budget("acct_1") };
    store.write(async |tx| tx.set_monthly_cap(&budget).await).await.unwrap();
}

/// Describes all effects of the requests on the store, as text.
async fn seen(store: &Store) -> String {
    let mut seen = format!("{:?}", store.gate_usage_totals("acct_1").await.unwrap());
    for n in 1..=3 {
        let session = store.gate_session("acct_1", &[n; 32]).await.unwrap().unwrap();
        seen += &format!(" {} {}", session.gates_used, session.total_cost_milli_yen);
    }
    for account in ["acct_1", "acct_2"] {
        seen += &format!(" {}", store.trial(account).await.unwrap().unwrap().operations_used);
        seen += &format!(" {:?}", store.used_in_month(account, JANUARY).await.unwrap());
    }
    let audit = store.audit_ledger(100).await.unwrap();
    assert_eq!(without_work(&audit), []);
    seen += &format!(" {} {} {}", audit.transfers, audit.balances, audit.open);
    for n in 0..12 {
        seen += &format!(" {:?}", store.operation("acct_1", &format!("op_{n}")).await.unwrap());
    }
    seen
}

struct Dice {
    random: ChaCha8Rng,
    /// Ids of the requested transfers, each with its account.
    transfers: Vec<(String, String)>,
}

impl Dice {
    fn below(&mut self, count: u32) -> u8 {
        (self.random.next_u32() % count) as u8
    }

    fn one_in(&mut self, count: u32) -> bool {
        self.below(count) == 0
    }

    /// Returns one of the eight latest transfers, chosen at random. Returns `None` if there are too few transfers.
    fn transfer(&mut self) -> Option<(String, String)> {
        let back = usize::from(self.below(8));
        self.transfers.iter().rev().nth(back).cloned()
    }

    fn kept(&mut self, now: i64) -> KeptAnswer {
        let (digest, claim) = ([self.below(12); 32], [self.below(3); 16]);
        KeptAnswer { digest, claim, answer: vec![claim[0]; 3], blob: None, held_until: now + 5, provisional: false }
    }

    /// Makes random requests that reserve, give back, or submit a unit. Some requests fail, because their session or
    /// claim is missing, or because they were done before.
    fn effects(&mut self, now: i64) -> Vec<Asked> {
        let mut asked = Vec::new();
        for at in 0..self.below(6) {
            let (transfer_id, account_id) = (format!("t_{now}_{at}"), format!("acct_{}", 1 + self.below(2)));
            let wanted = match self.below(3) {
                0 => Wanted::TrialOperations { count: i64::from(1 + self.below(4)), max: 10 },
                1 => Wanted::MilliYen(i64::from(self.below(9)) * 100),
                _ => Wanted::Fcu {
                    fcu: i64::from(self.below(30)),
                    allowance: Some(200),
                    beyond: if self.one_in(2) { BeyondAllowance::Refused } else { BeyondAllowance::Charged(2_000) },
                },
            };
            self.transfers.push((transfer_id.clone(), account_id.clone()));
            let usd_milli_jpy = 150_000 + i64::from(self.below(2));
            asked.push(Asked::Reserve(NewReservation {
                usd_milli_jpy,
                ..reservation(&transfer_id, &account_id, wanted)
            }));
        }
        // give back some of the transfers that were reserved last
        for _ in 0..self.below(3) {
            asked.extend(self.transfer().map(|(transfer, account)| Asked::GiveBack(transfer, account)));
        }
        let all_fine = self.one_in(2);
        for at in 0..self.below(20) {
            let digest = [1 + self.below(if all_fine { 3 } else { 4 }); 32];
            let id = if all_fine { format!("use_{now}_{at}") } else { format!("use_{}", self.below(200)) };
            let mut unit = charge(usage(&id, &digest));
            // of the account that is charged: units of two accounts may have two writers, so their order is not known
            if self.one_in(2)
                && let Some((transfer_id, account_id)) = self.transfer().filter(|(_, account)| account == "acct_1")
            {
                unit.posting = Some(Posting { transfer_id, account_id, allowance: None, nano_usd_of_unit: 0, at: now });
            }
            if self.one_in(2) {
                let operations = vec![("gate_and".to_owned(), 1), (format!("op_{}", self.below(3)), 2)];
                unit.counts = Some(OperationCounts { account_id: "acct_1".to_owned(), month: 1, operations });
            }
            if !all_fine && self.one_in(2) {
                unit.keep = Some(self.kept(now));
            }
            if !all_fine && self.one_in(3) {
                let op_id = format!("op_{}", self.below(12));
                unit.operation = Some(operation(&op_id));
                unit.operation_end = self.one_in(2).then(|| end(&op_id, OperationStatus::Completed, now));
            }
            asked.push(Asked::Submit(Box::new(unit)));
        }
        asked
    }

    /// Makes random claims and releases. Some are for a request that another request has claimed, and some for an
    /// unknown account.
    fn claims(&mut self, now: i64) -> Vec<Asked> {
        let mut asked = Vec::new();
        for _ in 0..self.below(16) {
            let account_id = if self.one_in(20) { "acct_none" } else { "acct_1" }.to_owned();
            let (digest, claim) = ([self.below(12); 32], [self.below(3); 16]);
            let (node_id, held_until) = ("node".to_owned(), now + 3);
            asked.push(Asked::Claim(NewClaim { digest, account_id, claim, node_id, generation: 1, held_until, now }));
        }
        for _ in 0..self.below(6) {
            asked.push(Asked::Release([self.below(12); 32], [self.below(3); 16]));
        }
        asked
    }
}

async fn groups_do_what_is_done_one_after_another(kind: Kind) {
    let (Some((_folder, grouped)), Some((_other, single))) = (new_store(kind).await, new_store(kind).await) else {
        return;
    };
    furnish(&grouped).await;
    furnish(&single).await;
    let mut dice = Dice { random: ChaCha8Rng::seed_from_u64(7), transfers: Vec::new() };
    for now in 0..60 {
        for asked in [dice.claims(now), dice.effects(now)] {
            let expected = one_after_another(&single, asked.clone()).await;
            assert_eq!(at_once(&grouped, asked.clone()).await, expected, "{now}: {asked:?}");
        }
        assert_eq!(seen(&grouped).await, seen(&single).await, "{now}");
    }
}

#[tokio::test]
async fn groups_do_what_is_done_one_after_another_sqlite() {
    groups_do_what_is_done_one_after_another(Kind::Sqlite).await;
}

#[tokio::test]
async fn groups_do_what_is_done_one_after_another_postgres() {
    groups_do_what_is_done_one_after_another(Kind::Postgres).await;
}

on_both! {
    async fn i3_thirty_two_callers_at_once_are_charged_once_each(store: Store) {
        furnish(&store).await;
        let mut callers = JoinSet::new();
        for caller in 0..32_u8 {
            let store = store.clone();
            callers.spawn(async move {
                for round in 0..10_u8 {
                    let (mut digest, claim) = ([caller; 32], [caller; 16]);
                    digest[0] = round;
                    let (account_id, node_id) = ("acct_1".to_owned(), "node".to_owned());
                    let new = NewClaim { digest, account_id, claim, node_id, generation: 1, held_until: 100, now: 1 };
                    assert_eq!(store.claim(new.clone()).await.unwrap(), Claimed::Mine);
                    let keep = KeptAnswer { digest, claim, answer: vec![round], blob: None, held_until: 200, provisional: false };
                    let usage = usage(&format!("use_{caller}_{round}"), &[1 + caller % 3; 32]);
                    store.submit(Unit { keep: Some(keep), ..charge(usage) }).await.unwrap();
                    let kept = Claimed::Kept { answer: vec![round], blob: None };
                    assert_eq!(store.claim(new).await.unwrap(), kept);
                }
            });
        }
        callers.join_all().await;
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (640, 1280, 128_000));
        let mut gates = 0;
        for n in 1..=3 {
            gates += store.gate_session("acct_1", &[n; 32]).await.unwrap().unwrap().gates_used;
        }
        assert_eq!(gates, 640);
    }

    async fn many_units_of_one_group_charge_one_session(store: Store) {
        furnish(&store).await;
        let units = (0..100).map(|n| Asked::Submit(Box::new(charge(usage(&format!("use_{n}"), &[1; 32])))));
        assert_eq!(at_once(&store, units.collect()).await, vec!["done"; 100]);
        let session = store.gate_session("acct_1", &[1; 32]).await.unwrap().unwrap();
        assert_eq!((session.gates_used, session.total_cost_milli_yen), (200, 40_000));
    }

    async fn a_unit_goes_on_though_its_caller_leaves(store: Store) {
        furnish(&store).await;
        {
            let mut left = pin!(store.submit(charge(usage("use_1", &[1; 32]))));
            std::future::poll_fn(|context| {
                assert!(left.as_mut().poll(context).is_pending());
                Poll::Ready(())
            })
            .await;
        }
        // the unit of the caller that left was given to the writer before this unit, so it is done when this unit is
        // done
        store.submit(charge(usage("use_2", &[1; 32]))).await.unwrap();
        assert_eq!(store.gate_usage_totals("acct_1").await.unwrap(), (4, 8, 800));
    }
}
