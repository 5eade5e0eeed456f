//! `CompressedServerKey`: both keys without their masks.

use super::reader::{Reader, Words};
use crate::bytes::Error;
use crate::tfhe::keys::Masks;
use crate::tfhe::masks::TfheRsSeed;
use crate::tfhe::{EvaluationKey, ModSwitch, Params, ParamsLiteral, Preset};

/// The bootstraps that an imported key may have: log2 of the base, and number of levels.
const BOOTSTRAPS: [(usize, usize); 3] = [(8, 2), (9, 2), (6, 3)];

/// The key switches that an imported key may have: log2 of the base, and number of levels.
const KEY_SWITCHES: [(usize, usize); 4] = [(2, 5), (2, 6), (2, 7), (4, 3)];

/// The accepted bases and levels, for messages.
const ACCEPTED: &str =
    "accepted are bootstraps of 2^8 x 2, 2^9 x 2 or 2^6 x 3 and key switches of 2^2 x 5, 2^2 x 6, 2^2 x 7 or 2^4 x 3";

/// Lists the parameters of every key that [`read_server_key`] accepts. The list is short. So an upload cannot choose
/// parameters with expensive gates, and a device can prepare all kernels. The noise is 0, which means unknown, because
/// keys do not state their noise.
pub fn accepted_params() -> impl Iterator<Item = Params> {
    Preset::ALL.into_iter().flat_map(|preset| {
        BOOTSTRAPS.into_iter().flat_map(move |bootstrap| {
            KEY_SWITCHES.into_iter().map(move |key_switch| {
                params(preset, bootstrap, key_switch).expect("shapes of the list are within the bounds of parameters")
            })
        })
    })
}

fn params(
    preset: Preset,
    (bootstrap_base_log, bootstrap_level_count): (usize, usize),
    (key_switch_base_log, key_switch_level_count): (usize, usize),
) -> Result<Params, Error> {
    let literal = ParamsLiteral {
        bootstrap_base_log,
        bootstrap_level_count,
        key_switch_base: 1 << key_switch_base_log,
        key_switch_level_count,
        lwe_noise_std: 0.0,
        glwe_noise_std: 0.0,
        // the switch of tfhe-rs, for which the maker of the key chose the parameters; the object has no version that
        // could state another switch
        mod_switch: ModSwitch::Nearest,
        ..*preset.params()
    };
    Params::try_from(literal).map_err(|error| Error::Params(error.to_string()))
}

/// Reads a `CompressedServerKey` with the dimensions of a preset and with accepted bases and levels: bootstraps of 2^8
/// x 2, 2^9 x 2 or 2^6 x 3, key switches of 2^2 x 5 to 7 or 2^4 x 3 (readings G6).
///
/// The returned key has Ango's level order. Its noise figures are 0, which means unknown, for two reasons: the object
/// does not state the key's noise, and tfhe-rs draws binary ring secrets, whereas the presets' figures assume ternary
/// ring secrets. So only the maker knows the security and the failure probability of an imported key.
///
/// # Errors
/// `Params` when the dimensions match no preset, or bases or levels are not accepted; also for ciphertexts under the
/// ring key, a custom modulus or another mask generator. `Malformed` when lengths contradict each other.
pub fn read_server_key(bytes: &[u8]) -> Result<EvaluationKey, Error> {
    let fields = Fields::read(bytes)?;
    let (preset, params) = fields.params()?;
    let (bootstrap, key_switch) = (&fields.bootstrap, &fields.key_switch);
    if bootstrap.bodies.len() != params.bootstrap_body_words() {
        return Err(Error::Malformed("the bootstrapping key's length contradicts its dimensions".into()));
    }
    if key_switch.bodies.len() != params.key_switch_body_words() {
        return Err(Error::Malformed("the key-switching key's length contradicts its dimensions".into()));
    }
    let rows_of_level = (params.glwe_dimension + 1) * params.polynomial_size;
    Ok(EvaluationKey {
        preset,
        params,
        fingerprint: None,
        masks: Masks::TfheRs { bootstrap: bootstrap.seed, key_switch: key_switch.seed },
        bootstrap_bodies: levels_reversed(bootstrap.bodies, params.bootstrap_level_count, rows_of_level),
        key_switch_bodies: levels_reversed(key_switch.bodies, params.key_switch_level_count, 1),
    })
}

/// Whether the bytes have the shape of a `CompressedServerKey`: the bodies of the first key, then small numbers in the
/// right places. The check is cheap and does not show that the key is whole or acceptable.
pub fn looks_like_server_key(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let shape = reader.words().and_then(|bodies| Ok((bodies, BootstrapShape::read(&mut reader)?)));
    shape.is_ok_and(|(bodies, shape)| {
        (2..=16).contains(&shape.glwe_size)
            && shape.polynomial_size.is_power_of_two()
            && (1..=32).contains(&shape.base_log)
            && (1..=32).contains(&shape.level_count)
            && bodies.len() > 0
            && bodies.len().is_multiple_of(shape.glwe_size * shape.polynomial_size * shape.level_count)
    })
}

/// The object's fields, in order.
struct Fields<'a> {
    bootstrap: Bootstrap<'a>,
    key_switch: KeySwitch<'a>,
}

struct Bootstrap<'a> {
    /// The bodies, `[n][l][k + 1][N]`, last level first.
    bodies: Words<'a>,
    shape: BootstrapShape,
    seed: TfheRsSeed,
}

struct BootstrapShape {
    /// k + 1
    glwe_size: usize,
    polynomial_size: usize,
    base_log: usize,
    level_count: usize,
}

struct KeySwitch<'a> {
    /// The bodies, `[kN][levels]`, last level first.
    bodies: Words<'a>,
    base_log: usize,
    level_count: usize,
    /// n + 1
    output_size: usize,
    seed: TfheRsSeed,
}

impl<'a> Fields<'a> {
    fn read(bytes: &'a [u8]) -> Result<Self, Error> {
        let mut reader = Reader::new(bytes);
        let bootstrap = Bootstrap::read(&mut reader)?;
        let key_switch = KeySwitch::read(&mut reader)?;
        let order = reader.u32()?;
        reader.end()?;
        match order {
            1 => Ok(Self { bootstrap, key_switch }),
            0 => Err(Error::Params(
                "ciphertexts must be under the small key (bootstrap, then key switch): make the key with \
                 EncryptionKeyChoice::Small"
                    .into(),
            )),
            _ => Err(Error::Malformed("unknown order of bootstrap and key switch".into())),
        }
    }

    fn params(&self) -> Result<(Preset, Params), Error> {
        let shape = &self.bootstrap.shape;
        // a size of zero needs no check of its own, because no preset has it
        let lwe_dimension = self.key_switch.output_size.saturating_sub(1);
        let glwe_dimension = shape.glwe_size.saturating_sub(1);
        let preset =
            Preset::from_dimensions(lwe_dimension, glwe_dimension, shape.polynomial_size).ok_or_else(|| {
                Error::Params(format!(
                    "n {lwe_dimension}, k {glwe_dimension}, N {} are not the dimensions of a preset",
                    shape.polynomial_size
                ))
            })?;
        let bootstrap = (shape.base_log, shape.level_count);
        let key_switch = (self.key_switch.base_log, self.key_switch.level_count);
        if !BOOTSTRAPS.contains(&bootstrap) || !KEY_SWITCHES.contains(&key_switch) {
            return Err(Error::Params(format!(
                "a bootstrap of 2^{} x {} with a key switch of 2^{} x {} is not accepted: {ACCEPTED}",
                bootstrap.0, bootstrap.1, key_switch.0, key_switch.1
            )));
        }
        let params = params(preset, bootstrap, key_switch)?;
        Ok((preset, params))
    }
}

impl<'a> Bootstrap<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let bodies = reader.words()?;
        let shape = BootstrapShape::read(reader)?;
        let seed = reader.seed()?;
        reader.modulus()?;
        Ok(Self { bodies, shape, seed })
    }
}

impl BootstrapShape {
    fn read(reader: &mut Reader) -> Result<Self, Error> {
        Ok(Self {
            glwe_size: reader.small("the ring ciphertext's size")?,
            polynomial_size: reader.small("the polynomial size")?,
            base_log: reader.small("the bootstrap base")?,
            level_count: reader.small("the number of bootstrap levels")?,
        })
    }
}

impl<'a> KeySwitch<'a> {
    fn read(reader: &mut Reader<'a>) -> Result<Self, Error> {
        let bodies = reader.words()?;
        let base_log = reader.small("the key-switch base")?;
        let level_count = reader.small("the number of key-switch levels")?;
        let output_size = reader.small("the ciphertext's size")?;
        let seed = reader.seed()?;
        reader.modulus()?;
        Ok(Self { bodies, base_log, level_count, output_size, seed })
    }
}

/// Copies the words, `[..][level_count][level_words]`, with the levels in reverse order.
fn levels_reversed(words: Words, level_count: usize, level_words: usize) -> Vec<u32> {
    let mut reversed = Vec::with_capacity(words.len());
    for item in words.chunks(level_count * level_words) {
        for level in item.chunks(level_words).rev() {
            reversed.extend(level.iter());
        }
    }
    reversed
}
