//! Keys of tfhe-rs with Ango's dimensions, made once for each run.

use std::sync::LazyLock;

use tfhe::boolean::prelude::*;
use tfhe::boolean::server_key::CompressedServerKey;

/// A client of tfhe-rs and its upload.
pub struct Client {
    pub name: &'static str,
    pub key: ClientKey,
    pub server_key: CompressedServerKey,
    pub server_key_bytes: Vec<u8>,
}

/// `fast_128` dimensions, with the bases and levels that the documentation recommends to users of tfhe-rs.
pub static FAST: LazyLock<Client> =
    LazyLock::new(|| Client::new("fast_128, 2^8 x 2, 2^2 x 6", parameters(636, 1, 1024, [8, 2, 2, 6])));

/// `fast_128` dimensions with other bases and levels.
pub static FAST_FINE: LazyLock<Client> =
    LazyLock::new(|| Client::new("fast_128, 2^6 x 3, 2^4 x 3", parameters(636, 1, 1024, [6, 3, 4, 3])));

/// `conservative_128` dimensions, with more than one mask polynomial.
pub static CONSERVATIVE: LazyLock<Client> =
    LazyLock::new(|| Client::new("conservative_128, 2^9 x 2, 2^2 x 7", parameters(828, 3, 512, [9, 2, 2, 7])));

/// All three clients.
pub fn clients() -> [&'static Client; 3] {
    [&FAST, &FAST_FINE, &CONSERVATIVE]
}

impl Client {
    fn new(name: &'static str, parameters: BooleanParameters) -> Self {
        let key = ClientKey::new(&parameters);
        let server_key = CompressedServerKey::new(&key);
        let server_key_bytes = bytes_of(&server_key);
        Self { name, key, server_key, server_key_bytes }
    }
}

/// Parameters with the noise of the presets that have this ring. `bases`: base log and levels of the bootstrap, then of
/// the key switch.
pub fn parameters(n: usize, k: usize, polynomial_size: usize, bases: [usize; 4]) -> BooleanParameters {
    let (lwe_std, glwe_std) = if k == 1 { (-13.65f64, -24.8f64) } else { (-15.15, -27.0) };
    let noise = |log2: f64| DynamicDistribution::new_gaussian_from_std_dev(StandardDev(log2.exp2()));
    BooleanParameters::new(
        LweDimension(n),
        GlweDimension(k),
        PolynomialSize(polynomial_size),
        noise(lwe_std),
        noise(glwe_std),
        DecompositionBaseLog(bases[0]),
        DecompositionLevelCount(bases[1]),
        DecompositionBaseLog(bases[2]),
        DecompositionLevelCount(bases[3]),
        EncryptionKeyChoice::Small,
    )
}

/// The bytes of a client's upload: bincode 1.3, default configuration.
pub fn bytes_of<T: serde::Serialize>(object: &T) -> Vec<u8> {
    bincode::serialize(object).expect("plain data can be written")
}
