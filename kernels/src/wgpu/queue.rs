//! The queue of a card: submits commands in sequence, counts the allocated memory, catches failures.

mod recording;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ::wgpu::{
    BindGroup, BindGroupDescriptor, BindGroupEntry, BindingResource, Buffer, BufferBinding, BufferUsages, Device,
    ErrorFilter, PollError, PollType, ShaderRuntimeChecks, SubmissionIndex,
};

use super::Allocated;
use crate::backend::SILENCE_MAX;
use crate::error::{Error, Result};
use crate::gpu::recordings::Recordings;
pub(super) use recording::Recording;

/// Largest number of launches in one submission. Operating systems end submissions that occupy a card for seconds.
const LAUNCHES_MAX: usize = 4;

/// Largest number of argument words of a launch.
const ARGUMENTS_MAX: usize = 16;

/// A write of more words than this is submitted at once, so that written words do not accumulate on the host.
const WRITE_WORDS_WAITING_MAX: usize = 1 << 20;

/// A card is lost if it finishes nothing during this many waits of [`WAIT`], which are [`SILENCE_MAX`] together.
const WAITS_MAX: u32 = (SILENCE_MAX.as_secs() / WAIT.as_secs()) as u32;
const WAIT: Duration = Duration::from_secs(5);

/// A device with its queue.
pub(super) struct Queue {
    device: Device,
    queue: ::wgpu::Queue,
    memory_bytes_max: u64,
    checks: ShaderRuntimeChecks,
    /// `[LAUNCHES_MAX][arguments_words]`: arguments of the recorded launches.
    arguments: Buffer,
    arguments_words: usize,
    recorder: Mutex<Recorder>,
    recordings: Recordings<Recording>,
    state: Arc<State>,
}

/// The commands that are not yet submitted.
#[derive(Default)]
struct Recorder {
    encoder: Option<::wgpu::CommandEncoder>,
    arguments: Vec<u32>,
    launches: usize,
}

/// The part of a queue's state that callbacks and [`Memory`] share.
#[derive(Default)]
struct State {
    lost: OnceLock<String>,
    /// A failure that was not yet reported.
    failed: Mutex<Option<Error>>,
    submissions_done: AtomicU64,
    buffers: AtomicU64,
    bytes: AtomicU64,
}

/// An amount of the card's memory that counts as allocated until this value is dropped.
pub(super) struct Memory {
    state: Arc<State>,
    bytes: u64,
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.state.bytes.fetch_sub(self.bytes, Ordering::Relaxed);
        self.state.buffers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A compiled entry, ready to run.
#[derive(Clone)]
pub(super) struct Pipeline {
    pipeline: ::wgpu::ComputePipeline,
    layout: ::wgpu::BindGroupLayout,
}

/// A kernel to start.
pub(super) struct Started<'a> {
    pub pipeline: Pipeline,
    pub bind: Vec<BufferBinding<'a>>,
    pub arguments: &'a [u32],
    pub groups: [u32; 3],
}

/// Words in flight to the host.
pub(super) struct Read {
    staging: Buffer,
    submission: SubmissionIndex,
    /// Receives true when the staging buffer is mapped, and false if it cannot be mapped.
    mapped: Receiver<bool>,
    _memory: Memory,
}

impl Queue {
    pub(super) fn new(
        device: Device,
        queue: ::wgpu::Queue,
        memory_bytes_max: u64,
        limits: &::wgpu::Limits,
        checks: ShaderRuntimeChecks,
    ) -> Result<Queue> {
        let state = Arc::new(State::default());
        let lost = state.clone();
        device.set_device_lost_callback(move |_, why| lost.lose(why));
        let failed = state.clone();
        device.on_uncaptured_error(Arc::new(move |error| failed.fail(convert(error))));
        let arguments_words = ARGUMENTS_MAX.max(limits.min_uniform_buffer_offset_alignment as usize / 4);
        let arguments = device.create_buffer(&::wgpu::BufferDescriptor {
            label: None,
            size: 4 * (LAUNCHES_MAX * arguments_words) as u64,
            usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let queue = Queue {
            device,
            queue,
            memory_bytes_max,
            checks,
            arguments,
            arguments_words,
            recorder: Mutex::default(),
            recordings: Recordings::default(),
            state,
        };
        queue.alive()?;
        Ok(queue)
    }

    pub(super) fn limit_memory(&mut self, bytes: u64) {
        self.memory_bytes_max = bytes;
    }

    pub(super) fn allocated(&self) -> Allocated {
        Allocated {
            buffers: self.state.buffers.load(Ordering::Relaxed),
            bytes: self.state.bytes.load(Ordering::Relaxed),
        }
    }

    pub(super) fn shader(&self, text: &str) -> Result<::wgpu::ShaderModule> {
        let source = ::wgpu::ShaderSource::Wgsl(text.into());
        let descriptor = ::wgpu::ShaderModuleDescriptor { label: None, source };
        // SAFETY: the texts belong to this crate. They access only their buffers and arrays, and their loops end. The
        // test suite shows this for the same texts with all checks on, and for their CUDA versions under sanitizers
        self.checked(|| unsafe { self.device.create_shader_module_trusted(descriptor, self.checks) })
    }

    pub(super) fn pipeline(&self, shader: &::wgpu::ShaderModule, entry: &str) -> Result<Pipeline> {
        self.checked(|| {
            let pipeline = self.device.create_compute_pipeline(&::wgpu::ComputePipelineDescriptor {
                label: None,
                layout: None,
                module: shader,
                entry_point: Some(entry),
                compilation_options: ::wgpu::PipelineCompilationOptions {
                    // zeros are not needed, because kernels write shared memory before they read it
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            });
            let layout = pipeline.get_bind_group_layout(0);
            Pipeline { pipeline, layout }
        })
    }

    /// Allocates a buffer of zeros. If the card refuses the memory, the call waits until the card has freed dropped
    /// buffers, and tries once more.
    pub(super) fn buffer(&self, bytes: u64, usage: BufferUsages) -> Result<(Buffer, Memory)> {
        let memory = self.reserve(bytes)?;
        let create = || {
            self.checked(|| {
                let descriptor =
                    ::wgpu::BufferDescriptor { label: None, size: bytes, usage, mapped_at_creation: false };
                self.device.create_buffer(&descriptor)
            })
        };
        let buffer = match create() {
            Err(Error::OutOfMemory(_)) => {
                let mut recorder = self.recorder()?;
                let submission = self.submit(&mut recorder)?;
                drop(recorder);
                self.wait(submission)?;
                create()?
            }
            other => other?,
        };
        Ok((buffer, memory))
    }

    fn reserve(&self, bytes: u64) -> Result<Memory> {
        self.alive()?;
        let (state, most) = (&self.state, self.memory_bytes_max);
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= most);
        state.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).map_err(|used| {
            Error::OutOfMemory(format!("{bytes} bytes requested, but {used} of {most} bytes are in use"))
        })?;
        state.buffers.fetch_add(1, Ordering::Relaxed);
        Ok(Memory { state: state.clone(), bytes })
    }

    /// Writes words. They arrive after all earlier commands and before all later ones.
    pub(super) fn write(&self, buffer: &Buffer, offset: u64, words: &[u32]) -> Result<()> {
        let mut recorder = self.recorder()?;
        if recorder.encoder.is_some() {
            self.submit(&mut recorder)?;
        }
        self.checked(|| self.queue.write_buffer(buffer, offset, bytemuck::cast_slice(words)))?;
        if words.len() > WRITE_WORDS_WAITING_MAX {
            self.submit(&mut recorder)?;
        }
        Ok(())
    }

    pub(super) fn copy(&self, (from, at): (&Buffer, u64), (to, to_at): (&Buffer, u64), bytes: u64) -> Result<()> {
        let mut recorder = self.recorder()?;
        self.checked(|| self.encoder(&mut recorder).copy_buffer_to_buffer(from, at, to, to_at, bytes))
    }

    /// Overwrites a range of a buffer, up to the buffer's end without `bytes`. This function cannot return a failure, so
    /// the next call reports it.
    pub(super) fn clear(&self, buffer: &Buffer, first: u64, bytes: Option<u64>) {
        if let Ok(mut recorder) = self.recorder_for_drop() {
            let cleared = self.checked(|| self.encoder(&mut recorder).clear_buffer(buffer, first, bytes));
            if let Err(error) = cleared.and_then(|()| self.submit(&mut recorder).map(drop)) {
                self.state.fail(error);
            }
        }
    }

    pub(super) fn recordings(&self) -> &Recordings<Recording> {
        &self.recordings
    }

    pub(super) fn launch(&self, started: &Started<'_>) -> Result<()> {
        let mut recorder = self.recorder()?;
        let group = self.bind_group(started, &self.arguments, recorder.arguments.len())?;
        self.checked(|| {
            let mut pass = self.encoder(&mut recorder).begin_compute_pass(&Default::default());
            dispatch(&mut pass, &started.pipeline, &group, started.groups);
        })?;
        recorder.arguments.extend_from_slice(started.arguments);
        recorder.launches += 1;
        let filled = recorder.launches * self.arguments_words;
        recorder.arguments.resize(filled, 0);
        if recorder.launches == LAUNCHES_MAX {
            self.submit(&mut recorder)?;
        }
        Ok(())
    }

    /// Makes the bind group of a kernel from its buffers and its arguments. The arguments start at word `first` of
    /// `arguments`.
    fn bind_group(&self, started: &Started<'_>, arguments: &Buffer, first: usize) -> Result<BindGroup> {
        let Started { pipeline, bind, arguments: words, .. } = started;
        if words.len() > ARGUMENTS_MAX {
            return Err(Error::Device(format!(
                "a launch has {} argument words, at most {ARGUMENTS_MAX} are allowed",
                words.len()
            )));
        }
        let size = std::num::NonZeroU64::new(4 * self.arguments_words as u64);
        let place = BufferBinding { buffer: arguments, offset: 4 * first as u64, size };
        let bindings = bind.iter().cloned().chain((!words.is_empty()).then_some(place));
        let entries: Vec<_> = (0..)
            .zip(bindings)
            .map(|(binding, place)| BindGroupEntry { binding, resource: BindingResource::Buffer(place) })
            .collect();
        self.checked(|| {
            let descriptor = BindGroupDescriptor { label: None, layout: &pipeline.layout, entries: &entries };
            self.device.create_bind_group(&descriptor)
        })
    }

    /// Starts to read ranges of bytes, which are packed one after another. `None` if all ranges are empty.
    pub(super) fn read(
        &self,
        buffer: &Buffer,
        ranges: impl Iterator<Item = Range<u64>> + Clone,
    ) -> Result<Option<Read>> {
        let bytes: u64 = ranges.clone().map(|range| range.end - range.start).sum();
        if bytes == 0 {
            return Ok(None);
        }
        let (staging, memory) = self.buffer(bytes, BufferUsages::MAP_READ | BufferUsages::COPY_DST)?;
        let mut recorder = self.recorder()?;
        self.checked(|| {
            let encoder = self.encoder(&mut recorder);
            let mut at = 0;
            for range in ranges {
                let length = range.end - range.start;
                encoder.copy_buffer_to_buffer(buffer, range.start, &staging, at, length);
                at += length;
            }
        })?;
        let submission = self.submit(&mut recorder)?;
        let (told, mapped) = sync_channel(1);
        self.checked(|| {
            staging.map_async(::wgpu::MapMode::Read, .., move |result| {
                let _ = told.send(result.is_ok());
            });
        })?;
        Ok(Some(Read { staging, submission, mapped, _memory: memory }))
    }

    pub(super) fn finish(&self, read: Read) -> Result<Vec<u32>> {
        self.wait(read.submission)?;
        self.state.told()?;
        // wait, because another thread's poll may have taken the callback without having called it yet
        if read.mapped.recv_timeout(WAIT) != Ok(true) {
            return Err(Error::Device("the driver did not map a result into the host's memory".to_owned()));
        }
        let view = read.staging.get_mapped_range(..).map_err(|error| Error::Device(error.to_string()))?;
        Ok(view.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect())
    }

    /// Locks and returns the recorder, if the card is alive and has no failure to report.
    fn recorder(&self) -> Result<MutexGuard<'_, Recorder>> {
        let recorder = self.recorder_for_drop()?;
        self.state.told()?;
        Ok(recorder)
    }

    fn recorder_for_drop(&self) -> Result<MutexGuard<'_, Recorder>> {
        self.alive()?;
        Ok(self.recorder.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn encoder<'a>(&self, recorder: &'a mut Recorder) -> &'a mut ::wgpu::CommandEncoder {
        recorder.encoder.get_or_insert_with(|| self.device.create_command_encoder(&Default::default()))
    }

    /// Submits the recorded commands and written words.
    fn submit(&self, recorder: &mut Recorder) -> Result<SubmissionIndex> {
        let Recorder { encoder, arguments, .. } = std::mem::take(recorder);
        self.checked(|| {
            if !arguments.is_empty() {
                self.queue.write_buffer(&self.arguments, 0, bytemuck::cast_slice(&arguments));
            }
            let submission = self.queue.submit(encoder.map(::wgpu::CommandEncoder::finish));
            let state = self.state.clone();
            self.queue.on_submitted_work_done(move || {
                state.submissions_done.fetch_add(1, Ordering::Relaxed);
            });
            submission
        })
    }

    /// Waits for a submission. The wait continues as long as the card finishes other submissions.
    fn wait(&self, submission: SubmissionIndex) -> Result<()> {
        let wait = PollType::Wait { submission_index: Some(submission), timeout: Some(WAIT) };
        let mut waits = 0;
        while waits < WAITS_MAX {
            let done = self.state.submissions_done.load(Ordering::Relaxed);
            // wgpu panics if the device vanishes during the wait. The panic may be caught, because no state of this
            // crate changes during the call
            match catch_unwind(AssertUnwindSafe(|| self.device.poll(wait.clone()))) {
                Ok(Ok(_)) => return self.alive(),
                Ok(Err(PollError::Timeout)) => {}
                Ok(Err(error)) => return Err(Error::Device(error.to_string())),
                Err(_) => self.state.lose("the card vanished during a wait".to_owned()),
            }
            self.alive()?;
            waits = if self.state.submissions_done.load(Ordering::Relaxed) == done { waits + 1 } else { 0 };
        }
        self.state.lose(format!("the card finished no work for {} s", SILENCE_MAX.as_secs()));
        self.alive()
    }

    fn alive(&self) -> Result<()> {
        self.state.lost.get().map_or(Ok(()), |why| Err(Error::Lost(why.clone())))
    }

    /// Calls `work`. Returns an error if wgpu reports one for the calls in `work`.
    fn checked<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let filters = [ErrorFilter::Internal, ErrorFilter::OutOfMemory, ErrorFilter::Validation];
        let scopes = filters.map(|filter| self.device.push_error_scope(filter));
        let out = work();
        // wgpu requires that the scopes end in reverse order
        let errors = scopes.into_iter().rev().map(|scope| block_on(scope.pop()));
        let error = errors.fold(None, |found, error| found.or(error));
        self.alive()?;
        error.map_or(Ok(out), |error| Err(convert(error)))
    }
}

fn dispatch(pass: &mut ::wgpu::ComputePass<'_>, pipeline: &Pipeline, group: &BindGroup, [x, y, z]: [u32; 3]) {
    pass.set_pipeline(&pipeline.pipeline);
    pass.set_bind_group(0, group, &[]);
    pass.dispatch_workgroups(x, y, z);
}

impl Drop for Queue {
    fn drop(&mut self) {
        if self.state.lost.get().is_some() {
            // leak device and queue, because wgpu would wait for the lost card forever
            std::mem::forget((self.device.clone(), self.queue.clone()));
        }
    }
}

impl State {
    fn lose(&self, why: String) {
        let _ = self.lost.set(why);
    }

    fn fail(&self, error: Error) {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
    }

    /// Returns the unreported failure as an error, if there is one. Each failure is returned once.
    fn told(&self) -> Result<()> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), Err)
    }
}

fn convert(error: ::wgpu::Error) -> Error {
    match error {
        ::wgpu::Error::OutOfMemory { source } => Error::OutOfMemory(source.to_string()),
        ::wgpu::Error::Validation { description, .. } | ::wgpu::Error::Internal { description, .. } => {
            Error::Device(description)
        }
    }
}

/// Runs a future to its end. Futures of native wgpu are ready when they are made, so this function does not wait.
pub(super) fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(out) = future.as_mut().poll(&mut context) {
            return out;
        }
        std::thread::yield_now();
    }
}
