//! Compiles kernels for a machine that has a card but no compiler: all kernels that the cases and the self-test of a
//! device launch, for every architecture in use. `scripts/gpu-check` carries the result to that machine.

use std::panic::{AssertUnwindSafe, catch_unwind, set_hook};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use kernels::Card;
use kernels::cuda::nvrtc::Compiler;
use kernels::cuda::{CAPABILITIES, Cache, Paper, architecture};
use kernels::detect::prove;

use crate::Case;
use crate::device::Device;

/// Fills a folder.
pub fn precompile(folder: &Path, cases: &[Arc<Case>]) -> ExitCode {
    let compiler = match Compiler::of_this_machine() {
        Ok(compiler) => compiler,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let Some(cache) = Cache::open(folder) else {
        eprintln!("{}: other users can write to this folder", folder.display());
        return ExitCode::FAILURE;
    };
    // every case fails, because this card computes nothing; the messages of these failures are not printed
    set_hook(Box::new(|_| {}));
    for capability in CAPABILITIES.into_iter().filter(|&capability| compiler.knows(capability)) {
        let paper = Paper::new(capability);
        let device = paper.clone();
        let device = Device::gpu("paper", false, move || Ok(device.clone()));
        for case in cases.iter().filter(|case| (case.on)(&device)) {
            let _ = catch_unwind(AssertUnwindSafe(|| (case.check)(&device)));
        }
        let _ = prove(&Card::new(paper.clone()));
        let sources = paper.sources();
        for source in &sources {
            match compiler.compile(source, capability) {
                Ok(image) => cache.put(&architecture(capability), &source.text, &image),
                Err(error) => {
                    eprintln!("{error}");
                    return ExitCode::FAILURE;
                }
            }
        }
        println!("{} kernels for {} by {}", sources.len(), architecture(capability), compiler.name());
    }
    ExitCode::SUCCESS
}
