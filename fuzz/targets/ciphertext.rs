//! Any bytes as a ciphertext of any preset, whole or seeded: an accepted one has the preset's dimension and is written
//! back the same.
#![no_main]

use kernels::container::{Form, is_seeded, read_ciphertext, read_seeded, unframe_seeded, write_ciphertext, write_seeded};
use kernels::tfhe::Preset;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let sealed = fuzz::sealed(bytes);
    for bytes in [Some(bytes), sealed.as_deref()].into_iter().flatten() {
        if let Ok((header, list)) = unframe_seeded(bytes) {
            assert!(is_seeded(bytes) && !list.is_empty());
            assert_eq!(write_seeded(&list, header.preset, header.fingerprint), bytes);
            assert_eq!(read_seeded(bytes, header.preset, header.fingerprint).as_ref(), Ok(&list));
            let expanded = list.expand(header.preset.params().lwe_dimension);
            assert_eq!(expanded.len(), list.len());
            assert!(expanded.iter().zip(list.bodies()).all(|(words, body)| words.last() == Some(body)));
        }
        for preset in Preset::ALL {
            let Ok((lwe, form)) = read_ciphertext(bytes, preset, None) else { continue };
            assert_eq!(lwe.dimension(), preset.params().lwe_dimension);
            let fingerprint = bytes.get(8..16).and_then(|name| <[u8; 8]>::try_from(name).ok());
            let fingerprint = fingerprint.filter(|&name| form == Form::Ango && name != [0; 8]);
            let written = write_ciphertext(&lwe, preset, fingerprint, form);
            if form == Form::Ango && !is_seeded(bytes) {
                assert_eq!(written, bytes, "a container that is read is written back the same");
            }
            assert_eq!(read_ciphertext(&written, preset, fingerprint), Ok((lwe, form)));
        }
    }
});
