//! Migrations are compiled in: build again when one is added.

fn main() {
    println!("cargo:rerun-if-changed=migrations");
}
