//! Keys of each scheme: their source on the host, their public description, and their parts on the host and on a
//! device.

use std::ops::ControlFlow;
use std::sync::Arc;

use kernels::Schemes;
use kernels::ckks::{self, ParamsLiteral, PartKind, PartShape, SeededRow};
use kernels::tfhe::{EvaluationKey, Params};

use crate::fair::COST_OF_UNIT;
use crate::ids::{ParamsId, PartId};

/// The only part of a key for gates.
pub(crate) const EVALUATION_KEY: PartId = PartId(0);

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

impl KeyPart {
    /// The parameter set whose tables the device needs to load this part; `None` if the part needs no tables.
    pub(crate) fn tables(&self) -> Option<ParamsId> {
        match self {
            KeyPart::Gates(_) | KeyPart::Tables(_) => None,
            KeyPart::Numbers(part) => Some(params_id(&part.shape.params)),
        }
    }
}

/// A part of a key, or tables, on a device. A part of a key is overwritten on drop.
pub(crate) enum PartOnDevice<B: Schemes> {
    Gates(B::Key),
    Tables(B::Tables),
    Numbers(B::Part),
}

impl<B: Schemes> PartOnDevice<B> {
    pub(crate) fn gates(&self) -> &B::Key {
        let PartOnDevice::Gates(key) = self else { unreachable!("a session's tasks are of its key's scheme") };
        key
    }

    pub(crate) fn tables(&self) -> &B::Tables {
        let PartOnDevice::Tables(tables) = self else { unreachable!("only tables have the name of a parameter set") };
        tables
    }

    pub(crate) fn numbers(&self) -> &B::Part {
        let PartOnDevice::Numbers(part) = self else { unreachable!("a session's tasks are of its key's scheme") };
        part
    }
}

/// The memory that a key takes on a device, and the cost of work under the key there.
pub(crate) struct DeviceNeeds {
    /// Size of each part on the device, in bytes. The sizes are `u64::MAX` if the key is a CKKS key and the device does
    /// not compute on encrypted numbers.
    pub(crate) part_bytes: Vec<u64>,
    /// Cost of a unit of work under this key on the device. The cost of a gate under the cheapest keys is
    /// [`crate::fair::COST_OF_UNIT`].
    pub(crate) unit_cost: u32,
}

/// Returns the name of a parameter set: its literal's members, packed into one number.
fn params_id(params: &ckks::Params) -> ParamsId {
    let ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap } = params.literal();
    let members = [(poly_degree as u64, 24), (scale_bits.into(), 16), (max_depth.into(), 16)];
    let rest = [(security as u64, 4), (bootstrap.into(), 1)];
    let pack = |name: u64, (member, bits): (u64, u32)| {
        assert!(member < 1 << bits, "each member has its own bits");
        name << bits | member
    };
    ParamsId(members.into_iter().chain(rest).fold(0, pack))
}

impl KeyParams {
    /// The parameter set whose tables the key's tasks need; `None` for gates.
    pub(crate) fn tables(&self) -> Option<ParamsId> {
        match self {
            KeyParams::Gates(_) => None,
            KeyParams::Numbers(key) => Some(params_id(&key.params)),
        }
    }

    /// Number of words of a row of operands or results.
    pub(crate) fn row_words(&self) -> usize {
        match self {
            KeyParams::Gates(params) => params.lwe_dimension + 1,
            KeyParams::Numbers(key) => key.params.n(),
        }
    }

    /// Returns the memory that the key takes on a device, and the cost of work under the key there.
    pub(crate) fn needs<B: Schemes>(&self, backend: &B) -> DeviceNeeds {
        match self {
            KeyParams::Gates(params) => {
                DeviceNeeds { part_bytes: vec![backend.key_bytes(params)], unit_cost: params.cost() }
            }
            KeyParams::Numbers(key) => {
                let shape = |&(kind, level)| PartShape { params: key.params.clone(), kind, level };
                let part_bytes = match backend.tables_bytes(&key.params) {
                    Some(tables) => {
                        let of_parts = key.parts.iter().map(|part| backend.part_bytes(&shape(part)));
                        std::iter::once(tables).chain(of_parts).collect()
                    }
                    None => vec![u64::MAX; 1 + key.parts.len()],
                };
                DeviceNeeds { part_bytes, unit_cost: (COST_OF_UNIT / backend.units_of_a_gate()).max(1) }
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
    into: PartOnDevice<B>,
    /// The number of loaded pieces.
    pieces: usize,
}

impl<B: Schemes> LoadingPart<B> {
    /// Allocates room on the device, or makes the tables. A part of a CKKS key needs the tables of its parameters.
    pub(crate) fn begin(backend: &B, from: KeyPart, tables: Option<&B::Tables>) -> kernels::Result<Self> {
        let into = match &from {
            KeyPart::Gates(key) => PartOnDevice::Gates(backend.room_for_key(&key.params)?),
            KeyPart::Tables(params) => PartOnDevice::Tables(backend.make_tables(params)?),
            KeyPart::Numbers(part) => PartOnDevice::Numbers(backend.room_for_part(needed(tables), &part.shape)?),
        };
        Ok(LoadingPart { from, into, pieces: 0 })
    }

    /// The part in the host's form.
    pub(crate) fn from(&self) -> &KeyPart {
        &self.from
    }

    /// Loads the next piece; for a CKKS key, a row. After the last piece, returns the part in the device's form; then
    /// no thread of the engine holds the part in the host's form.
    pub(crate) fn load_piece(
        mut self,
        backend: &B,
        tables: Option<&B::Tables>,
    ) -> kernels::Result<ControlFlow<PartOnDevice<B>, Self>> {
        let more = match (&self.from, &mut self.into) {
            (KeyPart::Gates(key), PartOnDevice::Gates(into)) => backend.load_piece(into, self.pieces, key)?,
            (KeyPart::Numbers(part), PartOnDevice::Numbers(into)) => {
                let SwitchingKeyRow { seed, body } = &part.rows[self.pieces];
                backend.load_row(needed(tables), into, &SeededRow { digit: self.pieces, seed, body })?;
                self.pieces + 1 < part.rows.len()
            }
            _ => false,
        };
        self.pieces += 1;
        Ok(if more { ControlFlow::Continue(self) } else { ControlFlow::Break(self.into) })
    }
}

/// The tables, which the scheduler loads before the parts that need them.
fn needed<T>(tables: Option<&T>) -> &T {
    tables.expect("tables are loaded before the parts of a key")
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
