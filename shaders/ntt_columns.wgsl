// The stages of a long transform whose partners are at least ROW words apart: kernels/src/cpu/ntt.rs, with base
// conversion before the transform and after its inverse.
//
// A row of N words is ROWS rows of ROW words here. A group takes a tile in shared memory: all rows of some neighbouring
// columns. A thread has WORDS words of the tile.
//
// Groups in x are the tiles of a row, groups in y are jobs. `table` begins with the jobs. A job names records, which
// are further words of the table, and rows by their places in `scratch`. `primes` is as in `limb`; `roots` is
// [primes][N]. From the prelude: N, ROW, ROWS, LOG_ROWS, TILE (words of a tile), WORDS, THREADS. Needs `limb`,
// `base_convert`.

@group(0) @binding(0) var<storage, read> table: array<u32>;
@group(0) @binding(1) var<storage, read_write> scratch: array<u32>;
@group(0) @binding(2) var<storage, read> primes: array<u32>;
@group(0) @binding(3) var<storage, read> roots: array<vec2<u32>>;
@group(0) @binding(4) var<storage, read> keys: array<u32>;
// named by helpers that no entry here calls
@group(0) @binding(5) var<storage, read_write> rows: array<u32>;

const COLUMNS: u32 = TILE / ROWS;

var<workgroup> tile: array<u32, TILE>;

// The place in a row of N words of word `at` of the group's tile.
fn in_row(at: u32, group: u32) -> u32 {
    return at / COLUMNS * ROW + group * COLUMNS + at % COLUMNS;
}

// Transforms the tile. Input and output are in [0, 4 q). Begins and ends with a barrier.
fn forward_columns(thread: u32, p: Limb, first_root: u32) {
    workgroupBarrier();
    for (var stage = 0u; stage < LOG_ROWS; stage++) {
        let log_half = LOG_ROWS - 1u - stage;
        for (var at = thread; at < TILE / 2u; at += THREADS) {
            let row = at / COLUMNS;
            let group = row >> log_half;
            let low = (row + (group << log_half)) * COLUMNS + at % COLUMNS;
            let high = low + (COLUMNS << log_half);
            var x = tile[low];
            var y = tile[high];
            butterfly(p, &x, &y, roots[first_root + (1u << stage) + group]);
            tile[low] = x;
            tile[high] = y;
        }
        workgroupBarrier();
    }
}

// The inverse, times ROWS. Input and output are in [0, 2 q). Begins and ends with a barrier.
fn inverse_columns(thread: u32, p: Limb, first_root: u32) {
    workgroupBarrier();
    for (var log_half = 0u; log_half < LOG_ROWS; log_half++) {
        let groups = ROWS >> (log_half + 1u);
        for (var at = thread; at < TILE / 2u; at += THREADS) {
            let row = at / COLUMNS;
            let group = row >> log_half;
            let low = (row + (group << log_half)) * COLUMNS + at % COLUMNS;
            let high = low + (COLUMNS << log_half);
            var x = tile[low];
            var y = tile[high];
            inverse_butterfly(p, &x, &y, roots[first_root + groups + groups - 1u - group]);
            tile[low] = x;
            tile[high] = y;
        }
        workgroupBarrier();
    }
}

// Finishes the inverse transforms of some source primes, and makes them ready for conversion. A job is [2]: the index
// of its record, and the place of its rows, [sources + 1][N]. The first rows are as `ntt_rows_inverse` leaves them, and
// become the residues of step (1). The last row receives the quotients. A record is the number of sources, then
// [sources][5] words.
@compute @workgroup_size(THREADS)
fn ntt_columns_inverse(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let record = table[2u * group.y];
    var row = in_scratch(table[2u * group.y + 1u]);
    let sources = table[record];
    var quotients: array<u32, WORDS>;
    for (var i = 0u; i < WORDS; i++) { // unroll
        quotients[i] = 1u << (FRACTION_BITS - 1u);
    }
    for (var at = 0u; at < sources; at++) {
        let source = record + 1u + SOURCE_WORDS * at;
        let p = limb_of(table[source]);
        for (var i = 0u; i < WORDS; i++) { // unroll
            tile[thread + THREADS * i] = scratch[row + in_row(thread + THREADS * i, group.x)];
        }
        inverse_columns(thread, p, table[source] * N);
        for (var i = 0u; i < WORDS; i++) { // unroll
            let y = scaled(p, tile[thread + THREADS * i], source);
            quotients[i] = with_fraction(quotients[i], y, source);
            scratch[row + in_row(thread + THREADS * i, group.x)] = y;
        }
        row += N;
    }
    for (var i = 0u; i < WORDS; i++) { // unroll
        scratch[row + in_row(thread + THREADS * i, group.x)] = quotients[i] >> FRACTION_BITS;
    }
}

// Converts rows to one prime and begins the transform of the result. A job is [3]: the index of its record, the place
// of the rows that `ntt_columns_inverse` left, and the place of the result, in [0, 2 p). A record is the target's
// index, the number of sources, then the factors of the sources and of the quotient, times 2^32.
@compute @workgroup_size(THREADS)
fn ntt_columns(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let record = table[3u * group.y];
    let first = in_scratch(table[3u * group.y + 1u]);
    let to = in_scratch(table[3u * group.y + 2u]);
    let p = limb_of(table[record]);
    let sources = table[record + 1u];
    for (var word = thread; word < TILE; word += THREADS) {
        var sum = 0u;
        var from_word = first + in_row(word, group.x);
        for (var at = 0u; at <= sources; at++) {
            sum = with_converted(p, sum, scratch[from_word], table[record + 2u + at]);
            from_word += N;
        }
        tile[word] = sum;
    }
    forward_columns(thread, p, table[record] * N);
    for (var word = thread; word < TILE; word += THREADS) {
        scratch[to + in_row(word, group.x)] = reduce(tile[word], 2u * p.q);
    }
}

// Reduces the coefficients of a plaintext and begins their transform. A job is [4]: the prime's index, the place of the
// plaintext in `keys`, the binary logarithm of its gap, and the place of the result, in [0, 2 p). A plaintext is [2][N
// / gap] words: the high and the low words of its coefficients plus 2^62; all other coefficients are 0.
@compute @workgroup_size(THREADS)
fn ntt_columns_weights(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) group: vec3<u32>,
) {
    let prime = table[4u * group.y];
    let high = word_of(table[4u * group.y + 1u]);
    let log_gap = table[4u * group.y + 2u];
    let to = in_scratch(table[4u * group.y + 3u]);
    let p = limb_of(prime);
    let offset = primes[PRIME_WORDS * prime + 4u];
    for (var word = thread; word < TILE; word += THREADS) {
        let at = in_row(word, group.x);
        let coefficient = at >> log_gap;
        var sum = 0u;
        if (coefficient << log_gap == at) {
            sum = reduce(offset + mul_lazy(p, keys[high + coefficient], p.unit), 2u * p.q);
            sum += mul_montgomery(p, keys[high + (N >> log_gap) + coefficient], p.unit.x);
        }
        tile[word] = reduce(sum, 2u * p.q);
    }
    forward_columns(thread, p, prime * N);
    for (var word = thread; word < TILE; word += THREADS) {
        scratch[to + in_row(word, group.x)] = reduce(tile[word], 2u * p.q);
    }
}
