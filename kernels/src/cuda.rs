//! NVIDIA's cards, through the driver's own interface. Neither the build nor the start of the program needs software of
//! NVIDIA: the driver is loaded when cards are enumerated, and the compiler is loaded when a kernel is not in the
//! cache.

mod cache;
pub mod cubin;
mod driver;
mod failed;
mod graph;
mod memory;
pub mod nvrtc;
mod paper;
mod reserved;
mod staging;
mod waiting;

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::{CudaContext, result, sys};
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::gpu::recordings::{Recordings, Sequence, new_id};
use crate::gpu::{Buffer, Gpu, Language, Launch, Properties, Source};
pub use cache::{Cache, Image};
use driver::{LaunchConfiguration, Stream, Together};
use failed::{failed, why};
use graph::Graph;
use memory::Memory;
use nvrtc::Compiler;
pub use paper::{CAPABILITIES, Paper, shared_bytes_max};
use staging::Staging;

/// The version of CUDA of the oldest driver that has all functions that this crate calls.
const DRIVER_VERSION_MIN: (i32, i32) = (12, 0);
/// Compute capability of the first cards with clusters.
const CLUSTERS_FROM: (u32, u32) = (9, 0);
/// Alignment of ranges: 256 bytes, as for the driver's allocations.
pub(crate) const ALIGNMENT_WORDS: u32 = 64;
/// The free memory divided by this number is left for the driver, for staging and for other processes.
const RESERVE: u64 = 8;

/// One card.
pub struct Cuda {
    properties: Properties,
    staging: Arc<Staging>,
    context: Arc<CudaContext>,
    cache: Option<Cache>,
    /// Modules by the hash of their text. A loaded module is shared as long as any stem uses the module.
    modules: Mutex<HashMap<[u8; 32], Weak<Loaded>>>,
    graphs: Arc<Recordings<Graph>>,
}

/// Words in the memory of a card.
pub struct Buf {
    memory: Memory,
    staging: Arc<Staging>,
    id: u64,
    graphs: Arc<Recordings<Graph>>,
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.memory.words()
    }

    fn clear(&self, range: Range<usize>) {
        self.memory.clear_range(range);
        // the blocks of finished uploads may hold copies of these words
        self.staging.forget_uploads();
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.graphs.forget(self.id);
        // the field `memory` is dropped after this function, and its drop overwrites the buffer's words. The blocks of
        // finished uploads may hold copies of these words, so these blocks are overwritten here
        self.staging.forget_uploads();
    }
}

/// A kernel loaded on a card.
pub struct Module(Arc<Loaded>);

struct Loaded {
    module: driver::Module,
    id: u64,
    graphs: Arc<Recordings<Graph>>,
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.graphs.forget(self.id);
    }
}

/// Words on their way from a card to the host.
pub struct Readback(staging::Readback);

/// Returns the name of an architecture as the compiler spells it: `sm_90`.
pub fn architecture((major, minor): (u32, u32)) -> String {
    format!("sm_{major}{minor}")
}

impl Cuda {
    /// Opens every card of this machine. The result has an error for each card that cannot be used, or a single error
    /// if no card can be listed. `kernel_cache` is the folder of compiled kernels; without a folder, every process
    /// compiles all kernels again.
    pub fn enumerate(kernel_cache: Option<&Path>) -> Vec<Result<Cuda>> {
        match count() {
            Ok(count) => (0..count).map(|ordinal| Cuda::open(ordinal, count, kernel_cache)).collect(),
            Err(error) => vec![Err(error)],
        }
    }

    /// Opens card `ordinal` of `count`.
    fn open(ordinal: usize, count: usize, kernel_cache: Option<&Path>) -> Result<Cuda> {
        let open = || -> std::result::Result<_, result::DriverError> {
            let context = CudaContext::new(ordinal)?;
            // SAFETY: cudarc tracks events only for its own buffer types. This crate makes no such buffer, and
            // `Staging` orders all work
            unsafe { context.disable_event_tracking() };
            keep_freed_memory(&context)?;
            let properties = describe(&context, count)?;
            Ok((context, properties))
        };
        let unavailable = |why| Error::Unavailable(format!("card {ordinal}: {why}"));
        let (context, properties) = open().map_err(|error| unavailable(why("opening", error)))?;
        let staging = Arc::new(Staging::new(&context).map_err(|error| unavailable(error.to_string()))?);
        let cache = kernel_cache.and_then(Cache::open);
        Ok(Cuda { properties, staging, context, cache, modules: Mutex::default(), graphs: Arc::default() })
    }

    /// Returns the highest clock of the multiprocessors, in kHz.
    pub fn clock_khz(&self) -> Result<u32> {
        let clock = self.context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
        clock.map(|khz| khz as u32).map_err(|error| failed("reading the clock", error))
    }

    fn buf(&self, memory: Memory) -> Buf {
        Buf { memory, staging: self.staging.clone(), id: new_id(), graphs: self.graphs.clone() }
    }

    /// Starts a kernel in a stream.
    fn launch_in(&self, stream: &Stream, launch: &Launch<'_, Module, Buf>) -> Result<()> {
        launch.check(&self.properties)?;
        let Launch { entry, groups, threads, shared_bytes, cluster, ref bind, ref args, .. } = *launch;
        if groups.contains(&0) {
            return Ok(());
        }
        let addresses: Vec<_> =
            bind.iter().map(|bind| bind.view.buf.memory.at(bind.view.first, bind.view.words)).collect();
        let together = match cluster {
            0 | 1 => Together::Alone,
            _ if self.properties.compute_capability < Some(CLUSTERS_FROM) => Together::All,
            _ => Together::Cluster(cluster),
        };
        let configuration = LaunchConfiguration { groups, threads, shared_bytes, together };
        launch.module.0.module.launch(stream, entry, &configuration, addresses, args)
    }

    /// Loads the kernel from the cache, or compiles its source. Cached kernels do not need the compiler.
    fn load(&self, source: &Source) -> Result<driver::Module> {
        let capability = self.properties.compute_capability.expect("every CUDA card has one");
        let architecture = architecture(capability);
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&architecture, &source.text));
        if let Some(image) = cached {
            match driver::Module::load(self.staging.compute(), &image.bytes) {
                // the driver refused the cached image, so the source is compiled again
                Err(Error::Device(_)) => {}
                loaded => return loaded,
            }
        }
        let image = Compiler::of_this_machine()?.compile(source, capability)?;
        let module = driver::Module::load(self.staging.compute(), &image.bytes).map_err(|error| match error {
            Error::Device(why) => Error::Compile(format!(
                "{}, compiled by {}: {why}; the compiler may be newer than the driver: update the driver",
                source.stem, image.compiler
            )),
            other => other,
        })?;
        if let Some(cache) = &self.cache {
            cache.put(&architecture, &source.text, &image);
        }
        Ok(module)
    }
}

/// Counts the cards of this machine.
fn count() -> Result<usize> {
    let unavailable = |error| Error::Unavailable(why("counting the cards", error));
    let Some((major, minor)) = driver_version().map_err(unavailable)? else {
        return Err(Error::Unavailable("libcuda.so.1 was not found: no NVIDIA driver is installed".into()));
    };
    if (major, minor) < DRIVER_VERSION_MIN {
        return Err(Error::Unavailable(format!("the NVIDIA driver has CUDA {major}.{minor}; 12.0 or newer is needed")));
    }
    match CudaContext::device_count().map_err(unavailable)? {
        0 => Err(unavailable(result::DriverError(sys::CUresult::CUDA_ERROR_NO_DEVICE))),
        count => Ok(count as usize),
    }
}

/// Returns the newest version of CUDA that this machine's driver has: major and minor. `None` if the machine has no driver.
fn driver_version() -> std::result::Result<Option<(i32, i32)>, result::DriverError> {
    // SAFETY: this call loads the driver's library under its usual names, and the library does nothing until one of its
    // functions is called
    if !unsafe { sys::is_culib_present() } {
        return Ok(None);
    }
    let mut version = 0;
    // SAFETY: the function writes one integer. Every version of the library has the function, and it may be called
    // before any other
    unsafe { sys::cuDriverGetVersion(&mut version) }.result()?;
    Ok(Some((version / 1000, version % 1000 / 10)))
}

/// Makes the driver keep freed memory for the next allocation. By default the driver returns freed memory to the system
/// at every wait, so every batch of an idle session would have to allocate it again.
fn keep_freed_memory(context: &Arc<CudaContext>) -> std::result::Result<(), result::DriverError> {
    if !context.has_async_alloc() {
        return Ok(());
    }
    let mut threshold = u64::MAX;
    let threshold = (&mut threshold as *mut u64).cast();
    // SAFETY: the device is one of the driver's, the pool is that device's own, and the attribute is a 64-bit number
    unsafe {
        let pool = result::device::get_default_mem_pool(context.cu_device())?;
        result::mem_pool::set_attribute(pool, sys::CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, threshold)
    }
}

fn describe(context: &Arc<CudaContext>, count: usize) -> std::result::Result<Properties, result::DriverError> {
    use sys::CUdevice_attribute::*;
    let figure = |attribute| context.attribute(attribute).map(|figure| figure as u32);
    let (free, _) = context.mem_get_info()?;
    let (major, minor) = context.compute_capability()?;
    let multiprocessors = figure(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?;
    let mut name = context.name()?;
    if count > 1 {
        let id: String = context.uuid()?.bytes[..4].iter().map(|&byte| format!("{:02x}", byte as u8)).collect();
        name = format!("{name} #{} (GPU-{id})", context.ordinal());
    }
    Ok(Properties {
        backend: "cuda".into(),
        name,
        memory_bytes: free as u64 - free as u64 / RESERVE,
        language: Language::Cuda,
        threads_max: figure(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        shared_bytes_max: figure(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
        groups_max: [
            figure(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X)?,
            figure(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y)?,
            figure(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z)?,
        ],
        buffer_bytes_max: free as u64,
        alignment_words: ALIGNMENT_WORDS,
        multiprocessors,
        compute_capability: Some((major as u32, minor as u32)),
        loop_turns_max: None,
        wide_integers: true,
    })
}

impl Gpu for Cuda {
    type Buf = Buf;
    type Module = Module;
    type Readback = Readback;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source) -> Result<Module> {
        let name = Sha256::digest(&source.text).into();
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = modules.get(&name).and_then(Weak::upgrade) {
            return Ok(Module(module));
        }
        let module = Arc::new(Loaded { module: self.load(source)?, id: new_id(), graphs: self.graphs.clone() });
        modules.retain(|_, module| module.strong_count() > 0);
        modules.insert(name, Arc::downgrade(&module));
        Ok(Module(module))
    }

    fn alloc(&self, words: usize) -> Result<Buf> {
        Memory::zeroed(self.staging.compute(), words).map(|memory| self.buf(memory))
    }

    fn scratch(&self, words: usize) -> Result<Buf> {
        Memory::uncleared(self.staging.compute(), words).map(|memory| self.buf(memory))
    }

    fn reserve(&self, words: usize) -> Result<Option<Buf>> {
        Ok(Memory::reserved(self.staging.compute(), words)?.map(|memory| self.buf(memory)))
    }

    fn back(&self, buf: &Buf, words: usize) -> Result<()> {
        buf.memory.back(words)
    }

    fn copy(&self, from: &Buf, from_at: usize, to: &Buf, to_at: usize, words: usize) -> Result<()> {
        from.memory.copy(from_at, &to.memory, to_at, words)
    }

    fn write(&self, buf: &Buf, at: usize, words: &[u32]) -> Result<()> {
        self.staging.write(&buf.memory, at, words)
    }

    fn groups_at_once(&self, module: &Module, entry: &'static str, threads: u32) -> Result<usize> {
        let of_a_multiprocessor = module.0.module.groups_of_a_multiprocessor(entry, threads)?;
        Ok(of_a_multiprocessor * self.properties.multiprocessors as usize)
    }

    fn clusters_at_once(&self, module: &Module, entry: &'static str, threads: u32, cluster: u32) -> Result<usize> {
        module.0.module.clusters_at_once(entry, threads, cluster)
    }

    fn launch(&self, launch: &Launch<'_, Module, Buf>) -> Result<()> {
        self.launch_in(self.staging.compute(), launch)
    }

    fn launch_all(&self, launches: &[Launch<'_, Module, Buf>]) -> Result<()> {
        let launch_in = |stream: &Stream| launches.iter().try_for_each(|launch| self.launch_in(stream, launch));
        let compute = self.staging.compute();
        if launches.len() < 2 {
            return launch_in(compute);
        }
        let capture = || {
            let stream = self.staging.capture();
            Graph::capture(&stream, compute, || launch_in(&stream))
        };
        let sequence = Sequence::of(launches, |module| module.0.id, |buf| buf.id);
        self.graphs.start(sequence, capture, Graph::launch, || launch_in(compute))
    }

    fn read(&self, buf: &Buf, ranges: &[Range<usize>]) -> Result<Readback> {
        self.staging.read(&buf.memory, ranges).map(Readback)
    }

    fn wait(&self, readback: &Readback, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        readback.0.wait(wanted)
    }

    fn finish(&self, readback: Readback) -> Result<Vec<u32>> {
        readback.0.finish()
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // running kernels must end before the memory that they use is freed; memory on a lost card is not freed
        let _ = self.staging.compute().drain();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_driver_or_card_says_so_and_does_not_panic() {
        for card in Cuda::enumerate(None) {
            match card {
                Ok(cuda) => assert!(cuda.properties().multiprocessors > 0),
                Err(error) => assert!(matches!(&error, Error::Unavailable(_)), "{error}"),
            }
        }
    }

    #[test]
    fn errors_of_the_driver_are_told_apart_by_what_can_be_done() {
        let error = |code| failed("test", result::DriverError(code));
        assert!(matches!(error(sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY), Error::OutOfMemory(_)));
        assert!(matches!(error(sys::CUresult::CUDA_ERROR_ILLEGAL_ADDRESS), Error::Lost(_)));
        assert!(matches!(error(sys::CUresult::CUDA_ERROR_INVALID_VALUE), Error::Device(_)));
        assert_eq!(
            error(sys::CUresult::CUDA_ERROR_ECC_UNCORRECTABLE).to_string(),
            "device lost: test: CUDA_ERROR_ECC_UNCORRECTABLE"
        );
    }
}
