//! Workers that tests put between a node and its engine.

use std::sync::Arc;

use api::OperationId;
use control::work::{Ending, Here, Work, WorkEnd, WorkError, Worker, read_end, read_work, write_end, write_work};

/// Makes the worker that a node asks, from the worker of its process.
pub type Through = fn(Here) -> Arc<dyn Worker>;

/// Chooses the worker of a node. In tests, work and its end pass as bytes, as between machines. Benches are optimised
/// builds and ask the worker of the process itself.
pub fn chosen(here: Here) -> Arc<dyn Worker> {
    if cfg!(debug_assertions) { Arc::new(OverBytes { here }) } else { Arc::new(here) }
}

/// Writes all work and each end as bytes, and reads them back.
struct OverBytes {
    here: Here,
}

impl Worker for OverBytes {
    fn ask(&self, work: Work) -> Result<Ending, WorkError> {
        let (id, bytes) = (work.id.clone(), write_work(&work));
        let read = read_work(&bytes).expect("work is read as it was written");
        assert!(read.key == work.key && read.weight == work.weight, "a key keeps its name");
        assert_eq!(work.question.operands(), read.question.operands(), "operands keep their names");
        drop(work);
        let work = read;
        match self.here.ask(work) {
            Ok(ending) => Ok(Box::pin(async move { passed(&id, &ending.await) })),
            Err(error) => match passed(&id, &WorkEnd::Failed(error)) {
                WorkEnd::Failed(error) => Err(error),
                other => panic!("a failure became {other:?}"),
            },
        }
    }

    fn done(&self, id: &OperationId) -> Option<u64> {
        self.here.done(id)
    }

    fn cancel(&self, id: &OperationId) {
        self.here.cancel(id);
    }
}

fn passed(id: &OperationId, end: &WorkEnd) -> WorkEnd {
    let read = read_end(id, &write_end(id, end)).expect("an end is read as it was written");
    assert!(read == *end, "an end is the same after its way as bytes");
    read
}
