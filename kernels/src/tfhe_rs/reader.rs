//! A cursor over bincode's plain layout. The reader allocates nothing and checks every length against the remaining
//! bytes.

use crate::bytes::Error;
use crate::tfhe::masks::TfheRsSeed;

/// Reads values from the front of the unread bytes.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The number of unread bytes.
    pub(super) fn remaining(&self) -> usize {
        self.0.len()
    }

    /// Returns the unread bytes.
    pub(super) fn rest(self) -> &'a [u8] {
        self.0
    }

    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (head, tail) = self.0.split_at_checked(count).ok_or_else(truncated)?;
        self.0 = tail;
        Ok(head)
    }

    fn array<const SIZE: usize>(&mut self) -> Result<[u8; SIZE], Error> {
        let (head, tail) = self.0.split_first_chunk().ok_or_else(truncated)?;
        self.0 = tail;
        Ok(*head)
    }

    pub(super) fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn u128(&mut self) -> Result<u128, Error> {
        self.array().map(u128::from_le_bytes)
    }

    /// Reads a `usize` that must be below 2^16. All valid sizes, bases and levels are below this bound, and products of
    /// several such numbers do not overflow.
    pub(super) fn small(&mut self, what: &'static str) -> Result<usize, Error> {
        let value = self.u64()?;
        u16::try_from(value).map(usize::from).map_err(|_| Error::Malformed(format!("{what} is out of range")))
    }

    /// Reads a vector of words without converting its bytes.
    pub(super) fn words(&mut self) -> Result<Words<'a>, Error> {
        let count = self.u64()?;
        let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4)).ok_or_else(truncated)?;
        self.bytes(bytes).map(Words)
    }

    /// Reads the seed of a mask stream, in either layout. A modulus follows every seed, and the place of the modulus
    /// shows which layout the seed has.
    pub(super) fn seed(&mut self) -> Result<TfheRsSeed, Error> {
        let mut bare = *self;
        if let Ok(key) = bare.u128()
            && bare.modulus().is_ok()
        {
            *self = Self(&self.0[16..]);
            return Ok(TfheRsSeed { key, first_byte: 1 });
        }
        if self.u32()? != 0 {
            return Err(Error::Params("masks must come from the AES-CTR generator under a plain seed".into()));
        }
        let (key, block, byte) = (self.u128()?, self.u128()?, self.u64()?);
        match u8::try_from(byte) {
            Ok(first_byte @ 0..16) if block == 0 => Ok(TfheRsSeed { key, first_byte }),
            _ => Err(Error::Params("masks must begin in the first block of their generator".into())),
        }
    }

    /// Reads the ciphertext modulus, which must be the native modulus 2^32.
    pub(super) fn modulus(&mut self) -> Result<(), Error> {
        match (self.u128()?, self.u64()?) {
            (0, 32) => Ok(()),
            _ => Err(Error::Params("the ciphertext modulus must be 2^32".into())),
        }
    }

    /// Checks that no bytes are left.
    pub(super) fn end(self) -> Result<(), Error> {
        if self.0.is_empty() { Ok(()) } else { Err(Error::Malformed("the object is followed by further bytes".into())) }
    }
}

/// Words as little-endian bytes.
#[derive(Clone, Copy)]
pub(super) struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    /// The number of words.
    pub(super) fn len(self) -> usize {
        self.0.len() / 4
    }

    pub(super) fn iter(self) -> impl Iterator<Item = u32> + 'a {
        self.0.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
    }

    /// Splits the words into pieces of `size` words, in order. `size` must be above 0. A shorter last piece is left
    /// out.
    pub(super) fn chunks(self, size: usize) -> impl DoubleEndedIterator<Item = Words<'a>> {
        self.0.chunks_exact(4 * size).map(Words)
    }
}

fn truncated() -> Error {
    Error::Malformed("the object ends before its last field".into())
}
