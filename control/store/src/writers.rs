//! Group commit: small works of many callers share a transaction, and so one wait for the disk.
//!
//! A writer is a task with a queue. The writer takes the waiting works, runs them in one transaction, and answers every
//! caller after the commit. Works that arrive meanwhile are the next group, so a single work never waits for others.
//! SQLite has one writer, because only one connection writes. PostgreSQL has several; works with equal shards go to the
//! same writer and keep their order.
//!
//! A group runs without savepoints, with many works in one statement. If one work fails, which is rare, the transaction
//! is undone and each work runs in a separate transaction. So the other works are committed, and the caller of the
//! failed work gets its error. If the commit fails or the database does not answer, all works of the group fail, and
//! none has an effect.
//!
//! All writers and nodes take locks in the same order of tables, and within a table in the order of the rows' keys. The
//! order of tables is: ledgers, trials, runs of circuits, operations, caches of ciphertexts and their keys, sessions,
//! counts of operations, stored answers.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

use crate::database::{Database, Pools, Tx, faults};
use crate::kept_answers::{NewClaim, Release};
use crate::ledger::{self, NewReservation, Reserved, Voiding};
use crate::office::{OfficeCharge, OfficeCharged};
use crate::units::Unit;
use crate::work::Work;
use crate::{Error, Result};

/// Largest number of works in one commit. On SQLite their statements take tens of milliseconds.
const GROUP_MAX: usize = 256;
/// Largest number of works in a writer's queue. Further callers wait for space in the queue (backpressure).
const QUEUE_MAX: usize = 1024;
/// Number of writers to PostgreSQL. Each uses one connection.
const POSTGRES_WRITERS: usize = 4;

/// A work in a queue. The caller waits for the answer, or has stopped waiting.
#[derive(Debug)]
pub(crate) struct Waiting<W: Work> {
    work: W,
    /// Becomes true when a writer begins the work, or when the caller withdraws the work after a timeout, whichever is
    /// first.
    taken: Arc<AtomicBool>,
    answer: oneshot::Sender<Result<W::Answer>>,
}

/// An entry of a writer's queue.
#[derive(Debug)]
pub(crate) enum Job {
    Reservation(Box<Waiting<NewReservation>>),
    Voiding(Waiting<Voiding>),
    Unit(Box<Waiting<Unit>>),
    OfficeCharge(Box<Waiting<OfficeCharge>>),
    Claim(Waiting<NewClaim>),
    Release(Waiting<Release>),
}

/// Implements the conversion of each kind of work to an entry of a queue.
macro_rules! entries {
    ($($entry:ident of $kind:ty,)*) => {$(
        impl From<Waiting<$kind>> for Job {
            fn from(waiting: Waiting<$kind>) -> Job {
                Job::$entry(waiting.into())
            }
        }
    )*};
}

entries! {
    Reservation of NewReservation,
    Voiding of Voiding,
    Unit of Unit,
    OfficeCharge of OfficeCharge,
    Claim of NewClaim,
    Release of Release,
}

/// The queues of the writers. A clone shares the same queues. The writers end when the last clone is dropped and the
/// queues are empty.
#[derive(Clone, Debug)]
pub(crate) struct Writers {
    queues: Arc<[mpsc::Sender<Job>]>,
    patience: Duration,
}

impl Writers {
    /// Starts the writers of a database.
    pub(crate) fn start(db: &Database) -> Writers {
        let count = match &db.open {
            Pools::Sqlite { .. } => 1,
            Pools::Postgres(_) => POSTGRES_WRITERS,
        };
        let start = |_| {
            let (queue, jobs) = mpsc::channel(QUEUE_MAX);
            tokio::spawn(write_groups(db.clone(), jobs));
            queue
        };
        Writers { queues: (0..count).map(start).collect(), patience: db.patience() }
    }

    /// Submits a work and returns after the commit. A work in the queue is done even if its caller stops waiting.
    pub(crate) async fn submit<W: Work>(&self, work: W) -> Result<W::Answer>
    where
        Job: From<Waiting<W>>,
    {
        let mut hasher = DefaultHasher::new();
        work.shard().hash(&mut hasher);
        let queue = &self.queues[(hasher.finish() % self.queues.len() as u64) as usize];
        let taken = Arc::new(AtomicBool::new(false));
        let (answer, mut answered) = oneshot::channel();
        let job = Job::from(Waiting { work, taken: taken.clone(), answer });
        let waited = timeout(self.patience, async {
            queue.send(job).await.ok()?;
            (&mut answered).await.ok()
        });
        let answer = match waited.await {
            Ok(answer) => answer,
            Err(_) if !taken.swap(true, Ordering::AcqRel) => return Err(sqlx::Error::PoolTimedOut.into()),
            // the work has begun: from here on only the database's own timeouts apply
            Err(_) => answered.await.ok(),
        };
        answer.unwrap_or(Err(sqlx::Error::WorkerCrashed.into()))
    }
}

/// Runs a writer: takes the works in a queue, group by group, and writes each group.
async fn write_groups(db: Database, mut queue: mpsc::Receiver<Job>) {
    let mut jobs = Vec::with_capacity(GROUP_MAX);
    while queue.recv_many(&mut jobs, GROUP_MAX).await > 0 {
        let mut group = Group::default();
        jobs.drain(..).for_each(|job| group.add(job));
        let db = db.clone();
        // a separate task: if it panics, only the callers of this group get an error
        let _ = tokio::spawn(async move { group.write(&db).await }).await;
    }
}

/// The works of one commit by kind, in the order in which the kinds run.
#[derive(Default)]
struct Group {
    reservations: Vec<Waiting<NewReservation>>,
    voidings: Vec<Waiting<Voiding>>,
    units: Vec<Waiting<Unit>>,
    office_charges: Vec<Waiting<OfficeCharge>>,
    claims: Vec<Waiting<NewClaim>>,
    releases: Vec<Waiting<Release>>,
}

/// The answers to the works of a group. The answers of each kind are in the order of the works.
struct GroupAnswers {
    reservations: Vec<Reserved>,
    voidings: Vec<()>,
    units: Vec<()>,
    office_charges: Vec<OfficeCharged>,
    claims: Vec<crate::Claimed>,
    releases: Vec<()>,
}

impl Group {
    fn add(&mut self, job: Job) {
        match job {
            Job::Reservation(waiting) => waiting.begin_in(&mut self.reservations),
            Job::Voiding(waiting) => waiting.begin_in(&mut self.voidings),
            Job::Unit(waiting) => waiting.begin_in(&mut self.units),
            Job::OfficeCharge(waiting) => waiting.begin_in(&mut self.office_charges),
            Job::Claim(waiting) => waiting.begin_in(&mut self.claims),
            Job::Release(waiting) => waiting.begin_in(&mut self.releases),
        }
    }

    fn len(&self) -> usize {
        self.reservations.len()
            + self.voidings.len()
            + self.units.len()
            + self.office_charges.len()
            + self.claims.len()
            + self.releases.len()
    }

    /// Returns the accounts whose ledgers the group needs.
    fn ledgers(&self) -> BTreeSet<&str> {
        let voidings = self.voidings.iter().map(|waiting| waiting.work.account());
        let reservations = self.reservations.iter().map(|waiting| waiting.work.account_id.as_str());
        let units = self.units.iter().filter_map(|waiting| waiting.work.posting.as_ref());
        let charges = self.office_charges.iter().map(|waiting| waiting.work.account_id.as_str());
        let units = units.map(|posting| posting.account_id.as_str());
        voidings.chain(reservations).chain(units).chain(charges).collect()
    }

    /// Writes the group and answers its callers.
    async fn write(self, db: &Database) {
        if self.len() < 2 {
            return self.write_one_by_one(db).await;
        }
        let mut tx = match db.begin().await {
            Ok(tx) => tx,
            Err(error) => return self.fail(error),
        };
        match self.run(&mut tx).await {
            Ok(answers) => match tx.commit().await {
                Ok(()) => self.answer(answers),
                Err(error) => self.fail(error),
            },
            Err(error) if concerns_one_work(&error) => {
                drop(tx);
                self.write_one_by_one(db).await;
            }
            Err(error) => self.fail(error),
        }
    }

    async fn run(&self, tx: &mut Tx) -> Result<GroupAnswers> {
        // lock all ledgers at once and in order, because several kinds of work below lock some of them
        ledger::lock(tx, self.ledgers()).await?;
        Ok(GroupAnswers {
            // run reservations before voidings: if a caller stops waiting, its reservation is voided, perhaps in the
            // same group
            reservations: run(tx, &self.reservations).await?,
            voidings: run(tx, &self.voidings).await?,
            units: run(tx, &self.units).await?,
            office_charges: run(tx, &self.office_charges).await?,
            claims: run(tx, &self.claims).await?,
            releases: run(tx, &self.releases).await?,
        })
    }

    /// Writes each work in a separate transaction, until the database fails.
    async fn write_one_by_one(self, db: &Database) {
        let mut down = None;
        write_each(db, self.reservations, &mut down).await;
        write_each(db, self.voidings, &mut down).await;
        write_each(db, self.units, &mut down).await;
        write_each(db, self.office_charges, &mut down).await;
        write_each(db, self.claims, &mut down).await;
        write_each(db, self.releases, &mut down).await;
    }

    fn answer(self, answers: GroupAnswers) {
        answer(self.voidings, answers.voidings);
        answer(self.reservations, answers.reservations);
        answer(self.units, answers.units);
        answer(self.office_charges, answers.office_charges);
        answer(self.claims, answers.claims);
        answer(self.releases, answers.releases);
    }

    fn fail(self, error: Error) {
        let error = Arc::new(error);
        fail(self.voidings, &error);
        fail(self.reservations, &error);
        fail(self.units, &error);
        fail(self.office_charges, &error);
        fail(self.claims, &error);
        fail(self.releases, &error);
    }
}

impl<W: Work> Waiting<W> {
    /// Adds the work to `begun`, which contains the works of this kind that the group runs. Leaves out a work that the
    /// caller has withdrawn.
    fn begin_in(self, begun: &mut Vec<Self>) {
        if !self.taken.swap(true, Ordering::AcqRel) {
            begun.push(self);
        }
    }

    fn tell(self, answer: Result<W::Answer>) {
        // a caller that has stopped waiting needs no answer
        let _ = self.answer.send(answer);
    }
}

async fn run<W: Work>(tx: &mut Tx, waiting: &[Waiting<W>]) -> Result<Vec<W::Answer>> {
    match waiting {
        [] => Ok(Vec::new()),
        _ => W::run(tx, &waiting.iter().map(|waiting| &waiting.work).collect::<Vec<_>>()).await,
    }
}

fn answer<W: Work>(waiting: Vec<Waiting<W>>, answers: Vec<W::Answer>) {
    for (waiting, answer) in waiting.into_iter().zip(answers) {
        waiting.tell(Ok(answer));
    }
}

fn fail<W: Work>(waiting: Vec<Waiting<W>>, error: &Arc<Error>) {
    for waiting in waiting {
        waiting.tell(Err(Error::OfGroup(error.clone())));
    }
}

/// Writes each work in a separate transaction. `down`: the database's error, if the database has failed.
async fn write_each<W: Work>(db: &Database, waiting: Vec<Waiting<W>>, down: &mut Option<Arc<Error>>) {
    for waiting in waiting {
        if let Some(error) = down {
            waiting.tell(Err(Error::OfGroup(error.clone())));
            continue;
        }
        match write_alone(db, &waiting.work).await {
            Err(error) if !concerns_one_work(&error) => {
                let error = down.insert(Arc::new(error));
                waiting.tell(Err(Error::OfGroup(error.clone())));
            }
            answer => waiting.tell(answer),
        }
    }
}

async fn write_alone<W: Work>(db: &Database, work: &W) -> Result<W::Answer> {
    let mut tx = db.begin().await?;
    let answer = W::run(&mut tx, &[work]).await?.pop();
    tx.commit().await?;
    answer.ok_or_else(|| sqlx::Error::RowNotFound.into())
}

/// Returns whether an error concerns only one work, so that the other works of the group can still be done. Such an
/// error is a violated constraint, a row in an unexpected state, data that the database refuses, or a deadlock.
fn concerns_one_work(error: &Error) -> bool {
    match error {
        Error::ClaimLost
        | Error::OperationEnded
        | Error::KeyGone
        | Error::NoRoom
        | Error::SessionEnded
        | Error::TooManyWait
        | Error::ValuesFull
        | Error::SeedUsed(_)
        | Error::ReservationLost => true,
        Error::Database(error) => faults::is_of_one_work(error),
        _ => false,
    }
}
