//! Counts what is being done, so that a node can wait for it before it stops.

use std::sync::Arc;

use tokio::sync::watch;

/// The count. Clones count together.
#[derive(Clone, Debug)]
pub struct InFlight {
    count: Arc<watch::Sender<usize>>,
}

/// One thing being done; done when dropped.
#[derive(Debug)]
pub struct Guard {
    count: Arc<watch::Sender<usize>>,
}

impl InFlight {
    /// Nothing is being done.
    pub fn new() -> Self {
        Self { count: Arc::new(watch::Sender::new(0)) }
    }

    /// Counts one more until the guard is dropped.
    pub fn enter(&self) -> Guard {
        self.count.send_modify(|count| *count += 1);
        Guard { count: self.count.clone() }
    }

    /// Waits until nothing is being done.
    pub async fn idle(&self) {
        let mut count = self.count.subscribe();
        // cannot fail: self holds the sender
        let _ = count.wait_for(|&count| count == 0).await;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count -= 1);
    }
}
