//! GPUs of any vendor, through the crate wgpu: Vulkan, Metal or Direct3D 12.
//!
//! Launches are collected and submitted a few at a time. A read waits only for the launches before it. Errors of the
//! driver are returned as [`Error`]; a card that has vanished or hangs gives [`Error::Lost`].

mod adapter;
mod queue;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use ::wgpu::ShaderRuntimeChecks;

use crate::error::{Error, Result};
use crate::gpu::recordings::{Sequence, new_id};
use crate::gpu::{Buffer, Gpu, Launch, Properties, Source, View};
use queue::{Memory, Pipeline, Queue, Read, Started};

/// An opened card.
pub struct Wgpu {
    properties: Properties,
    queue: Arc<Queue>,
}

/// The current allocations on a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allocated {
    /// The number of buffers, including those of reads in flight.
    pub buffers: u64,
    /// Total size of these buffers, in bytes.
    pub bytes: u64,
}

/// Words in the card's memory. Overwritten with zeros on drop.
pub struct Buf {
    buffer: ::wgpu::Buffer,
    words: usize,
    id: u64,
    queue: Arc<Queue>,
    _memory: Memory,
}

impl Buffer for Buf {
    fn words(&self) -> usize {
        self.words
    }

    fn clear(&self, range: Range<usize>) {
        self.queue.clear(&self.buffer, 4 * range.start as u64, Some(4 * range.len() as u64));
    }
}

impl Drop for Buf {
    fn drop(&mut self) {
        self.queue.recordings().forget(self.id);
        self.queue.clear(&self.buffer, 0, None);
    }
}

/// A compiled source, with a pipeline for each entry that was launched.
pub struct Module {
    stem: &'static str,
    shader: ::wgpu::ShaderModule,
    pipelines: Mutex<HashMap<&'static str, Pipeline>>,
    id: u64,
    queue: Arc<Queue>,
}

impl Drop for Module {
    fn drop(&mut self) {
        self.queue.recordings().forget(self.id);
    }
}

/// A read in flight.
pub struct Readback {
    /// `None` if no words were requested.
    read: Option<Read>,
    queue: Arc<Queue>,
}

impl Wgpu {
    /// Opens every adapter of this machine. The result has an error instead of a card for an adapter that is software
    /// (unless `software` is true), that cannot compute, or that does not open. If the machine has no adapter, the
    /// result is one error. Kernels run without the checks that wgpu adds to untrusted texts: checks of bounds and
    /// divisions, and a counter in every loop.
    pub fn enumerate(software: bool) -> Vec<Result<Wgpu>> {
        adapter::enumerate(software, ::wgpu::Features::SHADER_INT64, ShaderRuntimeChecks::unchecked())
    }

    /// Like [`Wgpu::enumerate`], but limited to portable WGSL, for tests: 64-bit integers stay off, and kernels run
    /// with all checks.
    pub fn enumerate_portable(software: bool) -> Vec<Result<Wgpu>> {
        adapter::enumerate(software, ::wgpu::Features::empty(), ShaderRuntimeChecks::checked())
    }

    /// Sets a limit on allocations, in bytes. The caller sets the limit, because wgpu does not report the card's
    /// memory.
    ///
    /// # Panics
    /// When memory is already allocated.
    pub fn with_memory_bytes(mut self, bytes: u64) -> Wgpu {
        self.properties.memory_bytes = bytes;
        let queue = Arc::get_mut(&mut self.queue).expect("nothing is allocated");
        queue.limit_memory(bytes);
        self
    }

    /// Returns the current allocations. Dropped buffers do not count, even if the card has not yet overwritten them.
    pub fn allocated(&self) -> Allocated {
        self.queue.allocated()
    }

    /// The number of recorded sequences of launches.
    pub fn recorded(&self) -> usize {
        self.queue.recordings().recorded()
    }

    /// Checks a launch and converts it to the form that the queue takes. `None` if the launch has no group.
    fn started<'a>(&self, launch: &'a Launch<'_, Module, Buf>) -> Result<Option<Started<'a>>> {
        launch.check(&self.properties)?;
        if launch.groups.contains(&0) {
            return Ok(None);
        }
        let pipeline = self.pipeline(launch.module, launch.entry)?;
        let bind = launch.bind.iter().map(|bind| bound(bind.view)).collect();
        Ok(Some(Started { pipeline, bind, arguments: &launch.args, groups: launch.groups }))
    }

    fn pipeline(&self, module: &Module, entry: &'static str) -> Result<Pipeline> {
        let mut pipelines = module.pipelines.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pipeline) = pipelines.get(entry) {
            return Ok(pipeline.clone());
        }
        let pipeline = self.queue.pipeline(&module.shader, entry).map_err(|error| in_stem(module.stem, error))?;
        pipelines.insert(entry, pipeline.clone());
        Ok(pipeline)
    }
}

/// Converts a driver's error during compilation to an error of the source.
fn in_stem(stem: &str, error: Error) -> Error {
    match error {
        Error::Device(why) => Error::Compile(format!("{stem}: {why}")),
        other => other,
    }
}

impl Gpu for Wgpu {
    type Buf = Buf;
    type Module = Module;
    type Readback = Readback;

    fn properties(&self) -> &Properties {
        &self.properties
    }

    fn compile(&self, source: &Source) -> Result<Module> {
        let shader = self.queue.shader(&source.text).map_err(|error| in_stem(source.stem, error))?;
        let (pipelines, id, queue) = (Mutex::default(), new_id(), self.queue.clone());
        Ok(Module { stem: source.stem, shader, pipelines, id, queue })
    }

    fn alloc(&self, words: usize) -> Result<Buf> {
        let usage = ::wgpu::BufferUsages::STORAGE | ::wgpu::BufferUsages::COPY_SRC | ::wgpu::BufferUsages::COPY_DST;
        // at least one word, because a binding cannot be empty
        let bytes = 4u64.saturating_mul(words.max(1) as u64);
        if bytes > self.properties.buffer_bytes_max {
            let most = self.properties.buffer_bytes_max;
            return Err(Error::OutOfMemory(format!(
                "a buffer of {bytes} bytes is larger than the allowed {most} bytes"
            )));
        }
        let (buffer, memory) = self.queue.buffer(bytes, usage)?;
        Ok(Buf { buffer, words, id: new_id(), queue: self.queue.clone(), _memory: memory })
    }

    fn write(&self, buf: &Buf, at: usize, words: &[u32]) -> Result<()> {
        inside(buf, &(at..at + words.len()))?;
        self.queue.write(&buf.buffer, 4 * at as u64, words)
    }

    fn copy(&self, from: &Buf, from_at: usize, to: &Buf, to_at: usize, words: usize) -> Result<()> {
        inside(from, &(from_at..from_at + words))?;
        inside(to, &(to_at..to_at + words))?;
        self.queue.copy((&from.buffer, 4 * from_at as u64), (&to.buffer, 4 * to_at as u64), 4 * words as u64)
    }

    fn launch(&self, launch: &Launch<'_, Module, Buf>) -> Result<()> {
        self.started(launch)?.map_or(Ok(()), |started| self.queue.launch(&started))
    }

    fn launch_all(&self, launches: &[Launch<'_, Module, Buf>]) -> Result<()> {
        let started: Vec<Option<Started<'_>>> =
            launches.iter().map(|launch| self.started(launch)).collect::<Result<_>>()?;
        let started: Vec<Started<'_>> = started.into_iter().flatten().collect();
        let launch_each = || started.iter().try_for_each(|started| self.queue.launch(started));
        if started.len() < 2 {
            return launch_each();
        }
        let sequence = Sequence::of(launches, |module| module.id, |buf| buf.id);
        let (record, replay) = (|| self.queue.record(&started), |recording: &_| self.queue.replay(recording));
        self.queue.recordings().start(sequence, record, replay, launch_each)
    }

    fn read(&self, buf: &Buf, ranges: &[Range<usize>]) -> Result<Readback> {
        for range in ranges {
            inside(buf, range)?;
        }
        let bytes = ranges.iter().map(|range| 4 * range.start as u64..4 * range.end as u64);
        let read = self.queue.read(&buf.buffer, bytes)?;
        Ok(Readback { read, queue: self.queue.clone() })
    }

    fn finish(&self, readback: Readback) -> Result<Vec<u32>> {
        match readback.read {
            Some(read) => readback.queue.finish(read),
            None => Ok(Vec::new()),
        }
    }
}

/// Makes the binding of a view. [`Launch::check`] has checked that the view is not empty.
fn bound(View { buf, first, words }: View<'_, Buf>) -> ::wgpu::BufferBinding<'_> {
    let size = std::num::NonZeroU64::new(4 * words as u64);
    ::wgpu::BufferBinding { buffer: &buf.buffer, offset: 4 * first as u64, size }
}

fn inside(buf: &Buf, range: &Range<usize>) -> Result<()> {
    if range.start <= range.end && range.end <= buf.words {
        return Ok(());
    }
    Err(Error::Device(format!("words {range:?} are outside a buffer of {} words", buf.words)))
}
