//! The statements of a fleet.

use store::*;

/// Runs the statements for keys and values of sessions, and for the waiting line. The session with the digest of ones is open.
pub async fn tour(store: &Store) -> store::Result<()> {
    store.fleet_key(&[1; 16]).await?;
    store.fleet_sessions_of("acct_1").await?;
    store.ended_fleet_keys(9).await?;
    store.forget_fleet_key(&[1; 32]).await?;
    store.fleet_key_objects().await?;
    store.fleet_key_bytes().await?;
    let value = NewSessionValue {
        name: "op_1-0".to_owned(),
        session_digest: [1; 32],
        of_run: Some(("op_1".to_owned(), 0)),
        object: "object".to_owned(),
        bytes: 8,
        bytes_max: 9,
    };
    store.submit(Unit { values: vec![value.clone()], ..Unit::default() }).await?;
    store.submit(Unit { values: vec![value], ..Unit::default() }).await.unwrap_err();
    store.session_value(&[1; 32], "op_1-0").await?;
    store.forget_outputs_of_run(&[1; 32], "op_1").await?;
    store.value_objects().await?;
    store.forget_values_of(&[1; 32]).await?;
    let waiting = NewWaiting {
        op_id: "op_9".to_owned(),
        account_id: "acct_1".to_owned(),
        counted: "account".to_owned(),
        counted_max: 9,
        cost: 1,
        weight: 1,
        left_us: 1,
        transfer_id: None,
        work_object: "object".to_owned(),
        booking: "{}".to_owned(),
    };
    store.submit(Unit { waiting: Some(waiting), ..Unit::default() }).await?;
    store.release_waiting(9, 9, 1).await?;
    store.note_progress("op_9", 1, 1, 1).await?;
    store.take_back_silent_releases().await?;
    store.take_back_release("op_9", 1).await?;
    store.drop_release("op_9", 1).await?;
    store.cancel_waiting("op_9").await?;
    store.note_checkpoint("op_9", 1, "object").await?;
    store.waiting("op_9").await?;
    store.waiting_line(9).await?;
    store.line_length().await?;
    store.begin_circuit("op_8", "session", "node_1", 9).await?;
    store.end_circuit("op_8").await?;
    store.forget_circuits().await?;
    store.take_units("addr_1@5", 1, 9, 5).await?;
    store.work_objects().await?;
    store.reservations_without_operation(9).await?;
    Ok(())
}
