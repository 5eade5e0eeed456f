//! The header `Host`, which names the server that a request is for (RFC 9112, 3.2). A proxy could read a request without
//! one, or with several, as a request for another server.

use std::net::Ipv6Addr;

use axum::http::uri::Authority;
use axum::http::{Request, Version, header};

/// Whether a request names its server as it must: in HTTP/1.1 exactly once, before that at most once. HTTP/2 has
/// `:authority` instead.
pub fn is_named_once<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (None, _) => request.version() != Version::HTTP_11,
        (Some(host), None) => host.to_str().is_ok_and(is_host),
        _ => false,
    }
}

/// Whether a text is a host with or without a port. A URL of this scheme has a host that is not empty (RFC 9110, 4.2).
fn is_host(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else { return false };
    // what is in front of the host is a user
    let Some(port) = text.strip_prefix(authority.host()) else { return false };
    let is_port = match port.strip_prefix(':') {
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && (digits.is_empty() || digits.parse::<u16>().is_ok())
        }
        None => port.is_empty(),
    };
    let is_name = match authority.host().strip_prefix('[') {
        Some(address) => address.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => !authority.host().is_empty(),
    };
    is_port && is_name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g2_a_request_names_its_server_once() {
        let of = |version: Version, hosts: &[&[u8]]| {
            let request = hosts
                .iter()
                .fold(Request::builder().version(version), |request, host| request.header(header::HOST, *host));
            is_named_once(&request.body(()).unwrap())
        };
        for (version, without) in
            [(Version::HTTP_09, true), (Version::HTTP_10, true), (Version::HTTP_11, false), (Version::HTTP_2, true)]
        {
            assert_eq!(of(version, &[]), without, "{version:?}");
            assert!(of(version, &[b"node"]), "{version:?}");
            assert!(!of(version, &[b"node", b"node"]), "{version:?}");
            assert!(!of(version, &[b"a b"]) && !of(version, &[b"\xff"]), "{version:?}");
        }
    }

    #[test]
    fn g2_a_host_is_a_name_or_an_address_with_or_without_a_port() {
        for host in [
            "node",
            "node:8080",
            "node:",
            "fhe.example.org.",
            "a_b-c~1!$&'()*+,;=",
            "127.0.0.1:1",
            "[::1]",
            "[2001:db8::1]:443",
            "xn--eckwd4c7c.jp",
            "EXAMPLE.org:0080",
        ] {
            assert!(is_host(host), "{host}");
        }
        for host in [
            "",
            ":8080",
            " ",
            "a b",
            "a,b c",
            "a/b",
            "a?b",
            "a#b",
            "a\\b",
            "user@node",
            "user:word@node:1",
            "@node",
            "node@",
            "node:80:80",
            "node:a",
            "node:-1",
            "node:+1",
            "node:70000",
            "node:99999999999999999999",
            "[::1",
            "::1",
            "[node]",
            "[]",
            "[::1]x",
            "[::1%25eth0]",
            "http://node",
            "node\t",
            "日本.jp",
            "<node>",
            "a\"b",
            "{a}",
            "a|b",
            "a^b",
            "a`b",
        ] {
            assert!(!is_host(host), "{host}");
        }
    }
}
