//! Addresses of receivers' names. Names are resolved without threads, under bounds of this module's own, so a name
//! server that never answers delays the deliveries to its names, and nothing else.
//!
//! The resolver reads the system's `resolv.conf` and hosts file when the first name is looked up.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;
use std::time::Duration;

use hickory_resolver::TokioResolver;
use hickory_resolver::config::LookupIpStrategy;
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

/// Timeout of a question to a name server.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);
/// Number of attempts at each name server after the first.
const ATTEMPTS: usize = 1;
/// Timeout of a whole look-up, with the wait for a place.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(4);
/// Largest number of look-ups at the same time.
const LOOKUPS_MAX: usize = 64;
/// How long a name whose servers did not answer is not looked up again.
const SILENT_FOR: Duration = Duration::from_secs(60);
/// Largest number of such names that are remembered.
const SILENT_MAX: usize = 10_000;
/// Addresses are remembered no longer than this, whatever the name server says.
const TTL_MAX: Duration = Duration::from_secs(30);

/// Finds the addresses of names.
pub struct Names {
    resolver: OnceLock<Result<TokioResolver, String>>,
    places: Semaphore,
    /// Names whose servers did not answer, and when.
    silent: Mutex<HashMap<String, Instant>>,
}

impl Default for Names {
    fn default() -> Names {
        Names { resolver: OnceLock::new(), places: Semaphore::new(LOOKUPS_MAX), silent: Mutex::default() }
    }
}

impl Names {
    /// Returns all addresses of a name, each with this port. An IP address is its own only address.
    ///
    /// # Errors
    /// Why the name has no address, or that its name servers do not answer.
    pub async fn addresses(&self, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if let Ok(address) = name.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        if self.is_silent(name) {
            return Err("its name servers did not answer a moment ago".to_owned());
        }
        let resolver = self.resolver.get_or_init(of_the_system).as_ref().map_err(Clone::clone)?;
        let looked_up = timeout(LOOKUP_TIMEOUT, async {
            let _place = self.places.acquire().await;
            resolver.lookup_ip(name).await
        });
        let silent = || {
            self.remember_silent(name);
            Err("its name servers do not answer".to_owned())
        };
        match looked_up.await {
            Ok(Ok(found)) => Ok(found.iter().map(|address| SocketAddr::new(address, port)).collect()),
            Ok(Err(error)) if error.is_no_records_found() => Err("it has no address".to_owned()),
            Ok(Err(_)) | Err(_) => silent(),
        }
    }

    fn is_silent(&self, name: &str) -> bool {
        self.silent.lock().get(name).is_some_and(|since| since.elapsed() < SILENT_FOR)
    }

    fn remember_silent(&self, name: &str) {
        let mut silent = self.silent.lock();
        if silent.len() >= SILENT_MAX {
            silent.clear();
        }
        silent.insert(name.to_owned(), Instant::now());
    }
}

/// Makes a resolver with the system's settings.
fn of_the_system() -> Result<TokioResolver, String> {
    let made = TokioResolver::builder_tokio().and_then(|mut builder| {
        let options = builder.options_mut();
        (options.timeout, options.attempts) = (ANSWER_TIMEOUT, ATTEMPTS);
        // all addresses of both families, because each is checked
        options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
        (options.positive_max_ttl, options.negative_max_ttl) = (Some(TTL_MAX), Some(TTL_MAX));
        builder.build()
    });
    made.map_err(|error| {
        tracing::error!(%error, "the system's resolv.conf cannot be used, so no name of a receiver resolves");
        "this node cannot resolve names".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolverConfig};
    use hickory_resolver::net::runtime::TokioRuntimeProvider;
    use tokio::net::UdpSocket;

    use super::*;

    #[tokio::test]
    async fn addresses_are_their_own_and_names_of_the_hosts_file_are_found() {
        let names = Names::default();
        let of = async |name: &str| names.addresses(name, 443).await.unwrap();
        assert_eq!(of("192.0.2.1").await, ["192.0.2.1:443".parse().unwrap()]);
        assert_eq!(of("2001:db8::1").await, ["[2001:db8::1]:443".parse().unwrap()]);
        assert!(of("localhost").await.contains(&"127.0.0.1:443".parse().unwrap()));
    }

    #[tokio::test]
    async fn a_name_whose_servers_are_silent_is_not_asked_for_again() {
        let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let mut connection = ConnectionConfig::udp();
        connection.port = server.local_addr().unwrap().port();
        let mut server_config = NameServerConfig::udp(server.local_addr().unwrap().ip());
        server_config.connections = vec![connection];
        let config = ResolverConfig::from_parts(None, vec![], vec![server_config]);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        (builder.options_mut().timeout, builder.options_mut().attempts) = (Duration::from_millis(50), 0);
        let names = Names::default();
        assert!(names.resolver.set(Ok(builder.build().unwrap())).is_ok());
        let error = names.addresses("receiver.example", 443).await.unwrap_err();
        assert_eq!(error, "its name servers do not answer");
        let mut asked = 0;
        let mut packet = [0; 512];
        while server.try_recv(&mut packet).is_ok() {
            asked += 1;
        }
        assert!(asked > 0);
        for _ in 0..100 {
            let error = names.addresses("receiver.example", 443).await.unwrap_err();
            assert_eq!(error, "its name servers did not answer a moment ago");
        }
        assert!(server.try_recv(&mut packet).is_err(), "the name was asked for again");
    }
}
