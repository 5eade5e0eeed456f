//! The operations that this process computes.

use std::collections::HashMap;
use std::sync::Arc;

use api::{AccountId, OperationId};
use parking_lot::Mutex;
use tokio::sync::watch;

/// The list of the operations that this process computes.
#[derive(Clone, Default)]
pub struct RunningOperations {
    list: Arc<Mutex<HashMap<OperationId, Entry>>>,
}

/// Which operations have a common largest number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Counted {
    /// The circuits of the session with this digest.
    Session([u8; 32]),
    /// The operations of this account for which no client waits.
    Background(AccountId),
}

/// As many operations run as may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMany;

struct Entry {
    counted: Option<Counted>,
    /// The receivers wait until the sender is dropped with the entry.
    ended: watch::Sender<()>,
}

/// An operation in the list. Dropping this value takes the operation out of the list. Drop it when the operation's end
/// is recorded, because a request that cancels the operation then reads the record.
pub struct Running {
    list: RunningOperations,
    op_id: OperationId,
}

impl RunningOperations {
    /// Adds an operation, unless `most` operations that are counted with it already run. An operation that is counted
    /// with no others is always added.
    pub fn begin(&self, op_id: OperationId, counted: Option<Counted>, most: usize) -> Result<Running, TooMany> {
        let mut list = self.list.lock();
        if counted.is_some() && list.values().filter(|entry| entry.counted == counted).count() >= most {
            return Err(TooMany);
        }
        list.insert(op_id.clone(), Entry { counted, ended: watch::Sender::new(()) });
        drop(list);
        Ok(Running { list: self.clone(), op_id })
    }

    /// Waits until an operation has ended and its end is recorded. `before` is called first, if the operation runs.
    /// Returns whether the operation ran.
    pub async fn ended(&self, op_id: &OperationId, before: impl FnOnce()) -> bool {
        let found = self.list.lock().get(op_id).map(|entry| entry.ended.subscribe());
        let Some(mut ended) = found else { return false };
        before();
        // an error is what is waited for: the sender was dropped
        while ended.changed().await.is_ok() {}
        true
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.list.list.lock().remove(&self.op_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u128) -> OperationId {
        OperationId::from_bits(number)
    }

    #[tokio::test]
    async fn an_operation_runs_until_its_value_is_dropped() {
        let list = RunningOperations::default();
        let running = list.begin(id(1), None, 0).unwrap();
        assert!(!list.ended(&id(2), || panic!("it does not run")).await);
        let (op_id, called) = (id(1), std::cell::Cell::new(false));
        let mut waiting = Box::pin(list.ended(&op_id, || called.set(true)));
        assert!(futures_util::poll!(&mut waiting).is_pending() && called.get());
        drop(running);
        assert!(waiting.await);
        assert!(!list.ended(&id(1), || ()).await);
    }

    #[test]
    fn operations_are_bounded_with_those_that_they_are_counted_with() {
        let list = RunningOperations::default();
        let session = |number: u8| Some(Counted::Session([number; 32]));
        let account = |number: u128| Some(Counted::Background(AccountId::from_bits(number)));
        let first = list.begin(id(1), session(1), 2).unwrap();
        let _second = list.begin(id(2), session(1), 2).unwrap();
        assert_eq!(list.begin(id(3), session(1), 2).err(), Some(TooMany));
        let others = [session(2), account(1), account(2), None, None];
        let _others = others.map(|counted| {
            let number = list.list.lock().len() as u128;
            list.begin(id(100 + number), counted, 1).unwrap()
        });
        assert_eq!(list.begin(id(4), account(1), 1).err(), Some(TooMany));
        drop(first);
        assert!(list.begin(id(3), session(1), 2).is_ok());
    }
}
