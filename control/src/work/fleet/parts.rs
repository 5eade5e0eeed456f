//! The circuits that this node computes in independent parts, and their checkpoints.
//!
//! Each part is work with an id. The checkpoint of a circuit in parts has the last checkpoint of each part, so it is
//! one object of the operation, as the checkpoint of a circuit on one worker is.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use api::OperationId;
use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;

use super::access::{Checkpoints, Kept, Reading};

/// The first bytes of the checkpoint of a circuit in parts. A version that does not know them begins the circuit again.
const MAGIC: [u8; 8] = *b"parts\0\0\x01";
/// Largest number of parts.
pub const PARTS_MAX: usize = 16;

/// A part, in the list of parts and in a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartState {
    /// The id of the part's work.
    pub id: OperationId,
    /// The part's share of the circuit.
    pub share: u32,
    /// The part's last checkpoint. Empty: none.
    pub checkpoint: Bytes,
}

/// Writes a checkpoint: for each part its share (4 bytes, little-endian), the bits of its id (16), the length of its
/// checkpoint (8), the checkpoint.
pub fn write_checkpoint(parts: &[PartState]) -> Bytes {
    let mut bytes = BytesMut::from(&MAGIC[..]);
    for PartState { id, share, checkpoint } in parts {
        bytes.put_u32_le(*share);
        bytes.put_u128_le(id.bits());
        bytes.put_u64_le(checkpoint.len() as u64);
        bytes.put_slice(checkpoint);
    }
    bytes.freeze()
}

/// Reads the checkpoint of a circuit in parts. `None`: the bytes are none.
pub fn read_checkpoint(bytes: &Bytes) -> Option<Vec<PartState>> {
    let mut rest = bytes.strip_prefix(&MAGIC)?;
    let mut parts = Vec::new();
    while !rest.is_empty() {
        let (share, after) = rest.split_first_chunk::<4>()?;
        let (id, after) = after.split_first_chunk::<16>()?;
        let (length, after) = after.split_first_chunk::<8>()?;
        let (checkpoint, after) = after.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        parts.push(PartState {
            id: OperationId::from_bits(u128::from_le_bytes(*id)),
            share: Some(u32::from_le_bytes(*share)).filter(|share| *share > 0)?,
            checkpoint: bytes.slice_ref(checkpoint),
        });
        rest = after;
    }
    (2..=PARTS_MAX).contains(&parts.len()).then_some(parts)
}

/// A circuit that is computed in parts.
pub struct InParts {
    id: OperationId,
    parts: Vec<PartInList>,
    /// The gates that were done when the progress was last asked for. A part whose worker died begins again, and the
    /// progress stands meanwhile.
    told: AtomicU64,
    /// Held while a checkpoint is kept, so that no later checkpoint is replaced by an earlier one.
    states: tokio::sync::Mutex<Vec<PartState>>,
}

struct PartInList {
    id: OperationId,
    gates: u64,
    has_ended: AtomicBool,
}

impl InParts {
    /// Returns the ids of the parts that have not ended.
    pub fn running(&self) -> Vec<OperationId> {
        let running = self.parts.iter().filter(|part| !part.has_ended.load(Ordering::Relaxed));
        running.map(|part| part.id.clone()).collect()
    }

    /// Notes that a part has ended.
    pub fn ended(&self, at: usize) {
        self.parts[at].has_ended.store(true, Ordering::Relaxed);
    }

    /// Returns how many gates are done. `done`: how many gates of a part that runs are done. `None`: no part has begun.
    pub fn done(&self, done: impl Fn(&OperationId) -> Option<u64>) -> Option<u64> {
        let of_part = |part: &PartInList| match part.has_ended.load(Ordering::Relaxed) {
            true => Some(part.gates),
            false => done(&part.id),
        };
        let all = self.parts.iter().filter_map(of_part).reduce(|all, part| all + part)?;
        Some(all.max(self.told.fetch_max(all, Ordering::Relaxed)))
    }
}

/// The circuits that are computed in parts. A clone is the same list.
#[derive(Clone, Default)]
pub struct PartsList {
    list: Arc<Mutex<HashMap<OperationId, Arc<InParts>>>>,
}

/// A circuit in the list. Dropping this value takes it out.
pub struct Listed {
    list: PartsList,
    /// The circuit.
    pub of: Arc<InParts>,
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut list = self.list.list.lock();
        // the same operation may have been begun again meanwhile
        if list.get(&self.of.id).is_some_and(|of| Arc::ptr_eq(of, &self.of)) {
            list.remove(&self.of.id);
        }
    }
}

impl PartsList {
    /// Adds a circuit. Each part is given with its number of gates.
    pub fn begin(&self, id: OperationId, parts: Vec<(PartState, u64)>) -> Listed {
        let listed = |(state, gates): &(PartState, u64)| PartInList {
            id: state.id.clone(),
            gates: *gates,
            has_ended: AtomicBool::new(false),
        };
        let of = Arc::new(InParts {
            id: id.clone(),
            parts: parts.iter().map(listed).collect(),
            told: AtomicU64::new(0),
            states: tokio::sync::Mutex::new(parts.into_iter().map(|(state, _)| state).collect()),
        });
        self.list.lock().insert(id, of.clone());
        Listed { list: self.clone(), of }
    }

    /// Returns the circuit with this id.
    pub fn get(&self, id: &OperationId) -> Option<Arc<InParts>> {
        self.list.lock().get(id).cloned()
    }

    /// Returns the circuit that has this part, and the part's index.
    fn of_part(&self, id: &str) -> Option<(Arc<InParts>, usize)> {
        let list = self.list.lock();
        list.values().find_map(|of| {
            let at = of.parts.iter().position(|part| part.id.as_str() == id)?;
            Some((of.clone(), at))
        })
    }
}

/// Checkpoints of operations, some of which are computed in parts.
pub struct WithParts {
    /// Where the checkpoints are kept.
    pub checkpoints: Arc<dyn Checkpoints>,
    /// The circuits in parts.
    pub list: PartsList,
}

impl WithParts {
    /// Keeps that a circuit is computed in these parts, so that the next node splits the circuit in the same way.
    pub fn keep_all(&self, of: Arc<InParts>) -> Kept {
        let checkpoints = self.checkpoints.clone();
        Box::pin(async move {
            let states = of.states.lock().await;
            checkpoints.keep(of.id.as_str().to_owned(), write_checkpoint(&states)).await
        })
    }
}

impl Checkpoints for WithParts {
    fn read(&self, id: String) -> Reading<Bytes> {
        let Some((of, at)) = self.list.of_part(&id) else { return self.checkpoints.read(id) };
        Box::pin(
            async move { Ok(Some(of.states.lock().await[at].checkpoint.clone()).filter(|bytes| !bytes.is_empty())) },
        )
    }

    fn keep(&self, id: String, bytes: Bytes) -> Kept {
        let Some((of, at)) = self.list.of_part(&id) else { return self.checkpoints.keep(id, bytes) };
        let checkpoints = self.checkpoints.clone();
        Box::pin(async move {
            let mut states = of.states.lock().await;
            states[at].checkpoint = bytes;
            checkpoints.keep(of.id.as_str().to_owned(), write_checkpoint(&states)).await
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(bits: u128) -> OperationId {
        OperationId::from_bits(bits)
    }

    fn states() -> Vec<PartState> {
        let state = |(share, checkpoint): (u32, &'static [u8])| PartState {
            id: id(share.into()),
            share,
            checkpoint: Bytes::from_static(checkpoint),
        };
        [(3, &b"three"[..]), (7, b"")].map(state).to_vec()
    }

    /// Keeps the checkpoint that was kept last.
    #[derive(Default)]
    struct InMemory(Mutex<HashMap<String, Bytes>>);

    impl Checkpoints for InMemory {
        fn read(&self, id: String) -> Reading<Bytes> {
            let found = self.0.lock().get(&id).cloned();
            Box::pin(async move { Ok(found) })
        }

        fn keep(&self, id: String, bytes: Bytes) -> Kept {
            self.0.lock().insert(id, bytes);
            Box::pin(async { Ok(true) })
        }
    }

    #[test]
    fn a_checkpoint_is_read_as_it_was_written_and_other_bytes_are_none() {
        let bytes = write_checkpoint(&states());
        assert_eq!(read_checkpoint(&bytes), Some(states()));
        for length in 0..bytes.len() {
            assert_eq!(read_checkpoint(&bytes.slice(..length)), None, "{length}");
        }
        assert_eq!(read_checkpoint(&write_checkpoint(&states()[..1])), None);
        let none = PartState { share: 0, ..states()[0].clone() };
        assert_eq!(read_checkpoint(&write_checkpoint(&[none.clone(), none])), None);
        // a checkpoint of a circuit on one worker begins with another number
        assert_eq!(read_checkpoint(&Bytes::from(vec![0; 200])), None);
    }

    #[tokio::test]
    async fn the_checkpoints_of_parts_are_one_checkpoint_of_the_circuit() {
        let (memory, list) = (Arc::new(InMemory::default()), PartsList::default());
        let with_parts = WithParts { checkpoints: memory.clone(), list: list.clone() };
        let listed = list.begin(id(1), states().into_iter().map(|state| (state, 10)).collect());
        let of_part = |bits| with_parts.read(id(bits).as_str().to_owned());
        assert_eq!(of_part(3).await.unwrap().as_deref(), Some(&b"three"[..]));
        assert_eq!(of_part(7).await.unwrap(), None);
        assert!(with_parts.keep(id(7).as_str().to_owned(), Bytes::from_static(b"seven")).await.unwrap());
        let kept = memory.0.lock().get(id(1).as_str()).cloned().unwrap();
        let mut wanted = states();
        wanted[1].checkpoint = Bytes::from_static(b"seven");
        assert_eq!(read_checkpoint(&kept), Some(wanted));
        // other operations have checkpoints as before
        assert!(with_parts.keep(id(2).as_str().to_owned(), Bytes::from_static(b"whole")).await.unwrap());
        assert_eq!(with_parts.read(id(2).as_str().to_owned()).await.unwrap().as_deref(), Some(&b"whole"[..]));
        drop(listed);
        assert_eq!(of_part(3).await.unwrap(), None);
        assert!(list.get(&id(1)).is_none());
    }

    #[test]
    fn progress_is_the_sum_of_the_parts_and_a_part_that_ended_is_done() {
        let list = PartsList::default();
        let first = list.begin(id(1), states().into_iter().map(|state| (state, 10)).collect());
        let of = list.get(&id(1)).unwrap();
        assert_eq!(of.done(|_| None), None);
        assert_eq!(of.done(|part| (*part == id(7)).then_some(4)), Some(4));
        of.ended(0);
        assert_eq!((of.done(|_| Some(5)), of.running()), (Some(15), vec![id(7)]));
        assert_eq!(of.done(|_| Some(2)), Some(15));
        // the same operation is asked for again, and the first one ends after that
        let again = list.begin(id(1), states().into_iter().map(|state| (state, 10)).collect());
        drop(first);
        assert!(list.get(&id(1)).is_some_and(|of| Arc::ptr_eq(&of, &again.of)));
    }
}
