//! `ango client`: the client's side from a shell. Secrets stay in the caller's files. A node receives only evaluation
//! keys and ciphertexts.

mod circuit;
mod encrypt;
mod keys;
mod node;
mod numbers;
mod run;
mod session;

use clap::{Args, Subcommand};

/// Make keys, encrypt, decrypt, and run gates and circuits on a node. `circuit` lists, shows and forecasts circuits;
/// `numbers` works with vectors of numbers.
#[derive(Debug, Args)]
pub struct ClientArgs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Keygen(keys::KeygenArgs),
    Encrypt(encrypt::EncryptArgs),
    Decrypt(encrypt::DecryptArgs),
    Session(session::SessionArgs),
    Run(run::RunArgs),
    Circuit(circuit::CircuitArgs),
    Numbers(numbers::NumbersArgs),
}

/// Runs the command.
///
/// # Errors
/// The fault as a text for the caller, without secret material.
pub async fn run(args: ClientArgs) -> anyhow::Result<()> {
    match args.command {
        Command::Keygen(args) => keys::keygen(args),
        Command::Encrypt(args) => encrypt::encrypt(args),
        Command::Decrypt(args) => encrypt::decrypt(args),
        Command::Session(args) => session::session(args).await,
        Command::Run(args) => run::run(args).await,
        Command::Circuit(args) => circuit::circuit(args),
        Command::Numbers(args) => numbers::numbers(args).await,
    }
}
