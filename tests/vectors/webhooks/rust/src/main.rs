//! Does the work of check.py for the Rust snippet of docs/webhooks.md, which is the file in WEBHOOK_SNIPPET.

use std::collections::BTreeMap;
use std::path::PathBuf;

include!(env!("WEBHOOK_SNIPPET"));

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a delivery"));
    let read = |name: &str| std::fs::read(folder.join(name)).expect("a file of the delivery");
    let secret = String::from_utf8(read("secret")).expect("text");
    let body = read("body");
    let named: BTreeMap<String, String> = serde_json::from_slice(&read("headers.json")).expect("headers");
    let mut headers = HeaderMap::new();
    for (name, value) in &named {
        let name: http::HeaderName = name.parse().expect("a name");
        headers.insert(name, value.parse().expect("a value"));
    }
    let other = [b" ".as_slice(), &body].concat();
    let signature = &named["x-service-signature"];
    verify(&secret, &headers, &body).expect("genuine");
    assert!(verify(&secret, &headers, &other).is_err());
    assert!(is_genuine(&secret, &body, signature));
    assert!(!is_genuine(&secret, &other, signature));
    assert!(!is_genuine(&format!("{secret}x"), &body, signature));
    println!("Rust: genuine, and refused when changed");
}
