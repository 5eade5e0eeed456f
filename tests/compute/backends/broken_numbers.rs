//! Broken kernels of numbers are noticed: each barrier is removed in turn, and each kind of mistake is made once.

use std::sync::{Arc, OnceLock};

use kernels::gpu::Gpu;
use kernels::{Card, Error};
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::broken::replaced;
use crate::broken_wgsl::{Slip, Slipping, barrier};
use crate::device::Device;
use crate::numbers::NumbersCase;
use crate::wgpu::open_software_narrow;

const fn slip(name: &'static str, stem: &'static str, from: &'static str, nth: usize, to: &'static str) -> Slip {
    Slip { name, stem, from, nth, to }
}

/// Barriers of a group: one on the way forward, two on the way back.
const BARRIERS: usize = 3;

const SLIPS: [Slip; 13] = [
    slip(
        "words not awaited on their way to the near layout",
        "ntt_rows",
        "__syncwarp();\n    const unsigned at",
        0,
        "const unsigned at",
    ),
    slip("words not awaited on their way to the far layout", "ntt_rows", "__syncwarp();", 3, ""),
    slip("a root of the neighbouring row", "ntt_rows", "ROWS + row}", 0, "ROWS + row + 1}"),
    slip("a root that is not mirrored", "ntt_rows", "2 * ROWS - 1 - row", 0, "2 * ROWS - 2 - row"),
    slip("an automorphism the other way round", "ntt_rows", "exponent * inverse", 0, "exponent * (2 * N - inverse)"),
    slip("a lane's words in the wrong order", "ntt_rows", "block[moved(at + i, inverse) % W]", 0, "block[i]"),
    slip("a root of the wrong column", "ntt_columns", "(V * own.part + low)", 0, "(V * own.part)"),
    slip("a quotient that is not rounded", "ntt_columns", "1u << (FRACTION_BITS - 1)", 0, "0"),
    slip("a conversion without its quotient", "ntt_columns", "record[1] + 1", 0, "record[1]"),
    slip("products that overflow", "pointwise", "of % (TOGETHER / 2) == 0", 0, "false"),
    slip("terms that overflow", "pointwise", "of % TOGETHER == 0", 0, "false"),
    slip("a tensor product without its second half", "pointwise", "+ a1 * b0", 0, ""),
    slip("an image of the wrong exponent", "automorphism", "exponent * term[1]", 0, "exponent"),
];

/// The barriers and mistakes that the suite must notice on the software driver, which runs the threads of a group eight at
/// a time, up to the next barrier. The emulated card notices every removed barrier.
const WGSL_SLIPS: [Slip; 8] = [
    barrier("numbers: no barrier after a stage of columns", "ntt_columns", 1),
    barrier("numbers: no barrier before columns back", "ntt_columns", 2),
    barrier("numbers: no barrier after a stage of columns back", "ntt_columns", 3),
    barrier("numbers: no barrier before a pass", "ntt_rows", 0),
    barrier("numbers: no barrier before the way back", "ntt_rows", 3),
    barrier("numbers: no barrier after a pass back", "ntt_rows", 5),
    Slip {
        name: "numbers: a key in the order of values",
        stem: "ntt_rows",
        from: "in_key(ROW * group.x",
        nth: 0,
        to: "(ROW * group.x",
    },
    Slip {
        name: "numbers: an image of the wrong exponent",
        stem: "automorphism",
        from: "exponent * table[term + 1u]",
        nth: 0,
        to: "exponent",
    },
];

/// The cases for which broken kernels must give wrong words: of short rows, and of long ones.
#[derive(Default)]
struct Cases {
    short: OnceLock<NumbersCase>,
    long: OnceLock<NumbersCase>,
}

impl Cases {
    /// Checks that a card whose source of `stem` is broken gives wrong words, or an error.
    fn notice<G: Gpu>(&self, stem: &str, card: G) {
        let case = match stem {
            "ntt_columns" => self.long.get_or_init(NumbersCase::long),
            _ => self.short.get_or_init(NumbersCase::short),
        };
        match case.is_computed_by(&Card::new(card)) {
            Err(Error::Device(_)) => {}
            Err(error) => panic!("{error}"),
            Ok(right) => assert!(!right, "not noticed: the words are right"),
        }
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let known = Arc::new(Cases::default());
    let of_barriers = known.clone();
    let barriers = (0..BARRIERS).map(move |nth| {
        let known = of_barriers.clone();
        case(format!("ntt_columns without barrier {nth}"), move |host| {
            let with = host.with_sources(move |source| {
                if source.stem != "ntt_columns" {
                    return source.text.clone();
                }
                assert_eq!(source.text.matches("__syncthreads();").count(), BARRIERS);
                replaced(&source.text, "__syncthreads();", nth, "")
            });
            known.notice("ntt_columns", with);
        })
    });
    let of_slips = known.clone();
    let slips = SLIPS.into_iter().map(move |Slip { name, stem, from, nth, to }| {
        let known = of_slips.clone();
        case(format!("numbers: {name}"), move |host| {
            let with = host.with_sources(move |source| {
                if source.stem == stem { replaced(&source.text, from, nth, to) } else { source.text.clone() }
            });
            known.notice(stem, with);
        })
    });
    // keys of tests have fewer digits than are summed together, so sums are folded after two products here
    let of_folds = known.clone();
    let folds = case("numbers: sums that are folded early are right".into(), move |host| {
        let with = host.with_sources(|source| match source.stem {
            "ntt_rows" => replaced(&source.text, "TOGETHER = 8", 0, "TOGETHER = 2"),
            _ => source.text.clone(),
        });
        let short = of_folds.short.get_or_init(NumbersCase::short);
        assert!(short.is_computed_by(&Card::new(with)).expect("the kernels run"), "wrong words");
    });
    let wgsl = WGSL_SLIPS.iter().map(move |slip| {
        let known = known.clone();
        let check = move |_: &Device| {
            let gpu = open_software_narrow().expect("trials run only on machines with the backend");
            known.notice(slip.stem, Slipping { gpu, slip });
        };
        let on = |device: &Device| device.name == "wgpu-software-narrow";
        Case { on, ..Case::small(format!("broken/{}", slip.name), check) }
    });
    barriers.chain(slips).chain([folds]).chain(wgsl)
}

fn case(name: String, check: impl Fn(HostCuda) + Send + Sync + 'static) -> Case {
    let check = move |_: &Device| check(HostCuda::open().expect("trials run only on machines with the backend"));
    Case { on: |device| device.name == "cuda-host", ..Case::small(format!("broken/{name}"), check) }
}
