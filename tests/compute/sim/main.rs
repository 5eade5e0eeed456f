//! The engine under bad luck: its scheduler in a simulated world with made-up time (`crowd`), its shares under saturation
//! (`fairness`), and its threads with toy devices (`threads`, `circuits`, `devices`).
//!
//! Every seed that fails is printed; `SIM_SEED=17 cargo test -p tests-compute --test sim` runs that one alone.

mod circuits;
mod client;
mod crowd;
mod devices;
mod dice;
mod fairness;
mod threads;
mod toy;
