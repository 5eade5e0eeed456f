//! Migrations are read when the crate is compiled: a new one must make it be compiled again.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
