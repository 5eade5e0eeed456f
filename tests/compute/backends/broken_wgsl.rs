//! Broken kernels in WGSL are noticed on the software driver: mistakes, also in the portable product, and removed
//! barriers.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use kernels::gpu::{Gpu, Launch, Properties, Source};
use kernels::wgpu::Wgpu;
use kernels::{Error, Result};

use crate::Case;
use crate::broken::{Expected, replaced};
use crate::device::Device;
use crate::wgpu::open_software_narrow;

/// A mistake: in the source of a kernel (`stem`), `to` replaces the n-th occurrence of `from`.
pub struct Slip {
    pub name: &'static str,
    pub stem: &'static str,
    pub from: &'static str,
    pub nth: usize,
    pub to: &'static str,
}

pub const fn barrier(name: &'static str, stem: &'static str, nth: usize) -> Slip {
    Slip { name, stem, from: "workgroupBarrier();", nth, to: "" }
}

/// The mistakes that the suite must notice. The driver runs the threads of a group eight at a time, up to the next
/// barrier, and always in the same order. A barrier that is not in this list can be removed without a change of this
/// order, so the suite cannot notice its absence. The emulated card notices every removed barrier (`broken`).
const SLIPS: [Slip; 11] = [
    barrier("no barrier before a pass", "blind_rotate", 0),
    barrier("no barrier after the last stage", "blind_rotate", 2),
    barrier("no barrier before the way back", "blind_rotate", 3),
    barrier("no barrier after the first stage back", "blind_rotate", 4),
    barrier("no barrier after a pass back", "blind_rotate", 5),
    barrier("no barrier after digits are staged", "lwe_key_switch", 0),
    barrier("no barrier before sums are gathered", "lwe_key_switch", 2),
    Slip { name: "a rotation the other way round", stem: "blind_rotate", from: "(i - a) %", nth: 0, to: "(i + a) %" },
    Slip { name: "a digit that is not rounded", stem: "blind_rotate", from: "+ DIGIT_OFFSET", nth: 0, to: "" },
    Slip {
        name: "a product without a carry",
        stem: "blind_rotate",
        from: "+ ((x_low * y_low) >> 16u)",
        nth: 0,
        to: "",
    },
    Slip {
        name: "a column beyond the result",
        stem: "lwe_key_switch",
        from: "column > LWE_DIMENSION",
        nth: 0,
        to: "column > LWE_DIMENSION + 1u",
    },
];

/// A card that compiles the broken source instead of the given one.
pub struct Slipping {
    pub gpu: Wgpu,
    pub slip: &'static Slip,
}

impl Gpu for Slipping {
    type Buf = <Wgpu as Gpu>::Buf;
    type Module = <Wgpu as Gpu>::Module;
    type Readback = <Wgpu as Gpu>::Readback;

    fn properties(&self) -> &Properties {
        self.gpu.properties()
    }
    fn compile(&self, source: &Source) -> Result<Self::Module> {
        let Slip { stem, from, nth, to, .. } = self.slip;
        if source.stem != *stem {
            return self.gpu.compile(source);
        }
        self.gpu.compile(&Source { stem, text: replaced(&source.text, from, *nth, to) })
    }
    fn alloc(&self, words: usize) -> Result<Self::Buf> {
        self.gpu.alloc(words)
    }
    fn write(&self, buf: &Self::Buf, at: usize, words: &[u32]) -> Result<()> {
        self.gpu.write(buf, at, words)
    }
    fn copy(&self, from: &Self::Buf, from_at: usize, to: &Self::Buf, to_at: usize, words: usize) -> Result<()> {
        self.gpu.copy(from, from_at, to, to_at, words)
    }
    fn launch(&self, launch: &Launch<'_, Self::Module, Self::Buf>) -> Result<()> {
        self.gpu.launch(launch)
    }
    fn read(&self, buf: &Self::Buf, ranges: &[Range<usize>]) -> Result<Self::Readback> {
        self.gpu.read(buf, ranges)
    }
    fn finish(&self, readback: Self::Readback) -> Result<Vec<u32>> {
        self.gpu.finish(readback)
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let expected = Arc::new(OnceLock::new());
    SLIPS.iter().map(move |slip| {
        let expected = expected.clone();
        let check = move |_: &Device| {
            let expected: &Expected = expected.get_or_init(Expected::plain);
            let gpu = open_software_narrow().expect("trials run only on machines with the backend");
            match expected.found(Slipping { gpu, slip }) {
                Ok(found) => assert!(!expected.is(&found), "not noticed: the words are those of the definition"),
                Err(Error::Device(_)) => {}
                Err(error) => panic!("{error}"),
            }
        };
        Case {
            on: |device| device.name == "wgpu-software-narrow",
            ..Case::small(format!("broken/{}", slip.name), check)
        }
    })
}
