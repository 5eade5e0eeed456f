//! Definitions of the kernels' results, one coefficient at a time, in integers, straight from the formulas.
//!
//! Nothing here is fast, and no code is shared with the vector code: products are schoolbook, fractions are exact,
//! reductions are remainders. A backend is right if its words equal these words.

pub mod gates;
pub mod numbers;

/// A polynomial's `[N]` coefficients.
pub type Polynomial = Vec<u32>;

/// `a b` in `Z_q[X]/(X^N + 1)`: `a` signed, `b` in `[0, q)`, out in `[0, q)`.
pub fn negacyclic_product(q: u32, a: &[i64], b: &[u32]) -> Polynomial {
    let mut sums = vec![0; b.len()];
    add_negacyclic_product(&mut sums, a, b);
    sums.into_iter().map(|sum| residue(q, sum)).collect()
}

/// `sums += a b` over the integers, `X^N = -1`.
fn add_negacyclic_product(sums: &mut [i128], a: &[i64], b: &[u32]) {
    let n = b.len();
    for (i, &x) in a.iter().enumerate() {
        let x = i128::from(x);
        for (j, &y) in b.iter().enumerate() {
            let product = x * i128::from(y);
            if i + j < n {
                sums[i + j] += product;
            } else {
                sums[i + j - n] -= product;
            }
        }
    }
}

fn residue(q: u32, x: i128) -> u32 {
    x.rem_euclid(i128::from(q)) as u32
}
