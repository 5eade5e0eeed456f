//! Computations that are longer than the levels of a fresh ciphertext.

use client::ckks::{Ciphertext, Params, ParamsLiteral, SecurityLevel, evaluation_key_parts, preparation};
use engine::ckks::operation::{Operand, Operation};

use super::STABLE;
use super::party::{Encrypted, More, Party, engine, numbers};

/// Multiplies numbers of a ciphertext 200 times, each time with other numbers. Bootstraps where the client's helper says so.
/// Checks the error after each bootstrap and at the end, and returns the number of bootstraps.
fn multiplied_200_times(literal: ParamsLiteral) -> usize {
    let params = Params::new(literal).unwrap();
    let party = Party::new(engine(), &params, &evaluation_key_parts(&params));
    let slots = params.slots();
    let mut x = party.encrypt(&numbers(slots, 3));
    let mut bootstraps = 0;
    for at in 0..200 {
        if let Some((_, first)) =
            preparation(&params, &party.request(Operation::Multiply, &[Operand::from(&x.ciphertext)], STABLE))
        {
            let expected = x.expected.clone();
            x = party.check(first, &[&x], More::default(), expected);
            assert_eq!((first, x.ciphertext.level), (Operation::Bootstrap, params.level_max()));
            bootstraps += 1;
            let Ciphertext { scale, noise, .. } = x.ciphertext;
            println!("after {at} products: {:.1} bits are promised", noise.precision_bits(params.n(), scale));
        }
        // near 1 and -1, so that the products stay as large as the first numbers
        let factors: Vec<f64> =
            numbers(slots, 1000 + at).iter().map(|u| u.signum() * (1.0 - u.abs() / 400.0)).collect();
        let factor = party.secret.encrypt_at(x.ciphertext.level, &factors, 1.0).expect("room").expand(&params);
        let product = party.run(Operation::Multiply, &[&x.ciphertext, &factor], STABLE).expect("a level is left");
        let expected = x.expected.iter().zip(&factors).map(|(x, y)| x * y).collect();
        x = Encrypted { ciphertext: product, expected };
    }
    party.check_precision(&x, "200 products");
    let largest = x.expected.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    assert!(largest > 0.4, "the numbers do not vanish: {largest}");
    bootstraps
}

#[test]
fn two_hundred_products_in_a_row_are_within_the_predicted_error() {
    for (poly_degree, scale_bits, max_depth, bootstraps) in [(64, 40, 4, 49), (256, 40, 3, 66), (256, 30, 7, 28)] {
        let security = SecurityLevel::Testing;
        let literal = ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: true };
        assert_eq!(multiplied_200_times(literal), bootstraps);
    }
}

#[test]
#[ignore = "49 bootstraps of degree 32768: minutes"]
fn two_hundred_products_in_a_row_at_128_bits() {
    let security = SecurityLevel::Bits128;
    let literal = ParamsLiteral { poly_degree: 32768, scale_bits: 30, max_depth: 4, security, bootstrap: true };
    assert_eq!(multiplied_200_times(literal), 49);
}
