//! An emulated CUDA card. The system's C++ compiler compiles the unchanged kernels of `shaders/*.cu`, with sanitizers,
//! and the processor runs them.
//!
//! Each source, wrapped in `host_cuda/runner.cpp`, becomes a program. The program is stored in a folder beside the
//! tests, under the hash of all its inputs. For each launch, the program gets the ranges of buffers that the launch
//! binds, with the address of each range. For a buffer of which the launch names touched ranges, the kernel gets the
//! start of the buffer, and the program gets these ranges. After the launch, the program sends back the ranges that the kernel may write. A kernel may touch no
//! other memory, so an access beside a range is an error. Each launch runs three times, with its threads in different
//! orders. If the result depends on the order, if an access is outside these ranges, or if some threads do not reach a
//! barrier, the program stops with an error that contains the name of the entry.

use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use kernels::gpu::recordings::{Recordings, Sequence, new_id};
use kernels::gpu::{Buffer, Gpu, Language, Launch, Properties, Source, View};
use kernels::{Error, Result};
use sha2::{Digest, Sha256};

const HEADER: &str = include_str!("host_cuda/host_cuda.h");
const RUNNER: &str = include_str!("host_cuda/runner.cpp");
const FLAGS: [&str; 10] = [
    "-std=c++17",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fsanitize-sections=shared_memory",
    "-Wall",
    "-Werror",
    "-Wno-unknown-pragmas",
    "-Wno-unused-but-set-variable",
];

/// Range of the addresses of buffers in a process that runs kernels. Neither the system nor the sanitizers use these
/// addresses.
const ADDRESSES: Range<u64> = 0x3000_0000_0000..0x5000_0000_0000;
/// Bytes between the starts of two buffers. There are so many that a distance between buffers needs more than 32 bits.
const APART: u64 = 1 << 32;

/// The emulated card.
pub struct HostCuda {
    properties: Properties,
    /// The folder of the programs and of their inputs.
    folder: PathBuf,
    /// Seed of the random order of threads.
    seed: u32,
    alter: Option<Alter>,
    /// The largest number of groups that may wait for each other: of one launch, or of a cluster on cards with clusters.
    together_max: u32,
    /// Whether the card reserves addresses.
    reserves: bool,
    /// The card's answer to the question how many clusters run at the same time.
    clusters_at_once: usize,
    /// Address of the next buffer.
    address: AtomicU64,
    recordings: Arc<Recordings<()>>,
    replays: AtomicU64,
}

/// Changes a source before it is compiled.
type Alter = Box<dyn Fn(&Source) -> String + Send + Sync>;

/// A compiled source and the process that runs it.
pub struct Module {
    program: Arc<Program>,
    id: u64,
    recordings: Arc<Recordings<()>>,
}

struct Program {
    stem: &'static str,
    path: PathBuf,
    entries: Vec<String>,
    process: Mutex<Option<Child>>,
}

/// Words in the host's memory.
pub struct Buf {
    memory: Arc<Memory>,
    id: u64,
    recordings: Arc<Recordings<()>>,
}

struct Memory {
    /// The words that have memory.
    words: Mutex<Vec<u32>>,
    /// The number of words, with or without memory.
    reserved: usize,
    /// The buffer's address in a kernel.
    address: u64,
}

impl Memory {
    fn locked(&self) -> MutexGuard<'_, Vec<u32>> {
        self.words.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.memory.reserved
    }

    fn clear(&self, range: Range<usize>) {
        self.memory.locked()[range].fill(0);
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.recordings.forget(self.id);
        self.memory.locked().fill(0);
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.recordings.forget(self.id);
    }
}

/// A launch in the form that is sent to the process.
struct Prepared {
    program: Arc<Program>,
    entry: &'static str,
    /// Index of the entry, groups, threads, shared bytes, cluster, seed, the number of buffers, the number of
    /// arguments, and the arguments.
    head: Vec<u32>,
    ranges: Vec<Bound>,
}

/// A range of a buffer that a kernel may touch.
struct Bound {
    /// Index of the argument to which the range belongs.
    argument: usize,
    written: bool,
    memory: Arc<Memory>,
    words: Range<usize>,
}

impl HostCuda {
    /// Opens the card, which needs a C++ compiler with sanitizers on the system.
    ///
    /// # Errors
    /// [`Error::Unavailable`] without such a compiler.
    pub fn open() -> Result<HostCuda> {
        let properties = Properties {
            backend: "cuda-host".into(),
            name: "the system's C++ compiler".into(),
            memory_bytes: 1 << 30,
            language: Language::Cuda,
            threads_max: 1024,
            shared_bytes_max: 227 << 10,
            groups_max: [1 << 16; 3],
            buffer_bytes_max: 1 << 28,
            alignment_words: 64,
            multiprocessors: 2,
            compute_capability: None,
            loop_turns_max: None,
            wide_integers: true,
        };
        let address = AtomicU64::new(ADDRESSES.start);
        let (recordings, replays) = Default::default();
        let host = HostCuda {
            properties,
            folder: folder(),
            seed: 1,
            alter: None,
            together_max: u32::MAX,
            reserves: true,
            clusters_at_once: usize::MAX,
            address,
            recordings,
            replays,
        };
        host.runner().map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(host)
    }

    /// Returns the card with changed figures, for tests of limits and of fast paths.
    pub fn with_properties(mut self, change: impl FnOnce(&mut Properties)) -> HostCuda {
        change(&mut self.properties);
        self
    }

    /// Returns the card without reserved addresses, as old drivers and some virtual machines are.
    pub fn without_reserved_addresses(mut self) -> HostCuda {
        self.reserves = false;
        self
    }

    /// Returns the card with altered sources, for tests which check that a wrong source is noticed.
    pub fn with_sources(mut self, alter: impl Fn(&Source) -> String + Send + Sync + 'static) -> HostCuda {
        self.alter = Some(Box::new(alter));
        self
    }

    /// Returns the card with a bound on the number of groups that wait for each other: of one launch, or of a cluster on
    /// cards with clusters. Cards that other processes use at the same time and small parts of cards have such a bound.
    pub fn with_groups_together(mut self, most: u32) -> HostCuda {
        self.together_max = most;
        self
    }

    /// Returns the card with this number of clusters that run at the same time. If the number is 0, the card says so when
    /// it is asked, and a launch of clusters is an error of the device.
    pub fn with_clusters_at_once(mut self, clusters: usize) -> HostCuda {
        self.clusters_at_once = clusters;
        self
    }

    /// The compiled part that all programs share.
    fn runner(&self) -> Result<PathBuf> {
        self.build(&format!("runner-{}.o", hash(&[HEADER, RUNNER])), |to| {
            let source = self.folder.join(format!("runner-{}.cpp", hash(&[RUNNER])));
            write_file(&source, RUNNER)?;
            Ok(vec!["-c".into(), source.into(), "-o".into(), to.into()])
        })
    }

    /// Returns a file of the folder. If the file is missing, the compiler makes it with these arguments.
    fn build(&self, name: &str, arguments: impl FnOnce(&Path) -> Result<Vec<std::ffi::OsString>>) -> Result<PathBuf> {
        let made = self.folder.join(name);
        if made.exists() {
            return Ok(made);
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| Error::Compile(error.to_string()))?;
        let header = self.folder.join(format!("host_cuda-{}", hash(&[HEADER])));
        std::fs::create_dir_all(&header).map_err(|error| Error::Compile(error.to_string()))?;
        write_file(&header.join("host_cuda.h"), HEADER)?;
        // another thread or process may build the same file; the last rename wins, and the contents are the same
        let unfinished = unique(&made);
        let output = Command::new("c++")
            .args(FLAGS)
            .arg("-I")
            .arg(&header)
            .args(arguments(&unfinished)?)
            .output()
            .map_err(|error| Error::Unavailable(format!("no C++ compiler `c++`: {error}")))?;
        if !output.status.success() {
            return Err(Error::Compile(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))));
        }
        std::fs::rename(&unfinished, &made).map_err(|error| Error::Compile(error.to_string()))?;
        Ok(made)
    }
}

/// The folder of the programs, inside the folder of the build.
fn folder() -> PathBuf {
    let tests = std::env::current_exe().ok();
    let target = tests.as_deref().and_then(|tests| tests.ancestors().find(|folder| folder.ends_with("deps")));
    target.and_then(Path::parent).map_or_else(std::env::temp_dir, Path::to_owned).join("host_cuda")
}

fn hash(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in FLAGS.iter().chain(texts) {
        hasher.update((text.len() as u64).to_le_bytes());
        hasher.update(text);
    }
    hasher.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path beside `path` that no other thread or process uses.
fn unique(path: &Path) -> PathBuf {
    use std::sync::atomic::{AtomicU64, Ordering};
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let mut name = path.file_name().expect("a file").to_owned();
    name.push(format!(".{}.{count}", std::process::id()));
    path.with_file_name(name)
}

fn write_file(path: &Path, text: &str) -> Result<()> {
    if path.exists() {
        return Ok(());
    }
    let unfinished = unique(path);
    std::fs::write(&unfinished, text)
        .and_then(|()| std::fs::rename(&unfinished, path))
        .map_err(|error| Error::Compile(format!("{}: {error}", path.display())))
}

/// The names of a source's entries, in order.
fn entries(text: &str) -> Vec<String> {
    let declared = text.split("extern \"C\" __global__").skip(1);
    let name = |declaration: &str| {
        let until_parameters = |from: &str| -> Option<String> {
            let words = from.split('(').next()?;
            let name = words.rsplit(|c: char| !(c.is_alphanumeric() || c == '_')).find(|word| !word.is_empty())?;
            Some(name.to_owned())
        };
        // a declaration is `void name(` or `void __launch_bounds__(..) name(`
        match declaration.split_once("__launch_bounds__(") {
            Some((before, after)) if !before.contains('{') && !before.contains('(') => {
                until_parameters(after.split_once(')')?.1)
            }
            _ => until_parameters(declaration),
        }
    };
    declared.filter_map(name).collect()
}

impl Gpu for HostCuda {
    type Buf = Buf;
    type Module = Module;
    type Readback = Vec<u32>;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source) -> Result<Module> {
        let altered = self.alter.as_ref().map(|alter| alter(source));
        let kernels = altered.as_ref().unwrap_or(&source.text);
        let entries = entries(kernels);
        let table: String =
            entries.iter().map(|name| format!("    host::entry<{name}>(\"{name}\", {name}),\n")).collect();
        let text = format!(
            "#include \"host_cuda.h\"\n#line 1 \"{}.cu\"\n{}\n#line 1 \"entries\"\n\
             const host::Entry host::entries[] = {{\n{table}}};\nconst unsigned host::entry_count = {};\n",
            source.stem,
            kernels,
            entries.len()
        );
        let name = format!("{}-{}", source.stem, hash(&[HEADER, RUNNER, &text]));
        let runner = self.runner()?;
        let program = self.build(&name, |to| {
            let file = self.folder.join(format!("{name}.cpp"));
            write_file(&file, &text)?;
            Ok(vec![file.into(), runner.into(), "-o".into(), to.into()])
        })?;
        let program = Program { stem: source.stem, path: program, entries, process: Mutex::new(None) };
        Ok(Module { program: Arc::new(program), id: new_id(), recordings: self.recordings.clone() })
    }

    fn alloc(&self, words: usize) -> Result<Buf> {
        if words as u64 * 4 > self.properties.buffer_bytes_max {
            return Err(Error::OutOfMemory(format!("no memory for a buffer of {words} words")));
        }
        let buf = self.buffer(words);
        buf.memory.locked().resize(words, 0);
        Ok(buf)
    }

    fn reserve(&self, words: usize) -> Result<Option<Buf>> {
        Ok(self.reserves.then(|| self.buffer(words)))
    }

    fn back(&self, buf: &Buf, words: usize) -> Result<()> {
        assert!(words <= buf.memory.reserved, "{words} words of {} reserved ones", buf.memory.reserved);
        if words as u64 * 4 > self.properties.buffer_bytes_max {
            return Err(Error::OutOfMemory(format!("no memory for {words} words")));
        }
        let mut there = buf.memory.locked();
        let more = words.max(there.len());
        there.resize(more, 0);
        Ok(())
    }

    fn copy(&self, from: &Buf, from_at: usize, to: &Buf, to_at: usize, words: usize) -> Result<()> {
        let copied = from.memory.locked()[from_at..from_at + words].to_vec();
        self.write(to, to_at, &copied)
    }

    /// Makes a buffer of junk words, so that a read before the first write is noticed.
    fn scratch(&self, words: usize) -> Result<Buf> {
        let buf = self.alloc(words)?;
        buf.memory.locked().iter_mut().zip(0u32..).for_each(|(word, at)| *word = junk(at));
        Ok(buf)
    }

    fn write(&self, buf: &Buf, at: usize, words: &[u32]) -> Result<()> {
        buf.memory.locked()[at..at + words.len()].copy_from_slice(words);
        Ok(())
    }

    fn clusters_at_once(&self, _: &Module, _: &'static str, _: u32, _: u32) -> Result<usize> {
        Ok(self.clusters_at_once)
    }

    fn launch(&self, launch: &Launch<'_, Module, Buf>) -> Result<()> {
        self.prepared(launch)?.map_or(Ok(()), |prepared| self.run(&prepared))
    }

    fn launch_all(&self, launches: &[Launch<'_, Module, Buf>]) -> Result<()> {
        // a launch that is refused does not undo those before it
        let run_all = || launches.iter().try_for_each(|launch| self.launch(launch));
        // a replay runs the launches at hand: a recording has the same ones, but for the ranges that a kernel may touch
        let replay = |(): &()| {
            self.replays.fetch_add(1, Ordering::Relaxed);
            run_all()
        };
        let sequence = Sequence::of(launches, |module| module.id, |buf| buf.id);
        self.recordings.start(sequence, || Ok(()), replay, run_all)
    }

    fn read(&self, buf: &Buf, ranges: &[Range<usize>]) -> Result<Vec<u32>> {
        let words = buf.memory.locked();
        Ok(ranges.iter().flat_map(|range| &words[range.clone()]).copied().collect())
    }

    fn finish(&self, pending: Vec<u32>) -> Result<Vec<u32>> {
        Ok(pending)
    }
}

impl HostCuda {
    /// A buffer of `words` words without memory.
    fn buffer(&self, words: usize) -> Buf {
        assert!(4 * words as u64 <= APART, "a buffer of {words} words is larger than the distance between buffers");
        let address = self.address.fetch_add(APART, Ordering::Relaxed);
        assert!(
            ADDRESSES.contains(&address),
            "no address is left after {} buffers",
            (address - ADDRESSES.start) / APART
        );
        let memory = Arc::new(Memory { words: Mutex::default(), reserved: words, address });
        Buf { memory, id: new_id(), recordings: self.recordings.clone() }
    }

    /// The number of recorded sequences of launches that exist now, and the number of replays so far.
    pub fn recorded(&self) -> (usize, u64) {
        (self.recordings.recorded(), self.replays.load(Ordering::Relaxed))
    }

    /// Checks a launch and prepares it. `None` if the launch has no groups.
    fn prepared(&self, launch: &Launch<'_, Module, Buf>) -> Result<Option<Prepared>> {
        launch.check(&self.properties)?;
        let Launch { module, entry, groups, threads, shared_bytes, cluster, ref bind, ref args } = *launch;
        let program = module.program.clone();
        let at = program.entries.iter().position(|name| name == entry);
        let at = at.unwrap_or_else(|| panic!("{} has no entry {entry}", program.stem));
        let all: u32 = groups.iter().product();
        let clusters = self.properties.compute_capability >= Some((9, 0));
        let together = if clusters { cluster } else { all };
        if cluster > 1 && together > self.together_max {
            return Err(Error::Unavailable(format!("{entry}: {together} groups cannot run at once")));
        }
        if clusters && cluster > 1 && self.clusters_at_once == 0 {
            return Err(Error::Device(format!(
                "{entry}: the card has said that it runs no clusters of {cluster} groups"
            )));
        }
        assert!(shared_bytes <= self.properties.shared_bytes_max, "{entry}: {shared_bytes} bytes");
        let mut ranges: Vec<Bound> = Vec::new();
        for (argument, bind) in bind.iter().enumerate() {
            let bound =
                |words| Bound { argument, written: bind.is_written(), memory: bind.view.buf.memory.clone(), words };
            if bind.touched.is_some() {
                // the kernel gets the start of the segment, and may touch only the ranges that tables name
                ranges.push(bound(bind.view.first..bind.view.first));
            }
            for View { first, words, .. } in bind.views() {
                let words = first..first + words;
                // a key that several batches use is bound once
                if !ranges.iter().any(|range| range.argument == argument && range.words == words) {
                    ranges.push(bound(words));
                }
            }
        }
        let [x, y, z] = groups;
        let shape = [at as u32, x, y, z, threads, shared_bytes, cluster, self.seed];
        let head = [&shape[..], &[bind.len() as u32, args.len() as u32], args].concat();
        Ok((all > 0).then_some(Prepared { program, entry, head, ranges }))
    }

    /// Runs a launch.
    fn run(&self, Prepared { program, entry, head, ranges }: &Prepared) -> Result<()> {
        let mut process = program.process.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        if process.is_none() {
            *process = Some(start(&program.path)?);
        }
        let running = process.as_mut().expect("the process was started");
        match exchange(running, head, ranges) {
            Ok(()) => Ok(()),
            Err(_) => {
                let mut ended = process.take().expect("the process was started");
                // the process has ended with a message, or cannot be used any more
                drop(ended.stdin.take());
                let mut message = String::new();
                let _ = ended.stderr.take().expect("piped").read_to_string(&mut message);
                let _ = ended.wait();
                Err(Error::Device(format!("{}/{entry}: {}", program.stem, message.trim())))
            }
        }
    }
}

/// The junk at word `at` of a buffer without contents.
fn junk(at: u32) -> u32 {
    at.wrapping_mul(0x9e37_79b9) ^ 0xdead_beef
}

fn start(program: &Path) -> Result<Child> {
    Command::new(program)
        // each group of threads has its own stack, which these two checks do not support
        .env("ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::Device(format!("{}: {error}", program.display())))
}

/// Sends one launch to the process and reads the results, in the format of `runner.cpp`.
fn exchange(process: &mut Child, head: &[u32], ranges: &[Bound]) -> std::io::Result<()> {
    let mut buffers: Vec<(&Arc<Memory>, MutexGuard<'_, Vec<u32>>)> = Vec::new();
    for Bound { memory, .. } in ranges {
        if !buffers.iter().any(|(known, _)| Arc::ptr_eq(known, memory)) {
            buffers.push((memory, memory.locked()));
        }
    }
    let place = |memory: &Arc<Memory>, buffers: &[(&Arc<Memory>, MutexGuard<'_, Vec<u32>>)]| {
        buffers.iter().position(|(known, _)| Arc::ptr_eq(known, memory)).expect("the buffer of every argument is sent")
    };
    let to = process.stdin.as_mut().expect("piped");
    to.write_all(bytes(head))?;
    to.write_all(bytes(&[buffers.len() as u32]))?;
    for (Memory { address, .. }, words) in buffers.iter().map(|(memory, words)| (&***memory, words)) {
        to.write_all(bytes(&[*address as u32, (address >> 32) as u32, words.len() as u32]))?;
    }
    to.write_all(bytes(&[ranges.len() as u32]))?;
    for Bound { argument, written, memory, words } in ranges {
        let buffer = place(memory, &buffers);
        let head = [*argument, usize::from(*written), buffer, words.start, words.len()];
        to.write_all(bytes(&head.map(|word| word as u32)))?;
        to.write_all(bytes(&buffers[buffer].1[words.clone()]))?;
    }
    to.flush()?;
    let from = process.stdout.as_mut().expect("piped");
    for Bound { memory, words, .. } in ranges.iter().filter(|range| range.written) {
        let buffer = place(memory, &buffers);
        from.read_exact(bytes_mut(&mut buffers[buffer].1[words.clone()]))?;
    }
    Ok(())
}

/// The words as bytes, without a copy, because copying megabytes word by word is slow without optimisation.
fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: a word has four bytes, and all of them are initialised
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), 4 * words.len()) }
}

/// Like [`bytes`], for writing.
fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: a word has four bytes, any four bytes are a valid word, and the returned slice borrows the words
    // exclusively
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), 4 * words.len()) }
}

impl Drop for Program {
    fn drop(&mut self) {
        let process = self.process.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner());
        if let Some(mut process) = process.take() {
            drop(process.stdin.take());
            let _ = process.wait();
        }
    }
}
