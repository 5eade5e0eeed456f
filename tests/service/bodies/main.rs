//! How the platform's interface reads and answers bodies, ciphertexts and gates. The suite runs on SQLite only, because
//! the suite `platform`, which runs on SQLite and PostgreSQL, makes the same kinds of writes.

mod bad_input;
mod circuits_bad_input;
mod conventions;
mod folding;
mod gates;
mod mapping;
mod seeded;
