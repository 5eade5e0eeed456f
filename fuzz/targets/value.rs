//! Any text as a number of up to 300 bits: an accepted number can be printed, and the printed text reads back as the
//! same number.
#![no_main]

use client::value;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Some((&width, text)) = bytes.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let width = usize::from(width) + 1;
    let _ = value::own_width(text);
    let Ok(bits) = value::parse(text, width) else { return };
    assert_eq!(bits.len(), width);
    assert_eq!(value::parse(&value::format(&bits), width), Ok(bits.clone()));
    assert_eq!(value::parse(&value::format_hexadecimal(&bits), width), Ok(bits));
});
