//! The emulated card itself: correct kernels run, and every kind of wrong kernel is reported with the entry's name.

use std::ops::Range;

use kernels::gpu::{Bind, Gpu, Launch, Source, Touched, View};
use kernels::{Error, Result};
use tests_compute::host_cuda::HostCuda;

use crate::Case;
use crate::device::Device;

/// A kernel and its expected result.
struct Kernel {
    name: &'static str,
    /// Body of `kernel(const unsigned* in, unsigned* out, unsigned count)`.
    body: &'static str,
    groups: u32,
    threads: u32,
    cluster: u32,
    expect: Expect,
}

enum Expect {
    /// Word i of `out`, as a function of i.
    Word(fn(u32) -> u32),
    /// A part of the expected message.
    Failure(&'static str),
}
use Expect::{Failure, Word};

const KERNELS: [Kernel; 17] = [
    Kernel {
        name: "shared memory and barriers",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x, at = blockIdx.x * 64 + t;
               words[t] = in[at];
               __syncthreads();
               out[at] = words[63 - t] + count;",
        groups: 4,
        threads: 64,
        cluster: 1,
        expect: Word(|i| i / 64 * 64 + 63 - i % 64 + 256),
    },
    Kernel {
        name: "a missing barrier",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x;
               words[t] = in[t];
               out[t] = words[63 - t];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "a barrier of warps where one of the group is needed",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x;
               words[t] = in[t];
               __syncwarp();
               out[t] = words[t ^ 32];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "a missing barrier within a warp",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x;
               words[t] = in[t];
               out[t] = words[t ^ 1];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "shared memory that was not written",
        body: "__shared__ unsigned words[64];
               out[threadIdx.x] = words[threadIdx.x];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "groups that write one word",
        body: "out[threadIdx.x] = in[blockIdx.x];",
        groups: 2,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "an index beyond shared memory",
        body: "__shared__ unsigned words[64];
               words[threadIdx.x + count / 64] = in[threadIdx.x];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("out of bounds"),
    },
    Kernel {
        name: "a pointer beyond shared memory",
        body: "__shared__ unsigned words[64];
               unsigned* at = words;
               at[threadIdx.x + count / 64] = in[threadIdx.x];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("insufficient space"),
    },
    Kernel {
        name: "an index beyond a buffer",
        body: "out[threadIdx.x + 1] = in[threadIdx.x];",
        groups: 1,
        threads: 256,
        cluster: 1,
        expect: Failure("use-after-poison"),
    },
    Kernel {
        name: "a barrier that some threads do not reach",
        body: "if (threadIdx.x < 32) __syncthreads();
               out[threadIdx.x] = in[threadIdx.x];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("divergent barrier"),
    },
    Kernel {
        name: "threads that wait at different barriers",
        body: "if (threadIdx.x < 32)
                   __syncthreads();
               else
                   __syncthreads();
               out[threadIdx.x] = in[threadIdx.x];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("divergent barrier"),
    },
    Kernel {
        name: "shuffles",
        body: "unsigned sum = in[threadIdx.x];
               for (unsigned lanes = 16; lanes > 0; lanes /= 2) sum += __shfl_xor_sync(~0u, sum, lanes);
               out[threadIdx.x] = sum + __shfl_sync(~0u, threadIdx.x, 3);",
        groups: 1,
        threads: 1024,
        cluster: 1,
        expect: Word(|i| (0..32).map(|lane| i / 32 * 32 + lane).sum::<u32>() + i / 32 * 32 + 3),
    },
    Kernel {
        name: "shared memory of a cluster",
        body: "__shared__ unsigned words[64];
               DYNAMIC_SHARED(unsigned, more);
               unsigned t = threadIdx.x, at = blockIdx.x * 64 + t;
               words[t] = in[at];
               more[t] = 1000 * cluster_rank();
               cluster_sync();
               unsigned next = (cluster_rank() + 1) % 4;
               unsigned word = remote(words, next)[t] + remote(more, next)[t];
               cluster_sync();
               words[t] = 0;
               out[at] = word;",
        groups: 8,
        threads: 64,
        cluster: 4,
        expect: Word(|i| {
            let (cluster, rank) = (i / 256, (i / 64 + 1) % 4);
            cluster * 256 + rank * 64 + i % 64 + 1000 * rank
        }),
    },
    Kernel {
        name: "a barrier of the group where one of the cluster is needed",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x;
               words[t] = in[t];
               __syncthreads();
               out[blockIdx.x * 64 + t] = remote(words, cluster_rank() ^ 1)[t];",
        groups: 2,
        threads: 64,
        cluster: 2,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "a group that ends before its partners have read its shared memory",
        body: "__shared__ unsigned words[64];
               unsigned t = threadIdx.x;
               words[t] = in[t];
               cluster_sync();
               out[blockIdx.x * 64 + t] = remote(words, cluster_rank() ^ 1)[t];",
        groups: 2,
        threads: 64,
        cluster: 2,
        expect: Failure("threads race"),
    },
    Kernel {
        name: "asynchronous copies",
        body: "__shared__ __align__(16) unsigned words[2][256];
               unsigned t = threadIdx.x;
               copy_async16(&words[0][4 * t], &in[4 * t]);
               copy_async_commit();
               copy_async16(&words[1][4 * t], &in[4 * (63 - t)]);
               copy_async_commit();
               copy_async_wait<1>();
               for (unsigned i = 0; i < 4; i++) out[4 * t + i] = words[0][4 * t + i];
               copy_async_wait<0>();
               __syncthreads();
               for (unsigned i = 0; i < 4; i++) out[4 * t + i] += words[1][4 * (63 - t) + i];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Word(|i| 2 * i),
    },
    Kernel {
        name: "an asynchronous copy that is not waited for",
        body: "__shared__ __align__(16) unsigned words[2][256];
               unsigned t = threadIdx.x;
               copy_async16(&words[0][4 * t], &in[4 * t]);
               copy_async_commit();
               copy_async16(&words[1][4 * t], &in[4 * t]);
               copy_async_commit();
               copy_async_wait<1>();
               for (unsigned i = 0; i < 4; i++) out[4 * t + i] = words[1][4 * t + i];",
        groups: 1,
        threads: 64,
        cluster: 1,
        expect: Failure("threads race"),
    },
];

/// Number of words of `in` and of `out`. A case whose groups together have more threads than this number gets more
/// words.
const WORDS: u32 = 256;

/// Cases for the emulated card only.
pub fn cases() -> impl Iterator<Item = Case> {
    let kernels = KERNELS.iter().map(|kernel| case(kernel.name, move |host| check(host, kernel)));
    let others = [case("the card works on after a failure", failure_is_not_the_end), case("touched ranges", touched)];
    kernels.chain(others)
}

fn case(name: &str, check: impl Fn(&HostCuda) + Send + Sync + 'static) -> Case {
    let check = move |_: &Device| check(&HostCuda::open().expect("trials run only on machines with the backend"));
    Case { on: |device| device.name == "cuda-host", ..Case::small(format!("emulator/{name}"), check) }
}

fn check(host: &HostCuda, kernel: &Kernel) {
    let found = run(host, kernel, 64);
    match (&kernel.expect, found) {
        (Word(expected), Ok(words)) => {
            let expected: Vec<u32> = (0..words.len() as u32).map(expected).collect();
            assert_eq!(words, expected);
        }
        (Failure(expected), Err(Error::Device(message))) => {
            assert!(message.contains(expected), "another message: {message}");
            assert!(message.starts_with("unit/kernel: "), "without the entry: {message}");
        }
        (Word(_), Err(error)) => panic!("{error}"),
        (Failure(expected), found) => panic!("{expected} was not reported: {found:?}"),
    }
}

fn run(host: &HostCuda, kernel: &Kernel, threads_of_a_row: u32) -> Result<Vec<u32>> {
    let count = WORDS.max(kernel.groups * threads_of_a_row).max(kernel.threads);
    let input: Vec<u32> = (0..count).collect();
    let text = format!(
        "{}\nextern \"C\" __global__ void kernel(const unsigned* in, unsigned* out, unsigned count) {{\n{}\n}}\n",
        include_str!("../../../shaders/blind_rotate.async.cu"),
        kernel.body
    );
    let module = host.compile(&Source { stem: "unit", text })?;
    let (from, to) = (host.alloc(count as usize)?, host.alloc(count as usize)?);
    host.write(&from, 0, &input)?;
    host.launch(&Launch {
        module: &module,
        entry: "kernel",
        groups: [kernel.groups, 1, 1],
        threads: kernel.threads,
        shared_bytes: 256,
        cluster: kernel.cluster,
        bind: vec![Bind::read(View::all(&from)), Bind::write(View::all(&to))],
        args: vec![count],
    })?;
    let all = 0..count as usize;
    host.finish(host.read(&to, std::slice::from_ref(&all))?)
}

/// Checks that the buffers are unchanged after a failed launch, and that the next launch runs.
fn failure_is_not_the_end(host: &HostCuda) {
    let text = "extern \"C\" __global__ void half(unsigned* out, unsigned at) {
                    out[threadIdx.x] += 1;
                    out[at + threadIdx.x] += 1;
                }";
    let module = host.compile(&Source { stem: "unit", text: text.into() }).expect("the source compiles");
    let buf = host.alloc(64).expect("room");
    let launch = |at: u32| {
        host.launch(&Launch {
            module: &module,
            entry: "half",
            groups: [1; 3],
            threads: 32,
            shared_bytes: 0,
            cluster: 1,
            bind: vec![Bind::write(View::all(&buf))],
            args: vec![at],
        })
    };
    launch(32).expect("within the buffer");
    let error = launch(33).expect_err("beyond the buffer");
    assert!(error.to_string().contains("use-after-poison"), "{error}");
    launch(32).expect("within the buffer");
    let words = host.finish(host.read(&buf, &[0..32, 32..64]).expect("a read")).expect("words");
    assert_eq!(words, vec![2; 64]);
}

/// Checks which words of a segment a kernel can reach: only the ranges that the launch names.
fn touched(host: &HostCuda) {
    let text = [
        include_str!("../../../shaders/place.cu"),
        "extern \"C\" __global__ void far(const unsigned* table, const unsigned* in, unsigned* out, unsigned at) {
             out[threadIdx.x] = in[word_of(table[0]) + at + threadIdx.x];
         }",
    ]
    .concat();
    let module = host.compile(&Source { stem: "unit", text }).expect("the source compiles");
    let segment = host.reserve(1 << 20).expect("addresses").expect("the card reserves addresses");
    host.back(&segment, 1 << 10).expect("memory");
    host.write(&segment, 0, &(0..1 << 10).collect::<Vec<u32>>()).expect("a copy");
    let [table, out] = [1, 32].map(|words| host.alloc(words).expect("room"));
    let far = |place: u32, ranges: &[Range<usize>], at: u32| -> Result<Vec<u32>> {
        host.write(&table, 0, &[place])?;
        let read = Bind::read_touched(Touched { buf: &segment, ranges });
        let bind = vec![Bind::read(View::all(&table)), read, Bind::write(View::all(&out))];
        let (entry, args) = ("far", vec![at]);
        let (groups, threads, shared_bytes, cluster) = ([1; 3], 32, 0, 1);
        host.launch(&Launch { module: &module, entry, groups, threads, shared_bytes, cluster, bind, args })?;
        let all = 0..32;
        host.finish(host.read(&out, std::slice::from_ref(&all))?)
    };
    let words = |from: u32| (from..from + 32).collect::<Vec<u32>>();
    let ranges = [64..104, 640..680, 640..680];
    assert_eq!(far(1, &ranges, 8).expect("a named range"), words(72));
    assert_eq!(far(10, &ranges, 0).expect("a range that is named twice"), words(640));
    for (place, at) in [(1, 9), (10, 9), (2, 0), (0, 0)] {
        let message = far(place, &ranges, at).expect_err("words of others").to_string();
        assert!(message.contains("unit/far") && message.contains("use-after-poison"), "{message}");
    }
}
