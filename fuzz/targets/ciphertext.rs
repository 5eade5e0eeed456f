//! Any bytes as a ciphertext of any preset: what is accepted has the preset's dimension and survives the way back.
#![no_main]

use kernels::container::{Form, read_ciphertext, write_ciphertext};
use kernels::tfhe::Preset;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        for preset in Preset::ALL {
            let Ok((lwe, form)) = read_ciphertext(bytes, preset, None) else { continue };
            assert_eq!(lwe.dimension(), preset.params().lwe_dimension);
            let fingerprint = bytes.get(8..16).and_then(|name| <[u8; 8]>::try_from(name).ok());
            let fingerprint = fingerprint.filter(|&name| form == Form::Ango && name != [0; 8]);
            let written = write_ciphertext(&lwe, preset, fingerprint, form);
            if form == Form::Ango {
                assert_eq!(written, bytes, "a container that is read is written back the same");
            }
            assert_eq!(read_ciphertext(&written, preset, fingerprint), Ok((lwe, form)));
        }
    }
});
