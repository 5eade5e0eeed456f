// Places of rows and keys in the memory that all sessions share. A table names a place by 32 bits.

// The first word at a place. kernels/src/gpu/space.rs has the same unit.
fn word_of(place: u32) -> u32 {
    return 64u * place;
}
