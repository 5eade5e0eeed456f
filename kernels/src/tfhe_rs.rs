//! Forms of tfhe-rs clients: being written.
