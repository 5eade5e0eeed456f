//! Work and its end as bytes: a JSON head with its length ([`api::octets`]), and behind the head words, numbers and
//! containers, little-endian. Both have a version. Bytes that are not exactly one value are refused, and no size is
//! believed before the bytes are there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::{OperationId, octets};
use engine::{CircuitBound, Error, Gate, GateList, LweList, OPERATION_ROWS_MAX, OperandBlock, Place, Rows};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::bits::{InputNoise, Mapping};
use super::key::{AccountDigest, KeyName};
use super::numbers::{Asked, Operation, Sources, StoredOperand};
use super::question::{CircuitQuestion, Figures, GatesQuestion, NumbersQuestion, Question, Work, WorkEnd, WorkError};

/// The version of both forms.
const VERSION: u32 = 1;
/// Longest head in bytes. The longest one has the places of the operands of [`OPERATION_ROWS_MAX`] gates.
const HEAD_BYTES_MAX: usize = 16 << 20;

/// Why bytes are no work, or no end of work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not in the form of work: {0}")]
pub struct NotWork(String);

impl NotWork {
    fn because(why: impl Into<String>) -> NotWork {
        NotWork(why.into())
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkHead {
    version: u32,
    id: OperationId,
    /// 32 hexadecimal digits each.
    account: String,
    key: String,
    left_ns: u64,
    question: QuestionHead,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum QuestionHead {
    Gates {
        gates: Vec<String>,
        dimension: usize,
        /// Number of ciphertexts of each block.
        blocks: Vec<usize>,
        /// Block and row of each operand.
        places: Vec<(u32, u32)>,
    },
    Circuit {
        by_gate: bool,
        fresh: bool,
        dimension: usize,
        inputs: usize,
        netlist_bytes: usize,
    },
    Numbers(NumbersHead),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct NumbersHead {
    operation: String,
    /// Numbers behind the head.
    plain: Option<usize>,
    coefficients: Option<usize>,
    steps: Option<i64>,
    scale_stable: bool,
    /// The bits of the double.
    result_bound: Option<u64>,
    /// The operands in order, each as the index of its container.
    operands: Vec<usize>,
    containers: Vec<ContainerHead>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerHead {
    bytes: usize,
    /// Hexadecimal digits.
    sources: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EndHead {
    version: u32,
    id: OperationId,
    end: EndKind,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum EndKind {
    Completed { rows: usize, row_words: usize, compute_ns: u64, units: u64 },
    Cancelled { completed: Vec<(String, u64)> },
    Busy { retry_after_ns: u64 },
    DeadlinePassed,
    Gone,
    NotRun,
    ShuttingDown,
    Device { cause: String },
    Key { cause: String },
    KeyTooLarge { bytes: u64, bytes_max: u64 },
    TooLarge { of: Bound, needed: u64, max: u64 },
    Config { cause: String },
    Unfit { cause: String },
    Dropped,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bound {
    Rows,
    HostBytes,
    DeviceBytes,
}

/// Writes work as bytes.
pub fn write_work(work: &Work) -> Vec<u8> {
    let mut behind = Vec::new();
    let question = match &work.question {
        Question::Gates(question) => write_gates(&question.list, &mut behind),
        Question::Circuit(question) => write_circuit(question, &mut behind),
        Question::Numbers(question) => QuestionHead::Numbers(write_numbers(question, &mut behind)),
    };
    let head = WorkHead {
        version: VERSION,
        id: work.id.clone(),
        account: format!("{:032x}", work.key.account.0),
        key: format!("{:032x}", work.key.key),
        left_ns: nanoseconds(work.deadline.saturating_duration_since(Instant::now())),
        question,
    };
    with_head(&head, &behind)
}

/// Reads work.
///
/// # Errors
/// When the bytes are not exactly one piece of work of this version. The worker checks whether the work fits its key.
pub fn read_work(bytes: &[u8]) -> Result<Work, NotWork> {
    let (head, mut behind): (WorkHead, _) = split(bytes)?;
    check_version(head.version)?;
    let key = KeyName { account: AccountDigest(number(&head.account)?), key: number(&head.key)? };
    let left = Duration::from_nanos(head.left_ns);
    let deadline = Instant::now().checked_add(left).ok_or_else(|| NotWork::because("the deadline is too far"))?;
    let question = match head.question {
        QuestionHead::Gates { gates, dimension, blocks, places } => {
            read_gates(&gates, dimension, &blocks, &places, &mut behind)?
        }
        QuestionHead::Circuit { by_gate, fresh, dimension, inputs, netlist_bytes } => {
            let inputs = behind.ciphertexts(dimension, inputs)?;
            let netlist = String::from_utf8(behind.take(netlist_bytes)?.to_vec())
                .map_err(|_| NotWork::because("the netlist is not UTF-8"))?;
            Question::Circuit(CircuitQuestion {
                netlist: Arc::new(netlist),
                mapping: if by_gate { Mapping::Gates } else { Mapping::Cells },
                noise: if fresh { InputNoise::Fresh } else { InputNoise::Any },
                inputs,
                planned: None,
            })
        }
        QuestionHead::Numbers(numbers) => read_numbers(numbers, &mut behind)?,
    };
    behind.end()?;
    Ok(Work { id: head.id, key, question, deadline })
}

/// Writes the end of the work with this id as bytes.
pub fn write_end(id: &OperationId, end: &WorkEnd) -> Vec<u8> {
    let mut behind = Vec::new();
    let end = match end {
        WorkEnd::Completed { results, figures: Figures { compute, units } } => {
            push_words(&results.words, &mut behind);
            EndKind::Completed {
                rows: results.len(),
                row_words: results.row_words,
                compute_ns: nanoseconds(*compute),
                units: *units,
            }
        }
        WorkEnd::Cancelled(completed) => EndKind::Cancelled {
            completed: completed.iter().map(|(gate, count)| (gate.name().to_owned(), *count)).collect(),
        },
        WorkEnd::Failed(error) => failed(error),
    };
    with_head(&EndHead { version: VERSION, id: id.clone(), end }, &behind)
}

/// Reads the end of the work with this id.
///
/// # Errors
/// When the bytes are not exactly one end of this version, or are the end of other work.
pub fn read_end(id: &OperationId, bytes: &[u8]) -> Result<WorkEnd, NotWork> {
    let (head, mut behind): (EndHead, _) = split(bytes)?;
    check_version(head.version)?;
    if head.id != *id {
        return Err(NotWork::because("the end of other work"));
    }
    let end = match head.end {
        EndKind::Completed { rows, row_words, compute_ns, units } => {
            let words = rows.checked_mul(row_words).filter(|_| row_words > 0);
            let words = behind.words(words.ok_or_else(|| NotWork::because("no rows"))?)?;
            let figures = Figures { compute: Duration::from_nanos(compute_ns), units };
            WorkEnd::Completed { results: Rows { row_words, words }, figures }
        }
        EndKind::Cancelled { completed } => WorkEnd::Cancelled(
            completed.into_iter().map(|(name, count)| Ok((gate(&name)?, count))).collect::<Result<_, _>>()?,
        ),
        failed => WorkEnd::Failed(error_of(failed)?),
    };
    behind.end()?;
    Ok(end)
}

fn write_gates(list: &GateList, behind: &mut Vec<u8>) -> QuestionHead {
    let places = list.places_of(0..list.gates().len());
    let count = places.iter().map(|place| place.block + 1).max().unwrap_or(0);
    let blocks = (0..count).map(|block| {
        let rows = list.block(block);
        rows.iter().for_each(|row| push_words(row, behind));
        rows.len()
    });
    QuestionHead::Gates {
        gates: list.gates().iter().map(|gate| gate.name().to_owned()).collect(),
        dimension: list.dimension(),
        blocks: blocks.collect(),
        places: places.iter().map(|place| (place.block, place.row)).collect(),
    }
}

fn read_gates(
    gates: &[String],
    dimension: usize,
    blocks: &[usize],
    places: &[(u32, u32)],
    behind: &mut Behind<'_>,
) -> Result<Question, NotWork> {
    let gates = gates.iter().map(|name| gate(name)).collect::<Result<Vec<_>, _>>()?;
    let wanted: usize = gates.iter().map(|gate| gate.arity()).sum();
    if gates.is_empty() || gates.len() > OPERATION_ROWS_MAX || places.len() != wanted {
        return Err(NotWork::because("gates and operands do not fit"));
    }
    let is_there = |&(block, row): &(u32, u32)| blocks.get(block as usize).is_some_and(|&rows| (row as usize) < rows);
    if !places.iter().all(is_there) {
        return Err(NotWork::because("an operand that is not there"));
    }
    let read = blocks.iter().map(|&rows| Ok(Arc::new(behind.ciphertexts(dimension, rows)?) as OperandBlock));
    let blocks = read.collect::<Result<Vec<_>, NotWork>>()?;
    let places = places.iter().map(|&(block, row)| Place { block, row }).collect();
    // the noise that the preset assumes holds for folded gates alone
    let list = GateList::of_places(gates, blocks, places).folded();
    Ok(Question::Gates(GatesQuestion { list }))
}

fn write_circuit(question: &CircuitQuestion, behind: &mut Vec<u8>) -> QuestionHead {
    question.inputs.iter().for_each(|row| push_words(row, behind));
    behind.extend_from_slice(question.netlist.as_bytes());
    QuestionHead::Circuit {
        by_gate: question.mapping == Mapping::Gates,
        fresh: question.noise == InputNoise::Fresh,
        dimension: question.inputs.dimension(),
        inputs: question.inputs.len(),
        netlist_bytes: question.netlist.len(),
    }
}

fn write_numbers(question: &NumbersQuestion, behind: &mut Vec<u8>) -> NumbersHead {
    let Asked { operation, plain, coefficients, steps, scale_stable, result_bound } = &question.asked;
    for numbers in [plain, coefficients].into_iter().flatten() {
        numbers.iter().for_each(|number| behind.extend_from_slice(&number.to_le_bytes()));
    }
    // an operand that stands twice is written once
    let mut containers: Vec<&StoredOperand> = Vec::new();
    let mut operands = Vec::with_capacity(question.operands.len());
    for operand in &question.operands {
        let same = containers.iter().position(|before| Arc::ptr_eq(&before.bytes, &operand.bytes));
        operands.push(same.unwrap_or_else(|| {
            behind.extend_from_slice(&operand.bytes);
            containers.push(operand);
            containers.len() - 1
        }));
    }
    let container = |operand: &&StoredOperand| ContainerHead {
        bytes: operand.bytes.len(),
        sources: operand.sources.to_bytes().map(hex::encode),
    };
    NumbersHead {
        operation: operation.name().to_owned(),
        plain: plain.as_ref().map(Vec::len),
        coefficients: coefficients.as_ref().map(Vec::len),
        steps: *steps,
        scale_stable: *scale_stable,
        result_bound: result_bound.map(f64::to_bits),
        operands,
        containers: containers.iter().map(container).collect(),
    }
}

fn read_numbers(head: NumbersHead, behind: &mut Behind<'_>) -> Result<Question, NotWork> {
    let NumbersHead { operation, plain, coefficients, steps, scale_stable, result_bound, operands, containers } = head;
    let operation = Operation::from_name(&operation).ok_or_else(|| NotWork::because("an unknown operation"))?;
    if operands.len() != operation.operands() || containers.len() > operands.len() {
        return Err(NotWork::because("operands do not fit the operation"));
    }
    let plain = plain.map(|count| behind.numbers(count)).transpose()?;
    let coefficients = coefficients.map(|count| behind.numbers(count)).transpose()?;
    let read = containers.into_iter().map(|ContainerHead { bytes, sources }| {
        let bytes = Arc::new(Zeroizing::new(behind.take(bytes)?.to_vec()));
        let sources = sources.map(hex::decode).transpose().map_err(|_| NotWork::because("sources"))?;
        Ok(StoredOperand { bytes, sources: Sources::from_bytes(sources.as_deref()) })
    });
    let containers = read.collect::<Result<Vec<_>, NotWork>>()?;
    let operand = |at: usize| containers.get(at).cloned().ok_or_else(|| NotWork::because("a container is missing"));
    let operands = operands.into_iter().map(operand).collect::<Result<_, _>>()?;
    let result_bound = result_bound.map(f64::from_bits);
    if result_bound.is_some_and(|bound| !(bound > 0.0 && bound.is_normal())) {
        return Err(NotWork::because("a bound that is not above 0"));
    }
    let asked = Asked { operation, plain, coefficients, steps, scale_stable, result_bound };
    Ok(Question::Numbers(NumbersQuestion { asked, operands, planned: None }))
}

fn failed(error: &WorkError) -> EndKind {
    match error.clone() {
        WorkError::Engine(error) => match error {
            Error::Busy { retry_after } => EndKind::Busy { retry_after_ns: nanoseconds(retry_after) },
            Error::DeadlinePassed => EndKind::DeadlinePassed,
            Error::Gone => EndKind::Gone,
            Error::Cancelled => EndKind::NotRun,
            Error::ShuttingDown => EndKind::ShuttingDown,
            Error::Device(cause) => EndKind::Device { cause },
            Error::Key(cause) => EndKind::Key { cause },
            Error::KeyTooLarge { bytes, bytes_max } => EndKind::KeyTooLarge { bytes, bytes_max },
            Error::CircuitTooLarge { of, needed, max } => EndKind::TooLarge { of: of.into(), needed, max },
            Error::Config(cause) => EndKind::Config { cause },
        },
        WorkError::Unfit(cause) => EndKind::Unfit { cause },
        WorkError::Dropped => EndKind::Dropped,
    }
}

fn error_of(kind: EndKind) -> Result<WorkError, NotWork> {
    Ok(WorkError::Engine(match kind {
        EndKind::Busy { retry_after_ns } => Error::Busy { retry_after: Duration::from_nanos(retry_after_ns) },
        EndKind::DeadlinePassed => Error::DeadlinePassed,
        EndKind::Gone => Error::Gone,
        EndKind::NotRun => Error::Cancelled,
        EndKind::ShuttingDown => Error::ShuttingDown,
        EndKind::Device { cause } => Error::Device(cause),
        EndKind::Key { cause } => Error::Key(cause),
        EndKind::KeyTooLarge { bytes, bytes_max } => Error::KeyTooLarge { bytes, bytes_max },
        EndKind::TooLarge { of, needed, max } => Error::CircuitTooLarge { of: of.into(), needed, max },
        EndKind::Config { cause } => Error::Config(cause),
        EndKind::Unfit { cause } => return Ok(WorkError::Unfit(cause)),
        EndKind::Dropped => return Ok(WorkError::Dropped),
        EndKind::Completed { .. } | EndKind::Cancelled { .. } => return Err(NotWork::because("no failure")),
    }))
}

impl From<CircuitBound> for Bound {
    fn from(of: CircuitBound) -> Bound {
        match of {
            CircuitBound::Rows => Bound::Rows,
            CircuitBound::HostBytes => Bound::HostBytes,
            CircuitBound::DeviceBytes => Bound::DeviceBytes,
        }
    }
}

impl From<Bound> for CircuitBound {
    fn from(of: Bound) -> CircuitBound {
        match of {
            Bound::Rows => CircuitBound::Rows,
            Bound::HostBytes => CircuitBound::HostBytes,
            Bound::DeviceBytes => CircuitBound::DeviceBytes,
        }
    }
}

/// The bytes behind a head that were not read yet.
struct Behind<'a> {
    bytes: &'a [u8],
}

impl<'a> Behind<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], NotWork> {
        let (taken, rest) =
            self.bytes.split_at_checked(count).ok_or_else(|| NotWork::because("bytes are missing behind the head"))?;
        self.bytes = rest;
        Ok(taken)
    }

    fn words(&mut self, count: usize) -> Result<Vec<u32>, NotWork> {
        let bytes = self.take(count.checked_mul(4).ok_or_else(|| NotWork::because("too many words"))?)?;
        let mut words: Vec<u32> = bytemuck::pod_collect_to_vec(bytes);
        if cfg!(target_endian = "big") {
            words.iter_mut().for_each(|word| *word = u32::from_le(*word));
        }
        Ok(words)
    }

    fn numbers(&mut self, count: usize) -> Result<Vec<f64>, NotWork> {
        let bytes = self.take(count.checked_mul(8).ok_or_else(|| NotWork::because("too many numbers"))?)?;
        let numbers: Vec<f64> = bytes.as_chunks().0.iter().copied().map(f64::from_le_bytes).collect();
        if !numbers.iter().all(|number| number.is_finite()) {
            return Err(NotWork::because("a number that is not finite"));
        }
        Ok(numbers)
    }

    /// Takes ciphertexts of this dimension, `[rows][dimension + 1]` words.
    fn ciphertexts(&mut self, dimension: usize, rows: usize) -> Result<LweList, NotWork> {
        if dimension == 0 {
            return Err(NotWork::because("ciphertexts of dimension 0"));
        }
        let words = dimension.checked_add(1).and_then(|row| row.checked_mul(rows));
        let words = words.ok_or_else(|| NotWork::because("too many words"))?;
        Ok(LweList::from_words(dimension, self.words(words)?))
    }

    fn end(&self) -> Result<(), NotWork> {
        match self.bytes {
            [] => Ok(()),
            _ => Err(NotWork::because("bytes are left over")),
        }
    }
}

fn split<'a, H: Deserialize<'a>>(bytes: &'a [u8]) -> Result<(H, Behind<'a>), NotWork> {
    let cut = octets::split(bytes, HEAD_BYTES_MAX);
    let (head, bytes) = cut.map_err(|error| NotWork::because(format!("{error:?}")))?;
    let head = serde_json::from_slice(head).map_err(|error| NotWork::because(error.to_string()))?;
    Ok((head, Behind { bytes }))
}

fn with_head(head: &impl Serialize, behind: &[u8]) -> Vec<u8> {
    let head = serde_json::to_vec(head).expect("numbers and texts are JSON");
    let mut bytes = octets::begin(&head, behind.len());
    bytes.extend_from_slice(behind);
    bytes
}

fn check_version(version: u32) -> Result<(), NotWork> {
    match version {
        VERSION => Ok(()),
        other => Err(NotWork::because(format!("version {other}, not {VERSION}"))),
    }
}

fn push_words(words: &[u32], bytes: &mut Vec<u8>) {
    if cfg!(target_endian = "little") {
        bytes.extend_from_slice(bytemuck::cast_slice(words));
    } else {
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }
}

fn number(digits: &str) -> Result<u128, NotWork> {
    let is_digits = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_digits.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
    number.ok_or_else(|| NotWork::because("a name that is not 32 hexadecimal digits"))
}

fn gate(name: &str) -> Result<Gate, NotWork> {
    Gate::from_name(name).ok_or_else(|| NotWork::because("an unknown gate"))
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NETLIST: &str = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";

    fn id(bits: u128) -> OperationId {
        OperationId::from_bits(bits)
    }

    fn work(question: Question) -> Work {
        let key = KeyName { account: AccountDigest(1), key: u128::MAX };
        Work { id: id(7), key, question, deadline: Instant::now() + Duration::from_secs(3600) }
    }

    fn block(masks: &[u32]) -> OperandBlock {
        Arc::new(LweList::from_words(1, masks.iter().flat_map(|&mask| [mask, 1]).collect()))
    }

    fn operand(bytes: &[u8], seed: u8) -> StoredOperand {
        StoredOperand { bytes: Arc::new(Zeroizing::new(bytes.to_vec())), sources: Sources::of_seed(&[seed; 32]) }
    }

    fn every_kind() -> Vec<Work> {
        let places = [(1, 0), (0, 1), (0, 0)].map(|(block, row)| Place { block, row });
        let gates = vec![Gate::Xor, Gate::Not];
        let list = GateList::of_places(gates, vec![block(&[1, u32::MAX]), block(&[5])], places.to_vec()).folded();
        let circuit = CircuitQuestion {
            netlist: Arc::new(NETLIST.to_owned()),
            mapping: Mapping::Gates,
            noise: InputNoise::Fresh,
            inputs: LweList::from_words(2, vec![1, 2, 3, 4, 5, u32::MAX]),
            planned: None,
        };
        let same = operand(b"container", 1);
        let asked = |operation| Asked {
            operation,
            plain: Some(vec![0.1, -f64::MAX, f64::MIN_POSITIVE]),
            coefficients: None,
            steps: Some(i64::MIN),
            scale_stable: true,
            result_bound: Some(1.0 + f64::EPSILON),
        };
        let numbers = |operation, operands| {
            Question::Numbers(NumbersQuestion { asked: asked(operation), operands, planned: None })
        };
        vec![
            work(Question::Gates(GatesQuestion { list })),
            work(Question::Circuit(circuit)),
            work(numbers(Operation::Multiply, vec![same.clone(), same])),
            work(numbers(Operation::Add, vec![operand(b"", 1), operand(b"xy", 2)])),
        ]
    }

    fn every_end() -> Vec<WorkEnd> {
        let figures = Figures { compute: Duration::from_nanos(1_234_567_891), units: u64::MAX };
        let errors = [
            Error::Busy { retry_after: Duration::from_millis(1500) },
            Error::DeadlinePassed,
            Error::Gone,
            Error::Cancelled,
            Error::ShuttingDown,
            Error::Device("card \"0\"\n".to_owned()),
            Error::Key("gone".to_owned()),
            Error::KeyTooLarge { bytes: 2, bytes_max: 1 },
            Error::CircuitTooLarge { of: CircuitBound::DeviceBytes, needed: u64::MAX, max: 1 },
            Error::Config("a setting".to_owned()),
        ];
        let failed =
            errors.map(WorkError::Engine).into_iter().chain([WorkError::Unfit("no".to_owned()), WorkError::Dropped]);
        let ends = [
            WorkEnd::Completed { results: Rows { row_words: 2, words: vec![1, u32::MAX, 3, 4] }, figures },
            WorkEnd::Completed { results: Rows::none(3), figures },
            WorkEnd::Cancelled(vec![(Gate::Mux, u64::MAX), (Gate::Nand, 0)]),
            WorkEnd::Cancelled(Vec::new()),
        ];
        ends.into_iter().chain(failed.map(WorkEnd::Failed)).collect()
    }

    /// Bytes of work without the time that is left, which grows less.
    fn timeless(bytes: &[u8]) -> (serde_json::Value, Vec<u8>) {
        let (head, behind) = octets::split(bytes, HEAD_BYTES_MAX).unwrap();
        let mut head: serde_json::Value = serde_json::from_slice(head).unwrap();
        head["left_ns"] = 0.into();
        (head, behind.to_vec())
    }

    #[test]
    fn work_is_the_same_after_its_way_as_bytes() {
        for work in every_kind() {
            let bytes = write_work(&work);
            let read = read_work(&bytes).unwrap();
            assert_eq!((&read.id, read.key), (&work.id, work.key));
            assert!(
                read.deadline >= Instant::now() + Duration::from_secs(3500)
                    && read.deadline <= work.deadline + Duration::from_secs(60)
            );
            assert_eq!(timeless(&write_work(&read)), timeless(&bytes));
        }
        // doubles keep every bit, and an operand that stands twice is one container
        let read = every_kind().iter().map(|work| read_work(&write_work(work)).unwrap().question).collect::<Vec<_>>();
        let Question::Numbers(numbers) = &read[2] else { panic!("numbers") };
        assert_eq!(numbers.asked.plain, Some(vec![0.1, -f64::MAX, f64::MIN_POSITIVE]));
        assert_eq!(numbers.asked.result_bound, Some(1.0 + f64::EPSILON));
        assert!(Arc::ptr_eq(&numbers.operands[0].bytes, &numbers.operands[1].bytes));
        let Question::Circuit(circuit) = &read[1] else { panic!("a circuit") };
        assert_eq!((circuit.netlist.as_str(), circuit.inputs.row(1)), (NETLIST, &[4, 5, u32::MAX][..]));
    }

    #[test]
    fn an_end_is_the_same_after_its_way_as_bytes_and_of_its_own_work_alone() {
        for end in every_end() {
            let bytes = write_end(&id(7), &end);
            assert_eq!(read_end(&id(7), &bytes).unwrap(), end);
            assert!(read_end(&id(8), &bytes).is_err(), "{end:?}");
        }
    }

    #[test]
    fn bytes_that_are_cut_or_lengthened_are_refused() {
        let longer = |bytes: &[u8]| [bytes, b" "].concat();
        for work in every_kind() {
            let bytes = write_work(&work);
            assert!((0..bytes.len()).all(|cut| read_work(&bytes[..cut]).is_err()));
            assert!(read_work(&longer(&bytes)).is_err());
        }
        for end in every_end() {
            let bytes = write_end(&id(7), &end);
            assert!((0..bytes.len()).all(|cut| read_end(&id(7), &bytes[..cut]).is_err()), "{end:?}");
            assert!(read_end(&id(7), &longer(&bytes)).is_err(), "{end:?}");
        }
    }

    #[test]
    fn another_version_and_sizes_that_lie_are_refused() {
        let changed = |bytes: &[u8], change: &dyn Fn(&mut serde_json::Value)| {
            let (head, behind) = octets::split(bytes, HEAD_BYTES_MAX).unwrap();
            let mut head: serde_json::Value = serde_json::from_slice(head).unwrap();
            change(&mut head);
            with_head(&head, behind)
        };
        let [gates, circuit, numbers, _] = every_kind().try_into().ok().unwrap();
        for work in [&gates, &circuit, &numbers] {
            let bytes = write_work(work);
            assert!(read_work(&changed(&bytes, &|_| ())).is_ok());
            assert!(read_work(&changed(&bytes, &|head| head["version"] = 2.into())).is_err());
            assert!(read_work(&changed(&bytes, &|head| head["more"] = 2.into())).is_err());
            assert!(read_work(&changed(&bytes, &|head| head["key"] = "+1".into())).is_err());
            assert!(read_work(&changed(&bytes, &|head| head["left_ns"] = (-1).into())).is_err());
        }
        for (work, kind, member, wrong) in [
            (&gates, "gates", "dimension", serde_json::json!(u64::MAX)),
            (&gates, "gates", "dimension", 0.into()),
            (&gates, "gates", "blocks", serde_json::json!([u64::MAX, 1])),
            (&gates, "gates", "gates", serde_json::json!(["XOR", "MAYBE"])),
            (&gates, "gates", "gates", serde_json::json!([])),
            (&gates, "gates", "places", serde_json::json!([[2, 0], [0, 1], [0, 0]])),
            (&gates, "gates", "places", serde_json::json!([[0, 0]])),
            (&circuit, "circuit", "inputs", serde_json::json!(u64::MAX)),
            (&numbers, "numbers", "operation", "square".into()),
            (&numbers, "numbers", "plain", serde_json::json!(u64::MAX)),
            (&numbers, "numbers", "operands", serde_json::json!([0])),
            (&numbers, "numbers", "operands", serde_json::json!([0, 1])),
            (&numbers, "numbers", "result_bound", f64::NAN.to_bits().into()),
            (&numbers, "numbers", "containers", serde_json::json!([{"bytes": u64::MAX, "sources": null}])),
        ] {
            let bytes = changed(&write_work(work), &|head| head["question"][kind][member] = wrong.clone());
            assert!(read_work(&bytes).is_err(), "{member} {wrong}");
        }
        let end = write_end(&id(7), &every_end()[0]);
        assert!(read_end(&id(7), &changed(&end, &|head| head["version"] = 0.into())).is_err());
        assert!(read_end(&id(7), &changed(&end, &|head| head["end"]["completed"]["row_words"] = 3.into())).is_err());
    }
}
