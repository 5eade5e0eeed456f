// Batches of several keys in one launch, ciphertexts in several chunks of memory: an entry is given the first buffer of
// a kind, and a table says how far from its first word others are, or what is in them.

// Words from a place in memory to another, which may be before it: two words of a table, the low one first.
__device__ inline long long distance(const unsigned* table) {
    return (long long)((unsigned long long)table[1] << 32 | table[0]);
}
