//! Compares operations on encrypted numbers with operations on plain numbers. Known answers from an independent program
//! (tests/vectors) check the words bit for bit.

use super::*;
use crate::ckks::cpu::toy::{Toy, ToyCiphertext};
use crate::ckks::encode::Complex;
use crate::ckks::rotation;
use crate::ckks::{ParamsLiteral, PartKind, SecurityLevel};

fn params(poly_degree: usize, scale_bits: u32, max_depth: u32) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).unwrap()
}

/// Runs `compute` on ciphertexts of the host. The result is a ciphertext with the level `to` and the scale `scale`.
fn computed(
    evaluator: &Evaluator,
    inputs: &[&ToyCiphertext],
    (to, scale): (usize, f64),
    compute: impl FnOnce(&[Vec<&[u32]>], RowsMut<'_, '_>) -> Result<()>,
) -> ToyCiphertext {
    let n = evaluator.params().n();
    let swapped = |words: &[u32]| -> Vec<Vec<u32>> {
        let swap = |row: &[u32]| {
            let mut out = vec![0; n];
            evaluator.swap_order(row, &mut out);
            out
        };
        words.chunks_exact(n).map(swap).collect()
    };
    let inputs: Vec<Vec<Vec<u32>>> = inputs.iter().map(|input| swapped(&input.words)).collect();
    let inputs: Vec<Vec<&[u32]>> = inputs.iter().map(|rows| rows.iter().map(|row| &row[..]).collect()).collect();
    let mut out = vec![vec![7; n]; 2 * evaluator.params().level(to).primes.len()];
    let mut rows: Vec<&mut [u32]> = out.iter_mut().map(|row| &mut row[..]).collect();
    compute(&inputs, &mut rows).unwrap();
    ToyCiphertext { level: to, scale, words: swapped(&out.concat()).concat() }
}

fn worst(found: &[Complex], expected: impl Iterator<Item = f64>) -> f64 {
    let errors = found.iter().zip(expected).map(|(found, expected)| (found.re - expected).abs().max(found.im.abs()));
    errors.fold(0.0, f64::max)
}

/// Tests every level of several parameter sets. Some sets have nested chains and some have set chains, with one or
/// several special primes.
#[test]
fn operations_are_those_of_the_numbers_at_every_level() {
    for (n, scale_bits, depth) in [(64, 30, 3), (64, 40, 4), (256, 50, 3), (64, 33, 5), (4096, 40, 2)] {
        let params = params(n, scale_bits, depth);
        let mut toy = Toy::new(&params, u64::from(scale_bits));
        let isas = Isa::available();
        let evaluators: Vec<Evaluator> =
            isas.iter().enumerate().map(|(at, &isa)| Evaluator::new(&params, isa, 1 + at)).collect();
        let evaluator = &evaluators[0];
        let top = params.level_max();
        let relinearization = toy.load(evaluator, PartKind::Relinearization, top);
        let steps = 5;
        let element = rotation::element(n, steps);
        let turn = toy.load(evaluator, PartKind::Galois(element), top);
        let conjugate = toy.load(evaluator, PartKind::Galois(rotation::conjugation(n)), top);
        // `bits` is largest for a rotation, because the error of its key switch grows with the amount by which the
        // digits exceed P, the product of the special primes
        let tolerance = |bits: f64| (bits - f64::from(scale_bits)).exp2() * (n as f64);
        for level in 0..=top {
            let (x, y) = (toy.reals(), toy.reals());
            let [a, b] = [&x, &y].map(|values| toy.encrypt_reals(values, level));
            let case = format!("N {n}, scale {scale_bits}, level {level}");
            assert!(worst(&toy.decrypt(&a), x.iter().copied()) < tolerance(3.0), "{case}");
            let same = (level, a.scale);
            let sum = computed(evaluator, &[&a, &b], same, |rows, out| evaluator.add(level, &rows[0], &rows[1], out));
            assert!(worst(&toy.decrypt(&sum), x.iter().zip(&y).map(|(x, y)| x + y)) < tolerance(4.0), "{case}");
            let difference =
                computed(evaluator, &[&a, &b], same, |rows, out| evaluator.sub(level, &rows[0], &rows[1], out));
            assert!(worst(&toy.decrypt(&difference), x.iter().zip(&y).map(|(x, y)| x - y)) < tolerance(4.0), "{case}");
            let negative =
                computed(evaluator, &[&a], same, |rows, out| evaluator.multiply_integer(level, &rows[0], -1, out));
            assert!(worst(&toy.decrypt(&negative), x.iter().map(|x| -x)) < tolerance(3.0), "{case}");
            let constant = computed(evaluator, &[&a], same, |rows, out| {
                evaluator.add_integer(level, &rows[0], (0.75 * a.scale) as i128, out)
            });
            assert!(worst(&toy.decrypt(&constant), x.iter().map(|x| x + 0.75)) < tolerance(3.0), "{case}");
            let turned = computed(evaluator, &[&a], same, |rows, out| {
                evaluator.automorphism(level, element, &rows[0], &turn, out)
            });
            let mut expected = x.clone();
            expected.rotate_left(steps as usize);
            let error = worst(&toy.decrypt(&turned), expected.into_iter());
            assert!(error < tolerance(8.0), "{case}: rotation {error}");
            if level == 0 {
                continue;
            }
            let to = level - 1;
            let scale = a.scale * b.scale / params.chain().divisor(level, to);
            let product = computed(evaluator, &[&a, &b], (to, scale), |rows, out| {
                evaluator.multiply(level, to, [&rows[0], &rows[1]], &relinearization, out)
            });
            let error = worst(&toy.decrypt(&product), x.iter().zip(&y).map(|(x, y)| x * y));
            assert!(error < tolerance(6.0), "{case}: product {error}");
            let unscaled = computed(evaluator, &[&a, &b], (level, a.scale * b.scale), |rows, out| {
                evaluator.multiply(level, level, [&rows[0], &rows[1]], &relinearization, out)
            });
            let rescaled = computed(evaluator, &[&unscaled], (to, scale), |rows, out| {
                evaluator.rescale(level, to, 1, &rows[0], out)
            });
            let error = worst(&toy.decrypt(&rescaled), x.iter().zip(&y).map(|(x, y)| x * y));
            assert!(error < tolerance(6.0), "{case}: product, then rescaled {error}");
            for to in 0..level {
                let divisor = params.chain().divisor(level, to);
                let factor = (params.level(to).scale * divisor / a.scale).round();
                let scale = a.scale * factor / divisor;
                let lowered = computed(evaluator, &[&a], (to, scale), |rows, out| {
                    evaluator.rescale(level, to, factor as u128, &rows[0], out)
                });
                let error = worst(&toy.decrypt(&lowered), x.iter().copied());
                assert!(error < tolerance(6.0), "{case}: lowered to {to} {error}");
            }
            // every instruction set computes the same words, also on several threads
            for other in &evaluators[1..] {
                let part = toy_part(other, &relinearization, evaluator);
                let again = computed(other, &[&a, &b], (to, scale), |rows, out| {
                    other.multiply(level, to, [&rows[0], &rows[1]], &part, out)
                });
                assert!(again.words == product.words, "{case}");
            }
        }
        let values: Vec<Complex> = (0..params.slots()).map(|_| Complex::new(toy.real(), toy.real())).collect();
        let a = toy.encrypt(&values, top, params.level(top).scale);
        let found = computed(evaluator, &[&a], (top, a.scale), |rows, out| {
            evaluator.automorphism(top, rotation::conjugation(n), &rows[0], &conjugate, out)
        });
        let found = toy.decrypt(&found);
        let error = found.iter().zip(&values).map(|(found, value)| (*found - value.conjugate()).re.abs());
        assert!(error.fold(0.0, f64::max) < tolerance(8.0));
    }
}

#[test]
fn a_ciphertext_and_its_images_add_up_at_every_level_and_on_every_instruction_set() {
    for (n, scale_bits, depth) in [(64, 30, 3), (64, 40, 4), (256, 50, 3), (4096, 40, 2)] {
        let params = params(n, scale_bits, depth);
        let mut toy = Toy::new(&params, u64::from(scale_bits));
        let evaluators: Vec<Evaluator> =
            Isa::available().iter().enumerate().map(|(at, &isa)| Evaluator::new(&params, isa, 1 + at)).collect();
        let evaluator = &evaluators[0];
        let (slots, top) = (params.slots(), params.level_max());
        // the same rotation twice, and one in the other direction
        let steps = [1, 2, 3, -5, 1];
        let elements: Vec<u32> = steps.iter().map(|&steps| rotation::element(n, steps)).collect();
        let parts: Vec<LoadedPart> =
            elements.iter().map(|&element| toy.load(evaluator, PartKind::Galois(element), top)).collect();
        for level in 0..=top {
            let x = toy.reals();
            let a = toy.encrypt_reals(&x, level);
            for count in 1..=steps.len() {
                let case = format!("N {n}, scale {scale_bits}, level {level}, {count} images");
                let with = |evaluator: &Evaluator, parts: &[LoadedPart]| {
                    let images: Vec<(u32, &LoadedPart)> = elements[..count].iter().copied().zip(parts).collect();
                    computed(evaluator, &[&a], (level, a.scale), |rows, out| {
                        evaluator.add_images(level, &images, &rows[0], out)
                    })
                };
                let sum = with(evaluator, &parts);
                let of_slot = |slot: usize| {
                    let rotated = |&steps: &i64| x[(slot as i64 + steps).rem_euclid(slots as i64) as usize];
                    x[slot] + steps[..count].iter().map(rotated).sum::<f64>()
                };
                let error = worst(&toy.decrypt(&sum), (0..slots).map(of_slot));
                let tolerance = (8.0 - f64::from(scale_bits)).exp2() * (n * (1 + count)) as f64;
                assert!(error < tolerance, "{case}: an error of {error}");
                for other in &evaluators[1..] {
                    let parts: Vec<LoadedPart> = parts.iter().map(|part| toy_part(other, part, evaluator)).collect();
                    assert!(with(other, &parts).words == sum.words, "{case}: {:?}", other.isa);
                }
            }
        }
    }
}

#[test]
fn products_and_a_ciphertext_add_up_with_one_relinearization() {
    for (n, scale_bits, depth) in [(64, 30, 3), (256, 50, 3), (64, 33, 5), (4096, 40, 2)] {
        let params = params(n, scale_bits, depth);
        let mut toy = Toy::new(&params, u64::from(scale_bits));
        let evaluators: Vec<Evaluator> =
            Isa::available().iter().enumerate().map(|(at, &isa)| Evaluator::new(&params, isa, 1 + at)).collect();
        let evaluator = &evaluators[0];
        let top = params.level_max();
        let part = toy.load(evaluator, PartKind::Relinearization, top);
        for level in 1..=top {
            let numbers: Vec<Vec<f64>> = (0..5).map(|_| toy.reals()).collect();
            let factors: Vec<ToyCiphertext> = numbers[..4].iter().map(|x| toy.encrypt_reals(x, level)).collect();
            let (divisor, squared) = (params.chain().divisor(level, level - 1), factors[0].scale.powi(2));
            let plus: Vec<Complex> = numbers[4].iter().map(|&x| x.into()).collect();
            let plus = toy.encrypt(&plus, level, squared);
            // the first factor is squared, and also a factor of another product
            for pairs in [vec![(0, 0)], vec![(0, 1), (2, 3)], vec![(0, 0), (0, 3), (1, 2)]] {
                for has_plus in [false, true] {
                    let case = format!("N {n}, scale {scale_bits}, level {level}, {pairs:?}, {has_plus}");
                    let inputs: Vec<&ToyCiphertext> = factors.iter().chain([&plus]).collect();
                    let with = |evaluator: &Evaluator, part: &LoadedPart| {
                        computed(evaluator, &inputs, (level - 1, squared / divisor), |rows, out| {
                            let of: Vec<[Rows<'_>; 2]> = pairs.iter().map(|&(a, b)| [&rows[a][..], &rows[b]]).collect();
                            let plus = has_plus.then_some(&rows[4][..]);
                            evaluator.sum_of_products(level, level - 1, &of, plus, part, out)
                        })
                    };
                    let sum = with(evaluator, &part);
                    let of_slot = |slot: usize| {
                        let products = pairs.iter().map(|&(a, b)| numbers[a][slot] * numbers[b][slot]);
                        products.sum::<f64>() + if has_plus { numbers[4][slot] } else { 0.0 }
                    };
                    let error = worst(&toy.decrypt(&sum), (0..params.slots()).map(of_slot));
                    let tolerance = (6.0 - f64::from(scale_bits)).exp2() * (4 * n) as f64;
                    assert!(error < tolerance, "{case}: an error of {error}");
                    for other in &evaluators[1..] {
                        let part = toy_part(other, &part, evaluator);
                        assert!(with(other, &part).words == sum.words, "{case}: {:?}", other.isa);
                    }
                }
            }
        }
    }
}

/// Lays a part out again, for the instruction set of another evaluator.
fn toy_part(to: &Evaluator, part: &LoadedPart, from: &Evaluator) -> LoadedPart {
    let mut out = to.room_for_part(&part.digits, &part.primes).unwrap();
    for digit in 0..part.digits.len() {
        let [body, mask] = part.row(from, digit);
        to.load_row(&mut out, digit, [&body, &mask]);
    }
    out
}
