//! Keys of each scheme: their source on the host, what is known before they are read, their parts on the host and on a device.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernels::Schemes;
use kernels::ckks::{self, PartKind, PartShape, SeededRow};
use kernels::tfhe::{EvaluationKey, Params};

use crate::ids::PartId;

/// The one part of a key for gates.
pub(crate) const EVALUATION_KEY: PartId = PartId(0);

/// Of a key for numbers, the tables that follow from its parameters: the part before those of the key itself. Every task needs
/// it, so that none goes to a device that does not compute on numbers.
pub(crate) const TABLES: PartId = PartId(0);

/// Public parameters of a key, by its scheme.
#[derive(Clone, Debug)]
pub enum KeyParams {
    /// Of an evaluation key for gates: one part.
    Gates(Params),
    /// Of a key for numbers.
    Numbers(Arc<NumbersKey>),
}

/// What is known of a key for numbers: its parts, from [`PartId`] 1 on, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct NumbersKey {
    /// Its parameters.
    pub params: ckks::Params,
    /// What each part is for, and the highest level it serves.
    pub parts: Vec<(PartKind, usize)>,
}

impl NumbersKey {
    /// The part for this purpose at this level: the lowest that serves it.
    pub fn part(&self, kind: PartKind, level: usize) -> Option<PartId> {
        let serves = |(_, (of, highest)): &(usize, &(PartKind, usize))| *of == kind && *highest >= level;
        let found = self.parts.iter().enumerate().filter(serves).min_by_key(|(_, (_, highest))| *highest)?;
        Some(PartId(found.0 as u32 + 1))
    }

    /// The shape of a part; `None` for the tables.
    pub fn shape(&self, part: PartId) -> Option<PartShape> {
        let (kind, level) = *self.parts.get((part.0 as usize).checked_sub(1)?)?;
        Some(PartShape { params: self.params.clone(), kind, level })
    }
}

/// A key at rest. The engine keeps the source, not the key: it fetches a part whenever a device is to load it, and drops
/// what it fetched when the device has its own form. The source is dropped when its session is closed.
pub trait KeySource: Send + Sync + 'static {
    /// What is known of the key without reading it.
    fn params(&self) -> KeyParams;

    /// Host memory that it takes while its session is open, in bytes: the key's own where it rests in memory, none where
    /// it rests elsewhere.
    fn host_bytes(&self) -> u64;

    /// Reads a part. Called on a thread of its own, so it may block; it bounds its own waits and repeats what is worth
    /// repeating, since a device loads nothing else meanwhile.
    ///
    /// # Errors
    /// Why it cannot be read, for the operator's log: the session's operations end with [`crate::Error::Key`], and the next
    /// one tries again.
    fn fetch(&self, part: PartId) -> Result<KeyPart, String>;
}

/// A row of a part of a key for numbers, as [`SeededRow`].
#[derive(Clone, Debug)]
pub struct SwitchingKeyRow {
    /// Of its mask.
    pub seed: [u8; 32],
    /// `[primes][N]` words.
    pub body: Vec<u32>,
}

/// A part of a key for numbers on the host: rows by digits.
#[derive(Clone, Debug)]
pub struct NumbersPart {
    /// What it is.
    pub shape: PartShape,
    /// As many as its digits.
    pub rows: Arc<Vec<SwitchingKeyRow>>,
}

/// A part of a key on the host, by its scheme. Overwritten when its last holder drops it.
#[derive(Clone)]
pub enum KeyPart {
    /// The evaluation key for gates.
    Gates(Arc<EvaluationKey>),
    /// The tables of parameters for numbers.
    Tables(ckks::Params),
    /// A part of a key for numbers.
    Numbers(NumbersPart),
}

/// A part of a key on a device. Overwritten on drop.
pub(crate) enum KeyOnDevice<B: Schemes> {
    Gates(B::Key),
    /// Made by the backend when it was made ready.
    Tables,
    Numbers(B::Part),
}

impl<B: Schemes> KeyOnDevice<B> {
    pub(crate) fn gates(&self) -> &B::Key {
        let KeyOnDevice::Gates(key) = self else { unreachable!("a session's tasks are of its key's scheme") };
        key
    }

    pub(crate) fn numbers(&self) -> &B::Part {
        let KeyOnDevice::Numbers(part) = self else { unreachable!("a session's tasks are of its key's scheme") };
        part
    }
}

/// Bytes of the tables of these parameters: roots of each prime, there and back, with their companions, twice.
fn table_bytes(params: &ckks::Params) -> u64 {
    (params.primes().len() * params.n() * 4 * 8) as u64
}

/// What a unit of numbers costs: it is a sixteenth of the cheapest gate's.
const UNIT_COST_OF_NUMBERS: u32 = crate::fair::COST_OF_UNIT / 16;

impl KeyParams {
    /// What a unit of work costs under such a key: [`crate::fair::COST_OF_UNIT`] under the cheapest.
    pub(crate) fn unit_cost(&self) -> u32 {
        match self {
            KeyParams::Gates(params) => params.cost(),
            KeyParams::Numbers(_) => UNIT_COST_OF_NUMBERS,
        }
    }

    /// Words of a row of operands and results.
    pub(crate) fn row_words(&self) -> usize {
        match self {
            KeyParams::Gates(params) => params.lwe_dimension + 1,
            KeyParams::Numbers(key) => key.params.n(),
        }
    }

    /// Bytes of each part on a device; more than any has where it does not compute on numbers.
    pub(crate) fn part_bytes<B: Schemes>(&self, backend: &B) -> Vec<u64> {
        match self {
            KeyParams::Gates(params) => vec![backend.key_bytes(params)],
            KeyParams::Numbers(key) => {
                let shape = |(kind, level)| PartShape { params: key.params.clone(), kind, level };
                let of_part = |&part| backend.part_bytes(&shape(part)).unwrap_or(u64::MAX);
                let of_tables = backend
                    .part_bytes(&shape((PartKind::Relinearization, 0)))
                    .map_or(u64::MAX, |_| table_bytes(&key.params));
                std::iter::once(of_tables).chain(key.parts.iter().map(of_part)).collect()
            }
        }
    }

    /// Compiles what such a key needs.
    pub(crate) fn prepare<B: Schemes>(&self, backend: &B) -> kernels::Result<()> {
        match self {
            KeyParams::Gates(params) => backend.prepare(params),
            KeyParams::Numbers(key) => backend.prepare_numbers(&key.params),
        }
    }
}

/// A part of a key on its way to a device. Both forms are overwritten on drop.
pub(crate) struct LoadingPart<B: Schemes> {
    from: KeyPart,
    into: KeyOnDevice<B>,
    /// Pieces that were loaded.
    pieces: usize,
}

impl<B: Schemes> LoadingPart<B> {
    /// Makes room for it.
    pub(crate) fn begin(backend: &B, from: KeyPart) -> kernels::Result<Self> {
        let into = match &from {
            KeyPart::Gates(key) => KeyOnDevice::Gates(backend.room_for_key(&key.params)?),
            KeyPart::Tables(params) => {
                backend.prepare_numbers(params)?;
                KeyOnDevice::Tables
            }
            KeyPart::Numbers(part) => KeyOnDevice::Numbers(backend.room_for_part(&part.shape)?),
        };
        Ok(LoadingPart { from, into, pieces: 0 })
    }

    /// Loads the next piece, of numbers a row; the device's form when it was the last, and then no thread of the engine holds the
    /// host's.
    pub(crate) fn load_piece(mut self, backend: &B) -> kernels::Result<ControlFlow<KeyOnDevice<B>, Self>> {
        let more = match (&self.from, &mut self.into) {
            (KeyPart::Gates(key), KeyOnDevice::Gates(into)) => backend.load_piece(into, self.pieces, key)?,
            (KeyPart::Numbers(part), KeyOnDevice::Numbers(into)) => {
                let SwitchingKeyRow { seed, body } = &part.rows[self.pieces];
                backend.load_row(into, &SeededRow { digit: self.pieces, seed, body })?;
                self.pieces + 1 < part.rows.len()
            }
            _ => false,
        };
        self.pieces += 1;
        Ok(if more { ControlFlow::Continue(self) } else { ControlFlow::Break(self.into) })
    }
}

/// A key that rests in memory. Overwritten when its last holder drops it.
impl KeySource for Arc<EvaluationKey> {
    fn params(&self) -> KeyParams {
        KeyParams::Gates(self.params)
    }

    fn host_bytes(&self) -> u64 {
        self.memory_bytes() as u64
    }

    fn fetch(&self, _part: PartId) -> Result<KeyPart, String> {
        Ok(KeyPart::Gates(self.clone()))
    }
}
