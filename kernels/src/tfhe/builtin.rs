//! Built-in circuits, which have names: sums, comparisons, products, quotients, shifts, counts, sorting.
//!
//! A [`Builtin`] is a parsed name, and [`Builtin::build`] makes its netlist. The same name always gives the same
//! netlist. Names with `_signed` use two's complement; all others use unsigned numbers. Inputs and outputs, in bits,
//! for a width of w:
//!
//! | name | inputs | outputs | |
//! |---|---|---|---|
//! | `add`, `sub` | w, w | w | modulo 2^w |
//! | `lt`, `le`, `eq` | w, w | 1 | a < b, a <= b, a = b |
//! | `min`, `max` | w, w | w | |
//! | `select` | 1, w, w | w | the second input if the first is 1, else the third |
//! | `mul` | w, w | w | the product modulo 2^w |
//! | `mul.._full` | w, w | 2 w | the product |
//! | `div` | w, w | w, w | quotient and remainder; a divisor of 0 gives all ones and the dividend |
//! | `shl`, `shr` | w, ceil(log2 w) | w | the first input shifted by the second: zeros enter, or copies of the top bit for `shr.._signed` |
//! | `popcount` | w | floor(log2 w) + 1 | how many bits are 1 |
//! | `sort` | w, n times | w, n times | the numbers in ascending order |

mod adders;
mod builder;
mod compare;
mod count;
mod divide;
mod families;
mod multiply;
mod name;
mod shift;
mod sort;

pub use builder::Built;
pub use families::{Family, families};
pub use name::{Builtin, LENGTHS, PREFIX, UnknownBuiltin, WIDTHS, all};

use builder::{Builder, ZERO};
use compare::Sign;
use name::Operation;

/// The goal of a circuit: few gates, or few levels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Form {
    Small,
    Fast,
}

/// Returns the netlist of the built-in circuit with this name, in Bristol Fashion.
///
/// # Errors
/// When no built-in circuit has this name.
pub fn netlist(name: &str) -> Result<String, UnknownBuiltin> {
    name.parse().map(|builtin: Builtin| builtin.build().into_text())
}

impl Builtin {
    /// Builds the netlist. Every netlist has less than 2^16 gates.
    pub fn build(&self) -> Built {
        let &Builtin { operation, width, length, .. } = self;
        let sign = if self.signed { Sign::Signed } else { Sign::Unsigned };
        let form = if self.fast { Form::Fast } else { Form::Small };
        let mut builder = Builder::default();
        let to = &mut builder;
        let outputs = match operation {
            Operation::Add | Operation::Sub => {
                let [a, b] = [to.input(width), to.input(width)];
                let of = if operation == Operation::Add { adders::add } else { adders::subtract };
                vec![of(to, &a, &b, form)]
            }
            Operation::Lt | Operation::Le => {
                let [a, b] = [to.input(width), to.input(width)];
                vec![vec![compare::less(to, &a, &b, operation == Operation::Le, sign, form)]]
            }
            Operation::Eq => {
                let [a, b] = [to.input(width), to.input(width)];
                vec![vec![compare::equal(to, &a, &b)]]
            }
            Operation::Min | Operation::Max => {
                let [a, b] = [to.input(width), to.input(width)];
                let [low, high] = compare::in_order(to, &a, &b, sign, form);
                vec![if operation == Operation::Min { low } else { high }]
            }
            Operation::Select => {
                let [sel, a, b] = [to.input(1), to.input(width), to.input(width)];
                vec![to.select_word(sel[0], &a, &b)]
            }
            Operation::Mul => {
                let [a, b] = [to.input(width), to.input(width)];
                let of = if self.full { multiply::full } else { multiply::low };
                vec![of(to, &a, &b, form)]
            }
            Operation::Div => {
                let [a, b] = [to.input(width), to.input(width)];
                divide::divide(to, &a, &b, form).into()
            }
            Operation::Shl | Operation::Shr => {
                let [a, amount] = [to.input(width), to.input(shift::amount_width(width))];
                let fill = if self.signed { a[width - 1] } else { ZERO };
                vec![match operation {
                    Operation::Shl => shift::left(to, &a, &amount),
                    _ => shift::right(to, &a, &amount, fill),
                }]
            }
            Operation::Popcount => {
                let a = to.input(width);
                vec![count::popcount(to, &a)]
            }
            Operation::Sort => {
                let list = (0..length).map(|_| to.input(width)).collect();
                sort::sort(to, list, sign, form)
            }
        };
        outputs.into_iter().for_each(|word| builder.output(word));
        builder.finish()
    }
}

/// Helpers for the tests of all operations.
#[cfg(test)]
mod check {
    use super::*;
    use crate::tfhe::Circuit;

    pub(super) const WIDTHS: [usize; 4] = [8, 16, 32, 64];

    pub(super) fn built(name: &str) -> Built {
        name.parse::<Builtin>().unwrap().build()
    }

    /// The largest number of `width` bits.
    pub(super) fn mask(width: usize) -> u64 {
        u64::MAX >> (64 - width)
    }

    /// The value of the low `width` bits of `number`, read as two's complement.
    pub(super) fn signed(number: u64, width: usize) -> i64 {
        (number << (64 - width)) as i64 >> (64 - width)
    }

    /// An endless sequence of pseudorandom numbers from a seed (splitmix64).
    pub(super) fn random(seed: u64) -> impl Iterator<Item = u64> {
        (1u64..).map(move |step| {
            let mut number = seed.wrapping_add(step).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            number = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            number = (number ^ number >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            number ^ number >> 31
        })
    }

    /// Pairs of numbers: all pairs of edge values, then random pairs, of which some are equal and some close.
    pub(super) fn cases(width: usize) -> Vec<(u64, u64)> {
        let (top, middle) = (mask(width), 1 << (width - 1));
        let edges = [0, 1, 2, middle - 1, middle, middle + 1, top - 1, top];
        let edges = edges.into_iter().flat_map(|a| edges.map(|b| (a, b)));
        let mut numbers = random(width as u64).map(|number| number & top);
        let random = (0..240).map(|round| {
            let [a, b] = [(); 2].map(|()| numbers.next().unwrap());
            match round % 8 {
                0 => (a, a),
                1 => (a, a ^ 1 << (b % width as u64)),
                2 => (a, b >> (a % width as u64)),
                _ => (a, b),
            }
        });
        edges.chain(random.collect::<Vec<_>>()).collect()
    }

    /// A circuit whose inputs and outputs are given as numbers instead of bits.
    pub(super) struct OnNumbers(Circuit);

    impl OnNumbers {
        pub(super) fn of(name: &str) -> OnNumbers {
            OnNumbers(Circuit::parse(built(name).text()).unwrap())
        }

        /// Evaluates the circuit. Its outputs have at most 128 bits.
        pub(super) fn wide(&self, inputs: &[u64]) -> Vec<u128> {
            let widths = self.0.input_widths();
            let bits = |(&number, &width): (&u64, &usize)| {
                assert!(width == 64 || number >> width == 0, "{number} does not fit in {width} bits");
                (0..width).map(|bit| number >> bit & 1 == 1).collect()
            };
            assert_eq!(inputs.len(), widths.len());
            let inputs: Vec<Vec<bool>> = inputs.iter().zip(widths).map(bits).collect();
            let number = |bits: Vec<bool>| bits.iter().rev().fold(0, |number, &bit| 2 * number + u128::from(bit));
            self.0.evaluate(&inputs).into_iter().map(number).collect()
        }

        /// Evaluates the circuit. Its outputs have at most 64 bits.
        pub(super) fn run(&self, inputs: &[u64]) -> Vec<u64> {
            self.wide(inputs).into_iter().map(|output| output.try_into().unwrap()).collect()
        }
    }

    /// Checks on all [`cases`] that the circuit of this name, which has two inputs, gives the same numbers as `plain`.
    #[track_caller]
    pub(super) fn on_numbers(name: &str, plain: impl Fn(u64, u64) -> Vec<u64>) {
        let width = name.parse::<Builtin>().unwrap().width;
        let circuit = OnNumbers::of(name);
        for (a, b) in cases(width) {
            assert_eq!(circuit.run(&[a, b]), plain(a, b), "{name}: {a} {b}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::check::{OnNumbers, WIDTHS, built, cases, mask};
    use super::*;
    use crate::tfhe::{Circuit, Gate};

    #[test]
    fn every_circuit_has_the_inputs_and_outputs_of_the_table() {
        for builtin in all() {
            let circuit = Circuit::parse(builtin.build().text()).unwrap();
            let w = builtin.width;
            let (inputs, outputs) = match builtin.operation {
                Operation::Lt | Operation::Le | Operation::Eq => (vec![w, w], vec![1]),
                Operation::Select => (vec![1, w, w], vec![w]),
                Operation::Mul if builtin.full => (vec![w, w], vec![2 * w]),
                Operation::Div => (vec![w, w], vec![w, w]),
                Operation::Shl | Operation::Shr => (vec![w, w.ilog2() as usize], vec![w]),
                Operation::Popcount => (vec![w], vec![w.ilog2() as usize + 1]),
                Operation::Sort => (vec![w; builtin.length], vec![w; builtin.length]),
                _ => (vec![w, w], vec![w]),
            };
            assert_eq!((circuit.input_widths(), circuit.output_widths()), (&inputs[..], &outputs[..]), "{builtin}");
        }
    }

    #[test]
    fn every_width_from_8_to_64_has_its_circuits() {
        for width in super::WIDTHS {
            let [add, lt, mul, div, shr] = ["add", "lt", "mul", "div", "shr"].map(|name| {
                let fast = if name == "shr" { "" } else { "_fast" };
                [format!("{PREFIX}{name}{width}"), format!("{PREFIX}{name}{width}{fast}")]
                    .map(|name| OnNumbers::of(&name))
            });
            let full = OnNumbers::of(&format!("{PREFIX}mul{width}_full"));
            let count = OnNumbers::of(&format!("{PREFIX}popcount{width}"));
            for (a, b) in cases(width).into_iter().step_by(23) {
                let (top, by) = (mask(width), b % width as u64);
                for form in [0, 1] {
                    assert_eq!(add[form].run(&[a, b]), [a.wrapping_add(b) & top]);
                    assert_eq!(lt[form].run(&[a, b]), [u64::from(a < b)]);
                    assert_eq!(mul[form].run(&[a, b]), [a.wrapping_mul(b) & top]);
                    assert_eq!(div[form].run(&[a, b | 1]), [a / (b | 1), a % (b | 1)]);
                    assert_eq!(shr[form].run(&[a, by]), [a >> by]);
                }
                assert_eq!(full.wide(&[a, b]), [u128::from(a) * u128::from(b)]);
                assert_eq!(count.run(&[a]), [u64::from(a.count_ones())]);
            }
        }
    }

    #[test]
    fn no_circuit_has_2_to_the_16_gates_or_a_gate_that_is_not_needed() {
        for builtin in all() {
            let circuit = Circuit::parse(builtin.build().text()).unwrap();
            let gates = circuit.gates().len();
            assert!(gates < 1 << 16, "{builtin}: {gates}");
            assert!(circuit.needed().into_iter().all(|needed| needed), "{builtin}");
        }
    }

    #[test]
    fn a_name_means_one_text() {
        for name in ["builtin:add64_fast", "builtin:mul16_full_fast", "builtin:sort5x11"] {
            assert_eq!(netlist(name).unwrap(), built(name).text());
        }
        assert_eq!(netlist("builtin:sum64").unwrap_err(), "builtin:sum64".parse::<Builtin>().unwrap_err());
    }

    #[test]
    fn fast_forms_take_fewer_levels_of_gates_and_of_cells() {
        let levels = |built: &Built| Circuit::parse(built.text()).unwrap().levels().len();
        for fast in all().filter(|builtin| builtin.fast && builtin.width > 8) {
            let small = Builtin { fast: false, ..fast }.build();
            let built = fast.build();
            assert!(built.depth() < small.depth() && levels(&built) < levels(&small), "{fast}");
            assert!(built.cells() >= small.cells(), "{fast}");
        }
    }

    /// `cargo test -p kernels --lib builtin -- --ignored --nocapture` prints the numbers of gates and cells, as the
    /// builder counts them.
    #[test]
    #[ignore = "prints a table"]
    fn table_of_sizes() {
        println!("| name | inputs | outputs | gates | XOR | AND | INV | levels | cells | cells in a row |");
        println!("|---|---|---|---|---|---|---|---|---|---|");
        for builtin in
            all().filter(|builtin| WIDTHS[2..].contains(&builtin.width) || builtin.operation == Operation::Sort)
        {
            let built = builtin.build();
            let circuit = Circuit::parse(built.text()).unwrap();
            let widths = |widths: &[usize]| match widths {
                [width, _, _, _, ..] => format!("{} x {width}", widths.len()),
                _ => widths.iter().map(usize::to_string).collect::<Vec<_>>().join(", "),
            };
            let count = |gate| circuit.gates().iter().filter(|counted| counted.gate() == gate).count();
            println!(
                "| `{}` | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
                builtin.to_string().trim_start_matches(PREFIX),
                widths(circuit.input_widths()),
                widths(circuit.output_widths()),
                circuit.gates().len(),
                count(Gate::Xor),
                count(Gate::And),
                count(Gate::Not),
                circuit.levels().len(),
                built.cells(),
                built.depth()
            );
        }
    }
}
