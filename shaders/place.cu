// Places of rows and keys in the memory that all sessions share. A table names a place by 32 bits.

// The first word at a place. kernels/src/gpu/space.rs has the same unit.
__device__ inline unsigned long long word_of(unsigned place) {
    return 64ull * place;
}
