//! How the platform's interface reads and answers bodies, ciphertexts and gates. The suite runs on one database only,
//! because the suite `platform`, which runs on both, makes the same kinds of writes.

mod bad_input;
mod circuits_bad_input;
mod conventions;
mod folding;
mod gates;
mod mapping;
mod seeded;
