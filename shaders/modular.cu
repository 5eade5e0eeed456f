// Arithmetic modulo the ring prime Q < 2^30, a constant of the prelude: kernels/src/modular.rs in CUDA. Needs
// `residue`.

// `x + y mod q` for x, y in [0, q).
__device__ inline unsigned add_mod(unsigned x, unsigned y) { return add_residues(x, y, Q); }

// `x - y mod q` for x, y in [0, q).
__device__ inline unsigned sub_mod(unsigned x, unsigned y) { return reduce(x + Q - y, Q); }

// `-x mod q` for x in [0, q).
__device__ inline unsigned negate_mod(unsigned x) { return min(Q - x, 0u - x); }

// Lazy `x w mod q`: x is any word, `w` is in [0, q) with its companion floor(w 2^32 / q), and the result is in [0, 2
// q) (Harvey 2014, Alg. 2).
__device__ inline unsigned mul_lazy(unsigned x, uint2 w) { return x * w.x - __umulhi(x, w.y) * Q; }

// `x y / 2^32 mod q` for y in [0, q) and any word x; the result is in [0, q) (Montgomery's reduction of the product).
__device__ inline unsigned mul_montgomery(unsigned x, unsigned y) { return mul_residues(x, y, Q, Q_INVERSE); }
