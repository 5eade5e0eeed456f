//! The addresses that webhooks may have (specification, SSRF rules; readings H4-H6). The node's own network is refused.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::LazyLock;

use docs_module::request::is_hidden;
use ipnet::IpNet;
use reqwest::Url;
use url::Host;

/// Longest URL of a webhook, in characters.
const URL_CHARACTERS_MAX: usize = 2048;

/// Networks that are not public, from the registries of special addresses (IANA; RFC 6890 and its successors).
static SPECIAL: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let networks = [
        // in this order: this network, private, shared (CGNAT), loopback, link-local (clouds' metadata services),
        // private
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        // in this order: protocol assignments, documentation, relays of 6to4, private, benchmarks, documentation,
        // documentation
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        // in this order: multicast, class E with broadcast
        "224.0.0.0/4",
        "240.0.0.0/4",
        // in this order: protocol assignments with Teredo and benchmarks, documentation, 6to4, documentation
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    ];
    networks.map(|network| network.parse().expect("a network")).into()
});

/// The public addresses of IP version 6. Addresses with a special purpose (loopback, mapped, translated, local,
/// discard, SRv6, multicast) are outside this network.
static GLOBAL_V6: LazyLock<IpNet> = LazyLock::new(|| IpNet::from_str("2000::/3").expect("a network"));

/// Suffixes of names that public receivers never have.
const LOCAL_SUFFIXES: [&str; 4] = ["localhost", "local", "internal", "intranet"];

/// Receivers that the operator allows in addition to public HTTPS addresses.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct WebhooksConfig {
    // readings H6
    /// Networks that webhooks may lie in although they are not public, separated by commas. For receivers in the node's
    /// own network.
    #[arg(env = "ANGO_WEBHOOKS_ALLOW_NETWORKS", value_delimiter = ',', value_parser = network)]
    pub webhook_networks: Vec<IpNet>,
    /// Whether webhooks may have http: URLs. Events sent to them can be read on the way.
    #[arg(env = "ANGO_WEBHOOKS_ALLOW_HTTP", default_value = "false")]
    pub webhook_http: bool,
}

fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let address = text.parse::<IpAddr>().map(IpNet::from);
    text.parse().or(address).map_err(|_| "must be a list of addresses or networks such as 10.0.0.0/8")
}

/// Why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The text is not a URL, or a URL to which no events may be sent. Holds the reason.
    Url(&'static str),
    /// The address is not public.
    Address,
}

/// Reads a URL and makes all checks that do not need the address of its host.
///
/// # Errors
/// When events may not be sent to this URL, whatever its name resolves to.
pub fn webhook_url(config: &WebhooksConfig, text: &str) -> Result<Url, Refused> {
    if text.chars().count() > URL_CHARACTERS_MAX {
        return Err(Refused::Url("the URL has more than 2048 characters"));
    }
    // parsers of URLs skip some of these characters, and read others in different ways
    if text.chars().any(|character| character.is_whitespace() || is_hidden(character) || character == '\\') {
        return Err(Refused::Url(
            "the URL holds a space, a control character, a character without width or a backslash",
        ));
    }
    let url: Url = text.parse().map_err(|_| Refused::Url("the text is not a URL"))?;
    match url.scheme() {
        "https" => {}
        "http" if config.webhook_http => {}
        _ => return Err(Refused::Url("the URL must begin with https:")),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Refused::Url("the URL must not name a user"));
    }
    match url.host() {
        None => return Err(Refused::Url("the URL names no host")),
        Some(Host::Ipv4(ip)) => allow(config, ip.into())?,
        Some(Host::Ipv6(ip)) => allow(config, ip.into())?,
        Some(Host::Domain(name)) if is_local(name) && config.webhook_networks.is_empty() => {
            return Err(Refused::Address);
        }
        Some(Host::Domain(_)) => {}
    }
    // the host as it is written; a parser drops a hyphen that is not shown, also where it is percent-encoded
    let host = text.split(['/', '?', '#']).nth(2).unwrap_or_default();
    if host.is_empty() || host.contains(['%', '\u{ad}']) {
        return Err(Refused::Url("the URL must begin with https:// and a host without percent-encoding"));
    }
    Ok(url)
}

/// Checks the addresses to which a name resolves, and returns them if all are allowed.
///
/// # Errors
/// When even one of the addresses is not allowed, because the name may resolve to only that address the next time.
pub fn vetted(config: &WebhooksConfig, host: &str, addresses: Vec<SocketAddr>) -> Result<Vec<SocketAddr>, Refused> {
    for address in &addresses {
        // a local name must resolve to addresses in networks that the operator allowed
        let allowed = if is_local(host) { is_named(config, address.ip()) } else { is_allowed(config, address.ip()) };
        if !allowed {
            return Err(Refused::Address);
        }
    }
    Ok(addresses)
}

fn allow(config: &WebhooksConfig, ip: IpAddr) -> Result<(), Refused> {
    if is_allowed(config, ip) { Ok(()) } else { Err(Refused::Address) }
}

fn is_allowed(config: &WebhooksConfig, ip: IpAddr) -> bool {
    is_public(ip) || is_named(config, ip)
}

fn is_named(config: &WebhooksConfig, ip: IpAddr) -> bool {
    config.webhook_networks.iter().any(|network| network.contains(&ip))
}

/// Whether an address is public: it means the same machine everywhere on the internet.
fn is_public(ip: IpAddr) -> bool {
    let is_global = ip.is_ipv4() || GLOBAL_V6.contains(&ip);
    is_global && !SPECIAL.iter().any(|network| network.contains(&ip))
}

/// Whether a name belongs to a local network.
fn is_local(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    // a name without a dot is looked up in the node's own domain, so it is local
    !name.contains('.') && name.parse::<IpAddr>().is_err()
        || LOCAL_SUFFIXES.iter().any(|suffix| name.strip_suffix(suffix).is_some_and(|rest| rest.ends_with('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> WebhooksConfig {
        WebhooksConfig::default()
    }

    #[test]
    fn h4_h5_hostile_addresses_and_names_are_refused() {
        let hostile = [
            "https://127.0.0.1/",
            "https://127.1/",
            "https://127.255.255.254/",
            "https://0x7f000001/",
            "https://2130706433/",
            "https://017700000001/",
            "https://0x7f.1/",
            "https://0/",
            "https://0.0.0.0/",
            "https://0.1.2.3/",
            "https://10.0.0.1/",
            "https://10.255.255.255/",
            "https://100.64.0.1/",
            "https://100.127.255.255/",
            "https://169.254.169.254/latest/meta-data/",
            "https://169.254.0.1/",
            "https://172.16.0.1/",
            "https://172.31.255.255/",
            "https://192.0.0.1/",
            "https://192.0.2.1/",
            "https://192.88.99.1/",
            "https://192.168.0.1/",
            "https://192.168.255.255/",
            "https://198.18.0.1/",
            "https://198.19.255.255/",
            "https://198.51.100.1/",
            "https://203.0.113.1/",
            "https://224.0.0.1/",
            "https://239.255.255.255/",
            "https://240.0.0.1/",
            "https://255.255.255.255/",
            "https://[::]/",
            "https://[::1]/",
            "https://[::2]/",
            "https://[::ffff:127.0.0.1]/",
            "https://[::ffff:10.0.0.1]/",
            "https://[::ffff:8.8.8.8]/",
            "https://[::ffff:a9fe:a9fe]/",
            "https://[::127.0.0.1]/",
            "https://[64:ff9b::7f00:1]/",
            "https://[64:ff9b::a00:1]/",
            "https://[64:ff9b:1::1]/",
            "https://[100::1]/",
            "https://[2001::1]/",
            "https://[2001:0:4136:e378::1]/",
            "https://[2001:2::1]/",
            "https://[2001:10::1]/",
            "https://[2001:20::1]/",
            "https://[2001:db8::1]/",
            "https://[2002:7f00:1::1]/",
            "https://[2002:a00:1::]/",
            "https://[3fff::1]/",
            "https://[5f00::1]/",
            "https://[fc00::1]/",
            "https://[fd12:3456:789a::1]/",
            "https://[fe80::1]/",
            "https://[febf::1]/",
            "https://[fec0::1]/",
            "https://[ff02::1]/",
            "https://[ff0e::1]/",
            "https://localhost/",
            "https://LOCALHOST/",
            "https://localhost./",
            "https://localhost:8443/",
            "https://a.localhost/",
            "https://printer.local/",
            "https://printer.LOCAL./",
            "https://vault.internal/",
            "https://metadata.google.internal/",
            "https://wiki.intranet/",
            "https://wiki.intranet.:443/",
            "https://router/",
            "https://%6c%6fcalhost/",
            "https://\u{ff11}27.0.0.1/",
            "https://127\u{3002}0\u{3002}0\u{3002}1/",
        ];
        assert!(hostile.len() >= 60);
        for url in hostile {
            assert_eq!(webhook_url(&config(), url), Err(Refused::Address), "{url}");
        }
    }

    #[test]
    fn h4_what_is_no_https_url_is_refused() {
        let long = format!("https://example.com/{}", "a".repeat(2048));
        for url in [
            "",
            "example.com",
            "http://example.com/",
            "ftp://example.com/",
            "file:///etc/passwd",
            "gopher://example.com/",
            "javascript:alert(1)",
            "https://",
            "https://user@example.com/",
            "https://user:pass@example.com/",
            "https://:pass@example.com/",
            "https://exa mple.com/",
            "https://[::1/",
            "https://256.0.0.1/",
            &long,
        ] {
            assert!(matches!(webhook_url(&config(), url), Err(Refused::Url(_))), "{url}");
        }
    }

    #[test]
    fn c5_a_url_with_a_character_that_is_not_shown_is_refused() {
        for hidden in [
            "\0", "\u{1}", "\u{8}", "\t", "\n", "\u{b}", "\r", "\r\n", "\u{1b}", " ", "\u{7f}", "\u{80}", "\u{85}",
            "\u{9f}", "\u{a0}", "\u{2003}", "\u{2028}", "\u{3000}", "\u{200b}", "\u{202e}", "\u{2066}", "\u{feff}",
            "\\",
        ] {
            for (before, after) in [
                ("", "https://example.com/"),
                ("ht", "tps://example.com/"),
                ("https:", "//example.com/"),
                ("https://", "example.com/"),
                ("https://exa", "mple.com/"),
                ("https://example.com", ":8443/"),
                ("https://example.com:84", "43/"),
                ("https://example.com/", "a"),
                ("https://example.com/?a=", "b"),
                ("https://example.com/#a", "b"),
                ("https://example.com/", ""),
                ("https://127.0.0.1/", ""),
            ] {
                let url = format!("{before}{hidden}{after}");
                assert!(matches!(webhook_url(&config(), &url), Err(Refused::Url(_))), "{url:?}");
            }
        }
        for url in [
            "https://exa%0Ample.com/",
            "https://exa%0d%0ample.com/",
            "https://exa%00mple.com/",
            "https://exa%09mple.com/",
            "https://exa%20mple.com/",
            "https://exa%7Fmple.com/",
            "https://exa%E3%80%80mple.com/",
            "https://exa%C2%ADmple.com/",
            "https://exa\u{ad}mple.com/",
            "https://%E2%80%8Bexample.com/",
            "https://ex%61mple.com/",
            "https:example.com/",
            "https:/example.com/",
            "https:///example.com/",
        ] {
            assert!(matches!(webhook_url(&config(), url), Err(Refused::Url(_))), "{url:?}");
        }
        // a path may hold any byte in percent-encoding, and the words of any language
        for url in ["https://example.com/%0A%00?a=%09", "https://example.com/受信", "https://例え.jp/"] {
            assert!(webhook_url(&config(), url).is_ok(), "{url:?}");
        }
    }

    #[test]
    fn h4_public_receivers_are_taken() {
        for url in [
            "https://example.com/hook",
            "https://example.com.:8443/?a=b",
            "https://8.8.8.8/",
            "https://[2606:4700::1111]/",
            "https://locals.example.com/",
            "https://internal.example.com/",
            "https://alocal.example/",
        ] {
            assert!(webhook_url(&config(), url).is_ok(), "{url}");
        }
    }

    #[test]
    fn h5_one_address_that_is_not_public_refuses_a_name() {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let (public, private) = (address("8.8.8.8:443"), address("10.0.0.1:443"));
        assert_eq!(vetted(&config(), "example.com", vec![public]), Ok(vec![public]));
        assert_eq!(vetted(&config(), "example.com", vec![public, private]), Err(Refused::Address));
        assert_eq!(vetted(&config(), "example.com", vec![address("[::ffff:8.8.8.8]:443")]), Err(Refused::Address));
    }

    #[test]
    fn h6_an_operator_allows_networks_and_http() {
        let allowed = WebhooksConfig {
            webhook_networks: vec!["10.1.0.0/16".parse().unwrap(), "::1/128".parse().unwrap()],
            webhook_http: true,
        };
        for url in [
            "https://10.1.2.3/",
            "http://10.1.2.3:8080/",
            "http://[::1]/",
            "http://vault.internal/",
            "http://example.com/",
        ] {
            assert!(webhook_url(&allowed, url).is_ok(), "{url}");
        }
        for url in ["https://10.2.0.1/", "http://127.0.0.1/"] {
            assert_eq!(webhook_url(&allowed, url), Err(Refused::Address), "{url}");
        }
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        assert!(vetted(&allowed, "vault.internal", vec![address("10.1.2.3:80")]).is_ok());
        // a public address for a local name is refused, because the operator allowed other networks
        assert_eq!(vetted(&allowed, "vault.internal", vec![address("8.8.8.8:80")]), Err(Refused::Address));
    }
}
