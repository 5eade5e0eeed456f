//! CUDA graphs: kernels captured once from a stream and then started together by one call.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::driver::Stream;
use super::failed::failed;
use crate::error::Result;

/// A sequence of kernels that runs in the order of the computing stream. Its arguments are fixed, so the memory at the
/// addresses among them must exist at every start.
pub struct Graph {
    executable: sys::CUgraphExec,
    compute: Arc<Stream>,
}

// SAFETY: a handle of the driver, which any thread that has bound its context may use; the door starts one at a time
unsafe impl Send for Graph {}
// SAFETY: as above
unsafe impl Sync for Graph {}

impl Graph {
    /// Captures the kernels that `launch` starts in `capture`, a stream without other users. None of them runs.
    ///
    /// # Errors
    /// The errors of `launch`, and the driver's if the capture fails.
    pub fn capture(capture: &Stream, compute: &Arc<Stream>, launch: impl FnOnce() -> Result<()>) -> Result<Graph> {
        use sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        capture.bind()?;
        let told = |error| failed("capturing kernels", error);
        // SAFETY: the stream lives; other streams, and other threads' calls, are not affected in this mode
        unsafe { result::stream::begin_capture(capture.handle(), CU_STREAM_CAPTURE_MODE_RELAXED) }.map_err(told)?;
        let launched = launch();
        // SAFETY: the stream is capturing, and ends to do so whatever was started
        let graph = unsafe { result::stream::end_capture(capture.handle()) }.map_err(told)?;
        let executable = launched.and_then(|()| {
            // SAFETY: a graph that was just captured
            unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }.map_err(told)
        });
        // SAFETY: the same graph, which an executable does not need
        let _ = unsafe { result::graph::destroy(graph) };
        Ok(Graph { executable: executable?, compute: compute.clone() })
    }

    /// Starts all kernels.
    pub fn launch(&self) -> Result<()> {
        self.compute.bind()?;
        // SAFETY: executable and stream live; the caller holds all buffers and modules of the sequence
        unsafe { result::graph::launch(self.executable, self.compute.handle()) }
            .map_err(|error| failed("starting captured kernels", error))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // a running graph is freed when it ends; a lost card keeps it
        if self.compute.bind().is_ok() {
            // SAFETY: instantiated by `capture`, given back once
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}
