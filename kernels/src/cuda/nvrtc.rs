//! NVRTC, NVIDIA's run-time compiler, if the machine has it: compiles sources to binaries of one architecture.
//!
//! The output is a cubin, because a driver older than the compiler refuses the compiler's PTX. If the compiler does not
//! know the card's architecture, the output is PTX. The PTX is for the newest known architecture that is not above the
//! card's architecture, and the driver compiles the PTX for the card.

use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, OnceLock, PoisonError};

use cudarc::nvrtc::result::{self, NvrtcError};
use cudarc::nvrtc::sys;

use super::cache::Image;
use crate::error::{Error, Result, message_of};
use crate::gpu::Source;

/// The oldest compiler that can list its architectures and make cubins.
const VERSION_MIN: (i32, i32) = (11, 2);
/// Largest number of lines of a compiler's log in an error.
const LOG_LINES_MAX: usize = 20;

/// The compiler of this machine.
#[derive(Debug)]
pub struct Compiler {
    version: (i32, i32),
    /// The architectures that the compiler knows, ascending; `90` means sm_90.
    architectures: Vec<i32>,
    /// Serializes compilations, because the compiler may hold locks and much memory.
    turn: Mutex<()>,
}

impl Compiler {
    /// Returns the compiler of this machine. Each process loads the compiler once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the machine has no usable compiler. The message names the package to install.
    pub fn of_this_machine() -> Result<&'static Compiler> {
        static COMPILER: OnceLock<Result<Compiler>> = OnceLock::new();
        let open = || {
            // the crate that calls NVRTC panics where the library lacks a function
            catch_unwind(Compiler::open)
                .unwrap_or_else(|panic| Err(Error::Unavailable(format!("NVRTC cannot be used: {}", message_of(panic)))))
        };
        COMPILER.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Compiler> {
        // SAFETY: this call loads the library under its usual names; loading NVRTC has no other effect
        if !unsafe { sys::is_culib_present() } {
            return Err(Error::Unavailable(
                "libnvrtc.so of CUDA 12 or 13 was not found; install NVRTC (Debian and Ubuntu: cuda-nvrtc-12-9 of NVIDIA's \
                 repository, or libnvrtc12; Python: nvidia-cuda-nvrtc-cu12) where the dynamic linker looks, or name its \
                 folder in LD_LIBRARY_PATH"
                    .into(),
            ));
        }
        let told = |error| Error::Unavailable(format!("NVRTC does not report its architectures: {error}"));
        let mut version = (0, 0);
        // SAFETY: the library is loaded, and the call writes two integers of this function
        unsafe { sys::nvrtcVersion(&mut version.0, &mut version.1) }.result().map_err(told)?;
        if version < VERSION_MIN {
            let (major, minor) = version;
            return Err(Error::Unavailable(format!("NVRTC has CUDA {major}.{minor}; 12.0 or newer is needed")));
        }
        let mut count = 0;
        // SAFETY: as for the version; the call writes one integer
        unsafe { sys::nvrtcGetNumSupportedArchs(&mut count) }.result().map_err(told)?;
        let mut architectures = vec![0; count as usize];
        // SAFETY: the vector has room for the number of architectures that the call above returned
        unsafe { sys::nvrtcGetSupportedArchs(architectures.as_mut_ptr()) }.result().map_err(told)?;
        architectures.sort_unstable();
        Ok(Compiler { version, architectures, turn: Mutex::default() })
    }

    /// Returns the compiler's name and version: `nvrtc 12.9`.
    pub fn name(&self) -> String {
        format!("nvrtc {}.{}", self.version.0, self.version.1)
    }

    /// Whether the compiler makes binaries for this compute capability.
    pub fn knows(&self, (major, minor): (u32, u32)) -> bool {
        self.architectures.contains(&((10 * major + minor) as i32))
    }

    /// Compiles a source for a card of this compute capability.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's log when compilation fails. Also [`Error::Compile`] when the card is
    /// older than every architecture that the compiler knows, or the library lacks a function.
    pub fn compile(&self, source: &Source, capability: (u32, u32)) -> Result<Image> {
        catch_unwind(AssertUnwindSafe(|| self.image(source, capability))).unwrap_or_else(|panic| {
            Err(Error::Compile(format!("{}: NVRTC cannot be used: {}", source.stem, message_of(panic))))
        })
    }

    fn image(&self, source: &Source, capability: (u32, u32)) -> Result<Image> {
        let Target { name: target, binary } = target(&self.architectures, capability).ok_or_else(|| {
            let (major, minor) = capability;
            Error::Compile(format!(
                "{}: {} cannot compile for compute capability {major}.{minor}: the card is too old; install NVRTC of CUDA 12",
                source.stem,
                self.name()
            ))
        })?;
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let text = CString::new(source.text.as_str())
            .map_err(|_| Error::Compile(format!("{}: the source contains a zero byte", source.stem)))?;
        let program = Program::new(&text).map_err(|error| self.failed(source, &target, error, ""))?;
        // SAFETY: the program was made and is not yet destroyed
        let compiled = unsafe {
            result::compile_program(program.0, &[format!("--gpu-architecture={target}"), "--std=c++17".into()])
        };
        compiled.map_err(|error| self.failed(source, &target, error, &program.log()))?;
        let bytes = if binary { program.cubin() } else { program.ptx() };
        let bytes = bytes.map_err(|error| self.failed(source, &target, error, ""))?;
        Ok(Image { compiler: self.name(), bytes })
    }

    fn failed(&self, source: &Source, target: &str, error: NvrtcError, log: &str) -> Error {
        let log: Vec<&str> = log.lines().take(LOG_LINES_MAX).collect();
        Error::Compile(format!("{} for {target} by {}: {error}\n{}", source.stem, self.name(), log.join("\n")))
    }
}

/// The target architecture of a compilation.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// The architecture option: `sm_90`, or `compute_90`.
    name: String,
    /// True for a cubin of the card's own architecture, false for PTX.
    binary: bool,
}

/// Chooses the target for a card from the compiler's architectures (ascending; `90` means sm_90). The target is the
/// card's own architecture if the compiler knows it, else the newest architecture that is not above the card's. `None`
/// if all architectures are above the card's.
fn target(architectures: &[i32], capability: (u32, u32)) -> Option<Target> {
    let card = (10 * capability.0 + capability.1) as i32;
    let newest = *architectures.iter().rfind(|&&architecture| architecture <= card)?;
    if newest == card {
        return Some(Target { name: super::architecture(capability), binary: true });
    }
    Some(Target { name: format!("compute_{newest}"), binary: false })
}

/// A program in compilation.
struct Program(sys::nvrtcProgram);

impl Program {
    fn new(text: &CStr) -> std::result::Result<Program, NvrtcError> {
        result::create_program(text, None).map(Program)
    }

    /// Returns the compiler's log of the program.
    fn log(&self) -> String {
        // SAFETY: the program was made and is not yet destroyed
        let log = unsafe { result::get_program_log(self.0) }.unwrap_or_default();
        String::from_utf8_lossy(&bytes_of(log)).trim_end_matches('\0').to_owned()
    }

    fn cubin(&self) -> std::result::Result<Vec<u8>, NvrtcError> {
        let mut size = 0;
        // SAFETY: the program is compiled, and the call writes one integer
        unsafe { sys::nvrtcGetCUBINSize(self.0, &mut size) }.result()?;
        let mut bytes = vec![0u8; size];
        // SAFETY: the vector has room for the number of bytes that the call above returned
        unsafe { sys::nvrtcGetCUBIN(self.0, bytes.as_mut_ptr().cast::<c_char>()) }.result()?;
        Ok(bytes)
    }

    /// Returns the PTX, with a zero byte at its end.
    fn ptx(&self) -> std::result::Result<Vec<u8>, NvrtcError> {
        // SAFETY: the program is compiled
        unsafe { result::get_ptx(self.0) }.map(bytes_of)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // SAFETY: `new` made the program, and only this call destroys it
        let _ = unsafe { result::destroy_program(self.0) };
    }
}

fn bytes_of(characters: Vec<c_char>) -> Vec<u8> {
    characters.into_iter().map(|character| character as u8).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The architectures that the compilers of three CUDA releases know.
    const CUDA_12_8: [i32; 19] = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120, 121, 122];
    const CUDA_12_9: [i32; 19] = [50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 103, 120, 121];
    const CUDA_13_0: [i32; 12] = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

    #[test]
    fn the_target_is_the_card_s_own_or_the_newest_that_is_not_above_it() {
        let of = |architectures: &[i32], capability| {
            target(architectures, capability).map(|target| (target.name, target.binary))
        };
        let cubin = |name: &str| Some((name.to_owned(), true));
        let ptx = |name: &str| Some((name.to_owned(), false));
        // H100, RTX 4090, RTX 5090
        assert_eq!(of(&CUDA_12_9, (9, 0)), cubin("sm_90"));
        assert_eq!(of(&CUDA_13_0, (8, 9)), cubin("sm_89"));
        assert_eq!(of(&CUDA_12_8, (12, 0)), cubin("sm_120"));
        // the B300 has capability 10.3. A compiler that does not know 10.3 makes PTX for its newest architecture below,
        // 10.1, and not for that of the RTX cards, whose number is higher (12.0)
        assert_eq!(of(&CUDA_12_8, (10, 3)), ptx("compute_101"));
        assert_eq!(of(&CUDA_12_9, (10, 3)), cubin("sm_103"));
        // Thor
        assert_eq!(of(&CUDA_12_9, (11, 0)), ptx("compute_103"));
        assert_eq!(of(&CUDA_13_0, (11, 0)), cubin("sm_110"));
        // a card newer than all architectures
        assert_eq!(of(&CUDA_13_0, (14, 0)), ptx("compute_121"));
        // V100: CUDA 13 cannot compile for such an old card
        assert_eq!(of(&CUDA_12_9, (7, 0)), cubin("sm_70"));
        assert_eq!(of(&CUDA_13_0, (7, 0)), None);
        assert_eq!(of(&[], (9, 0)), None);
    }
}
