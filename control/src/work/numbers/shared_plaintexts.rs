//! Tables for plaintexts, one for each parameter set. All open keys of a set share its tables.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use engine::ckks::plaintexts::Plaintexts;
use engine::ckks::{Params, ParamsLiteral};
use parking_lot::Mutex;

/// The tables of the parameter sets that have open keys. The tables of a set are freed with the set's last key.
pub(in crate::work) struct SharedPlaintexts {
    sets: Mutex<Sets>,
    /// Bound on the bytes of all sets' matrices of bootstrapping. One set may have more.
    matrices_bytes_max: u64,
}

#[derive(Default)]
struct Sets {
    by_literal: HashMap<ParamsLiteral, Set>,
    /// Counts the bootstraps.
    bootstraps: u64,
}

struct Set {
    plaintexts: Weak<Plaintexts>,
    /// The number of the last bootstrap with these parameters.
    bootstrap: u64,
}

impl SharedPlaintexts {
    /// Shares nothing so far. `matrices_bytes_max`: bound on the bytes of the matrices of bootstrapping; matrices above the
    /// bound are freed, and made again when they are needed.
    pub(in crate::work) fn new(matrices_bytes_max: u64) -> SharedPlaintexts {
        SharedPlaintexts { sets: Mutex::default(), matrices_bytes_max }
    }

    /// Returns the tables of a parameter set. The first call for a set makes them, which takes tenths of a second of CPU
    /// time for large parameters.
    pub(in crate::work) fn of(&self, params: &Params) -> Arc<Plaintexts> {
        let literal = params.literal();
        let found = |sets: &Sets| sets.by_literal.get(&literal).and_then(|set| set.plaintexts.upgrade());
        if let Some(found) = found(&self.sets.lock()) {
            return found;
        }
        // made without the lock, because keys of other sets need not wait
        let made = Arc::new(Plaintexts::new(params));
        let mut sets = self.sets.lock();
        if let Some(earlier) = found(&sets) {
            return earlier;
        }
        sets.by_literal.retain(|_, set| set.plaintexts.strong_count() > 0);
        sets.by_literal.insert(literal, Set { plaintexts: Arc::downgrade(&made), bootstrap: 0 });
        made
    }

    /// Notes that a bootstrap with these parameters was planned. While all matrices have more bytes than the bound, frees
    /// the matrices of the set that was bootstrapped least recently. Plans that were made before keep theirs.
    pub(in crate::work) fn bootstrapped(&self, params: &Params) {
        let mut sets = self.sets.lock();
        sets.bootstraps += 1;
        let now = sets.bootstraps;
        if let Some(set) = sets.by_literal.get_mut(&params.literal()) {
            set.bootstrap = now;
        }
        let others = sets.by_literal.iter().filter(|(literal, _)| **literal != params.literal());
        let mut others: Vec<(u64, Arc<Plaintexts>)> =
            others.filter_map(|(_, set)| Some((set.bootstrap, set.plaintexts.upgrade()?))).collect();
        others.sort_unstable_by_key(|(bootstrap, _)| *bootstrap);
        let own = sets.by_literal.get(&params.literal()).and_then(|set| set.plaintexts.upgrade());
        let mut bytes: u64 = others.iter().map(|(_, of)| of).chain(&own).map(|of| of.matrices_bytes()).sum();
        for (_, plaintexts) in others {
            if bytes <= self.matrices_bytes_max {
                break;
            }
            bytes -= plaintexts.forget_matrices();
        }
    }
}

#[cfg(test)]
mod tests {
    use engine::ckks::noise::Noise;
    use engine::ckks::plan::PlanBuilder;
    use engine::ckks::{SecurityLevel, bootstrap};

    use super::*;

    fn params(scale_bits: u32) -> Params {
        let security = SecurityLevel::Testing;
        Params::new(ParamsLiteral { poly_degree: 64, scale_bits, max_depth: 1, security, bootstrap: true }).unwrap()
    }

    /// Plans a bootstrap, which makes the matrices.
    fn plan(plaintexts: &Plaintexts, params: &Params) {
        let mut builder = PlanBuilder::new(params);
        let input = builder.input(0, params.level(0).scale, Noise::encrypt_secret(1.0));
        let output = bootstrap::refresh(&mut builder, plaintexts, input);
        builder.finish(&[output]);
    }

    #[test]
    fn keys_of_a_set_share_its_tables_until_the_last_is_closed() {
        let shared = SharedPlaintexts::new(u64::MAX);
        let [first, second] = [(); 2].map(|()| shared.of(&params(40)));
        assert!(Arc::ptr_eq(&first, &second));
        assert!(!Arc::ptr_eq(&first, &shared.of(&params(30))));
        let freed = Arc::downgrade(&first);
        drop((first, second));
        assert!(freed.upgrade().is_none());
        shared.of(&params(40));
        assert!(shared.sets.lock().by_literal.len() <= 1, "closed sets are forgotten");
    }

    #[test]
    fn matrices_above_the_bound_are_freed_from_the_set_that_was_bootstrapped_least_recently() {
        let sets = [40, 35, 30].map(params);
        let unbounded = SharedPlaintexts::new(u64::MAX);
        let bytes = sets.each_ref().map(|params| {
            let plaintexts = unbounded.of(params);
            plan(&plaintexts, params);
            unbounded.bootstrapped(params);
            plaintexts.matrices_bytes()
        });
        assert!(bytes.iter().all(|&bytes| bytes > 0));
        // room for two sets
        let shared = SharedPlaintexts::new(bytes.iter().sum::<u64>() - 1);
        let plaintexts = sets.each_ref().map(|params| shared.of(params));
        for at in [0, 1, 0, 2] {
            plan(&plaintexts[at], &sets[at]);
            shared.bootstrapped(&sets[at]);
        }
        assert_eq!(plaintexts.each_ref().map(|of| of.matrices_bytes() > 0), [true, false, true]);
        // matrices that were freed are made again, and the set in use keeps its matrices even above the bound
        let narrow = SharedPlaintexts::new(0);
        let only = narrow.of(&sets[0]);
        for _ in 0..2 {
            plan(&only, &sets[0]);
            narrow.bootstrapped(&sets[0]);
            assert_eq!(only.matrices_bytes(), bytes[0]);
        }
    }
}
