//! The content of a message of work: where the API node's internal listener is, the token with which the worker calls it, and
//! the work itself, unless it is so large that the worker fetches it.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::super::octets::{NotWork, split, with_head};

/// Work up to this size is in the message. Larger work is fetched, because a broker's disk and memory are no way for large
/// bytes.
pub const INLINE_BYTES_MAX: usize = 64 << 10;

/// How a worker calls the API node that asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Callback {
    /// Base URL of the internal listener.
    pub url: String,
    /// Gives access to this request alone.
    pub token: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    callback: Callback,
    /// Whether the work is behind the head.
    inline: bool,
}

/// Writes the content of a message.
pub fn write(callback: Callback, work: &[u8]) -> Bytes {
    let inline = work.len() <= INLINE_BYTES_MAX;
    with_head(&Head { callback, inline }, if inline { work } else { &[] }).into()
}

/// Reads the content of a message. `None` in place of the work: the worker must fetch it.
///
/// # Errors
/// When the bytes are no content.
pub fn read(bytes: &[u8]) -> Result<(Callback, Option<&[u8]>), NotWork> {
    let (Head { callback, inline }, mut behind): (Head, _) = split(bytes)?;
    let work = behind.rest();
    Ok((callback, inline.then_some(work)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_in_the_message_unless_it_is_large() {
        let callback = Callback { url: "http://10.0.0.1:9465".to_owned(), token: "t".to_owned() };
        let large = vec![1; INLINE_BYTES_MAX + 1];
        for (work, inline) in [(&large[1..], true), (&large[..], false)] {
            let written = write(callback.clone(), work);
            assert_eq!(read(&written).unwrap(), (callback.clone(), inline.then_some(work)));
        }
        assert!(read(b"").is_err() && read(&[0; 8]).is_err());
    }
}
