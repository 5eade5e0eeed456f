//! The families of built-in circuits, one for each operation, for the client's list of circuits and for
//! `docs/circuits.md`.

use super::name::{ENDINGS, Operation, PREFIX};

/// A family of built-in circuits: one operation on numbers of all allowed widths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name with `<w>` for the width, and `<n>` for the length of a list.
    pub name: String,
    /// The endings that may follow the name, in this order.
    pub endings: Vec<&'static str>,
    /// Width of each input in bits, such as `w, w`, where w is the width in the name.
    pub inputs: &'static str,
    /// Width of each output in bits, written like `inputs`.
    pub outputs: &'static str,
    /// The meaning of the outputs.
    pub meaning: &'static str,
}

/// All families.
pub fn families() -> impl Iterator<Item = Family> {
    Operation::ALL.into_iter().map(|operation| {
        let (name, may) = operation.row();
        let size = if operation == Operation::Sort { "<n>x<w>" } else { "<w>" };
        let (inputs, outputs, meaning) = says(operation);
        Family {
            name: format!("{PREFIX}{name}{size}"),
            endings: ENDINGS.into_iter().zip(may).filter(|(_, may)| *may).map(|(ending, _)| ending).collect(),
            inputs,
            outputs,
            meaning,
        }
    })
}

/// Describes an operation: the widths of its inputs, the widths of its outputs, and the meaning of the outputs.
fn says(operation: Operation) -> (&'static str, &'static str, &'static str) {
    match operation {
        Operation::Add => ("w, w", "w", "a + b modulo 2^w"),
        Operation::Sub => ("w, w", "w", "a - b modulo 2^w"),
        Operation::Lt => ("w, w", "1", "whether a < b"),
        Operation::Le => ("w, w", "1", "whether a <= b"),
        Operation::Eq => ("w, w", "1", "whether a = b"),
        Operation::Min => ("w, w", "w", "the smaller number"),
        Operation::Max => ("w, w", "w", "the larger number"),
        Operation::Select => ("1, w, w", "w", "the second input if the first is 1, else the third"),
        Operation::Mul => ("w, w", "w; 2 w for _full", "a * b modulo 2^w; all of a * b for _full"),
        Operation::Div => {
            ("w, w", "w, w", "quotient and remainder of a / b; for b = 0 the quotient is all ones, the remainder a")
        }
        Operation::Shl => ("w, ceil(log2 w)", "w", "a shifted left by the second input; zeros come in"),
        Operation::Shr => {
            ("w, ceil(log2 w)", "w", "a shifted right by the second input; zeros come in, for _signed the top bit")
        }
        Operation::Popcount => ("w", "floor(log2 w) + 1", "how many bits are 1"),
        Operation::Sort => ("n times w", "n times w", "the numbers in ascending order"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::all;
    use super::*;

    #[test]
    fn every_circuit_belongs_to_one_family() {
        let families: Vec<Family> = families().collect();
        for builtin in all() {
            let name = builtin.to_string();
            let of = |family: &&Family| {
                let word = &family.name[..family.name.find('<').unwrap()];
                name.strip_prefix(word).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            };
            let [family] = families.iter().filter(of).collect::<Vec<_>>()[..] else { panic!("{name}") };
            assert!(name.split('_').skip(1).all(|ending| family.endings.contains(&format!("_{ending}").as_str())));
        }
    }
}
