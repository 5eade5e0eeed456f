//! Repeated launches. A recording keeps their bind groups and arguments, so a replay neither creates nor checks them.

use ::wgpu::{BindGroup, Buffer, BufferDescriptor, BufferUsages};

use super::{LAUNCHES_MAX, Pipeline, Queue, Started, dispatch};
use crate::error::Result;

/// Kernels with all their arguments. A recording keeps its buffers alive, so the recording must be dropped first when a
/// buffer is to be freed.
pub(in crate::wgpu) struct Recording {
    steps: Vec<Step>,
    /// The arguments of all steps, `[steps][arguments_words]`.
    _arguments: Buffer,
}

struct Step {
    pipeline: Pipeline,
    group: BindGroup,
    groups: [u32; 3],
}

impl Queue {
    /// Creates all objects that these launches need. Starts no launch.
    pub(in crate::wgpu) fn record(&self, launches: &[Started<'_>]) -> Result<Recording> {
        let mut words = Vec::with_capacity(launches.len() * self.arguments_words);
        for (launch, end) in launches.iter().zip((self.arguments_words..).step_by(self.arguments_words)) {
            words.extend_from_slice(launch.arguments);
            words.resize(end, 0);
        }
        let arguments = self.checked(|| {
            let arguments = self.device.create_buffer(&BufferDescriptor {
                label: None,
                size: 4 * words.len() as u64,
                usage: BufferUsages::UNIFORM | BufferUsages::COPY_DST,
                mapped_at_creation: false,
            });
            self.queue.write_buffer(&arguments, 0, bytemuck::cast_slice(&words));
            arguments
        })?;
        let step = |(at, launch): (usize, &Started<'_>)| {
            let group = self.bind_group(launch, &arguments, at * self.arguments_words)?;
            Ok(Step { pipeline: launch.pipeline.clone(), group, groups: launch.groups })
        };
        let steps = launches.iter().enumerate().map(step).collect::<Result<_>>()?;
        Ok(Recording { steps, _arguments: arguments })
    }

    /// Starts the launches. The submissions have the same size as without a recording.
    pub(in crate::wgpu) fn replay(&self, recording: &Recording) -> Result<()> {
        let mut recorder = self.recorder()?;
        if recorder.launches > 0 {
            self.submit(&mut recorder)?;
        }
        for steps in recording.steps.chunks(LAUNCHES_MAX) {
            self.checked(|| {
                let mut pass = self.encoder(&mut recorder).begin_compute_pass(&Default::default());
                for Step { pipeline, group, groups } in steps {
                    dispatch(&mut pass, pipeline, group, *groups);
                }
            })?;
            recorder.launches += steps.len();
            if recorder.launches == LAUNCHES_MAX {
                self.submit(&mut recorder)?;
            }
        }
        Ok(())
    }
}
