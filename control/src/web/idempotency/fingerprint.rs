//! The SHA-256 of a request's raw body (readings I2). The hash is computed as the body is read, because a body of 40 MB
//! must not be in memory twice.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use crate::web::body::Pieces;
use crate::web::error::ApiError;

/// Largest number of bytes of a body that are hashed. This is more than any route accepts.
const BYTES_MAX: usize = 128 << 20;

/// The hash of a body that is being read. Clones share the same hash.
#[derive(Clone, Default)]
pub struct Fingerprint {
    passing: Arc<Mutex<Passing>>,
}

#[derive(Default)]
struct Passing {
    hasher: Sha256,
    ended: bool,
}

impl Fingerprint {
    /// Wraps the body so that it is hashed as it is read.
    pub fn watch(&self, body: Body) -> Watched {
        self.passing.lock().ended = body.is_end_stream();
        Watched { body, fingerprint: self.clone() }
    }

    /// Returns the hash. `None`: the body was not read to its end, so the handler had no effect.
    pub fn whole(&self) -> Option<[u8; 32]> {
        let passing = self.passing.lock();
        passing.ended.then(|| passing.hasher.clone().finalize().into())
    }
}

/// A body that is hashed as it is read.
pub struct Watched {
    body: Body,
    fingerprint: Fingerprint,
}

impl HttpBody for Watched {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        let mut passing = self.fingerprint.passing.lock();
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let Some(data) = frame.data_ref() {
                    passing.hasher.update(data);
                }
                passing.ended = self.body.is_end_stream();
            }
            Poll::Ready(None) => passing.ended = true,
            Poll::Ready(Some(Err(_))) | Poll::Pending => {}
        }
        drop(passing);
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Reads a body only to hash it. Returns the hash.
pub async fn fingerprint_of(body: Body) -> Result<[u8; 32], ApiError> {
    let mut pieces = Pieces::new(body, BYTES_MAX)?;
    let mut hasher = Sha256::new();
    while let Some(piece) = pieces.next().await? {
        hasher.update(&piece);
    }
    Ok(hasher.finalize().into())
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    fn pieces() -> Body {
        Body::from_stream(futures_util::stream::iter(["ab", "", "c"].map(Ok::<_, axum::Error>)))
    }

    #[tokio::test]
    async fn a_body_s_hash_is_known_when_all_of_it_was_read() {
        let fingerprint = Fingerprint::default();
        let mut watched = fingerprint.watch(pieces());
        assert_eq!(fingerprint.whole(), None);
        watched.frame().await.unwrap().unwrap();
        assert_eq!(fingerprint.whole(), None);
        assert_eq!(watched.collect().await.unwrap().to_bytes(), "c");
        // the example "abc" of FIPS 180
        assert_eq!(fingerprint.whole().unwrap()[..4], [0xba, 0x78, 0x16, 0xbf]);
        assert_eq!(fingerprint_of(pieces()).await.unwrap(), fingerprint.whole().unwrap());
    }

    #[tokio::test]
    async fn an_empty_body_is_read_to_its_end_by_whoever_ignores_it() {
        let fingerprint = Fingerprint::default();
        let _watched = fingerprint.watch(Body::empty());
        assert_eq!(fingerprint.whole(), Some(fingerprint_of(Body::empty()).await.unwrap()));
    }
}
