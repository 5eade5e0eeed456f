// Batches of several keys in one launch: each has a key and an arena of its own. An entry is given the buffers of one
// batch, and a table says how far from those the buffers of the others are.

// Words from a buffer to another, which may be before it: two words of a table, the low one first.
__device__ inline long long distance(const unsigned* table) {
    return (long long)((unsigned long long)table[1] << 32 | table[0]);
}
