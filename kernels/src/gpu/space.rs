//! Memory that all sessions of a card share, in pages: one space for rows of arenas, one for keys.
//!
//! A kernel gets the start of the memory, and tables name places in it. So a launch names neither sessions nor their
//! number, and the same launch comes again with other sessions ([`super::recordings`]).
//!
//! The memory consists of segments. A card that can reserve addresses ([`Gpu::reserve`]) has one segment, which gets
//! memory as it needs it. Elsewhere a segment is a buffer, and a batch reaches the sessions whose pages are in one
//! segment. A page that is given back is overwritten with zeros, so a page that is taken holds zeros.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Buffer, Gpu, View, ViewOf};
use crate::error::{Error, Result};

/// Number of words of a page: a row of a ring of degree 32768, or some fifty ciphertexts of gates.
pub const PAGE_WORDS: usize = 1 << 15;

/// Number of words in the unit of a [`Place`]: 256 bytes. `shaders/place.*` have the same number.
pub const PLACE_WORDS: usize = 64;

/// A place in a segment, in units of [`PLACE_WORDS`] words. 32 bits reach a terabyte.
pub type Place = u32;

/// A segment that reserves addresses gets memory in pieces of this many pages: 64 MiB, or less on small cards.
const PIECE_PAGES_MAX: usize = (64 << 20) / (4 * PAGE_WORDS);
/// A piece is at most this fraction of the card's memory.
const PIECES_OF_A_CARD: u64 = 1024;
/// A segment that is a buffer has at least this fraction of the card's memory, so that sessions share it.
const SEGMENTS_OF_A_CARD: u64 = 16;

/// The place of a word.
///
/// # Panics
/// When no place begins at this word.
pub fn place_of(word: usize) -> Place {
    assert!(word.is_multiple_of(PLACE_WORDS), "word {word} is no place");
    (word / PLACE_WORDS).try_into().expect("a terabyte is enough")
}

/// Memory that all sessions of a card share.
pub struct Space<G: Gpu> {
    state: Mutex<State<G>>,
}

struct State<G: Gpu> {
    /// Whether the card was asked for a segment of reserved addresses.
    asked: bool,
    /// Whether the only segment reserves addresses for all memory.
    reserves: bool,
    segments: Vec<Segment<G>>,
    /// The number of segments that were made before.
    made: u64,
}

struct Segment<G: Gpu> {
    id: u64,
    buf: Arc<G::Buf>,
    /// Number of pages that have memory.
    pages: usize,
    /// Number of pages that may have memory. More than `pages` only if the segment reserves addresses.
    pages_max: usize,
    /// Runs of free pages: the first page and the number of pages.
    free: BTreeMap<usize, usize>,
}

/// Takes pages of a segment; `None` if the segment has no room for them.
type PagesOf<G> = fn(&mut Segment<G>, &G, usize) -> Result<Option<Vec<usize>>>;

/// Pages that belong to an arena or a key. On drop, the pages are overwritten and given back.
pub struct Pages<G: Gpu> {
    space: Arc<Space<G>>,
    segment: u64,
    buf: Arc<G::Buf>,
    /// The pages in the order of their use.
    pages: Vec<usize>,
}

impl<G: Gpu> Default for Space<G> {
    fn default() -> Self {
        Space { state: Mutex::new(State { asked: false, reserves: false, segments: Vec::new(), made: 0 }) }
    }
}

impl<G: Gpu> Space<G> {
    /// Takes pages, all zero, which may lie apart.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the card has too little memory.
    pub fn take(self: &Arc<Self>, gpu: &G, count: usize) -> Result<Pages<G>> {
        self.take_where(gpu, count, Segment::any)
    }

    /// Takes neighbouring pages, all zero, for this many words.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the card has too little memory.
    pub fn take_run(self: &Arc<Self>, gpu: &G, words: usize) -> Result<Pages<G>> {
        self.take_where(gpu, words.div_ceil(PAGE_WORDS).max(1), Segment::run)
    }

    fn take_where(self: &Arc<Self>, gpu: &G, count: usize, pages_of: PagesOf<G>) -> Result<Pages<G>> {
        let state = &mut *self.state();
        let given = |segment: &Segment<G>, pages| Pages {
            space: self.clone(),
            segment: segment.id,
            buf: segment.buf.clone(),
            pages,
        };
        if !std::mem::replace(&mut state.asked, true) {
            let pages_max = (gpu.properties().memory_bytes / (4 * PAGE_WORDS as u64)) as usize;
            if let Some(buf) = gpu.reserve(pages_max * PAGE_WORDS)? {
                state.add(buf, 0, pages_max);
                state.reserves = true;
            }
        }
        for segment in &mut state.segments {
            if let Some(pages) = pages_of(segment, gpu, count)? {
                return Ok(given(segment, pages));
            }
        }
        if state.reserves {
            return Err(out_of_memory(count));
        }
        let pages = segment_pages(gpu, count);
        // a card with little memory left may still have room for these pages alone
        let make = |pages: usize| {
            let words = pages.checked_mul(PAGE_WORDS).ok_or_else(|| out_of_memory(pages))?;
            super::alloc(gpu, words).map(|buf| (buf, pages))
        };
        let (buf, pages) = match make(pages) {
            Err(Error::OutOfMemory(_)) if pages > count => make(count)?,
            made => made?,
        };
        let segment = state.add(buf, pages, pages);
        let pages = pages_of(segment, gpu, count)?.ok_or_else(|| out_of_memory(count))?;
        Ok(given(segment, pages))
    }

    fn state(&self) -> MutexGuard<'_, State<G>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn out_of_memory(pages: usize) -> Error {
    Error::OutOfMemory(format!("the card has no room for {pages} pages of {} bytes", 4 * PAGE_WORDS))
}

/// The size of a new segment for this many pages: so large that further sessions fit, if the card allows such a buffer.
fn segment_pages<G: Gpu>(gpu: &G, count: usize) -> usize {
    let properties = gpu.properties();
    let page_bytes = 4 * PAGE_WORDS as u64;
    // WGSL kernels index the words of a buffer by 32 bits
    let bytes_max = properties.buffer_bytes_max.min(u64::from(u32::MAX));
    let wished = (properties.memory_bytes / SEGMENTS_OF_A_CARD).min(bytes_max) / page_bytes;
    count.max(wished as usize)
}

impl<G: Gpu> State<G> {
    fn add(&mut self, buf: G::Buf, pages: usize, pages_max: usize) -> &mut Segment<G> {
        let free = if pages > 0 { BTreeMap::from([(0, pages)]) } else { BTreeMap::new() };
        self.segments.push(Segment { id: self.made, buf: Arc::new(buf), pages, pages_max, free });
        self.made += 1;
        self.segments.last_mut().expect("it was just added")
    }
}

impl<G: Gpu> Segment<G> {
    /// Takes free pages, the first ones first. `None` if there are not so many, even with more memory.
    fn any(&mut self, gpu: &G, count: usize) -> Result<Option<Vec<usize>>> {
        let free: usize = self.free.values().sum();
        if free < count && !self.grow(gpu, count - free)? {
            return Ok(None);
        }
        let mut taken = Vec::with_capacity(count);
        while taken.len() < count {
            let (&first, &pages) = self.free.first_key_value().expect("there are enough");
            let some = pages.min(count - taken.len());
            self.cut(first, first, some);
            taken.extend(first..first + some);
        }
        Ok(Some(taken))
    }

    /// Takes neighbouring pages: the first run that is long enough.
    fn run(&mut self, gpu: &G, count: usize) -> Result<Option<Vec<usize>>> {
        let find = |segment: &Self| segment.free.iter().find(|&(_, &pages)| pages >= count).map(|(&first, _)| first);
        let first = match find(self) {
            Some(first) => first,
            None => {
                let at_end = self.free.last_key_value().filter(|&(first, pages)| first + pages == self.pages);
                let missing = count - at_end.map_or(0, |(_, &pages)| pages);
                if !self.grow(gpu, missing)? {
                    return Ok(None);
                }
                find(self).expect("the last run is long enough now")
            }
        };
        self.cut(first, first, count);
        Ok(Some((first..first + count).collect()))
    }

    /// Gets memory for at least this many more pages. Returns false if the segment has no addresses for so many.
    fn grow(&mut self, gpu: &G, missing: usize) -> Result<bool> {
        if missing > self.pages_max - self.pages {
            return Ok(false);
        }
        let of_a_card = gpu.properties().memory_bytes / PIECES_OF_A_CARD / (4 * PAGE_WORDS as u64);
        let piece = (of_a_card as usize).clamp(1, PIECE_PAGES_MAX);
        let pages = (self.pages + missing).next_multiple_of(piece).min(self.pages_max);
        gpu.back(&self.buf, pages * PAGE_WORDS)?;
        self.give_back(self.pages, pages - self.pages);
        self.pages = pages;
        Ok(true)
    }

    /// Removes pages from the free run that begins at `run`.
    fn cut(&mut self, run: usize, first: usize, count: usize) {
        let pages = self.free.remove(&run).expect("a free run");
        let (before, after) = (first - run, run + pages - first - count);
        if before > 0 {
            self.free.insert(run, before);
        }
        if after > 0 {
            self.free.insert(first + count, after);
        }
    }

    /// Adds free pages and joins them with their neighbours.
    fn give_back(&mut self, mut first: usize, mut count: usize) {
        if let Some((&before, &pages)) = self.free.range(..first).next_back()
            && before + pages == first
        {
            self.free.remove(&before);
            (first, count) = (before, count + pages);
        }
        if let Some(pages) = self.free.remove(&(first + count)) {
            count += pages;
        }
        self.free.insert(first, count);
    }
}

/// Joins page numbers that follow each other to runs: the first page and the number of pages.
fn runs(pages: &[usize]) -> impl Iterator<Item = (usize, usize)> + '_ {
    pages.chunk_by(|a, b| a + 1 == *b).map(|run| (run[0], run.len()))
}

impl<G: Gpu> Pages<G> {
    /// A number that pages of one segment have in common.
    pub fn segment(&self) -> u64 {
        self.segment
    }

    /// The segment's buffer.
    pub fn buf(&self) -> &G::Buf {
        &self.buf
    }

    /// The pages.
    pub fn count(&self) -> usize {
        self.pages.len()
    }

    /// The first word of page `at`.
    pub fn first_word(&self, at: usize) -> usize {
        self.pages[at] * PAGE_WORDS
    }

    /// The ranges of words of all pages.
    pub fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        runs(&self.pages).map(|(first, count)| first * PAGE_WORDS..(first + count) * PAGE_WORDS)
    }

    /// The place of the first word.
    pub fn place(&self) -> Place {
        place_of(self.first_word(0))
    }

    /// A view of the first `words` words of neighbouring pages.
    pub fn view(&self, words: usize) -> ViewOf<'_, G> {
        assert!(words <= self.pages.len() * PAGE_WORDS && runs(&self.pages).count() == 1, "neighbouring pages");
        View { buf: &self.buf, first: self.first_word(0), words }
    }

    /// Takes more pages of the same segment, all zero. Returns false if the segment has no room for them.
    ///
    /// # Errors
    /// [`Error::OutOfMemory`] when the card has too little memory.
    pub fn extend(&mut self, gpu: &G, more: usize) -> Result<bool> {
        let state = &mut *self.space.state();
        let segment = state.segments.iter_mut().find(|segment| segment.id == self.segment);
        let taken = segment.expect("a segment with pages exists").any(gpu, more)?;
        self.pages.extend(taken.iter().flatten());
        Ok(taken.is_some())
    }
}

impl<G: Gpu> Drop for Pages<G> {
    fn drop(&mut self) {
        for range in self.ranges() {
            self.buf.clear(range);
        }
        let state = &mut *self.space.state();
        let Some(at) = state.segments.iter().position(|segment| segment.id == self.segment) else { return };
        for (first, count) in runs(&self.pages) {
            state.segments[at].give_back(first, count);
        }
        // one empty segment is kept for the next session; others give their memory back to the card
        let is_empty = |segment: &Segment<G>| segment.free.get(&0) == Some(&segment.pages_max);
        if is_empty(&state.segments[at]) && state.segments.iter().filter(|segment| is_empty(segment)).count() > 1 {
            state.segments.remove(at);
        }
    }
}
