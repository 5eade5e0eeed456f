//! Rate limits (specification, Limits; readings section 3 and A20-A22): lockouts, token buckets, counts by day and
//! month, and the headers that show them.
//!
//! Every request carries a [`Quota`]. Once the caller is known, [`Limits::admit`] takes a token of the bucket and a
//! unit of the counter before the handler runs. A handler for many gates then takes one more unit for each further
//! gate. When the answer is known, `Limits::settle` gives back the units of a refused request and returns the values of
//! the headers. All of this happens in memory; the counts are written to the database a tenth of a second later.
//!
//! In addition to readings L1, requests that end with 402 or 5xx do not count. A circuit's gates count when the circuit
//! is accepted, and also if it fails or is cancelled later. Requests for health and for the pages around the API get
//! the headers but are never refused, because monitors send such requests all the time.

mod burst;
mod counters;
mod headers;
mod lockout;
mod period;
mod shares;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use api::Code;
use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use parking_lot::Mutex;
use store::{Alert, AlertKind, LockoutKind, Store};
use tokio::sync::{Notify, watch};

pub(crate) use self::counters::Subject;
use crate::access::trials;
use crate::cache_store::{CacheStore, News, Teller};
use crate::caller::{Caller, Plan, PlanLimits, PlanTable};
use crate::clock::{Clock, Timestamp};
use crate::secrets::Secrets;
use crate::web::error::ApiError;
use crate::web::peer::ClientAddress;
use burst::{Bursts, Place};
use counters::{Counters, LimitReached, Networks, UsedQuota};
use lockout::Lockouts;
use shares::{Callers, Shares};

pub use headers::RateLimitValues;
pub use lockout::Digests;
pub use period::{Period, month_start};

/// Least time between two exchanges of lockouts that news triggers, so that a flood of failures does not cause a flood
/// of exchanges.
const NEWS_PERIOD: Duration = Duration::from_millis(50);

/// The rate limits of a node.
pub struct Limits {
    clock: Clock,
    plans: PlanTable,
    bursts: Bursts,
    counters: Arc<Counters>,
    lockouts: Lockouts,
    digests: Digests,
    /// Tells news to the other nodes at once.
    others: Option<Arc<dyn Teller>>,
    /// Wakes the task that exchanges lockouts.
    look: Notify,
    store: Store,
    /// The day, and the accounts whose event about that day's limit was written.
    reached: Mutex<(i64, HashSet<Subject>)>,
}

/// The units that one request uses. [`counted`] puts a quota into every request's extensions. A clone shares the same
/// quota.
#[derive(Clone, Default)]
pub struct Quota(Arc<Mutex<RequestUse>>);

#[derive(Default)]
struct RequestUse {
    /// The subject whose limits the answer's headers show. `None`: the caller's network.
    shown: Option<(Subject, PlanLimits)>,
    /// The number of units taken, and the day and month that they count for.
    taken: Option<(i64, Period)>,
    /// Operations left to a trial key.
    trial: Option<u64>,
}

impl Quota {
    /// Makes the headers show the operations left to a trial key (readings L1). The database counts these operations.
    pub fn show_trial(&self, operations_left: u64) {
        self.0.lock().trial = Some(operations_left);
    }
}

impl<S: Sync> FromRequestParts<S> for Quota {
    type Rejection = std::convert::Infallible;

    /// Returns the quota that [`counted`] put into the request. A request without a quota gets an empty one, which
    /// counts nothing.
    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        Ok(parts.extensions.get::<Quota>().cloned().unwrap_or_default())
    }
}

impl Limits {
    /// Creates limits with empty counters. Earlier counts are read from the database when they are needed. `others`: tells
    /// news to the other nodes. Nodes that tell news share their token buckets: through the cache store, or else through
    /// the database.
    pub fn new(
        clock: Clock,
        plans: PlanTable,
        store: Store,
        secrets: &Secrets,
        cache: Option<CacheStore>,
        others: Option<Arc<dyn Teller>>,
    ) -> Limits {
        let place = match (cache, &others) {
            (Some(cache), _) => Place::CacheStore(cache),
            (None, Some(_)) => Place::Database(Shares::new(store.clone())),
            (None, None) => Place::Node,
        };
        let networks = match &place {
            Place::Database(_) => Networks::of_fleet(),
            Place::Node | Place::CacheStore(_) => Networks::OfNode,
        };
        Limits {
            clock,
            plans,
            bursts: Bursts::new(place),
            counters: Arc::new(Counters::new(store.clone(), networks)),
            lockouts: Lockouts::new(store.clone()),
            digests: Digests::new(secrets),
            others,
            look: Notify::new(),
            store,
            reached: Mutex::default(),
        }
    }

    /// The limits of a plan.
    pub fn of(&self, plan: Plan) -> PlanLimits {
        self.plans.of(plan)
    }

    /// Computes the digest of a caller's network, for records that must not contain the address itself.
    pub fn network(&self, address: IpAddr) -> [u8; 32] {
        self.digests.address(address)
    }

    /// Refuses a request whose network or credential is locked (readings A21).
    pub fn check_lockout(&self, address: Option<IpAddr>, shown: Option<&str>, now: Timestamp) -> Result<(), ApiError> {
        let address = address.map(|address| self.digests.address(address));
        let shown = shown.map(|shown| self.digests.shown(shown));
        self.lockouts.check([address, shown], now)
    }

    /// Counts an attempt that was refused with this code (readings A20, A21). A bad API key counts against the text
    /// that was sent and against the network. Bad session tokens, passwords and guesses of ids count against the
    /// network only. Other refusals do not count.
    pub fn failed(&self, refused: Code, address: Option<IpAddr>, shown: &str, now: Timestamp) {
        let shown = match refused {
            Code::InvalidApiKey => Some(self.digests.shown(shown)),
            Code::InvalidSessionToken | Code::InvalidCredentials | Code::KeyNotFound => None,
            _ => return,
        };
        self.lockouts.failed(address.map(|address| self.digests.address(address)), shown, now);
        self.tell_failures();
    }

    /// Runs an attempt to sign in, unless the caller's network is locked. A failed attempt counts against the network.
    pub async fn attempt<T>(
        &self,
        ClientAddress(address): ClientAddress,
        attempt: impl Future<Output = Result<T, ApiError>>,
    ) -> Result<T, ApiError> {
        let now = self.clock.now();
        self.check_lockout(Some(address), None, now)?;
        attempt.await.inspect_err(|refused| {
            tracing::info!(target: "security", code = refused.code.as_str(), "sign-in refused");
            self.failed(refused.code, Some(address), "", now);
        })
    }

    /// Refuses an attempt with a user's password while the user has to wait. An e-mail without a user is treated in the
    /// same way.
    pub fn check_user(&self, email: &str, now: Timestamp) -> Result<(), ApiError> {
        self.lockouts.check([Some(self.digests.user(email))], now)
    }

    /// Counts a wrong password against the user, whatever network the attempt came from.
    pub fn wrong_password(&self, email: &str, now: Timestamp) {
        self.lockouts.count(self.digests.user(email), LockoutKind::User, now);
        self.tell_failures();
    }

    /// Clears the failures of a user after a right password.
    pub async fn right_password(&self, email: &str, now: Timestamp) {
        if self.lockouts.forgive(self.digests.user(email), now).await
            && let Some(others) = &self.others
        {
            others.tell(News::Lockouts).await;
        }
    }

    /// Counts a sign-up from this network. Refuses the sign-up if the network has reached the limit.
    pub fn sign_up(&self, address: IpAddr, now: Timestamp) -> Result<(), ApiError> {
        let subject = self.digests.sign_ups(address);
        self.lockouts.check([Some(subject)], now).map_err(|locked| ApiError {
            code: Code::IpRateLimited,
            message: "too many sign-ups from this address".into(),
            ..locked
        })?;
        self.lockouts.count(subject, LockoutKind::SignUp, now);
        self.tell_failures();
        Ok(())
    }

    fn tell_failures(&self) {
        if self.others.as_ref().is_some_and(|others| others.is_open()) {
            self.look_at_lockouts();
        }
    }

    /// Admits a caller's request: takes a token from the bucket of the key or user, and a unit of the account (readings
    /// L1, L6).
    pub async fn admit(&self, quota: &Quota, caller: &Caller, now: Timestamp) -> Result<(), ApiError> {
        let limits = self.plans.of(caller.plan);
        let subject: Subject = caller.account.as_str().into();
        quota.0.lock().shown = Some((subject.clone(), limits));
        // all keys of a lineage share one bucket (readings A19), because otherwise each rotation would add a burst
        let bucket = caller.credential.lasting_id();
        self.bursts.take(Callers::Known, bucket, limits.burst_a_second, now).await.map_err(too_fast)?;
        if caller.plan == Plan::Trial {
            quota.0.lock().trial.get_or_insert(trials::OPERATIONS_MAX);
            return Ok(());
        }
        self.take(quota, subject, limits, 1, now).await
    }

    /// Admits a request without a credential: takes a token from the network's bucket and, if `counts` is true, a unit
    /// from the network's counts for the day and the month.
    async fn admit_stranger(&self, extensions: &Extensions, counts: bool) -> Result<(), ApiError> {
        let Some(ClientAddress(address)) = extensions.get().copied() else { return Ok(()) };
        let (quota, now) = (extensions.get::<Quota>().cloned().unwrap_or_default(), self.clock.now());
        let (subject, limits) = (self.digests.address_subject(address), self.plans.anonymous);
        quota.0.lock().shown = Some((subject.clone(), limits));
        self.bursts.take(Callers::Strangers, &subject, limits.burst_a_second, now).await.map_err(too_fast)?;
        if !counts {
            return Ok(());
        }
        note(&quota, 1, self.counters.take_of_network(&subject, limits, 1, now).await, now)
    }

    /// Takes a token from the network's bucket for a request without a valid credential.
    pub async fn pace_stranger(&self, extensions: &Extensions) -> Result<(), ApiError> {
        self.admit_stranger(extensions, false).await
    }

    /// Counts one unit for each gate of a request (readings L1), instead of one unit for the request.
    pub async fn count_gates(&self, quota: &Quota, gates: u64, now: Timestamp) -> Result<(), ApiError> {
        let (shown, units) = {
            let held = quota.0.lock();
            (held.shown.clone(), held.taken.map_or(0, |(units, _)| units))
        };
        let more = i64::try_from(gates).unwrap_or(i64::MAX).saturating_sub(units);
        match shown {
            Some((subject, limits)) if units > 0 && more > 0 => self.take(quota, subject, limits, more, now).await,
            _ => Ok(()),
        }
    }

    async fn take(
        &self,
        quota: &Quota,
        subject: Subject,
        limits: PlanLimits,
        units: i64,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let taken = self.counters.take(&subject, limits, units, now).await;
        if taken == Err(LimitReached::Day) {
            self.tell_limit_reached(&subject, limits, now).await;
        }
        note(quota, units, taken, now)
    }

    /// Writes the event which says that an account reached its daily limit, once a day for each account. The node
    /// remembers the accounts whose event it has written today.
    async fn tell_limit_reached(&self, account: &Subject, limits: PlanLimits, now: Timestamp) {
        let day = Period::of(now).day;
        {
            let mut reached = self.reached.lock();
            if reached.0 != day {
                *reached = (day, HashSet::new());
            }
            if !reached.1.insert(account.clone()) {
                return;
            }
        }
        let limit = i64::try_from(limits.requests_a_day).unwrap_or(i64::MAX);
        let alert = Alert {
            account_id: account.to_string(),
            period: day,
            kind: AlertKind::Operations,
            threshold: 100,
            of_limit: limit,
            used: limit,
            created_at: now.0,
        };
        let written = self.store.write(async |tx| tx.add_alerts(std::slice::from_ref(&alert)).await).await;
        if let Err(error) = written {
            tracing::warn!(cause = %error, "the event that an account reached its limit could not be written");
            self.reached.lock().1.remove(account);
        }
    }

    /// Gives back the units of a refused request. Returns the values of the answer's headers.
    fn settle(
        &self,
        quota: &Quota,
        status: StatusCode,
        address: Option<ClientAddress>,
        now: Timestamp,
    ) -> RateLimitValues {
        let mut held = quota.0.lock();
        let anonymous = || {
            let subject = address.map_or("".into(), |address| self.digests.address_subject(address.0));
            (subject, self.plans.anonymous)
        };
        let (subject, limits) = held.shown.clone().unwrap_or_else(anonymous);
        if let Some((units, period)) = held.taken
            && !counts(status)
        {
            self.counters.give_back(&subject, units, period, now);
            held.taken = None;
        }
        let period = Period::of(now);
        match held.trial {
            Some(left) => RateLimitValues::of_trial(trials::OPERATIONS_MAX, left, period),
            None => RateLimitValues::new(limits, self.counters.used(&subject, now), period),
        }
    }

    /// Exchanges failures and lockouts with the other nodes, through the database.
    pub async fn exchange_lockouts(&self, now: Timestamp) {
        if self.lockouts.exchange(now).await
            && let Some(others) = &self.others
        {
            others.tell(News::Lockouts).await;
        }
    }

    /// Returns the number of locked subjects of each kind.
    pub fn locked(&self, now: Timestamp) -> HashMap<LockoutKind, u64> {
        self.lockouts.locked(now)
    }

    /// Wakes the task that exchanges lockouts.
    pub fn look_at_lockouts(&self) {
        self.look.notify_one();
    }

    /// Removes expired entries.
    pub async fn sweep(&self, now: Timestamp) {
        self.lockouts.sweep(now).await;
        self.counters.sweep(now).await;
        self.bursts.sweep(now);
    }

    /// Removes records in the database that say nothing any more.
    pub async fn forget_old(&self) {
        self.bursts.forget_full().await;
    }

    /// Writes the counts that the database does not have yet, and gives back the reserved units of idle accounts.
    pub async fn flush(&self, now: Timestamp) {
        self.counters.flush(now).await;
    }

    /// Writes all counts and failures that the database does not have yet.
    pub async fn close(&self, now: Timestamp) {
        self.counters.close(now).await;
        self.exchange_lockouts(now).await;
    }

    /// Exchanges lockouts whenever [`Limits::look_at_lockouts`] was called, until the node stops.
    pub async fn look(self: Arc<Self>, mut stopped: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = self.look.notified() => {}
                _ = stopped.wait_for(|stopped| *stopped) => return,
            }
            self.exchange_lockouts(self.clock.now()).await;
            tokio::time::sleep(NEWS_PERIOD).await;
        }
    }
}

/// A layer around all routes. Gives back the units of refused requests, and writes the rate-limit headers.
pub async fn counted(State(limits): State<Arc<Limits>>, mut request: Request, next: Next) -> Response {
    let (quota, address) = (Quota::default(), request.extensions().get::<ClientAddress>().copied());
    request.extensions_mut().insert(quota.clone());
    let mut response = next.run(request).await;
    let standing = limits.settle(&quota, response.status(), address, limits.clock.now());
    standing.write(response.headers_mut());
    response
}

/// A layer for public routes of the API: requests count by the caller's network (readings L6).
pub async fn anonymous(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Result<Response, ApiError> {
    limits.admit_stranger(request.extensions(), true).await?;
    Ok(next.run(request).await)
}

/// A layer for signing in and for the node's public keys. Only token buckets and lockouts limit these routes. A daily
/// limit would lock out many users behind one address, because they refresh their tokens all day.
pub async fn paced(State(limits): State<Arc<Limits>>, request: Request, next: Next) -> Result<Response, ApiError> {
    limits.admit_stranger(request.extensions(), false).await?;
    Ok(next.run(request).await)
}

/// Whether a request counts if its answer has this status. Refused requests (readings L1) and failed requests do not
/// count.
fn counts(status: StatusCode) -> bool {
    !matches!(status.as_u16(), 401..=404 | 422 | 429 | 500..)
}

/// Notes in the quota the units that a request took. If the request reached a limit, returns the error for that limit.
fn note(quota: &Quota, units: i64, counted: Result<Period, LimitReached>, now: Timestamp) -> Result<(), ApiError> {
    let period = counted.map_err(|reached| {
        let wait = Duration::from_secs(reached.reset_s(now).saturating_sub(now.seconds()));
        let message = format!("the {} limit of requests is reached", reached.name());
        ApiError::new(Code::RateLimited, message).because(reached.name()).retry_after(wait)
    })?;
    let mut held = quota.0.lock();
    let before = held.taken.map_or(0, |(units, _)| units);
    held.taken = Some((before + units, period));
    Ok(())
}

fn too_fast(wait: Duration) -> ApiError {
    ApiError::new(Code::RateLimited, "more requests a second than the plan allows").because("burst").retry_after(wait)
}
