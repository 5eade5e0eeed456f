//! A launch as data: a kernel, its groups, its buffer arguments and its words.

use std::ops::Range;

use super::{Language, Properties};
use crate::error::{Error, Result};

/// Words in a card's memory.
pub trait Buffer: Send + Sync {
    /// The number of words. Words of a reserved buffer count even without memory ([`super::Gpu::reserve`]).
    fn words(&self) -> usize;

    /// Overwrites a range of words with zeros, after all work that was started before. A failure shows in the card's
    /// next call.
    fn clear(&self, range: Range<usize>);
}

/// A range of words of a buffer. A bound view starts at a multiple of [`Properties::alignment_words`].
pub struct View<'a, B> {
    /// The buffer.
    pub buf: &'a B,
    /// The first word.
    pub first: usize,
    /// The number of words.
    pub words: usize,
}

impl<B> Clone for View<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for View<'_, B> {}

impl<B> View<'_, B> {
    /// Returns the range of the view's words in the buffer.
    pub fn range(self) -> Range<usize> {
        self.first..self.first + self.words
    }
}

impl<'a, B: Buffer> View<'a, B> {
    /// Makes a view of all words of a buffer.
    pub fn all(buf: &'a B) -> Self {
        View { buf, first: 0, words: buf.words() }
    }

    /// Makes a view of a part of this view. `range` counts from the start of this view.
    ///
    /// # Panics
    /// When the range is outside the view.
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

/// How a kernel accesses the words of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// The kernel reads the words.
    Read,
    /// The kernel writes the words, and may read them.
    Write,
    /// The kernel reads the same words through the argument with this index. Each thread writes its words after it has
    /// read them. CUDA only, because a WGSL kernel reads and writes the words through one argument.
    InPlaceOf(usize),
}

/// A part of a segment that a launch touches: some ranges of a buffer, which the kernel gets whole.
pub struct Touched<'a, B> {
    /// The segment.
    pub buf: &'a B,
    /// The ranges of words that tables name.
    pub ranges: &'a [Range<usize>],
}

impl<B> Clone for Touched<'_, B> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<B> Copy for Touched<'_, B> {}

/// A buffer argument of a launch.
pub struct Bind<'a, B> {
    /// How the kernel accesses the argument.
    pub access: Access,
    /// The view that the kernel gets.
    pub view: View<'a, B>,
    /// The ranges of the buffer that the kernel touches, if tables name them; else the kernel may touch the whole view.
    /// Two launches that differ only in these ranges are the same launch for a card.
    pub touched: Option<&'a [Range<usize>]>,
}

impl<'a, B: Buffer> Bind<'a, B> {
    /// Makes an argument that the kernel reads.
    pub fn read(view: View<'a, B>) -> Self {
        Bind { access: Access::Read, view, touched: None }
    }

    /// Makes an argument that the kernel writes.
    pub fn write(view: View<'a, B>) -> Self {
        Bind { access: Access::Write, view, touched: None }
    }

    /// Makes an argument that the kernel writes; the kernel reads the same words through argument `read`.
    pub fn in_place_of(read: usize, view: View<'a, B>) -> Self {
        Bind { access: Access::InPlaceOf(read), view, touched: None }
    }

    /// Makes an argument of a whole segment, of which the kernel reads the touched ranges.
    pub fn read_touched(touched: Touched<'a, B>) -> Self {
        Bind { access: Access::Read, view: View::all(touched.buf), touched: Some(touched.ranges) }
    }

    /// Makes an argument of a whole segment, of which the kernel writes the touched ranges.
    pub fn write_touched(touched: Touched<'a, B>) -> Self {
        Bind { access: Access::Write, view: View::all(touched.buf), touched: Some(touched.ranges) }
    }

    /// Lists the views that the kernel may touch.
    pub fn views(&self) -> impl Iterator<Item = View<'a, B>> + Clone + use<'a, B> {
        let View { buf, .. } = self.view;
        let whole = if self.touched.is_none() { Some(self.view) } else { None };
        let part = move |range: &Range<usize>| View { buf, first: range.start, words: range.len() };
        whole.into_iter().chain(self.touched.unwrap_or_default().iter().map(part))
    }

    /// Whether the kernel writes to the argument.
    pub fn is_written(&self) -> bool {
        self.access != Access::Read
    }
}

/// One launch: groups of `threads` threads.
pub struct Launch<'a, M, B> {
    /// The module, compiled for the key's parameters.
    pub module: &'a M,
    /// Name of the function in the source.
    pub entry: &'static str,
    /// Groups in each dimension, `[x, y, z]`. If a dimension has no group, nothing is launched.
    pub groups: [u32; 3],
    /// Number of threads in a group, in one dimension.
    pub threads: u32,
    /// Dynamic shared memory of a group, in bytes (CUDA only).
    pub shared_bytes: u32,
    /// The number of neighbouring groups in x that run together and may synchronize (CUDA only); 1 if groups do not
    /// synchronize. On cards without clusters, all groups of the launch run together, so the card must be able to run
    /// them at the same time.
    pub cluster: u32,
    /// Buffers, in the order of the entry's arguments. In WGSL these are the bindings 0, 1, ... of group 0.
    pub bind: Vec<Bind<'a, B>>,
    /// Words after the buffers. In WGSL these are the `args` at the binding after the last buffer.
    pub args: Vec<u32>,
}

impl<M, B: Buffer> Launch<'_, M, B> {
    /// Checks the launch. Every implementation calls this before it starts a kernel.
    ///
    /// # Errors
    /// [`Error::Device`] when the card does not allow this many groups or threads.
    ///
    /// # Panics
    /// When a view is outside its buffer, empty, or not aligned. When a written view overlaps a view of another
    /// argument and the launch does not declare the overlap ([`Access::InPlaceOf`]). When the last cluster is
    /// incomplete. In WGSL, also when one buffer is both read and written, or when the launch declares a feature that
    /// WGSL lacks. The card would not detect these mistakes.
    pub fn check(&self, properties: &Properties) -> Result<()> {
        let Launch { entry, groups, threads, cluster, .. } = self;
        if groups.iter().zip(properties.groups_max).any(|(groups, most)| *groups > most)
            || *threads > properties.threads_max
        {
            let (groups_max, threads_max) = (properties.groups_max, properties.threads_max);
            return Err(Error::Device(format!(
                "{entry}: {groups:?} groups of {threads} threads; at most {groups_max:?} groups of {threads_max} are allowed"
            )));
        }
        assert!(*cluster <= 1 || groups[0].is_multiple_of(*cluster), "{entry}: {groups:?} groups in {cluster}s");
        for (at, bind) in self.bind.iter().enumerate() {
            for view in bind.views() {
                let View { first, words, buf } = view;
                assert!(words > 0 && first + words <= buf.words(), "{entry}, argument {at}: words {:?}", view.range());
                assert!(
                    first.is_multiple_of(properties.alignment_words as usize),
                    "{entry}, argument {at}: word {first}"
                );
            }
        }
        for (at, bind) in self.bind.iter().enumerate() {
            for (other_at, other) in self.bind.iter().enumerate() {
                if bind.is_written() && at != other_at {
                    self.check_pair(properties.language, (at, bind), (other_at, other));
                }
            }
        }
        Ok(())
    }

    /// Checks a written argument against another argument.
    fn check_pair(&self, language: Language, (at, written): (usize, &Bind<B>), (other_at, other): (usize, &Bind<B>)) {
        let entry = self.entry;
        let declared = |bind: &Bind<B>, of: usize| bind.access == Access::InPlaceOf(of);
        if declared(written, other_at) || declared(other, at) {
            assert!(language == Language::Cuda, "{entry}: WGSL has one argument for what is read and written");
            let alone = written.touched.is_none() && other.touched.is_none();
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

        fn clear(&self, _range: Range<usize>) {}
    }

    fn properties(language: Language) -> Properties {
        Properties {
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

    /// Whether a launch with these arguments passes [`Launch::check`].
    fn taken(language: Language, bind: Vec<Bind<'_, Words>>) -> bool {
        let check = || launch([1; 3], bind).check(&properties(language)).expect("one group");
        catch_unwind(AssertUnwindSafe(check)).is_ok()
    }

    #[test]
    fn each_dimension_has_its_bound() {
        let properties = properties(Language::Wgsl);
        assert_eq!(launch([100, 10, 5], vec![]).check(&properties), Ok(()));
        for groups in [[101, 1, 1], [1, 11, 1], [1, 1, 6]] {
            assert!(matches!(launch(groups, vec![]).check(&properties), Err(Error::Device(_))), "{groups:?}");
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
        // a WGSL launch may read a buffer through two arguments, or write it through two, but not read and write it
        assert_eq!(both.map(|language| taken(language, vec![Bind::read(low), Bind::write(high)])), [true, false]);
        let in_place = |language| taken(language, vec![Bind::read(low), Bind::in_place_of(0, low)]);
        assert_eq!(both.map(in_place), [true, false]);
        assert!(!taken(Language::Cuda, vec![Bind::read(low), Bind::in_place_of(0, high)]), "another range");
        let declared_of_another = vec![Bind::read(low), Bind::read(high), Bind::in_place_of(1, low)];
        assert!(!taken(Language::Cuda, declared_of_another));
    }

    #[test]
    fn touched_ranges_are_checked_and_not_the_whole_segment() {
        let (buf, other) = (Words(256), Words(256));
        let high = View::all(&buf).part(128..256);
        let (low, all, beyond) = ([0..64, 64..128], 0..256, 192..257);
        let (all, beyond) = (std::slice::from_ref(&all), std::slice::from_ref(&beyond));
        let of = |ranges| Touched { buf: &buf, ranges };
        let both = [Language::Cuda, Language::Wgsl];
        assert!(taken(Language::Cuda, vec![Bind::read_touched(of(&low)), Bind::write(high)]));
        for language in both {
            assert!(taken(language, vec![Bind::write_touched(of(&low)), Bind::read(View::all(&other))]));
            assert!(!taken(language, vec![Bind::read_touched(of(all)), Bind::write(high)]));
            assert!(!taken(language, vec![Bind::write_touched(of(all)), Bind::read(high)]));
            assert!(!taken(language, vec![Bind::read_touched(of(beyond))]));
        }
    }
}
