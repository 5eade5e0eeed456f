// Arithmetic modulo a prime q < 2^30 given as an argument, one word at a time: kernels/src/modular.rs in CUDA.

// Reduces `x` from [0, 2 m) to [0, m): the smaller of `x` and `x - m` as unsigned words.
__device__ inline unsigned reduce(unsigned x, unsigned m) { return min(x, x - m); }

// `x + y mod q` for x, y in [0, q).
__device__ inline unsigned add_residues(unsigned x, unsigned y, unsigned q) { return reduce(x + y, q); }

// `x y / 2^32 mod q` for y in [0, q) and any word x; `q_inverse` is 1 / q mod 2^32; the result is in [0, q)
// (Montgomery's reduction of the product).
__device__ inline unsigned mul_residues(unsigned x, unsigned y, unsigned q, unsigned q_inverse) {
    unsigned difference = __umulhi(x, y) - __umulhi(x * y * q_inverse, q);
    return min(difference, difference + q);
}
