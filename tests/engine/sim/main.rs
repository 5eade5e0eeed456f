//! The engine under failures and load: its scheduler in a simulated world with a simulated clock (`crowd`), its shares
//! under saturation (`fairness`), and its threads with toy devices (`threads`, `circuits`, `devices`).
//!
//! Every failing seed is printed. `SIM_SEED=17 cargo test -p tests-engine --test sim` runs one seed alone.

mod circuits;
mod client;
mod crowd;
mod devices;
mod dice;
mod fairness;
mod threads;
mod toy;
mod windows;
