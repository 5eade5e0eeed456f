//! Netlists that come with the client. The public netlists are in `circuits/`, with their licence; [`builtin`] makes
//! the others.

use std::borrow::Cow;

use kernels::tfhe::builtin::{self, UnknownBuiltin};
use kernels::tfhe::{Circuit, CircuitError};

/// A circuit with its netlist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Netlist {
    text: String,
    circuit: Circuit,
}

impl Netlist {
    /// Reads a text in Bristol Fashion.
    ///
    /// # Errors
    /// As [`Circuit::parse`].
    pub fn parse(text: impl Into<String>) -> Result<Netlist, CircuitError> {
        let text = text.into();
        Circuit::parse(&text).map(|circuit| Netlist { text, circuit })
    }

    /// The netlist's text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The circuit.
    pub fn circuit(&self) -> &Circuit {
        &self.circuit
    }
}

/// Sum of two 64-bit numbers modulo 2^64: 376 gates.
pub const ADDER64: &str = include_str!("../circuits/adder64.txt");
/// Product of two 64-bit numbers modulo 2^64: 13,675 gates.
pub const MULT64: &str = include_str!("../circuits/mult64.txt");
/// AES-128 of a key and a block: 36,663 gates. Blocks are numbers, most significant byte first.
pub const AES_128: &str = include_str!("../circuits/aes_128.txt");
/// The licence of the public netlists; each copy of them must carry it.
pub const LICENCE: &str = include_str!("../circuits/LICENSE.txt");

/// A public netlist.
#[derive(Clone, Copy, Debug)]
pub struct Public {
    /// The netlist's name.
    pub name: &'static str,
    /// The netlist's text, in Bristol Fashion.
    pub text: &'static str,
    /// A description of the computed function.
    pub meaning: &'static str,
}

/// The public netlists.
pub const PUBLIC: [Public; 3] = [
    Public { name: "adder64", text: ADDER64, meaning: "a + b modulo 2^64 (bits: 64, 64 -> 64), 376 gates" },
    Public { name: "mult64", text: MULT64, meaning: "a * b modulo 2^64 (bits: 64, 64 -> 64), 13675 gates" },
    Public {
        name: "aes_128",
        text: AES_128,
        meaning: "AES-128 of a key and a block (bits: 128, 128 -> 128), 36663 gates",
    },
];

/// The netlist with this name: `adder64`, `mult64`, `aes_128`, or a name for which [`builtin`] makes a netlist. `None`
/// for other names.
///
/// # Errors
/// When the name begins with [`builtin::PREFIX`] and no circuit has it.
pub fn by_name(name: &str) -> Result<Option<Cow<'static, str>>, UnknownBuiltin> {
    if name.starts_with(builtin::PREFIX) {
        return builtin::netlist(name).map(|text| Some(text.into()));
    }
    Ok(PUBLIC.iter().find(|public| public.name == name).map(|public| public.text.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn on(circuit: &Circuit, inputs: [&str; 2]) -> String {
        let inputs = inputs.iter().zip(circuit.input_widths()).map(|(text, &width)| value::parse(text, width).unwrap());
        let outputs = circuit.evaluate(&inputs.collect::<Vec<_>>());
        assert_eq!(outputs.len(), 1);
        value::format(&outputs[0])
    }

    #[test]
    fn adder64_adds_modulo_2_to_the_64() {
        let adder = Circuit::parse(ADDER64).unwrap();
        assert_eq!(adder.gates().len(), 376);
        for (a, b) in [(0, 0), (1, u64::MAX), (u64::MAX, u64::MAX), (123_456_789, 987_654_321), (1 << 63, 1 << 63)] {
            assert_eq!(on(&adder, [&a.to_string(), &b.to_string()]), a.wrapping_add(b).to_string());
        }
    }

    #[test]
    fn mult64_multiplies_modulo_2_to_the_64() {
        let mult = Circuit::parse(MULT64).unwrap();
        assert_eq!(mult.gates().len(), 13_675);
        for (a, b) in [(0, 7), (1, u64::MAX), (u64::MAX, u64::MAX), (123_456_789, 987_654_321), (1 << 32, 1 << 31)] {
            assert_eq!(on(&mult, [&a.to_string(), &b.to_string()]), a.wrapping_mul(b).to_string());
        }
    }

    /// Known answers of FIPS 197, appendix B and appendix C.1.
    #[test]
    fn aes_128_gives_the_ciphertexts_of_fips_197() {
        let aes = Circuit::parse(AES_128).unwrap();
        assert_eq!(aes.gates().len(), 36_663);
        for [key, block, ciphertext] in [
            [
                "0x2b7e151628aed2a6abf7158809cf4f3c",
                "0x3243f6a8885a308d313198a2e0370734",
                "0x3925841d02dc09fbdc118597196a0b32",
            ],
            [
                "0x000102030405060708090a0b0c0d0e0f",
                "0x00112233445566778899aabbccddeeff",
                "0x69c4e0d86a7b0430d8cdb78070b4c55a",
            ],
        ] {
            assert_eq!(on(&aes, [key, block]), ciphertext);
        }
    }

    #[test]
    fn levels_hold_every_gate_of_the_netlists_once() {
        for text in [ADDER64, MULT64, AES_128] {
            let circuit = Circuit::parse(text).unwrap();
            let mut gates = circuit.levels().concat();
            gates.sort_unstable();
            assert!(gates.into_iter().eq(0..circuit.gates().len()));
        }
    }

    #[test]
    fn netlists_are_found_by_name() {
        for (name, text) in [("adder64", ADDER64), ("mult64", MULT64), ("aes_128", AES_128)] {
            assert_eq!(by_name(name), Ok(Some(text.into())));
        }
        for name in ["adder64.txt", "add64", ""] {
            assert_eq!(by_name(name), Ok(None), "{name}");
        }
    }

    #[test]
    fn builtin_circuits_are_made_when_they_are_asked_for() {
        let netlist = Netlist::parse(by_name("builtin:add64").unwrap().unwrap()).unwrap();
        assert_eq!(on(netlist.circuit(), ["20", "22"]), "42");
        let message = by_name("builtin:add65").unwrap_err().to_string();
        assert!(message.contains("`builtin:add65`") && message.contains("8 to 64 bits"), "{message}");
    }
}
