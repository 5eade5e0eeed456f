//! TLS in process (readings X12): for nodes without a proxy in front.
//!
//! Certificates are renewed every few weeks, so the files are looked at with every connection, and what is new in them holds
//! from then on. While they do not fit together, as between the writing of one and of the other, the old ones hold.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::Context;
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

/// Where the node's certificate is.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct TlsConfig {
    /// PEM file with the node's TLS certificate first, then the intermediate certificates. The node then speaks HTTPS. It reads
    /// a changed file before the next connection. When unset, the node speaks plain HTTP, for a proxy.
    #[arg(env = "ANGO_TLS_CERTIFICATE")]
    pub certificate: PathBuf,
    /// PEM file with the private key of ANGO_TLS_CERTIFICATE.
    #[arg(env = "ANGO_TLS_KEY")]
    pub key: PathBuf,
}

/// Speaks TLS with the certificate that the files hold now.
pub struct Tls {
    config: TlsConfig,
    state: Mutex<State>,
}

struct State {
    acceptor: TlsAcceptor,
    /// When the files were written that were read last, be they good or not.
    read: Option<[SystemTime; 2]>,
}

impl Tls {
    /// With what the files hold.
    ///
    /// # Errors
    /// When they cannot be read, are not PEM, or the key is not the certificate's; in words for the operator.
    pub fn open(config: TlsConfig) -> anyhow::Result<Tls> {
        let read = config.written().ok();
        let acceptor = config.acceptor()?;
        Ok(Tls { config, state: Mutex::new(State { acceptor, read }) })
    }

    /// For a connection that has just come.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock();
        let written = self.config.written().ok();
        if written.is_some() && written != state.read {
            state.read = written;
            match self.config.acceptor() {
                Ok(acceptor) => {
                    tracing::info!("a new certificate is used");
                    state.acceptor = acceptor;
                }
                Err(error) => tracing::error!("the certificate stays as it was: {error:#}"),
            }
        }
        state.acceptor.clone()
    }
}

impl TlsConfig {
    fn written(&self) -> io::Result<[SystemTime; 2]> {
        Ok([fs::metadata(&self.certificate)?.modified()?, fs::metadata(&self.key)?.modified()?])
    }

    fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        let chain = CertificateDer::pem_file_iter(&self.certificate)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .with_context(|| format!("ANGO_TLS_CERTIFICATE: {certificate} cannot be read as PEM"))?;
        anyhow::ensure!(!chain.is_empty(), "ANGO_TLS_CERTIFICATE: there is no certificate in {certificate}");
        let private = PrivateKeyDer::from_pem_file(&self.key)
            .with_context(|| format!("ANGO_TLS_KEY: {key} cannot be read as PEM of a private key"))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, private)
            .with_context(|| format!("ANGO_TLS_KEY: {key} and {certificate} do not go together"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
/// Says which cryptography clients of HTTPS in this process use, before the first of them is made. A program that chose its own
/// keeps it.
pub fn choose_cryptography() {
    // an error says that it was chosen before
    let _ = rustls::crypto::ring::default_provider().install_default();
}
