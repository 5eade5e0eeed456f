//! Key switch: from an LWE ciphertext under the ring key to one under the small key (eprint 2018/421, Alg. 2, without
//! the function).
//!
//! `out = (0, .., 0, b) - sum over i, j of d_ij row_ij`, where `d_i` are the balanced digits of `a_i`
//! (docs/wire-format.md 8). For each tile of columns and each block of key rows, the loop runs over all inputs, with
//! the sums in registers. So a key row is read from memory once for all inputs of a call.
//!
//! With several inputs and a small base, a lookup table ([`lookup`]) replaces the products. The table holds the
//! multiples of key rows by all digits, and each input subtracts the entries for its digits.

mod lookup;

use std::ops::Range;

use crate::cpu::memory::Words;
use crate::cpu::simd::{Isa, Simd};
use crate::error::Result;
use crate::tfhe::{EvaluationKey, Params};
use lookup::Lookup;

/// Number of vectors in a tile. Their sums stay in registers.
const TILE_VECTORS: usize = 8;
/// Columns are padded to a multiple of this number, which is a tile of the widest vectors.
const TILE_WORDS_MAX: usize = 16 * TILE_VECTORS;
/// Number of key rows in a block. So many rows of a tile stay in the L1 cache while the loop runs over all inputs.
const BLOCK_ROWS: usize = 64;

/// A key-switching key in reading order: `[tiles][kN][levels][tile]` words.
pub struct KeySwitchKey {
    words: Words,
    params: Params,
    isa: Isa,
    lookup: Option<Lookup>,
}

impl KeySwitchKey {
    /// Allocates a key of zeros.
    ///
    /// # Errors
    /// [`crate::Error::OutOfMemory`] when memory runs out.
    pub fn of_zeros(isa: Isa, p: &Params) -> Result<KeySwitchKey> {
        let words = Words::zeroed(p.key_switch_body_words() * padded_columns(p))?;
        Ok(KeySwitchKey { words, params: *p, isa, lookup: Lookup::of(p) })
    }

    /// Writes the rows of these input coefficients from the client's key.
    pub fn fill(&mut self, key: &EvaluationKey, inputs: Range<usize>) {
        let (p, tile, words) = (&self.params, tile_words(self.isa), &mut self.words);
        let (levels, dimension) = (p.key_switch_level_count, p.extracted_dimension());
        let mut rows = vec![0; levels * (p.lwe_dimension + 1)];
        for i in inputs {
            key.expand_key_switch(i, &mut rows);
            for (j, row) in rows.chunks_exact(p.lwe_dimension + 1).enumerate() {
                for (t, part) in row.chunks(tile).enumerate() {
                    words[((t * dimension + i) * levels + j) * tile..][..part.len()].copy_from_slice(part);
                }
            }
        }
    }

    /// The parameters of the key.
    pub fn params(&self) -> &Params {
        &self.params
    }
}

/// Number of words of a tile under this instruction set.
fn tile_words(isa: Isa) -> usize {
    TILE_VECTORS * isa.lanes()
}

/// `n + 1` rounded up to whole tiles.
pub fn padded_columns(params: &Params) -> usize {
    (params.lwe_dimension + 1).next_multiple_of(TILE_WORDS_MAX)
}

/// The balanced digits of `a`, most significant (level 1) first.
#[inline(always)]
pub fn digits(base: u32, a: u32, out: &mut [i32]) {
    // (1) v <- round(a D^t / 2^32)
    let covered = (base as u64).pow(out.len() as u32) as u128;
    digits_of_rounded(base.into(), ((a as u128 * covered + (1 << 31)) >> 32) as u64, out);
}

/// The balanced digits of the rounded word `v`. The last carry stands for 2^32, so it is dropped.
#[inline(always)]
fn digits_of_rounded(base: u64, mut v: u64, out: &mut [i32]) {
    for digit in out.iter_mut().rev() {
        // (2) balanced digits of v, least significant first; the last carry stands for 2^32, so it is dropped
        let (rest, low) = (v / base, v % base);
        // digits of an odd base B are -(B-1)/2 ..= (B-1)/2, and those of an even base -B/2 ..= B/2 - 1
        let carry = low > (base - 1) / 2;
        *digit = low as i32 - if carry { base as i32 } else { 0 };
        v = rest + carry as u64;
    }
}

/// Key-switches `inputs`, `[rows][kN + 1]` torus words, to `out`, `[rows][n + 1]`.
pub fn key_switch(key: &KeySwitchKey, inputs: &[u32], out: &mut [u32]) -> Result<()> {
    let p = &key.params;
    let (dimension, levels, columns) = (p.extracted_dimension(), p.key_switch_level_count, padded_columns(p));
    let rows = inputs.len() / (dimension + 1);
    let mut sums = Words::zeroed(rows * columns)?;
    for (input, sums) in inputs.chunks_exact(dimension + 1).zip(sums.chunks_exact_mut(columns)) {
        // (4) the sample's body goes to the body
        sums[p.lwe_dimension] = input[dimension];
    }
    match &key.lookup {
        Some(lookup) if rows >= lookup::INPUTS_MIN => lookup.subtract(key, inputs, dimension, &mut sums)?,
        _ => {
            let mut all_digits = vec![0i32; rows * dimension * levels];
            for (input, digits_of_row) in
                inputs.chunks_exact(dimension + 1).zip(all_digits.chunks_exact_mut(dimension * levels))
            {
                for (&a, out) in input.iter().zip(digits_of_row.chunks_exact_mut(levels)) {
                    digits(p.key_switch_base, a, out);
                }
            }
            subtract_rows(key.isa, key, &all_digits, &mut sums);
        }
    }
    for (sums, out) in sums.chunks_exact(columns).zip(out.chunks_exact_mut(p.lwe_dimension + 1)) {
        out.copy_from_slice(&sums[..p.lwe_dimension + 1]);
    }
    Ok(())
}

/// `sums[row] -= sum over i of digits[row][i] * key[i]`; `digits` is `[rows][kN levels]`, `sums` `[rows][columns]`.
#[inline(always)]
unsafe fn subtract<S: Simd>(key: &KeySwitchKey, digits: &[i32], sums: &mut [u32]) {
    let key_rows = key.params.extracted_dimension() * key.params.key_switch_level_count;
    let columns = padded_columns(&key.params);
    let tile = TILE_VECTORS * S::LANES;
    for (t, tile_key) in key.words.chunks_exact(key_rows * tile).enumerate() {
        for (block, block_key) in tile_key.chunks(BLOCK_ROWS * tile).enumerate() {
            for (sums, digits) in sums.chunks_exact_mut(columns).zip(digits.chunks_exact(key_rows)) {
                let digits = &digits[block * BLOCK_ROWS..];
                // SAFETY: the tile lies within the padded columns, and each row of the block has one digit.
                unsafe {
                    let at = sums[t * tile..].as_mut_ptr();
                    let mut sum: [S::V; TILE_VECTORS] = std::array::from_fn(|v| S::load(at.add(v * S::LANES)));
                    for (row, &digit) in block_key.chunks_exact(tile).zip(digits) {
                        let digit = S::splat(digit as u32);
                        // (3) sum <- sum - digit * key row
                        for v in 0..TILE_VECTORS {
                            let term = S::mul_low(S::load(row.as_ptr().add(v * S::LANES)), digit);
                            sum[v] = S::sub(sum[v], term);
                        }
                    }
                    for v in 0..TILE_VECTORS {
                        S::store(at.add(v * S::LANES), sum[v]);
                    }
                }
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    fn subtract_rows = subtract(key: &KeySwitchKey, digits: &[i32], sums: &mut [u32])
}
