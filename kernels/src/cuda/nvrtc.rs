//! NVRTC, NVIDIA's run-time compiler, if the machine has it: compiles sources to binaries of one architecture.
//!
//! The output is a cubin, because a driver older than the compiler refuses the compiler's PTX. If the compiler does not
//! know the card's architecture, the output is PTX. The PTX is for the newest known architecture that is not above the
//! card's architecture, and the driver compiles the PTX for the card.

mod library;

use std::ffi::CString;
use std::sync::OnceLock;

use super::cache::Image;
use crate::error::{Error, Result};
use crate::gpu::Source;
use library::{Failed, Library};

/// The oldest compiler that is used.
const VERSION_MIN: (i32, i32) = (12, 0);
/// The names of the compiler's library. Several majors may be installed; the last name is that of an installation for
/// development, of any major.
const NAMES: [&str; 3] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"];
/// Largest number of lines of a compiler's log in an error.
const LOG_LINES_MAX: usize = 20;

/// A version of CUDA: major and minor.
type Version = (i32, i32);

/// The compilers of this machine.
pub struct Compiler {
    /// At least one, the newest first.
    libraries: Vec<Library>,
    /// The version of the driver, if the machine has one.
    driver: Option<Version>,
}

impl Compiler {
    /// Returns the compilers of this machine. Each process loads them once.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the machine has no usable compiler. The message names the package to install.
    pub fn of_this_machine() -> Result<&'static Compiler> {
        static COMPILER: OnceLock<Result<Compiler>> = OnceLock::new();
        COMPILER.get_or_init(Compiler::open).as_ref().map_err(Clone::clone)
    }

    fn open() -> Result<Compiler> {
        let mut libraries: Vec<Library> = Vec::new();
        let mut unusable = Vec::new();
        for library in NAMES.into_iter().filter_map(Library::open) {
            match library {
                Ok(Library { version: (major, minor), .. }) if (major, minor) < VERSION_MIN => {
                    unusable.push(format!("NVRTC has CUDA {major}.{minor}; {}.0 or newer is needed", VERSION_MIN.0));
                }
                // two names may lead to one file
                Ok(library) if libraries.iter().any(|known| known.version == library.version) => {}
                Ok(library) => libraries.push(library),
                Err(why) => unusable.push(format!("NVRTC cannot be used: {why}")),
            }
        }
        if libraries.is_empty() {
            unusable.sort_unstable();
            unusable.dedup();
            return Err(Error::Unavailable(match unusable.is_empty() {
                true => {
                    "libnvrtc.so of CUDA 12 or 13 was not found; install NVRTC (Debian and Ubuntu: cuda-nvrtc-12-9 of \
                         NVIDIA's repository, or libnvrtc12; Python: nvidia-cuda-nvrtc-cu12) where the dynamic linker \
                         looks, or name its folder in LD_LIBRARY_PATH"
                        .into()
                }
                false => unusable.join("; "),
            }));
        }
        libraries.sort_unstable_by_key(|library| std::cmp::Reverse(library.version));
        Ok(Compiler { libraries, driver: super::driver_version().ok().flatten() })
    }

    /// Returns the names and versions of the compilers, the newest first: `nvrtc 13.0, nvrtc 12.9`.
    pub fn name(&self) -> String {
        self.libraries.iter().map(|library| name(library.version)).collect::<Vec<_>>().join(", ")
    }

    /// Whether a compiler makes binaries for this compute capability that the machine's driver takes.
    pub fn knows(&self, capability: (u32, u32)) -> bool {
        self.choose(capability).is_ok_and(|(_, target)| target.binary)
    }

    /// Compiles a source for a card of this compute capability.
    ///
    /// # Errors
    /// [`Error::Compile`] with the compiler's log when compilation fails. Also [`Error::Compile`] when no compiler's
    /// output suits the card and the driver; the message names the versions.
    pub fn compile(&self, source: &Source, capability: (u32, u32)) -> Result<Image> {
        let stem = source.stem;
        let (at, target) = self.choose(capability).map_err(|why| Error::Compile(format!("{stem}: {why}")))?;
        let library = &self.libraries[at];
        let text = CString::new(source.text.as_str())
            .map_err(|_| Error::Compile(format!("{stem}: the source contains a zero byte")))?;
        let options = [format!("--gpu-architecture={}", target.name), "--std=c++17".into()];
        let compiler = name(library.version);
        let bytes = library.compile(&text, &options, target.binary).map_err(|Failed { error, log }| {
            let log: Vec<&str> = log.lines().take(LOG_LINES_MAX).collect();
            Error::Compile(format!("{stem} for {} by {compiler}: {error}\n{}", target.name, log.join("\n")))
        })?;
        Ok(Image { compiler, bytes })
    }

    fn choose(&self, capability: (u32, u32)) -> std::result::Result<(usize, Target), String> {
        let installed: Vec<_> =
            self.libraries.iter().map(|library| (library.version, &library.architectures[..])).collect();
        choose(&installed, self.driver, capability)
    }
}

fn name((major, minor): Version) -> String {
    format!("nvrtc {major}.{minor}")
}

/// Chooses one of the installed compilers, the newest first, and its target for a card. Each compiler has a version and
/// its architectures, ascending. `driver` is the driver's version; without a driver, every compiler suits.
///
/// A driver loads every cubin whose major version is at most the driver's. A driver loads PTX only if the version of the
/// PTX is at most the driver's. So the function first takes the newest compiler of a loadable major that makes a cubin
/// for the card. Without such a compiler, the function takes the newest one that makes loadable PTX. The error names all
/// versions.
fn choose(
    installed: &[(Version, &[i32])],
    driver: Option<Version>,
    capability: (u32, u32),
) -> std::result::Result<(usize, Target), String> {
    let targets = || {
        installed.iter().enumerate().filter_map(|(at, (version, architectures))| {
            target(architectures, capability).map(|target| (at, *version, target))
        })
    };
    let binary =
        targets().find(|(_, (major, _), target)| target.binary && driver.is_none_or(|driver| *major <= driver.0));
    let text =
        || targets().find(|(_, version, target)| !target.binary && driver.is_none_or(|driver| *version <= driver));
    if let Some((at, _, target)) = binary.or_else(text) {
        return Ok((at, target));
    }
    let compilers: Vec<String> = installed.iter().map(|(version, _)| name(*version)).collect();
    let ((major, minor), compilers) = (capability, compilers.join(", "));
    Err(match driver.filter(|_| targets().next().is_some()) {
        Some(driver) => format!(
            "the driver has CUDA {}.{}, which is too old for what {compilers} makes for compute capability \
             {major}.{minor}; install NVRTC of CUDA {}, or update the driver",
            driver.0, driver.1, driver.0
        ),
        None => format!(
            "{compilers} cannot compile for compute capability {major}.{minor}: the card is too old; install NVRTC of CUDA 12"
        ),
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Two installed compilers: a version, and the architectures that it knows.
    const OLD: (Version, &[i32]) = ((12, 9), &CUDA_12_9);
    const NEW: (Version, &[i32]) = ((13, 5), &CUDA_13_0);

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

    #[test]
    fn the_compiler_is_the_newest_whose_output_the_driver_takes() {
        let of = |installed: &[(Version, &[i32])], driver, capability| {
            choose(installed, driver, capability).map(|(at, target)| (installed[at].0, target.name))
        };
        let made = |version, name: &str| Ok((version, name.to_owned()));
        let h100 = (9, 0);
        // a driver of CUDA 12 refuses the cubins of CUDA 13
        assert_eq!(of(&[NEW, OLD], Some((12, 4)), h100), made((12, 9), "sm_90"));
        // a driver of CUDA 13.0 takes cubins of CUDA 13.5
        assert_eq!(of(&[NEW, OLD], Some((13, 0)), h100), made((13, 5), "sm_90"));
        assert_eq!(of(&[NEW], Some((13, 0)), h100), made((13, 5), "sm_90"));
        assert_eq!(of(&[NEW, OLD], Some((14, 1)), h100), made((13, 5), "sm_90"));
        // of a machine without a driver, whose kernels are for other machines
        assert_eq!(of(&[NEW, OLD], None, h100), made((13, 5), "sm_90"));
        // a card that no compiler knows needs PTX, which must not be newer than the driver
        let next = (14, 0);
        assert_eq!(of(&[NEW, OLD], Some((13, 5)), next), made((13, 5), "compute_121"));
        assert_eq!(of(&[NEW, OLD], Some((13, 0)), next), made((12, 9), "compute_121"));
        // only the older compiler knows a V100, and only the newer one knows Thor
        assert_eq!(of(&[NEW, OLD], Some((13, 0)), (7, 0)), made((12, 9), "sm_70"));
        assert_eq!(of(&[NEW, OLD], Some((13, 0)), (11, 0)), made((13, 5), "sm_110"));
        assert_eq!(of(&[NEW, OLD], Some((12, 9)), (11, 0)), made((12, 9), "compute_103"));
    }

    #[test]
    fn a_driver_older_than_every_compiler_and_a_card_too_old_are_told_with_all_versions() {
        let refused = |installed: &[_], driver, capability| {
            choose(installed, Some(driver), capability).expect_err("nothing suits")
        };
        let why = refused(&[NEW], (12, 4), (9, 0));
        assert!(why.contains("driver has CUDA 12.4") && why.contains("nvrtc 13.5"), "{why}");
        assert!(why.contains("install NVRTC of CUDA 12, or update the driver"), "{why}");
        // PTX of both is newer than this driver
        let why = refused(&[NEW, OLD], (12, 4), (14, 0));
        assert!(why.contains("driver has CUDA 12.4") && why.contains("nvrtc 13.5, nvrtc 12.9"), "{why}");
        let why = refused(&[NEW], (13, 0), (7, 0));
        assert!(why.contains("nvrtc 13.5 cannot compile for compute capability 7.0: the card is too old"), "{why}");
    }
}
