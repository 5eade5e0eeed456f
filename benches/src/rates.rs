//! The throughput of single instructions on a card, in operations a clock. This throughput limits the speed of gates.
//! Vendors do not publish it for multiplications that give high or wide words.

use std::time::{Duration, Instant};

use kernels::Result;
use kernels::gpu::{Bind, Gpu, Launch, Source, View};

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
    /// Rate of IMAD, in lanes a clock on each multiprocessor. The next five figures have the same unit. A rate of 64
    /// means that an instruction of a warp takes half a clock.
    pub multiply: f64,
    /// IMAD.HI.
    pub multiply_high: f64,
    /// IMAD.WIDE.
    pub multiply_wide: f64,
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

/// Instructions of a warp in one step of `blind_rotate.warp`, in the kernel's binary for Hopper (NVRTC 12.9).
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Number of warps of a row: one for each polynomial.
    pub warps: f64,
    /// IMAD, including additions and moves for which the assembler uses the multiplier.
    pub multiply: f64,
    /// IMAD.HI.
    pub multiply_high: f64,
    /// IMAD.WIDE.
    pub multiply_wide: f64,
    /// All instructions.
    pub issued: f64,
}

impl Step {
    /// Returns the step of a ring with these dimensions. `None`: the instructions of this step are not counted.
    pub fn of(polynomial_size: usize, glwe_dimension: usize, levels: usize) -> Option<Step> {
        let counts = match (polynomial_size, glwe_dimension, levels) {
            (1024, 1, 2) => [1447.0, 576.0, 129.0, 4905.0],
            (512, 2, 2) => [759.0, 304.0, 105.0, 2747.0],
            _ => return None,
        };
        let [multiply, multiply_high, multiply_wide, issued] = counts;
        Some(Step { warps: glwe_dimension as f64 + 1.0, multiply, multiply_high, multiply_wide, issued })
    }
}

/// Number of lanes of a warp.
const LANES: f64 = 32.0;
/// Number of instructions that a multiprocessor issues in a clock, each for one warp.
const ISSUES_A_CLOCK: f64 = 4.0;

impl Rates {
    /// Clocks that a multiprocessor needs for one step of one row without waits: the time of its multiplier or the time
    /// to issue all instructions, whichever is longer.
    pub fn clocks_of(&self, step: &Step) -> f64 {
        let multiplier = step.multiply / self.multiply
            + step.multiply_high / self.multiply_high
            + step.multiply_wide / self.multiply_wide;
        (step.warps * LANES * multiplier).max(step.warps * step.issued / ISSUES_A_CLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceiling_follows_the_rates_of_the_products_down_to_what_is_issued() {
        let rates = |multiply, multiply_high, multiply_wide| Rates {
            multiply,
            multiply_high,
            multiply_wide,
            reduce: 64.0,
            double: 64.0,
            load_shared: 16.0,
            l2_bytes: 5e12,
            barriers: Vec::new(),
        };
        let step = Step { warps: 2.0, multiply: 1400.0, multiply_high: 600.0, multiply_wide: 100.0, issued: 4900.0 };
        // IMAD.HI and IMAD.WIDE at half the rate of IMAD: 64 lanes x (1400 / 64 + 700 / 32) instructions
        assert_eq!(rates(64.0, 32.0, 32.0).clocks_of(&step), 2800.0);
        // all at one rate: the multiplier takes 2100 clocks, less than the 2450 in which all instructions are issued
        assert_eq!(rates(64.0, 64.0, 64.0).clocks_of(&step), 2450.0);
        assert!(Step::of(1024, 1, 2).is_some() && Step::of(512, 2, 2).is_some() && Step::of(1024, 1, 3).is_none());
    }
}
