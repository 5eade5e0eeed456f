//! Tests that no branch and no index depends on a secret. The tests mark secrets as undefined memory; memcheck then
//! reports each branch and each address that depends on such memory (the method of Langley's ctgrind, 2010).
//!
//! The comparison of keys is not tested: crate `subtle` compares without a branch, but in debug builds it asserts the
//! result, and that assertion branches.
//!
//! Memcheck does not see divisions; `scripts/constant-time` looks for them in the compiled code.

use std::hint::black_box;
use std::process::Command;

use chacha20::ChaCha20Rng;
use chacha20::rand_core::SeedableRng;

use crate::secret_key::SecretKey;
use crate::{Preset, ckks, gaussian};

/// Exit status of memcheck when it has found an error.
const REPORTED: i32 = 99;

/// Sends a "client request" to valgrind. The sequence of instructions changes nothing on a processor, but valgrind
/// recognises it as a call (valgrind.h). Returns 0 without valgrind.
#[cfg(target_arch = "x86_64")]
fn client_request(code: u64, address: u64, bytes: u64) -> u64 {
    let arguments = [code, address, bytes, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: the four rotations of rdi add up to 128 bits, so rdi is unchanged; rbx is exchanged with itself, so rbx
    // is unchanged too
    unsafe {
        std::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            in("rax") arguments.as_ptr(),
            inout("rdx") answer,
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn client_request(_: u64, _: u64, _: u64) -> u64 {
    0
}

fn runs_on_valgrind() -> bool {
    client_request(0x1001, 0, 0) != 0
}

/// Marks these bytes as undefined for memcheck, so that values computed from them are undefined too.
fn make_undefined<T>(secret: &mut [T]) {
    client_request(0x4d43_0001, secret.as_ptr() as u64, size_of_val(secret) as u64);
}

/// A generator whose output memcheck takes as undefined.
fn secret_generator() -> ChaCha20Rng {
    let mut seed = [7; 32];
    make_undefined(&mut seed);
    ChaCha20Rng::from_seed(seed)
}

/// Runs one of the `under_valgrind` tests below in its own process under memcheck, and returns the exit status. `None`:
/// valgrind is not installed, or the processor is not x86-64.
fn memcheck(test: &str) -> Option<i32> {
    let found = Command::new("valgrind").arg("--version").output().is_ok_and(|output| output.status.success());
    if !found || cfg!(not(target_arch = "x86_64")) {
        let required = std::env::var("TEST_VALGRIND").is_ok_and(|wanted| wanted == "required");
        assert!(!required, "TEST_VALGRIND requires valgrind on x86-64, and this machine has none");
        println!("not checked: this machine has no valgrind on x86-64");
        return None;
    }
    let output = Command::new("valgrind")
        .args(["--quiet", &format!("--error-exitcode={REPORTED}")])
        .arg(std::env::current_exe().expect("this program"))
        .args(["--exact", &format!("constant_time::{test}"), "--ignored", "--test-threads=1"])
        .output()
        .expect("valgrind starts");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{test} did not run:\n{text}");
    if output.status.code() != Some(0) {
        println!("{text}");
    }
    output.status.code()
}

#[test]
fn no_branch_or_index_depends_on_a_secret() {
    for test in [
        "noise_under_valgrind",
        "keys_under_valgrind",
        "bits_under_valgrind",
        "containers_under_valgrind",
        "numbers_under_valgrind",
        "keys_of_numbers_under_valgrind",
    ] {
        assert!(memcheck(test).is_none_or(|status| status == 0), "{test}");
    }
}

#[test]
fn the_check_reports_a_branch_on_a_secret() {
    assert!(memcheck("a_branch_under_valgrind").is_none_or(|status| status == REPORTED));
}

#[test]
#[ignore = "run by memcheck"]
fn noise_under_valgrind() {
    assert!(runs_on_valgrind());
    let mut noise = [0; 64];
    gaussian::fill(&mut secret_generator(), 334_118.0, &mut noise);
    black_box(noise);
}

#[test]
#[ignore = "run by memcheck"]
fn keys_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = SecretKey::generate_from(Preset::Fast128, &mut secret_generator());
    black_box(secret.evaluation_key());
}

#[test]
#[ignore = "run by memcheck"]
fn bits_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = SecretKey::generate_from(Preset::Fast128, &mut secret_generator());
    let mut bits = [true, false, true];
    make_undefined(&mut bits);
    let ciphertext = secret.encrypt(bits[0]);
    black_box(secret.decrypt(&ciphertext));
    black_box(secret.encrypt_seeded(&bits));
}

#[test]
#[ignore = "run by memcheck"]
fn containers_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = SecretKey::generate_from(Preset::Fast128, &mut secret_generator());
    black_box(secret.to_bytes());
}

fn small_key_of_numbers() -> ckks::SecretKey {
    let security = ckks::SecurityLevel::Testing;
    let literal = ckks::ParamsLiteral { poly_degree: 64, scale_bits: 40, max_depth: 2, security, bootstrap: true };
    ckks::SecretKey::generate_from(&ckks::Params::new(literal).expect("parameters"), &mut secret_generator())
}

#[test]
#[ignore = "run by memcheck"]
fn numbers_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = small_key_of_numbers();
    let mut numbers = [0.25; 32];
    make_undefined(&mut numbers);
    // `encrypt` first branches on whether the numbers may be encrypted, so the test encodes them without that check
    let plaintext = secret.context.encode(&numbers, 1.0, 2).expect("room for the bound");
    let ciphertext = secret.encrypt_plaintext(2, &plaintext, 1.0).expand(secret.params());
    black_box(secret.decrypt(&ciphertext).expect("room"));
    let (level, scale, noise) = (ciphertext.level, ciphertext.scale, ciphertext.noise);
    let expected = ckks::operation::Operand { level, scale, noise };
    black_box(secret.decrypt_to_share(&ciphertext, &expected, ckks::Flooding::default()).expect("room"));
    black_box(ckks::container::write_ciphertext(&ciphertext, secret.params(), secret.fingerprint()));
    let encryptor = ckks::Encryptor::new(secret.public_key(2));
    black_box(encryptor.encrypt_plaintext(&plaintext, 1.0, &mut secret_generator()));
}

#[test]
#[ignore = "run by memcheck"]
fn keys_of_numbers_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = small_key_of_numbers();
    use ckks::PartKind::{FromSparse, Galois, Relinearization, ToSparse};
    for (kind, level) in [(Relinearization, 2), (Galois(5), 2), (ToSparse, 0), (FromSparse, 2)] {
        for row in secret.part(kind, level) {
            black_box(ckks::container::write_row(secret.params(), &row));
        }
    }
    black_box(ckks::container::write_public_key(&secret.public_key(1)));
    black_box(secret.to_bytes());
}

#[test]
#[ignore = "run by memcheck"]
fn a_branch_under_valgrind() {
    assert!(runs_on_valgrind());
    let secret = SecretKey::generate_from(Preset::Fast128, &mut secret_generator());
    if black_box(secret.lwe[0]) == 1 {
        println!("a branch");
    }
}
