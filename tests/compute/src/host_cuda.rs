//! A CUDA card made of the system's C++ compiler: kernels of `shaders/*.cu` compiled as they stand, with sanitizers, and
//! run on the host.
//!
//! A source becomes a program of its own (`host_cuda/runner.cpp` around it), kept in a folder beside the tests by the hash
//! of everything that went into it. A launch sends it the bound ranges of buffers, and the ranges that the kernel reaches from
//! them by distances, each at an address of its own. It takes back the ranges that are written. The program maps nothing else:
//! an access beside a range is an error. It runs each launch in three orders of threads. A result that depends on the order, an
//! access outside memory and a barrier that not all threads reach are errors that name the entry.

use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use kernels::gpu::recordings::{Recordings, Sequence, new_id};
use kernels::gpu::{Buffer, Card, Gpu, Language, Launch, Source, View};
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

/// Where buffers lie in a process that runs kernels: between what its system and its sanitizers take.
const ADDRESSES: Range<u64> = 0x3000_0000_0000..0x5000_0000_0000;
/// From a buffer to the next, in bytes: distances take more than 32 bits.
const APART: u64 = 1 << 32;

/// The emulated card.
pub struct HostCuda {
    card: Card,
    /// Programs and what they are made of.
    folder: PathBuf,
    /// Seed of the random order.
    seed: u32,
    alter: Option<Alter>,
    /// Groups of a launch that may all wait for each other, on a card without clusters.
    together_max: u32,
    /// Of the next buffer.
    address: AtomicU64,
    recordings: Arc<Recordings<Vec<Prepared>>>,
    replays: AtomicU64,
}

/// What becomes of a source before it is compiled.
type Alter = Box<dyn Fn(&Source) -> String + Send + Sync>;

/// A compiled source and the process that runs it.
pub struct Module {
    program: Arc<Program>,
    id: u64,
    recordings: Arc<Recordings<Vec<Prepared>>>,
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
    recordings: Arc<Recordings<Vec<Prepared>>>,
}

struct Memory {
    words: Mutex<Vec<u32>>,
    /// Where kernels find them.
    address: u64,
}

impl Memory {
    fn locked(&self) -> MutexGuard<'_, Vec<u32>> {
        self.words.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.memory.locked().len()
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.recordings.forget(self.id);
        self.memory.locked().fill(0);
        assert_eq!(Arc::strong_count(&self.memory), 1, "a recording outlives its buffer");
    }
}

impl Drop for Module {
    fn drop(&mut self) {
        self.recordings.forget(self.id);
    }
}

/// A launch as a process is told of it.
struct Prepared {
    program: Arc<Program>,
    entry: &'static str,
    /// Entry, groups, threads, shared bytes, cluster, seed; numbers of buffers and args; args.
    head: Vec<u32>,
    ranges: Vec<Bound>,
}

/// A range of a buffer that a kernel may touch.
struct Bound {
    /// The argument that it is, or is reached from.
    argument: usize,
    written: bool,
    memory: Arc<Memory>,
    words: Range<usize>,
}

impl HostCuda {
    /// The card, if the system has a C++ compiler with sanitizers.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when it has none.
    pub fn open() -> Result<HostCuda> {
        let card = Card {
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
            card,
            folder: folder(),
            seed: 1,
            alter: None,
            together_max: u32::MAX,
            address,
            recordings,
            replays,
        };
        host.runner().map_err(|error| Error::Unavailable(error.to_string()))?;
        Ok(host)
    }

    /// The same with some figures of its card changed: limits to run into, fast paths to choose.
    pub fn with_card(mut self, change: impl FnOnce(&mut Card)) -> HostCuda {
        change(&mut self.card);
        self
    }

    /// The same with other texts in place of sources: to see that a wrong one is noticed.
    pub fn with_sources(mut self, alter: impl Fn(&Source) -> String + Send + Sync + 'static) -> HostCuda {
        self.alter = Some(Box::new(alter));
        self
    }

    /// The same, which starts no launch of more groups that wait for each other without clusters: a card that others
    /// share.
    pub fn with_groups_together(mut self, most: u32) -> HostCuda {
        self.together_max = most;
        self
    }

    /// The part of every program that does not depend on its source, compiled.
    fn runner(&self) -> Result<PathBuf> {
        self.build(&format!("runner-{}.o", hash(&[HEADER, RUNNER])), |to| {
            let source = self.folder.join(format!("runner-{}.cpp", hash(&[RUNNER])));
            write_file(&source, RUNNER)?;
            Ok(vec!["-c".into(), source.into(), "-o".into(), to.into()])
        })
    }

    /// A file of the folder, made by the compiler with these arguments when it is not there.
    fn build(&self, name: &str, arguments: impl FnOnce(&Path) -> Result<Vec<std::ffi::OsString>>) -> Result<PathBuf> {
        let made = self.folder.join(name);
        if made.exists() {
            return Ok(made);
        }
        std::fs::create_dir_all(&self.folder).map_err(|error| Error::Compile(error.to_string()))?;
        let header = self.folder.join(format!("host_cuda-{}", hash(&[HEADER])));
        std::fs::create_dir_all(&header).map_err(|error| Error::Compile(error.to_string()))?;
        write_file(&header.join("host_cuda.h"), HEADER)?;
        // another thread or process may be at the same: the last one wins, with the same contents
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

/// Where programs are kept: beside the build's own.
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

/// A name beside `path` that no other thread or process uses.
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
        // `void name(` or `void __launch_bounds__(..) name(`
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

    fn card(&self) -> &Card {
        &self.card
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
        if words as u64 * 4 > self.card.buffer_bytes_max {
            return Err(Error::OutOfMemory(format!("a buffer of {words} words")));
        }
        assert!(4 * words as u64 <= APART, "a buffer of {words} words");
        let address = self.address.fetch_add(APART, Ordering::Relaxed);
        assert!(ADDRESSES.contains(&address), "a card that has made {} buffers", (address - ADDRESSES.start) / APART);
        let memory = Arc::new(Memory { words: Mutex::new(vec![0; words]), address });
        Ok(Buf { memory, id: new_id(), recordings: self.recordings.clone() })
    }

    /// Words that tell whether anything reads them before they are written.
    fn scratch(&self, words: usize) -> Result<Buf> {
        let buf = self.alloc(words)?;
        buf.memory.locked().iter_mut().zip(0u32..).for_each(|(word, at)| *word = junk(at));
        Ok(buf)
    }

    fn address(&self, buf: &Buf) -> Option<u64> {
        Some(buf.memory.address)
    }

    fn write(&self, buf: &Buf, at: usize, words: &[u32]) -> Result<()> {
        buf.memory.locked()[at..at + words.len()].copy_from_slice(words);
        Ok(())
    }

    fn launch(&self, launch: &Launch<'_, Module, Buf>) -> Result<()> {
        self.prepared(launch)?.map_or(Ok(()), |prepared| self.run(&prepared))
    }

    fn launch_all(&self, launches: &[Launch<'_, Module, Buf>]) -> Result<()> {
        let prepare = || -> Result<Vec<Prepared>> {
            launches.iter().filter_map(|launch| self.prepared(launch).transpose()).collect()
        };
        let run_all = |launches: &Vec<Prepared>| launches.iter().try_for_each(|launch| self.run(launch));
        let replay = |launches: &Vec<Prepared>| {
            self.replays.fetch_add(1, Ordering::Relaxed);
            run_all(launches)
        };
        let sequence = Sequence::of(launches, |module| module.id, |buf| buf.id);
        self.recordings.start(sequence, prepare, replay, || run_all(&prepare()?))
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
    /// How many sequences of launches are recorded now, and how many were replayed so far.
    pub fn recorded(&self) -> (usize, u64) {
        (self.recordings.recorded(), self.replays.load(Ordering::Relaxed))
    }

    /// A launch that was checked; none of no group.
    fn prepared(&self, launch: &Launch<'_, Module, Buf>) -> Result<Option<Prepared>> {
        launch.check(&self.card)?;
        let Launch { module, entry, groups, threads, shared_bytes, cluster, ref bind, ref args } = *launch;
        let program = module.program.clone();
        let at = program.entries.iter().position(|name| name == entry);
        let at = at.unwrap_or_else(|| panic!("{} has no entry {entry}", program.stem));
        let all: u32 = groups.iter().product();
        let clusters = self.card.compute_capability >= Some((9, 0));
        if cluster > 1 && !clusters && all > self.together_max {
            return Err(Error::Unavailable(format!("{entry}: {all} groups at once")));
        }
        assert!(shared_bytes <= self.card.shared_bytes_max, "{entry}: {shared_bytes} bytes");
        let mut ranges: Vec<Bound> = Vec::new();
        for (argument, bind) in bind.iter().enumerate() {
            for (i, View { buf, first, words }) in bind.views().enumerate() {
                let words = first..first + words;
                // a key of several batches is reached once
                let known = ranges.iter().any(|range| {
                    range.argument == argument && Arc::ptr_eq(&range.memory, &buf.memory) && range.words == words
                });
                if i == 0 || !known {
                    ranges.push(Bound { argument, written: bind.is_written(), memory: buf.memory.clone(), words });
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
        let running = process.as_mut().expect("it was started");
        match exchange(running, head, ranges) {
            Ok(()) => Ok(()),
            Err(_) => {
                let mut ended = process.take().expect("it was started");
                // it has ended by itself, with a message, or is of no more use
                drop(ended.stdin.take());
                let mut message = String::new();
                let _ = ended.stderr.take().expect("piped").read_to_string(&mut message);
                let _ = ended.wait();
                Err(Error::Device(format!("{}/{entry}: {}", program.stem, message.trim())))
            }
        }
    }
}

/// Word `at` of memory that was not written.
fn junk(at: u32) -> u32 {
    at.wrapping_mul(0x9e37_79b9) ^ 0xdead_beef
}

fn start(program: &Path) -> Result<Child> {
    Command::new(program)
        // groups of threads have stacks of their own, which these two do not know
        .env("ASAN_OPTIONS", "detect_stack_use_after_return=0:detect_leaks=0")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| Error::Device(format!("{}: {error}", program.display())))
}

/// One launch, there and back, in the words of `runner.cpp`.
fn exchange(process: &mut Child, head: &[u32], ranges: &[Bound]) -> std::io::Result<()> {
    let mut buffers: Vec<(&Arc<Memory>, MutexGuard<'_, Vec<u32>>)> = Vec::new();
    for Bound { memory, .. } in ranges {
        if !buffers.iter().any(|(known, _)| Arc::ptr_eq(known, memory)) {
            buffers.push((memory, memory.locked()));
        }
    }
    let place = |memory: &Arc<Memory>, buffers: &[(&Arc<Memory>, MutexGuard<'_, Vec<u32>>)]| {
        buffers.iter().position(|(known, _)| Arc::ptr_eq(known, memory)).expect("its buffer is sent")
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

/// The same memory; megabytes of it, which nothing optimises here word by word.
fn bytes(words: &[u32]) -> &[u8] {
    // SAFETY: four bytes a word, and all of them are set
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), 4 * words.len()) }
}

/// As [`bytes`].
fn bytes_mut(words: &mut [u32]) -> &mut [u8] {
    // SAFETY: four bytes a word, and any four are a word; borrowed as the words are
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
