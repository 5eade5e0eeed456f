//! The address that a request comes from (readings X12).
//!
//! The listener knows the address at the other end of the connection. Behind a proxy that is the proxy's address, and
//! `X-Forwarded-For` names the client. Any client can send this header, so only entries that trusted proxies wrote
//! count.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use crate::web::error::ApiError;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at the other end of the connection. The listener puts it into every request's extensions.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// The client's address. `edge` puts it into every request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientAddress(pub IpAddr);

impl Peer {
    /// Whether this peer forwards a request although it is not a trusted proxy. Such a peer is a proxy that the
    /// settings do not name, or a client that made the header up.
    pub fn forwards_untrusted(self, headers: &HeaderMap, trusted_proxies: &[IpNet]) -> bool {
        let peer = self.0.ip().to_canonical();
        headers.contains_key(X_FORWARDED_FOR) && !trusted_proxies.iter().any(|network| network.contains(&peer))
    }
}

impl ClientAddress {
    /// Finds the client of a request that came from `peer`. The header's entries are read from the right, where trusted
    /// proxies write, up to the first address that is not trusted. Entries further left are only that address's claim.
    pub fn of(peer: Peer, headers: &HeaderMap, trusted_proxies: &[IpNet]) -> ClientAddress {
        let trusted = |address: &IpAddr| trusted_proxies.iter().any(|network| network.contains(address));
        let mut client = peer.0.ip().to_canonical();
        let lines = headers.get_all(X_FORWARDED_FOR).into_iter().rev();
        // a header line that is not text counts as one unreadable entry
        let mut entries = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        while trusted(&client) {
            let Some(earlier) = entries.next().and_then(|entry| address(entry.trim())) else { break };
            client = earlier;
        }
        ClientAddress(client)
    }

    /// Returns the network by which limits count: the address, or the /64 of an IPv6 address, because one client may
    /// use a whole /64 (readings A22).
    pub fn network(self) -> IpAddr {
        match self.0 {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        }
    }
}

/// Reads an entry of the header: an address, to which some proxies add a port.
fn address(entry: &str) -> Option<IpAddr> {
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let address = bare.parse().ok().or_else(|| entry.parse::<SocketAddr>().ok().map(|socket| socket.ip()))?;
    Some(IpAddr::to_canonical(&address))
}

impl<S: Sync> FromRequestParts<S> for ClientAddress {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        let known = parts.extensions.get::<ClientAddress>().copied();
        known.ok_or_else(|| ApiError::internal("the request has no client address"))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const PROXIES: &[&str] = &["10.0.0.0/8", "fd00::/8"];

    fn client(peer: &str, lines: &[&str]) -> String {
        let proxies: Vec<IpNet> = PROXIES.iter().map(|network| network.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(X_FORWARDED_FOR, line.parse().unwrap());
        }
        ClientAddress::of(Peer(SocketAddr::new(peer.parse().unwrap(), 1)), &headers, &proxies).0.to_string()
    }

    #[test]
    fn x12_only_a_trusted_proxy_says_who_the_client_is() {
        assert_eq!(client("192.0.2.1", &["198.51.100.7"]), "192.0.2.1");
        assert_eq!(client("10.1.2.3", &["198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
        // a proxy that connects over a dual-stack socket has a mapped address
        assert_eq!(client("::ffff:10.1.2.3", &["::ffff:198.51.100.7"]), "198.51.100.7");
    }

    #[test]
    fn x12_what_the_client_wrote_itself_is_not_believed() {
        assert_eq!(client("10.1.2.3", &["203.0.113.9, 198.51.100.7"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["203.0.113.9", "198.51.100.7, 10.9.9.9"]), "198.51.100.7");
        assert_eq!(client("10.1.2.3", &["198.51.100.7", "nonsense"]), "10.1.2.3");
        assert_eq!(client("10.1.2.3", &["198.51.100.7, "]), "10.1.2.3");
        assert_eq!(client("10.1.2.3", &["10.0.0.1, fd00::1"]), "10.0.0.1");
    }

    #[test]
    fn x12_a_header_from_a_peer_that_is_no_trusted_proxy_is_noticed() {
        let proxies: Vec<IpNet> = PROXIES.iter().map(|network| network.parse().unwrap()).collect();
        let mut headers = HeaderMap::new();
        let peer = |address: &str| Peer(SocketAddr::new(address.parse().unwrap(), 1));
        assert!(!peer("127.0.0.1").forwards_untrusted(&headers, &proxies));
        headers.append(X_FORWARDED_FOR, "nonsense".parse().unwrap());
        assert!(peer("127.0.0.1").forwards_untrusted(&headers, &proxies));
        assert!(!peer("::ffff:10.1.2.3").forwards_untrusted(&headers, &proxies));
    }

    #[test]
    fn entries_may_have_ports() {
        assert_eq!(client("fd00::1", &["198.51.100.7:4711"]), "198.51.100.7");
        assert_eq!(client("fd00::1", &["[2001:db8::5]:4711"]), "2001:db8::5");
        assert_eq!(client("fd00::1", &["[2001:db8::5]"]), "2001:db8::5");
        assert_eq!(client("fd00::1", &["2001:db8::5"]), "2001:db8::5");
    }

    #[test]
    fn a22_an_ipv6_client_is_its_slash_64() {
        let network = |text: &str| ClientAddress(text.parse().unwrap()).network().to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("198.51.100.7"), "198.51.100.7");
    }

    proptest! {
        #[test]
        fn x12_whatever_stands_in_the_header_a_stranger_is_himself(lines in prop::collection::vec("[ -~]{0,60}", 0..4)) {
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            prop_assert_eq!(client("192.0.2.1", &lines), "192.0.2.1");
            // behind a proxy the client's address is always a valid IP address, whatever the header contains
            prop_assert!(client("10.1.2.3", &lines).parse::<IpAddr>().is_ok());
        }

        #[test]
        fn x12_what_is_left_of_the_first_stranger_changes_nothing(forged in "[ -~]{0,60}") {
            prop_assert_eq!(client("10.1.2.3", &[&forged, "198.51.100.7"]), "198.51.100.7");
            prop_assert_eq!(client("10.1.2.3", &[&format!("{forged}, 198.51.100.7")]), "198.51.100.7");
        }
    }
}
