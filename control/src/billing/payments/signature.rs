//! The signature of the provider's events (readings W1).

use axum::http::HeaderMap;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use super::PaymentSecret;
use crate::clock::Timestamp;

/// Largest difference in seconds between a signature's time and the present time.
const TOLERANCE_S: u64 = 300;
/// Longest header that is read, in bytes.
const HEADER_BYTES_MAX: usize = 8 << 10;

/// Returns the header with the signature. Empty if the request has none or several, of which it is open which one counts.
pub fn signature_header(headers: &HeaderMap) -> &str {
    let mut values = headers.get_all("stripe-signature").iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().unwrap_or_default(),
        _ => "",
    }
}

/// Whether a body was signed under one of these secrets at most `TOLERANCE_S` ago. The header is `t=SECONDS,v1=HEX`
/// with any number of `v1`: the provider sends two while one secret replaces another.
pub fn is_signed(header: &str, body: &[u8], secrets: &[PaymentSecret], now: Timestamp) -> bool {
    if header.len() > HEADER_BYTES_MAX {
        return false;
    }
    let parts = || header.split(',').filter_map(|part| part.trim().split_once('='));
    let Some((_, time)) = parts().find(|(name, _)| *name == "t") else { return false };
    let Ok(seconds) = time.parse::<u64>() else { return false };
    if seconds.abs_diff(now.seconds()) > TOLERANCE_S {
        return false;
    }
    let signatures: Vec<Vec<u8>> =
        parts().filter(|(name, _)| *name == "v1").filter_map(|(_, digits)| hex::decode(digits).ok()).collect();
    secrets.iter().any(|secret| {
        let mut mac = Hmac::<Sha256>::new_from_slice(secret.0.as_bytes()).expect("HMAC takes any key length");
        mac.update(time.as_bytes());
        mac.update(b".");
        mac.update(body);
        // `verify_slice` compares the signatures in constant time
        signatures.iter().any(|signature| mac.clone().verify_slice(signature).is_ok())
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use zeroize::Zeroizing;

    use super::*;

    const NOW: Timestamp = Timestamp(1_492_774_577_000_000);
    const BODY: &[u8] = br#"{"id":"evt_1"}"#;
    // printf '1492774577.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_one
    const ONE: &str = "7a2c447e7840ce3b2d30a7788c3d53bec4543daedf625041d5adb586a7dfca22";
    const TWO: &str = "6ee0563a9d07a6ec243ebad079a2c30429ae169710103bff9383a60ea586cb92";

    fn secret(text: &str) -> PaymentSecret {
        PaymentSecret(Zeroizing::new(text.to_owned()))
    }

    #[test]
    fn c3_two_headers_with_a_signature_are_none() {
        let mut headers = HeaderMap::new();
        assert_eq!(signature_header(&headers), "");
        headers.append("stripe-signature", "t=1,v1=00".parse().unwrap());
        assert_eq!(signature_header(&headers), "t=1,v1=00");
        headers.append("stripe-signature", "t=1,v1=00".parse().unwrap());
        assert_eq!(signature_header(&headers), "");
    }

    #[test]
    fn w1_any_signature_under_any_secret_will_do() {
        let secrets = [secret("whsec_one"), secret("whsec_two")];
        for header in [
            format!("t=1492774577,v1={ONE}"),
            format!("t=1492774577,v1={TWO}"),
            format!("t=1492774577, v1={}, v1={ONE}, v0=6ffbb59b", "00".repeat(32)),
            format!("v1={TWO},t=1492774577"),
        ] {
            assert!(is_signed(&header, BODY, &secrets, NOW), "{header}");
        }
        assert!(!is_signed(&format!("t=1492774577,v1={TWO}"), BODY, &secrets[..1], NOW));
        assert!(!is_signed(&format!("t=1492774577,v1={ONE}"), BODY, &[], NOW));
    }

    #[test]
    fn w1_a_known_answer() {
        let (body, now) = (br#"{"id":"evt_1","object":"event"}"#, Timestamp(1_764_547_200_000_000));
        let header = "t=1764547200,v1=9468921c6fdfe2e91334221b95e873234f01cba3c6a532c6caf15dffd935af9e";
        assert!(is_signed(header, body, &[secret("whsec_test")], now));
    }

    #[test]
    fn w1_what_is_forged_stale_or_of_the_future_is_refused() {
        let secrets = [secret("whsec_one")];
        let good = format!("t=1492774577,v1={ONE}");
        for (after_s, accepted) in [(-301, false), (-300, true), (300, true), (301, false)] {
            let now = Timestamp(NOW.0 + after_s * 1_000_000);
            assert_eq!(is_signed(&good, BODY, &secrets, now), accepted, "{after_s}");
        }
        assert!(!is_signed(&good, br#"{"id":"evt_2"}"#, &secrets, NOW));
        for header in [
            String::new(),
            format!("v1={ONE}"),
            format!("t=1492774578,v1={ONE}"),
            format!("t=01492774577,v1={ONE}"),
            format!("t=1492774577,v0={ONE}"),
            format!("t=1492774577,v1={}", &ONE[..62]),
            "t=1492774577,v1=".to_owned(),
            "t=-5,v1=00".to_owned(),
            format!("t=1492774577{},v1={ONE}", ",v1=00".repeat(2000)),
        ] {
            assert!(!is_signed(&header, BODY, &secrets, NOW), "{header}");
        }
    }

    proptest! {
        #[test]
        fn w1_no_header_panics(header in ".{0,200}", t in any::<i64>()) {
            let secrets = [secret("whsec_one")];
            prop_assert!(!is_signed(&header, BODY, &secrets, NOW));
            let timed = format!("t={t},v1={header}");
            prop_assert!(!is_signed(&timed, BODY, &secrets, NOW));
        }
    }
}
