//! Wrappers of the driver's objects that this backend holds. Each wrapper frees its object on drop.
//!
//! All memory of the card is allocated, zeroed, used and freed in the order of one stream. So a buffer may be dropped
//! before a started kernel has read it.

use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use cudarc::driver::result;
use cudarc::driver::{CudaContext, CudaStream, sys};

use super::failed::{failed, launch_failed};
use super::waiting::{self, Health};
use crate::error::{Error, Result};

/// A stream of a card, with the card's health.
pub struct Stream {
    stream: Arc<CudaStream>,
    health: Health,
}

impl Stream {
    pub fn new(context: &Arc<CudaContext>, health: &Health) -> Result<Stream> {
        let stream = context.new_stream().map_err(|error| failed("making a stream", error))?;
        Ok(Stream { stream, health: health.clone() })
    }

    pub fn inner(&self) -> &CudaStream {
        &self.stream
    }

    pub fn context(&self) -> &Arc<CudaContext> {
        self.stream.context()
    }

    pub fn health(&self) -> &Health {
        &self.health
    }

    pub fn handle(&self) -> sys::CUstream {
        self.stream.cu_stream()
    }

    /// Selects the card for calls of this thread. Returns [`Error::Lost`] when the card is lost, because a lost card
    /// gets no further call.
    pub fn bind(&self) -> Result<()> {
        self.health.alive()?;
        self.context().bind_to_thread().map_err(|error| failed("choosing the card", error))
    }

    /// Waits until the card has done all work that was started in this stream. The time limit is
    /// [`waiting::SILENCE_MAX`].
    pub fn drain(&self) -> Result<()> {
        self.bind()?;
        let event = self.stream.record_event(None).map_err(|error| failed("waiting for the card", error))?;
        waiting::wait(&event, &self.health)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.health.alive().is_err() {
            // leak the stream and its context: to free them, the driver might wait for the lost card forever
            std::mem::forget(self.stream.clone());
        }
    }
}

/// Host memory that the card copies by itself (pinned memory). Overwritten on drop.
pub struct Pinned {
    start: NonNull<u32>,
    words: usize,
    stream: Arc<Stream>,
}

// SAFETY: these are plain words with one owner. Events order the copies that the card makes from and to these words,
// and any thread may call the driver for them
unsafe impl Send for Pinned {}
// SAFETY: as for `Send`; a shared reference can only read the words
unsafe impl Sync for Pinned {}

impl Pinned {
    pub fn zeroed(stream: &Arc<Stream>, words: usize) -> Result<Pinned> {
        stream.bind()?;
        // SAFETY: the context is bound; with flags 0, the host can read the memory at normal speed
        let start =
            unsafe { result::malloc_host(4 * words, 0) }.map_err(|error| failed("allocating host memory", error))?;
        let start = NonNull::new(start.cast::<u32>())
            .ok_or_else(|| Error::OutOfMemory("the driver returned no host memory".into()))?;
        // SAFETY: the call above allocated this many words, and a zero word is valid
        unsafe { start.as_ptr().write_bytes(0, words) };
        Ok(Pinned { start, words, stream: stream.clone() })
    }

    /// Returns the words for reading. The card must not be copying to them.
    pub fn words(&self) -> &[u32] {
        // SAFETY: `zeroed` allocated and set the words
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }

    /// Returns the words for writing. The card must not be copying from them or to them.
    pub fn words_mut(&mut self) -> &mut [u32] {
        // SAFETY: `zeroed` allocated and set the words; the result borrows them as long as it borrows this value
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.words) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // a plain fill is enough, because no word is secret: the words are public keys and ciphertexts
        self.words_mut().fill(0);
        // do not free the memory of a lost card, because the driver would wait for the card forever
        if self.stream.bind().is_err() {
            return;
        }
        // SAFETY: `malloc_host` allocated this memory, and it is freed only here
        let _ = unsafe { result::free_host(self.start.as_ptr().cast()) };
    }
}

/// A function of a module, and the most dynamic shared memory that this function was allowed until now, in bytes.
#[derive(Clone, Copy)]
struct Function {
    handle: sys::CUfunction,
    shared_bytes_allowed: u32,
}

/// A loaded binary.
pub struct Module {
    handle: sys::CUmodule,
    functions: Mutex<HashMap<&'static str, Function>>,
    stream: Arc<Stream>,
}

// SAFETY: the handles belong to the driver; any thread that has bound their context may use them
unsafe impl Send for Module {}
// SAFETY: as for `Send`; a lock protects the map of functions
unsafe impl Sync for Module {}

/// The configuration of a launch, without its function.
pub struct LaunchConfiguration {
    pub groups: [u32; 3],
    pub threads: u32,
    pub shared_bytes: u32,
    pub together: Together,
}

/// Which groups of a launch may wait for each other.
pub enum Together {
    Alone,
    /// Clusters of this many neighbouring groups.
    Cluster(u32),
    /// All groups of the launch. The driver refuses a launch with more groups than the card runs at the same time.
    All,
}

impl Module {
    /// Loads a cubin, or PTX that ends in a zero byte.
    pub fn load(stream: &Arc<Stream>, image: &[u8]) -> Result<Module> {
        stream.bind()?;
        // SAFETY: an `Image` is either a whole ELF file, whose header states its length, or text that ends in a zero byte
        let handle = unsafe { result::module::load_data(image.as_ptr().cast()) }
            .map_err(|error| failed("loading a kernel", error))?;
        Ok(Module { handle, functions: Mutex::default(), stream: stream.clone() })
    }

    fn function(&self, entry: &'static str, shared_bytes: u32) -> Result<sys::CUfunction> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let known = functions.get(entry).copied();
        let mut function = match known {
            Some(function) => function,
            None => {
                let name = CString::new(entry).expect("entries are identifiers");
                // SAFETY: the module stays loaded as long as this value lives
                let handle = unsafe { result::module::get_function(self.handle, name) }
                    .map_err(|error| failed(&format!("finding entry {entry}"), error))?;
                Function { handle, shared_bytes_allowed: 0 }
            }
        };
        if shared_bytes > function.shared_bytes_allowed {
            use sys::CUfunction_attribute::*;
            // a function may use more than 48 KiB of shared memory only if this attribute allows it; the second
            // attribute prefers shared memory to cache
            let attributes = [
                (CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes as i32),
                (CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, 100),
            ];
            for (attribute, value) in attributes {
                // SAFETY: `function` belongs to this module
                unsafe { result::function::set_function_attribute(function.handle, attribute, value) }
                    .map_err(|error| failed(&format!("giving {entry} {shared_bytes} bytes of shared memory"), error))?;
            }
            function.shared_bytes_allowed = shared_bytes;
        }
        functions.insert(entry, function);
        Ok(function.handle)
    }

    /// Returns how many groups of an entry run on a multiprocessor at the same time, if they use no dynamic shared
    /// memory.
    pub fn groups_of_a_multiprocessor(&self, entry: &'static str, threads: u32) -> Result<usize> {
        self.stream.bind()?;
        let (function, mut groups) = (self.function(entry, 0)?, 0);
        // SAFETY: `function` belongs to this module, and the call writes one integer
        unsafe { sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(&mut groups, function, threads as i32, 0) }
            .result()
            .map_err(|error| failed(&format!("counting the groups of {entry} that run at the same time"), error))?;
        Ok(groups as usize)
    }

    /// Returns how many clusters, each of `cluster` groups, of an entry run at the same time, if the groups use no dynamic
    /// shared memory. The result is 0 if the card does not run clusters of this size, as a small part of a card (MIG).
    pub fn clusters_at_once(&self, entry: &'static str, threads: u32, cluster: u32) -> Result<usize> {
        self.stream.bind()?;
        let (function, mut clusters) = (self.function(entry, 0)?, 0);
        let mut attribute = cluster_of(cluster);
        let config = sys::CUlaunchConfig {
            gridDimX: cluster,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream.handle(),
            attrs: &mut attribute,
            numAttrs: 1,
        };
        // SAFETY: `function` belongs to this module, the attribute lives until the call returns, and the call writes one
        // integer
        match unsafe { sys::cuOccupancyMaxActiveClusters(&mut clusters, function, &config) }.result() {
            Ok(()) => Ok(clusters.max(0) as usize),
            Err(error) => match launch_failed(entry, true, error) {
                Error::Unavailable(_) => Ok(0),
                other => Err(other),
            },
        }
    }

    /// Starts the kernel `entry` after all work that was started in this stream. The kernel's arguments are
    /// `addresses`, then `args`. The caller keeps the memory at the addresses alive.
    pub fn launch(
        &self,
        stream: &Stream,
        entry: &'static str,
        configuration: &LaunchConfiguration,
        mut addresses: Vec<sys::CUdeviceptr>,
        args: &[u32],
    ) -> Result<()> {
        stream.bind()?;
        let function = self.function(entry, configuration.shared_bytes)?;
        let mut words = args.to_vec();
        let addresses = addresses.iter_mut().map(|address| (address as *mut sys::CUdeviceptr).cast::<c_void>());
        let words = words.iter_mut().map(|word| (word as *mut u32).cast::<c_void>());
        let mut arguments: Vec<*mut c_void> = addresses.chain(words).collect();
        let mut attribute = match configuration.together {
            Together::Alone => None,
            Together::Cluster(_) if has_cluster_of_its_own(function) => None,
            Together::Cluster(groups) => Some(cluster_of(groups)),
            Together::All => Some(sys::CUlaunchAttribute {
                id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
                pad: [0; 4],
                value: sys::CUlaunchAttributeValue { cooperative: 1 },
            }),
        };
        let [x, y, z] = configuration.groups;
        // SAFETY: function, stream and buffers belong to one context, which is bound. The pointers in `arguments` point
        // to values that live until the call returns, and the call copies these values. The first arguments of every
        // kernel are its buffers, and the others are words (`shaders/README.md`). A kernel accesses only its buffers
        // and the buffers whose distances a table contains; the caller holds all these buffers. The test suite runs the
        // kernels on the host under a sanitizer, which would detect any other access
        let launched = unsafe {
            if let Some(attribute) = &mut attribute {
                let config = sys::CUlaunchConfig {
                    gridDimX: x,
                    gridDimY: y,
                    gridDimZ: z,
                    blockDimX: configuration.threads,
                    blockDimY: 1,
                    blockDimZ: 1,
                    sharedMemBytes: configuration.shared_bytes,
                    hStream: stream.handle(),
                    attrs: attribute,
                    numAttrs: 1,
                };
                sys::cuLaunchKernelEx(&config, function, arguments.as_mut_ptr(), null_mut()).result()
            } else {
                let (groups, threads) = ((x, y, z), (configuration.threads, 1, 1));
                result::launch_kernel(
                    function,
                    groups,
                    threads,
                    configuration.shared_bytes,
                    stream.handle(),
                    &mut arguments,
                )
            }
        };
        let together = !matches!(configuration.together, Together::Alone);
        launched.map_err(|error| launch_failed(entry, together, error))
    }
}

/// The attribute of a launch in clusters of this many groups.
fn cluster_of(groups: u32) -> sys::CUlaunchAttribute {
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value: sys::CUlaunchAttributeValue {
            clusterDim: sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x: groups, y: 1, z: 1 },
        },
    }
}

/// Whether the source of the function fixes the cluster size. If so, a launch must not set it.
fn has_cluster_of_its_own(function: sys::CUfunction) -> bool {
    let attribute = sys::CUfunction_attribute::CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
    // SAFETY: `function` belongs to a module that is loaded
    unsafe { result::function::get_function_attribute(function, attribute) }.is_ok_and(|width| width > 0)
}

impl Drop for Module {
    fn drop(&mut self) {
        // wait for running kernels of this module first; on a lost card, the module is not unloaded
        if self.stream.drain().is_ok() {
            // SAFETY: `load` loaded the module, and only this call unloads it
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}
