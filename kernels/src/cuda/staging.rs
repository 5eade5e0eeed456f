//! Staging between host and card, so that the copies of one batch overlap with the work of another batch.
//!
//! Words pass through blocks of pinned host memory. A large block has a twin on the card. On upload, the copying stream
//! fills the twin while kernels of an earlier batch run; later the computing stream moves the words to their buffer. A
//! download takes the same steps in reverse. So the computing stream orders every access to a buffer, and only the
//! transfer over the bus runs at the same time as kernels. Small copies go through small blocks, which have no twin.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cudarc::driver::{CudaContext, CudaEvent, result};

use super::driver::{Pinned, Stream};
use super::failed::failed;
use super::memory::Memory;
use super::waiting::{Health, wait, wait_unless};
use crate::error::Result;

/// Number of words in a large block, which has 4 MiB.
const BLOCK_WORDS: usize = 1 << 20;
/// Number of words in a small block, which has 64 KiB. Up to this size, a direct copy in the computing stream is faster
/// than a copy through a twin and two streams.
const SMALL_WORDS: usize = 1 << 14;
/// Largest number of uploads in flight for each block size. A further writer waits. A batch of 16384 gates of two
/// operands does not wait.
const BLOCKS_MAX: usize = 32;

/// The streams of a card and the blocks between it and the host.
pub struct Staging {
    /// The stream of kernels and of all accesses to buffers.
    compute: Arc<Stream>,
    up: Arc<Stream>,
    down: Arc<Stream>,
    /// The stream in which one thread at a time captures kernels. No kernel runs in this stream.
    capture: Mutex<Arc<Stream>>,
    small: Mutex<Pool>,
    large: Mutex<Pool>,
}

/// Blocks of one size.
#[derive(Default)]
struct Pool {
    free: Vec<Block>,
    /// Blocks of uploads in flight, in the order of their events.
    uploads: VecDeque<Block>,
}

struct Block {
    host: Pinned,
    /// The twin on the card; only large blocks have one.
    twin: Option<Twin>,
    /// Number of words of the block that are in use.
    words: usize,
    /// The event that is recorded when the words have arrived and the twin is zero again.
    done: CudaEvent,
    /// The streams whose copies may still use the block.
    used_by: Vec<Arc<Stream>>,
}

struct Twin {
    memory: Memory,
    /// The event that is recorded when the first of the twin's two streams has finished with the twin.
    halfway: CudaEvent,
}

impl Drop for Block {
    fn drop(&mut self) {
        // after a failure, copies may still be running, and none of them may use freed memory, so wait for all of them.
        // Blocks are rarely dropped, so the wait hardly matters. On a lost card, the block's memory is not freed
        for stream in &self.used_by {
            let _ = stream.drain();
        }
    }
}

/// A read in flight.
pub struct Readback {
    blocks: Vec<Block>,
    staging: Arc<Staging>,
}

impl Staging {
    pub fn new(context: &Arc<CudaContext>) -> Result<Staging> {
        let health = Health::default();
        let stream = || Stream::new(context, &health).map(Arc::new);
        let (small, large) = Default::default();
        let capture = Mutex::new(stream()?);
        Ok(Staging { compute: stream()?, up: stream()?, down: stream()?, capture, small, large })
    }

    /// The stream in which kernels run and buffers are accessed.
    pub fn compute(&self) -> &Arc<Stream> {
        &self.compute
    }

    /// Locks and returns the stream that captures kernels.
    pub fn capture(&self) -> MutexGuard<'_, Arc<Stream>> {
        self.capture.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Copies words to a place in a buffer, after all work that was started before this call. The caller may drop
    /// `words` at once.
    pub fn write(&self, to: &Memory, at: usize, words: &[u32]) -> Result<()> {
        to.at(at, words.len());
        for (i, words) in words.chunks(BLOCK_WORDS).enumerate() {
            let mut block = self.block(words.len())?;
            block.words = words.len();
            block.host.words_mut()[..words.len()].copy_from_slice(words);
            self.send(&block, to, at + i * BLOCK_WORDS)?;
            pool(self.pool(words.len())).uploads.push_back(block);
        }
        Ok(())
    }

    fn send(&self, block: &Block, to: &Memory, at: usize) -> Result<()> {
        let told = |error| failed("copying to the card", error);
        let (to, host) = (to.at(at, block.words), &block.host.words()[..block.words]);
        if let Some(Twin { memory, halfway }) = &block.twin {
            let twin = memory.at(0, block.words);
            // SAFETY: the block keeps its words until the event `done`, and no other copy uses the twin before the
            // event `halfway`
            unsafe { result::memcpy_htod_async(twin, host, self.up.handle()) }.map_err(told)?;
            halfway.record(self.up.inner()).map_err(told)?;
            self.compute.inner().wait(halfway).map_err(told)?;
            // SAFETY: the ranges lie in two different buffers, and the stream orders the uses of both
            unsafe { result::memcpy_dtod_async(to, twin, 4 * block.words, self.compute.handle()) }.map_err(told)?;
            memory.clear(&self.compute, block.words)?;
        } else {
            // SAFETY: the block keeps its words until the event `done`; the stream orders the uses of the buffer that
            // contains `to`
            unsafe { result::memcpy_htod_async(to, host, self.compute.handle()) }.map_err(told)?;
        }
        block.done.record(self.compute.inner()).map_err(told)
    }

    /// Starts to read these ranges of a buffer, one after another, after all work that was started before this call.
    pub fn read(self: &Arc<Self>, from: &Memory, ranges: &[Range<usize>]) -> Result<Readback> {
        let mut readback = Readback { blocks: Vec::new(), staging: self.clone() };
        for pieces in blocks_of(ranges) {
            let words = pieces.iter().map(ExactSizeIterator::len).sum();
            // several ranges need a large block, because only a large block has a twin on the card, in which the ranges
            // are gathered before one copy to the host
            let mut block = self.block(if pieces.len() == 1 { words } else { BLOCK_WORDS })?;
            block.words = words;
            self.fetch(&mut block, from, &pieces)?;
            readback.blocks.push(block);
        }
        Ok(readback)
    }

    fn fetch(&self, block: &mut Block, from: &Memory, pieces: &[Range<usize>]) -> Result<()> {
        let told = |error| failed("copying from the card", error);
        let host = &mut block.host.words_mut()[..block.words];
        let stream = match (&block.twin, pieces) {
            (None, [piece]) => {
                let from = from.at(piece.start, piece.len());
                // SAFETY: the block keeps its words, and nothing reads them before the event `done`. The stream orders
                // the uses of the buffer that contains `from`
                unsafe { result::memcpy_dtoh_async(host, from, self.compute.handle()) }.map_err(told)?;
                &self.compute
            }
            (None, _) => unreachable!("several pieces have a large block"),
            (Some(Twin { memory, halfway }), _) => {
                let mut at = 0;
                for piece in pieces {
                    let (from, to) = (from.at(piece.start, piece.len()), memory.at(at, piece.len()));
                    // SAFETY: the ranges lie in two different buffers, and the stream orders the uses of both
                    unsafe { result::memcpy_dtod_async(to, from, 4 * piece.len(), self.compute.handle()) }
                        .map_err(told)?;
                    at += piece.len();
                }
                halfway.record(self.compute.inner()).map_err(told)?;
                self.down.inner().wait(halfway).map_err(told)?;
                let twin = memory.at(0, block.words);
                // SAFETY: the block keeps its words. Before the event `done`, nothing reads these words, and no other
                // stream uses the twin
                unsafe { result::memcpy_dtoh_async(host, twin, self.down.handle()) }.map_err(told)?;
                memory.clear(&self.down, block.words)?;
                &self.down
            }
        };
        block.done.record(stream.inner()).map_err(told)
    }

    /// Returns the pool whose blocks fit this many words.
    fn pool(&self, words: usize) -> &Mutex<Pool> {
        if words <= SMALL_WORDS { &self.small } else { &self.large }
    }

    /// Takes a free block for this many words, or makes a block. If [`BLOCKS_MAX`] uploads are in flight, waits for the
    /// oldest upload and takes its block.
    fn block(&self, words: usize) -> Result<Block> {
        self.compute.bind()?;
        let oldest = {
            let mut pool = pool(self.pool(words));
            pool.reclaim();
            if let Some(block) = pool.free.pop() {
                return Ok(block);
            }
            if pool.uploads.len() < BLOCKS_MAX { None } else { pool.uploads.pop_front() }
        };
        let Some(oldest) = oldest else { return self.new_block(words) };
        wait(&oldest.done, self.compute.health())?;
        Ok(oldest.cleared())
    }

    fn new_block(&self, words: usize) -> Result<Block> {
        let context = self.compute.context();
        let told = |error| failed("making a block", error);
        // events without time stamps, because time stamps would cost the driver work
        let event = || context.new_event(None).map_err(told);
        if words <= SMALL_WORDS {
            let (host, used_by) = (Pinned::zeroed(&self.compute, SMALL_WORDS)?, vec![self.compute.clone()]);
            return Ok(Block { host, twin: None, words: 0, done: event()?, used_by });
        }
        let twin = Twin { memory: Memory::zeroed(&self.compute, BLOCK_WORDS)?, halfway: event()? };
        let used_by = vec![self.compute.clone(), self.up.clone(), self.down.clone()];
        // the other streams wait until the twin is allocated and zeroed
        twin.halfway.record(self.compute.inner()).map_err(told)?;
        self.up.inner().wait(&twin.halfway).map_err(told)?;
        self.down.inner().wait(&twin.halfway).map_err(told)?;
        let host = Pinned::zeroed(&self.compute, BLOCK_WORDS)?;
        Ok(Block { host, twin: Some(twin), words: 0, done: event()?, used_by })
    }

    /// Overwrites the blocks of finished uploads. Some uploads are keys.
    pub fn forget_uploads(&self) {
        if self.compute.bind().is_ok() {
            pool(&self.small).reclaim();
            pool(&self.large).reclaim();
        }
    }

    /// Returns a block to the pool after a read. The block's words are ciphertexts, so they are not overwritten.
    fn give_back(&self, mut block: Block) {
        block.words = 0;
        let mut pool = pool(if block.twin.is_some() { &self.large } else { &self.small });
        if pool.free.len() < BLOCKS_MAX {
            pool.free.push(block);
        }
    }
}

fn pool(pool: &Mutex<Pool>) -> MutexGuard<'_, Pool> {
    pool.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    /// Frees the blocks of finished uploads.
    fn reclaim(&mut self) {
        while self.uploads.front().is_some_and(|block| block.done.is_complete()) {
            let block = self.uploads.pop_front();
            self.free.extend(block.map(Block::cleared));
        }
    }
}

impl Block {
    /// Zeroes the host's part of a block; the card has cleared its own part. A plain fill is enough: no word is secret,
    /// and the compiler cannot omit the fill, because it cannot prove that the memory is not read again.
    fn cleared(mut self) -> Block {
        let words = self.words;
        self.host.words_mut()[..words].fill(0);
        self.words = 0;
        self
    }
}

impl Readback {
    /// Waits until the words have arrived, or until `wanted` returns true, like [`crate::Backend::wait`].
    pub fn wait(&self, wanted: &mut dyn FnMut() -> bool) -> Result<bool> {
        for block in &self.blocks {
            if !wait_unless(&block.done, self.staging.compute.health(), wanted)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Waits for the words and returns them.
    pub fn finish(self) -> Result<Vec<u32>> {
        let mut words = Vec::with_capacity(self.blocks.iter().map(|block| block.words).sum());
        for block in &self.blocks {
            wait(&block.done, self.staging.compute.health())?;
            words.extend_from_slice(&block.host.words()[..block.words]);
        }
        Ok(words)
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        for block in self.blocks.drain(..) {
            // the block of a lost card is not reused
            if wait(&block.done, self.staging.compute.health()).is_ok() {
                self.staging.give_back(block);
            }
        }
    }
}

/// Splits ranges into pieces of at most a block, and joins adjacent pieces. The result has one list of pieces for each
/// block.
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
