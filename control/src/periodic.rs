//! Periodic work of a node. Each entry of the list has a name for the log, a period and a function. Each entry runs in
//! a separate task, so no entry waits for another.
//!
//! The period is real time. A job that compares the times of records reads the clock of its area.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior};

/// Work that a node repeats until it stops.
pub struct Periodic {
    name: &'static str,
    period: Duration,
    waits_first: bool,
    woken_by: Option<Arc<Notify>>,
    is_cut_short: bool,
    work: Box<dyn Run>,
}

/// A state, and the function that each run calls with it.
trait Run: Send {
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>>;
}

impl<S: Send, F> Run for (S, F)
where
    F: for<'a> FnMut(&'a mut S) -> BoxFuture<'a, anyhow::Result<()>> + Send,
{
    fn run(&mut self) -> BoxFuture<'_, anyhow::Result<()>> {
        let (state, run) = self;
        run(state)
    }
}

impl Periodic {
    /// Work that calls `run` with `state` at once and then in every period. `period` must not be zero. A run that takes
    /// longer than the period delays the next run; runs that were missed are not made up for. An error is logged with
    /// the name, and the next run follows as always.
    pub fn new<S, F>(name: &'static str, period: Duration, state: S, run: F) -> Periodic
    where
        S: Send + 'static,
        F: for<'a> FnMut(&'a mut S) -> BoxFuture<'a, anyhow::Result<()>> + Send + 'static,
    {
        Periodic { name, period, waits_first: false, woken_by: None, is_cut_short: false, work: Box::new((state, run)) }
    }

    /// Waits for one period before the first run.
    pub fn waits_first(self) -> Periodic {
        Periodic { waits_first: true, ..self }
    }

    /// Also runs whenever `wake` is notified. A notification during a run causes another run.
    pub fn woken_by(self, wake: &Arc<Notify>) -> Periodic {
        Periodic { woken_by: Some(wake.clone()), ..self }
    }

    /// Gives up a run when the node stops, because another node or the next start repeats the step. Without this, the
    /// node waits for the run.
    pub fn cut_short(self) -> Periodic {
        Periodic { is_cut_short: true, ..self }
    }

    async fn keep(mut self, mut stopped: watch::Receiver<bool>) {
        let first = if self.waits_first { Instant::now() + self.period } else { Instant::now() };
        let mut ticks = tokio::time::interval_at(first, self.period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                // the stop comes first, so that work which is always due cannot delay the stop
                biased;
                _ = stopped.wait_for(|stopped| *stopped) => return,
                _ = ticks.tick() => {}
                () = notified(self.woken_by.as_deref()) => {}
            }
            let done = tokio::select! {
                biased;
                _ = stopped.wait_for(|stopped| *stopped), if self.is_cut_short => return,
                done = self.work.run() => done,
            };
            if let Err(error) = done {
                let cause = format!("{error:#}");
                tracing::warn!(job = self.name, cause, "periodic work failed; the node tries again in the next period");
            }
        }
    }
}

/// Waits for a notification. `None`: waits forever.
async fn notified(wake: Option<&Notify>) {
    match wake {
        Some(wake) => wake.notified().await,
        None => std::future::pending().await,
    }
}

/// Starts the tasks of a list, in the order of the list. They end when `stopped` becomes true or its sender is dropped.
pub fn start(list: Vec<Periodic>, stopped: &watch::Receiver<bool>) -> Vec<JoinHandle<()>> {
    list.into_iter().map(|work| tokio::spawn(work.keep(stopped.clone()))).collect()
}

#[cfg(test)]
mod tests {
    use anyhow::bail;
    use parking_lot::Mutex;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);

    /// The seconds after the start at which the runs of a job began.
    #[derive(Clone)]
    struct Begins {
        start: Instant,
        seconds: Arc<Mutex<Vec<u64>>>,
    }

    impl Begins {
        fn new() -> Begins {
            Begins { start: Instant::now(), seconds: Arc::default() }
        }

        /// Makes a job of which the first run takes `first_s` seconds and every other run `took_s` seconds. All runs
        /// fail.
        fn job(&self, first_s: u64, took_s: u64) -> Periodic {
            let state = (self.clone(), first_s);
            Periodic::new("job", PERIOD, state, move |(begins, takes_s)| {
                Box::pin(async move {
                    begins.seconds.lock().push(begins.start.elapsed().as_secs());
                    let takes_s = std::mem::replace(takes_s, took_s);
                    tokio::time::sleep(Duration::from_secs(takes_s)).await;
                    bail!("failed");
                })
            })
        }

        /// Runs a job for this many seconds, then stops the job. Returns the begins of the runs, and the seconds from
        /// the stop to the end of the task.
        async fn of(self, job: Periodic, seconds: u64) -> (Vec<u64>, u64) {
            let (stop, stopped) = watch::channel(false);
            let tasks = start(vec![job], &stopped);
            tokio::time::sleep_until(self.start + Duration::from_secs(seconds)).await;
            stop.send(true).unwrap();
            for task in tasks {
                task.await.unwrap();
            }
            let took = self.start.elapsed().as_secs() - seconds;
            (self.seconds.lock().clone(), took)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_runs_at_once_or_after_a_period_and_then_in_every_period() {
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(0, 4), 35).await, (vec![0, 10, 20, 30], 0));
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(0, 4).waits_first(), 35).await, (vec![10, 20, 30], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_run_delays_the_next_one_and_no_run_is_made_up_for() {
        // the tick of second 10 comes at 25, and the next tick a period later
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(25, 0), 50).await, (vec![0, 25, 35, 45], 0));
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(25, 25), 60).await, (vec![0, 25, 50], 15));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_waits_for_the_run_unless_the_run_is_cut_short() {
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(7, 7), 12).await, (vec![0, 10], 5));
        let begins = Begins::new();
        assert_eq!(begins.clone().of(begins.job(7, 7).cut_short(), 12).await, (vec![0, 10], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stop_comes_before_ticks_and_notifications_that_are_due() {
        // a tick is due at the end of every run, and each run notifies its job
        for _ in 0..50 {
            let wake = Arc::new(Notify::new());
            let (stop, stopped) = watch::channel(false);
            let runs = Arc::new(Mutex::new(0));
            let state = (wake.clone(), stop, runs.clone());
            let job = Periodic::new("job", Duration::from_millis(1), state, |(wake, stop, runs)| {
                Box::pin(async move {
                    tokio::time::sleep(Duration::from_secs(1)).await;
                    *runs.lock() += 1;
                    wake.notify_one();
                    stop.send_replace(*runs.lock() >= 2);
                    Ok(())
                })
            });
            let [task]: [_; 1] = start(vec![job.woken_by(&wake)], &stopped).try_into().unwrap();
            task.await.unwrap();
            assert_eq!(*runs.lock(), 2);
        }
        // the node stops before the first run
        let (_stop, stopped) = watch::channel(true);
        let begins = Begins::new();
        for task in start(vec![begins.job(0, 0)], &stopped) {
            task.await.unwrap();
        }
        assert!(begins.seconds.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_notification_wakes_a_job_and_moves_no_tick() {
        let wake = Arc::new(Notify::new());
        let begins = Begins::new();
        let job = begins.job(2, 2).woken_by(&wake);
        let notify = async {
            // at 3 the job is idle; at 4 the job runs, so the notification waits for the end of that run
            for second in [3, 4] {
                tokio::time::sleep_until(begins.start + Duration::from_secs(second)).await;
                wake.notify_one();
            }
        };
        let (ended, ()) = tokio::join!(begins.clone().of(job, 25), notify);
        assert_eq!(ended, (vec![0, 3, 5, 10, 20], 0));
    }

    #[tokio::test(start_paused = true)]
    async fn no_job_waits_for_another_and_a_dropped_sender_stops_all() {
        let (stop, stopped) = watch::channel(false);
        let (stuck, quick) = (Begins::new(), Begins::new());
        let tasks = start(vec![stuck.job(1 << 30, 0).cut_short(), quick.job(0, 0)], &stopped);
        tokio::time::sleep(Duration::from_secs(15)).await;
        assert_eq!((stuck.seconds.lock().clone(), quick.seconds.lock().clone()), (vec![0], vec![0, 10]));
        drop(stop);
        for task in tasks {
            task.await.unwrap();
        }
    }
}
