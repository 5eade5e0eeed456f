//! The list of a node's periodic work. Work that waits for more than time is not in the list: deliveries of events
//! (`events::deliver`) also wait for the ends of attempts, and the connection to the cache store (`cache_store::keep`)
//! and the lockouts of other nodes (`access::limits`) wait for news.

use std::time::Duration;

use anyhow::Context;

use crate::compute::numbers::keys::at_rest;
use crate::compute::operation::life::line;
use crate::compute::{Compute, lease};
use crate::docs::health::LostDevices;
use crate::events::deliver;
use crate::periodic::Periodic;
use crate::router::Areas;
use crate::web::idempotency;
use crate::{billing, database_clock, office};

/// Returns the periodic work of a node: name, period, state and function. `believed_for`: how long the node may not
/// know the lockouts of other nodes.
pub fn list(areas: &Areas, believed_for: Duration) -> Vec<Periodic> {
    let (access, compute) = (|| areas.access.clone(), || areas.compute.clone());
    let mut list = vec![
        Periodic::new("lease_on_claims", idempotency::RENEWAL, areas.web.clone(), |web| {
            Box::pin(checked(web.answers.renew_generation()))
        }),
        Periodic::new("request_counts", Duration::from_millis(100), access(), |access| {
            Box::pin(done(access.limits.flush(access.clock.now())))
        }),
        Periodic::new("lockouts", believed_for, access(), |access| {
            Box::pin(done(access.limits.exchange_lockouts(access.clock.now())))
        })
        .waits_first(),
        Periodic::new("expired_limits", seconds(60), access(), |access| {
            Box::pin(done(access.limits.sweep(access.clock.now())))
        })
        .waits_first(),
        Periodic::new("clock", seconds(5), compute(), |compute| {
            Box::pin(checked(database_clock::follow(&compute.store, &compute.clock)))
        }),
        Periodic::new("lease", seconds(5), compute(), |compute| {
            Box::pin(checked(lease::renew(&compute.store, &compute.sessions.node_id, compute.clock.now())))
        }),
        Periodic::new("reservations_of_dead_nodes", seconds(5), compute(), |compute| {
            Box::pin(checked(lease::give_back_forsaken(compute)))
        }),
        Periodic::new("reservations_left_behind", seconds(5), compute(), |compute| {
            Box::pin(checked(compute.ledger.give_back_left_behind()))
        }),
        Periodic::new("dead_nodes", seconds(3600), compute(), |compute| Box::pin(checked(lease::forget(compute)))),
        // the keys of sessions that ended must be overwritten within 5 s (readings G3)
        Periodic::new("deleted_sessions", seconds(1), compute(), |compute| {
            Box::pin(checked(compute.sessions.end_what_was_deleted_elsewhere()))
        }),
        Periodic::new("expired_sessions", seconds(1), (compute(), LostDevices::default()), |(compute, lost)| {
            // nothing here waits, so a database that hangs does not delay the erasure
            compute.sessions.erase_expired();
            lost.watch(&compute.workers.devices());
            compute.telemetry.upkeep();
            Box::pin(std::future::ready(Ok(())))
        }),
        Periodic::new("sessions_of_the_fleet", seconds(1), compute(), |compute| {
            Box::pin(checked(look_after_fleet(compute)))
        }),
        Periodic::new("waiting_line", Duration::from_millis(250), compute(), |compute| {
            Box::pin(done(line::release(compute.clone())))
        }),
        Periodic::new("silent_releases", seconds(1), compute(), |compute| Box::pin(checked(line::sweep(compute)))),
        Periodic::new("records", seconds(1), compute(), |compute| Box::pin(look_after_records(compute))),
        office::jobs::periodic(&areas.office),
        Periodic::new("use_of_keys", seconds(60), access(), |access| Box::pin(done(access.api_keys.record_use())))
            .waits_first(),
        Periodic::new("old_records", seconds(3600), areas.clone(), |areas| Box::pin(done(forget_old(areas)))),
    ];
    list.extend(billing::jobs::periodic(&areas.billing));
    list
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Does work that logs its errors itself.
async fn done(work: impl Future<Output = ()>) -> anyhow::Result<()> {
    work.await;
    Ok(())
}

/// Does work whose errors the list logs.
async fn checked<E: Into<anyhow::Error>>(work: impl Future<Output = Result<(), E>>) -> anyhow::Result<()> {
    work.await.map_err(E::into)
}

/// Looks after the sessions of the fleet, if the node is a member of one.
async fn look_after_fleet(compute: &Compute) -> Result<(), store::Error> {
    if let Some(fleet) = compute.workers.fleet() {
        fleet.listen().await;
    }
    match compute.sessions.shared() {
        Some(shared) => compute.sessions.look_after_shared(shared).await,
        None => Ok(()),
    }
}

/// Records the ends of sessions and trials, looks after stored keys and ciphertexts, and bounds the database's log.
async fn look_after_records(compute: &Compute) -> anyhow::Result<()> {
    compute.sessions.record_expired().await;
    compute.end_trials().await;
    compute.vault.look_after(compute.clock.now()).await;
    at_rest::look_after(compute).await;
    // the last step: the database shortens its log only if no transaction still reads an older state
    compute.store.bound_wal().await.context("the database's write-ahead log could not be shortened")
}

/// Removes expired records and files.
async fn forget_old(Areas { web, access, events, compute, .. }: &Areas) {
    compute.forget_old().await;
    web.answers.forget_old(web.clock.now()).await;
    access.forget_old().await;
    deliver::forget_old(events).await;
}
