//! Which worker owns a flow: weighted rendezvous hashing (Thaler and Ravishankar 1996; weights as in Schindelhauer and
//! Schomaker 2005). When a worker joins or leaves, only its own share of the flows moves.
//!
//! Members may have different views of the workers for some seconds. A stale view costs locality, never correctness.

use sha2::{Digest as _, Sha256};

/// Returns the worker with the highest score for a name. Each worker is given with its weight. `None`: there is no worker.
pub fn owner<'a>(name: &[u8], workers: impl Iterator<Item = (&'a str, u32)>) -> Option<&'a str> {
    let scored = workers.map(|(worker, weight)| (score(name, worker, weight), worker));
    // equal scores are ordered by name, so that the order of the workers does not matter
    scored.max_by(|(one, name), (other, other_name)| one.total_cmp(other).then(name.cmp(other_name))).map(|(_, w)| w)
}

/// Returns the second of a lane: the worker other than its owner that has the highest score for the lane's name.
pub fn second<'a>(lane: &str, workers: impl Iterator<Item = (&'a str, u32)>) -> Option<&'a str> {
    owner(lane.as_bytes(), workers.filter(|(worker, _)| *worker != lane))
}

/// For each worker, this many names are tried in [`apart`].
const NAMES_A_WORKER: usize = 8;

/// Returns names for parts of a flow's work, each with its owner. No two names have the same owner, and the first name is
/// the flow's own. Members with the same view choose the same names, so a part comes to a worker that may have its key
/// already. There may be fewer names than `most`, because a worker of a small weight is hard to hit.
pub fn apart<'a>(flow: &str, workers: &[(&'a str, u32)], most: usize) -> Vec<(String, &'a str)> {
    let mut found: Vec<(String, &str)> = Vec::new();
    for number in 0..NAMES_A_WORKER * workers.len() {
        if found.len() == most.min(workers.len()) {
            break;
        }
        let name = if number == 0 { flow.to_owned() } else { format!("{flow}-{number}") };
        let Some(owner) = owner(name.as_bytes(), workers.iter().copied()) else { break };
        if found.iter().all(|(_, known)| *known != owner) {
            found.push((name, owner));
        }
    }
    found
}

/// Returns `-weight / ln(u)`, where `u` in (0, 1) is a hash of both names. A worker wins with a probability in
/// proportion to its weight.
fn score(name: &[u8], worker: &str, weight: u32) -> f64 {
    let mut hash = Sha256::new();
    hash.update((worker.len() as u64).to_be_bytes());
    hash.update(worker.as_bytes());
    hash.update(name);
    let digest = hash.finalize();
    let (first, _) = digest.split_first_chunk().expect("SHA-256 has 32 bytes");
    // 53 bits, and a half more so that the value is neither 0 nor 1
    let u = ((u64::from_be_bytes(*first) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
    -f64::from(weight) / u.ln()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    const FLOWS: usize = 20_000;

    fn owners(workers: &[(&str, u32)]) -> Vec<String> {
        let owner = |flow: usize| owner(&flow.to_be_bytes(), workers.iter().copied()).unwrap().to_owned();
        (0..FLOWS).map(owner).collect()
    }

    fn shares(owners: &[String]) -> HashMap<&str, f64> {
        let mut shares = HashMap::new();
        for owner in owners {
            *shares.entry(owner.as_str()).or_default() += 1.0 / FLOWS as f64;
        }
        shares
    }

    #[test]
    fn flows_are_shared_by_weight_whatever_the_order_of_the_workers() {
        let owners_of_three = owners(&[("a", 1), ("b", 2), ("c", 5)]);
        let shares = shares(&owners_of_three);
        for (worker, share) in [("a", 0.125), ("b", 0.25), ("c", 0.625)] {
            assert!((shares[worker] - share).abs() < 0.02, "{worker} {shares:?}");
        }
        assert_eq!(owners_of_three, owners(&[("c", 5), ("a", 1), ("b", 2)]));
        assert_eq!(owner(b"flow", std::iter::empty()), None);
    }

    #[test]
    fn a_worker_that_leaves_gives_away_only_its_own_flows() {
        let before = owners(&[("a", 1), ("b", 1), ("c", 1)]);
        let after = owners(&[("a", 1), ("c", 1)]);
        for (before, after) in before.iter().zip(&after) {
            assert!(before == "b" || before == after);
        }
        let inherited = after.iter().zip(&before).filter(|(after, before)| *before == "b" && *after == "a").count();
        let of_b = before.iter().filter(|worker| *worker == "b").count();
        assert!((inherited as f64 / of_b as f64 - 0.5).abs() < 0.03);
    }

    #[test]
    fn parts_of_a_flow_have_names_whose_owners_differ() {
        let workers: Vec<String> = (0..16).map(|number| format!("w{number}")).collect();
        let all: Vec<(&str, u32)> = workers.iter().map(|worker| (worker.as_str(), 1)).collect();
        for flow in ["a", "b", "c"] {
            let named = apart(flow, &all, 8);
            assert_eq!((named.len(), named[0].0.as_str()), (8, flow));
            let mut owners: Vec<&str> = named.iter().map(|(_, owner)| *owner).collect();
            for (name, name_owner) in &named {
                assert_eq!(owner(name.as_bytes(), all.iter().copied()), Some(*name_owner));
            }
            owners.sort_unstable();
            owners.dedup();
            assert_eq!(owners.len(), 8);
            // the order of the workers does not matter, and fewer names are the first of these
            let reversed: Vec<_> = all.iter().rev().copied().collect();
            assert_eq!(apart(flow, &reversed, 3), named[..3]);
        }
        assert_eq!(apart("a", &all[..2], 8).len(), 2);
        assert!(apart("a", &[], 8).is_empty());
    }

    #[test]
    fn the_second_of_a_lane_is_another_worker() {
        let workers: Vec<String> = (0..8).map(|number| format!("w{number}")).collect();
        let all = || workers.iter().map(|worker| (worker.as_str(), 1));
        for lane in &workers {
            assert_ne!(second(lane, all()).unwrap(), lane);
        }
        assert_eq!(second("w0", [("w0", 1)].into_iter()), None);
        // a lane whose owner has left still has a second
        assert!(second("gone", all()).is_some());
    }
}
