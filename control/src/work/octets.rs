//! Work and its end as bytes: a JSON head with its length ([`api::octets`]), and behind the head words, numbers and
//! containers, little-endian. Both have a version. Bytes that are not exactly one value are refused, and no size is
//! believed before the bytes are there. Operands that have a name can be left out, for a worker that remembers them.

mod behind;
mod end;
mod names;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::OperationId;
use engine::{GateList, LweList, OPERATION_ROWS_MAX, OperandBlock, Place, WEIGHTS};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use self::behind::{Operands, VERSION, check_version, gate, nanoseconds};
use super::bits::{InputNoise, Mapping};
use super::key::{AccountDigest, KeyName, Operand, RestingId};
use super::named::{NamedBytes, push_words};
use super::numbers::{Asked, Operation, Sources, StoredOperand};
use super::question::{CircuitQuestion, GatesQuestion, NumbersQuestion, Question, Work};

pub use self::behind::NotWork;
pub(super) use self::behind::{split, with_head};
pub use self::end::{read_end, write_end};
use self::names::NameHead;

/// Largest dimension of ciphertexts of bits in bytes of work.
const DIMENSION_MAX: usize = 1 << 20;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkHead {
    version: u32,
    id: OperationId,
    /// 32 hexadecimal digits, as in [`KeyHead`].
    account: String,
    key: KeyHead,
    weight: u32,
    left_ns: u64,
    question: QuestionHead,
    /// Absent without names, because earlier members refuse it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    results: Vec<NameHead>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyHead {
    Session(String),
    Numbers(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum QuestionHead {
    Gates {
        gates: Vec<String>,
        dimension: usize,
        blocks: Vec<RowsHead>,
        /// Block and row of each operand.
        places: Vec<(u32, u32)>,
    },
    Circuit {
        by_gate: bool,
        fresh: bool,
        dimension: usize,
        inputs: Vec<RowsHead>,
        netlist_bytes: usize,
    },
    Numbers(NumbersHead),
}

/// Ciphertexts behind the head, one after another: a block of operands of gates, or an input of a circuit.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RowsHead {
    rows: usize,
    operand: Operand,
    /// The ciphertexts are not behind the head.
    #[serde(default, skip_serializing_if = "is_false")]
    left_out: bool,
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
    /// The bits of the double. Absent if nothing is promised, because earlier nodes refuse the member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    result_error_bound: Option<u64>,
    /// The operands in order, each as the index of its container.
    operands: Vec<usize>,
    containers: Vec<ContainerHead>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerHead {
    bytes: usize,
    operand: Operand,
    /// Hexadecimal digits.
    sources: Option<String>,
    /// The container is not behind the head.
    #[serde(default, skip_serializing_if = "is_false")]
    left_out: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

/// Which operands are behind the head.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Written {
    All,
    /// Those without a name.
    WithoutName,
}

impl Written {
    fn leaves_out(self, operand: &Operand) -> bool {
        self == Written::WithoutName && operand.is_named()
    }
}

/// Writes work as bytes.
pub fn write_work(work: &Work) -> Vec<u8> {
    write(work, Written::All)
}

/// Writes work without the operands that have a name. `None`: no operand has one.
pub fn write_short_work(work: &Work) -> Option<Vec<u8>> {
    let has_name = work.question.operands().into_iter().any(Operand::is_named);
    has_name.then(|| write(work, Written::WithoutName))
}

fn write(work: &Work, written: Written) -> Vec<u8> {
    let mut behind = Vec::new();
    let question = match &work.question {
        Question::Gates(question) => write_gates(question, written, &mut behind),
        Question::Circuit(question) => write_circuit(question, written, &mut behind),
        Question::Numbers(question) => QuestionHead::Numbers(write_numbers(question, written, &mut behind)),
    };
    let head = WorkHead {
        version: VERSION,
        id: work.id.clone(),
        account: format!("{:032x}", work.key.account.0),
        key: match work.key.key {
            RestingId::Session(bits) => KeyHead::Session(format!("{bits:032x}")),
            RestingId::Numbers(bits) => KeyHead::Numbers(format!("{bits:032x}")),
        },
        weight: work.weight,
        left_ns: nanoseconds(work.deadline.saturating_duration_since(Instant::now())),
        question,
        results: work.results.iter().map(NameHead::of).collect(),
    };
    with_head(&head, &behind)
}

/// Reads work whose operands all are behind the head.
///
/// # Errors
/// When the bytes are not exactly one piece of work of this version. The worker checks whether the work fits its key.
pub fn read_work(bytes: &[u8]) -> Result<Work, NotWork> {
    read_short_work(bytes, &|_, _| None)?.ok_or_else(|| NotWork::because("an operand is left out"))
}

/// Reads work that may leave out operands that have a name. `known`: finds them, by the key's name and the operand's. `None`: an
/// operand is left out and not known.
///
/// # Errors
/// As [`read_work`].
pub fn read_short_work(
    bytes: &[u8],
    known: &dyn Fn(&KeyName, &Operand) -> Option<NamedBytes>,
) -> Result<Option<Work>, NotWork> {
    let (head, behind): (WorkHead, _) = split(bytes)?;
    let key = key_of(&head)?;
    let known = |operand: &Operand| known(&key, operand);
    let mut operands = Operands { behind, known: &known, missing: false };
    match read(head, key, &mut operands) {
        Err(_) if operands.missing => Ok(None),
        read => read.map(Some),
    }
}

fn key_of(head: &WorkHead) -> Result<KeyName, NotWork> {
    check_version(head.version)?;
    let key = match (&head.key, &head.question) {
        (KeyHead::Session(digits), QuestionHead::Gates { .. } | QuestionHead::Circuit { .. }) => {
            RestingId::Session(number(digits)?)
        }
        (KeyHead::Numbers(digits), QuestionHead::Numbers(_)) => RestingId::Numbers(number(digits)?),
        _ => return Err(NotWork::because("the question is of another kind than the key")),
    };
    Ok(KeyName { account: AccountDigest(number(&head.account)?), key })
}

fn read(head: WorkHead, key: KeyName, operands: &mut Operands<'_>) -> Result<Work, NotWork> {
    if !WEIGHTS.contains(&head.weight) {
        return Err(NotWork::because("a weight that no account has"));
    }
    let left = Duration::from_nanos(head.left_ns);
    let deadline = Instant::now().checked_add(left).ok_or_else(|| NotWork::because("the deadline is too far"))?;
    let question = match head.question {
        QuestionHead::Gates { gates, dimension, blocks, places } => {
            read_gates(&gates, dimension, blocks, &places, operands)?
        }
        QuestionHead::Circuit { by_gate, fresh, dimension, inputs, netlist_bytes } => {
            let inputs = inputs.into_iter().map(of_bits).collect::<Result<Vec<_>, NotWork>>()?;
            if !(1..=DIMENSION_MAX).contains(&dimension) {
                return Err(NotWork::because("ciphertexts of no such dimension"));
            }
            let mut read = LweList::with_capacity(dimension, 0);
            for input in &inputs {
                read.append(&operands.ciphertexts(dimension, input)?);
            }
            let netlist = String::from_utf8(operands.behind.take(netlist_bytes)?.to_vec())
                .map_err(|_| NotWork::because("the netlist is not UTF-8"))?;
            Question::Circuit(CircuitQuestion {
                netlist: Arc::new(netlist),
                mapping: if by_gate { Mapping::Gates } else { Mapping::Cells },
                noise: if fresh { InputNoise::Fresh } else { InputNoise::Any },
                inputs: read,
                operands: inputs.into_iter().map(|RowsHead { rows, operand, .. }| (rows, operand)).collect(),
                planned: None,
            })
        }
        QuestionHead::Numbers(numbers) => read_numbers(numbers, operands)?,
    };
    operands.behind.end()?;
    let of_bits = !matches!(question, Question::Numbers(_));
    let results = head.results.into_iter().map(|name| name.read(of_bits)).collect::<Result<_, _>>()?;
    Ok(Work { id: head.id, key, weight: head.weight, question, deadline, results })
}

fn write_gates(question: &GatesQuestion, written: Written, behind: &mut Vec<u8>) -> QuestionHead {
    let list = &question.list;
    let blocks = question.blocks().map(|(operand, rows)| {
        let left_out = written.leaves_out(operand);
        if !left_out {
            push_words(rows.words(), behind);
        }
        RowsHead { rows: rows.len(), operand: operand.clone(), left_out }
    });
    QuestionHead::Gates {
        gates: list.gates().iter().map(|gate| gate.name().to_owned()).collect(),
        dimension: list.dimension(),
        blocks: blocks.collect(),
        places: list.places_of(0..list.gates().len()).iter().map(|place| (place.block, place.row)).collect(),
    }
}

fn read_gates(
    gates: &[String],
    dimension: usize,
    blocks: Vec<RowsHead>,
    places: &[(u32, u32)],
    from: &mut Operands<'_>,
) -> Result<Question, NotWork> {
    let gates = gates.iter().map(|name| gate(name)).collect::<Result<Vec<_>, _>>()?;
    let wanted: usize = gates.iter().map(|gate| gate.arity()).sum();
    if gates.is_empty() || gates.len() > OPERATION_ROWS_MAX || places.len() != wanted {
        return Err(NotWork::because("gates and operands do not fit"));
    }
    let is_there =
        |&(block, row): &(u32, u32)| blocks.get(block as usize).is_some_and(|block| (row as usize) < block.rows);
    if !places.iter().all(is_there) {
        return Err(NotWork::because("an operand that is not there"));
    }
    let read = blocks.into_iter().map(|block| {
        let block = of_bits(block)?;
        let rows = Arc::new(from.ciphertexts(dimension, &block)?) as OperandBlock;
        Ok((block.operand, rows))
    });
    let (operands, blocks) = read.collect::<Result<Vec<_>, NotWork>>()?.into_iter().unzip();
    let places = places.iter().map(|&(block, row)| Place { block, row }).collect();
    // the noise that the preset assumes holds for folded gates alone
    let list = GateList::of_places(gates, blocks, places).folded();
    Ok(Question::Gates(GatesQuestion { list, operands }))
}

fn write_circuit(question: &CircuitQuestion, written: Written, behind: &mut Vec<u8>) -> QuestionHead {
    let (mut inputs, mut from) = (Vec::with_capacity(question.operands.len()), 0);
    for (rows, operand) in &question.operands {
        let left_out = written.leaves_out(operand);
        if !left_out {
            push_words(question.inputs.rows(from..from + rows), behind);
        }
        from += rows;
        inputs.push(RowsHead { rows: *rows, operand: operand.clone(), left_out });
    }
    behind.extend_from_slice(question.netlist.as_bytes());
    QuestionHead::Circuit {
        by_gate: question.mapping == Mapping::Gates,
        fresh: question.noise == InputNoise::Fresh,
        dimension: question.inputs.dimension(),
        inputs,
        netlist_bytes: question.netlist.len(),
    }
}

fn write_numbers(question: &NumbersQuestion, written: Written, behind: &mut Vec<u8>) -> NumbersHead {
    let Asked { operation, plain, coefficients, steps, scale_stable, result_bound, result_error_bound } =
        &question.asked;
    for numbers in [plain, coefficients].into_iter().flatten() {
        numbers.iter().for_each(|number| behind.extend_from_slice(&number.to_le_bytes()));
    }
    // an operand that stands twice is written once
    let mut containers: Vec<&StoredOperand> = Vec::new();
    let mut operands = Vec::with_capacity(question.operands.len());
    for operand in &question.operands {
        let same = containers.iter().position(|before| Arc::ptr_eq(&before.bytes, &operand.bytes));
        operands.push(same.unwrap_or_else(|| {
            if !written.leaves_out(&operand.operand) {
                behind.extend_from_slice(&operand.bytes);
            }
            containers.push(operand);
            containers.len() - 1
        }));
    }
    let container = |operand: &&StoredOperand| ContainerHead {
        bytes: operand.bytes.len(),
        operand: operand.operand.clone(),
        sources: operand.sources.to_bytes().map(hex::encode),
        left_out: written.leaves_out(&operand.operand),
    };
    NumbersHead {
        operation: operation.name().to_owned(),
        plain: plain.as_ref().map(Vec::len),
        coefficients: coefficients.as_ref().map(Vec::len),
        steps: *steps,
        scale_stable: *scale_stable,
        result_bound: result_bound.map(f64::to_bits),
        result_error_bound: result_error_bound.map(f64::to_bits),
        operands,
        containers: containers.iter().map(container).collect(),
    }
}

fn read_numbers(head: NumbersHead, from: &mut Operands<'_>) -> Result<Question, NotWork> {
    let NumbersHead { plain, coefficients, steps, scale_stable, operands, containers, .. } = head;
    let operation = Operation::from_name(&head.operation).ok_or_else(|| NotWork::because("an unknown operation"))?;
    if operands.len() != operation.operands() || containers.len() > operands.len() {
        return Err(NotWork::because("operands do not fit the operation"));
    }
    let plain = plain.map(|count| from.behind.numbers(count)).transpose()?;
    let coefficients = coefficients.map(|count| from.behind.numbers(count)).transpose()?;
    let read = containers.into_iter().map(|ContainerHead { bytes, operand, sources, left_out }| {
        let operand = of_numbers(operand)?;
        let bytes = match left_out {
            false => Arc::new(Zeroizing::new(from.behind.take(bytes)?.to_vec())),
            true => from.left_out(&operand)?,
        };
        let sources = sources.map(hex::decode).transpose().map_err(|_| NotWork::because("sources"))?;
        Ok(StoredOperand { operand, bytes, sources: Sources::from_bytes(sources.as_deref()) })
    });
    let containers = read.collect::<Result<Vec<_>, NotWork>>()?;
    let operand = |at: usize| containers.get(at).cloned().ok_or_else(|| NotWork::because("a container is missing"));
    let operands = operands.into_iter().map(operand).collect::<Result<_, _>>()?;
    let [result_bound, result_error_bound] =
        [head.result_bound, head.result_error_bound].map(|bound| bound.map(f64::from_bits));
    let promises = [result_bound, result_error_bound];
    if promises.into_iter().flatten().any(|bound| !(bound > 0.0 && bound.is_normal())) {
        return Err(NotWork::because("a bound that is not above 0"));
    }
    let asked = Asked { operation, plain, coefficients, steps, scale_stable, result_bound, result_error_bound };
    Ok(Question::Numbers(NumbersQuestion { asked, operands, planned: None }))
}

/// Refuses a name that no operand of gates and circuits has.
fn of_bits(rows: RowsHead) -> Result<RowsHead, NotWork> {
    match rows.operand {
        Operand::Words | Operand::Value(_) => Ok(rows),
        Operand::Object(_) => Err(NotWork::because("bits are no ciphertext of the vault")),
    }
}

/// Refuses a name that no operand of operations on numbers has.
fn of_numbers(operand: Operand) -> Result<Operand, NotWork> {
    match operand {
        Operand::Words | Operand::Object(_) => Ok(operand),
        Operand::Value(_) => Err(NotWork::because("numbers are no value under a handle")),
    }
}

fn number(digits: &str) -> Result<u128, NotWork> {
    let is_digits = digits.len() == 32 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let number = is_digits.then(|| u128::from_str_radix(digits, 16).ok()).flatten();
    number.ok_or_else(|| NotWork::because("a name that is not 32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use api::{CiphertextId, HandleId, octets};
    use engine::{Gate, LweList};

    use super::super::named::{NamedResult, ResultHead};
    use super::super::numbers::Tail;
    use super::behind::HEAD_BYTES_MAX;
    use super::*;

    const NETLIST: &str = "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n";

    fn id(bits: u128) -> OperationId {
        OperationId::from_bits(bits)
    }

    fn work(question: Question) -> Work {
        let key = match question {
            Question::Numbers(_) => RestingId::Numbers(u128::MAX),
            _ => RestingId::Session(u128::MAX),
        };
        let key = KeyName { account: AccountDigest(1), key };
        let deadline = Instant::now() + Duration::from_secs(3600);
        Work { id: id(7), key, weight: 16, question, deadline, results: Vec::new() }
    }

    fn value(bits: u128) -> Operand {
        Operand::Value(HandleId::from_bits(bits))
    }

    fn object(bits: u128) -> Operand {
        Operand::Object(CiphertextId::from_bits(bits))
    }

    fn block(masks: &[u32]) -> OperandBlock {
        Arc::new(LweList::from_words(1, masks.iter().flat_map(|&mask| [mask, 1]).collect()))
    }

    fn operand(bytes: &[u8], seed: u8) -> StoredOperand {
        let (operand, sources) = (object(seed.into()), Sources::of_seed(&[seed; 32]));
        StoredOperand { operand, bytes: Arc::new(Zeroizing::new(bytes.to_vec())), sources }
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
            operands: vec![(1, value(3)), (1, Operand::Words)],
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
            result_error_bound: (operation == Operation::Multiply).then_some(f64::EPSILON),
        };
        let numbers = |operation, operands| {
            Question::Numbers(NumbersQuestion { asked: asked(operation), operands, planned: None })
        };
        vec![
            work(Question::Gates(GatesQuestion { list, operands: vec![Operand::Words, value(2)] })),
            work(Question::Circuit(circuit)),
            work(numbers(Operation::Multiply, vec![same.clone(), same])),
            work(numbers(Operation::Add, vec![operand(b"", 1), operand(b"xy", 2)])),
        ]
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
            assert_eq!((&read.id, read.key, read.weight), (&work.id, work.key, work.weight));
            assert_eq!(read.question.operands(), work.question.operands());
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

    /// Work with names for its results.
    fn naming(work: Work) -> Work {
        let head = ResultHead { level: 3, scale: 2f64.powi(40), value_bound: 1.5, variance: 0.25, tail: Tail::Mixed };
        let results = match work.question {
            Question::Numbers(_) => vec![NamedResult { rows: 8, operand: object(50), numbers: Some(head) }],
            _ => vec![NamedResult::value(1, &HandleId::from_bits(50)), NamedResult::value(2, &HandleId::from_bits(51))],
        };
        Work { results, ..work }
    }

    #[test]
    fn operands_that_are_left_out_are_found_by_their_names_or_the_work_is_fetched() {
        for work in every_kind().into_iter().map(naming) {
            let (bytes, short) = (write_work(&work), write_short_work(&work).unwrap());
            assert!(timeless(&short).1.len() < timeless(&bytes).1.len());
            let mut remembered = Vec::new();
            work.question.each_named(|operand, bytes| remembered.push((operand.clone(), bytes)));
            assert!(!remembered.is_empty());
            let find = |key: &KeyName, operand: &Operand| {
                assert_eq!(*key, work.key);
                remembered.iter().find(|(name, _)| name == operand).map(|(_, bytes)| bytes.clone())
            };
            let read = read_short_work(&short, &find).unwrap().unwrap();
            assert_eq!((timeless(&write_work(&read)), read.results), (timeless(&bytes), work.results.clone()));
            // without any of the operands, the work is not there
            for gone in 0..remembered.len() {
                let others =
                    |key: &KeyName, operand: &Operand| find(key, operand).filter(|_| *operand != remembered[gone].0);
                assert!(read_short_work(&short, &others).unwrap().is_none());
            }
            assert!(read_work(&short).is_err());
            // bytes of another size under the name, and cut work
            let cut =
                |key: &KeyName, operand: &Operand| find(key, operand).map(|bytes| Arc::new(bytes[1..].to_vec().into()));
            assert!(matches!(work.question, Question::Numbers(_)) || read_short_work(&short, &cut).is_err());
            assert!((0..short.len()).all(|length| read_short_work(&short[..length], &find).is_err()));
        }
        let nameless = Question::Gates(match every_kind().remove(0).question {
            Question::Gates(gates) => GatesQuestion { operands: vec![Operand::Words; 2], ..gates },
            _ => unreachable!(),
        });
        assert!(write_short_work(&work(nameless)).is_none());
    }

    #[test]
    fn names_that_no_such_result_has_are_refused() {
        let bits = serde_json::to_value(value(1)).unwrap();
        let numbers = serde_json::to_value(object(1)).unwrap();
        let head = |scale: f64| serde_json::json!({ "level": 1, "scale": scale.to_bits(), "value_bound": 0, "variance": 0, "mixed": false });
        for (at, work) in every_kind().iter().enumerate() {
            let named = |operand: &serde_json::Value, numbers: serde_json::Value| {
                let result = serde_json::json!({ "rows": 1, "operand": operand, "numbers": numbers });
                read_work(&changed(&write_work(work), &|head| head["results"] = serde_json::json!([result]))).is_ok()
            };
            let of_numbers = at >= 2;
            assert_eq!(named(&bits, serde_json::Value::Null), !of_numbers);
            assert_eq!(named(&numbers, head(1.0)), of_numbers);
            assert!(!named(&serde_json::json!("words"), serde_json::Value::Null));
            assert!(!named(&bits, head(1.0)) && !named(&numbers, serde_json::Value::Null));
            assert!(!named(&numbers, head(f64::NAN)) && !named(&numbers, head(-1.0)));
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
    }

    #[test]
    fn seeds_of_the_fuzz_target_are_work_of_this_version() {
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds/work");
        for (work, name) in every_kind().iter().zip(["gates", "circuit", "square", "sum"]) {
            let path = folder.join(name);
            if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
                std::fs::write(&path, write_work(work)).unwrap();
            }
            let seed = read_work(&std::fs::read(path).unwrap()).unwrap();
            assert_eq!(timeless(&write_work(&seed)), timeless(&write_work(work)));
        }
    }

    fn changed(bytes: &[u8], change: &dyn Fn(&mut serde_json::Value)) -> Vec<u8> {
        let (head, behind) = octets::split(bytes, HEAD_BYTES_MAX).unwrap();
        let mut head: serde_json::Value = serde_json::from_slice(head).unwrap();
        change(&mut head);
        with_head(&head, behind)
    }

    #[test]
    fn an_operand_is_words_a_value_of_bits_or_an_object_of_numbers() {
        let [gates, circuit, numbers, _] = every_kind().try_into().ok().unwrap();
        let malformed =
            [serde_json::json!("nothing"), serde_json::json!({ "value": "ct_1" }), serde_json::json!({ "object": 1 })];
        for (work, path, fit, foreign) in [
            (&gates, "/question/gates/blocks/1/operand", value(9), object(9)),
            (&circuit, "/question/circuit/inputs/0/operand", value(9), object(9)),
            (&numbers, "/question/numbers/containers/0/operand", object(9), value(9)),
        ] {
            let named = |name: serde_json::Value| {
                let bytes = changed(&write_work(work), &|head| *head.pointer_mut(path).unwrap() = name.clone());
                read_work(&bytes)
            };
            for name in [&fit, &Operand::Words] {
                let read = named(serde_json::to_value(name).unwrap()).unwrap();
                assert!(read.question.operands().contains(&name), "{path} {name:?}");
            }
            assert!(named(serde_json::to_value(&foreign).unwrap()).is_err(), "{path}");
            assert!(malformed.iter().all(|name| named(name.clone()).is_err()), "{path}");
        }
    }

    #[test]
    fn another_version_and_sizes_that_lie_are_refused() {
        let [gates, circuit, numbers, _] = every_kind().try_into().ok().unwrap();
        let digits = |digit: &str| digit.repeat(32);
        for work in [&gates, &circuit, &numbers] {
            let bytes = write_work(work);
            assert!(read_work(&changed(&bytes, &|_| ())).is_ok());
            for version in [0, 1, 3] {
                assert!(read_work(&changed(&bytes, &|head| head["version"] = version.into())).is_err());
            }
            for weight in [0, 65] {
                assert!(read_work(&changed(&bytes, &|head| head["weight"] = weight.into())).is_err());
            }
            let key =
                |kind: &str, name: String| changed(&bytes, &|head| head["key"] = serde_json::json!({ kind: name }));
            // the key of another kind, and names that are no names
            let [session, stored] = ["session", "numbers"].map(|kind| read_work(&key(kind, digits("f"))).is_ok());
            assert!(session != stored);
            for kind in ["session", "numbers", "file"] {
                assert!(read_work(&key(kind, digits("g"))).is_err() && read_work(&key(kind, "f".into())).is_err());
            }
            assert!(read_work(&changed(&bytes, &|head| head["more"] = 2.into())).is_err());
            assert!(read_work(&changed(&bytes, &|head| head["key"] = "+1".into())).is_err());
            assert!(read_work(&changed(&bytes, &|head| head["left_ns"] = (-1).into())).is_err());
        }
        for (work, kind, member, wrong) in [
            (&gates, "gates", "dimension", serde_json::json!(u64::MAX)),
            (&gates, "gates", "dimension", 0.into()),
            (&gates, "gates", "blocks", serde_json::json!([{ "rows": u64::MAX, "operand": "words" }])),
            (&gates, "gates", "gates", serde_json::json!(["XOR", "MAYBE"])),
            (&gates, "gates", "gates", serde_json::json!([])),
            (&gates, "gates", "places", serde_json::json!([[2, 0], [0, 1], [0, 0]])),
            (&gates, "gates", "places", serde_json::json!([[0, 0]])),
            (&circuit, "circuit", "inputs", serde_json::json!([{ "rows": u64::MAX, "operand": "words" }])),
            (&numbers, "numbers", "operation", "square".into()),
            (&numbers, "numbers", "plain", serde_json::json!(u64::MAX)),
            (&numbers, "numbers", "operands", serde_json::json!([0])),
            (&numbers, "numbers", "operands", serde_json::json!([0, 1])),
            (&numbers, "numbers", "result_bound", f64::NAN.to_bits().into()),
            (
                &numbers,
                "numbers",
                "containers",
                serde_json::json!([{ "bytes": u64::MAX, "operand": "words", "sources": null }]),
            ),
        ] {
            let bytes = changed(&write_work(work), &|head| head["question"][kind][member] = wrong.clone());
            assert!(read_work(&bytes).is_err(), "{member} {wrong}");
        }
    }
}
