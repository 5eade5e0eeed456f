//! The names of built-in circuits.
//!
//! A name is `builtin:`, an operation, the width of its numbers in bits (8 to 64), then the endings in this order:
//! `_signed` for two's complement, `_full` for a product with twice the width, `_fast` for a circuit with fewer levels
//! and more gates. `sort` has the length of the list before the width. Examples: `add64`, `lt32_signed_fast`,
//! `mul64_full`, `sort8x16`.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

/// The prefix of every built-in circuit's name. Names of other circuits never start with it.
pub const PREFIX: &str = "builtin:";
/// Allowed widths of a number, in bits.
pub const WIDTHS: RangeInclusive<usize> = 8..=64;
/// Allowed lengths of a list to sort.
pub const LENGTHS: RangeInclusive<usize> = 2..=16;

/// The operation of a circuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Operation {
    Add,
    Sub,
    Lt,
    Le,
    Eq,
    Min,
    Max,
    Select,
    Mul,
    Div,
    Shl,
    Shr,
    Popcount,
    Sort,
}

impl Operation {
    pub(super) const ALL: [Operation; 14] = [
        Operation::Add,
        Operation::Sub,
        Operation::Lt,
        Operation::Le,
        Operation::Eq,
        Operation::Min,
        Operation::Max,
        Operation::Select,
        Operation::Mul,
        Operation::Div,
        Operation::Shl,
        Operation::Shr,
        Operation::Popcount,
        Operation::Sort,
    ];

    /// The operation's name, and for each ending in [`ENDINGS`] whether the operation allows it.
    pub(super) fn row(self) -> (&'static str, [bool; 3]) {
        match self {
            Operation::Add => ("add", [false, false, true]),
            Operation::Sub => ("sub", [false, false, true]),
            Operation::Lt => ("lt", [true, false, true]),
            Operation::Le => ("le", [true, false, true]),
            Operation::Eq => ("eq", [false, false, false]),
            Operation::Min => ("min", [true, false, true]),
            Operation::Max => ("max", [true, false, true]),
            Operation::Select => ("select", [false, false, false]),
            Operation::Mul => ("mul", [false, true, true]),
            Operation::Div => ("div", [false, false, true]),
            Operation::Shl => ("shl", [false, false, false]),
            Operation::Shr => ("shr", [true, false, false]),
            Operation::Popcount => ("popcount", [false, false, false]),
            Operation::Sort => ("sort", [true, false, true]),
        }
    }
}

/// The endings that may follow the width: two's complement, twice the width, few levels. [`Operation::row`] has the
/// same order.
pub(super) const ENDINGS: [&str; 3] = ["_signed", "_full", "_fast"];

/// A built-in circuit. `Display` writes its name with [`PREFIX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Builtin {
    pub(super) operation: Operation,
    pub(super) width: usize,
    /// Length of the list to sort; 1 for every operation but the sort.
    pub(super) length: usize,
    pub(super) signed: bool,
    pub(super) full: bool,
    pub(super) fast: bool,
}

/// The error for a name that no built-in circuit has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no circuit `{0}`; {list}", list = list())]
pub struct UnknownBuiltin(String);

/// The list of available circuits as a sentence.
fn list() -> String {
    let names = |wanted: fn(&Operation) -> bool| {
        let names: Vec<&str> = Operation::ALL.iter().filter(|operation| wanted(operation)).map(|o| o.row().0).collect();
        names.join(", ")
    };
    format!(
        "there are {PREFIX}NAME with a width of {} to {} bits (add64): {}; sort of {} to {} numbers (sort8x16); \
         then _signed after {}, _full after {}, _fast after {}",
        WIDTHS.start(),
        WIDTHS.end(),
        names(|&operation| operation != Operation::Sort),
        LENGTHS.start(),
        LENGTHS.end(),
        names(|operation| operation.row().1[0]),
        names(|operation| operation.row().1[1]),
        names(|operation| operation.row().1[2]),
    )
}

impl FromStr for Builtin {
    type Err = UnknownBuiltin;

    fn from_str(name: &str) -> Result<Builtin, UnknownBuiltin> {
        read(name).ok_or_else(|| UnknownBuiltin(name.chars().take(40).collect()))
    }
}

fn read(name: &str) -> Option<Builtin> {
    let name = name.strip_prefix(PREFIX)?;
    let digits = name.find(|c: char| c.is_ascii_digit())?;
    let (word, rest) = name.split_at(digits);
    let operation = Operation::ALL.into_iter().find(|operation| operation.row().0 == word)?;
    let (size, mut endings) = rest.split_at(rest.find('_').unwrap_or(rest.len()));
    let (length, width) = match (operation, size.split_once('x')) {
        (Operation::Sort, Some((length, width))) => (number(length, LENGTHS)?, number(width, WIDTHS)?),
        (Operation::Sort, None) | (_, Some(_)) => return None,
        (_, None) => (1, number(size, WIDTHS)?),
    };
    let mut has = [false; 3];
    for (at, ending) in ENDINGS.into_iter().enumerate() {
        if let Some(rest) = endings.strip_prefix(ending)
            && operation.row().1[at]
        {
            (has[at], endings) = (true, rest);
        }
    }
    let [signed, full, fast] = has;
    endings.is_empty().then_some(Builtin { operation, width, length, signed, full, fast })
}

/// Parses a number of a name: decimal, without leading zeros.
fn number(digits: &str, range: RangeInclusive<usize>) -> Option<usize> {
    let is_plain = digits.len() <= 2 && !digits.starts_with('0') && digits.bytes().all(|digit| digit.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| is_plain)?;
    range.contains(&number).then_some(number)
}

impl fmt::Display for Builtin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.operation.row().0)?;
        if self.operation == Operation::Sort {
            write!(f, "{}x", self.length)?;
        }
        write!(f, "{}", self.width)?;
        let has = [self.signed, self.full, self.fast];
        ENDINGS.iter().zip(has).filter(|(_, has)| *has).try_for_each(|(ending, _)| f.write_str(ending))
    }
}

/// Every operation in all its forms at 8, 16, 32 and 64 bits, and sorts of several lengths.
pub fn all() -> impl Iterator<Item = Builtin> {
    let sizes = |operation| match operation {
        Operation::Sort => [(4, 8), (8, 16), (16, 32), (16, 64)],
        _ => [(1, 8), (1, 16), (1, 32), (1, 64)],
    };
    let forms = |operation: Operation| {
        let may = operation.row().1;
        (0..8)
            .map(|form| [0, 1, 2].map(|at| form >> at & 1 == 1))
            .filter(move |has| (0..3).all(|at| may[at] || !has[at]))
    };
    Operation::ALL.into_iter().flat_map(move |operation| {
        forms(operation).flat_map(move |[signed, full, fast]| {
            sizes(operation).map(|(length, width)| Builtin { operation, width, length, signed, full, fast })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_written() {
        let names: Vec<String> = all().map(|builtin| builtin.to_string()).collect();
        for name in &names {
            assert_eq!(name.parse::<Builtin>().unwrap().to_string(), *name);
        }
        for name in ["builtin:add64_fast", "builtin:mul32", "builtin:lt8_signed_fast", "builtin:sort4x8"] {
            assert!(names.contains(&name.to_owned()), "{name}");
        }
        assert!("builtin:sub9".parse::<Builtin>().is_ok() && "builtin:sort2x64_signed_fast".parse::<Builtin>().is_ok());
    }

    #[test]
    fn other_names_are_refused() {
        for name in [
            "",
            "builtin:",
            "add64",
            "builtin:add",
            "builtin:add7",
            "builtin:add65",
            "builtin:add064",
            "builtin:add+8",
            "builtin:add64_",
            "builtin:add64_signed",
            "builtin:add64_fast_fast",
            "builtin:lt8_fast_signed",
            "builtin:add4x8",
            "builtin:sort8",
            "builtin:sort1x8",
            "builtin:sort17x8",
            "builtin:sort4x8x8",
            "builtin:64",
            "builtin:Add64",
            "builtin:add64 ",
            "builtin:add６４",
            "builtin:add99999999999999999999",
        ] {
            assert!(name.parse::<Builtin>().is_err(), "{name}");
        }
    }

    #[test]
    fn who_asks_for_an_unknown_name_is_told_what_there_is() {
        let message = "builtin:sum64".parse::<Builtin>().unwrap_err().to_string();
        assert!(message.starts_with("there is no circuit `builtin:sum64`; there are builtin:NAME with"), "{message}");
        for operation in Operation::ALL {
            assert!(message.contains(operation.row().0), "{message}");
        }
        for part in
            ["8 to 64 bits", "2 to 16 numbers", "_full after mul,", "_signed after lt, le, min, max, shr, sort,"]
        {
            assert!(message.contains(part), "{message}");
        }
    }
}
