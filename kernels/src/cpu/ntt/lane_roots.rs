//! The roots of the stages within vectors, in the order in which transforms on vectors read them.

use crate::cpu::memory::Words;
use crate::ring::Root;

pub(super) fn lane_roots(roots: &[Root], lanes: usize) -> Words {
    let vectors = roots.len() / lanes;
    let mut out = Vec::with_capacity(2 * vectors * lanes);
    for first in (0..vectors).step_by(lanes) {
        for stage in 0..lanes.trailing_zeros() {
            for block in 0..1 << stage {
                let root = |lane: usize| roots[((vectors + first + lane) << stage) + block];
                out.extend((0..lanes).map(|lane| root(lane).value));
                out.extend((0..lanes).map(|lane| root(lane).companion));
            }
        }
    }
    // `Words` are aligned, because a vector across two cache lines takes twice as long to load
    Words::copy_of(&out).expect("memory for tables")
}
