//! Counts running work, so that a node can wait for it before it stops.

use std::sync::Arc;

use tokio::sync::watch;

/// The count of running work. Clones share the count.
#[derive(Clone, Debug)]
pub struct InFlight {
    count: Arc<watch::Sender<usize>>,
}

/// One piece of running work. When the guard is dropped, the work no longer counts as running.
#[derive(Debug)]
pub struct Guard {
    count: Arc<watch::Sender<usize>>,
}

impl InFlight {
    /// Creates a count of zero.
    pub fn new() -> Self {
        Self { count: Arc::new(watch::Sender::new(0)) }
    }

    /// Counts one more piece of work until the guard is dropped.
    pub fn enter(&self) -> Guard {
        self.count.send_modify(|count| *count += 1);
        Guard { count: self.count.clone() }
    }

    /// Waits until no work is running.
    pub async fn idle(&self) {
        let mut count = self.count.subscribe();
        // this wait cannot fail, because self holds the sender
        let _ = count.wait_for(|&count| count == 0).await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}
