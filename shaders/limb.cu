// Rows of residues under several primes, and the places of these rows: helpers of the kernels of numbers. Needs
// `place`.

// A prime with its constants.
struct Limb {
    unsigned q;
    unsigned q_inverse;  // 1 / q mod 2^32
    uint2 unit;          // 2^32 mod q, with its companion
};

// `primes` is [primes][8]: q, 1 / q mod 2^32, 2^32 mod q with its companion, and -2^62 mod q.
constexpr unsigned PRIME_WORDS = 8;

__device__ __forceinline__ Limb limb_of(const unsigned* primes, unsigned prime) {
    const unsigned* of = primes + PRIME_WORDS * prime;
    return {of[0], of[1], make_uint2(of[2], of[3])};
}

// A table names rows by their places: in scratch memory if this bit is set, else in the memory of all arenas.
constexpr unsigned IN_SCRATCH = 1u << 31;
// In place of a row that does not exist.
constexpr unsigned NO_ROW = ~0u;

__device__ __forceinline__ const unsigned* row_of(const unsigned* rows, const unsigned* scratch, unsigned place) {
    return place & IN_SCRATCH ? scratch + word_of(place & ~IN_SCRATCH) : rows + word_of(place);
}

__device__ __forceinline__ unsigned* row_to(unsigned* rows, unsigned* scratch, unsigned place) {
    return place & IN_SCRATCH ? scratch + word_of(place & ~IN_SCRATCH) : rows + word_of(place);
}

// Lazy `x w mod q`: x is any word, `w` is in [0, q) with its companion, and the result is in [0, 2 q).
__device__ __forceinline__ unsigned mul_lazy(Limb p, unsigned x, uint2 w) {
    return x * w.x - __umulhi(x, w.y) * p.q;
}

// Reduces a sum of products to a residue times 2^-32, in (0, sum / 2^32 + q] (Montgomery's reduction).
__device__ __forceinline__ unsigned montgomery_lazy(Limb p, unsigned long long sum) {
    return unsigned(sum >> 32) - __umulhi(unsigned(sum) * p.q_inverse, p.q) + p.q;
}

// Reduces from [0, 4 q) to [0, q).
__device__ __forceinline__ unsigned reduce_all(Limb p, unsigned x) { return reduce(reduce(x, 2 * p.q), p.q); }

// A sum of products of residues below q, which never overflows: after TOGETHER products, the sum is folded.
constexpr unsigned TOGETHER = 8;

// The sum of at most TOGETHER products and of a folded sum, as one word in the high half. The result stands for the
// same residue.
__device__ __forceinline__ unsigned long long folded(Limb p, unsigned long long sum) {
    return (unsigned long long)reduce_all(p, montgomery_lazy(p, sum)) << 32;
}
