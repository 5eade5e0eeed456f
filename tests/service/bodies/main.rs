//! Bodies, ciphertexts and gates as the platform's interface reads and answers them. What these tests write is written by `platform` too, so
//! this suite runs on one database.

mod bad_input;
mod circuits_bad_input;
mod conventions;
mod folding;
mod gates;
mod mapping;
mod seeded;
