//! The observer's record of an operation.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use engine::batch::{BatchPart, DeviceId};
use engine::scheduler::{Form, Levels, Work};
use engine::{PartId, SessionId};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// The row's level is not queued, because some rows of the previous level have not started.
    Later,
    /// The row has been in the queue since this time.
    Queued(Duration),
    Running,
    Done,
    /// A row of a circuit whose device failed.
    Failed,
}

#[derive(Debug)]
pub struct ObservedOperation {
    pub session: SessionId,
    pub units: Vec<u32>,
    /// The parts of the key that the rows need.
    pub key: Vec<PartId>,
    /// Number of slots of each row of a list.
    pub list_slots: Vec<u32>,
    pub rows: Vec<RowState>,
    pub deadline: Option<Duration>,
    pub cancelled: bool,
    /// For a circuit: its levels, and its device after it has begun.
    pub circuit: Option<(Levels, Option<DeviceId>)>,
    pub restarts: usize,
    /// The slots of a circuit that has begun.
    pub slots: Vec<u32>,
    /// Those of them that no value had before.
    pub own_slots: Vec<u32>,
    /// Whether the operation runs on stand-ins only.
    pub aside: bool,
    /// Whether the operation was set aside after its submission.
    pub moved: bool,
    /// Whether the operation was set aside because a device was twice out of memory for it.
    pub lacked_memory: bool,
    /// Whether a batch of the operation, or a load for its session, failed on a stand-in.
    pub failed_aside: bool,
}

impl ObservedOperation {
    pub fn new(now: Duration, session: SessionId, work: Work, deadline: Option<Duration>) -> ObservedOperation {
        let Work { units, key, form } = work;
        let (list_slots, circuit) = match form {
            Form::List { slots } => (slots, None),
            Form::Circuit(levels) => (Vec::new(), Some((levels, None))),
        };
        let rows = vec![if circuit.is_some() { RowState::Later } else { RowState::Queued(now) }; units.len()];
        let mut operation = ObservedOperation {
            session,
            units,
            key,
            list_slots,
            rows,
            deadline,
            cancelled: false,
            circuit,
            restarts: 0,
            slots: Vec::new(),
            own_slots: Vec::new(),
            aside: false,
            moved: false,
            lacked_memory: false,
            failed_aside: false,
        };
        operation.queue_next_level(now);
        operation
    }

    /// Queues the next level of a circuit if all rows of the levels before have started.
    pub fn queue_next_level(&mut self, now: Duration) {
        let Some((levels, _)) = &self.circuit else { return };
        let mut first = 0;
        for &end in &levels.ends {
            let level = &mut self.rows[first..end];
            if level.iter().all(|&row| row == RowState::Later) {
                return level.fill(RowState::Queued(now));
            } else if level.iter().any(|row| !matches!(row, RowState::Running | RowState::Done)) {
                return;
            }
            first = end;
        }
    }

    /// Splits consecutive rows by levels. The rows of a list are one level.
    pub fn levels_of(&self, rows: Range<usize>) -> Vec<Range<usize>> {
        let Some((levels, _)) = &self.circuit else { return vec![rows] };
        let firsts = std::iter::once(0).chain(levels.ends.iter().copied());
        let within = |(first, &end): (usize, &usize)| rows.start.max(first)..rows.end.min(end);
        firsts.zip(&levels.ends).map(within).filter(|rows| !rows.is_empty()).collect()
    }

    /// Whether these rows are all rows of a level.
    pub fn is_level(&self, rows: &Range<usize>) -> bool {
        let (levels, _) = self.circuit.as_ref().expect("lists have no levels");
        let at = levels.ends.iter().position(|end| *end == rows.end);
        at.is_some_and(|at| rows.start == if at == 0 { 0 } else { levels.ends[at - 1] })
    }

    /// Lists the slots of a circuit's inputs with names, as indices into the circuit's slots. `there`: the inputs that were
    /// on the device before the circuit began; otherwise the inputs that the device writes.
    pub fn input_slots(&self, part: &BatchPart, there: bool) -> BTreeSet<u32> {
        let inputs = self.circuit.iter().flat_map(|(levels, _)| &levels.inputs);
        let chosen = inputs.filter(|input| part.there.contains(&input.input) == there);
        chosen.flat_map(|input| input.named.slots.iter().copied()).collect()
    }

    /// Notes the slots of a circuit that begins. Returns the slots whose values were on the device before.
    pub fn begin(&mut self, device: DeviceId, part: &BatchPart) -> Vec<u32> {
        self.circuit.iter_mut().for_each(|(_, place)| *place = Some(device));
        self.slots = part.slots.to_vec();
        let there = self.input_slots(part, true);
        let slots_of = |is_there: bool| {
            let chosen = (0..).zip(&*part.slots).filter(|(at, _)| there.contains(at) == is_there);
            chosen.map(|(_, &slot)| slot).collect()
        };
        self.own_slots = slots_of(false);
        slots_of(true)
    }

    /// Stops a circuit that must restart: its waiting rows no longer count as queued.
    pub fn stop(&mut self) {
        self.rows.iter_mut().filter(|row| matches!(row, RowState::Queued(_))).for_each(|row| *row = RowState::Failed);
    }

    pub fn is_circuit(&self) -> bool {
        self.circuit.is_some()
    }

    /// Whether some rows are done and others have not begun.
    pub fn is_half_way(&self) -> bool {
        self.rows.contains(&RowState::Done) && self.rows.contains(&RowState::Later)
    }

    pub fn running(&self) -> usize {
        self.rows.iter().filter(|&&row| row == RowState::Running).count()
    }
}
