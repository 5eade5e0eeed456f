//! The fresh encryptions from which a ciphertext was computed. Ciphertexts without a common source have independent
//! errors.
//!
//! Every encryption draws new noise. The words of two fresh encryptions are independent and uniform. Rounding errors and
//! errors of key switches depend on these words only, so they are uncorrelated as well. Errors that depend on the
//! encrypted numbers are not, so the operations that cause such errors leave unknown sources.

/// Largest number of sources that are told apart. A ciphertext of more sources counts as one of unknown sources.
pub const SOURCES_MAX: usize = 32;

/// A set of fresh encryptions, or unknown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// Names in ascending order, then zeros.
    names: [u32; SOURCES_MAX],
    /// Number of names. `None`: unknown.
    count: Option<u8>,
}

impl Sources {
    /// Any ciphertext may be a source.
    pub const UNKNOWN: Sources = Sources { names: [0; SOURCES_MAX], count: None };

    /// The source of a fresh encryption whose mask has this seed. If two seeds have the same name, their ciphertexts
    /// count as dependent.
    pub fn of_seed(seed: &[u8; 32]) -> Sources {
        let mut names = [0; SOURCES_MAX];
        names[0] = u32::from_le_bytes([seed[0], seed[1], seed[2], seed[3]]);
        Sources { names, count: Some(1) }
    }

    /// The sources of a ciphertext that was computed from ciphertexts of these sources.
    pub fn union(self, other: Sources) -> Sources {
        let (Some(own), Some(others)) = (self.names(), other.names()) else { return Sources::UNKNOWN };
        let mut all = [own, others].concat();
        all.sort_unstable();
        all.dedup();
        Sources::of_names(&all)
    }

    /// Whether no ciphertext can be a source of both.
    pub fn are_disjoint(self, other: Sources) -> bool {
        match (self.names(), other.names()) {
            (Some(own), Some(others)) => own.iter().all(|name| others.binary_search(name).is_err()),
            _ => false,
        }
    }

    /// The names as bytes, four for each. `None`: unknown.
    pub fn to_bytes(self) -> Option<Vec<u8>> {
        self.names().map(|names| names.iter().flat_map(|name| name.to_le_bytes()).collect())
    }

    /// Reads what [`Sources::to_bytes`] wrote. Anything else counts as unknown.
    pub fn from_bytes(bytes: Option<&[u8]>) -> Sources {
        let (names, rest) = bytes.unwrap_or_default().as_chunks::<4>();
        let names: Vec<u32> = names.iter().map(|name| u32::from_le_bytes(*name)).collect();
        let is_whole = rest.is_empty() && !names.is_empty() && names.is_sorted_by(|a, b| a < b);
        if is_whole { Sources::of_names(&names) } else { Sources::UNKNOWN }
    }

    /// `names` are in ascending order.
    fn of_names(names: &[u32]) -> Sources {
        let mut kept = [0; SOURCES_MAX];
        match kept.get_mut(..names.len()) {
            Some(room) => room.copy_from_slice(names),
            None => return Sources::UNKNOWN,
        }
        Sources { names: kept, count: Some(names.len() as u8) }
    }

    fn names(&self) -> Option<&[u32]> {
        self.count.map(|count| &self.names[..usize::from(count)])
    }
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.names().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(first: u8) -> Sources {
        Sources::of_seed(&[first; 32])
    }

    #[test]
    fn only_ciphertexts_without_a_common_source_are_disjoint() {
        let (a, b, c) = (fresh(3), fresh(1), fresh(2));
        assert!(a.are_disjoint(b) && !a.are_disjoint(a));
        let ab = a.union(b);
        assert_eq!(ab, b.union(a).union(a));
        assert!(ab.are_disjoint(c) && !ab.are_disjoint(b) && !a.are_disjoint(ab));
        for other in [a, ab, Sources::UNKNOWN] {
            assert!(!Sources::UNKNOWN.are_disjoint(other) && !other.are_disjoint(Sources::UNKNOWN));
            assert_eq!(other.union(Sources::UNKNOWN), Sources::UNKNOWN);
        }
    }

    #[test]
    fn more_sources_than_the_bound_are_unknown() {
        let of = |count: u8| (1..=count).map(fresh).reduce(Sources::union).unwrap();
        assert!(of(SOURCES_MAX as u8).are_disjoint(fresh(200)));
        assert_eq!(of(SOURCES_MAX as u8 + 1), Sources::UNKNOWN);
        assert_eq!(of(20).union((15..45).map(fresh).reduce(Sources::union).unwrap()), Sources::UNKNOWN);
    }

    #[test]
    fn bytes_are_read_back_and_other_bytes_are_unknown() {
        let three = fresh(3).union(fresh(1)).union(fresh(2));
        for sources in [fresh(0), three, Sources::UNKNOWN] {
            assert_eq!(Sources::from_bytes(sources.to_bytes().as_deref()), sources);
        }
        let written = three.to_bytes().unwrap();
        assert_eq!(written.len(), 12);
        let repeated = [&written[..4], &written[..4]].concat();
        for wrong in [&written[..5], &written[4..12].iter().rev().copied().collect::<Vec<u8>>(), &repeated, &[]] {
            assert_eq!(Sources::from_bytes(Some(wrong)), Sources::UNKNOWN);
        }
        assert_eq!(Sources::from_bytes(Some(&[7; 4 * (SOURCES_MAX + 1)])), Sources::UNKNOWN);
    }
}
