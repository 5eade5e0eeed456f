//! The throughput of single instructions on a card, in operations a clock. This throughput limits the speed of gates.
//! Vendors do not publish it for multiplications that give high or wide words.

use std::time::{Duration, Instant};

use kernels::cuda::cubin::{self, Count};
use kernels::cuda::{Image, Paper};
use kernels::gpu::{Bind, Gpu, Launch, Source, View};
use kernels::tfhe::gpu::blind_rotate::Variant;
use kernels::tfhe::{Gates, Params};
use kernels::{Card, Result};

/// Number of operations of a thread in a round. The kernels' source has the same number.
const OPERATIONS: u32 = 128;
const THREADS: u32 = 256;
/// Number of groups that a launch has for each multiprocessor. All of them run at once.
const GROUPS_OF_A_MULTIPROCESSOR: u32 = 8;
/// Number of words that a launch reads from the L2 cache: 40 MB, the size of the two keys of `fast_128`.
const L2_WORDS: u32 = 10_000_000;
/// Number of groups in a row that exchange words. The kernels' source has the same number.
const ROW_GROUPS: u32 = 4;
/// Numbers of rows in a launch: one, as many as a batch of 64 gates has, and for clusters more than can run at once.
const ROWS: [u32; 3] = [1, 64, 500];
/// Number of threads in each group of a row. The kernels' source has the same number.
const ROW_THREADS: u32 = 128;
/// Number of words that a group shows to its partners in a round. The kernels' source has the same number.
const SHOWN_WORDS: u32 = 1024;
/// Compute capability of the first cards with clusters.
const CLUSTERS_FROM: (u32, u32) = (9, 0);

/// Numbers of rounds in a launch. On a card a launch takes some milliseconds, or a third of a second if the card
/// computes slowly with doubles. Emulated cards use few rounds.
#[derive(Clone, Copy, Debug)]
pub struct Rounds {
    /// Rounds of a kernel that measures an instruction.
    pub instructions: u32,
    /// How many times a launch reads all `l2_words`.
    pub l2: u32,
    /// Rounds of the kernels that measure barriers.
    pub barriers: u32,
    /// Number of words that are read from the L2 cache.
    pub l2_words: u32,
}

impl Rounds {
    /// The rounds for a real card.
    pub const CARD: Rounds = Rounds { instructions: 4096, l2: 20, barriers: 10_000, l2_words: L2_WORDS };
}

/// The measured rates of one card.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Rate of IMAD, in lanes a clock on each multiprocessor. The next six figures have the same unit. A rate of 64
    /// means that an instruction of a warp takes half a clock.
    pub multiply: f64,
    /// IMAD.HI.
    pub multiply_high: f64,
    /// IMAD.WIDE.
    pub multiply_wide: f64,
    /// SHF, whose rate is that of all instructions for sums and logic.
    pub shift: f64,
    /// Adds two words and takes the minimum of the sum and a third word (VIADDMNMX).
    pub reduce: f64,
    /// DFMA.
    pub double: f64,
    /// LDS.64.
    pub load_shared: f64,
    /// Bytes a second from the L2 cache.
    pub l2_bytes: f64,
    /// The barriers of groups that exchange words. Cards without clusters have those in global memory only.
    pub barriers: Vec<Barrier>,
}

/// A measured barrier of the four groups of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Barrier {
    /// Which barrier.
    pub form: Form,
    /// Number of rows that run at the same time.
    pub rows: u32,
    /// Nanoseconds of a round that writes 4 KB in each group and waits.
    pub alone_ns: f64,
    /// Nanoseconds of a round that also reads 12 KB from the partners.
    pub read_ns: f64,
    /// Number of words that differed from the words that the partner had written, over all launches.
    pub wrong: u64,
}

/// The barriers in `blind_rotate.async`, and another form of `groups_sync` that only the benches have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// `cluster_sync_all`, with words in shared memory: orders all memory.
    ClusterAll,
    /// `cluster_sync`, with words in shared memory: orders shared memory only.
    Cluster,
    /// `groups_sync`, with words in global memory: all threads poll.
    Groups,
    /// A form of `groups_sync` in which one thread polls.
    GroupsOnePolls,
}

impl Form {
    /// All barriers.
    pub const ALL: [Form; 4] = [Form::ClusterAll, Form::Cluster, Form::Groups, Form::GroupsOnePolls];

    /// Whether the groups exchange words in global memory, which needs no clusters.
    fn is_of_groups(self) -> bool {
        matches!(self, Form::Groups | Form::GroupsOnePolls)
    }

    /// The name of the function.
    pub fn name(self) -> &'static str {
        match self {
            Form::ClusterAll => "cluster_sync_all",
            Form::Cluster => "cluster_sync",
            Form::Groups => "groups_sync",
            Form::GroupsOnePolls => "groups_sync_one_polls",
        }
    }
}

/// The sources of the measuring kernels for a card of this compute capability.
pub fn sources(capability: (u32, u32)) -> Vec<Source> {
    let helpers = include_str!("../../shaders/blind_rotate.async.cu");
    let rates = [helpers, include_str!("rates/rates.cu")].concat();
    let groups = [&rates, include_str!("rates/groups.cu")].concat();
    let barriers = match capability >= CLUSTERS_FROM {
        true => [&groups, include_str!("rates/clusters.cu")].concat(),
        false => groups,
    };
    vec![Source { stem: "rates", text: rates }, Source { stem: "rates.barriers", text: barriers }]
}

/// Measures a card whose multiprocessors run at `clock_khz`. The measurement of each figure takes at least `time`.
///
/// # Errors
/// The card's error.
pub fn measure<G: Gpu>(gpu: &G, clock_khz: u32, rounds: Rounds, time: Duration) -> Result<Rates> {
    let properties = gpu.properties();
    let sources = sources(properties.compute_capability.unwrap_or_default());
    let module = gpu.compile(&sources[0])?;
    let groups = GROUPS_OF_A_MULTIPROCESSOR * properties.multiprocessors;
    let out = gpu.alloc((groups * THREADS) as usize)?;
    let clocks = f64::from(clock_khz) * 1e3 * f64::from(properties.multiprocessors);
    let rate = |entry| -> Result<f64> {
        let launch = Launch {
            module: &module,
            entry,
            groups: [groups, 1, 1],
            threads: THREADS,
            shared_bytes: 0,
            cluster: 1,
            bind: vec![Bind::write(View::all(&out))],
            args: vec![rounds.instructions, 3, 5],
        };
        let seconds = seconds_each(time, 1, || gpu.launch(&launch).and_then(|()| ended(gpu, &out)))?;
        let operations = f64::from(groups * THREADS) * f64::from(rounds.instructions) * f64::from(OPERATIONS);
        Ok(operations / (seconds * clocks))
    };
    Ok(Rates {
        multiply: rate("rate_multiply")?,
        multiply_high: rate("rate_multiply_high")?,
        multiply_wide: rate("rate_multiply_wide")?,
        shift: rate("rate_shift")?,
        reduce: rate("rate_reduce")?,
        double: rate("rate_double")?,
        load_shared: rate("rate_load_shared")?,
        l2_bytes: l2(gpu, &module, (groups, &out), rounds, time)?,
        barriers: barriers(gpu, &sources[1], rounds, time)?,
    })
}

fn l2<G: Gpu>(
    gpu: &G,
    module: &G::Module,
    (groups, out): (u32, &G::Buf),
    rounds: Rounds,
    time: Duration,
) -> Result<f64> {
    let words = gpu.alloc(rounds.l2_words as usize)?;
    let launch = Launch {
        module,
        entry: "rate_l2",
        groups: [groups, 1, 1],
        threads: THREADS,
        shared_bytes: 0,
        cluster: 1,
        bind: vec![Bind::read(View::all(&words)), Bind::write(View::all(out))],
        args: vec![rounds.l2, rounds.l2_words],
    };
    let seconds = seconds_each(time, 1, || gpu.launch(&launch).and_then(|()| ended(gpu, out)))?;
    Ok(4.0 * f64::from(rounds.l2_words) * f64::from(rounds.l2) / seconds)
}

fn barriers<G: Gpu>(gpu: &G, source: &Source, rounds: Rounds, time: Duration) -> Result<Vec<Barrier>> {
    let module = &gpu.compile(source)?;
    let has_clusters = gpu.properties().compute_capability >= Some(CLUSTERS_FROM);
    let mut barriers = Vec::new();
    for form in Form::ALL.into_iter().filter(|&form| has_clusters || form.is_of_groups()) {
        // groups that wait through global memory must all run at the same time
        let rows = ROWS.into_iter().filter(|&rows| !form.is_of_groups() || rows <= gpu.properties().multiprocessors);
        for rows in rows {
            let [(alone_ns, wrong_alone), (read_ns, wrong_read)] = [
                barrier(gpu, module, form, (rows, 0), rounds, time)?,
                barrier(gpu, module, form, (rows, ROW_GROUPS - 1), rounds, time)?,
            ];
            barriers.push(Barrier { form, rows, alone_ns, read_ns, wrong: wrong_alone + wrong_read });
        }
    }
    Ok(barriers)
}

/// Nanoseconds of a round with this number of partners, and the number of wrong words.
fn barrier<G: Gpu>(
    gpu: &G,
    module: &G::Module,
    form: Form,
    (rows, partners): (u32, u32),
    rounds: Rounds,
    time: Duration,
) -> Result<(f64, u64)> {
    let groups = ROW_GROUPS * rows;
    let threads = (groups * ROW_THREADS) as usize;
    let out = gpu.alloc(threads)?;
    let shown = gpu.alloc((rows * 2 * ROW_GROUPS * SHOWN_WORDS) as usize)?;
    let arrived = gpu.alloc(rows as usize)?;
    let mut bind = vec![Bind::write(View::all(&out))];
    if form.is_of_groups() {
        bind.extend([Bind::write(View::all(&shown)), Bind::write(View::all(&arrived))]);
    }
    let is_other_form = matches!(form, Form::ClusterAll | Form::GroupsOnePolls);
    let args = vec![rounds.barriers, partners, u32::from(is_other_form)];
    let launch = Launch {
        module,
        entry: if form.is_of_groups() { "group_rounds" } else { "cluster_rounds" },
        groups: [groups, 1, 1],
        threads: ROW_THREADS,
        shared_bytes: 0,
        cluster: ROW_GROUPS,
        bind,
        args,
    };
    let mut wrong = 0;
    let seconds = seconds_each(time, 1, || {
        gpu.write(&arrived, 0, &vec![0; rows as usize])?;
        gpu.launch(&launch)?;
        let words = gpu.finish(gpu.read(&out, std::slice::from_ref(&(0..threads)))?)?;
        wrong += words.into_iter().map(u64::from).sum::<u64>();
        Ok(())
    })?;
    Ok((1e9 * seconds / f64::from(rounds.barriers), wrong))
}

/// Repeats `work` for at least `time` and at least `repeats_min` times, after one unmeasured run. Returns the seconds of
/// one run.
///
/// # Errors
/// The error of `work`.
pub fn seconds_each(time: Duration, repeats_min: u32, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    work()?;
    let start = Instant::now();
    let mut repeats = 0;
    while repeats < repeats_min || start.elapsed() < time {
        work()?;
        repeats += 1;
    }
    Ok(start.elapsed().as_secs_f64() / f64::from(repeats))
}

/// Waits until the launches that were started before have ended, because then a word of `out` can be read.
fn ended<G: Gpu>(gpu: &G, out: &G::Buf) -> Result<()> {
    gpu.finish(gpu.read(out, std::slice::from_ref(&(0..1)))?).map(drop)
}

/// The rates of a multiprocessor's pipes, in lanes a clock.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pipes {
    /// Rate of IMAD in the multiplier.
    pub multiply: f64,
    /// IMAD.HI in the multiplier.
    pub multiply_high: f64,
    /// IMAD.WIDE in the multiplier.
    pub multiply_wide: f64,
    /// Instructions for sums and logic, in their own pipe.
    pub alu: f64,
}

impl Pipes {
    /// The rates by which NVIDIA's assembler places instructions, on all architectures from 7.5 to 12.0: a scheduler starts
    /// one every two clocks, or every four clocks if it gives a high or wide word.
    pub const OF_THE_ASSEMBLER: Pipes = Pipes { multiply: 64.0, multiply_high: 32.0, multiply_wide: 32.0, alu: 64.0 };
}

impl Rates {
    /// The measured rates of the pipes.
    pub fn pipes(&self) -> Pipes {
        let Rates { multiply, multiply_high, multiply_wide, shift, .. } = *self;
        Pipes { multiply, multiply_high, multiply_wide, alu: shift }
    }
}

/// Number of lanes of a warp.
const LANES: f64 = 32.0;
/// Number of schedulers of a multiprocessor. Each has a quarter of every pipe, and issues an instruction a clock.
const SCHEDULERS: u32 = 4;

/// A step of `blind_rotate.warp` on a multiprocessor that has as many rows as it takes together.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Number of rows.
    pub rows: u32,
    /// Number of warps of all rows.
    pub warps: u32,
    /// Instructions of one warp.
    pub count: Count,
    /// Number of steps of a gate.
    pub steps: u32,
}

impl Step {
    /// Counts the instructions of a step in the binary that a card of this compute capability runs for these parameters.
    /// `compile` returns the binary of a source. `None` if such cards run the plain kernel, or if the compiler does not
    /// know their architecture and gives text.
    ///
    /// # Errors
    /// The error of `compile`.
    pub fn of(
        capability: (u32, u32),
        params: &Params,
        compile: impl FnOnce(&Source) -> Result<Image>,
    ) -> Result<Option<Step>> {
        let paper = Paper::new(capability);
        let variant = Variant::of(paper.properties(), params);
        if variant == Variant::Plain {
            return Ok(None);
        }
        Card::new(paper.clone()).prepare(params)?;
        // the last one has the most rows in a group
        let sources = paper.sources();
        let source = sources.iter().rfind(|source| source.stem == "blind_rotate.warp");
        let image = compile(source.expect("the variant has this stem"))?;
        if !image.bytes.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let rows = variant.rows_of_a_multiprocessor(params) as u32;
        let count = cubin::read(&image.bytes).entries["blind_rotate_warp"].turn;
        let (warps, steps) = (rows * (params.glwe_dimension as u32 + 1), params.lwe_dimension as u32);
        Ok(Some(Step { rows, warps, count, steps }))
    }

    /// Clocks that a multiprocessor needs for one step of one row without waits. The scheduler with the most warps decides,
    /// and on it the longest of three times: of the multiplier, of sums and logic, and of issuing all instructions.
    pub fn clocks(&self, pipes: &Pipes) -> f64 {
        let time = |count: u32, rate: f64| f64::from(count) * LANES * f64::from(SCHEDULERS) / rate;
        let multiplier = time(self.count.multiply, pipes.multiply)
            + time(self.count.multiply_high, pipes.multiply_high)
            + time(self.count.multiply_wide, pipes.multiply_wide);
        let of_a_warp = multiplier.max(time(self.count.alu, pipes.alu)).max(f64::from(self.count.issued));
        f64::from(self.warps.div_ceil(SCHEDULERS)) * of_a_warp / f64::from(self.rows)
    }

    /// The ceiling of a card with this number of multiprocessors and this clock, in gates a second.
    pub fn gates_a_second(&self, pipes: &Pipes, multiprocessors: u32, clock_khz: u32) -> f64 {
        1e3 * f64::from(clock_khz) * f64::from(multiprocessors) / (self.clocks(pipes) * f64::from(self.steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_follows_the_slowest_pipe_of_the_scheduler_with_the_most_warps() {
        let count = Count {
            multiply: 1400,
            multiply_high: 600,
            multiply_wide: 100,
            alu: 2000,
            issued: 4900,
            ..Count::default()
        };
        let step = Step { rows: 8, warps: 16, count, steps: 1000 };
        let (halved, equal) =
            (Pipes::OF_THE_ASSEMBLER, Pipes { multiply_high: 64.0, multiply_wide: 64.0, ..Pipes::OF_THE_ASSEMBLER });
        // half a clock for 1400 products of low words, one clock for 700 others, for each of two warps
        assert_eq!(step.clocks(&halved), 2800.0);
        // the multiplier takes 2100 clocks, and all instructions are issued in 2450
        assert_eq!(step.clocks(&equal), 2450.0);
        assert_eq!(step.clocks(&Pipes { alu: 32.0, ..halved }), 4000.0);
        // of nine warps one scheduler has three, for three rows
        assert_eq!(Step { rows: 3, warps: 9, ..step }.clocks(&halved), 5600.0);
        assert_eq!(step.gates_a_second(&halved, 100, 2_000_000), 71_428.571_428_571_43);
    }
}
