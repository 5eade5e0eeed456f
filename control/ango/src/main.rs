//! The binary `ango`: see `ango --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    control::cli::main()
}
