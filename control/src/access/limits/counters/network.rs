//! Requests of a day without a key, counted by the caller's network.
//!
//! The API nodes of a fleet share a network's limit of a day through the database. A flood from many networks must neither
//! occupy nor fill the database. So a node admits the first sixteenth of the limit alone, without a word to the database. Then
//! it takes further sixteenths from a row that all nodes share ([`store::Store::take_units`]), and asks for one network at a
//! time. So all nodes together admit the limit and a sixteenth for each node. While the database does not answer, or answers
//! about another network, the node counts alone, with the same limit (readings L10). The row is removed when its day is over.
//!
//! Months are counted by each node alone, and so are days on nodes that are in no fleet.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::timeout;

use super::count::Count;
use super::{Counters, LimitReached, Subject};
use crate::access::limits::period::Period;
use crate::caller::{PlanLimits, UNLIMITED};
use crate::clock::Timestamp;

/// A limit consists of this many shares.
const SHARES: i64 = 16;
/// Longest time that a request waits for the database.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long a node counts a network alone after the database has not answered.
const ALONE: Duration = Duration::from_secs(1);

/// Whether nodes share the limits of networks.
pub enum Networks {
    /// Each node counts alone.
    OfNode,
    /// The nodes of a fleet share the limits. The lock is held while the database is asked.
    OfFleet(AsyncMutex<()>),
}

/// The database's answer to a node that asked for units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    /// The units of the day are used.
    Used,
    /// No answer came in time, or the node asks for another network.
    Missing,
}

/// Units that a node asks for.
struct Ask {
    /// Units that the node has used and not told.
    untold: i64,
    limit: i64,
    period: Period,
}

impl Networks {
    /// The limits of networks on the nodes of a fleet.
    pub fn of_fleet() -> Networks {
        Networks::OfFleet(AsyncMutex::default())
    }
}

impl Count {
    fn share(&self) -> i64 {
        self.limits[0] / SHARES
    }

    /// Takes units that this node may use without the database. `None`: the node must ask the database.
    fn take_of_network(&mut self, units: i64, now: Timestamp) -> Option<Result<Period, LimitReached>> {
        let is_own = self.reserve >= units || self.untold[0] + units <= self.share();
        let is_reached = self.used()[0] + units > self.limits[0];
        let counts_alone = self.limits[0] >= UNLIMITED as i64 || now.is_near(self.alone_since, ALONE);
        (is_own || is_reached || counts_alone).then(|| self.take_alone(units).map(|()| self.period))
    }

    fn ask(&self) -> Ask {
        Ask { untold: self.untold[0], limit: self.limits[0], period: self.period }
    }

    /// Applies the database's answer, which counts `used` units of all nodes: the units of the question, which the node had
    /// used, and `more` units for later requests.
    fn granted(&mut self, ask: &Ask, more: i64, used: i64) {
        if self.period.day == ask.period.day {
            self.shared[0] = used;
            self.untold[0] -= ask.untold;
            self.reserve += more;
            // the month has no row in the database, so the units of the reserve are not used yet
            self.untold[1] += more;
        }
    }

    /// Notes that all units of the day are used. Units that are given back later can be used.
    fn used_up(&mut self, ask: &Ask) {
        if self.period.day == ask.period.day {
            let missing = self.limits[0] - self.used()[0];
            self.shared[0] += missing.max(0);
        }
    }
}

impl Counters {
    /// Takes units for a caller without a key.
    pub async fn take_of_network(
        self: &Arc<Self>,
        subject: &Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<Period, LimitReached> {
        let taken = self.at_request(subject, limits, now, |count| {
            count.local = true;
            match self.networks {
                Networks::OfNode => Some(count.take_alone(units).map(|()| count.period)),
                Networks::OfFleet(_) => count.take_of_network(units, now),
            }
        });
        if let Some(taken) = taken.unwrap_or(Some(Ok(Period::of(now)))) {
            return taken;
        }
        let settling = self.on_count(subject, |count| count.settling.clone());
        let Some(settling) = settling else { return Ok(Period::of(now)) };
        // one request asks, and the others of this network wait
        let _turn = settling.lock().await;
        if let Some(taken) = self.on_count(subject, |count| count.take_of_network(units, now)).flatten() {
            return taken;
        }
        // a separate task: the node must learn the units that it was granted even if the client leaves
        let asked = tokio::spawn(self.clone().ask_for_network(subject.clone(), units, now)).await;
        let taken = self.on_count(subject, |count| match asked {
            Ok(Answer::Used) => Err(count.reached(units)),
            Ok(Answer::Granted | Answer::Missing) | Err(_) => count.take_alone(units).map(|()| count.period),
        });
        taken.unwrap_or(Ok(Period::of(now)))
    }

    async fn ask_for_network(self: Arc<Self>, subject: Subject, units: i64, now: Timestamp) -> Answer {
        let Networks::OfFleet(turn) = &self.networks else { return Answer::Missing };
        let Ok(_turn) = turn.try_lock() else { return Answer::Missing };
        let found = self.on_count(&subject, |count| (count.ask(), count.share()));
        let Some((ask, share)) = found else { return Answer::Missing };
        let (name, until) = (format!("{subject}@{}", ask.period.day), ask.period.day_reset_s() as i64 * 1_000_000);
        // at the end of the day fewer units than a share are left
        let mut wanted = vec![share.max(units), units];
        wanted.dedup();
        for more in wanted {
            let asking = self.store.take_units(&name, ask.untold + more, ask.limit, until);
            let answer = match timeout(PATIENCE, asking).await {
                Ok(answer) => answer.map_err(|error| error.to_string()),
                Err(late) => Err(late.to_string()),
            };
            match answer {
                Ok(Some(used)) => {
                    self.on_count(&subject, |count| count.granted(&ask, more, used));
                    return Answer::Granted;
                }
                Ok(None) => {}
                Err(cause) => {
                    tracing::warn!(cause, "this node counts a network alone: the database does not answer");
                    self.on_count(&subject, |count| count.alone_since = now);
                    return Answer::Missing;
                }
            }
        }
        self.on_count(&subject, |count| count.used_up(&ask));
        Answer::Used
    }

    fn on_count<T>(&self, subject: &Subject, act: impl FnOnce(&mut Count) -> T) -> Option<T> {
        self.counts.lock().get_mut(subject).map(act)
    }
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::*;
    use crate::caller::PlanTable;

    const NOW: Timestamp = Timestamp(1_700_000_000_000_000);
    const LIMIT: u64 = 160;

    /// Counters of two nodes on one database.
    async fn pair(folder: &std::path::Path) -> (Store, [Arc<Counters>; 2]) {
        let store = Store::open(&format!("sqlite:{}", folder.join("test.db").display())).await.unwrap();
        let counters = [(); 2].map(|()| Arc::new(Counters::new(store.clone(), Networks::of_fleet())));
        (store, counters)
    }

    async fn take(counters: &Arc<Counters>, now: Timestamp) -> Result<Period, LimitReached> {
        let limits = PlanLimits { requests_a_day: LIMIT, requests_a_month: 10_000, ..PlanTable::default().anonymous };
        counters.take_of_network(&"addr_1".into(), limits, 1, now).await
    }

    #[tokio::test]
    async fn l1_two_nodes_admit_a_network_s_limit_of_a_day_and_a_sixteenth_each() {
        let folder = tempfile::tempdir().unwrap();
        let (_store, counters) = pair(folder.path()).await;
        let day = Duration::from_secs(24 * 3600);
        for now in [NOW, NOW.plus(day)] {
            let mut passed = [0; 2];
            for turn in 0..2 * LIMIT as usize {
                passed[turn % 2] += u64::from(take(&counters[turn % 2], now).await.is_ok());
            }
            let passed = passed.iter().sum::<u64>();
            assert!((LIMIT..=LIMIT + 2 * (LIMIT / 16)).contains(&passed), "{passed}");
            // the headers show that nothing is left
            assert!(counters.iter().all(|counters| counters.used(&"addr_1".into(), now).day >= LIMIT));
        }
    }

    #[tokio::test]
    async fn l1_one_node_admits_exactly_the_limit_and_units_that_were_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let (_store, [one, _]) = pair(folder.path()).await;
        let mut last = None;
        for _ in 0..LIMIT {
            last = Some(take(&one, NOW).await.unwrap());
        }
        assert_eq!(take(&one, NOW).await, Err(LimitReached::Day));
        one.give_back(&"addr_1".into(), 1, last.unwrap(), NOW);
        assert!(take(&one, NOW).await.is_ok() && take(&one, NOW).await.is_err());
        let used = one.used(&"addr_1".into(), NOW);
        assert_eq!((used.day, used.month), (LIMIT, LIMIT));
        // the month goes on with the next day
        let tomorrow = NOW.plus(Duration::from_secs(24 * 3600));
        assert!(take(&one, tomorrow).await.is_ok());
        let used = one.used(&"addr_1".into(), tomorrow);
        assert_eq!((used.day, used.month), (1, LIMIT + 1));
    }

    #[tokio::test]
    async fn a_network_with_few_requests_writes_nothing_and_a_node_without_its_database_counts_alone() {
        let folder = tempfile::tempdir().unwrap();
        let (store, [one, other]) = pair(folder.path()).await;
        for _ in 0..LIMIT / 16 {
            take(&one, NOW).await.unwrap();
        }
        // the row would have had the first units too
        assert_eq!(store.take_units("addr_1@19675", 1, 160, 5).await.unwrap(), Some(1));
        store.close().await;
        let mut passed = 0;
        for _ in 0..2 * LIMIT {
            passed += u64::from(take(&other, NOW).await.is_ok());
        }
        assert_eq!(passed, LIMIT);
    }
}
