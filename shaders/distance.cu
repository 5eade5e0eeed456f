// Distances, for batches of several keys in one launch and ciphertexts in several chunks of memory. An entry gets the
// first buffer of a kind, and a table has the distances from that buffer's first word to other buffers or to places in
// them.

// The number of words from one place in memory to another, possibly negative: two words of a table, the low one first.
__device__ inline long long distance(const unsigned* table) {
    return (long long)((unsigned long long)table[1] << 32 | table[0]);
}
