use proptest::prelude::*;

use super::*;

/// A bucket in the database ([`Store::take_tokens`]).
#[derive(Default)]
struct Bucket {
    full_at: i64,
    asked: usize,
}

impl Bucket {
    fn take(&mut self, rate: u32, now: i64) -> bool {
        self.asked += 1;
        let full_at = self.full_at.max(now) + share_us(rate);
        let granted = full_at <= now + SECOND_US;
        if granted {
            self.full_at = full_at;
        }
        granted
    }
}

/// A node, whose clock differs from the database's, and the answer that is on its way to the node.
struct Node {
    share: Share,
    ahead_us: i64,
    on_its_way: Option<Answer>,
}

/// Something that happens at a node.
#[derive(Clone, Copy, Debug)]
enum Event {
    Request,
    /// Like a request, but the answer from the database is lost if the node asks.
    UnluckyRequest,
    /// The answer that is on its way comes.
    Comes,
    /// The node's clock jumps.
    Jump(i64),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => Just(Event::Request),
        1 => Just(Event::UnluckyRequest),
        8 => Just(Event::Comes),
        1 => (-3_000_000..3_000_000_i64).prop_map(Event::Jump),
        1 => any::<i32>().prop_map(|far| Event::Jump(i64::from(far) * 1000)),
    ]
}

impl Node {
    fn new(ahead_us: i64) -> Node {
        Node { share: Share::new(), ahead_us, on_its_way: None }
    }

    /// Returns whether a request is admitted.
    fn meets(&mut self, event: Event, bucket: &mut Bucket, rate: u32, now: i64) -> bool {
        let here = Timestamp(now + self.ahead_us);
        match event {
            // requests wait for the answer
            Event::Request | Event::UnluckyRequest if self.on_its_way.is_some() => false,
            Event::Request | Event::UnluckyRequest => match self.share.take(here) {
                Attempt::Taken => true,
                Attempt::Empty(_) | Attempt::Unknown => false,
                Attempt::Ask => {
                    let granted = bucket.take(rate, now);
                    self.on_its_way = Some(match event {
                        Event::UnluckyRequest => Answer::Missing,
                        _ if granted => Answer::Granted,
                        _ => Answer::Empty,
                    });
                    false
                }
            },
            Event::Comes => self.on_its_way.take().is_some_and(|answer| {
                self.share.answered(answer, rate, here);
                self.share.take(here) == Attempt::Taken
            }),
            Event::Jump(by_us) => {
                self.ahead_us += by_us;
                false
            }
        }
    }
}

const RATES: [u32; 9] = [1, 5, 10, 31, 32, 50, 211, 1000, 1_000_000];

proptest! {
    #[test]
    fn l6_nodes_together_admit_one_share_each_more_than_the_bucket_gives(
        rate in prop::sample::select(&RATES[..]),
        clocks in prop::collection::vec(any::<i32>(), 1..5),
        events in prop::collection::vec((0..4_usize, event(), 0..60_000_i64), 1..600),
        crowded in any::<bool>(),
    ) {
        let mut nodes: Vec<_> = clocks.iter().map(|&ahead| Node::new(i64::from(ahead) * 1000)).collect();
        let (mut bucket, mut now, mut admitted) = (Bucket::default(), 1_000_000_000_000, Vec::new());
        for (at, event, pause_us) in events {
            now += if crowded { pause_us / 100 } else { pause_us };
            let at = at % nodes.len();
            if nodes[at].meets(event, &mut bucket, rate, now) {
                admitted.push(now);
            }
        }
        let bound = |from: i64, until: i64| {
            let of_bucket = (SECOND_US + until - from) / share_us(rate) * share_of(rate);
            of_bucket + nodes.len() as i64 * share_of(rate)
        };
        for (first, &from) in admitted.iter().enumerate() {
            for (last, &until) in admitted.iter().enumerate().skip(first) {
                let count = (last - first + 1) as i64;
                prop_assert!(count <= bound(from, until), "{count} of {} in {} us", bound(from, until), until - from);
            }
        }
    }

    #[test]
    fn l6_a_crowd_gets_what_the_bucket_gives_and_seldom_asks(rate in prop::sample::select(&RATES[..8]), count in 1..4_usize) {
        let mut nodes: Vec<_> = (0..count).map(|_| Node::new(0)).collect();
        let (mut bucket, mut admitted, seconds) = (Bucket::default(), 0, 10);
        for turn in 0..seconds * 10_000 {
            let now = 1_000_000_000_000 + turn * 100;
            let node = &mut nodes[turn as usize % count];
            // an answer comes at once
            admitted += i64::from(node.meets(Event::Request, &mut bucket, rate, now));
            admitted += i64::from(node.meets(Event::Comes, &mut bucket, rate, now));
        }
        let (rate, share) = (i64::from(rate), share_of(rate));
        let given = rate * (seconds + 1);
        let unused = (count as i64 + 1) * share;
        prop_assert!(admitted <= given && admitted >= given - unused - given / 50, "{admitted} of {given}");
        // one question for each share, and one refusal for each node in the time of a share
        let questions = given / share + count as i64 * (seconds + 1) * (rate / share + 1);
        prop_assert!(bucket.asked as i64 <= questions, "{} of {questions}", bucket.asked);
    }
}

#[test]
fn a_share_has_a_token_at_least_and_no_more_than_a_second_s() {
    for rate in [0, 1, 15, 16, 17, 31, 32, u32::MAX] {
        assert!(share_of(rate) >= 1 && (1..=SECOND_US).contains(&share_us(rate)), "{rate}");
    }
    assert_eq!([5, 10, 50, 200, 1000, 5000].map(share_of), [1, 1, 3, 12, 62, 312]);
}

async fn store(folder: &std::path::Path) -> Store {
    Store::open(&format!("sqlite:{}", folder.join("test.db").display())).await.unwrap()
}

const NOW: Timestamp = Timestamp(1_700_000_000_000_000);

#[tokio::test]
async fn l6_two_nodes_on_one_database_share_a_bucket() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let nodes = [(); 2].map(|()| Shares::new(store.clone()));
    let take = async |at: usize, subject| nodes[at].take(Callers::Known, subject, 1, NOW).await.unwrap();
    assert_eq!(take(0, "a").await, Ok(()));
    assert_eq!(take(1, "a").await, Err(Duration::from_secs(1)));
    assert_eq!(take(1, "b").await, Ok(()));
    // the token of a share stays with its node
    let take = async |at: usize| nodes[at].take(Callers::Strangers, "c", 32, NOW).await.unwrap();
    assert_eq!((take(0).await, take(1).await), (Ok(()), Ok(())));
    assert_eq!(nodes.each_ref().map(|node| node.known.lock()["c"].share.tokens), [1, 1]);
}

#[tokio::test]
async fn l10_without_an_answer_from_the_database_a_node_asks_no_more_for_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let store = store(folder.path()).await;
    let shares = Shares::new(store.clone());
    store.close().await;
    let take = async |now| shares.take(Callers::Known, "a", 5, now).await;
    assert_eq!(take(NOW).await, None);
    let mut share = shares.known.lock()["a"].share;
    let later = NOW.plus(Duration::from_secs(1));
    assert_eq!((share.take(NOW), share.take(later)), (Attempt::Unknown, Attempt::Ask));
    assert_eq!(take(NOW).await, None);
}

#[tokio::test]
async fn a_flood_from_many_networks_asks_one_question_at_a_time_and_is_not_remembered_for_ever() {
    let folder = tempfile::tempdir().unwrap();
    let shares = Shares::new(store(folder.path()).await);
    let asking = shares.of_strangers.lock().await;
    assert_eq!(shares.take(Callers::Strangers, "addr_1", 5, NOW).await, None);
    assert_eq!(shares.take(Callers::Known, "lin_1", 5, NOW).await, Some(Ok(())));
    drop(asking);
    assert_eq!(shares.take(Callers::Strangers, "addr_1", 5, NOW).await, Some(Ok(())));
    for number in 0..2 * BUCKETS_MAX {
        assert!(shares.attempt(&number.to_string(), NOW).is_some());
    }
    assert!(shares.known.lock().len() <= BUCKETS_MAX);
    shares.sweep(NOW.plus(FORGOTTEN));
    assert!(shares.known.lock().is_empty());
}
