//! A node that serves TLS (readings X12).

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use control::app::App;
use control::config::{Config, TlsConfig};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use tempfile::TempDir;
use tests_service::TestServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

const NAME: &str = "fhe.example.org";
const HEALTH: &[u8] = b"GET /api/v1/health HTTP/1.1\r\nhost: fhe.example.org\r\nconnection: close\r\n\r\n";

/// Writes a self-signed certificate and its private key to files that are this many seconds old. Returns the
/// certificate, which a client must trust.
fn write_certificate(folder: &Path, seconds_ago: u64) -> CertificateDer<'static> {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed([NAME.to_owned()]).unwrap();
    write(&config(folder).certificate, &cert.pem(), seconds_ago);
    write(&config(folder).key, &signing_key.serialize_pem(), seconds_ago);
    cert.der().clone()
}

/// Writes a file and sets the file's age, because file systems may give the same time to two writes in a row.
fn write(path: &Path, text: &str, seconds_ago: u64) {
    fs::write(path, text).unwrap();
    let file = fs::File::options().write(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds_ago)).unwrap();
}

fn config(folder: &Path) -> TlsConfig {
    TlsConfig { certificate: folder.join("tls.pem"), key: folder.join("tls.key") }
}

async fn start(folder: &TempDir) -> TestServer {
    TestServer::with(|node| node.tls = Some(config(folder.path()))).await
}

/// Connects as a client that trusts only this certificate.
async fn connect(address: SocketAddr, trusted: &CertificateDer<'static>) -> std::io::Result<TlsStream<TcpStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut client = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    client.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let stream = TcpStream::connect(address).await?;
    TlsConnector::from(Arc::new(client)).connect(ServerName::try_from(NAME).unwrap(), stream).await
}

async fn ask(mut stream: TlsStream<TcpStream>) -> String {
    stream.write_all(HEALTH).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn x12_a_node_with_a_certificate_speaks_https() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path(), 60);
    let server = start(&folder).await;
    assert_eq!(server.running().url(), format!("https://{}", server.address));
    assert_eq!(server.running().base_url, server.running().url());
    let stream = connect(server.address, &certificate).await.unwrap();
    let (_, session) = stream.get_ref();
    assert_eq!(session.protocol_version(), Some(ProtocolVersion::TLSv1_3));
    assert_eq!(session.alpn_protocol(), Some(&b"http/1.1"[..]));
    let answer = ask(stream).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"status\":\"healthy\""), "{answer}");
    server.stop().await;
}

#[tokio::test]
async fn x12_who_speaks_plain_http_to_a_tls_port_gets_no_answer_and_harms_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = write_certificate(folder.path(), 60);
    let server = start(&folder).await;
    let mut silent = TcpStream::connect(server.address).await.unwrap();
    let mut plain = TcpStream::connect(server.address).await.unwrap();
    plain.write_all(HEALTH).await.unwrap();
    let mut answer = Vec::new();
    let _ = plain.read_to_end(&mut answer).await;
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    assert!(ask(connect(server.address, &certificate).await.unwrap()).await.starts_with("HTTP/1.1 200"));
    silent.write_all(&[0x16, 0x03]).await.unwrap();
    server.stop().await;
}

#[tokio::test]
async fn x12_a_renewed_certificate_is_used_without_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let first = write_certificate(folder.path(), 60);
    let server = start(&folder).await;
    let open = connect(server.address, &first).await.unwrap();
    let second = write_certificate(folder.path(), 30);
    assert!(connect(server.address, &first).await.is_err(), "the node serves another certificate");
    assert!(ask(connect(server.address, &second).await.unwrap()).await.starts_with("HTTP/1.1 200"));
    assert!(ask(open).await.starts_with("HTTP/1.1 200"), "open connections go on");
    // the new certificate is written before its key, so the node keeps the old pair
    let other = tempfile::tempdir().unwrap();
    write_certificate(other.path(), 60);
    let others = fs::read_to_string(config(other.path()).certificate).unwrap();
    write(&config(folder.path()).certificate, &others, 20);
    assert!(ask(connect(server.address, &second).await.unwrap()).await.starts_with("HTTP/1.1 200"));
    server.stop().await;
}

#[tokio::test]
async fn x12_a_certificate_that_cannot_be_used_ends_the_start_with_the_settings_name() {
    let folder = tempfile::tempdir().unwrap();
    write_certificate(folder.path(), 60);
    let other = tempfile::tempdir().unwrap();
    write_certificate(other.path(), 60);
    let good = config(folder.path());
    let nonsense = folder.path().join("nonsense");
    fs::write(&nonsense, "no PEM").unwrap();
    for (tls, names) in [
        (TlsConfig { certificate: "/nowhere".into(), ..good.clone() }, "ANGO_TLS_CERTIFICATE"),
        (TlsConfig { certificate: nonsense.clone(), ..good.clone() }, "ANGO_TLS_CERTIFICATE"),
        (TlsConfig { key: nonsense, ..good.clone() }, "ANGO_TLS_KEY"),
        (TlsConfig { certificate: config(other.path()).certificate, ..good }, "ANGO_TLS_KEY"),
    ] {
        let data = tempfile::tempdir().unwrap();
        let mut config = Config::in_folder(data.path());
        config.tls = Some(tls);
        let Err(error) = App::start(config).await else { panic!("it starts") };
        assert!(format!("{error:#}").contains(names), "{error:#}");
    }
}
