//! A budget for each scarce resource of a node (bodies, keys, values, cores), with shares for accounts and for all
//! trials together.
//!
//! *Memory* (bytes of bodies, keys, values): all trials together hold at most a tenth. If the largest upload needs more
//! than a tenth, all trials together may hold as much as that upload needs, so that trials can open both kinds of
//! session. An account takes more than half only while a tenth stays free, or while no other account holds anything.
//!
//! *Turns* (cores): while other requests wait, all trials together use at most a tenth of the cores (at least one) and
//! a tenth of the time, and an account uses at most half of the cores (at least one). While no other account waits, one
//! account may use all cores.
//!
//! Waiting requests do not block each other. Every request that fits is granted. Requests of the account that was
//! served least recently come first.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use api::AccountId;
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The share of all trials together is one part in this many.
const TRIALS_PART: u64 = 10;
/// Limit of the trials' balance, in microseconds. The balance says how far trials are ahead of or behind their share of
/// contended turns. The limit keeps old imbalances from counting.
const BALANCE_MAX_US: i64 = 1_000_000;

/// The account, or the caller without a key, that a grant counts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Payer {
    /// The account. `None`: a caller without a key.
    account: Option<AccountId>,
    is_trial: bool,
}

impl Payer {
    /// Makes the payer for an account with a plan.
    pub fn account(account: AccountId) -> Payer {
        Payer { account: Some(account), is_trial: false }
    }

    /// Makes the payer for a trial.
    pub fn trial(account: AccountId) -> Payer {
        Payer { account: Some(account), is_trial: true }
    }

    /// Makes the payer for a caller without a key. Such callers have one share together with the trials.
    pub fn without_key() -> Payer {
        Payer { account: None, is_trial: true }
    }
}

/// A bounded resource that payers share. Clones share its counts.
#[derive(Clone, Debug)]
pub struct Resource {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    kind: Kind,
    total: u64,
    /// Bound on all trials together.
    trials_max: u64,
    /// Bound on one account while other accounts hold something.
    account_max: u64,
    /// Amount that an account above `account_max` must leave free.
    reserve: u64,
    books: Mutex<Books>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Memory,
    Turns,
}

#[derive(Debug, Default)]
struct Books {
    used: u64,
    used_by_trials: u64,
    /// The accounts that hold a grant or wait for one.
    accounts: HashMap<Option<AccountId>, AccountUse>,
    waiting: Vec<WaitingRequest>,
    /// Number of waiting requests that are neither a trial's nor a keyless caller's.
    others_waiting: usize,
    tickets: u64,
    /// Microseconds of contended turns that the trials are owed. Negative: the trials had too many turns.
    trials_balance_us: i64,
}

#[derive(Debug, Default)]
struct AccountUse {
    used: u64,
    waiting: usize,
    /// The ticket of the account's last grant.
    served: u64,
}

#[derive(Debug)]
struct WaitingRequest {
    ticket: u64,
    payer: Payer,
    amount: u64,
    tell: oneshot::Sender<Grant>,
}

/// Why a request is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotGranted {
    /// Others hold the amount now; it may be granted later.
    NotNow,
    /// The amount is more than this payer may ever have.
    TooMuch,
}

/// A granted amount, given back on drop.
#[derive(Debug)]
pub struct Grant {
    resource: Resource,
    payer: Payer,
    amount: u64,
    since: Instant,
    /// Whether requests of trials and other requests were both waiting when this amount was granted.
    contended: bool,
}

impl Resource {
    /// Creates a resource of bytes. `largest`: the largest upload, which trials may have even if it is more than a
    /// tenth.
    pub fn memory(bytes: u64, largest: u64) -> Resource {
        let trials_max = (bytes / TRIALS_PART).max(largest).min(bytes);
        Resource::new(Kind::Memory, bytes, trials_max, bytes / 2)
    }

    /// Creates a resource of turns, one for each of this many cores.
    pub fn turns(cores: u64) -> Resource {
        Resource::new(Kind::Turns, cores, (cores / TRIALS_PART).max(1), (cores / 2).max(1))
    }

    fn new(kind: Kind, total: u64, trials_max: u64, account_max: u64) -> Resource {
        let (reserve, books) = (total / TRIALS_PART, Mutex::default());
        Resource { inner: Arc::new(Inner { kind, total, trials_max, account_max, reserve, books }) }
    }

    /// Returns the whole amount.
    pub fn total(&self) -> u64 {
        self.inner.total
    }

    /// Returns the amount in use now.
    pub fn used(&self) -> u64 {
        self.inner.books.lock().used
    }

    /// Returns the largest amount that this payer can ever hold.
    pub fn most(&self, payer: &Payer) -> u64 {
        match (self.inner.kind, payer.is_trial) {
            (Kind::Memory, true) => self.inner.trials_max,
            _ => self.inner.total,
        }
    }

    /// Takes `amount` if it is free now.
    pub fn try_take(&self, payer: &Payer, amount: u64) -> Result<Grant, NotGranted> {
        if amount > self.most(payer) {
            return Err(NotGranted::TooMuch);
        }
        let mut books = self.inner.books.lock();
        if self.fits(&books, payer, amount) {
            Ok(self.grant(&mut books, payer.clone(), amount, false))
        } else {
            Err(NotGranted::NotNow)
        }
    }

    /// Waits until `amount` is free, and takes it.
    pub async fn take(&self, payer: &Payer, amount: u64) -> Result<Grant, NotGranted> {
        if amount > self.most(payer) {
            return Err(NotGranted::TooMuch);
        }
        let (ticket, granted) = {
            let mut books = self.inner.books.lock();
            if self.fits(&books, payer, amount) {
                return Ok(self.grant(&mut books, payer.clone(), amount, false));
            }
            let (tell, granted) = oneshot::channel();
            books.tickets += 1;
            let ticket = books.tickets;
            books.enter(WaitingRequest { ticket, payer: payer.clone(), amount, tell });
            (ticket, granted)
        };
        // if the caller drops this future, the guard removes the request from the list
        let _leaving = Leaving { resource: self, ticket };
        granted.await.map_err(|_| NotGranted::NotNow)
    }

    /// Like [`Resource::take`], but waits at most `patience`.
    pub async fn take_within(&self, payer: &Payer, amount: u64, patience: Duration) -> Result<Grant, NotGranted> {
        tokio::time::timeout(patience, self.take(payer, amount)).await.unwrap_or(Err(NotGranted::NotNow))
    }

    /// Whether the shares permit this amount now.
    fn fits(&self, books: &Books, payer: &Payer, amount: u64) -> bool {
        let Inner { kind, total, trials_max, account_max, reserve, .. } = *self.inner;
        let (held, own_waiting) =
            books.accounts.get(&payer.account).map_or((0, 0), |account| (account.used, account.waiting));
        let after = books.used + amount;
        let trials_fit = !payer.is_trial || books.used_by_trials + amount <= trials_max;
        // all callers without a key share one entry, so the bound on one account does not apply to them
        let account_fits = payer.account.is_none() || held + amount <= account_max;
        after <= total
            && match kind {
                Kind::Memory => trials_fit && (account_fits || after + reserve <= total || books.used == held),
                Kind::Turns => {
                    (trials_fit || books.others_waiting == 0) && (account_fits || books.waiting.len() == own_waiting)
                }
            }
    }

    fn grant(&self, books: &mut Books, payer: Payer, amount: u64, contended: bool) -> Grant {
        books.tickets += 1;
        books.used += amount;
        books.used_by_trials += if payer.is_trial { amount } else { 0 };
        let ticket = books.tickets;
        let account = books.accounts.entry(payer.account.clone()).or_default();
        account.used += amount;
        account.served = ticket;
        Grant { resource: self.clone(), payer, amount, since: Instant::now(), contended }
    }

    /// Grants waiting requests until none fits.
    fn serve(&self) {
        loop {
            let (tell, share) = {
                let mut books = self.inner.books.lock();
                let Some((index, contended)) = self.next(&books) else { return };
                let WaitingRequest { payer, amount, tell, .. } = books.leave(index);
                (tell, self.grant(&mut books, payer, amount, contended))
            };
            // if the caller has just left, `send` returns the share; dropping it here, outside the lock, gives the
            // grant back
            drop(tell.send(share));
        }
    }

    /// Chooses the next request to grant. Also returns whether trials and others compete for the grant.
    fn next(&self, books: &Books) -> Option<(usize, bool)> {
        let both_wait = (1..books.waiting.len()).contains(&books.others_waiting);
        let contended = self.inner.kind == Kind::Turns && both_wait;
        let trials_first = !contended || books.trials_balance_us >= 0;
        let fitting = books.waiting.iter().enumerate();
        let fitting = fitting.filter(|(_, waiting)| self.fits(books, &waiting.payer, waiting.amount));
        let next = fitting.min_by_key(|(_, waiting)| {
            let served = books.accounts.get(&waiting.payer.account).map_or(0, |account| account.served);
            (contended && waiting.payer.is_trial != trials_first, served, waiting.ticket)
        });
        next.map(|(index, _)| (index, contended))
    }
}

impl Books {
    fn enter(&mut self, waiting: WaitingRequest) {
        self.accounts.entry(waiting.payer.account.clone()).or_default().waiting += 1;
        self.others_waiting += usize::from(!waiting.payer.is_trial);
        self.waiting.push(waiting);
    }

    fn leave(&mut self, index: usize) -> WaitingRequest {
        let left = self.waiting.swap_remove(index);
        self.others_waiting -= usize::from(!left.payer.is_trial);
        self.account(&left.payer).waiting -= 1;
        left
    }

    fn account(&mut self, payer: &Payer) -> &mut AccountUse {
        self.accounts.get_mut(&payer.account).expect("an account that holds or waits is on the books")
    }

    fn forget_if_idle(&mut self, payer: &Payer) {
        let AccountUse { used, waiting, .. } = *self.account(payer);
        if used == 0 && waiting == 0 {
            self.accounts.remove(&payer.account);
        }
    }
}

/// Removes a waiting request from the list on drop, however the wait ends.
struct Leaving<'b> {
    resource: &'b Resource,
    ticket: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        {
            let mut books = self.resource.inner.books.lock();
            let Some(index) = books.waiting.iter().position(|waiting| waiting.ticket == self.ticket) else { return };
            let left = books.leave(index);
            books.forget_if_idle(&left.payer);
        }
        // other requests may fit now that this request has left
        self.resource.serve();
    }
}

impl Grant {
    /// The granted amount.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Splits off a part, at most the whole, as a separate grant.
    pub fn split(&mut self, amount: u64) -> Grant {
        let amount = amount.min(self.amount);
        self.amount -= amount;
        let Grant { resource, payer, since, contended, .. } = &*self;
        Grant { resource: resource.clone(), payer: payer.clone(), amount, since: *since, contended: *contended }
    }

    /// Adds another grant of the same resource and payer.
    pub fn join(&mut self, mut other: Grant) {
        self.amount += std::mem::take(&mut other.amount);
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        if self.amount == 0 {
            return;
        }
        {
            let mut books = self.resource.inner.books.lock();
            books.used -= self.amount;
            books.account(&self.payer).used -= self.amount;
            if self.payer.is_trial {
                books.used_by_trials -= self.amount;
            }
            if self.contended {
                let held = i64::try_from(self.since.elapsed().as_micros()).unwrap_or(BALANCE_MAX_US);
                let owed = if self.payer.is_trial { -held } else { held / (TRIALS_PART as i64 - 1) };
                books.trials_balance_us = (books.trials_balance_us + owed).clamp(-BALANCE_MAX_US, BALANCE_MAX_US);
            }
            books.forget_if_idle(&self.payer);
        }
        self.resource.serve();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(number: u128) -> Payer {
        Payer::account(AccountId::from_bits(number))
    }

    fn trial(number: u128) -> Payer {
        Payer::trial(AccountId::from_bits(number))
    }

    #[test]
    fn all_trials_together_hold_a_tenth_of_the_memory_and_at_least_one_largest_upload() {
        let resource = Resource::memory(1000, 40);
        let held: Vec<_> = (0..10).map(|number| resource.try_take(&trial(number), 10).unwrap()).collect();
        // 140 more trials get nothing, because all trials together share one tenth
        for number in 10..150 {
            assert_eq!(resource.try_take(&trial(number), 10).unwrap_err(), NotGranted::NotNow);
        }
        assert_eq!(resource.try_take(&Payer::without_key(), 1).unwrap_err(), NotGranted::NotNow);
        assert_eq!((resource.used(), resource.most(&trial(0)), resource.most(&account(0))), (100, 100, 1000));
        assert!(resource.try_take(&account(1), 800).is_ok());
        drop(held);
        assert_eq!(resource.used(), 0);
        assert!(resource.inner.books.lock().accounts.is_empty());
        // if a tenth is less than the largest upload, the trials may still hold one largest upload
        let small = Resource::memory(100, 40);
        assert!(small.try_take(&trial(1), 40).is_ok());
        assert_eq!(small.try_take(&trial(1), 41).unwrap_err(), NotGranted::TooMuch);
    }

    #[test]
    fn an_account_beyond_half_of_the_memory_leaves_a_reserve_to_others() {
        let resource = Resource::memory(1000, 40);
        let other = resource.try_take(&account(2), 10).unwrap();
        let held: Vec<_> = (0..8).map(|_| resource.try_take(&account(1), 100).unwrap()).collect();
        assert_eq!(resource.try_take(&account(1), 100).unwrap_err(), NotGranted::NotNow);
        assert!(resource.try_take(&account(2), 100).is_ok());
        assert!(resource.try_take(&trial(3), 100).is_ok());
        drop((held, other));
        // a request for the whole resource is granted while no other account holds anything
        assert!(resource.try_take(&account(1), 1000).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_cannot_be_granted_blocks_no_other() {
        let resource = Resource::memory(1000, 40);
        let held = resource.try_take(&account(1), 500).unwrap();
        let large = tokio::spawn({
            let resource = resource.clone();
            async move { resource.take(&account(2), 600).await }
        });
        tokio::task::yield_now().await;
        let small = resource.take_within(&account(3), 400, Duration::from_secs(5)).await.unwrap();
        // a request that times out leaves the list of waiting requests and holds nothing
        assert_eq!(
            resource.take_within(&account(4), 600, Duration::from_secs(5)).await.unwrap_err(),
            NotGranted::NotNow
        );
        assert_eq!(resource.inner.books.lock().waiting.len(), 1);
        drop((held, small));
        assert_eq!(large.await.unwrap().unwrap().amount(), 600);
        assert_eq!(resource.used(), 0);
    }

    /// Lets these payers compete for a second, with turns of a millisecond. Returns the number of turns that trials
    /// got, and the number of turns that others got.
    async fn contend(resource: &Resource, payers: &[Payer]) -> (usize, usize) {
        let turns = payers.iter().map(|payer| {
            let (resource, payer) = (resource.clone(), payer.clone());
            tokio::spawn(async move {
                let until = Instant::now() + Duration::from_secs(1);
                let mut turns = 0;
                while Instant::now() < until {
                    let turn = resource.take(&payer, 1).await.unwrap();
                    // do not count a turn that was granted after the end of the test
                    turns += usize::from(Instant::now() < until);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    drop(turn);
                }
                (payer.is_trial, turns)
            })
        });
        let (mut trials, mut others) = (0, 0);
        for turns in turns.collect::<Vec<_>>() {
            match turns.await.unwrap() {
                (true, turns) => trials += turns,
                (false, turns) => others += turns,
            }
        }
        (trials, others)
    }

    #[tokio::test(start_paused = true)]
    async fn while_others_wait_all_trials_together_get_a_tenth_of_the_time() {
        for cores in [1, 2, 8] {
            let resource = Resource::turns(cores);
            let crowd: Vec<_> = (0..30).map(trial).chain((200..210).map(account)).collect();
            let (trials, others) = contend(&resource, &crowd).await;
            assert!(trials * 8 < others, "{cores} cores: {trials} turns of trials, {others} of others");
            assert!(trials * 20 > others, "{cores} cores: {trials} turns of trials, {others} of others");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_no_one_else_waits_trials_use_every_core() {
        let resource = Resource::turns(4);
        let held: Vec<_> = (0..4).map(|number| resource.try_take(&trial(number), 1).unwrap()).collect();
        assert_eq!(resource.used(), 4);
        drop(held);
    }

    #[tokio::test(start_paused = true)]
    async fn an_account_with_much_to_do_takes_turns_with_one_that_has_little() {
        let resource = Resource::turns(1);
        let crowd = [vec![account(1); 20], vec![account(2)]].concat();
        let busy = contend(&resource, &crowd);
        let alone = async {
            tokio::task::yield_now().await;
            let started = Instant::now();
            for _ in 0..100 {
                let turn = resource.take(&account(3), 1).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
                drop(turn);
            }
            started.elapsed()
        };
        let (_, took) = tokio::join!(busy, alone);
        // before each of its 100 turns, account 3 waits for at most one turn of each other account
        assert!(took <= Duration::from_millis(400), "{took:?}");
    }
}
