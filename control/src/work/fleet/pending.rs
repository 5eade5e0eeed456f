//! The requests of an API node that wait for workers, by their tokens. A token gives access to one request alone: the worker
//! fetches the request's operands once, reads the request's key, and returns the request's end once.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::super::key::KeyName;
use crate::ids;

/// The requests that wait.
#[derive(Default)]
pub struct Pending {
    /// By SHA-256 of the token, so that the time of a look-up says nothing about tokens.
    list: Mutex<HashMap<[u8; 32], Request>>,
}

struct Request {
    id: String,
    key: KeyName,
    work: Bytes,
    fetched: bool,
}

/// The tokens of one request. They are of no use any more when this value is dropped.
pub struct Tokens {
    pending: Arc<Pending>,
    id: String,
    key: KeyName,
    work: Bytes,
    made: Mutex<Vec<[u8; 32]>>,
}

/// Why a worker gets nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No request that waits has this token.
    Unknown,
    /// The operands were fetched before with this token.
    Spent,
}

impl Pending {
    /// Begins a request, whose work has these bytes.
    pub fn begin(self: &Arc<Self>, id: String, key: KeyName, work: Bytes) -> Tokens {
        Tokens { pending: self.clone(), id, key, work, made: Mutex::default() }
    }

    /// Returns the operands of a request, the first time.
    ///
    /// # Errors
    /// When the token is unknown or spent.
    pub fn fetch(&self, token: &str) -> Result<Bytes, Refused> {
        let mut list = self.list.lock();
        let request = list.get_mut(&digest(token)).ok_or(Refused::Unknown)?;
        match std::mem::replace(&mut request.fetched, true) {
            false => Ok(request.work.clone()),
            true => Err(Refused::Spent),
        }
    }

    /// Returns the key of a request.
    pub fn key(&self, token: &str) -> Option<KeyName> {
        self.list.lock().get(&digest(token)).map(|request| request.key)
    }

    /// Returns the id of a request.
    pub fn id(&self, token: &str) -> Option<String> {
        self.list.lock().get(&digest(token)).map(|request| request.id.clone())
    }

    /// Takes a request's token for its end. Returns the request's id, the first time.
    pub fn end(&self, token: &str) -> Option<String> {
        self.list.lock().remove(&digest(token)).map(|request| request.id)
    }
}

impl Tokens {
    /// Makes a token for one message of the request. The tokens of earlier messages stay of use, because their worker may
    /// still answer.
    pub fn new_token(&self) -> String {
        let token = hex::encode(ids::random::<16>());
        let request = Request { id: self.id.clone(), key: self.key, work: self.work.clone(), fetched: false };
        self.pending.list.lock().insert(digest(&token), request);
        self.made.lock().push(digest(&token));
        token
    }
}

impl Drop for Tokens {
    fn drop(&mut self) {
        let mut list = self.pending.list.lock();
        self.made.lock().iter().for_each(|token| drop(list.remove(token)));
    }
}

fn digest(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_gives_access_to_its_request_once_until_the_request_ends() {
        let pending = Arc::new(Pending::default());
        let key = KeyName::of_label(&format!("s{}", "0".repeat(64))).unwrap();
        let tokens = pending.begin("one".to_owned(), key, Bytes::from_static(b"work"));
        let other = pending.begin("other".to_owned(), key, Bytes::from_static(b"other"));
        let [first, again] = [(); 2].map(|()| tokens.new_token());
        assert_ne!(first, again);
        assert_eq!(pending.fetch(&first), Ok(Bytes::from_static(b"work")));
        assert_eq!(pending.fetch(&first), Err(Refused::Spent));
        assert_eq!(pending.fetch(&other.new_token()), Ok(Bytes::from_static(b"other")));
        assert_eq!((pending.fetch("guess"), pending.key("guess")), (Err(Refused::Unknown), None));
        assert_eq!((pending.end(&first), pending.end(&first)), (Some("one".to_owned()), None));
        // the second message's token is of use until the request ends
        assert_eq!(pending.key(&again), Some(key));
        drop(tokens);
        assert_eq!((pending.key(&again), pending.end(&again)), (None, None));
        drop(other);
        assert!(pending.list.lock().is_empty());
    }
}
