//! Gates of this engine compared with the `tfhe` crate at the same dimensions, in one run. Prints a table.
//!
//! `cargo bench --workspace --bench gates` measures Ango with each instruction set except plain Rust; the peer always
//! uses its default. Both sides have n 636, k 1, N 1024, and bootstrap base 2^8 in 2 levels. The key switches differ:
//! base 3 in 7 levels in Ango, base 2^2 in 6 levels in the peer, whose bases are powers of two.

use benches::{in_turns, ms_each, peer as peers_own};
use client::SecretKey;
use kernels::Backend;
use kernels::cpu::{Cpu, Isa};
use kernels::tfhe::bootstrap::evaluate;
use kernels::tfhe::{Gate, GateRow, Gates, Preset};
use rayon::prelude::*;
use tfhe::boolean::prelude::{Ciphertext, ClientKey, ServerKey};

const PRESET: Preset = Preset::Fast128;

fn main() {
    let secret = SecretKey::generate(PRESET);
    let evaluation_key = secret.evaluation_key();
    let peer_client = ClientKey::new(&peers_own::parameters_of_fast_128());
    let peer = ServerKey::new(&peer_client);
    let all_threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());

    let device = Cpu::open();
    println!("Processor: {}, {all_threads} threads; chosen {}.\n", device.info().name, device.info().backend);
    println!("| gate | batch | threads | set | tfhe ms/gate | ango ms/gate | ango gates/s | ratio |");
    println!("|---|---|---|---|---|---|---|---|");
    let isas = Isa::available().into_iter().filter(|&isa| isa != Isa::Portable || Isa::available().len() == 1);
    for (isa, threads) in isas.flat_map(|isa| [(isa, 1), (isa, all_threads)]) {
        let cpu = Cpu::with(isa, threads);
        let key = cpu.load_key(&evaluation_key).expect("the key fits");
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a thread pool");
        let measure = |gate: Gate, batch: usize, rounds: usize| {
            let bit = |i: usize| i.is_multiple_of(3);
            let operands: Vec<[bool; 3]> = (0..batch).map(|i| [bit(i), bit(i + 1), bit(i + 2)]).collect();
            let rows: Vec<GateRow> = operands
                .iter()
                .map(|bits| GateRow {
                    gate,
                    operands: bits[..gate.arity()].iter().map(|&b| secret.encrypt(b)).collect(),
                })
                .collect();
            let peers: Vec<[Ciphertext; 3]> =
                operands.iter().map(|bits| bits.map(|b| peer_client.encrypt(b))).collect();
            let (mut results, mut peer_results) = (Vec::new(), Vec::new());
            let [ours, theirs] = in_turns(
                rounds,
                || results = evaluate(&cpu, &key, &PRESET.params(), &rows).expect("the CPU does not fail"),
                || {
                    peer_results = pool.install(|| {
                        peers
                            .par_iter()
                            .map(|[a, b, sel]| peers_own::gate(&peer, gate, [a, b, sel]))
                            .collect::<Vec<_>>()
                    })
                },
            );
            for ((result, peer_result), bits) in results.iter().zip(&peer_results).zip(&operands) {
                let expected = gate.plain(&bits[..gate.arity()]);
                assert_eq!(secret.decrypt(result), expected, "{gate:?}");
                assert_eq!(peer_client.decrypt(peer_result), expected, "{gate:?} of the peer");
            }
            let (ours, theirs) = (ms_each(ours, batch), ms_each(theirs, batch));
            println!(
                "| {} | {batch} | {threads} | {} | {theirs:.3} | {ours:.3} | {:.0} | {:.2} |",
                gate.name(),
                isa.name(),
                1e3 / ours,
                theirs / ours
            );
        };
        for gate in Gate::ALL.into_iter().filter(|&gate| gate != Gate::Not) {
            measure(gate, 1, 31);
        }
        for (batch, rounds) in [(8, 15), (64, 7)] {
            measure(Gate::Nand, batch, rounds);
            measure(Gate::Mux, batch, rounds);
        }
    }
}
