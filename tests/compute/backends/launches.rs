//! The arguments that a launch may have, on every card: ranges of buffers, groups in three dimensions, and one range
//! under two arguments.

use std::panic::{AssertUnwindSafe, catch_unwind};

use kernels::gpu::{Bind, Gpu, Language, Launch, Source, View};

/// `numbered`: each word of `numbered_out` is the sum of the word of `numbered_in` and the number `x + 10 y + 100 z` of
/// its group. `tripled`: each word of `to` is three times the word of `from`, and then the kernel adds `plus` to the
/// word of `from`. So this kernel writes both of its buffers.
const CUDA: &str = r#"
extern "C" __global__ void numbered(const unsigned* in, unsigned* out) {
    unsigned group = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
    unsigned at = group * 64 + threadIdx.x;
    out[at] = in[at] + blockIdx.x + 10 * blockIdx.y + 100 * blockIdx.z;
}
extern "C" __global__ void tripled(unsigned* from, unsigned* to, unsigned plus) {
    unsigned at = blockIdx.x * 64 + threadIdx.x;
    to[at] = 3 * from[at];
    from[at] += plus;
}
"#;
const WGSL: &str = "
@group(0) @binding(0) var<storage, read> numbered_in: array<u32>;
@group(0) @binding(1) var<storage, read_write> numbered_out: array<u32>;
@compute @workgroup_size(64)
fn numbered(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let at = ((group.z * groups.y + group.y) * groups.x + group.x) * 64u + thread;
    numbered_out[at] = numbered_in[at] + group.x + 10u * group.y + 100u * group.z;
}
@group(0) @binding(0) var<storage, read_write> from_words: array<u32>;
@group(0) @binding(1) var<storage, read_write> to_words: array<u32>;
@group(0) @binding(2) var<uniform> plus: u32;
@compute @workgroup_size(64)
fn tripled(@builtin(global_invocation_id) at: vec3<u32>) {
    to_words[at.x] = 3u * from_words[at.x];
    from_words[at.x] += plus;
}";

const THREADS: u32 = 64;
const GROUPS: [u32; 3] = [3, 2, 4];
/// Number of words that a launch over `GROUPS` writes.
const WORDS: usize = 64 * 3 * 2 * 4;

struct Launcher<'a, G: Gpu> {
    gpu: &'a G,
    module: G::Module,
    /// Ranges must begin at multiples of this number of words. The number is also a multiple of the threads of a group.
    step: usize,
}

/// Runs all checks of launches on a card.
pub fn check<G: Gpu>(gpu: &G) {
    let text = if gpu.properties().language == Language::Cuda { CUDA } else { WGSL };
    let module = gpu.compile(&Source { stem: "launches", text: text.to_owned() }).expect("the source compiles");
    let launcher = Launcher { gpu, module, step: gpu.properties().alignment_words.next_multiple_of(THREADS) as usize };
    launcher.ranges_and_dimensions();
    launcher.written_twice();
    launcher.read_and_written();
    launcher.in_place();
}

impl<G: Gpu> Launcher<'_, G> {
    /// A buffer with these words, and a step of other words before and after them.
    fn buffer(&self, words: &[u32]) -> G::Buf {
        let buf = self.gpu.alloc(2 * self.step + words.len()).expect("room");
        self.gpu.write(&buf, 0, &vec![7; 2 * self.step + words.len()]).expect("a copy");
        self.gpu.write(&buf, self.step, words).expect("a copy");
        buf
    }

    /// The words of a buffer that [`Self::buffer`] made, after a check that the words around them are unchanged.
    fn words(&self, buf: &G::Buf) -> Vec<u32> {
        let all = View::all(buf).range();
        let found = self.gpu.finish(self.gpu.read(buf, &[all]).expect("a read")).expect("the earlier launches succeed");
        let (before, rest) = found.split_at(self.step);
        let (words, after) = rest.split_at(rest.len() - self.step);
        assert!(before.iter().chain(after).all(|&word| word == 7), "a word beside the range");
        words.to_vec()
    }

    /// The range of a buffer that [`Self::buffer`] made, without the words around it.
    fn within<'a>(&self, buf: &'a G::Buf) -> View<'a, G::Buf> {
        let all = View::all(buf);
        all.part(self.step..all.words - self.step)
    }

    fn launch(&self, entry: &'static str, groups: [u32; 3], bind: Vec<Bind<'_, G::Buf>>, args: &[u32]) {
        let (module, threads) = (&self.module, THREADS);
        let launch = Launch { module, entry, groups, threads, shared_bytes: 0, cluster: 1, bind, args: args.to_vec() };
        self.gpu.launch(&launch).expect("a launch");
    }

    fn is_refused(&self, entry: &'static str, bind: Vec<Bind<'_, G::Buf>>, args: &[u32]) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.launch(entry, [1; 3], bind, args))).is_err()
    }

    fn ranges_and_dimensions(&self) {
        let words: Vec<u32> = (0..WORDS as u32).map(|i| i * i).collect();
        let (from, to) = (self.buffer(&words), self.buffer(&[0; WORDS]));
        let bind = vec![Bind::read(self.within(&from)), Bind::write(self.within(&to))];
        self.launch("numbered", GROUPS, bind, &[]);
        assert_eq!(self.words(&to), numbered(&words));
        assert_eq!(self.words(&from), words);
    }

    /// Checks a launch that writes two ranges of one buffer.
    fn written_twice(&self) {
        let buf = self.buffer(&(0..4 * self.step as u32).collect::<Vec<u32>>());
        let [from, to] = [0..self.step, 3 * self.step..4 * self.step].map(|range| self.within(&buf).part(range));
        let step = self.step as u32;
        self.launch("tripled", [step / THREADS, 1, 1], vec![Bind::write(from), Bind::write(to)], &[5]);
        let expected: Vec<u32> =
            (0..step).map(|i| i + 5).chain(step..3 * step).chain((0..step).map(|i| 3 * i)).collect();
        assert_eq!(self.words(&buf), expected);
        assert!(self.is_refused("tripled", vec![Bind::write(from), Bind::write(from)], &[5]));
    }

    /// Checks a launch that reads one range of a buffer and writes another range of the same buffer. WGSL does not
    /// allow such a launch.
    fn read_and_written(&self) {
        let words: Vec<u32> = (0..2 * WORDS as u32).collect();
        let buf = self.buffer(&words);
        let [from, to] = [0..WORDS, WORDS..2 * WORDS].map(|range| self.within(&buf).part(range));
        if self.gpu.properties().language == Language::Wgsl {
            return assert!(self.is_refused("numbered", vec![Bind::read(from), Bind::write(to)], &[]));
        }
        self.launch("numbered", GROUPS, vec![Bind::read(from), Bind::write(to)], &[]);
        assert_eq!(self.words(&buf), [&words[..WORDS], &numbered(&words[..WORDS])].concat());
    }

    /// Checks a launch in which one range is bound to two arguments: the kernel reads one argument and writes the
    /// other. The launch must declare this, and only CUDA allows it.
    fn in_place(&self) {
        let words: Vec<u32> = (0..WORDS as u32).rev().collect();
        let buf = self.buffer(&words);
        let all = self.within(&buf);
        assert!(self.is_refused("numbered", vec![Bind::read(all), Bind::write(all)], &[]), "undeclared");
        let declared = vec![Bind::read(all), Bind::in_place_of(0, all)];
        if self.gpu.properties().language == Language::Wgsl {
            return assert!(self.is_refused("numbered", declared, &[]));
        }
        self.launch("numbered", GROUPS, declared, &[]);
        assert_eq!(self.words(&buf), numbered(&words));
    }
}

/// The words that `numbered` writes.
fn numbered(words: &[u32]) -> Vec<u32> {
    let [x, y, _] = GROUPS.map(|groups| groups as usize);
    let number = |group: usize| group % x + 10 * (group / x % y) + 100 * (group / x / y);
    words.iter().enumerate().map(|(at, word)| word + number(at / THREADS as usize) as u32).collect()
}
