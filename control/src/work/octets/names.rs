//! The names of results as a part of work's head.

use serde::{Deserialize, Serialize};

use super::behind::NotWork;
use crate::work::key::Operand;
use crate::work::named::{NamedResult, ResultHead};
use crate::work::numbers::Tail;

/// A name of results.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NameHead {
    rows: usize,
    operand: Operand,
    numbers: Option<ContainerProperties>,
}

/// The properties of a result's container. Doubles are their bits.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ContainerProperties {
    level: usize,
    scale: u64,
    value_bound: u64,
    variance: u64,
    mixed: bool,
}

impl NameHead {
    /// Describes a name.
    pub fn of(NamedResult { rows, operand, numbers }: &NamedResult) -> NameHead {
        let of_numbers = |head: &ResultHead| ContainerProperties {
            level: head.level,
            scale: head.scale.to_bits(),
            value_bound: head.value_bound.to_bits(),
            variance: head.variance.to_bits(),
            mixed: head.tail == Tail::Mixed,
        };
        NameHead { rows: *rows, operand: operand.clone(), numbers: numbers.as_ref().map(of_numbers) }
    }

    /// Reads a name. Results of bits are values, and results of numbers are ciphertexts.
    pub fn read(self, of_bits: bool) -> Result<NamedResult, NotWork> {
        let fits = match &self.operand {
            Operand::Words => false,
            Operand::Value(_) => of_bits && self.numbers.is_none(),
            Operand::Object(_) => !of_bits && self.numbers.is_some(),
        };
        if !fits {
            return Err(NotWork::because("a name that no such result has"));
        }
        let numbers = self.numbers.map(|head| ResultHead {
            level: head.level,
            scale: f64::from_bits(head.scale),
            value_bound: f64::from_bits(head.value_bound),
            variance: f64::from_bits(head.variance),
            tail: if head.mixed { Tail::Mixed } else { Tail::AsSent },
        });
        let mut doubles = numbers.iter().flat_map(|head| [head.scale, head.value_bound, head.variance]);
        if doubles.any(|double| !(double.is_finite() && double >= 0.0)) {
            return Err(NotWork::because("a property that no result has"));
        }
        Ok(NamedResult { rows: self.rows, operand: self.operand, numbers })
    }
}
