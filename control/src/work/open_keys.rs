//! The keys that a worker has open, by name. However many requests need a key at the same time, it is opened once. A
//! name that is closed while its key opens does not become open.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;

use engine::OnErased;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::key::KeyName;
use crate::web::error::ApiError;

/// A key that is open for work.
pub(super) trait OpenedKey: Send + Sync + 'static {
    /// Closes the key, and calls `erased` when the key's memory is overwritten. A key may be closed more than once.
    fn close(&self, erased: OnErased);
}

/// Why a key is not open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotOpen {
    /// The engine refused the key. [`engine::Error::Gone`]: the name means no key, or was closed.
    Refused(engine::Error),
    /// The key at rest could not be found or read.
    NotFound(ApiError),
}

impl From<engine::Error> for NotOpen {
    fn from(error: engine::Error) -> NotOpen {
        NotOpen::Refused(error)
    }
}

impl From<ApiError> for NotOpen {
    fn from(error: ApiError) -> NotOpen {
        NotOpen::NotFound(error)
    }
}

/// The open keys.
pub(super) struct OpenKeys<K> {
    slots: Mutex<HashMap<KeyName, Slot<K>>>,
}

enum Slot<K> {
    /// A task opens the key.
    Opening(Opening<K>),
    /// The key is open.
    Open(Arc<K>),
    /// The key was closed, and its memory is not overwritten yet.
    Closing(Arc<K>),
}

type Outcome<K> = Result<Arc<K>, NotOpen>;

struct Opening<K> {
    outcome: watch::Receiver<Option<Outcome<K>>>,
    /// The listeners of the callers that closed the name while the key opens.
    closed: Option<Vec<OnErased>>,
}

impl<K: OpenedKey> OpenKeys<K> {
    /// Starts with no open key.
    pub fn new() -> Arc<OpenKeys<K>> {
        Arc::new(OpenKeys { slots: Mutex::default() })
    }

    /// Returns the key of this name, if it is open.
    pub fn get(&self, name: &KeyName) -> Option<Arc<K>> {
        match self.slots.lock().get(name) {
            Some(Slot::Open(key)) => Some(key.clone()),
            _ => None,
        }
    }

    /// Returns the open key of this name. If the key is not open, `open` opens it in a separate task, which goes on
    /// if this caller no longer waits.
    ///
    /// # Errors
    /// The error of `open`, for all that wait for the key; that the key is gone, if the name was closed meanwhile.
    pub async fn get_or_open<F>(self: &Arc<Self>, name: KeyName, open: impl FnOnce() -> F) -> Outcome<K>
    where
        F: Future<Output = Result<K, NotOpen>> + Send + 'static,
    {
        let mut outcome = {
            let mut slots = self.slots.lock();
            match slots.get(&name) {
                Some(Slot::Open(key)) => return Ok(key.clone()),
                Some(Slot::Opening(Opening { closed: Some(_), .. })) => return Err(gone()),
                Some(Slot::Opening(opening)) => opening.outcome.clone(),
                // a key at rest may be opened again while its former memory is overwritten
                Some(Slot::Closing(_)) | None => {
                    let (tell, outcome) = watch::channel(None);
                    slots.insert(name, Slot::Opening(Opening { outcome: outcome.clone(), closed: None }));
                    let (keys, opening) = (self.clone(), tokio::spawn(open()));
                    tokio::spawn(async move {
                        let opened = opening.await.unwrap_or_else(|error| Err(ApiError::internal(error).into()));
                        tell.send_replace(Some(keys.opened(name, opened)));
                    });
                    outcome
                }
            }
        };
        match outcome.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(outcome)) => outcome.clone(),
            // the process stops
            _ => Err(engine::Error::ShuttingDown.into()),
        }
    }

    /// Puts an opened key into its slot, unless the name was closed meanwhile.
    fn opened(self: &Arc<Self>, name: KeyName, opened: Result<K, NotOpen>) -> Outcome<K> {
        let opened = opened.map(Arc::new);
        let mut slots = self.slots.lock();
        let closed = match slots.remove(&name) {
            Some(Slot::Opening(opening)) => opening.closed,
            _ => Some(Vec::new()),
        };
        let Some(listeners) = closed else {
            if let Ok(key) = &opened {
                slots.insert(name, Slot::Open(key.clone()));
            }
            return opened;
        };
        let erased = move || listeners.into_iter().for_each(|erased| erased());
        match opened {
            Ok(key) => {
                slots.insert(name, Slot::Closing(key.clone()));
                drop(slots);
                self.overwrite(name, &key, Box::new(erased));
            }
            Err(_) => {
                drop(slots);
                erased();
            }
        }
        Err(gone())
    }

    /// Closes the key of this name and calls `erased` when the key's memory is overwritten. If the key is being opened,
    /// it is closed as soon as it is open, and no request receives it. A name may be closed more than once.
    pub fn close(self: &Arc<Self>, name: KeyName, erased: OnErased) {
        let mut slots = self.slots.lock();
        let key = match slots.get_mut(&name) {
            None => None,
            Some(Slot::Opening(opening)) => return opening.closed.get_or_insert_default().push(erased),
            Some(slot @ Slot::Open(_)) => closing(slot),
            Some(Slot::Closing(key)) => Some(key.clone()),
        };
        drop(slots);
        match key {
            None => erased(),
            Some(key) => self.overwrite(name, &key, erased),
        }
    }

    /// Closes the open keys that `wanted` chooses.
    pub fn close_those(self: &Arc<Self>, wanted: impl Fn(&KeyName, &Arc<K>) -> bool) {
        let mut slots = self.slots.lock();
        let chosen = slots.iter_mut().filter_map(|(name, slot)| match slot {
            Slot::Open(key) if wanted(name, key) => closing(slot).map(|key| (*name, key)),
            _ => None,
        });
        let chosen: Vec<_> = chosen.collect();
        drop(slots);
        for (name, key) in chosen {
            self.overwrite(name, &key, Box::new(|| {}));
        }
    }

    /// Returns the names of the keys that are open or being opened.
    pub fn names(&self) -> Vec<KeyName> {
        let slots = self.slots.lock();
        slots.iter().filter(|(_, slot)| !matches!(slot, Slot::Closing(_))).map(|(name, _)| *name).collect()
    }

    /// Closes a key and empties its slot when the key's memory is overwritten.
    fn overwrite(self: &Arc<Self>, name: KeyName, key: &Arc<K>, erased: OnErased) {
        let (keys, closed) = (Arc::downgrade(self), Arc::downgrade(key));
        key.close(Box::new(move || {
            if let Some(keys) = keys.upgrade() {
                let mut slots = keys.slots.lock();
                // the slot may have another key of this name by now
                if matches!(slots.get(&name), Some(Slot::Closing(key)) if std::ptr::eq(Arc::as_ptr(key), closed.as_ptr())) {
                    slots.remove(&name);
                }
            }
            erased();
        }));
    }
}

/// Marks the key of an open slot as closing and returns the key.
fn closing<K>(slot: &mut Slot<K>) -> Option<Arc<K>> {
    let Slot::Open(key) = slot else { return None };
    let key = key.clone();
    *slot = Slot::Closing(key.clone());
    Some(key)
}

fn gone() -> NotOpen {
    engine::Error::Gone.into()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::sync::Semaphore;

    use super::*;
    use crate::work::key::{AccountDigest, RestingId};

    /// A key that tells that it is overwritten when the test calls [`Fakes::erase`].
    struct Fake {
        closing: Arc<Mutex<Vec<OnErased>>>,
    }

    impl OpenedKey for Fake {
        fn close(&self, erased: OnErased) {
            self.closing.lock().push(erased);
        }
    }

    struct Fakes {
        keys: Arc<OpenKeys<Fake>>,
        opened: AtomicUsize,
        may_open: Arc<Semaphore>,
        closing: Arc<Mutex<Vec<OnErased>>>,
    }

    impl Fakes {
        fn new() -> Fakes {
            let (opened, closing) = Default::default();
            Fakes { keys: OpenKeys::new(), opened, may_open: Arc::new(Semaphore::new(0)), closing }
        }

        /// Asks for a key, which opens or fails once [`Fakes::let_open`] was called.
        fn ask(&self, number: u128, error: Option<NotOpen>) -> impl Future<Output = Outcome<Fake>> {
            self.keys.get_or_open(name(number), move || {
                self.opened.fetch_add(1, Ordering::Relaxed);
                let (may_open, closing) = (self.may_open.clone(), self.closing.clone());
                async move {
                    may_open.acquire().await.expect("open").forget();
                    error.map_or(Ok(Fake { closing }), Err)
                }
            })
        }

        fn let_open(&self) {
            self.may_open.add_permits(1);
        }

        /// Overwrites the keys that were closed. Returns how many listeners were told.
        fn erase(&self) -> usize {
            let closing = std::mem::take(&mut *self.closing.lock());
            closing.into_iter().map(|erased| erased()).count()
        }

        /// Closes a name and counts in `told` when the key is overwritten.
        fn close(&self, number: u128, told: &Arc<AtomicUsize>) {
            let told = told.clone();
            let erased = move || {
                told.fetch_add(1, Ordering::Relaxed);
            };
            self.keys.close(name(number), Box::new(erased));
        }
    }

    fn name(number: u128) -> KeyName {
        KeyName { account: AccountDigest(1), key: RestingId::Session(number) }
    }

    #[tokio::test]
    async fn requests_at_the_same_time_open_a_key_once() {
        let fakes = Fakes::new();
        fakes.let_open();
        let (first, second) = tokio::join!(fakes.ask(1, None), fakes.ask(1, None));
        assert!(Arc::ptr_eq(&first.unwrap(), &second.ok().unwrap()));
        assert!(fakes.keys.get(&name(1)).is_some() && fakes.ask(1, None).await.is_ok());
        assert_eq!(fakes.opened.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn a_failure_is_told_to_all_that_wait_and_the_next_request_tries_again() {
        let (fakes, error) = (Fakes::new(), NotOpen::Refused(engine::Error::Key("broken".to_owned())));
        fakes.let_open();
        let (first, second) = tokio::join!(fakes.ask(1, Some(error.clone())), fakes.ask(1, None));
        assert_eq!((first.err(), second.err()), (Some(error.clone()), Some(error)));
        assert!(fakes.keys.names().is_empty());
        fakes.let_open();
        assert!(fakes.ask(1, None).await.is_ok());
    }

    #[tokio::test]
    async fn an_opening_goes_on_when_its_request_leaves() {
        let fakes = Fakes::new();
        let mut leaves = Box::pin(fakes.ask(1, None));
        assert!(futures_util::poll!(&mut leaves).is_pending());
        drop(leaves);
        fakes.let_open();
        assert!(fakes.ask(1, None).await.is_ok());
        assert_eq!(fakes.opened.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn g3_a_name_that_is_closed_while_its_key_opens_does_not_become_open() {
        let (fakes, told) = (Fakes::new(), Arc::default());
        let mut waits = Box::pin(fakes.ask(1, None));
        assert!(futures_util::poll!(&mut waits).is_pending());
        fakes.close(1, &told);
        fakes.close(1, &told);
        // a request does not wait for a key whose name was closed
        assert_eq!(fakes.ask(1, None).await.err(), Some(gone()));
        fakes.let_open();
        assert_eq!(waits.await.err(), Some(gone()));
        assert!(fakes.keys.get(&name(1)).is_none() && fakes.keys.names().is_empty());
        assert_eq!(told.load(Ordering::Relaxed), 0);
        assert_eq!(fakes.erase(), 1);
        assert_eq!((told.load(Ordering::Relaxed), fakes.opened.load(Ordering::Relaxed)), (2, 1));
        assert!(fakes.keys.slots.lock().is_empty());
    }

    #[tokio::test]
    async fn an_opening_that_fails_after_its_name_was_closed_leaves_nothing() {
        let (fakes, told) = (Fakes::new(), Arc::default());
        let mut waits = Box::pin(fakes.ask(1, Some(gone())));
        assert!(futures_util::poll!(&mut waits).is_pending());
        fakes.close(1, &told);
        fakes.let_open();
        assert_eq!(waits.await.err(), Some(gone()));
        assert_eq!((told.load(Ordering::Relaxed), fakes.erase()), (1, 0));
        assert!(fakes.keys.slots.lock().is_empty());
    }

    #[tokio::test]
    async fn a_key_is_closed_twice_and_each_close_hears_of_the_erasure() {
        let (fakes, told) = (Fakes::new(), Arc::default());
        fakes.close(1, &told);
        assert_eq!(told.load(Ordering::Relaxed), 1, "no such key: nothing is to be overwritten");
        fakes.let_open();
        fakes.ask(1, None).await.ok().unwrap();
        fakes.close(1, &told);
        fakes.close(1, &told);
        assert!(fakes.keys.get(&name(1)).is_none());
        assert_eq!(told.load(Ordering::Relaxed), 1);
        fakes.erase();
        assert_eq!(told.load(Ordering::Relaxed), 3);
        assert!(fakes.keys.slots.lock().is_empty());
    }

    #[tokio::test]
    async fn a_key_at_rest_is_opened_again_while_its_former_memory_is_overwritten() {
        let (fakes, told) = (Fakes::new(), Arc::default());
        (0..2).for_each(|_| fakes.let_open());
        let former = fakes.ask(1, None).await.ok().unwrap();
        fakes.keys.close_those(|_, key| Arc::ptr_eq(key, &former));
        let next = fakes.ask(1, None).await.ok().unwrap();
        assert!(!Arc::ptr_eq(&former, &next));
        // the end of the former key leaves the next one in its slot
        assert_eq!(fakes.erase(), 1);
        assert!(fakes.keys.get(&name(1)).is_some());
        fakes.close(1, &told);
        assert_eq!((fakes.erase(), told.load(Ordering::Relaxed)), (1, 1));
    }
}
