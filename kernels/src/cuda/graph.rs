//! CUDA graphs: kernels captured once from a stream and then started together by one call.

use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::driver::Stream;
use super::failed::failed;
use crate::error::Result;

/// A sequence of kernels that runs in the order of the computing stream. The kernels' arguments are fixed. Some
/// arguments are addresses, so the memory at these addresses must exist at every start.
pub struct Graph {
    executable: sys::CUgraphExec,
    compute: Arc<Stream>,
}

// SAFETY: the handle belongs to the driver; any thread that has bound its context may use it. One graph starts
// at a time, because the caller holds the lock of the scratch memory of `gpu::Device` during a start
unsafe impl Send for Graph {}
// SAFETY: as for `Send`
unsafe impl Sync for Graph {}

impl Graph {
    /// Captures the kernels that `launch` starts in `capture`, a stream that nothing else uses. Captured kernels do not
    /// run yet.
    ///
    /// # Errors
    /// The errors of `launch`, and the driver's error if the capture fails.
    pub fn capture(capture: &Stream, compute: &Arc<Stream>, launch: impl FnOnce() -> Result<()>) -> Result<Graph> {
        use sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        capture.bind()?;
        let told = |error| failed("capturing kernels", error);
        // SAFETY: the stream lives. In this mode, the capture affects neither other streams nor calls of other threads
        unsafe { result::stream::begin_capture(capture.handle(), CU_STREAM_CAPTURE_MODE_RELAXED) }.map_err(told)?;
        let launched = launch();
        // SAFETY: the stream is capturing, and this call ends the capture even if a launch failed
        let graph = unsafe { result::stream::end_capture(capture.handle()) }.map_err(told)?;
        let executable = launched.and_then(|()| {
            // SAFETY: the graph was captured by the call above
            unsafe { result::graph::instantiate(graph, sys::CUgraphInstantiate_flags(0)) }.map_err(told)
        });
        // SAFETY: this is the same graph; the executable does not need it any more
        let _ = unsafe { result::graph::destroy(graph) };
        Ok(Graph { executable: executable?, compute: compute.clone() })
    }

    /// Starts all kernels of the graph.
    pub fn launch(&self) -> Result<()> {
        self.compute.bind()?;
        // SAFETY: the executable and the stream live; the caller holds all buffers and modules of the sequence
        unsafe { result::graph::launch(self.executable, self.compute.handle()) }
            .map_err(|error| failed("starting captured kernels", error))
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        // the driver frees a running graph when it ends; on a lost card, the graph is not freed
        if self.compute.bind().is_ok() {
            // SAFETY: `capture` instantiated the graph, and only this call destroys it
            let _ = unsafe { result::graph::exec_destroy(self.executable) };
        }
    }
}
