//! Tells tests whether the building machine has vectors of doubles, so that those that need them are ignored elsewhere
//! rather than passed with nothing done.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-check-cfg=cfg(vectors_of_doubles)");
    if vectors_of_doubles() {
        println!("cargo::rustc-cfg=vectors_of_doubles");
    }
}

#[cfg(target_arch = "x86_64")]
fn vectors_of_doubles() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

#[cfg(not(target_arch = "x86_64"))]
fn vectors_of_doubles() -> bool {
    false
}
