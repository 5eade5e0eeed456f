//! A launch as data: a kernel, its groups, the ranges of buffers that it reads and writes, its words.

use std::ops::Range;

use super::{Card, Language};
use crate::error::{Error, Result};

/// Words in a card's memory.
pub trait Buffer: Send + Sync {
    /// How many words there are.
    fn words(&self) -> usize;
}

/// A range of words of a buffer. A view that is bound begins at a multiple of [`Card::alignment_words`].
pub struct View<'a, B> {
    /// The buffer.
    pub buf: &'a B,
    /// The first word.
    pub first: usize,
    /// How many words.
    pub words: usize,
}

impl<B> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for View<'_, B> {}

impl<B> View<'_, B> {
    /// Their places in the buffer.
    pub fn range(self) -> Range<usize> {
        self.first..self.first + self.words
    }
}

impl<'a, B: Buffer> View<'a, B> {
    /// All words of a buffer.
    pub fn all(buf: &'a B) -> Self {
        View { buf, first: 0, words: buf.words() }
    }

    /// Some of these words.
    ///
    /// # Panics
    /// When the range is not within them.
    pub fn part(self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.words, "words {range:?} of {}", self.words);
        View { buf: self.buf, first: self.first + range.start, words: range.len() }
    }

    fn is_same(self, other: Self) -> bool {
        std::ptr::eq(self.buf, other.buf) && self.range() == other.range()
    }

    fn overlaps(self, other: Self) -> bool {
        std::ptr::eq(self.buf, other.buf)
            && self.first.max(other.first) < (self.first + self.words).min(other.first + other.words)
    }
}

/// What a kernel does with the words of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads them.
    Read,
    /// It writes them, and may read them.
    Write,
    /// It writes the words that it reads as this argument, a thread each of its words after it has read it. CUDA only: WGSL
    /// has one argument for both.
    InPlaceOf(usize),
}

/// A buffer argument of a launch.
pub struct Bind<'a, B> {
    /// What the kernel does with it.
    pub access: Access,
    /// What the kernel is given.
    pub view: View<'a, B>,
    /// What the kernel finds from `view` by distances in a table, `view` among them or not (CUDA only).
    pub reached: &'a [View<'a, B>],
}

impl<'a, B: Buffer> Bind<'a, B> {
    /// Words that the kernel reads.
    pub fn read(view: View<'a, B>) -> Self {
        Bind { access: Access::Read, view, reached: &[] }
    }

    /// Words that the kernel writes.
    pub fn write(view: View<'a, B>) -> Self {
        Bind { access: Access::Write, view, reached: &[] }
    }

    /// Words that the kernel writes, and reads as argument `read`.
    pub fn in_place_of(read: usize, view: View<'a, B>) -> Self {
        Bind { access: Access::InPlaceOf(read), view, reached: &[] }
    }

    /// Several views: the kernel is given the first, reads it, and the others by distances.
    ///
    /// # Panics
    /// When there is none.
    pub fn read_each(views: &'a [View<'a, B>]) -> Self {
        Bind { access: Access::Read, view: views[0], reached: &views[1..] }
    }

    /// As [`Bind::read_each`], written.
    ///
    /// # Panics
    /// When there is none.
    pub fn write_each(views: &'a [View<'a, B>]) -> Self {
        Bind { access: Access::Write, view: views[0], reached: &views[1..] }
    }

    /// All views, the given one first.
    pub fn views(&self) -> impl Iterator<Item = View<'a, B>> + Clone + use<'a, B> {
        std::iter::once(self.view).chain(self.reached.iter().copied())
    }

    /// Whether the kernel writes to it.
    pub fn is_written(&self) -> bool {
        self.access != Access::Read
    }
}

/// One launch: groups of `threads` threads.
pub struct Launch<'a, M, B> {
    /// Compiled for the key's parameters.
    pub module: &'a M,
    /// Function of the source.
    pub entry: &'static str,
    /// Groups in each dimension, `[x, y, z]`. No group is no launch.
    pub groups: [u32; 3],
    /// Threads of a group, in one dimension.
    pub threads: u32,
    /// Shared memory of a group whose size is not in the source, in bytes (CUDA only).
    pub shared_bytes: u32,
    /// Groups, neighbours in x, that run together and may synchronise (CUDA only); 1: none. On cards without clusters all groups
    /// of the launch do, and must fit on the card at once.
    pub cluster: u32,
    /// Buffers, in the order of the entry's arguments. In WGSL bindings 0, 1, ... of group 0.
    pub bind: Vec<Bind<'a, B>>,
    /// Words after the buffers. In WGSL the `args` at the binding after the last buffer.
    pub args: Vec<u32>,
}

impl<M, B: Buffer> Launch<'_, M, B> {
    /// What every door checks before it starts a kernel.
    ///
    /// # Errors
    /// [`Error::Device`] when the card does not take so many groups or threads.
    ///
    /// # Panics
    /// When a view is not within its buffer, empty, or not aligned; when views of two arguments overlap, one of them is written,
    /// and that is not declared; when a cluster is not whole. In WGSL, also when one buffer is both read and written, or more
    /// is declared than WGSL has words for. The card would not see these mistakes.
    pub fn check(&self, card: &Card) -> Result<()> {
        let Launch { entry, groups, threads, cluster, .. } = self;
        if groups.iter().zip(card.groups_max).any(|(groups, most)| *groups > most) || *threads > card.threads_max {
            let (groups_max, threads_max) = (card.groups_max, card.threads_max);
            return Err(Error::Device(format!(
                "{entry}: {groups:?} groups of {threads} threads, of which {groups_max:?} and {threads_max} are the most"
            )));
        }
        assert!(*cluster <= 1 || groups[0].is_multiple_of(*cluster), "{entry}: {groups:?} groups in {cluster}s");
        for (at, bind) in self.bind.iter().enumerate() {
            for view in bind.views() {
                let View { first, words, buf } = view;
                assert!(words > 0 && first + words <= buf.words(), "{entry}, argument {at}: words {:?}", view.range());
                assert!(first.is_multiple_of(card.alignment_words as usize), "{entry}, argument {at}: word {first}");
            }
            assert!(card.language == Language::Cuda || bind.reached.is_empty(), "{entry}: WGSL knows no addresses");
        }
        for (at, bind) in self.bind.iter().enumerate() {
            for (other_at, other) in self.bind.iter().enumerate() {
                if bind.is_written() && at != other_at {
                    self.check_pair(card.language, (at, bind), (other_at, other));
                }
            }
        }
        Ok(())
    }

    /// Of a written argument and another one.
    fn check_pair(&self, language: Language, (at, written): (usize, &Bind<B>), (other_at, other): (usize, &Bind<B>)) {
        let entry = self.entry;
        let declared = |bind: &Bind<B>, of: usize| bind.access == Access::InPlaceOf(of);
        if declared(written, other_at) || declared(other, at) {
            assert!(language == Language::Cuda, "{entry}: WGSL has one argument for what is read and written");
            let alone = written.reached.is_empty() && other.reached.is_empty();
            assert!(alone && written.view.is_same(other.view), "{entry}: {at} is not in place of {other_at}");
            return;
        }
        for view in written.views() {
            for seen in other.views() {
                assert!(
                    !view.overlaps(seen),
                    "{entry}: {at} is written and overlaps {other_at}, which is not declared"
                );
                let both = language == Language::Wgsl && !other.is_written() && std::ptr::eq(view.buf, seen.buf);
                assert!(!both, "{entry}: WGSL cannot read and write one buffer, {at} and {other_at}, in one launch");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    struct Words(usize);

    impl Buffer for Words {
        fn words(&self) -> usize {
            self.0
        }
    }

    fn card(language: Language) -> Card {
        Card {
            backend: "check".into(),
            name: "check".into(),
            memory_bytes: 1 << 20,
            language,
            threads_max: 256,
            shared_bytes_max: 1 << 14,
            groups_max: [100, 10, 5],
            buffer_bytes_max: 1 << 20,
            alignment_words: 64,
            multiprocessors: 1,
            compute_capability: None,
            loop_turns_max: None,
            wide_integers: true,
        }
    }

    fn launch<'a>(groups: [u32; 3], bind: Vec<Bind<'a, Words>>) -> Launch<'a, (), Words> {
        Launch { module: &(), entry: "check", groups, threads: 64, shared_bytes: 0, cluster: 1, bind, args: Vec::new() }
    }

    /// Whether a launch of these arguments is taken.
    fn taken(language: Language, bind: Vec<Bind<'_, Words>>) -> bool {
        let check = || launch([1; 3], bind).check(&card(language)).expect("one group");
        catch_unwind(AssertUnwindSafe(check)).is_ok()
    }

    #[test]
    fn each_dimension_has_its_bound() {
        let card = card(Language::Wgsl);
        assert_eq!(launch([100, 10, 5], vec![]).check(&card), Ok(()));
        for groups in [[101, 1, 1], [1, 11, 1], [1, 1, 6]] {
            assert!(matches!(launch(groups, vec![]).check(&card), Err(Error::Device(_))), "{groups:?}");
        }
    }

    #[test]
    fn views_lie_within_their_buffer_and_are_aligned() {
        let buf = Words(256);
        let bound = |first, words| taken(Language::Cuda, vec![Bind::read(View { buf: &buf, first, words })]);
        assert!(bound(0, 256) && bound(192, 64) && bound(64, 1));
        assert!(!bound(0, 257) && !bound(256, 1) && !bound(0, 0) && !bound(32, 64));
        assert_eq!(View::all(&buf).part(64..256).part(64..128).range(), 128..192);
    }

    #[test]
    fn what_is_written_is_an_argument_once_unless_it_is_declared() {
        let (buf, other) = (Words(256), Words(256));
        let [low, high] = [0..128, 128..256].map(|range| View::all(&buf).part(range));
        let both = [Language::Cuda, Language::Wgsl];
        for language in both {
            assert!(taken(language, vec![Bind::read(low), Bind::read(low)]), "reads overlap");
            assert!(taken(language, vec![Bind::write(low), Bind::write(high)]), "writes do not overlap");
            assert!(taken(language, vec![Bind::read(low), Bind::write(View::all(&other))]), "two buffers");
            assert!(!taken(language, vec![Bind::write(low), Bind::write(low)]), "writes overlap");
            assert!(!taken(language, vec![Bind::read(View::all(&buf)), Bind::write(high)]), "a read overlaps");
        }
        // of one buffer, WGSL reads all or writes all
        assert_eq!(both.map(|language| taken(language, vec![Bind::read(low), Bind::write(high)])), [true, false]);
        let in_place = |language| taken(language, vec![Bind::read(low), Bind::in_place_of(0, low)]);
        assert_eq!(both.map(in_place), [true, false]);
        assert!(!taken(Language::Cuda, vec![Bind::read(low), Bind::in_place_of(0, high)]), "another range");
        let declared_of_another = vec![Bind::read(low), Bind::read(high), Bind::in_place_of(1, low)];
        assert!(!taken(Language::Cuda, declared_of_another));
    }

    #[test]
    fn what_is_reached_by_distances_is_checked_too() {
        let (buf, other) = (Words(256), Words(256));
        let [low, high] = [0..128, 128..256].map(|range| View::all(&buf).part(range));
        let views = [View::all(&other), low];
        assert!(taken(Language::Cuda, vec![Bind::read_each(&views), Bind::write(high)]));
        assert!(!taken(Language::Cuda, vec![Bind::read_each(&views), Bind::write(low)]));
        assert!(!taken(Language::Cuda, vec![Bind::write_each(&views), Bind::read(low)]));
        assert!(!taken(Language::Wgsl, vec![Bind::read_each(&views)]));
    }
}
