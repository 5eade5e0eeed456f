//! Keys of each scheme: their source on the host, their public description, and their parts on the host and on a
//! device.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernels::Schemes;
use kernels::ckks::{self, PartKind, PartShape, SeededRow};
use kernels::tfhe::{EvaluationKey, Params};

use crate::ids::PartId;

/// The only part of a key for gates.
pub(crate) const EVALUATION_KEY: PartId = PartId(0);

/// The first part of a CKKS key: the tables that follow from the parameters. Every CKKS task needs this part, so no
/// such task goes to a device that does not compute on encrypted numbers.
pub(crate) const TABLES: PartId = PartId(0);

/// Public description of a key, by scheme.
#[derive(Clone, Debug)]
pub enum KeyParams {
    /// An evaluation key for gates, which has one part.
    Gates(Params),
    /// A key for encrypted numbers (CKKS).
    Numbers(Arc<NumbersKey>),
}

/// The description of a CKKS key. The key's parts have the indices from [`PartId`] 1 on, in the order of `parts`.
#[derive(Clone, Debug, PartialEq)]
pub struct NumbersKey {
    /// The key's parameters.
    pub params: ckks::Params,
    /// For each part, its kind, and the highest level at which it works.
    pub parts: Vec<(PartKind, usize)>,
}

impl NumbersKey {
    /// Returns the part of this kind that works at this level. If several parts do, returns the one whose highest level
    /// is lowest.
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

/// A stored key. The engine keeps only the source. The engine fetches a part whenever a device loads it, and drops the
/// fetched part when the device has made its own form of the part. The engine drops the source when the key's session
/// is closed.
pub trait KeySource: Send + Sync + 'static {
    /// The key's public description, which is known without reading the key.
    fn params(&self) -> KeyParams;

    /// Host memory that the key takes while its session is open, in bytes: the key's size if it is stored in memory, 0
    /// if it is stored elsewhere.
    fn host_bytes(&self) -> u64;

    /// Reads a part. The engine calls this method on a separate thread, so the method may block. It must bound its
    /// waits and retries, because the device loads nothing else meanwhile.
    ///
    /// # Errors
    /// The reason why the part cannot be read, for the operator's log. The session's operations end with
    /// [`crate::Error::Key`], and the next operation tries again.
    fn fetch(&self, part: PartId) -> Result<KeyPart, String>;
}

/// Several owners may share a stored key.
impl<K: KeySource> KeySource for Arc<K> {
    fn params(&self) -> KeyParams {
        K::params(self)
    }

    fn host_bytes(&self) -> u64 {
        K::host_bytes(self)
    }

    fn fetch(&self, part: PartId) -> Result<KeyPart, String> {
        K::fetch(self, part)
    }
}

/// A row of a part of a CKKS key, like [`SeededRow`].
#[derive(Clone, Debug)]
pub struct SwitchingKeyRow {
    /// Seed of the mask.
    pub seed: [u8; 32],
    /// Body, `[primes][N]` words.
    pub body: Vec<u32>,
}

/// A part of a CKKS key on the host, one row a digit.
#[derive(Clone, Debug)]
pub struct NumbersPart {
    /// Shape of the part.
    pub shape: PartShape,
    /// Rows of the part, one for each digit.
    pub rows: Arc<Vec<SwitchingKeyRow>>,
}

/// A part of a key on the host, by scheme. Overwritten when its last holder drops it.
#[derive(Clone)]
pub enum KeyPart {
    /// The evaluation key for gates.
    Gates(Arc<EvaluationKey>),
    /// The parameters whose tables a CKKS key needs.
    Tables(ckks::Params),
    /// A part of a CKKS key.
    Numbers(NumbersPart),
}

/// A part of a key on a device. Overwritten on drop.
pub(crate) enum KeyOnDevice<B: Schemes> {
    Gates(B::Key),
    /// Nothing: the backend made its tables when it was prepared.
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

/// Size of the tables for these parameters, in bytes. For each prime, the tables have the roots of both directions and
/// their Shoup companions, once for the plain transform and once for the transform on vectors.
fn table_bytes(params: &ckks::Params) -> u64 {
    (params.primes().len() * params.n() * 4 * 8) as u64
}

/// Cost of a unit of arithmetic on encrypted numbers: a sixteenth of the cost of the cheapest gate.
const UNIT_COST_OF_NUMBERS: u32 = crate::fair::COST_OF_UNIT / 16;

impl KeyParams {
    /// Cost of a unit of work under this key. The cost under the cheapest keys is [`crate::fair::COST_OF_UNIT`].
    pub(crate) fn unit_cost(&self) -> u32 {
        match self {
            KeyParams::Gates(params) => params.cost(),
            KeyParams::Numbers(_) => UNIT_COST_OF_NUMBERS,
        }
    }

    /// Number of words of a row of operands or results.
    pub(crate) fn row_words(&self) -> usize {
        match self {
            KeyParams::Gates(params) => params.lwe_dimension + 1,
            KeyParams::Numbers(key) => key.params.n(),
        }
    }

    /// Size of each part on a device, in bytes. The size is `u64::MAX` if the key is a CKKS key and the device does not
    /// compute on encrypted numbers.
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

    /// Compiles the kernels for keys of these parameters.
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
    /// The number of loaded pieces.
    pieces: usize,
}

impl<B: Schemes> LoadingPart<B> {
    /// Allocates room on the device.
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

    /// Loads the next piece; for a CKKS key, a row. After the last piece, returns the part in the device's form; then
    /// no thread of the engine holds the part in the host's form.
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

/// A key in memory. Overwritten when its last holder drops it.
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
