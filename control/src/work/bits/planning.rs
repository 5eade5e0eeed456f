//! Makes the plan of a netlist: mapped to cells, or gate by gate. A plan is cached if all input ciphertexts are
//! different, because the plan then depends only on the netlist, the key's parameters and whether the inputs are fresh.

use std::collections::VecDeque;
use std::sync::Arc;

use engine::fold::{Bit, Names};
use engine::mapping::{map, plan_plainly};
pub use engine::noise::InputNoise;
use engine::{Circuit, GATES_MAX, Params, Plan};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Gate, LweList, Netlist, OpenKey, Operand};

/// Largest number of rows of all cached plans together. A row has some 200 bytes.
const REMEMBERED_ROWS_MAX: usize = 1 << 18;
/// Largest number of cached plans.
const REMEMBERED_MAX: usize = 64;
/// Smallest number of rows of a cached plan. Making a smaller plan is faster than finding it in the cache.
const REMEMBERED_ROWS_MIN: usize = 16;

/// How a circuit is mapped to bootstraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The netlist is mapped to cells.
    Cells,
    /// Each gate is computed by itself.
    Gates,
}

/// A circuit with a plan for its inputs.
pub struct PlannedCircuit {
    pub(in crate::work) plan: Arc<Plan>,
    pub(in crate::work) netlist: Arc<String>,
    pub(in crate::work) mapping: Mapping,
    pub(in crate::work) noise: InputNoise,
    pub(in crate::work) operands: Vec<(usize, Operand)>,
    /// Number of gates of each kind in the netlist. All these gates are charged, even if the plan has fewer gates.
    pub gate_counts: Vec<(Gate, u64)>,
    /// Number of levels in the netlist.
    pub levels: u64,
    /// Figures of the plan.
    pub facts: PlanFacts,
}

/// Figures of a plan, which are stored in the record of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanFacts {
    /// Number of bootstraps.
    pub bootstraps: u64,
    /// Number of levels of bootstraps.
    pub bootstrap_levels: u64,
    /// log2 of the probability that any bootstrap gives a wrong bit. `None`: the noise of the key is not known.
    pub failure_log2: Option<f64>,
}

/// A plan and its figures.
#[derive(Clone)]
struct Planned {
    plan: Arc<Plan>,
    facts: PlanFacts,
}

/// Everything that a cached plan depends on.
#[derive(PartialEq)]
struct PlanKey {
    netlist: [u8; 32],
    params: Params,
    noise: InputNoise,
}

/// The cached plans. The plan that was used last is at the end.
#[derive(Default)]
pub struct PlanCache {
    plans: Mutex<VecDeque<(PlanKey, Planned)>>,
}

impl PlanCache {
    fn get(&self, key: &PlanKey) -> Option<Planned> {
        let mut plans = self.plans.lock();
        let at = plans.iter().position(|(of, _)| of == key)?;
        let found = plans.remove(at)?;
        let planned = found.1.clone();
        plans.push_back(found);
        Some(planned)
    }

    fn put(&self, key: PlanKey, planned: &Planned) {
        let rows = planned.plan.rows();
        if !(REMEMBERED_ROWS_MIN..=REMEMBERED_ROWS_MAX).contains(&rows) {
            return;
        }
        let mut plans = self.plans.lock();
        plans.retain(|(of, _)| *of != key);
        plans.push_back((key, planned.clone()));
        let mut all: usize = plans.iter().map(|(_, planned)| planned.plan.rows()).sum();
        while plans.len() > REMEMBERED_MAX || all > REMEMBERED_ROWS_MAX {
            let Some((_, oldest)) = plans.pop_front() else { return };
            all -= oldest.plan.rows();
        }
    }
}

impl Netlist {
    /// Makes the plan of this netlist for these inputs. `text`: the netlist's text. `operands`: the name of each input,
    /// with its number of bits. Takes up to two seconds of CPU time
    /// for a million gates, so call this outside the async threads.
    pub fn plan(
        &self,
        text: &Arc<String>,
        key: &OpenKey,
        inputs: &LweList,
        operands: Vec<(usize, Operand)>,
        (mapping, noise): (Mapping, InputNoise),
        remembered: &PlanCache,
    ) -> PlannedCircuit {
        let Planned { plan, mut facts } = self.planned(text, &key.params, inputs, (mapping, noise), remembered);
        // the noise of an imported key is not known
        facts.failure_log2 = facts.failure_log2.filter(|_| !key.imported);
        let (netlist, gate_counts, levels) = (text.clone(), self.gate_counts(), self.levels());
        PlannedCircuit { plan, netlist, mapping, noise, operands, gate_counts, levels, facts }
    }

    fn planned(
        &self,
        text: &str,
        params: &Params,
        inputs: &LweList,
        (mapping, noise): (Mapping, InputNoise),
        remembered: &PlanCache,
    ) -> Planned {
        match mapping {
            Mapping::Gates => self.gate_by_gate(params, inputs, noise),
            Mapping::Cells => self.mapped(text, params, inputs, noise, remembered),
        }
    }

    fn gate_by_gate(&self, params: &Params, inputs: &LweList, noise: InputNoise) -> Planned {
        let (plan, network) = plan_plainly(&self.circuit, &Names::of(inputs));
        let facts = PlanFacts {
            bootstraps: plan.bootstraps(),
            bootstrap_levels: plan.bootstrap_levels(),
            failure_log2: finite(network.failure_log2_as_gates(params, noise)),
        };
        Planned { plan: Arc::new(plan), facts }
    }

    fn mapped(
        &self,
        text: &str,
        params: &Params,
        inputs: &LweList,
        noise: InputNoise,
        remembered: &PlanCache,
    ) -> Planned {
        let names = Names::of(inputs);
        let are_different = names.iter().zip(0..).all(|(&name, at)| name == Bit::value(at));
        if !are_different {
            return planned(&self.circuit, &names, params, noise);
        }
        let plan_key = PlanKey { netlist: Sha256::digest(text.as_bytes()).into(), params: *params, noise };
        if let Some(found) = remembered.get(&plan_key) {
            return found;
        }
        let made = planned(&self.circuit, &names, params, noise);
        remembered.put(plan_key, &made);
        made
    }
}

/// Plans a netlist again, or finds the remembered plan.
///
/// # Errors
/// The fault of the netlist, or inputs that do not fit it.
pub(in crate::work) fn plan_again(
    text: &str,
    params: &Params,
    inputs: &LweList,
    how: (Mapping, InputNoise),
    remembered: &PlanCache,
) -> Result<Arc<Plan>, String> {
    let netlist = Netlist::read(text, GATES_MAX as u64).map_err(|error| error.to_string())?;
    let wanted: usize = netlist.input_widths().iter().sum();
    if inputs.len() != wanted {
        return Err(format!("{} inputs for a netlist of {wanted} input bits", inputs.len()));
    }
    Ok(netlist.planned(text, params, inputs, how, remembered).plan)
}

fn planned(circuit: &Circuit, names: &[Bit], params: &Params, noise: InputNoise) -> Planned {
    let network = map(circuit, names, params, noise);
    let facts = PlanFacts {
        bootstraps: network.bootstraps() as u64,
        bootstrap_levels: network.depth() as u64,
        failure_log2: finite(network.failure_log2(params, noise)),
    };
    Planned { plan: Arc::new(Plan::mapped(&network, names.len(), params)), facts }
}

/// Returns the log2 of the failure probability. `None`: the plan has no bootstrap.
fn finite(failure_log2: f64) -> Option<f64> {
    Some(failure_log2).filter(|log2| log2.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::Preset;

    fn key(seed: u8) -> PlanKey {
        PlanKey { netlist: [seed; 32], params: Preset::Fast128.params(), noise: InputNoise::Any }
    }

    fn planned_chain(gates: usize) -> Planned {
        let mut text = format!("{gates} {}\n1 2\n1 1\n", gates + 2);
        (0..gates).for_each(|gate| text += &format!("2 1 {gate} {} {} AND\n", gate + 1, gate + 2));
        let circuit = Circuit::parse(&text).expect("a netlist");
        let plan = Arc::new(Plan::new(&circuit));
        Planned { plan, facts: PlanFacts::default() }
    }

    #[test]
    fn plans_that_were_used_last_are_remembered_within_the_bounds() {
        let cache = PlanCache::default();
        let (small, plan) = (planned_chain(REMEMBERED_ROWS_MIN - 1), planned_chain(REMEMBERED_ROWS_MIN));
        cache.put(key(200), &small);
        assert!(cache.get(&key(200)).is_none());
        (0..REMEMBERED_MAX as u8).for_each(|seed| cache.put(key(seed), &plan));
        assert!(cache.get(&key(0)).is_some());
        cache.put(key(100), &plan);
        assert!(cache.get(&key(0)).is_some() && cache.get(&key(1)).is_none() && cache.get(&key(100)).is_some());
        assert!(cache.get(&PlanKey { noise: InputNoise::Fresh, ..key(0) }).is_none());
        let large = planned_chain(REMEMBERED_ROWS_MAX - REMEMBERED_ROWS_MIN);
        cache.put(key(101), &large);
        assert!(cache.get(&key(101)).is_some() && cache.get(&key(2)).is_none());
        assert_eq!(cache.plans.lock().len(), 2);
    }
}
