//! A GPU for tests of the order of calls.

use std::ops::Range;
use std::sync::Mutex;

use super::{Buffer, Gpu, Language, Launch, Properties, Source};
use crate::backend::DeviceInfo;
use crate::error::{Error, Result};

/// A GPU that computes nothing and records its calls: `write`, `read`, `finish`, and the names of launched entries. A
/// read of a buffer returns the indices of its words plus 1000 times the buffer's index.
pub struct Told {
    properties: Properties,
    /// The calls since [`Told::asked`] was last called.
    asked: Mutex<Vec<&'static str>>,
    /// The number of words of each buffer.
    pub buffers: Mutex<Vec<usize>>,
}

impl Told {
    /// A CUDA card with this number of multiprocessors.
    pub fn new(multiprocessors: u32) -> Told {
        Told::of(Properties {
            backend: "told".into(),
            name: "told".into(),
            memory_bytes: 1 << 30,
            language: Language::Cuda,
            threads_max: 1024,
            shared_bytes_max: 48 << 10,
            groups_max: [i32::MAX as u32, 65_535, 65_535],
            buffer_bytes_max: 1 << 30,
            alignment_words: 64,
            multiprocessors,
            compute_capability: None,
            loop_turns_max: None,
            wide_integers: true,
        })
    }

    /// A card with these properties.
    pub fn of(properties: Properties) -> Told {
        Told { properties, asked: Mutex::default(), buffers: Mutex::default() }
    }

    /// A card whose kernels are in WGSL. Its drivers reserve no addresses.
    pub fn of_wgsl() -> Told {
        Told::of(Properties { language: Language::Wgsl, ..Told::new(4).properties })
    }

    /// Describes the card as a device.
    pub fn info(&self) -> DeviceInfo {
        let Properties { backend, name, memory_bytes, .. } = self.properties.clone();
        DeviceInfo {
            backend,
            name,
            memory_bytes,
            arena_bytes_max: u64::MAX,
            rows_max: 1,
            batches_in_flight_max: 1,
            keys_together_max: 1,
        }
    }

    fn tell<T>(&self, what: &'static str, value: T) -> Result<T> {
        self.asked.lock().expect("one thread").push(what);
        Ok(value)
    }

    /// Returns the GPU calls since this method was last called.
    pub fn asked(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.asked.lock().expect("one thread"))
    }
}

/// A buffer without memory.
pub struct Buf {
    /// The number of buffers that were made before.
    number: usize,
    words: usize,
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.words
    }

    fn clear(&self, _range: Range<usize>) {}
}

impl Gpu for Told {
    type Buf = Buf;
    type Module = ();
    /// The requested words.
    type Readback = Vec<u32>;

    fn properties(&self) -> &Properties {
        &self.properties
    }
    fn compile(&self, _: &Source) -> Result<()> {
        Ok(())
    }
    fn alloc(&self, words: usize) -> Result<Buf> {
        let mut buffers = self.buffers.lock().expect("one thread");
        buffers.push(words);
        Ok(Buf { number: buffers.len() - 1, words })
    }
    fn reserve(&self, words: usize) -> Result<Option<Buf>> {
        match self.properties.language {
            Language::Cuda => self.alloc(words).map(Some),
            Language::Wgsl => Ok(None),
        }
    }
    fn back(&self, _: &Buf, words: usize) -> Result<()> {
        if 4 * words as u64 > self.properties.memory_bytes {
            return Err(Error::OutOfMemory(format!("{words} words")));
        }
        self.tell("back", ())
    }
    fn write(&self, _: &Buf, _: usize, _: &[u32]) -> Result<()> {
        self.tell("write", ())
    }
    fn copy(&self, _: &Buf, _: usize, _: &Buf, _: usize, _: usize) -> Result<()> {
        self.tell("copy", ())
    }
    fn launch(&self, launch: &Launch<'_, (), Buf>) -> Result<()> {
        launch.check(&self.properties)?;
        self.tell(launch.entry, ())
    }
    fn read(&self, buf: &Buf, ranges: &[Range<usize>]) -> Result<Vec<u32>> {
        let word = |at: usize| (1000 * buf.number + at) as u32;
        let words: Vec<u32> = ranges.iter().cloned().flatten().map(word).collect();
        self.tell(if words.is_empty() { "read nothing" } else { "read" }, words)
    }
    fn finish(&self, words: Vec<u32>) -> Result<Vec<u32>> {
        self.tell("finish", words)
    }
}
