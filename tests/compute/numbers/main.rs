//! Operations of the CPU on encrypted numbers, compared word for word with their definitions
//! (`tests_compute::naive::numbers`), on every instruction set, with one thread and with two.
//!
//! Words are random, or extreme: 0, 1, the largest residue, the residues nearest to half of a prime, and numbers near
//! half of the product of the primes that a base conversion reads, where the last bit of a fraction decides.

mod inputs;
mod setting;

use kernels::ckks::{PartKind, rotation};
use tests_compute::naive::numbers::{self, Ciphertext, Division};

use inputs::{Groups, Inputs, Words};
use setting::{Operation, Setting};

/// The degree, the bits of the scale, the depth, and whether the chain has the levels of bootstrapping. Some chains are
/// nested and some are not. The keys have one or several special primes.
const SETTINGS: [(usize, u32, u32, bool); 7] = [
    (64, 30, 2, false),
    (64, 33, 1, false),
    (64, 33, 2, false),
    (64, 40, 4, false),
    (64, 45, 3, false),
    (64, 35, 1, true),
    (256, 50, 2, false),
];

/// Calls `check` for each setting, with a generator of inputs.
fn for_each_setting(check: impl Fn(&Setting, &mut Inputs)) {
    for given in SETTINGS {
        check(&Setting::new(given), &mut Inputs::new());
    }
}

#[test]
fn the_settings_cover_the_cases() {
    let settings: Vec<Setting> = SETTINGS.into_iter().map(Setting::new).collect();
    let any = |holds: &dyn Fn(&Setting) -> bool| settings.iter().any(holds);
    let gained = |setting: &Setting, level: usize| {
        let [upper, lower] = [level, level - 1].map(|level| &setting.params.level(level).primes);
        lower.iter().filter(|prime| !upper.contains(prime)).count()
    };
    for count in [1, 2] {
        assert!(any(&|setting| (1..=setting.top()).any(|level| gained(setting, level) == count)), "gained primes");
        let has_digit = |setting: &Setting| {
            let digits = setting.params.digits(PartKind::Relinearization, setting.top());
            digits.iter().any(|digit| digit.len() == count)
        };
        assert!(any(&has_digit), "a digit of {count} primes");
    }
    assert!(any(&|setting| (1..=setting.top()).all(|level| gained(setting, level) == 0)), "a nested chain");
    assert!(any(&|setting| setting.params.special_count() == 1), "one special prime");
    assert!(any(&|setting| setting.params.special_count() > 2), "several special primes");
    let drops = |setting: &Setting| {
        let chain = setting.params.chain();
        let leaving = |to: usize| {
            let kept = &chain.levels[to].primes;
            chain.levels[setting.top()].primes.iter().filter(|prime| !kept.contains(prime)).count()
        };
        (0..setting.top()).any(|to| chain.divided(setting.top(), to).len() < leaving(to))
    };
    assert!(any(&drops), "primes that are left out without a division");
    let of_kind = |setting: &Setting, kind| setting.params.special_primes(kind).len();
    let smaller =
        |setting: &Setting| of_kind(setting, PartKind::ToSparse) < of_kind(setting, PartKind::Relinearization);
    assert!(any(&smaller), "a part with fewer special primes");
}

#[test]
fn rescaled_ciphertexts_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let params = &setting.params;
        for level in 1..=setting.top() {
            for to in 0..level {
                let factors = if to + 1 == level { vec![1, 3] } else { vec![1, (1 << 41) + 12_345, u128::MAX - 7] };
                for factor in factors {
                    let division = Division::new(params, level, 0, to, factor);
                    let groups = Groups::of(&division);
                    for words in Words::ALL {
                        let a = inputs.ciphertext(params, level, words, &groups);
                        setting.check(
                            &format!("rescale from {level} to {to} by {factor}, {words:?}"),
                            &Operation { level, to, inputs: &[&a], parts: &[] },
                            &numbers::rescale(params, level, to, factor, &a),
                            |evaluator, _, rows, out| evaluator.rescale(level, to, factor, rows[0], out),
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn raised_ciphertexts_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let (params, to) = (&setting.params, setting.top());
        let groups = Groups { groups: vec![params.level(0).primes.clone()], multiplier: 1.into() };
        for words in Words::ALL {
            let a = inputs.ciphertext(params, 0, words, &groups);
            setting.check(
                &format!("raise, {words:?}"),
                &Operation { level: 0, to, inputs: &[&a], parts: &[] },
                &numbers::raise(params, &a),
                |evaluator, _, rows, out| evaluator.raise(rows[0], out),
            );
        }
    });
}

/// Products at the level of the factors and at the level below, under a key of the highest level and under a key of the
/// level itself. The last two inputs reach the edges: of the final division, and of the digits.
#[test]
fn products_have_the_defined_words() {
    let kind = PartKind::Relinearization;
    for_each_setting(|setting, inputs| {
        let params = &setting.params;
        for level in 0..=setting.top() {
            for (to, of_key) in [(level, setting.top()), (level, level), (level.saturating_sub(1), setting.top())] {
                let key = inputs.part(params, kind, of_key);
                let groups = Groups { groups: key.digits.clone(), multiplier: 1.into() };
                let mut given = Vec::new();
                for words in Words::ALL {
                    let factors = [0, 1].map(|_| inputs.ciphertext(params, level, words, &groups));
                    given.push((format!("{words:?}"), factors, inputs.part(params, kind, of_key)));
                }
                // a0 = 0 and a1 = 1: the product with the key is the key's row
                let division = Division::new(params, level, params.special_count(), to, 1);
                let edge = inputs.part_at_the_edge(params, kind, of_key, level, &division);
                given.push(("edge of the division".into(), [0, 1].map(|_| inputs::mask_of_one(params, level)), edge));
                // a1 = 1 in one factor only: the other factor's second polynomial is decomposed
                let near_half = inputs.ciphertext(params, level, Words::NearHalf, &groups);
                given.push(("edge of the digits".into(), [near_half, inputs::mask_of_one(params, level)], key));
                for (name, [a, b], key) in &given {
                    setting.check(
                        &format!("product from {level} to {to}, key of level {of_key}, {name}"),
                        &Operation { level, to, inputs: &[a, b], parts: &[key] },
                        &numbers::sum_of_products(params, (level, to), &[[a, b]], None, key),
                        |evaluator, parts, rows, out| evaluator.multiply(level, to, [rows[0], rows[1]], &parts[0], out),
                    );
                }
            }
        }
    });
}

#[test]
fn sums_of_products_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let params = &setting.params;
        let key = inputs.part(params, PartKind::Relinearization, setting.top());
        let groups = Groups { groups: key.digits.clone(), multiplier: 1.into() };
        for level in 1..=setting.top() {
            for words in [Words::Random, Words::Largest, Words::Extreme] {
                let given: Vec<Ciphertext> = (0..5).map(|_| inputs.ciphertext(params, level, words, &groups)).collect();
                let given: Vec<&Ciphertext> = given.iter().collect();
                for to in [level - 1, level] {
                    for (pairs, has_plus) in [(1, true), (2, false), (2, true), (3, true)] {
                        let places = &[[0, 0], [1, 2], [0, 3]][..pairs];
                        let of: Vec<[&Ciphertext; 2]> = places.iter().map(|pair| pair.map(|at| given[at])).collect();
                        let plus = has_plus.then_some(given[4]);
                        setting.check(
                            &format!("sum of {pairs} products from {level} to {to}, plus {has_plus}, {words:?}"),
                            &Operation { level, to, inputs: &given, parts: &[&key] },
                            &numbers::sum_of_products(params, (level, to), &of, plus, &key),
                            |evaluator, parts, rows, out| {
                                let of: Vec<_> = places.iter().map(|pair| pair.map(|at| rows[at])).collect();
                                let plus = has_plus.then_some(rows[4]);
                                evaluator.sum_of_products(level, to, &of, plus, &parts[0], out)
                            },
                        );
                    }
                }
            }
        }
    });
}

/// Automorphisms, and switches to the sparse secret of bootstrapping and back, which are automorphisms of element 1.
#[test]
fn images_and_switched_ciphertexts_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let (params, top) = (&setting.params, setting.top());
        let n = params.n();
        let [turn, back] = [1, -3].map(|steps| rotation::element(n, steps));
        let conjugation = rotation::conjugation(n);
        let of_elements = [turn, back, conjugation].map(|element| (PartKind::Galois(element), element));
        for level in 0..=top {
            for (kind, element) in of_elements.into_iter().chain([(PartKind::ToSparse, 1), (PartKind::FromSparse, 1)]) {
                for of_key in [level, top] {
                    let key = inputs.part(params, kind, of_key);
                    let groups = Groups { groups: key.digits.clone(), multiplier: 1.into() };
                    let mut given = Vec::new();
                    for words in Words::ALL {
                        let a = inputs.ciphertext(params, level, words, &groups);
                        given.push((format!("{words:?}"), a, inputs.part(params, kind, of_key)));
                    }
                    let division = Division::new(params, level, key.special(params), level, 1);
                    let edge = inputs.part_at_the_edge(params, kind, of_key, level, &division);
                    given.push(("edge of the division".into(), inputs::mask_of_one(params, level), edge));
                    for (name, a, key) in &given {
                        setting.check(
                            &format!("{kind:?} at {level}, key of level {of_key}, {name}"),
                            &Operation { level, to: level, inputs: &[a], parts: &[key] },
                            &numbers::automorphism(params, level, element, key, a),
                            |evaluator, parts, rows, out| {
                                evaluator.automorphism(level, element, rows[0], &parts[0], out)
                            },
                        );
                    }
                }
            }
        }
    });
}

#[test]
fn images_of_one_decomposition_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let (params, level) = (&setting.params, setting.top());
        let elements = [1, 7].map(|steps| rotation::element(params.n(), steps));
        let keys = elements.map(|element| inputs.part(params, PartKind::Galois(element), level));
        let groups = Groups { groups: keys[0].digits.clone(), multiplier: 1.into() };
        let a = inputs.ciphertext(params, level, Words::NearHalf, &groups);
        for (at, &element) in elements.iter().enumerate() {
            setting.check(
                &format!("image {at} of one decomposition"),
                &Operation { level, to: level, inputs: &[&a], parts: &[&keys[0], &keys[1]] },
                &numbers::automorphism(params, level, element, &keys[at], &a),
                |evaluator, parts, rows, out| {
                    let decomposed = evaluator.decompose(level, &parts[0], &rows[0][rows[0].len() / 2..])?;
                    evaluator.automorphism_of(level, element, rows[0], &decomposed, &parts[at], out)
                },
            );
        }
    });
}

#[test]
fn sums_of_images_have_the_defined_words() {
    for_each_setting(|setting, inputs| {
        let (params, top) = (&setting.params, setting.top());
        // the same rotation twice, and one in the other direction
        let elements = [1, 2, -5, 1].map(|steps| rotation::element(params.n(), steps));
        let keys = elements.map(|element| inputs.part(params, PartKind::Galois(element), top));
        let groups = Groups { groups: keys[0].digits.clone(), multiplier: 1.into() };
        for level in 0..=top {
            let division = Division::new(params, level, params.special_count(), level, 1);
            let edge = inputs.part_at_the_edge(params, PartKind::Galois(elements[0]), top, level, &division);
            let of_edge = ("edge of the division".into(), inputs::mask_of_one(params, level), vec![&edge]);
            let mut given = vec![of_edge];
            for (words, count) in Words::ALL.into_iter().zip([1, 2, 3, 4, 4]) {
                let a = inputs.ciphertext(params, level, words, &groups);
                given.push((format!("{count} images, {words:?}"), a, keys[..count].iter().collect()));
            }
            for (name, a, keys) in &given {
                let images: Vec<_> = elements.into_iter().zip(keys.iter().copied()).collect();
                setting.check(
                    &format!("sum at {level}: {name}"),
                    &Operation { level, to: level, inputs: &[a], parts: keys },
                    &numbers::add_images(params, level, &images, a),
                    |evaluator, parts, rows, out| {
                        let images: Vec<_> = elements.into_iter().zip(parts).collect();
                        evaluator.add_images(level, &images, rows[0], out)
                    },
                );
            }
        }
    });
}
