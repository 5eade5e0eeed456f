use std::time::Instant;

use kernels::ckks::cpu::Evaluator;
use kernels::ckks::operation::Operand;
use kernels::ckks::params::POLY_DEGREES;
use kernels::ckks::rotation;
use kernels::container::Error;
use kernels::cpu::Isa;
use zeroize::ZeroizeOnDrop;

use super::*;

fn params(poly_degree: usize, scale_bits: u32, max_depth: u32) -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap: false }).unwrap()
}

/// `count` numbers between -1 and 1.
fn numbers(count: usize, seed: u32) -> Vec<f64> {
    (0..count as u32).map(|i| f64::from((i ^ seed).wrapping_mul(2_654_435_761)) / 2f64.powi(31) - 1.0).collect()
}

fn largest_error(values: &[f64], expected: &[f64]) -> f64 {
    assert_eq!(values.len(), expected.len());
    values.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
}

/// Checks that the error is within the bound, and that the bound is at most 8 bits too large.
fn check(decrypted: &Decrypted, expected: &[f64]) {
    let error = largest_error(&decrypted.values, expected);
    assert!(error < decrypted.error_bound, "{error} is above {}", decrypted.error_bound);
    assert!(error > decrypted.error_bound / 256.0, "{error} is far below {}", decrypted.error_bound);
    assert!((decrypted.precision_bits + decrypted.error_bound.log2()).abs() < 1e-9);
}

#[test]
fn numbers_survive_encryption_with_the_predicted_precision_at_every_degree_and_level() {
    for n in POLY_DEGREES {
        let params = params(n, 40, 3);
        let key = SecretKey::generate(&params);
        let values = numbers(params.slots(), 7);
        for level in [0, 1, 3] {
            let seeded = key.encrypt_at(level, &values, 1.0).unwrap();
            check(&key.decrypt(&seeded.expand(&params)).unwrap(), &values);
            let encryptor = Encryptor::new(key.public_key(level));
            check(&key.decrypt(&encryptor.encrypt(&values, 1.0).unwrap()).unwrap(), &values);
        }
    }
}

#[test]
fn a_whole_evaluation_key_has_each_part_once_and_those_of_bootstrapping_where_there_are_levels() {
    let without = params(64, 40, 3);
    let kinds = |params: &Params| evaluation_key_parts(params).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
    assert_eq!(kinds(&without).len(), 1 + 5);
    let with = Params::new(ParamsLiteral { bootstrap: true, ..without.literal() }).unwrap();
    let found = kinds(&with);
    assert!(found.contains(&PartKind::ToSparse) && found.contains(&PartKind::FromSparse) && found.len() > 8);
    assert!(found.iter().enumerate().all(|(at, kind)| !found[..at].contains(kind)));
    // each part for bootstrapping is present at its level or a higher one
    let whole = evaluation_key_parts(&with);
    for (kind, level) in kernels::ckks::bootstrap::parts(&with) {
        assert!(whole.iter().any(|&(of, highest)| of == kind && highest >= level), "{kind:?}");
    }
    let key = SecretKey::generate(&with);
    assert_eq!(key.sparse.iter().filter(|&&s| s != 0).count(), 16);
    let read = SecretKey::from_bytes(&key.to_bytes()).unwrap();
    assert!(read == key && read.sparse == key.sparse && read.sparse_tag == key.sparse_tag, "of the key file");
    assert!(SecretKey::generate(&without).sparse.is_empty());
}

#[test]
fn every_scale_carries_numbers_up_to_the_bound_that_has_room() {
    for (scale_bits, max_depth) in [(10, 2), (25, 14), (45, 6), (50, 14)] {
        let params = params(256, scale_bits, max_depth);
        let key = SecretKey::generate(&params);
        // the numbers have one bit less than `value_bits` allows, because the moduli of some levels are a fraction of a
        // bit short
        let bound = 2f64.powi(params.chain().value_bits as i32 - 1);
        let values: Vec<f64> = numbers(128, 5).into_iter().map(|x| x * bound).collect();
        for level in 0..=params.level_max() {
            check(&key.decrypt(&key.encrypt_at(level, &values, bound).unwrap().expand(&params)).unwrap(), &values);
        }
    }
}

#[test]
fn the_promise_counts_the_roundings_of_double_precision() {
    for n in POLY_DEGREES {
        for (scale_bits, magnitude) in [(40, 123_456_789_012.345), (50, 6.6e8), (50, 1e30), (40, 2f64.powi(70))] {
            let params = params(n, scale_bits, 3);
            let key = SecretKey::generate(&params);
            let scaled = |values: Vec<f64>| values.into_iter().map(|x| x * magnitude).collect::<Vec<_>>();
            let mut spike = vec![0.0; params.slots()];
            spike[0] = magnitude;
            for values in [spike, vec![magnitude; params.slots()], scaled(numbers(params.slots(), 7))] {
                let encrypted = key.encrypt(&values, magnitude).unwrap();
                let decrypted = key.decrypt(&encrypted.expand(&params)).unwrap();
                let error = largest_error(&decrypted.values, &values);
                let bound = decrypted.error_bound;
                assert!(error < bound, "N = {n}: {magnitude} is off by {error}, promised {bound}");
            }
        }
    }
}

#[test]
fn a_record_whose_numbers_do_not_fit_is_refused() {
    let params = params(64, 40, 1);
    let key = SecretKey::generate(&params);
    let mut ciphertext = key.encrypt(&[1.0; 32], 1.0).unwrap().expand(&params);
    for value_bound in [1e40, f64::INFINITY, f64::NAN] {
        ciphertext.noise.value_bound = value_bound;
        let refused = key.decrypt(&ciphertext).unwrap_err().to_string();
        assert!(refused.contains("wrapped around the modulus of level 1"), "{refused}");
        assert!(key.decrypt_to_share(&ciphertext, &expected(&ciphertext), Flooding::default()).is_err());
    }
}

#[test]
fn the_measured_variance_of_fresh_encryptions_is_the_formulas() {
    for (n, encryptions) in [(64, 200), (4096, 8), (16384, 2)] {
        let params = params(n, 40, 1);
        let values = numbers(params.slots(), 3);
        // The variance of a coefficient's error, computed from the errors of the slots: the error of a slot's real
        // part, times the scale, has N / 2 times the variance of a coefficient's error. Each encryption has its own
        // key, because the variance depends on the key if N is small.
        let variance = |encrypt: fn(&SecretKey, &[f64]) -> Ciphertext| {
            let squares = (0..encryptions).map(|_| {
                let key = SecretKey::generate(&params);
                let ciphertext = encrypt(&key, &values);
                let decrypted = key.decrypt(&ciphertext).unwrap().values;
                decrypted.iter().zip(&values).map(|(a, b)| (a - b).powi(2)).sum::<f64>() * ciphertext.scale.powi(2)
            });
            squares.sum::<f64>() / (encryptions * params.slots()) as f64 * 2.0 / n as f64
        };
        let by_secret = variance(|key, values| key.encrypt(values, 1.0).unwrap().expand(key.params()))
            / Noise::encrypt_secret(1.0).variance;
        let by_public = variance(|key, values| Encryptor::new(key.public_key(1)).encrypt(values, 1.0).unwrap())
            / Noise::encrypt_public(n, 1.0).variance;
        for (what, ratio) in [("secret", by_secret), ("public", by_public)] {
            assert!((0.9..1.1).contains(&ratio), "N = {n}, {what}: {ratio}");
        }
    }
}

#[test]
fn rows_of_keys_multiply_and_rotate_within_the_predicted_error() {
    for (n, key_level, level) in [(64, 3, 3), (4096, 3, 2), (8192, 2, 2)] {
        let params = params(n, 40, 3);
        let key = SecretKey::generate(&params);
        let evaluator = Evaluator::new(&params, Isa::available()[0], 2);
        let load = |kind: PartKind| {
            let rows = key.part(kind, key_level);
            let digits = params.digits(kind, key_level);
            let primes = params.key_primes(kind, key_level);
            let mut part = evaluator.room_for_part(&digits, &primes).unwrap();
            for row in rows {
                let words = row.expand(&params);
                evaluator.load_row(&mut part, row.header.digit.into(), words.split_at(words.len() / 2).into());
            }
            part
        };
        let (x, y) = (numbers(n / 2, 1), numbers(n / 2, 2));
        let [a, b] = [&x, &y].map(|values| key.encrypt_at(level, values, 1.0).unwrap().expand(&params));
        let [of_a, of_b] = [&a, &b].map(|ciphertext| swapped(&evaluator, &ciphertext.words, n));
        let [rows_a, rows_b] = [&of_a, &of_b].map(|words| words.chunks_exact(n).collect::<Vec<_>>());
        let evaluate = |to: usize, noise: Noise, work: &dyn Fn(&mut [&mut [u32]])| {
            let mut words = vec![0; 2 * params.level(to).primes.len() * n];
            work(&mut words.chunks_exact_mut(n).collect::<Vec<_>>());
            let scale = params.level(to).scale;
            key.decrypt(&Ciphertext { level: to, scale, noise, words: swapped(&evaluator, &words, n) }).unwrap()
        };

        let relinearization = load(PartKind::Relinearization);
        let product: Vec<f64> = x.iter().zip(&y).map(|(x, y)| x * y).collect();
        let noise = a.noise.multiply(b.noise, [a.scale, b.scale], n);
        let noise = noise.relinearize_rescale(&params, key_level, level, level - 1);
        let multiplied = evaluate(level - 1, noise, &|out| {
            evaluator.multiply(level, level - 1, [&rows_a, &rows_b], &relinearization, out).unwrap();
        });
        check(&multiplied, &product);

        for steps in [1, -3] {
            let kind = PartKind::Galois(rotation::element(n, steps));
            let part = load(kind);
            let PartKind::Galois(element) = kind else { unreachable!() };
            let mut turned = x.clone();
            turned.rotate_left(steps.rem_euclid(n as i64 / 2) as usize);
            let noise = a.noise.key_switch(&params, kind, key_level, level);
            let rotated = evaluate(level, noise, &|out| {
                evaluator.automorphism(level, element, &rows_a, &part, out).unwrap();
            });
            check(&rotated, &turned);
        }
    }
}

fn swapped(evaluator: &Evaluator, words: &[u32], n: usize) -> Vec<u32> {
    let mut out = vec![0; words.len()];
    for (row, out) in words.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
        evaluator.swap_order(row, out);
    }
    out
}

/// What a client expects of a ciphertext whose record it made itself.
fn expected(ciphertext: &Ciphertext) -> Operand {
    Operand { level: ciphertext.level, scale: ciphertext.scale, noise: ciphertext.noise }
}

#[test]
fn a_shared_result_has_the_noise_that_hides_its_own() {
    let params = params(4096, 50, 1);
    let key = SecretKey::generate(&params);
    let values = numbers(params.slots(), 3);
    let ciphertext = key.encrypt(&values, 1.0).unwrap().expand(&params);
    let kept = key.decrypt(&ciphertext).unwrap();
    for (results, lost) in [(1, 16.8 + 3.1), (1000, 21.8 + 3.1)] {
        let flooding = Flooding { results, statistical_bits: 30 };
        let shared = key.decrypt_to_share(&ciphertext, &expected(&ciphertext), flooding).unwrap();
        check(&shared, &values);
        let found = kept.precision_bits - shared.precision_bits;
        assert!((found - lost).abs() < 0.5, "{results} results take {found} bits");
    }
}

#[test]
fn a_record_that_lies_does_not_weaken_what_hides_the_error() {
    let params = params(4096, 50, 1);
    let key = SecretKey::generate(&params);
    let values = vec![0.0; params.slots()];
    let honest = key.encrypt(&values, 1.0).unwrap().expand(&params);
    let plan = expected(&honest);
    let flooding = Flooding { results: 1000, statistical_bits: 30 };
    // the deviation of the shared numbers, which are noise alone
    let deviation = |of: &Ciphertext, expected: &Operand| {
        let shared = key.decrypt_to_share(of, expected, flooding).unwrap().values;
        (shared.iter().map(|x| x * x).sum::<f64>() / shared.len() as f64).sqrt()
    };
    let wanted = deviation(&honest, &plan);
    let lies = [Noise::new(0.0, 0.0), Noise::new(1e-300, 1e-300), Noise::new(1.0, 1e-9)];
    for noise in lies {
        let lying = Ciphertext { noise, ..honest.clone() };
        let found = deviation(&lying, &plan);
        assert!((found / wanted - 1.0).abs() < 0.1, "{noise:?}: {found}, wanted {wanted}");
        // even without a plan, the noise hides that of a fresh encryption
        let nothing = Operand { noise: Noise::new(0.0, 0.0), ..plan };
        assert!(deviation(&lying, &nothing) > 0.9 * wanted, "{noise:?}");
    }
    let other = [Operand { level: 0, ..plan }, Operand { scale: 2.0 * plan.scale, ..plan }];
    for plan in other {
        let refused = key.decrypt_to_share(&honest, &plan, flooding);
        assert!(matches!(refused, Err(ShareError::Unexpected { level: 1, .. })), "{refused:?}");
    }
}

#[test]
fn what_cannot_be_encrypted_is_refused() {
    let params = params(64, 30, 1);
    let key = SecretKey::generate(&params);
    let encryptor = Encryptor::new(key.public_key(1));
    let both = |values: &[f64], bound: f64| {
        let refused = key.encrypt(values, bound).err();
        let by_public = encryptor.encrypt(values, bound).err();
        assert_eq!(format!("{refused:?}"), format!("{by_public:?}"));
        refused
    };
    assert_eq!(both(&[1.0; 32], 1.0), None);
    for found in [0, 31, 33, 64] {
        assert_eq!(both(&vec![0.0; found], 1.0), Some(EncryptError::Count { expected: 32, found }));
    }
    for bad in [1.1, -1.1, f64::INFINITY, f64::NAN] {
        let mut values = [0.5; 32];
        values[9] = bad;
        assert_eq!(both(&values, 1.0), Some(EncryptError::Value(1.0)));
    }
    for bound in [0.0, -1.0, f64::INFINITY, 1e300] {
        assert_eq!(both(&[0.0; 32], bound), Some(EncryptError::Room(bound)));
    }
    assert!(matches!(both(&[0.0; 32], f64::NAN), Some(EncryptError::Room(_))));
}

#[test]
fn encryptions_and_keys_are_fresh_every_time() {
    let params = params(64, 30, 1);
    let key = SecretKey::generate(&params);
    let [one, two] = [(); 2].map(|()| key.encrypt(&[0.0; 32], 1.0).unwrap());
    assert!(one.seed != two.seed && one.body != two.body);
    let rows: Vec<KeyRow> = key.part(PartKind::Relinearization, 1).collect();
    assert_eq!(rows.len(), params.digits(PartKind::Relinearization, 1).len());
    assert!(
        rows.iter().enumerate().all(|(at, row)| rows[..at].iter().all(|other| other.header.seed != row.header.seed))
    );
    assert!(SecretKey::generate(&params) != key);
}

#[test]
fn keys_and_ciphertexts_survive_their_containers() {
    let params = params(256, 40, 2);
    let key = SecretKey::generate(&params);
    let values = numbers(128, 1);
    let seeded = key.encrypt(&values, 1.0).unwrap();
    let bytes = container::write_seeded_ciphertext(&seeded, &params, key.fingerprint());
    let read = container::read_ciphertext(&bytes, &params, key.fingerprint()).unwrap();
    check(&key.decrypt(&read).unwrap(), &values);
    let public = key.public_key(2);
    assert_eq!(container::read_public_key(&container::write_public_key(&public)), Ok(public));

    let mut parts = vec![(PartKind::Relinearization, 2)];
    parts.extend(rotations(&params, &power_of_two_steps(&params, true), 1));
    assert_eq!(parts.len(), 1 + 13, "7 powers of two, and the opposites of all but half a turn");
    let bytes: Vec<u8> = key.evaluation_key(&parts).flatten().collect();
    let head = container::read_key_head(&bytes).unwrap();
    assert_eq!((head.fingerprint, &head.params), (key.fingerprint(), &params));
    let mut rest = &bytes[container::KEY_HEAD_BYTES..];
    let mut found = Vec::new();
    for _ in 0..head.rows {
        let row = container::read_row_header(&head, rest).unwrap();
        let (bytes, after) = rest.split_at(container::row_bytes(&params, row.kind, row.level));
        container::read_row(&head, bytes).unwrap();
        found.push((row.kind, usize::from(row.level)));
        rest = after;
    }
    found.dedup();
    assert!(rest.is_empty() && found == parts);
    assert_eq!(head.bytes as usize, bytes.len() - container::KEY_HEAD_BYTES);
}

#[test]
fn a_secret_key_survives_its_container_and_damage_does_not() {
    let key = SecretKey::generate(&params(64, 30, 1));
    let bytes = key.to_bytes();
    assert_eq!(SecretKey::from_bytes(&bytes), Ok(key.clone()));
    for at in 0..bytes.len() {
        let mut damaged = bytes.to_vec();
        damaged[at] ^= 4;
        assert!(SecretKey::from_bytes(&damaged).is_err(), "byte {at}");
        assert!(SecretKey::from_bytes(&bytes[..at]).is_err(), "cut at {at}");
    }
    let out_of_range = container::write_secret_key(key.params(), key.fingerprint(), |out| out.extend([2; 64]));
    assert!(matches!(SecretKey::from_bytes(&out_of_range), Err(Error::Malformed(_))));
    let found = "a secret key for numbers";
    assert!(matches!(crate::SecretKey::from_bytes(&bytes), Err(Error::WrongType { found: of, .. }) if of == found));
    assert_eq!(crate::bundle::split(&bytes), Err(Error::SecretKey), "a secret key is not sent as a ciphertext");
}

#[test]
fn the_secret_is_overwritten_and_no_debug_output_holds_it() {
    fn overwritten<T: ZeroizeOnDrop>() {}
    overwritten::<SecretKey>();
    let text = format!("{:?}", SecretKey::generate(&params(64, 30, 1)));
    assert!(text.starts_with("SecretKey { params: ParamsLiteral") && text.ends_with(", .. }"), "{text}");
}

#[test]
#[ignore = "prints how long keys take"]
fn how_long_keys_take() {
    let literal = ParamsLiteral {
        poly_degree: 32768,
        scale_bits: 50,
        max_depth: 14,
        security: SecurityLevel::Bits128,
        bootstrap: false,
    };
    let begun = Instant::now();
    let params = Params::new(literal).unwrap();
    println!("parameters {:?}, {} primes", begun.elapsed(), params.primes().len());
    let key = SecretKey::generate(&params);
    for kind in [PartKind::Relinearization, PartKind::Galois(5), PartKind::Galois(25)] {
        let begun = Instant::now();
        let rows = key.part(kind, 14).map(|row| container::write_row(&params, &row).len());
        let (rows, bytes) = rows.fold((0, 0), |(rows, bytes), more| (rows + 1, bytes + more));
        println!("{kind:?}: {rows} rows of {} bytes in {:?}", bytes / rows, begun.elapsed());
    }
    let values = numbers(params.slots(), 1);
    let begun = Instant::now();
    let ciphertext = key.encrypt(&values, 1.0).unwrap();
    println!("encryption {:?}", begun.elapsed());
    let begun = Instant::now();
    let ciphertext = ciphertext.expand(&params);
    println!("expansion {:?}", begun.elapsed());
    let begun = Instant::now();
    println!("decryption to {:.1} bits {:?}", key.decrypt(&ciphertext).unwrap().precision_bits, begun.elapsed());
}
