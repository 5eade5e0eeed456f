//! Passes what a member hears to its parts.

use std::sync::{Arc, OnceLock, Weak};
use std::time::Instant;

use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::asker::Asker;
use crate::broker::{Heard, Listener, Topic};
use crate::message::Answer;
use crate::presence::{Presence, Workers};
use crate::serving::Serving;

/// Takes news: texts that tell that records have changed.
pub type OnNews = Box<dyn Fn(Bytes) + Send + Sync>;

/// What a member hears, and who of its parts hears it. The parts are added after the connection to the broker is made,
/// because they need the connection.
#[derive(Default)]
pub struct Ears {
    /// The workers that are there.
    pub workers: Mutex<Workers>,
    asker: OnceLock<Weak<Asker>>,
    serving: OnceLock<Weak<Serving>>,
    news: RwLock<Vec<OnNews>>,
}

impl Ears {
    /// Returns the function through which the connection hears.
    pub fn listener(self: &Arc<Self>) -> Listener {
        let ears = self.clone();
        Arc::new(move |heard| ears.hear(heard))
    }

    /// Adds the part that asks workers.
    pub fn add_asker(&self, asker: &Arc<Asker>) {
        self.asker.get_or_init(|| Arc::downgrade(asker));
    }

    /// Adds the part that takes work.
    pub fn add_serving(&self, serving: &Arc<Serving>) {
        self.serving.get_or_init(|| Arc::downgrade(serving));
    }

    /// Adds a function that takes news.
    pub fn add_news(&self, news: OnNews) {
        self.news.write().push(news);
    }

    fn hear(&self, heard: Heard) {
        match heard {
            Heard::Answer(bytes) => match Answer::read(bytes) {
                Ok(answer) => {
                    if let Some(asker) = self.asker.get().and_then(Weak::upgrade) {
                        asker.hear(answer);
                    }
                }
                Err(error) => tracing::warn!(%error, "an answer is not readable"),
            },
            Heard::Told(Topic::Presence, bytes) => match Presence::read(&bytes) {
                Some(presence) => {
                    self.workers.lock().hear(presence, Instant::now());
                }
                None => tracing::warn!("the presence of a worker is not readable"),
            },
            Heard::Told(Topic::News, bytes) => {
                self.news.read().iter().for_each(|news| news(bytes.clone()));
            }
            Heard::Told(topic @ (Topic::Help | Topic::Cancel), bytes) => {
                if let Some(serving) = self.serving.get().and_then(Weak::upgrade) {
                    serving.hear(topic, &bytes);
                }
            }
        }
    }
}
