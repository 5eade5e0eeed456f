//! The ledger: no cap is exceeded, nothing is charged twice, and all sums agree.

use tokio::task::JoinSet;

use super::*;

const GATE: Wanted = Wanted::MilliYen(100);

fn units(fcu: i64, allowance: i64, beyond: BeyondAllowance) -> Wanted {
    Wanted::Fcu { fcu, allowance: Some(allowance), beyond }
}

fn made(fcu: i64, nano_usd: i64, milli_yen: i64) -> Reserved {
    Reserved::Made(Amounts { trial_operations: 0, fcu, nano_usd, milli_yen })
}

async fn set_budget(store: &Store, budget: &MonthlyCap) {
    store.write(async |tx| tx.set_monthly_cap(budget).await).await.unwrap();
}

async fn reserve(store: &Store, transfer_id: &str, wanted: Wanted) -> Reserved {
    store.reserve(reservation(transfer_id, "acct_1", wanted)).await.unwrap()
}

/// Posts a transfer of acct_1 under a plan with this allowance and 2,000 billionths of a dollar for a unit beyond it.
fn posting_of(transfer_id: &str, allowance: i64) -> Unit {
    let unit = posting(transfer_id, "acct_1");
    let posting = unit.posting.map(|one| Posting { allowance: Some(allowance), nano_usd_of_unit: 2_000, ..one });
    Unit { posting, ..unit }
}

async fn spent(store: &Store) -> i64 {
    store.used_in_month("acct_1", JANUARY).await.unwrap().spend.nano_usd()
}

/// Audits the ledger and checks that all sums agree.
async fn audited(store: &Store) -> AuditReport {
    let report = store.audit_ledger(100).await.unwrap();
    assert_eq!(without_work(&report), []);
    report
}

on_both! {
    async fn p8_two_hundred_gates_at_once_stop_exactly_at_the_cap(store: Store) {
        // the cap is one cent, which is 1.5 yen at 150 yen a dollar: enough for 15 gates of 0.1 yen
        set_budget(&store, &budget("acct_1")).await;
        let mut asked = JoinSet::new();
        for n in 0..200 {
            let store = store.clone();
            asked.spawn(async move {
                let transfer = format!("t_{n}");
                match reserve(&store, &transfer, GATE).await {
                    Reserved::Made(_) => store.submit(posting(&transfer, "acct_1")).await.map(|()| true).unwrap(),
                    refused => {
                        assert_eq!(refused, Reserved::CapReached { cap_nano_usd: 10_000_000 });
                        false
                    }
                }
            });
        }
        let passed = asked.join_all().await.into_iter().filter(|&passed| passed).count();
        assert_eq!((passed, spent(&store).await), (15, 10_000_000));
        assert_eq!(audited(&store).await.transfers, 15);
    }

    async fn p8_what_is_reserved_counts_until_it_is_given_back(store: Store) {
        set_budget(&store, &budget("acct_1")).await;
        assert_eq!(reserve(&store, "t_1", Wanted::MilliYen(1_500)).await, made(0, 0, 1_500));
        assert_eq!(spent(&store).await, 0);
        assert_eq!(reserve(&store, "t_2", Wanted::MilliYen(1)).await, Reserved::CapReached { cap_nano_usd: 10_000_000 });
        // the exhausted cap does not block free operations
        assert_eq!(reserve(&store, "t_3", units(5, 10, BeyondAllowance::Charged(2_000))).await, made(5, 0, 0));
        // the cap blocks neither another month nor another account
        let other = NewReservation { month: FEBRUARY.0, created_at: FEBRUARY.1, ..reservation("t_4", "acct_1", GATE) };
        assert_eq!(store.reserve(other).await.unwrap(), made(0, 0, 100));
        assert_eq!(store.reserve(reservation("t_5", "acct_2", GATE)).await.unwrap(), made(0, 0, 100));
        store.void_reservation("t_1", "acct_1", 20).await.unwrap();
        assert_eq!(reserve(&store, "t_6", Wanted::MilliYen(1_500)).await, made(0, 0, 1_500));
        assert_eq!(audited(&store).await.open, 4);
    }

    async fn p7_a_cap_blocks_when_it_is_hard_or_soft_overage_is_not_allowed(store: Store) {
        for (hard_cap, allow_soft_overage, blocks) in
            [(true, true, true), (true, false, true), (false, false, true), (false, true, false)]
        {
            set_budget(&store, &MonthlyCap { hard_cap, allow_soft_overage, ..budget("acct_1") }).await;
            let transfer = format!("t_{hard_cap}_{allow_soft_overage}");
            let refused = reserve(&store, &transfer, Wanted::MilliYen(1_501)).await;
            assert_eq!(matches!(refused, Reserved::CapReached { .. }), blocks, "{hard_cap} {allow_soft_overage}");
        }
        // an account without a cap can spend any amount
        let free = store.reserve(reservation("t_free", "acct_2", Wanted::MilliYen(1 << 40))).await.unwrap();
        assert_eq!(free, made(0, 0, 1 << 40));
    }

    async fn p21_a_cap_below_what_is_spent_blocks_at_once(store: Store) {
        assert_eq!(reserve(&store, "t_1", Wanted::MilliYen(3_000)).await, made(0, 0, 3_000));
        store.submit(posting("t_1", "acct_1")).await.unwrap();
        set_budget(&store, &budget("acct_1")).await;
        assert_eq!(reserve(&store, "t_2", Wanted::MilliYen(1)).await, Reserved::CapReached { cap_nano_usd: 10_000_000 });
        assert_eq!(spent(&store).await, 20_000_000);
    }

    async fn p6_units_beyond_the_allowance_are_refused_free_or_charged(store: Store) {
        assert_eq!(reserve(&store, "t_1", units(8, 10, BeyondAllowance::Refused)).await, made(8, 0, 0));
        assert_eq!(reserve(&store, "t_2", units(3, 10, BeyondAllowance::Refused)).await, Reserved::QuotaExceeded { fcu: 8, allowance: 10 });
        assert_eq!(reserve(&store, "t_3", units(3, 10, BeyondAllowance::Charged(2_000))).await, made(3, 2_000, 0));
        assert_eq!(reserve(&store, "t_4", units(3, 10, BeyondAllowance::Free)).await, made(3, 0, 0));
        assert_eq!(reserve(&store, "t_5", units(3, 10, BeyondAllowance::Charged(2_000))).await, made(3, 6_000, 0));
        let unlimited = Wanted::Fcu { fcu: 1 << 40, allowance: None, beyond: BeyondAllowance::Charged(2_000) };
        assert_eq!(reserve(&store, "t_6", unlimited).await, made(1 << 40, 0, 0));
        store.submit(posting_of("t_1", 10)).await.unwrap();
        store.submit(posting_of("t_3", 10)).await.unwrap();
        let used = store.used_in_month("acct_1", JANUARY).await.unwrap();
        assert_eq!((used.fcu, used.overage_nano_usd), (11, 2_000));
        audited(&store).await;
    }

    async fn p33_units_below_the_allowance_are_not_charged_when_work_in_flight_fails(store: Store) {
        let starter = |fcu| units(fcu, 1_000_000, BeyondAllowance::Charged(2_000));
        assert_eq!(reserve(&store, "t_used", starter(999_990)).await, made(999_990, 0, 0));
        store.submit(posting_of("t_used", 1_000_000)).await.unwrap();
        assert_eq!(reserve(&store, "t_fails", starter(10)).await, made(10, 0, 0));
        assert_eq!(reserve(&store, "t_works", starter(5)).await, made(5, 10_000, 0));
        store.void_reservation("t_fails", "acct_1", 20).await.unwrap();
        store.submit(posting_of("t_works", 1_000_000)).await.unwrap();
        let used = store.used_in_month("acct_1", JANUARY).await.unwrap();
        assert_eq!((used.fcu, used.overage_nano_usd), (999_995, 0));
        // the next units are charged from the allowance on
        assert_eq!(reserve(&store, "t_next", starter(7)).await, made(7, 4_000, 0));
        store.submit(posting_of("t_next", 1_000_000)).await.unwrap();
        assert_eq!(store.used_in_month("acct_1", JANUARY).await.unwrap().overage_nano_usd, 4_000);
        audited(&store).await;
    }

    async fn p33_postings_of_one_commit_are_charged_in_order(store: Store) {
        let five = units(5, 10, BeyondAllowance::Charged(2_000));
        for (transfer, nano_usd) in [("t_1", 0), ("t_2", 0), ("t_3", 10_000), ("t_4", 10_000)] {
            assert_eq!(reserve(&store, transfer, five).await, made(5, nano_usd, 0));
        }
        store.void_reservation("t_1", "acct_1", 20).await.unwrap();
        // units of one account that are asked together share a commit, in the order in which they were asked
        let (four, three, two) = tokio::join!(
            store.submit(posting_of("t_4", 10)), store.submit(posting_of("t_3", 10)), store.submit(posting_of("t_2", 10))
        );
        four.and(three).and(two).unwrap();
        // the last one goes beyond the allowance, but nothing was reserved for it
        assert_eq!(store.used_in_month("acct_1", JANUARY).await.unwrap().overage_nano_usd, 0);
        assert_eq!(reserve(&store, "t_5", five).await, made(5, 10_000, 0));
        store.submit(posting_of("t_5", 10)).await.unwrap();
        assert_eq!(store.used_in_month("acct_1", JANUARY).await.unwrap().overage_nano_usd, 10_000);
        audited(&store).await;
    }

    async fn p11_an_allowance_of_the_month_replaces_that_of_the_plan(store: Store) {
        let put = async |month, fcu| {
            store.write(async |tx| tx.put_month_allowance("acct_1", month, fcu).await).await.unwrap();
        };
        put(JANUARY, 4).await;
        put(JANUARY, 6).await;
        put(FEBRUARY.0, 1).await;
        assert_eq!(store.month_allowance("acct_1", JANUARY).await.unwrap(), Some(6));
        assert_eq!(store.month_allowance("acct_2", JANUARY).await.unwrap(), None);
        let refused = Reserved::QuotaExceeded { fcu: 0, allowance: 6 };
        let foretold = reservation("t_0", "acct_1", units(7, 10, BeyondAllowance::Refused));
        assert_eq!(store.would_reserve(&foretold).await.unwrap(), refused);
        assert_eq!(store.reserve(foretold).await.unwrap(), refused);
        assert_eq!(reserve(&store, "t_1", units(8, 10, BeyondAllowance::Charged(2_000))).await, made(8, 4_000, 0));
        // a plan without a limit has one in this month
        let unlimited = Wanted::Fcu { fcu: 1, allowance: None, beyond: BeyondAllowance::Charged(2_000) };
        assert_eq!(reserve(&store, "t_2", unlimited).await, made(1, 2_000, 0));
        store.submit(posting_of("t_1", 10)).await.unwrap();
        assert_eq!(store.used_in_month("acct_1", JANUARY).await.unwrap().overage_nano_usd, 4_000);
        let reached = store.untold_alerts(9).await.unwrap();
        let reached: Vec<_> = reached.iter().map(|alert| (alert.threshold, alert.of_limit, alert.used)).collect();
        assert_eq!(reached, [(50, 6, 8), (80, 6, 8), (100, 6, 8)]);
        // what was reserved under a smaller allowance is charged by the larger one
        put(JANUARY, 9).await;
        store.submit(posting_of("t_2", 10)).await.unwrap();
        assert_eq!(store.used_in_month("acct_1", JANUARY).await.unwrap().overage_nano_usd, 4_000);
        store.write(async |tx| tx.forget_month_allowance("acct_1", JANUARY).await).await.unwrap();
        assert_eq!(store.month_allowance("acct_1", JANUARY).await.unwrap(), None);
        assert_eq!(reserve(&store, "t_3", units(1, 10, BeyondAllowance::Refused)).await, made(1, 0, 0));
        audited(&store).await;
    }

    async fn amounts_that_overflow_are_refused_and_nothing_is_counted(store: Store) {
        assert_eq!(reserve(&store, "t_1", Wanted::MilliYen(i64::MAX)).await, made(0, 0, i64::MAX));
        assert!(matches!(reserve(&store, "t_2", Wanted::MilliYen(1)).await, Reserved::CapReached { .. }));
        store.submit(posting("t_1", "acct_1")).await.unwrap();
        assert!(matches!(reserve(&store, "t_3", Wanted::MilliYen(1)).await, Reserved::CapReached { .. }));
        let dear = units(i64::MAX, 0, BeyondAllowance::Charged(2_000));
        assert_eq!(reserve(&store, "t_4", dear).await, made(i64::MAX, i64::MAX, 0));
        assert!(matches!(reserve(&store, "t_5", units(1, 0, BeyondAllowance::Charged(1))).await, Reserved::CapReached { .. }));
        assert_eq!(store.audit_ledger(100).await.unwrap().transfers, 2);
    }

    async fn p24_a_transfer_is_settled_once(store: Store) {
        assert_eq!(reserve(&store, "t_1", GATE).await, made(0, 0, 100));
        store.submit(posting("t_1", "acct_1")).await.unwrap();
        store.void_reservation("t_1", "acct_1", 20).await.unwrap();
        assert!(matches!(store.submit(posting("t_1", "acct_1")).await, Err(Error::ReservationLost)));
        assert!(matches!(store.submit(posting("t_none", "acct_1")).await, Err(Error::ReservationLost)));
        assert_eq!(reserve(&store, "t_2", GATE).await, made(0, 0, 100));
        store.void_reservation("t_2", "acct_1", 20).await.unwrap();
        let unit = Unit { posting: posting("t_2", "acct_1").posting, ..begin(operation("op_1")) };
        assert!(matches!(store.submit(unit).await, Err(Error::ReservationLost)));
        // the other effects of the failed unit are undone too: there is no operation
        assert_eq!(recorded(&store, "op_1").await, None);
        assert_eq!(spent(&store).await, 666_667);
        assert_eq!(audited(&store).await.open, 0);
    }

    async fn p8_reservations_of_nodes_that_are_gone_are_found(store: Store) {
        store.renew_lease("node_1", 100).await.unwrap();
        store.renew_lease("node_2", 50).await.unwrap();
        for (transfer, node, created_at) in
            [("t_1", "node_1", 10), ("t_2", "node_2", 10), ("t_3", "node_3", 10), ("t_4", "node_3", 70)]
        {
            let of_node = NewReservation { node_id: node.to_owned(), created_at, ..reservation(transfer, "acct_1", GATE) };
            assert_eq!(store.reserve(of_node).await.unwrap(), made(0, 0, 100));
        }
        let ids = |lost: Vec<LostReservation>| lost.into_iter().map(|lost| lost.transfer_id).collect::<Vec<_>>();
        assert_eq!(ids(store.forsaken_reservations("node_1", 60, 9).await.unwrap()), ["t_2", "t_3"]);
        assert_eq!(ids(store.forsaken_reservations("node_1", 60, 1).await.unwrap()), ["t_2"]);
        // a node does not regard itself as gone, even after the end of its own lease
        assert_eq!(ids(store.forsaken_reservations("node_2", 60, 9).await.unwrap()), ["t_3"]);
        assert_eq!(ids(store.reservations_of_node("node_3", "", 9).await.unwrap()), ["t_3", "t_4"]);
        // a node whose clock is ahead takes no reservation of a process that lives by the database's clock
        store.begin_generation("node_2", 1, 3_600_000_000).await.unwrap();
        assert_eq!(ids(store.forsaken_reservations("node_1", i64::MAX, 9).await.unwrap()), ["t_3", "t_4"]);
        assert_eq!(store.forget_nodes(i64::MAX).await.unwrap(), 1);
        assert!(store.renew_generation("node_2", 1, 3_600_000_000).await.unwrap());
    }
}
