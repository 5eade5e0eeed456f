//! Makes a request ready for submission: finds and checks the netlist, reads the inputs, reserves memory.

use std::sync::Arc;

use api::circuits::{
    CIRCUIT_TEXT_BYTES_MAX, CircuitMapping, CircuitOutputs, CircuitRequest, CircuitValue, is_circuit_name,
};
use api::{Code, HandleId};

use super::netlist::{NetlistBounds, read_netlist};
use super::{unknown_circuit, value_bytes};
use crate::access::limits::Quota;
use crate::caller::Caller;
use crate::compute::Compute;
use crate::compute::bits::sessions::OpenSession;
use crate::compute::bits::workbench::{EncryptedValue, Room, ValueMemory, Workbench, no_room, unknown_handle};
use crate::web::body::Reserved;
use crate::web::error::ApiError;
use crate::web::octets::Words;
use crate::work::{
    self, Form, InputNoise, LweList, Mapping, Netlist, OpenKey, Operand, PlanCache, PlannedCircuit, SeededLweList,
    Seeds, builtin,
};

/// A request to run a circuit, as it was received.
pub struct RunRequest {
    /// The JSON request, or the head of an octet-stream.
    pub request: CircuitRequest,
    /// The ciphertexts after the head of an octet-stream.
    pub words: Option<Words>,
    /// The memory reserved for the request and its ciphertexts.
    pub reserved: Reserved,
    /// Counts the request's gates against the limits.
    pub quota: Quota,
}

/// A circuit that is ready for submission.
pub struct Prepared {
    /// The circuit.
    pub circuit: PlannedCircuit,
    /// The ciphertexts of all inputs of the circuit, one input after another.
    pub inputs: LweList,
    /// Bits of each output value.
    pub output_widths: Vec<usize>,
    /// The form in which the results are written.
    pub form: Form,
    /// Memory for the inputs while the circuit runs.
    pub inputs_room: Room,
    /// Memory for the results.
    pub outputs_room: Room,
    /// Memory for the record of the circuit's run.
    pub record_room: Room,
    /// Memory for the netlist, until the circuit is submitted.
    pub reserved: Reserved,
}

/// Bytes of a run's record: ids and counts, and a handle for each output.
const RECORD_BYTES: u64 = 1024;
const RECORD_OUTPUT_BYTES: u64 = 64;

/// Checks a request completely, the cheapest checks first.
pub async fn prepare(
    compute: &Compute,
    caller: &Caller,
    session: &OpenSession,
    given: RunRequest,
) -> Result<Prepared, ApiError> {
    let RunRequest {
        request: CircuitRequest { circuit, inputs, outputs, mapping, fingerprint, seeds, .. },
        words,
        reserved,
        ..
    } = given;
    if outputs == Some(CircuitOutputs::Handles) {
        session.record.may_keep(compute.clock.now())?;
    }
    if let Some(fingerprint) = fingerprint {
        work::check_fingerprint(&session.key, &fingerprint)?;
    }
    if seeds.is_some() && words.is_none() {
        let message = "seeds may only be in the head of an octet-stream; in JSON, a container of seeded ciphertexts \
             already contains their seed";
        return Err(ApiError::new(Code::InvalidRequest, message).at("seeds", "not of this form"));
    }
    let seeds = seeds.as_deref().map(Seeds::of).transpose()?;
    let sources = sources(&session.bench, inputs, words.is_some()).await?;
    let text = netlist_text(compute, caller, circuit).await?;
    let bounds = NetlistBounds::of(&compute.circuits, caller.role);
    let (key, memory, plans) = (*session.key, session.bench.memory.clone(), compute.workers.plans());
    let prepared = compute.offload.run(caller.into(), move || {
        let text = Arc::new(text);
        let netlist = read_netlist(&text, &bounds, "circuit")?;
        let planner =
            Planner { netlist: &netlist, text: &text, mapping: mapping.unwrap_or_default(), remembered: &plans };
        let behind = BehindHead { words: words.unwrap_or_default(), seeds };
        read(&key, &memory, planner, sources, behind, reserved)
    });
    prepared.await?
}

/// Everything but the inputs on which a plan depends.
struct Planner<'a> {
    netlist: &'a Netlist,
    /// The text of the netlist.
    text: &'a Arc<String>,
    mapping: CircuitMapping,
    remembered: &'a PlanCache,
}

/// The name of each input, with its number of bits.
type InputNames = Vec<(usize, Operand)>;

impl Planner<'_> {
    /// Makes the plan for these inputs. `are_fresh`: a client has encrypted all inputs, so none is a result of gates.
    fn plan(&self, key: &OpenKey, inputs: &LweList, names: InputNames, are_fresh: bool) -> PlannedCircuit {
        let mapping = match self.mapping {
            CircuitMapping::None => Mapping::Gates,
            CircuitMapping::Cells => Mapping::Cells,
        };
        let noise = if are_fresh { InputNoise::Fresh } else { InputNoise::Any };
        self.netlist.plan(self.text, key, inputs, names, (mapping, noise), self.remembered)
    }
}

/// The ciphertexts that follow the head of an octet-stream, and the seeds that the head gives for them.
struct BehindHead {
    words: Words,
    seeds: Option<Seeds>,
}

/// The source of an input's bits.
enum Source {
    Texts(Vec<String>),
    /// One container with all bits of the input.
    Seeded(SeededLweList),
    Kept(HandleId, Arc<EncryptedValue>),
    /// Number of the input's ciphertexts, which follow the head in the octet stream.
    Words(usize),
}

impl Source {
    fn bits(&self) -> usize {
        match self {
            Source::Texts(texts) => texts.len(),
            Source::Seeded(bits) => bits.len(),
            Source::Kept(_, value) => value.bits.len(),
            Source::Words(bits) => *bits,
        }
    }

    fn name(&self) -> Operand {
        match self {
            Source::Kept(handle, _) => Operand::Value(handle.clone()),
            Source::Texts(_) | Source::Seeded(_) | Source::Words(_) => Operand::Words,
        }
    }
}

/// Finds the source of each input. For an input that is a handle, looks up the session's value under this handle.
async fn sources(bench: &Workbench, inputs: Vec<CircuitValue>, octets: bool) -> Result<Vec<Source>, ApiError> {
    let mut sources = Vec::with_capacity(inputs.len());
    for (index, input) in inputs.into_iter().enumerate() {
        let place = format!("inputs[{index}]");
        let wrong =
            |message: String| ApiError::new(Code::InvalidRequest, message).at(place.clone(), "not of this form");
        sources.push(match input {
            CircuitValue::Handle(text) => {
                let handle: HandleId = text.parse().map_err(|_| unknown_handle(Some(&place)))?;
                let value = bench.value(&handle).await?.ok_or_else(|| unknown_handle(Some(&place)))?;
                Source::Kept(handle, value)
            }
            CircuitValue::Ciphertexts(texts) if !octets => Source::Texts(texts),
            CircuitValue::Bits(bits) if octets => Source::Words(usize::try_from(bits).unwrap_or(usize::MAX)),
            CircuitValue::Ciphertexts(_) => {
                return Err(wrong(format!(
                    "{place}: in an octet-stream, an input is given by its count of ciphertexts or by a handle"
                )));
            }
            CircuitValue::Bits(_) => {
                let message = format!("{place}: in JSON, an input is given by a list of ciphertexts or by a handle");
                return Err(wrong(message));
            }
        });
    }
    Ok(sources)
}

/// Returns the text of the netlist that a request means. `circuit` is the text itself, or the name of a circuit of the
/// account or of a circuit that every node has. Names have no line break, so a `circuit` with a line break is the text.
async fn netlist_text(compute: &Compute, caller: &Caller, circuit: String) -> Result<String, ApiError> {
    if circuit.contains('\n') {
        return match circuit.len() {
            0..=CIRCUIT_TEXT_BYTES_MAX => Ok(circuit),
            _ => Err(ApiError::new(Code::PayloadTooLarge, "a netlist may have at most 32 MB")
                .at("circuit", "more than 32 MB")),
        };
    }
    if circuit.starts_with(builtin::PREFIX) {
        let made = compute.offload.run(caller.into(), move || builtin::netlist(&circuit)).await?;
        return made.map_err(|unknown| {
            ApiError::new(Code::InvalidParams, unknown.to_string())
                .at("circuit", "not the name of a circuit that every node has")
        });
    }
    if !is_circuit_name(&circuit) {
        let message = "circuit must be a netlist (a text with line breaks) or the name of a circuit";
        return Err(ApiError::new(Code::InvalidParams, message).at("circuit", "neither netlist nor name"));
    }
    compute.netlists.read(caller, &circuit).await?.ok_or_else(unknown_circuit)
}

/// Reserves memory, reads the inputs and makes the plan. Takes much CPU time, so call this outside the async threads.
fn read(
    key: &OpenKey,
    memory: &ValueMemory,
    planner: Planner<'_>,
    sources: Vec<Source>,
    BehindHead { words, seeds }: BehindHead,
    reserved: Reserved,
) -> Result<Prepared, ApiError> {
    let seeded = |(index, source)| match source {
        Source::Texts(texts) => {
            let seeded = work::read_seeded_value(key, &texts, &format!("inputs[{index}]"))?;
            Ok::<_, ApiError>(seeded.map_or(Source::Texts(texts), Source::Seeded))
        }
        other => Ok(other),
    };
    let netlist = planner.netlist;
    let sources = sources.into_iter().enumerate().map(seeded).collect::<Result<Vec<_>, _>>()?;
    // only seeded ciphertexts are certainly fresh: others may be results of gates
    let are_fresh = sources.iter().all(|source| match source {
        Source::Seeded(_) => true,
        Source::Words(_) => seeds.is_some(),
        Source::Texts(_) | Source::Kept(..) => false,
    });
    check_widths(&sources, netlist.input_widths())?;
    let names = sources.iter().map(|source| (source.bits(), source.name())).collect();
    let bits = |widths: &[usize]| widths.iter().sum::<usize>();
    let output_widths = netlist.output_widths().to_vec();
    let record_bytes = RECORD_BYTES + RECORD_OUTPUT_BYTES * output_widths.len() as u64;
    let outputs_room = memory.reserve(value_bytes(key, bits(&output_widths))).map_err(no_room)?;
    let inputs_room = memory.reserve(value_bytes(key, bits(netlist.input_widths()))).map_err(no_room)?;
    let record_room = memory.reserve(record_bytes).map_err(no_room)?;

    let in_words: usize = sources.iter().map(|source| if let Source::Words(bits) = source { *bits } else { 0 }).sum();
    let in_words = work::read_words(key, words, seeds.as_ref(), in_words)?;
    if sources.iter().all(|source| matches!(source, Source::Words(_))) {
        let (circuit, inputs, form) = (planner.plan(key, &in_words, names, are_fresh), in_words, Form::Ango);
        return Ok(Prepared { circuit, inputs, output_widths, form, inputs_room, outputs_room, record_room, reserved });
    }
    let (mut inputs, mut first_form) = (work::empty_list(key, bits(netlist.input_widths())), None);
    let mut words_taken = 0;
    for (index, source) in sources.into_iter().enumerate() {
        let form = match source {
            Source::Texts(texts) => work::read_value(key, &texts, &format!("inputs[{index}]"), &mut inputs)?,
            Source::Seeded(bits) => {
                inputs.append_seeded(bits.seed(), bits.bodies());
                Some(Form::Ango)
            }
            Source::Kept(_, value) => {
                inputs.append(&value.bits);
                Some(value.form)
            }
            Source::Words(bits) => {
                in_words.iter().skip(words_taken).take(bits).for_each(|words| inputs.push(words));
                words_taken += bits;
                Some(Form::Ango)
            }
        };
        first_form = first_form.or(form);
    }
    let form = first_form.unwrap_or(Form::Ango);
    let circuit = planner.plan(key, &inputs, names, are_fresh);
    Ok(Prepared { circuit, inputs, output_widths, form, inputs_room, outputs_room, record_room, reserved })
}

fn check_widths(sources: &[Source], widths: &[usize]) -> Result<(), ApiError> {
    let (given, wanted) = (sources.len(), widths.len());
    if given != wanted {
        let message = format!("the request has {given} inputs, but the circuit takes {wanted}");
        return Err(ApiError::new(Code::InvalidParams, message).at("inputs", format!("{wanted} wanted")));
    }
    for (index, (source, &wanted)) in sources.iter().zip(widths).enumerate() {
        let given = source.bits();
        if given != wanted {
            let place = format!("inputs[{index}]");
            let message = format!("{place} has {given} bits, but this input of the circuit has {wanted}");
            return Err(ApiError::new(Code::InvalidParams, message).at(place, format!("{wanted} bits wanted")));
        }
    }
    Ok(())
}
