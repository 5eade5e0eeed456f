//! Key switch by a lookup table: the multiples of key rows, computed once for all inputs of a call.
//!
//! Key rows form groups of one or two. The table of a group has an entry for each choice of digits, one digit for each
//! row: the sum of the group's rows, each times its digit. These are `base` or `base^2` entries. The digits of an input
//! at these rows give the index of the entry for this input. With `r` inputs, a group of two rows costs each input
//! `base^2 / r + 1` subtractions and no product.

use super::{KeySwitchKey, TILE_VECTORS, digits_of_rounded, padded_columns, tile_words};
use crate::cpu::memory::Words;
use crate::cpu::simd::Simd;
use crate::error::Result;
use crate::tfhe::Params;

/// Smallest number of inputs in a call for which a table pays off.
pub const INPUTS_MIN: usize = 8;

/// Largest number of entries in the tables of a block of groups. With the widest vectors they take 36 KiB, most of an
/// L1 cache.
const ENTRIES_MAX: usize = 72;

/// Largest `base^levels` for which the digits of all rounded words are precomputed.
const ROUNDED_MAX: u64 = 1 << 16;

/// How inputs are looked up: the digits of all rounded words, and the size of a group.
pub struct Lookup {
    /// Digits of all rounded words, raised by `base / 2` so that they start at zero: `[base^levels + 1][levels]`.
    digits: Vec<u8>,
    base: usize,
    levels: usize,
    /// Key rows of a group.
    group_rows: usize,
}

impl Lookup {
    /// The lookup for these parameters. `None` if the table would have too many entries or digits.
    pub fn of(params: &Params) -> Option<Lookup> {
        let (base, levels) = (params.key_switch_base as usize, params.key_switch_level_count);
        let covered = (base as u64).checked_pow(levels as u32).filter(|&covered| covered <= ROUNDED_MAX)?;
        let group_rows = if base * base <= ENTRIES_MAX / 8 { 2 } else { 1 };
        if base > ENTRIES_MAX / 4 {
            return None;
        }
        let mut kept = Vec::with_capacity((covered as usize + 1) * levels);
        let mut out = vec![0; levels];
        for rounded in 0..=covered {
            digits_of_rounded(base as u64, rounded, &mut out);
            kept.extend(out.iter().map(|&digit| (digit + base as i32 / 2) as u8));
        }
        Some(Lookup { digits: kept, base, levels, group_rows })
    }

    /// The number of entries in a group's table.
    fn entries(&self) -> usize {
        self.base.pow(self.group_rows as u32)
    }

    /// The index of each input's entry in each group: `[inputs][groups]`.
    fn of_inputs(&self, inputs: &[u32], dimension: usize) -> Vec<u8> {
        let covered = self.digits.len() / self.levels - 1;
        let groups = (dimension * self.levels).div_ceil(self.group_rows);
        let mut indices = Vec::with_capacity(inputs.len() / (dimension + 1) * groups);
        let mut digits = Vec::with_capacity(dimension * self.levels);
        for input in inputs.chunks_exact(dimension + 1) {
            digits.clear();
            for &a in &input[..dimension] {
                let rounded = ((u64::from(a) * covered as u64 + (1 << 31)) >> 32) as usize;
                digits.extend_from_slice(&self.digits[rounded * self.levels..][..self.levels]);
            }
            let index = |group: &[u8]| group.iter().fold(0, |index, &digit| index * self.base as u8 + digit);
            indices.extend(digits.chunks(self.group_rows).map(index));
        }
        indices
    }

    /// `sums[input] -= sum over i of digits[input][i] * key[i]`; `inputs` is `[inputs][dimension + 1]`, `sums` is
    /// `[inputs][columns]`.
    pub fn subtract(&self, key: &KeySwitchKey, inputs: &[u32], dimension: usize, sums: &mut [u32]) -> Result<()> {
        let indices = self.of_inputs(inputs, dimension);
        // `Words` has the same alignment as the key
        let mut table = Words::zeroed(ENTRIES_MAX * tile_words(key.isa))?;
        subtract_entries(key.isa, self, key, &indices, &mut table, sums);
        Ok(())
    }
}

#[inline(always)]
unsafe fn subtract<S: Simd>(of: &Lookup, key: &KeySwitchKey, indices: &[u8], table: &mut [u32], sums: &mut [u32]) {
    let columns = padded_columns(&key.params);
    let tile = TILE_VECTORS * S::LANES;
    let key_rows = key.words.len() / columns;
    let (entries, groups) = (of.entries(), key_rows.div_ceil(of.group_rows));
    let block_groups = ENTRIES_MAX / entries;
    for (t, tile_key) in key.words.chunks_exact(key_rows * tile).enumerate() {
        for (block, block_key) in tile_key.chunks(block_groups * of.group_rows * tile).enumerate() {
            for (rows, table) in block_key.chunks(of.group_rows * tile).zip(table.chunks_exact_mut(entries * tile)) {
                // SAFETY: the caller enabled the instruction set; the table has room for a group's entries.
                unsafe { compute::<S>(of.base, rows, table) };
            }
            for (sums, indices) in sums.chunks_exact_mut(columns).zip(indices.chunks_exact(groups)) {
                let indices = &indices[block * block_groups..][..block_key.len().div_ceil(of.group_rows * tile)];
                // SAFETY: the tile lies within the padded columns; indices are below the number of entries.
                unsafe {
                    let at = sums[t * tile..].as_mut_ptr();
                    let mut sum: [S::V; TILE_VECTORS] = std::array::from_fn(|v| S::load(at.add(v * S::LANES)));
                    for (group, &index) in indices.iter().enumerate() {
                        // (3) sum <- sum - digits * key rows
                        let entry = table.as_ptr().add((group * entries + index as usize) * tile);
                        for v in 0..TILE_VECTORS {
                            sum[v] = S::sub(sum[v], S::load(entry.add(v * S::LANES)));
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

/// Writes the entries for the one or two `rows` of a group, ordered by index. The digit of the last row changes fastest.
#[inline(always)]
unsafe fn compute<S: Simd>(base: usize, rows: &[u32], table: &mut [u32]) {
    let tile = TILE_VECTORS * S::LANES;
    // SAFETY: the caller promises that the processor supports `S`. `rows` has one or two rows of a tile, and `table`
    // has room for a tile for each entry.
    unsafe {
        for v in 0..TILE_VECTORS {
            let lowest = S::splat((base as u32 / 2).wrapping_neg());
            let last = S::load(rows.as_ptr().add(rows.len() - tile + v * S::LANES));
            let mut to = table.as_mut_ptr().add(v * S::LANES);
            let mut fill = |from: S::V| {
                let mut multiple = S::add(from, S::mul_low(last, lowest));
                for _ in 0..base {
                    S::store(to, multiple);
                    multiple = S::add(multiple, last);
                    to = to.wrapping_add(tile);
                }
            };
            if rows.len() == tile {
                fill(S::splat(0));
            } else {
                let first = S::load(rows.as_ptr().add(v * S::LANES));
                let mut multiple = S::mul_low(first, lowest);
                for _ in 0..base {
                    fill(multiple);
                    multiple = S::add(multiple, first);
                }
            }
        }
    }
}

crate::cpu::simd::dispatch! {
    fn subtract_entries = subtract(of: &Lookup, key: &KeySwitchKey, indices: &[u8], table: &mut [u32], sums: &mut [u32])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::Isa;
    use crate::tfhe::cpu::lwe_key_switch::digits;
    use crate::tfhe::{ParamsLiteral, Preset};

    #[test]
    fn a_table_gives_what_products_give_for_every_base_and_for_rows_that_leave_half_a_group() {
        let mut state = 7u32;
        let mut word = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state ^ state >> 15
        };
        for (base, levels, dimension) in [(2, 9, 5), (3, 7, 5), (4, 6, 3), (5, 3, 4), (8, 4, 3), (18, 3, 2)] {
            let params = Preset::Fast128.params();
            // only the shape of the key switch matters here, so the other parameters are those of the preset
            let literal = ParamsLiteral { key_switch_base: base, key_switch_level_count: levels, ..*params };
            let params = Params::try_from(literal).expect("parameters");
            let lookup = Lookup::of(&params).expect("a small base");
            let rounded_words = [0, u32::MAX, 1 << 31, (1 << 31) - 1];
            let inputs: Vec<u32> = (0..3 * (dimension + 1)).map(|i| *rounded_words.get(i).unwrap_or(&word())).collect();
            for isa in Isa::available() {
                let tile = tile_words(isa);
                let (columns, key_rows) = (padded_columns(&params), dimension * levels);
                let key: Vec<u32> = (0..key_rows * columns).map(|_| word()).collect();
                let mut expected: Vec<u32> = (0..3 * columns).map(|_| word()).collect();
                let mut sums = expected.clone();
                for (input, sums) in inputs.chunks_exact(dimension + 1).zip(expected.chunks_exact_mut(columns)) {
                    for (i, &a) in input[..dimension].iter().enumerate() {
                        let mut out = vec![0; levels];
                        digits(base, a, &mut out);
                        for (j, digit) in out.into_iter().enumerate() {
                            for (column, sum) in sums.iter_mut().enumerate() {
                                let row = &key[(column / tile * key_rows + i * levels + j) * tile..];
                                *sum = sum.wrapping_sub(row[column % tile].wrapping_mul(digit as u32));
                            }
                        }
                    }
                }
                let key = KeySwitchKey { words: Words::copy_of(&key).expect("memory"), params, isa, lookup: None };
                lookup.subtract(&key, &inputs, dimension, &mut sums).expect("memory");
                assert!(sums == expected, "base {base}, {}", isa.name());
            }
        }
    }

    #[test]
    fn large_bases_and_many_levels_have_no_table() {
        for (base, levels) in [(19, 3), (2, 17), (65_536, 1)] {
            let literal =
                ParamsLiteral { key_switch_base: base, key_switch_level_count: levels, ..*Preset::Fast128.params() };
            assert!(Lookup::of(&Params::try_from(literal).expect("parameters")).is_none(), "{base}^{levels}");
        }
    }
}
