//! A worker of a fleet that answers with something else than the answer: the request fails, and nothing is charged.

use std::sync::Arc;
use std::time::Duration;

use ::fleet::broker::{Broker, Lane, Queue, Rank, Topic};
use ::fleet::message::{Answer, Word, WorkHead};
use ::fleet::nats::{NatsBroker, NatsConfig, read_servers};
use ::fleet::presence::{Load, PERIOD, Presence, SPEAKS};
use api::OperationId;
use client::Preset;
use control::work::{Figures, WorkEnd, write_end};
use engine::Rows;
use tests_service::PATIENCE;
use tests_service::fleet::{Fleet, Member};
use tests_service::gates::{Account, GATE};
use tokio::task::AbortHandle;

const LIAR: &str = "liar";

/// A member with the broker's words of a worker, which tells this presence until the task is aborted.
pub async fn tells(member: &Member, presence: Presence) -> (Arc<NatsBroker>, AbortHandle) {
    let config = NatsConfig {
        servers: read_servers(&member.broker).unwrap(),
        credentials: None,
        fleet: member.name.clone(),
        member: presence.worker.clone(),
        run_replicas: 1,
        operations_replicas: 1,
        makes_streams: false,
    };
    let broker = Arc::new(NatsBroker::connect(config, Arc::new(|_| ())).await.unwrap());
    let tells = broker.clone();
    let task = tokio::spawn(async move {
        loop {
            let _ = tells.tell(Topic::Presence, presence.write().into()).await;
            tokio::time::sleep(PERIOD).await;
        }
    });
    (broker, task.abort_handle())
}

/// The presence of a worker with this name.
pub fn presence(worker: &str) -> Presence {
    Presence {
        worker: worker.to_owned(),
        pool: "default".to_owned(),
        weight: 1,
        speaks: SPEAKS,
        draining: false,
        warming: false,
        version: "1".to_owned(),
        load: Load::default(),
    }
}

/// Takes the next request. Returns its id and the member that asks.
async fn take(liar: &NatsBroker) -> (OperationId, String) {
    let lane = Lane { queue: Queue::Run, pool: "default".to_owned(), worker: LIAR.to_owned() };
    let pulled = async {
        loop {
            if let Ok(Some(delivery)) = liar.pull(&lane, Rank::Owner, Duration::from_secs(1)).await {
                return delivery;
            }
        }
    };
    let delivery = tokio::time::timeout(PATIENCE, pulled).await.expect("a request comes");
    liar.done(&delivery.ticket).await.unwrap();
    let (head, _) = WorkHead::read(delivery.content).unwrap();
    (head.id.parse().unwrap(), head.member)
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_are_not_for_the_request_fail_it_uncharged() {
    let Some(fleet) = Fleet::start(1, 0, |config| config.requests.deadline = Duration::from_secs(10)).await else {
        return;
    };
    let account = Account::open(&fleet.api[0], Preset::Fast128).await;
    let (liar, _) = tells(&fleet.member, presence(LIAR)).await;
    fleet.hears_workers(1).await;
    let other = OperationId::from_bits(7);
    let figures = Figures { compute: Duration::ZERO, units: 1 };
    let completed = |row_words: usize, rows: usize| {
        let results = Rows { row_words, words: vec![0; row_words * rows] };
        WorkEnd::Completed { results, figures }
    };
    // a result of the right shape
    let row_words = Preset::Fast128.params().lwe_dimension + 1;
    type Lie<'l> = &'l dyn Fn(&OperationId) -> Vec<u8>;
    let lies: [Lie<'_>; 6] = [
        &|_| Vec::new(),
        &|_| b"no end of work".to_vec(),
        &|id| {
            let end = write_end(id, &completed(row_words, 1));
            end[..end.len() - 1].to_vec()
        },
        &|_| write_end(&other, &completed(row_words, 1)),
        &|id| write_end(id, &completed(row_words, 2)),
        &|id| write_end(id, &completed(3, 1)),
    ];
    for (at, lie) in lies.into_iter().enumerate() {
        let gate = account.gate("NAND", true, Some(true), None);
        let (answer, ()) = tokio::join!(account.post(GATE, &gate), async {
            let (id, member) = take(&liar).await;
            // words about other work, and bytes that are no answer, are dropped
            let about_other = Answer {
                id: other.as_str().to_owned(),
                word: Word::Ended(write_end(&id, &completed(row_words, 1)).into()),
            };
            for dropped in [about_other.write(), "no answer".into(), "".into()] {
                liar.answer(&member, dropped).await.unwrap();
            }
            let answer = Answer { id: id.as_str().to_owned(), word: Word::Ended(lie(&id).into()) };
            // a second end of the same work comes too late
            for _ in 0..2 {
                liar.answer(&member, answer.write()).await.unwrap();
            }
        });
        assert!(matches!(answer.status, 500 | 503), "{at}: {}", answer.text());
    }
    // a worker that takes a request and is silent, again and again
    let gate = account.gate("NAND", true, Some(true), None);
    let silent = async {
        loop {
            take(&liar).await;
        }
    };
    let answer = tokio::select! {
        answer = account.post(GATE, &gate) => answer,
        () = silent => unreachable!(),
    };
    answer.error(503, "SERVICE_UNAVAILABLE");
    account.nothing_charged().await;
}
