//! Words between host and card, so that copies of one batch overlap with the work of another.
//!
//! The host's words go through blocks of memory that the card copies by itself. A block has a twin on the card: up, the
//! copying stream fills the twin while kernels of an earlier batch run, and the computing stream, when it comes to that,
//! moves the words to their buffer; down, it is the other way round. So everything that touches a buffer is in the order
//! of the computing stream, and only what crosses the bus runs beside it. Few words take the direct way.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::sys::CUevent_flags;
use cudarc::driver::{CudaContext, CudaEvent, CudaStream, result};
use zeroize::Zeroize;

use super::driver::{Memory, Pinned, failed};
use crate::error::Result;

/// Words of a block: 4 MiB.
const BLOCK_WORDS: usize = 1 << 20;
/// Uploads under way, in blocks; a writer waits beyond that. A batch of 16384 two-input gates fits.
const BLOCKS_MAX: usize = 32;
/// Words up to which a copy on the computing stream takes less time than two streams and a twin: 64 KiB.
const DIRECT_WORDS_MAX: usize = 1 << 14;
/// Questions to an event before the thread goes to sleep over it: a lone gate is done within as many.
const QUESTIONS_MAX: usize = 4096;

/// Events over which a thread may sleep.
const WAKING: CUevent_flags = CUevent_flags::CU_EVENT_BLOCKING_SYNC;

/// The streams of a card and the blocks between it and the host.
pub struct Staging {
    /// Kernels, and everything that touches a buffer.
    compute: Arc<CudaStream>,
    up: Arc<CudaStream>,
    down: Arc<CudaStream>,
    blocks: Mutex<Blocks>,
}

#[derive(Default)]
struct Blocks {
    free: Vec<Block>,
    /// In the order of their events.
    uploads: VecDeque<Block>,
}

struct Block {
    host: Pinned,
    twin: Memory,
    /// Words of the block in use.
    words: usize,
    /// The first of two streams is done with it.
    halfway: CudaEvent,
    /// Its words have arrived, and the twin is zero again.
    done: CudaEvent,
}

impl Drop for Block {
    fn drop(&mut self) {
        // rare, and whatever failed before, no copy may find the memory gone
        let _ = self.done.context().synchronize();
    }
}

/// A read under way.
pub struct Pending {
    blocks: Vec<Block>,
    staging: Arc<Staging>,
}

impl Staging {
    pub fn new(context: &Arc<CudaContext>) -> Result<Staging> {
        let stream = || context.new_stream().map_err(|error| failed("making a stream", error));
        Ok(Staging { compute: stream()?, up: stream()?, down: stream()?, blocks: Mutex::default() })
    }

    /// The stream of kernels and buffers.
    pub fn compute(&self) -> &Arc<CudaStream> {
        &self.compute
    }

    /// Copies words to a place in a buffer, after everything that was started before. They may be forgotten at once.
    pub fn write(&self, to: &Memory, at: usize, words: &[u32]) -> Result<()> {
        to.at(at, words.len());
        for (i, words) in words.chunks(BLOCK_WORDS).enumerate() {
            let mut block = self.block()?;
            block.words = words.len();
            block.host.words_mut()[..words.len()].copy_from_slice(words);
            self.send(&block, to, at + i * BLOCK_WORDS)?;
            self.blocks().uploads.push_back(block);
        }
        Ok(())
    }

    fn send(&self, block: &Block, to: &Memory, at: usize) -> Result<()> {
        let told = |error| failed("copying to the card", error);
        let (to, host) = (to.at(at, block.words), &block.host.words()[..block.words]);
        if block.words <= DIRECT_WORDS_MAX {
            // SAFETY: the block keeps its words until `done`; `to` is a range of a buffer that the stream orders
            unsafe { result::memcpy_htod_async(to, host, self.compute.cu_stream()) }.map_err(told)?;
        } else {
            let twin = block.twin.at(0, block.words);
            // SAFETY: as above; nobody uses the twin before `halfway`
            unsafe { result::memcpy_htod_async(twin, host, self.up.cu_stream()) }.map_err(told)?;
            block.halfway.record(&self.up).map_err(told)?;
            self.compute.wait(&block.halfway).map_err(told)?;
            // SAFETY: two ranges of different buffers, both of which the stream orders
            unsafe { result::memcpy_dtod_async(to, twin, 4 * block.words, self.compute.cu_stream()) }.map_err(told)?;
            block.twin.clear(&self.compute, block.words)?;
        }
        block.done.record(&self.compute).map_err(told)
    }

    /// Starts to read these ranges of a buffer, one after another, as everything that was started before leaves them.
    pub fn read(self: &Arc<Self>, from: &Memory, ranges: &[Range<usize>]) -> Result<Pending> {
        let mut pending = Pending { blocks: Vec::new(), staging: self.clone() };
        for pieces in blocks_of(ranges) {
            let mut block = self.block()?;
            block.words = pieces.iter().map(ExactSizeIterator::len).sum();
            self.fetch(&mut block, from, &pieces)?;
            pending.blocks.push(block);
        }
        Ok(pending)
    }

    fn fetch(&self, block: &mut Block, from: &Memory, pieces: &[Range<usize>]) -> Result<()> {
        let told = |error| failed("copying from the card", error);
        let host = &mut block.host.words_mut()[..block.words];
        let stream = match pieces {
            [piece] if piece.len() <= DIRECT_WORDS_MAX => {
                let from = from.at(piece.start, piece.len());
                // SAFETY: the block keeps its words, and nobody looks at them before `done`; `from` is a range of a
                // buffer that the stream orders
                unsafe { result::memcpy_dtoh_async(host, from, self.compute.cu_stream()) }.map_err(told)?;
                &self.compute
            }
            _ => {
                let mut at = 0;
                for piece in pieces {
                    let (from, to) = (from.at(piece.start, piece.len()), block.twin.at(at, piece.len()));
                    // SAFETY: two ranges of different buffers, both of which the stream orders
                    unsafe { result::memcpy_dtod_async(to, from, 4 * piece.len(), self.compute.cu_stream()) }
                        .map_err(told)?;
                    at += piece.len();
                }
                block.halfway.record(&self.compute).map_err(told)?;
                self.down.wait(&block.halfway).map_err(told)?;
                let twin = block.twin.at(0, block.words);
                // SAFETY: the block keeps its words, and nobody looks at them or uses the twin before `done`
                unsafe { result::memcpy_dtoh_async(host, twin, self.down.cu_stream()) }.map_err(told)?;
                block.twin.clear(&self.down, block.words)?;
                &self.down
            }
        };
        block.done.record(stream).map_err(told)
    }

    fn blocks(&self) -> MutexGuard<'_, Blocks> {
        self.blocks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A block that nobody uses.
    fn block(&self) -> Result<Block> {
        self.compute.context().bind_to_thread().map_err(|error| failed("choosing the card", error))?;
        let mut blocks = self.blocks();
        while blocks.uploads.front().is_some_and(|block| block.done.is_complete()) {
            let block = blocks.uploads.pop_front();
            blocks.free.extend(block.map(Block::cleared));
        }
        if let Some(block) = blocks.free.pop() {
            return Ok(block);
        }
        if blocks.uploads.len() < BLOCKS_MAX {
            drop(blocks);
            return self.new_block();
        }
        let oldest = blocks.uploads.pop_front().expect("uploads are at their bound");
        drop(blocks);
        wait(&oldest.done)?;
        Ok(oldest.cleared())
    }

    fn new_block(&self) -> Result<Block> {
        let context = self.compute.context();
        let told = |error| failed("making a block", error);
        let event = |flags| context.new_event(flags).map_err(told);
        let block = Block {
            host: Pinned::zeroed(context, BLOCK_WORDS)?,
            twin: Memory::zeroed(&self.compute, BLOCK_WORDS)?,
            words: 0,
            halfway: event(None)?,
            done: event(Some(WAKING))?,
        };
        // the other streams see the twin when it is there
        block.halfway.record(&self.compute).map_err(told)?;
        self.up.wait(&block.halfway).map_err(told)?;
        self.down.wait(&block.halfway).map_err(told)?;
        Ok(block)
    }

    fn give_back(&self, block: Block) {
        let block = block.cleared();
        let mut blocks = self.blocks();
        if blocks.free.len() < BLOCKS_MAX {
            blocks.free.push(block);
        }
    }
}

impl Block {
    /// Nothing is left in the host's part of a block; the card has cleared its own.
    fn cleared(mut self) -> Block {
        let words = self.words;
        self.host.words_mut()[..words].zeroize();
        self.words = 0;
        self
    }
}

impl Pending {
    /// Waits; the words.
    pub fn finish(self) -> Result<Vec<u32>> {
        let mut words = Vec::with_capacity(self.blocks.iter().map(|block| block.words).sum());
        for block in &self.blocks {
            wait(&block.done)?;
            words.extend_from_slice(&block.host.words()[..block.words]);
        }
        Ok(words)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // of a card that is lost the memory goes back to the driver, if to anyone
            if wait(&block.done).is_ok() {
                self.staging.give_back(block);
            }
        }
    }
}

/// Waits for an event: a while awake, since a gate takes less than a millisecond, then asleep.
fn wait(event: &CudaEvent) -> Result<()> {
    let told = |error| failed("waiting for the card", error);
    event.context().bind_to_thread().map_err(told)?;
    for _ in 0..QUESTIONS_MAX {
        if event.try_is_complete().map_err(told)? {
            return Ok(());
        }
        std::thread::yield_now();
    }
    event.synchronize().map_err(told)
}

/// The ranges in pieces of at most a block, neighbours joined, a list a block.
fn blocks_of(ranges: &[Range<usize>]) -> Vec<Vec<Range<usize>>> {
    let (mut blocks, mut pieces, mut room) = (Vec::new(), Vec::<Range<usize>>::new(), BLOCK_WORDS);
    for range in ranges {
        let mut rest = range.clone();
        while !rest.is_empty() {
            let piece = rest.start..rest.end.min(rest.start + room);
            (rest.start, room) = (piece.end, room - piece.len());
            match pieces.last_mut() {
                Some(last) if last.end == piece.start => last.end = piece.end,
                _ => pieces.push(piece),
            }
            if room == 0 {
                blocks.push(std::mem::take(&mut pieces));
                room = BLOCK_WORDS;
            }
        }
    }
    if !pieces.is_empty() {
        blocks.push(pieces);
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_cut_into_blocks_in_their_order_and_neighbours_are_one_piece() {
        let b = BLOCK_WORDS;
        let cut = |ranges: &[(usize, usize)]| -> Vec<Vec<(usize, usize)>> {
            let ranges: Vec<Range<usize>> = ranges.iter().map(|&(start, end)| start..end).collect();
            let pairs = |pieces: Vec<Range<usize>>| pieces.into_iter().map(|piece| (piece.start, piece.end)).collect();
            blocks_of(&ranges).into_iter().map(pairs).collect()
        };
        assert!(cut(&[]).is_empty() && cut(&[(3, 3), (4, 4)]).is_empty());
        assert_eq!(cut(&[(5, 7), (7, 9), (20, 21), (9, 11)]), [[(5, 9), (20, 21), (9, 11)]]);
        assert_eq!(cut(&[(1, b), (b, 2 * b + 3)]), [[(1, b + 1)], [(b + 1, 2 * b + 1)], [(2 * b + 1, 2 * b + 3)]]);
        assert_eq!(cut(&[(0, b)]), [[(0, b)]]);
    }
}
