//! Any bytes as a logo, as PNG and as JPEG: an accepted picture has as many pixels as its size says, and is small.
#![no_main]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use docs_module::drawing::Picture;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for kind in ["png", "jpeg"] {
        let uri = format!("data:image/{kind};base64,{}", STANDARD.encode(bytes));
        if let Ok(picture) = Picture::from_data_uri(&uri) {
            assert!(picture.width.max(picture.height) <= 600);
            assert_eq!(picture.rgba.len(), picture.width * picture.height * 4);
        }
    }
});
