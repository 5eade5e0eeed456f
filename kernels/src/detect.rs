//! Detection of the devices that compute: those of the best available kind, or of the requested kind.
//!
//! Every GPU must first prove itself on a few gates and operations on numbers. A GPU that differs from the CPU in one bit is passed over, like a
//! GPU that cannot be opened.

#[cfg(feature = "wgpu")]
mod batch_rows;
mod numbers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::backend::{Backend, DeviceInfo};
use crate::cpu::{Cpu, Isa};
#[cfg(feature = "cuda")]
use crate::cuda::Cuda;
use crate::error::{Error, Result, message_of};
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use crate::gpu::Gpu;
#[cfg(any(feature = "cuda", feature = "wgpu"))]
use crate::schemes::Card;
use crate::schemes::Schemes;
use crate::tfhe::circuit::run_plan;
use crate::tfhe::fold::Bit;
use crate::tfhe::keys::Masks;
use crate::tfhe::noise::InputNoise;
use crate::tfhe::{
    Circuit, EvaluationKey, Gate, GateRow, Gates, Lwe, LweList, MODULUS, ModSwitch, Params, ParamsLiteral, Plan,
    Preset, RING_MODULUS, bootstrap, mapping,
};
#[cfg(feature = "wgpu")]
use crate::wgpu::Wgpu;
use crate::xof;
use numbers::NumbersAnswer;

/// The operator's choice of devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// NVIDIA's cards through CUDA; without such a card, real GPUs through wgpu; without any GPU, the CPU.
    #[default]
    Auto,
    /// NVIDIA's cards.
    Cuda,
    /// GPUs of any vendor through wgpu; without a GPU, a driver that computes on the CPU.
    Wgpu,
    /// The CPU.
    Cpu,
}

impl Choice {
    /// All choices, in the order of the operator's documentation.
    pub const ALL: [Choice; 4] = [Choice::Auto, Choice::Cuda, Choice::Wgpu, Choice::Cpu];

    /// Returns the value of the operator's setting.
    pub fn name(self) -> &'static str {
        match self {
            Choice::Auto => "auto",
            Choice::Cuda => "cuda",
            Choice::Wgpu => "wgpu",
            Choice::Cpu => "cpu",
        }
    }
}

impl FromStr for Choice {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Choice, String> {
        let named = Choice::ALL.into_iter().find(|choice| choice.name() == word);
        named.ok_or_else(|| format!("{word:?} is not one of {}", Choice::ALL.map(Choice::name).join(", ")))
    }
}

/// A device of any kind.
pub enum AnyDevice {
    /// The CPU.
    Cpu(Cpu),
    /// One of NVIDIA's cards.
    #[cfg(feature = "cuda")]
    Cuda(Box<Card<Cuda>>),
    /// Any other card, or a driver that computes on the CPU.
    #[cfg(feature = "wgpu")]
    Wgpu(Box<Card<Wgpu>>),
}

impl AnyDevice {
    /// The device's description.
    pub fn info(&self) -> &DeviceInfo {
        match self {
            AnyDevice::Cpu(cpu) => cpu.info(),
            #[cfg(feature = "cuda")]
            AnyDevice::Cuda(card) => card.info(),
            #[cfg(feature = "wgpu")]
            AnyDevice::Wgpu(card) => card.info(),
        }
    }

    /// Names the schemes that the device computes ([`Schemes::schemes`]).
    pub fn schemes(&self) -> Vec<&'static str> {
        match self {
            AnyDevice::Cpu(cpu) => cpu.schemes(),
            #[cfg(feature = "cuda")]
            AnyDevice::Cuda(card) => card.schemes(),
            #[cfg(feature = "wgpu")]
            AnyDevice::Wgpu(card) => card.schemes(),
        }
    }

    /// Passes the device, as its concrete type, to `what`.
    pub fn with<W: WithDevice>(self, what: W) -> W::Out {
        match self {
            AnyDevice::Cpu(cpu) => what.with(cpu),
            #[cfg(feature = "cuda")]
            AnyDevice::Cuda(card) => what.with(*card),
            #[cfg(feature = "wgpu")]
            AnyDevice::Wgpu(card) => what.with(*card),
        }
    }
}

/// An operation on a device of any kind.
pub trait WithDevice {
    /// The operation's result.
    type Out;

    /// Runs the operation.
    fn with<B: Schemes>(self, backend: B) -> Self::Out;
}

/// A device, or a kind of devices, that is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// `cuda`, `wgpu`.
    pub backend: &'static str,
    /// The reason, for the operator.
    pub reason: String,
}

/// The result of a detection.
pub struct Detected {
    /// The devices that compute: at least one, all of one kind.
    pub devices: Vec<AnyDevice>,
    /// The devices and kinds that were tried first and are not used.
    pub passed_over: Vec<PassedOver>,
}

/// Tries the driver of a kind of devices before this process loads the driver. An error is the reasons for which the
/// kind is passed over.
pub type Trial<'a> = &'a dyn Fn(Choice) -> std::result::Result<(), Vec<String>>;

/// The trial that tries nothing.
pub fn untried(_: Choice) -> std::result::Result<(), Vec<String>> {
    Ok(())
}

/// Opens the devices of a choice, or the CPU if there are none. `kernel_cache` is the folder of compiled kernels,
/// created if missing. Without a folder, every process compiles all kernels anew. A kind that fails its trial, or whose
/// driver panics, is passed over.
pub fn detect(choice: Choice, kernel_cache: Option<&Path>, trial: Trial<'_>) -> Detected {
    let mut passed_over = Vec::new();
    for (kind, open) in [(Choice::Cuda, open_cuda as Open), (Choice::Wgpu, open_wgpu as Open)] {
        if choice != Choice::Auto && choice != kind {
            continue;
        }
        let (devices, reasons) = match trial(kind) {
            Ok(()) => opened(|| open(choice, kernel_cache)),
            Err(reasons) => (Vec::new(), reasons),
        };
        let backend = kind.name();
        passed_over.extend(reasons.into_iter().map(|reason| PassedOver { backend, reason }));
        if !devices.is_empty() {
            return Detected { devices, passed_over };
        }
    }
    Detected { devices: vec![AnyDevice::Cpu(Cpu::open())], passed_over }
}

/// A function that opens the devices of one kind. It returns the devices that passed the proof, and the errors of the
/// other devices.
type Open = fn(Choice, Option<&Path>) -> (Vec<AnyDevice>, Vec<Error>);

/// Opens devices, and returns the reasons for which others are passed over. The crates that call drivers panic where a
/// driver lacks a function. Such a panic passes all devices of the kind over.
fn opened(open: impl FnOnce() -> (Vec<AnyDevice>, Vec<Error>)) -> (Vec<AnyDevice>, Vec<String>) {
    match catch_unwind(AssertUnwindSafe(open)) {
        Ok((devices, refused)) => (devices, refused.into_iter().map(reason).collect()),
        Err(panic) => (Vec::new(), vec![format!("the driver cannot be used: {}", message_of(panic))]),
    }
}

/// Returns the text of an error, as a reason for the operator. For [`Error::Unavailable`], this is the message without
/// a prefix.
fn reason(error: Error) -> String {
    match error {
        Error::Unavailable(why) => why,
        other => other.to_string(),
    }
}

#[cfg(feature = "cuda")]
fn open_cuda(_: Choice, kernel_cache: Option<&Path>) -> (Vec<AnyDevice>, Vec<Error>) {
    let cards = Cuda::enumerate(kernel_cache).into_iter().map(|card| card.map(Card::new)).collect();
    proved(cards, |card| AnyDevice::Cuda(Box::new(card)))
}

#[cfg(not(feature = "cuda"))]
fn open_cuda(_: Choice, _: Option<&Path>) -> (Vec<AnyDevice>, Vec<Error>) {
    (Vec::new(), vec![not_built("cuda")])
}

#[cfg(feature = "wgpu")]
fn open_wgpu(choice: Choice, _: Option<&Path>) -> (Vec<AnyDevice>, Vec<Error>) {
    let open = |software| {
        let cards = Wgpu::enumerate(software).into_iter().map(|card| card.map(measured)).collect();
        proved(cards, |card| AnyDevice::Wgpu(Box::new(card)))
    };
    let (mut devices, mut refused) = open(false);
    if devices.is_empty() && choice == Choice::Wgpu {
        (devices, refused) = open(true);
    }
    (devices, refused)
}

/// A card through wgpu, which does not tell how many groups a card runs at the same time, so the size of its batches is
/// measured. Without a measurement the card keeps the estimate, and the proof that follows reports the card's error.
#[cfg(feature = "wgpu")]
fn measured(gpu: Wgpu) -> Card<Wgpu> {
    let mut card = Card::new(gpu);
    if let Ok(Some(rows)) = batch_rows::measured(&card) {
        card.set_rows_max(rows);
    }
    card
}

#[cfg(not(feature = "wgpu"))]
fn open_wgpu(_: Choice, _: Option<&Path>) -> (Vec<AnyDevice>, Vec<Error>) {
    (Vec::new(), vec![not_built("wgpu")])
}

#[cfg(not(all(feature = "cuda", feature = "wgpu")))]
fn not_built(backend: &str) -> Error {
    Error::Unavailable(format!("this program was built without the backend {backend}"))
}

/// Returns the cards that compute the right words, and the errors of all other cards.
#[cfg(any(feature = "cuda", feature = "wgpu"))]
fn proved<G: Gpu>(cards: Vec<Result<Card<G>>>, device: fn(Card<G>) -> AnyDevice) -> (Vec<AnyDevice>, Vec<Error>) {
    let (mut devices, mut refused) = (Vec::new(), Vec::new());
    for card in cards {
        let named = |card: &Card<G>, error| Error::Unavailable(format!("{}: {}", card.info().name, reason(error)));
        let proved = |card| prove(&card).map_err(|error| named(&card, error)).map(|()| card);
        match card.and_then(proved) {
            Ok(card) => devices.push(device(card)),
            Err(error) => refused.push(error),
        }
    }
    (devices, refused)
}

/// Number of different gates in a proof. The number is odd, and larger than the number of rows that share a step of the
/// key.
const PROOF_ROWS: usize = 33;

/// Number of gates in a proof over a key of full length. The number is small, because a driver that computes on the CPU
/// takes a second for each gate.
const WHOLE_ROWS: usize = 2;

/// Number of steps of a short key. With such a key, the same kernels run in a hundredth of the time.
const SHORT_DIMENSION: usize = 3;

/// Checks for every preset that a device computes the same words as the CPU:
///
/// - over a short key of the preset's ring: one gate, some gates, and more gates than a full batch, because each
///   number may take another path through a device
/// - over a key of full dimension: a few gates, because the dimension is compiled into some kernels
/// - over a short key of container version 1: some gates, because this version has another mod switch
/// - over each short key: also a mapped circuit, because cells have separate kernels
///
/// For every degree that protects numbers, also a product, a rotation and a rescale.
///
/// # Errors
/// The device's error, or [`Error::Device`] when a word differs.
pub fn prove<B: Schemes>(backend: &B) -> Result<()> {
    let full = backend.info().rows_max.max(PROOF_ROWS) + 1;
    // A wrong word does not stop the proof, because a simulated card, which computes nothing, must see every kernel.
    let mut proved = Ok(());
    for preset in Preset::ALL {
        let short = Answer::of(preset, SHORT_DIMENSION, PROOF_ROWS)?.check(backend, &[1, PROOF_ROWS, full]);
        let whole = Answer::of(preset, preset.params().lwe_dimension, WHOLE_ROWS)?.check(backend, &[WHOLE_ROWS]);
        proved = proved.and(short).and(whole);
    }
    for preset in Preset::OF_VERSION_1 {
        let mut key = proof_key(preset, SHORT_DIMENSION);
        key.params = key.params.with_mod_switch(ModSwitch::Nearest);
        proved = proved.and(Answer::of_key(key, PROOF_ROWS)?.check(backend, &[PROOF_ROWS]));
    }
    for answer in NumbersAnswer::all()? {
        proved = proved.and(answer.check(backend));
    }
    proved
}

/// Known answers that a device must reproduce at any time, computed by the CPU's portable instructions: gates over a
/// short key of every preset's ring, and operations on numbers of every degree.
pub struct KnownAnswers {
    gates: Vec<Answer>,
    /// Computed by the first check, because they take longer.
    numbers: OnceLock<Result<Vec<NumbersAnswer>>>,
}

impl KnownAnswers {
    /// Computes the answers of gates, in some milliseconds.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when memory runs out.
    pub fn compute() -> Result<KnownAnswers> {
        let gates = Preset::ALL.into_iter().map(|preset| Answer::of(preset, SHORT_DIMENSION, PROOF_ROWS));
        Ok(KnownAnswers { gates: gates.collect::<Result<_>>()?, numbers: OnceLock::new() })
    }

    /// Checks that a device reproduces the answers.
    ///
    /// # Errors
    /// The device's error, or [`Error::Device`] when a word differs.
    pub fn check<B: Schemes>(&self, backend: &B) -> Result<()> {
        self.gates.iter().try_for_each(|answer| answer.check(backend, &[PROOF_ROWS]))?;
        let numbers = self.numbers.get_or_init(NumbersAnswer::all).as_ref().map_err(Clone::clone)?;
        numbers.iter().try_for_each(|answer| answer.check(backend))
    }
}

/// A circuit of six input bits. Its outputs are AND and OR of two bits, which share a rotation, a majority, a parity of
/// three, a parity of three ANDs (whose wires have amplitude 1/4), and the negation of an input, which the host computes.
const PROOF_CIRCUIT: &str = "14 20\n6 1 1 1 1 1 1\n6 1 1 1 1 1 1\n2 1 0 1 6 XOR\n2 1 1 2 7 XOR\n2 1 6 7 8 AND\n2 1 2 3 9 AND\n\
    2 1 4 5 10 AND\n2 1 9 10 11 XOR\n2 1 0 1 12 AND\n2 1 11 12 13 XOR\n1 1 12 14 EQW\n2 1 0 1 15 OR\n2 1 1 8 16 XOR\n\
    2 1 6 2 17 XOR\n1 1 13 18 EQW\n1 1 0 19 INV\n";
/// The circuit's number of inputs.
const PROOF_INPUTS: usize = 6;

/// Gates and a circuit under one key, with the expected results.
struct Answer {
    key: EvaluationKey,
    rows: Vec<GateRow>,
    expected: Vec<Lwe>,
    /// The circuit, for short keys only.
    circuit: Option<CircuitAnswer>,
}

/// A mapped circuit with the expected results.
struct CircuitAnswer {
    plan: Plan,
    inputs: LweList,
    outputs: LweList,
}

impl Answer {
    fn of(preset: Preset, lwe_dimension: usize, count: usize) -> Result<Answer> {
        Answer::of_key(proof_key(preset, lwe_dimension), count)
    }

    fn of_key(key: EvaluationKey, count: usize) -> Result<Answer> {
        let rows = proof_rows(&key.params, count);
        let cpu = Cpu::with(Isa::Portable, 1);
        let loaded = cpu.load_key(&key)?;
        let expected = bootstrap::evaluate(&cpu, &loaded, &key.params, &rows)?;
        let circuit = if key.params.lwe_dimension == SHORT_DIMENSION {
            let (plan, inputs) = proof_circuit(&key);
            let outputs = run_plan(&cpu, &loaded, &plan, &inputs, &mut |_| {})?;
            Some(CircuitAnswer { plan, inputs, outputs })
        } else {
            None
        };
        Ok(Answer { key, rows, expected, circuit })
    }

    /// For each of these counts: repeats the gates up to the count, evaluates them, and compares the results.
    fn check<B: Gates + ?Sized>(&self, backend: &B, counts: &[usize]) -> Result<()> {
        let loaded = backend.load_key(&self.key)?;
        let mut wrong = false;
        for &count in counts {
            let repeated: Vec<GateRow> = self.rows.iter().cycle().take(count).cloned().collect();
            let found = bootstrap::evaluate(backend, &loaded, &self.key.params, &repeated)?;
            wrong |= found.iter().ne(self.expected.iter().cycle().take(count));
        }
        if let Some(CircuitAnswer { plan, inputs, outputs }) = &self.circuit {
            wrong |= run_plan(backend, &loaded, plan, inputs, &mut |_| {})? != *outputs;
        }
        if wrong {
            let why = "the device's results differ from the CPU's; the device's driver or memory is at fault";
            return Err(Error::Device(format!("{}: {why}", self.key.preset.name())));
        }
        Ok(())
    }
}

/// Makes a key for a preset's ring, with this many steps. The key's words are pseudorandom and hide no secret.
fn proof_key(preset: Preset, lwe_dimension: usize) -> EvaluationKey {
    let params =
        Params::try_from(ParamsLiteral { lwe_dimension, ..*preset.params() }).expect("fewer steps are in range");
    let seed = [0x5a; 32];
    let mut bootstrap_bodies = vec![0; params.bootstrap_body_words()];
    let mut key_switch_bodies = vec![0; params.key_switch_body_words()];
    // no mask uses row `u64::MAX` of these streams
    xof::fill_residues(&seed, xof::DOMAIN_BOOTSTRAP, u64::MAX, MODULUS, &mut bootstrap_bodies);
    xof::fill_torus(&seed, xof::DOMAIN_KEY_SWITCH, u64::MAX, &mut key_switch_bodies);
    // the largest words, which bring lazily reduced values closest to their bounds
    bootstrap_bodies[..params.polynomial_size].fill(RING_MODULUS - 1);
    let masks = Masks::Ango(seed);
    EvaluationKey { preset, params, fingerprint: None, masks, bootstrap_bodies, key_switch_bodies }
}

fn proof_rows(params: &Params, count: usize) -> Vec<GateRow> {
    rows_of(params, Gate::ALL.into_iter().cycle().take(count))
}

/// Makes rows of these gates. All operands differ, and their words are pseudorandom.
fn rows_of(params: &Params, gates: impl Iterator<Item = Gate>) -> Vec<GateRow> {
    let mut words = vec![0; params.lwe_dimension + 1];
    let mut operands = 0;
    let mut operand = || {
        operands += 1;
        xof::fill_torus(&[0xa5; 32], xof::DOMAIN_KEY_SWITCH, operands, &mut words);
        Lwe::new(words.clone())
    };
    gates.map(|gate| GateRow { gate, operands: (0..gate.arity()).map(|_| operand()).collect() }).collect()
}

/// Makes the proof's circuit, mapped for the key's preset, and inputs for it.
fn proof_circuit(key: &EvaluationKey) -> (Plan, LweList) {
    let circuit = Circuit::parse(PROOF_CIRCUIT).expect("a netlist");
    let operands = proof_rows(&key.params, PROOF_INPUTS).into_iter().flat_map(|row| row.operands);
    let mut inputs = LweList::with_capacity(key.params.lwe_dimension, PROOF_INPUTS);
    operands.take(PROOF_INPUTS).for_each(|operand| inputs.push(operand.words()));
    let names: Vec<Bit> = (0..PROOF_INPUTS as u32).map(Bit::value).collect();
    let network = mapping::map(&circuit, &names, &key.preset.params(), InputNoise::Fresh);
    (Plan::mapped(&network, names.len(), &key.params), inputs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ckks::{Arithmetic, Unsupported};
    use crate::cpu::Arena;
    use crate::tfhe::cpu::Key;
    use crate::tfhe::{Amplitude, CellKind, KeyedGates};

    #[test]
    fn choices_are_the_words_of_the_setting() {
        for choice in Choice::ALL {
            assert_eq!(choice.name().parse(), Ok(choice));
        }
        let error = "gpu".parse::<Choice>().unwrap_err();
        assert_eq!(error, r#""gpu" is not one of auto, cuda, wgpu, cpu"#);
    }

    #[test]
    fn there_is_always_a_device_and_a_reason_for_each_kind_that_was_wanted_and_is_not() {
        for choice in Choice::ALL {
            let Detected { devices, passed_over } = detect(choice, None, &untried);
            assert!(!devices.is_empty());
            let software = devices.iter().any(|device| device.info().backend == "wgpu-software");
            assert!(!software || choice == Choice::Wgpu, "software Vulkan only when it was asked for");
            let on_cpu = devices.iter().any(|device| matches!(device, AnyDevice::Cpu(_)));
            let wanted: &[&str] = match choice {
                Choice::Auto => &["cuda", "wgpu"],
                Choice::Cuda => &["cuda"],
                Choice::Wgpu => &["wgpu"],
                Choice::Cpu => &[],
            };
            for backend in wanted {
                assert!(
                    !on_cpu || passed_over.iter().any(|passed| passed.backend == *backend),
                    "{choice:?}: {backend}"
                );
            }
            assert!(passed_over.iter().all(|passed| wanted.contains(&passed.backend) && !passed.reason.is_empty()));
        }
    }

    #[test]
    fn a_kind_that_fails_its_trial_is_not_opened() {
        let refuse = |kind: Choice| Err(vec![format!("{} crashed", kind.name())]);
        let Detected { devices, passed_over } = detect(Choice::Auto, None, &refuse);
        assert!(matches!(&devices[..], [AnyDevice::Cpu(_)]));
        let reasons: Vec<_> = passed_over.iter().map(|passed| (passed.backend, passed.reason.as_str())).collect();
        assert_eq!(reasons, [("cuda", "cuda crashed"), ("wgpu", "wgpu crashed")]);
    }

    #[test]
    fn a_panic_of_a_driver_is_a_reason() {
        let (devices, reasons) = opened(|| panic!("Missing symbol cuDeviceGetCount"));
        assert!(devices.is_empty());
        assert_eq!(reasons, ["the driver cannot be used: Missing symbol cuDeviceGetCount"]);
    }

    /// A faulty device: the CPU with one wrong bit in one row, for keys of one preset's ring.
    struct Liar(Cpu, usize, Preset);

    impl Backend for Liar {
        type Arena = Arena;
        type Pending = Vec<u32>;

        fn info(&self) -> &DeviceInfo {
            self.0.info()
        }
        fn arena(&self, row_words: usize, slots: usize) -> Result<Arena> {
            self.0.arena(row_words, slots)
        }
        fn grow(&self, arena: &mut Arena, slots: usize) -> Result<()> {
            self.0.grow(arena, slots)
        }
        fn write(&self, arena: &mut Arena, first: u32, words: &[u32]) -> Result<()> {
            self.0.write(arena, first, words)
        }
        fn read(&self, arena: &Arena, slots: &[u32]) -> Result<Vec<u32>> {
            self.0.read(arena, slots)
        }
        fn finish(&self, pending: Vec<u32>) -> Result<Vec<u32>> {
            self.0.finish(pending)
        }
    }

    /// Only the proof of gates is tested with it.
    impl Arithmetic for Liar {
        type Tables = Unsupported;
        type Part = Unsupported;
    }

    impl Gates for Liar {
        type Key = Key;

        fn room_for_key(&self, params: &Params) -> Result<Key> {
            self.0.room_for_key(params)
        }
        fn load_piece(&self, into: &mut Key, piece: usize, key: &EvaluationKey) -> Result<bool> {
            self.0.load_piece(into, piece, key)
        }
        fn key_bytes(&self, params: &Params) -> u64 {
            self.0.key_bytes(params)
        }
        fn evaluate_together(&self, batches: &mut [KeyedGates<'_, Key, Arena>]) -> Result<Vec<u32>> {
            let mut words = self.0.evaluate_together(batches)?;
            let [KeyedGates { key, reads, .. }] = batches else { panic!("a proof is one batch") };
            if reads.is_empty() {
                return Ok(words);
            }
            let row_words = words.len() / reads.len();
            let (ring, lies) = (key.params(), self.2.params());
            let of_preset =
                (ring.polynomial_size, ring.key_switch_base) == (lies.polynomial_size, lies.key_switch_base);
            if let Some(word) = words.get_mut(self.1 * row_words)
                && of_preset
            {
                *word ^= 1;
            }
            Ok(words)
        }
    }

    #[test]
    fn the_circuit_of_a_proof_has_every_kind_of_cell() {
        for preset in Preset::ALL {
            let (plan, _) = proof_circuit(&proof_key(preset, SHORT_DIMENSION));
            let (cells, all) = plan.cells_of(0..plan.rows());
            let kinds: Vec<CellKind> = all.clone().map(|at| cells.cell(at).kind()).collect();
            for kind in
                [Amplitude::Eighth, Amplitude::Quarter].map(CellKind::Bootstrap).iter().chain([&CellKind::Switch])
            {
                assert!(kinds.contains(kind), "{preset:?} {kind:?}");
            }
            let two = |at: usize| cells.cell(at).kind() != CellKind::Switch && cells.cell(at).results().len() == 2;
            assert!(all.clone().any(two), "{preset:?}: two wires of a rotation");
        }
    }

    #[test]
    fn a_device_that_is_wrong_in_one_bit_for_one_preset_is_not_proved() {
        assert_eq!(prove(&Liar(Cpu::open(), usize::MAX / 1024, Preset::Fast128)), Ok(()));
        let answers = KnownAnswers::compute().unwrap();
        assert_eq!(answers.check(&Cpu::open()), Ok(()));
        for (row, preset) in [0, 1, PROOF_ROWS - 1, PROOF_ROWS / 2, 2].into_iter().zip(Preset::ALL) {
            let liar = Liar(Cpu::open(), row, preset);
            for error in [prove(&liar), answers.check(&liar)].map(|proved| proved.expect_err("it lies")) {
                let named = |why: &str| why.contains("results differ") && why.contains(preset.name());
                assert!(matches!(&error, Error::Device(why) if named(why)), "{error}");
            }
        }
    }
}
