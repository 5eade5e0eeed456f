//! Ids of the objects in the engine's tables.

/// A session inside the engine; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SessionId(pub u64);

/// The name of an account. The engine knows nothing else about it; sessions of one account share its weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AccountId(pub u128);

/// The index of a part of a session's key. For a task, a device needs all parts that the task lists, and no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartId(pub u32);

impl PartId {
    /// The first part of a CKKS key: the tables of its parameter set, which all keys of the set share. Every CKKS task
    /// needs this part, so no such task goes to a device that does not compute on encrypted numbers.
    pub const TABLES: PartId = PartId(0);
}

/// The name of a CKKS parameter set. Two sets have the same name only if they are equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ParamsId(pub u64);

/// Something that a device prepares for work: a part of a session's key, or the tables of a parameter set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Prepared {
    /// A part of a session's key.
    Part(SessionId, PartId),
    /// The tables that all sessions with keys of this parameter set share. They contain no secret.
    Tables(ParamsId),
}

impl Prepared {
    /// Returns the name of a part of a session's key. `tables` is the parameter set of a CKKS key, whose part
    /// [`PartId::TABLES`] belongs to all sessions of the set.
    pub fn of(session: SessionId, part: PartId, tables: Option<ParamsId>) -> Prepared {
        match tables {
            Some(params) if part == PartId::TABLES => Prepared::Tables(params),
            _ => Prepared::Part(session, part),
        }
    }

    /// The part's index in each key that needs this part.
    pub fn index(self) -> PartId {
        match self {
            Prepared::Part(_, part) => part,
            Prepared::Tables(_) => PartId::TABLES,
        }
    }
}

/// The name of a value: a ciphertext that several operations of a session use. The caller chooses the names. Within a
/// session, a name always stands for the same words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueId(pub u128);

/// A submitted operation; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// A batch; never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BatchId(pub u64);

/// The index of a device in the list that the engine was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DeviceId(pub usize);
