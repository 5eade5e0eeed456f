// Rows of residues under several primes, and the places of these rows: helpers of the kernels of numbers. Needs
// `place`, and the buffers `primes`, `scratch` and `rows`.

// A prime with its constants.
struct Limb {
    q: u32,
    // 1 / q mod 2^32
    q_inverse: u32,
    // 2^32 mod q, with its companion
    unit: vec2<u32>,
}

// `primes` is [primes][8]: q, 1 / q mod 2^32, 2^32 mod q with its companion, and -2^62 mod q.
const PRIME_WORDS: u32 = 8u;

fn limb_of(prime: u32) -> Limb {
    let of_prime = PRIME_WORDS * prime;
    return Limb(primes[of_prime], primes[of_prime + 1u], vec2<u32>(primes[of_prime + 2u], primes[of_prime + 3u]));
}

// A table names rows by their places: in scratch memory if this bit is set, else in the memory of all arenas.
const IN_SCRATCH: u32 = 1u << 31u;
// In place of a row that does not exist.
const NO_ROW: u32 = 0xffffffffu;

// The first word of a row in scratch memory.
fn in_scratch(place: u32) -> u32 {
    return word_of(place & ~IN_SCRATCH);
}

// Word `at` of a row.
fn load(place: u32, at: u32) -> u32 {
    if ((place & IN_SCRATCH) != 0u) {
        return scratch[in_scratch(place) + at];
    }
    return rows[word_of(place) + at];
}

fn store(place: u32, at: u32, word: u32) {
    if ((place & IN_SCRATCH) != 0u) {
        scratch[in_scratch(place) + at] = word;
    } else {
        rows[word_of(place) + at] = word;
    }
}

// Lazy `x w mod q`: x is any word, `w` is in [0, q) with its companion, and the result is in [0, 2 q).
fn mul_lazy(p: Limb, x: u32, w: vec2<u32>) -> u32 {
    return x * w.x - mul_high(x, w.y) * p.q;
}

// `x y / 2^32 mod q`, as `mul_residues`.
fn mul_montgomery(p: Limb, x: u32, y: u32) -> u32 {
    return mul_residues(x, y, p.q, p.q_inverse);
}

// Reduces from [0, 4 q) to [0, q).
fn reduce_all(p: Limb, x: u32) -> u32 {
    return reduce(reduce(x, 2u * p.q), p.q);
}

// Values in [0, 4 q), in and out.
fn butterfly(p: Limb, x: ptr<function, u32>, y: ptr<function, u32>, w: vec2<u32>) {
    // (1) butterfly: (x, y) <- (x + w y, x - w y)
    let low = reduce(*x, 2u * p.q);
    let t = mul_lazy(p, *y, w);
    *x = low + t;
    *y = low + 2u * p.q - t;
}

// `w` is the root of the mirrored group, so the difference has the other sign. Values in [0, 2 q), in and out.
fn inverse_butterfly(p: Limb, x: ptr<function, u32>, y: ptr<function, u32>, w: vec2<u32>) {
    // (2) inverse butterfly: (x, y) <- (x + y, w (x - y))
    let difference = *y + 2u * p.q - *x;
    *x = reduce(*x + *y, 2u * p.q);
    *y = mul_lazy(p, difference, w);
}
