//! Containers of encrypted numbers in the form in which clients send them, with arbitrary residues instead of encrypted
//! values. They are for tests of the service that compute nothing with the keys and ciphertexts.

use kernels::ckks::{Params, ParamsLiteral, PartKind, SecurityLevel};
use sha2::{Digest, Sha256};

/// Number of bytes before a container's payload.
const HEADER_BYTES: usize = 32;
/// Number of bytes in an evaluation key before its first row.
pub const KEY_HEAD_BYTES: usize = 44;

/// The data from which containers of a client's keys and ciphertexts are made.
#[derive(Clone)]
pub struct NumbersKey {
    /// The key's parameters.
    pub params: Params,
    /// The fingerprint of the secret key.
    pub fingerprint: [u8; 8],
}

impl NumbersKey {
    /// Makes a key whose parameters have these values and the security level `Testing`.
    pub fn testing(poly_degree: usize, scale_bits: u32, max_depth: u32, fingerprint: u8) -> NumbersKey {
        NumbersKey::of(poly_degree, scale_bits, max_depth, SecurityLevel::Testing, fingerprint)
    }

    /// Makes a key with these parameters. Each byte of the secret key's fingerprint is `fingerprint`.
    pub fn of(
        poly_degree: usize,
        scale_bits: u32,
        max_depth: u32,
        security: SecurityLevel,
        fingerprint: u8,
    ) -> NumbersKey {
        let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false };
        NumbersKey { params: Params::new(literal).expect("parameters"), fingerprint: [fingerprint; 8] }
    }

    /// Makes the container of the secret key, with meaningless content.
    pub fn secret_key(&self) -> Vec<u8> {
        self.frame(5, |out| out.extend(vec![1; self.params.n()]))
    }

    /// Makes the public key's container.
    pub fn public_key(&self) -> Vec<u8> {
        let level = self.params.level_max();
        self.frame(6, |out| {
            out.extend([level as u8, 0, 0, 0]);
            put_seed(out);
            self.put_residues(&self.params.level(level).primes, out);
        })
    }

    /// Makes an evaluation key with relinearization and with `rotations` rotations by powers of two, at the full level.
    pub fn evaluation_key(&self, rotations: u32) -> Vec<u8> {
        let rows = self.rows(rotations);
        self.evaluation_key_of(rows.len() as u32, &rows)
    }

    /// Makes an evaluation key that announces `announced` rows and has the rows `rows`.
    pub fn evaluation_key_of(&self, announced: u32, rows: &[Vec<u8>]) -> Vec<u8> {
        let mut out = self.open(7);
        out.extend(announced.to_le_bytes());
        let head = out.len();
        rows.iter().for_each(|row| out.extend(row));
        close(&mut out, head);
        out
    }

    /// Makes the head of an evaluation key that announces this many rows of the full level, without the rows.
    pub fn evaluation_key_claiming(&self, rows: u32) -> Vec<u8> {
        let mut out = self.open(7);
        out.extend(rows.to_le_bytes());
        let row = self.part(PartKind::Relinearization, self.params.level_max())[0].len() as u64;
        let length = (out.len() - HEADER_BYTES) as u64 + u64::from(rows) * row;
        seal(&mut out, length, KEY_HEAD_BYTES);
        out
    }

    /// Makes the rows of [`NumbersKey::evaluation_key`].
    pub fn rows(&self, rotations: u32) -> Vec<Vec<u8>> {
        let two_n = 2 * self.params.n() as u32;
        let element = |rotation| (0..1u32 << rotation).fold(1, |element, _| element * 5 % two_n);
        let galois = (0..rotations).map(|rotation| PartKind::Galois(element(rotation)));
        let kinds = std::iter::once(PartKind::Relinearization).chain(galois);
        kinds.flat_map(|kind| self.part(kind, self.params.level_max())).collect()
    }

    /// Makes the rows of one part of an evaluation key, at this level.
    pub fn part(&self, kind: PartKind, level: usize) -> Vec<Vec<u8>> {
        let digits = self.params.digits(kind, level).len() as u8;
        let (code, element) = match kind {
            PartKind::Relinearization => (1, 0),
            PartKind::Galois(element) => (2, element),
            PartKind::ToSparse => (3, 0),
            PartKind::FromSparse => (4, 0),
        };
        let row = |digit| {
            let mut header = vec![code, level as u8, digit, digits];
            header.extend(element.to_le_bytes());
            let seed = Sha256::new().chain_update(self.block()).chain_update(self.fingerprint).chain_update(&header);
            header.extend(seed.finalize());
            let mut body = Vec::new();
            self.put_residues(&self.params.key_primes(kind, level), &mut body);
            self.row(&header, &body)
        };
        (0..digits).map(row).collect()
    }

    /// Makes a row again, with this seed.
    pub fn with_seed(&self, row: &[u8], seed: [u8; 32]) -> Vec<u8> {
        self.row(&[&row[..8], &seed].concat(), &row[48..])
    }

    /// Makes a row again, with this tag of the sparse secret.
    pub fn with_sparse_tag(&self, row: &[u8], tag: u32) -> Vec<u8> {
        self.row(&[&row[..4], &tag.to_le_bytes(), &row[8..40]].concat(), &row[48..])
    }

    /// Makes a row of its header without the checksum, and its body.
    fn row(&self, header: &[u8], body: &[u8]) -> Vec<u8> {
        let checksum = Sha256::new().chain_update(self.block()).chain_update(header).chain_update(body).finalize();
        [header, &checksum[..8], body].concat()
    }

    /// Makes a seeded ciphertext of this level.
    pub fn seeded_ciphertext(&self, level: usize) -> Vec<u8> {
        self.ciphertext_of(level, 1, self.params.level(level).scale)
    }

    /// Makes a ciphertext of this level that consists of two polynomials.
    pub fn ciphertext(&self, level: usize) -> Vec<u8> {
        self.ciphertext_of(level, 0, self.params.level(level).scale)
    }

    /// Makes a ciphertext of this level, form (0: two polynomials, 1: seeded) and scale.
    pub fn ciphertext_of(&self, level: usize, form: u8, scale: f64) -> Vec<u8> {
        self.frame(8, |out| {
            out.extend([level as u8, form, 0, 0]);
            [scale, 1.0, 1000.0].iter().for_each(|number| out.extend(number.to_le_bytes()));
            if form == 1 {
                put_seed(out);
            }
            (form..2).for_each(|_| self.put_residues(&self.params.level(level).primes, out));
        })
    }

    fn block(&self) -> [u8; 8] {
        let ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap } = self.params.literal();
        let log_n = poly_degree.trailing_zeros() as u8;
        let version = if bootstrap { 3 } else { 1 };
        [log_n, scale_bits as u8, max_depth as u8, security.code(), bootstrap.into(), version, 0, 0]
    }

    fn frame(&self, tag: u8, put: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = self.open(tag);
        put(&mut out);
        let end = out.len();
        close(&mut out, end);
        out
    }

    /// Makes the first bytes of a container, from the header to the parameters. Length and checksum are zero.
    fn open(&self, tag: u8) -> Vec<u8> {
        let mut out = b"ANGO".to_vec();
        out.extend([1, 0, tag, 0]);
        out.extend(self.fingerprint);
        out.extend([0; 16]);
        out.extend(self.block());
        out
    }

    /// Appends packed residues to `out`: for each of these primes, residues below the prime.
    fn put_residues(&self, primes: &[usize], out: &mut Vec<u8>) {
        for &prime in primes {
            let q = u64::from(self.params.primes()[prime].q());
            let bits = 64 - q.leading_zeros();
            let (mut buffer, mut have) = (0u64, 0);
            for at in 0..self.params.n() as u64 {
                buffer |= (at.wrapping_mul(0x9e37_79b9_7f4a_7c15) % q) << have;
                have += bits;
                while have >= 8 {
                    out.push(buffer as u8);
                    buffer >>= 8;
                    have -= 8;
                }
            }
        }
    }
}

/// Appends a seed that no container with another beginning has.
fn put_seed(out: &mut Vec<u8>) {
    let seed = Sha256::digest(&out);
    out.extend(seed);
}

/// Writes the payload's length, and the checksum over the first `covered` bytes, into a container's header.
fn close(out: &mut [u8], covered: usize) {
    seal(out, (out.len() - HEADER_BYTES) as u64, covered);
}

fn seal(out: &mut [u8], length: u64, covered: usize) {
    out[16..24].copy_from_slice(&length.to_le_bytes());
    let checksum = Sha256::new().chain_update(&out[..24]).chain_update(&out[HEADER_BYTES..covered]).finalize();
    out[24..HEADER_BYTES].copy_from_slice(&checksum[..8]);
}

/// Gives the container a new checksum, for tests that change its bytes. Does not suit evaluation keys.
pub fn closed_again(mut container: Vec<u8>) -> Vec<u8> {
    let end = container.len();
    close(&mut container, end);
    container
}
