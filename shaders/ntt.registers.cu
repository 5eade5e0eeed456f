// The transform of a row in the registers of one warp: kernels/src/cpu/ntt.rs, shared by gates and numbers.
//
// A lane holds W words of a row of 32 W, in one of two layouts:
//   far:  word i of a lane is coefficient 32 i + lane. Partners of the first stages lie in one lane. Up to the fifth
//         stage, partners of the next stages lie in two lanes.
//   near: word i of a lane is value W lane + i. Partners of the last stages lie in one lane.
// One transpose through shared memory converts one layout to the other.
//
// The text is for any prime `p.q` below 2^30, and for roots of any origin. `roots.far(stage, group)` is the root of a
// group in a stage of 2^stage groups, `roots.near(stage, lane, block)` that of block `block` of a lane in a stage of
// 32 2^stage groups. The negated inverse of a root is the root of the mirrored group, so one table serves both
// directions.

// Lazy `x w mod q`: x is any word, `w` is in [0, q) with its companion, and the result is in [0, 2 q).
template <class P>
__device__ __forceinline__ unsigned mul_lazy_by(P p, unsigned x, uint2 w) {
    return x * w.x - __umulhi(x, w.y) * p.q;
}

// y is any word; x is in [0, 4 q), or in [0, 2 q) at the FIRST stage; both results are in [0, 4 q).
template <bool FIRST, class P>
__device__ __forceinline__ void butterfly_by(P p, unsigned& x, unsigned& y, uint2 w) {
    // (1) butterfly: (x, y) <- (x + w y, x - w y)
    const unsigned low = FIRST ? x : reduce(x, 2 * p.q), t = mul_lazy_by(p, y, w);
    x = low + t;
    y = low - t + 2 * p.q;
}

// `w` is the root of the mirrored group, so the difference has the other sign. All values are in [0, 2 q).
template <class P>
__device__ __forceinline__ void inverse_butterfly_by(P p, unsigned& x, unsigned& y, uint2 w) {
    // (2) inverse butterfly: (x, y) <- (x + y, w (x - y))
    const unsigned difference = y - x + 2 * p.q;
    x = reduce(x + y, 2 * p.q);
    y = mul_lazy_by(p, difference, w);
}

// A butterfly between two lanes whose numbers differ in the bits `apart`. If `high`, this lane has y, else x.
template <class P>
__device__ __forceinline__ unsigned butterfly_of_lanes_by(P p, unsigned own, bool high, unsigned apart, uint2 w) {
    const unsigned mine = high ? mul_lazy_by(p, own, w) : reduce(own, 2 * p.q);
    const unsigned other = __shfl_xor_sync(~0u, mine, apart);
    return high ? other - mine + 2 * p.q : mine + other;
}

// The inverse butterfly between two lanes, with the same arguments.
template <class P>
__device__ __forceinline__ unsigned inverse_butterfly_of_lanes_by(P p, unsigned own, bool high, unsigned apart,
                                                                  uint2 w) {
    const unsigned other = __shfl_xor_sync(~0u, own, apart);
    return high ? mul_lazy_by(p, own - other + 2 * p.q, w) : reduce(own + other, 2 * p.q);
}

// Pair `pair` of W/2 in a stage whose partners are `half` words apart.
__device__ __forceinline__ constexpr unsigned block_of(unsigned pair, unsigned half) { return pair / half; }
__device__ __forceinline__ constexpr unsigned low_of(unsigned pair, unsigned half) {
    return pair / half * 2 * half + pair % half;
}

// The number of stages whose partners are words of one lane, in each layout: log W.
__device__ __forceinline__ constexpr unsigned stages_of_a_lane(unsigned words) {
    return words == 1 ? 0 : 1 + stages_of_a_lane(words / 2);
}

// The first five stages, far layout.
template <class P, class Roots, unsigned W>
__device__ __forceinline__ void forward_far(P p, const Roots& roots, unsigned (&v)[W], unsigned lane) {
    constexpr unsigned FAR = stages_of_a_lane(W);
#pragma unroll
    for (unsigned pair = 0; pair < W / 2; pair++) butterfly_by<true>(p, v[pair], v[pair + W / 2], roots.far(0, 0));
#pragma unroll
    for (unsigned stage = 1; stage < FAR; stage++) {
        const unsigned half = W >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < W / 2; pair++) {
            const unsigned low = low_of(pair, half);
            butterfly_by<false>(p, v[low], v[low + half], roots.far(stage, block_of(pair, half)));
        }
    }
#pragma unroll
    for (unsigned of_lanes = 0; FAR + of_lanes < 5; of_lanes++) {
        const unsigned apart = 16 >> of_lanes;
#pragma unroll
        for (unsigned i = 0; i < W; i++) {
            const unsigned group = of_lanes == 0 ? i : (i << of_lanes) + (lane >> (5 - of_lanes));
            v[i] = butterfly_of_lanes_by(p, v[i], lane & apart, apart, roots.far(FAR + of_lanes, group));
        }
    }
}

// The remaining stages, near layout, of several rows at once.
template <class P, class Roots, unsigned ROWS_AT_ONCE, unsigned W>
__device__ __forceinline__ void forward_near(P p, const Roots& roots, unsigned (&v)[ROWS_AT_ONCE][W], unsigned lane) {
#pragma unroll
    for (unsigned stage = 0; stage < stages_of_a_lane(W); stage++) {
        const unsigned half = W >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < W / 2; pair++) {
            const unsigned low = low_of(pair, half);
            const uint2 w = roots.near(stage, lane, block_of(pair, half));
#pragma unroll
            for (unsigned row = 0; row < ROWS_AT_ONCE; row++) {
                butterfly_by<false>(p, v[row][low], v[row][low + half], w);
            }
        }
    }
}

template <class P, class Roots, unsigned W>
__device__ __forceinline__ void inverse_near(P p, const Roots& roots, unsigned (&v)[W], unsigned lane) {
#pragma unroll
    for (unsigned back = 0; back < stages_of_a_lane(W); back++) {
        const unsigned stage = stages_of_a_lane(W) - 1 - back, half = W >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < W / 2; pair++) {
            const unsigned low = low_of(pair, half), mirrored = (1u << stage) - 1 - block_of(pair, half);
            inverse_butterfly_by(p, v[low], v[low + half], roots.near(stage, 31 - lane, mirrored));
        }
    }
}

template <class P, class Roots, unsigned W>
__device__ __forceinline__ void inverse_far(P p, const Roots& roots, unsigned (&v)[W], unsigned lane) {
    constexpr unsigned FAR = stages_of_a_lane(W);
#pragma unroll
    for (unsigned back = 0; FAR + back < 5; back++) {
        const unsigned of_lanes = 4 - FAR - back, apart = 16 >> of_lanes;
#pragma unroll
        for (unsigned i = 0; i < W; i++) {
            const unsigned group = of_lanes == 0 ? i : (i << of_lanes) + (lane >> (5 - of_lanes));
            const uint2 w = roots.far(FAR + of_lanes, (W << of_lanes) - 1 - group);
            v[i] = inverse_butterfly_of_lanes_by(p, v[i], lane & apart, apart, w);
        }
    }
#pragma unroll
    for (unsigned back = 0; back < FAR; back++) {
        const unsigned stage = FAR - 1 - back, half = W >> (stage + 1);
#pragma unroll
        for (unsigned pair = 0; pair < W / 2; pair++) {
            const unsigned low = low_of(pair, half);
            const uint2 w = roots.far(stage, (1u << stage) - 1 - block_of(pair, half));
            inverse_butterfly_by(p, v[low], v[low + half], w);
        }
    }
}

// From far to near through `own`. A word of padding after every 32 words avoids bank conflicts on both sides.
template <unsigned W>
__device__ __forceinline__ void far_to_near(unsigned (&v)[W], unsigned* own, unsigned lane) {
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < W; i++) own[33 * i + lane] = v[i];
    __syncwarp();
    const unsigned at = W * lane + ((W * lane) >> 5);
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[i] = own[at + i];
}

template <unsigned W>
__device__ __forceinline__ void near_to_far(unsigned (&v)[W], unsigned* own, unsigned lane) {
    __syncwarp();
    const unsigned at = W * lane + ((W * lane) >> 5);
#pragma unroll
    for (unsigned i = 0; i < W; i++) own[at + i] = v[i];
    __syncwarp();
#pragma unroll
    for (unsigned i = 0; i < W; i++) v[i] = own[33 * i + lane];
}
