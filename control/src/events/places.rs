//! Places: the attempts that a node makes at the same time. Each account has a bounded number of them, so receivers of
//! one account delay deliveries of that account, and nothing else. Receivers that did not answer at their last delivery
//! share fewer places, so the others of the same account go on, and so do new accounts.

use std::collections::HashMap;

use parking_lot::Mutex;

/// Largest number of attempts at the same time: in total, of one account, and to one webhook.
const ALL_MAX: usize = 256;
const OF_ACCOUNT_MAX: usize = 32;
const OF_WEBHOOK_MAX: usize = 16;
/// Largest number of attempts at the same time to webhooks that did not answer at their last delivery: in total, and of
/// one account.
const FAILING_MAX: usize = 128;
const FAILING_OF_ACCOUNT_MAX: usize = 24;
/// Largest number of failing webhooks that are remembered.
const REMEMBERED_MAX: usize = 4096;
/// Number of attempts from which on accounts without an attempt come first.
const CROWDED: usize = ALL_MAX / 2;

/// The attempts that run now.
#[derive(Default)]
pub struct Places {
    all: usize,
    failing: usize,
    of_account: HashMap<String, OfAccount>,
    of_webhook: HashMap<String, usize>,
    /// Webhooks that did not answer at their last delivery, and their accounts.
    fails: HashMap<String, String>,
}

#[derive(Default)]
struct OfAccount {
    all: usize,
    failing: usize,
}

/// A place. The holder gives it back with [`Places::leave`].
#[derive(Debug)]
pub struct Place {
    account: String,
    webhook: String,
    is_failing: bool,
}

impl Places {
    /// The number of free places.
    pub fn free(&self) -> usize {
        ALL_MAX - self.all
    }

    /// Whether so many attempts run that accounts without an attempt should come first.
    pub fn is_crowded(&self) -> bool {
        self.all >= CROWDED
    }

    /// Takes a place for an attempt. `None`: the account or the webhook has all its places.
    pub fn take(&mut self, account: &str, webhook: &str) -> Option<Place> {
        let is_failing = self.fails.contains_key(webhook);
        let own = self.of_account.get(account);
        let (own, own_failing) = own.map_or((0, 0), |own| (own.all, own.failing));
        let has_room = self.all < ALL_MAX
            && own < OF_ACCOUNT_MAX
            && self.of_webhook.get(webhook).is_none_or(|count| *count < OF_WEBHOOK_MAX)
            && (!is_failing || self.failing < FAILING_MAX && own_failing < FAILING_OF_ACCOUNT_MAX);
        if !has_room {
            return None;
        }
        self.all += 1;
        self.failing += usize::from(is_failing);
        let own = self.of_account.entry(account.to_owned()).or_default();
        own.all += 1;
        own.failing += usize::from(is_failing);
        *self.of_webhook.entry(webhook.to_owned()).or_default() += 1;
        Some(Place { account: account.to_owned(), webhook: webhook.to_owned(), is_failing })
    }

    /// Gives a place back, and remembers whether the receiver answered. `None`: the attempt ended without a result.
    pub fn leave(&mut self, place: Place, answered: Option<bool>) {
        let Place { account, webhook, is_failing } = place;
        self.all -= 1;
        self.failing -= usize::from(is_failing);
        if let Some(own) = self.of_account.get_mut(&account) {
            own.all -= 1;
            own.failing -= usize::from(is_failing);
            if own.all == 0 {
                self.of_account.remove(&account);
            }
        }
        if let Some(count) = self.of_webhook.get_mut(&webhook) {
            *count -= 1;
            if *count == 0 {
                self.of_webhook.remove(&webhook);
            }
        }
        match answered {
            Some(true) => {
                self.fails.remove(&webhook);
            }
            Some(false) => {
                if self.fails.len() >= REMEMBERED_MAX {
                    self.fails.clear();
                }
                self.fails.insert(webhook, account);
            }
            None => {}
        }
    }

    /// Accounts that have all their places, or with `any`, that have a place.
    pub fn busy_accounts(&self, any: bool) -> Vec<&str> {
        let least = if any { 1 } else { OF_ACCOUNT_MAX };
        self.of_account.iter().filter(|(_, own)| own.all >= least).map(|(account, _)| account.as_str()).collect()
    }

    /// Webhooks that have all their places, and the failing webhooks that share no free place.
    pub fn busy_webhooks(&self) -> Vec<&str> {
        let full = self.of_webhook.iter().filter(|(_, count)| **count >= OF_WEBHOOK_MAX).map(|(webhook, _)| webhook);
        let waits = |account: &String| {
            self.failing >= FAILING_MAX
                || self.of_account.get(account).is_some_and(|own| own.failing >= FAILING_OF_ACCOUNT_MAX)
        };
        let failing = self.fails.iter().filter(|(_, account)| waits(account)).map(|(webhook, _)| webhook);
        full.chain(failing).map(String::as_str).collect()
    }
}

/// Largest numbers of test and replay calls at the same time: in total, and of one account. Such a call makes an attempt
/// at each webhook of the account at once.
const CALLS_MAX: usize = 32;
const CALLS_OF_ACCOUNT_MAX: usize = 2;

/// The test and replay calls that run now, by account.
#[derive(Default)]
pub struct Calls(Mutex<HashMap<String, usize>>);

/// A running call. Ends when dropped.
pub struct Call<'c> {
    calls: &'c Calls,
    account: String,
}

impl Calls {
    /// Begins a call. `None`: as many calls are running as may run.
    pub fn begin(&self, account: &str) -> Option<Call<'_>> {
        let mut running = self.0.lock();
        let own = running.get(account).copied().unwrap_or_default();
        if own >= CALLS_OF_ACCOUNT_MAX || running.values().sum::<usize>() >= CALLS_MAX {
            return None;
        }
        running.insert(account.to_owned(), own + 1);
        Some(Call { calls: self, account: account.to_owned() })
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        let mut running = self.calls.0.lock();
        match running.get_mut(&self.account) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                running.remove(&self.account);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes places until none is left, and returns them.
    fn take_all(places: &mut Places, account: &str, webhooks: usize) -> Vec<Place> {
        let mut taken = Vec::new();
        for webhook in 0..webhooks {
            while let Some(place) = places.take(account, &format!("{account}_{webhook}")) {
                taken.push(place);
            }
        }
        taken
    }

    #[test]
    fn an_account_and_a_webhook_have_bounded_places_and_all_come_back() {
        let mut places = Places::default();
        assert_eq!(take_all(&mut places, "a", 1).len(), OF_WEBHOOK_MAX);
        let rest = take_all(&mut places, "a", 20);
        assert_eq!(rest.len(), OF_ACCOUNT_MAX - OF_WEBHOOK_MAX);
        assert_eq!((places.busy_accounts(false), places.busy_accounts(true)), (vec!["a"], vec!["a"]));
        assert!(places.take("b", "b_0").is_some());
        for place in rest {
            places.leave(place, None);
        }
        assert_eq!(places.free(), ALL_MAX - OF_WEBHOOK_MAX - 1);
        assert_eq!(places.busy_accounts(false), Vec::<&str>::new());
    }

    #[test]
    fn failing_receivers_of_any_number_of_accounts_leave_places_to_others() {
        let mut places = Places::default();
        let accounts: Vec<String> = (0..20).map(|number| format!("a{number}")).collect();
        // the first attempts show that the receivers do not answer
        for account in &accounts {
            for webhook in 0..20 {
                let place = places.take(account, &format!("{account}_{webhook}")).unwrap();
                places.leave(place, Some(false));
            }
        }
        let of_one = take_all(&mut places, "a0", 20);
        assert_eq!(of_one.len(), FAILING_OF_ACCOUNT_MAX);
        assert!(places.take("a0", "a0_healthy").is_some(), "another receiver of the account");
        let others: usize = accounts[1..].iter().map(|account| take_all(&mut places, account, 20).len()).sum();
        assert_eq!(of_one.len() + others, FAILING_MAX);
        assert!(places.busy_webhooks().contains(&"a7_3"));
        assert!(places.take("new", "new_0").is_some());
        // a receiver that answers again has its places again
        let place = of_one.into_iter().next().unwrap();
        let webhook = place.webhook.clone();
        places.leave(place, Some(true));
        assert!(places.take("a0", &webhook).is_some());
    }

    #[test]
    fn calls_are_bounded_by_account_and_in_total_and_end_when_dropped() {
        let calls = Calls::default();
        let own: Vec<Call<'_>> = (0..CALLS_OF_ACCOUNT_MAX).map(|_| calls.begin("a").unwrap()).collect();
        assert!(calls.begin("a").is_none() && calls.begin("b").is_some());
        drop(own);
        let many: Vec<Call<'_>> = (0..CALLS_MAX).map(|number| calls.begin(&format!("a{number}")).unwrap()).collect();
        assert!(calls.begin("b").is_none());
        drop(many);
        assert!(calls.0.lock().is_empty());
    }
}
