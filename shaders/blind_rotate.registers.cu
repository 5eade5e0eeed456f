// Helpers of gates whose words stay in a thread's registers, shared by blind_rotate.warp and blind_rotate.cluster.
// Needs `ntt.registers`.
//
// The root of group g in the stage with m groups is roots[m + g]. The negated inverse of this root is the root of the
// mirrored group, roots[m + m - 1 - g]. So one table serves both directions. The first 32 roots are the same for all
// threads: they are constants, computed from ROOT_64, a primitive 64th root of unity.

struct UniformRoots {
    // value, companion
    unsigned root[32][2];

    __device__ constexpr UniformRoots() : root() {
        unsigned long long powers[32] = {1};
        for (unsigned i = 1; i < 32; i++) powers[i] = powers[i - 1] * ROOT_64 % Q;
        for (unsigned i = 0; i < 32; i++) {
            unsigned reversed = 0;
            for (unsigned bit = 0; bit < 5; bit++) reversed |= (i >> bit & 1) << (4 - bit);
            root[i][0] = unsigned(powers[reversed]);
            root[i][1] = unsigned((powers[reversed] << 32) / Q);
        }
    }
};

__device__ const UniformRoots UNIFORM;

__device__ __forceinline__ uint2 uniform_root(unsigned index) {
    return make_uint2(UNIFORM.root[index][0], UNIFORM.root[index][1]);
}

// The ring's prime, as the transforms take it.
struct RingPrime {
    static constexpr unsigned q = Q;
};

// Words as for `butterfly_by`.
template <bool FIRST = false>
__device__ __forceinline__ void butterfly(unsigned& x, unsigned& y, uint2 w) {
    butterfly_by<FIRST>(RingPrime(), x, y, w);
}
__device__ __forceinline__ void inverse_butterfly(unsigned& x, unsigned& y, uint2 w) {
    inverse_butterfly_by(RingPrime(), x, y, w);
}
__device__ __forceinline__ unsigned butterfly_of_lanes(unsigned own, bool high, unsigned apart, uint2 w) {
    return butterfly_of_lanes_by(RingPrime(), own, high, apart, w);
}
__device__ __forceinline__ unsigned inverse_butterfly_of_lanes(unsigned own, bool high, unsigned apart, uint2 w) {
    return inverse_butterfly_of_lanes_by(RingPrime(), own, high, apart, w);
}

// Amplitude at the start of a rotation by b: q/4 if b has the mark 2^31, else q/8.
__device__ __forceinline__ unsigned amplitude_of(unsigned b) { return b >> 31 ? QUARTER_Q : EIGHTH_Q; }

// Coefficient j of X^-b v, v = amplitude (1 + X + .. + X^(N-1)).
__device__ __forceinline__ unsigned turned(unsigned j, unsigned b, unsigned amplitude) {
    return (j + b) % (2 * N) < N ? amplitude : Q - amplitude;
}

// All digits of coefficient j of X^a acc - acc, each raised by half a base.
__device__ __forceinline__ unsigned raised_digits(const unsigned* acc, unsigned j, unsigned a) {
    const unsigned from = (j - a) % (2 * N), turned = acc[from % N];
    // (1) difference: d <- X^a acc - acc
    unsigned d = (from < N ? turned : 0u - turned) - acc[j];  // in (-2 Q, Q)
    d = min(d, min(d + Q, d + 2 * Q));
    // (2) decompose: d to balanced digits, by way of its torus word
    return (to_torus_lazy(d) + DIGIT_OFFSET) >> DIGIT_SHIFT;
}

// The digit of a level, in [Q - B/2, Q + B/2).
__device__ __forceinline__ unsigned digit_of(unsigned raised, unsigned level) {
    return (raised >> (BASE_LOG * (LEVELS - 1 - level)) & ((1u << BASE_LOG) - 1)) + (Q - (1u << (BASE_LOG - 1)));
}

// Reduces a sum of products to a residue times 2^-32, in (0, sum / 2^32 + Q] (Montgomery's reduction).
__device__ __forceinline__ unsigned montgomery_lazy(unsigned long long sum) {
    return unsigned(sum >> 32) - __umulhi(unsigned(sum) * Q_INVERSE, Q) + Q;
}

// Key words of the levels of one value. A step's key is [component][turn][N/32][32][LEVELS]: value N/32 lane + i is at
// [i][lane], for the column component + turn modulo K + 1.
struct alignas(LEVELS == 2 ? 8 : 4) KeyWords {
    unsigned level[LEVELS];
};
constexpr unsigned KEY_COLUMN = N * LEVELS;
