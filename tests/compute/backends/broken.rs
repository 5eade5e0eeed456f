//! Broken kernels are noticed: each barrier is removed in turn, and each kind of mistake is made once.

use std::sync::{Arc, OnceLock};

use kernels::gpu::Gpu;
use kernels::tfhe::{EvaluationKey, Gates, Stems};
use kernels::{Card, Error, Result};
use tests_compute::host_cuda::HostCuda;
use tests_compute::naive::gates;

use crate::Case;
use crate::device::{Device, emulated};
use crate::fixtures::{Bodies, Shape, key, torus_rows};

/// A shape that takes every loop and branch of the plain kernels: an odd number of stages, and more than one chunk of a
/// key switch.
const SHAPE: Shape = Shape(3, 1, 128, 8, 2, 3, 7);
const ROWS: usize = 9;

const BARRIER: &str = "__syncthreads();";
/// The number of barriers of each source, including its helpers.
const BARRIERS: [(&str, usize); 3] = [("mod_switch", 1), ("blind_rotate", 6), ("lwe_key_switch", 3)];

/// A mistake: in the source of a kernel (`stem`), `to` replaces the n-th occurrence of `from`.
struct Slip {
    name: &'static str,
    stem: &'static str,
    from: &'static str,
    nth: usize,
    to: &'static str,
}

const SLIPS: [Slip; 9] = [
    Slip {
        name: "a root of the neighbouring group",
        stem: "ntt",
        from: "roots[2 * (groups + group)]",
        nth: 0,
        to: "roots[2 * (groups + group) + 1]",
    },
    Slip {
        name: "an error of the wrong sign",
        stem: "mod_switch",
        from: "(exponent << SHIFT) - word",
        nth: 0,
        to: "word - (exponent << SHIFT)",
    },
    Slip {
        name: "a range that is too wide by one reduction",
        stem: "blind_rotate",
        from: "x = reduce(x + y, 2 * Q);",
        nth: 0,
        to: "x = x + y;",
    },
    Slip {
        name: "a rotation the other way round",
        stem: "blind_rotate",
        from: "(i - a) % (2 * N)",
        nth: 0,
        to: "(i + a) % (2 * N)",
    },
    Slip {
        name: "a sample that is added to the old words",
        stem: "sample_extract",
        from: "+ at] = word;",
        nth: 0,
        to: "+ at] += word;",
    },
    Slip { name: "a start the other way round", stem: "blind_rotate", from: "(i + b) %", nth: 0, to: "(i - b) %" },
    Slip { name: "a digit that is not rounded", stem: "blind_rotate", from: "+ DIGIT_OFFSET", nth: 0, to: "" },
    Slip { name: "a sample without its signs", stem: "sample_extract", from: "negate_mod(own", nth: 0, to: "(own" },
    Slip {
        name: "a column beyond the result",
        stem: "lwe_key_switch",
        from: "column > LWE_DIMENSION",
        nth: 0,
        to: "column > LWE_DIMENSION + 1",
    },
];

/// A shape for the fast paths, on a card of capability 9.0. The card computes eight rows with `warp` and one row with
/// `cluster`.
const FAST_SHAPE: Shape = Shape(3, 1, 512, 8, 2, 3, 7);
const FAST_SLIPS: [Slip; 8] = [
    Slip {
        name: "partial sums read too early",
        stem: "blind_rotate.warp",
        from: "if (TILES == 2) part_sync<ROW_THREADS>();",
        nth: 0,
        to: "if (TILES == 2) {}",
    },
    Slip {
        name: "partial sums overwritten too early",
        stem: "blind_rotate.warp",
        from: "part_sync<ROW_THREADS>();  // all partial sums of the row are read",
        nth: 0,
        to: "",
    },
    Slip {
        name: "a key that has not arrived",
        stem: "blind_rotate.warp",
        from: "copy_async_wait<0>();",
        nth: 0,
        to: "",
    },
    Slip {
        name: "a key that another warp has not copied yet",
        stem: "blind_rotate.warp",
        from: "__syncthreads();\n        // (4)",
        nth: 0,
        to: "// (4)",
    },
    Slip {
        name: "a transpose in a hurry",
        stem: "blind_rotate.warp",
        from: "__syncwarp();\n#pragma unroll\n    for (unsigned i = 0; i < W; i++) v[i]",
        nth: 0,
        to: "\n#pragma unroll\n    for (unsigned i = 0; i < W; i++) v[i]",
    },
    Slip {
        name: "no wait for the partners",
        stem: "blind_rotate.cluster",
        from: "if (CLUSTERS) cluster_sync();",
        nth: 0,
        to: "if (CLUSTERS) __syncthreads();",
    },
    Slip {
        name: "values written where partners still read",
        stem: "blind_rotate.cluster",
        from: "shown_in_cluster[step % 2]",
        nth: 0,
        to: "shown_in_cluster[0]",
    },
    Slip {
        name: "a root that is not mirrored",
        stem: "blind_rotate.cluster",
        from: "11 - (slot + 1)",
        nth: 0,
        to: "10 - (slot + 1)",
    },
];

/// The barriers of `blind_rotate.cluster` on a card of capability 9.0, each taken away.
const CLUSTER_BARRIERS: [Slip; 8] = [
    Slip {
        name: "cluster: the start of the accumulator is not awaited",
        stem: "blind_rotate.cluster",
        from: "__syncthreads();\n\n    for (unsigned step",
        nth: 0,
        to: "for (unsigned step",
    },
    Slip {
        name: "cluster: far words are not awaited",
        stem: "blind_rotate.cluster",
        from: "to_row(row, t, T, v);\n    __syncthreads();",
        nth: 0,
        to: "to_row(row, t, T, v);",
    },
    Slip {
        name: "cluster: mid words are not awaited",
        stem: "blind_rotate.cluster",
        from: "__syncwarp();\n    load_near(",
        nth: 0,
        to: "load_near(",
    },
    Slip {
        name: "cluster: near words are not awaited",
        stem: "blind_rotate.cluster",
        from: "__syncwarp();\n    from_row(",
        nth: 0,
        to: "from_row(",
    },
    Slip {
        name: "cluster: mid words are not awaited on the way back",
        stem: "blind_rotate.cluster",
        from: "__syncthreads();\n    from_row(row, t, T, v);",
        nth: 0,
        to: "from_row(row, t, T, v);",
    },
    Slip {
        name: "cluster: partners are not awaited at all",
        stem: "blind_rotate.cluster",
        from: "if (CLUSTERS) cluster_sync();\n        else",
        nth: 0,
        to: "if (!CLUSTERS)",
    },
    Slip {
        name: "cluster: the accumulator of a step is not awaited",
        stem: "blind_rotate.cluster",
        from: "__syncthreads();\n    }\n    if (level == 0)",
        nth: 0,
        to: "}\n    if (level == 0)",
    },
    Slip {
        name: "cluster: a group ends while partners read its values",
        stem: "blind_rotate.cluster",
        from: "if (CLUSTERS) cluster_sync();  // partners",
        nth: 0,
        to: "// partners",
    },
];
/// The barrier of groups that exchange values in global memory, on a card of capability 8.0.
const GROUPS_BARRIER: Slip = Slip {
    name: "cluster: groups without clusters do not wait for each other",
    stem: "blind_rotate.cluster",
    from: "else groups_sync(arrived + gate, ROWS * (step + 1));",
    nth: 0,
    to: "else __syncthreads();",
};
/// A shape whose partial sums go through one slot of a warp, on a card of capability 9.0 with two steps of the key in
/// shared memory. The card computes eight rows with `warp`.
const SLOT_SHAPE: Shape = Shape(3, 3, 512, 9, 2, 5, 6);
const SLOT_SLIPS: [Slip; 4] = [
    Slip {
        name: "a slot read before it is filled",
        stem: "blind_rotate.warp",
        from: "part_sync<ROW_THREADS>();  // the row has filled its slots",
        nth: 0,
        to: "",
    },
    Slip {
        name: "a slot filled again before it is read",
        stem: "blind_rotate.warp",
        from: "part_sync<ROW_THREADS>();  // the row has read its slots",
        nth: 0,
        to: "",
    },
    Slip {
        name: "the last slots read before they are filled",
        stem: "blind_rotate.warp",
        from: "if (TILES == 2) part_sync<ROW_THREADS>();",
        nth: 0,
        to: "if (TILES == 2) {}",
    },
    Slip {
        name: "the last slots overwritten before they are read",
        stem: "blind_rotate.warp",
        from: "part_sync<ROW_THREADS>();  // all partial sums of the row are read",
        nth: 0,
        to: "",
    },
];

/// The same for two mask polynomials on a card of capability 8.9, which has one step of the key in shared memory.
const TILE_SHAPE: Shape = Shape(3, 2, 512, 8, 2, 3, 7);
const TILE_SLIPS: [Slip; 1] = [Slip {
    name: "a key overwritten while other rows read it",
    stem: "blind_rotate.warp",
    from: "else __syncthreads();",
    nth: 0,
    to: "else part_sync<ROW_THREADS>();",
}];

/// A key and inputs, and the results that the definition gives for them.
pub struct Expected {
    key: EvaluationKey,
    inputs: Vec<u32>,
    samples: Vec<u32>,
    outputs: Vec<u32>,
}

impl Expected {
    /// The key and inputs for which broken plain kernels must give wrong words.
    pub fn plain() -> Expected {
        Expected::new(SHAPE, ROWS)
    }

    fn new(shape: Shape, rows: usize) -> Expected {
        let key = key(shape.params(), Bodies::Random, 12);
        let words = key.params.lwe_dimension + 1;
        let inputs = torus_rows(rows, words, 13);
        let samples: Vec<u32> = inputs.chunks_exact(words).flat_map(|row| gates::bootstrap(&key, row)).collect();
        let sample_words = key.params.extracted_dimension() + 1;
        let outputs = samples.chunks_exact(sample_words).flat_map(|row| gates::key_switch(&key, row)).collect();
        Expected { key, inputs, samples, outputs }
    }

    /// Computes samples and outputs on a card and returns them.
    pub fn found<G: Gpu>(&self, card: G) -> Result<(Vec<u32>, Vec<u32>)> {
        let backend = Card::new(card);
        let loaded = backend.load_key(&self.key)?;
        Ok((backend.bootstrap(&loaded, &self.inputs)?, backend.key_switch(&loaded, &self.samples)?))
    }

    /// Whether these samples and outputs equal the expected ones.
    pub fn is(&self, (samples, outputs): &(Vec<u32>, Vec<u32>)) -> bool {
        *samples == self.samples && *outputs == self.outputs
    }
}

pub fn cases() -> impl Iterator<Item = Case> {
    let expected = Arc::new(OnceLock::new());
    let barriers = BARRIERS.into_iter().flat_map(|(stem, count)| (0..count).map(move |nth| (stem, nth, count)));
    let with = expected.clone();
    let barriers = barriers.map(move |(stem, nth, count)| {
        let expected = with.clone();
        case(format!("{stem} without barrier {nth}"), move |host| {
            let host = host.with_sources(move |source| {
                if source.stem != stem {
                    return source.text.clone();
                }
                assert_eq!(source.text.matches(BARRIER).count(), count, "barriers of {stem}");
                replaced(&source.text, BARRIER, nth, "")
            });
            match expected.get_or_init(Expected::plain).found(host) {
                Err(Error::Device(message)) => assert!(message.contains("threads race"), "{message}"),
                other => panic!("not noticed: {:?}", other.err()),
            }
        })
    });
    let slips = SLIPS.into_iter().map(move |slip| {
        let expected = expected.clone();
        case(slip.name.into(), move |host| notice(expected.get_or_init(Expected::plain), &slip, host))
    });
    let of_fast: Vec<Slip> = FAST_SLIPS.into_iter().chain(CLUSTER_BARRIERS).collect();
    // a card of capability 8.0 needs a multiprocessor for each group of a row
    let fast = [
        ((9, 0), 1, FAST_SHAPE, of_fast),
        ((8, 0), 8, FAST_SHAPE, vec![GROUPS_BARRIER]),
        ((9, 0), 1, SLOT_SHAPE, SLOT_SLIPS.into()),
        ((8, 9), 1, TILE_SHAPE, TILE_SLIPS.into()),
    ];
    let fast = fast.into_iter().flat_map(|(capability, multiprocessors, shape, slips)| {
        let expected = [1, 8].map(|rows| (rows, Arc::new(OnceLock::new())));
        slips.into_iter().map(move |slip| {
            let (rows, expected) = expected[usize::from(slip.stem == "blind_rotate.warp")].clone();
            case(slip.name.into(), move |_| {
                let host = emulated(capability, multiprocessors);
                let host = host.expect("trials run only on machines with the backend");
                notice(expected.get_or_init(|| Expected::new(shape, rows)), &slip, host);
            })
        })
    });
    barriers.chain(slips).chain(fast)
}

/// Checks that a card with this mistake gives words that differ from the definition's, or an error.
fn notice(expected: &Expected, slip: &Slip, host: HostCuda) {
    let Slip { stem, from, nth, to, .. } = *slip;
    let host = host.with_sources(move |source| {
        if source.stem == stem { replaced(&source.text, from, nth, to) } else { source.text.clone() }
    });
    match expected.found(host) {
        Err(Error::Device(_)) => {}
        Err(error) => panic!("{error}"),
        Ok(found) => assert!(!expected.is(&found), "not noticed: the words are those of the definition"),
    }
}

fn case(name: String, check: impl Fn(HostCuda) + Send + Sync + 'static) -> Case {
    let check = move |_: &Device| check(HostCuda::open().expect("trials run only on machines with the backend"));
    Case { on: |device| device.name == "cuda-host", ..Case::small(format!("broken/{name}"), check) }
}

/// Replaces the n-th occurrence of `from` in `text` with `to`.
pub fn replaced(text: &str, from: &str, nth: usize, to: &str) -> String {
    let (at, _) = text.match_indices(from).nth(nth).unwrap_or_else(|| panic!("the source no longer has: {from}"));
    format!("{}{to}{}", &text[..at], &text[at + from.len()..])
}
