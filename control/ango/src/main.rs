//! The program `ango`. See `ango --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    control::cli::main()
}
