//! TLS within the process (readings X12), for nodes without a proxy in front.
//!
//! Certificates are renewed every few weeks, so each new connection checks whether the files have changed, and uses the
//! new files from then on. While certificate and key do not match, for example when only one of the files was replaced,
//! the old certificate and key stay in use.

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

/// The files of the node's certificate.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct TlsConfig {
    /// PEM file with the node's TLS certificate first, then the intermediate certificates. The node then serves HTTPS.
    /// A changed file is read before the next connection. When unset, the node serves plain HTTP, for a proxy.
    #[arg(env = "ANGO_TLS_CERTIFICATE")]
    pub certificate: PathBuf,
    /// PEM file with the private key of ANGO_TLS_CERTIFICATE.
    #[arg(env = "ANGO_TLS_KEY")]
    pub key: PathBuf,
}

/// Serves TLS with the certificate that the files contain now.
pub struct Tls {
    config: TlsConfig,
    state: Mutex<State>,
}

struct State {
    acceptor: TlsAcceptor,
    /// The modification times of the files that were read last, valid or not.
    read: Option<[SystemTime; 2]>,
}

impl Tls {
    /// Reads the files.
    ///
    /// # Errors
    /// When they cannot be read, are not PEM, or the key does not match the certificate. The message is for the
    /// operator.
    pub fn open(config: TlsConfig) -> anyhow::Result<Tls> {
        let read = config.written().ok();
        let acceptor = config.acceptor()?;
        Ok(Tls { config, state: Mutex::new(State { acceptor, read }) })
    }

    /// Returns the acceptor for a new connection. Reads the files again if they have changed.
    pub fn acceptor(&self) -> TlsAcceptor {
        let mut state = self.state.lock();
        let written = self.config.written().ok();
        if written.is_some() && written != state.read {
            state.read = written;
            match self.config.acceptor() {
                Ok(acceptor) => {
                    tracing::info!("a new certificate is in use");
                    state.acceptor = acceptor;
                }
                Err(error) => tracing::error!("the old certificate stays in use: {error:#}"),
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
            .with_context(|| format!("ANGO_TLS_KEY: {key} does not match {certificate}"))?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}
/// Installs the cryptography library of all HTTPS clients of this process, before the first client is made. If the
/// program has installed another library before, that library stays.
pub fn choose_cryptography() {
    // an error here means that the program has installed a cryptography library before
    let _ = rustls::crypto::ring::default_provider().install_default();
}
