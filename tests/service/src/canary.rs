//! A canary for every suite that runs nodes. Nothing in the process's log, at any level, and nothing on the metrics
//! pages may look like a secret (readings A3, K5, X16).
//!
//! The canary reads lines as they are written and stores only lines with a secret. A stored line fails the test whose
//! node stops next, because all nodes of a process share one log.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use control::config::Config;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::users::PASSWORD;

/// Largest number of lines that the canary stores, and of characters that it stores of each line. The first lines
/// suffice to find the fault.
const FINDINGS_MAX: usize = 8;
const LINE_CHARACTERS_MAX: usize = 400;
/// Number of characters at the start of an API key that are not secret.
const KEY_CHARACTERS_SHOWN: usize = 16;
/// A text with at least this many hexadecimal characters of a refresh token, or of a link's token, exposes the token.
const TOKEN_DIGITS_MIN: usize = 16;
/// Number of characters that follow the prefix of an id.
const ID_CHARACTERS: usize = 26;
/// Smallest number of base64url characters in each part of a session token.
const TOKEN_PART_MIN: usize = 10;
/// A text with this many base64 characters in a row must be a key or ciphertext. Paths and digests are shorter.
const BASE64_MIN: usize = 256;

/// Searches all text that the process logs, and the metrics pages, for secrets.
#[derive(Debug, Default)]
pub struct Canary {
    found: Mutex<Vec<String>>,
    /// Number of texts that the canary has searched.
    looked: AtomicU64,
}

/// Selects everything in the log except certificates. TLS sends certificates to every client, and they look like keys. A node
/// never logs messages of the broker, which hold ciphertexts.
fn everything() -> Targets {
    "trace,rustls=debug,async_nats=info".parse().expect("a filter")
}

/// The canary of this process.
static CANARY: Canary = Canary { found: Mutex::new(Vec::new()), looked: AtomicU64::new(0) };

/// Lets the process's canary read everything that is logged from now on, unless the process has another log.
pub fn watch() -> &'static Canary {
    // every node of the process calls this; the first call installs the log
    let lines = tracing_subscriber::fmt::layer().with_writer(&CANARY).with_ansi(false);
    let _ = tracing_subscriber::registry().with(lines).with(everything()).try_init();
    &CANARY
}

/// Makes the process log like a node with default settings, and discards the log. Benchmarks call this function before
/// their first node starts.
pub fn log_as_a_node() {
    let filter = Config::in_folder(".").log.filter;
    let lines = tracing_subscriber::fmt::layer().with_writer(io::sink).with_ansi(false);
    tracing_subscriber::registry().with(lines).with(filter).try_init().expect("the process has no log yet");
}

impl Canary {
    /// Searches a text for a secret, and stores the text if it holds one.
    pub fn look(&self, text: &str) {
        self.looked.fetch_add(1, Ordering::Relaxed);
        let Some(what) = secret_in(text) else { return };
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        if found.len() < FINDINGS_MAX {
            found.push(format!("{what}: {}", text.chars().take(LINE_CHARACTERS_MAX).collect::<String>()));
        }
    }

    /// Checks that no secret was found.
    ///
    /// # Panics
    /// If the canary found a secret. The message contains the stored lines.
    #[track_caller]
    pub fn assert_silent(&self) {
        let found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(found.is_empty(), "secrets were written down:\n{}", found.join("\n"));
    }
}

impl io::Write for &Canary {
    /// The log calls this function once for each event, with the whole line.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.look(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'c> MakeWriter<'c> for &'static Canary {
    type Writer = &'static Canary;

    fn make_writer(&'c self) -> Self::Writer {
        self
    }
}

/// Searches a text for a secret. Returns the kind of secret, if any.
pub fn secret_in(text: &str) -> Option<&'static str> {
    if ["svc_live_", "svc_test_", "svc_dev_", "svc_trial_"].iter().any(|prefix| has_key(text, prefix)) {
        return Some("an API key");
    }
    if ["rt_", "st_", "pt_"].iter().any(|prefix| follows(text, prefix, is_hex) >= TOKEN_DIGITS_MIN) {
        return Some("a refresh token or the token of a link");
    }
    if follows(text, "sess_", |c| c.is_ascii_digit() || (b'a'..=b'v').contains(&c)) >= ID_CHARACTERS {
        return Some("a gate session's id");
    }
    if after(text, "eyJ").any(is_token) {
        return Some("a session token");
    }
    if text.contains(PASSWORD) {
        return Some("a password");
    }
    let base64 = |c: &u8| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'/' | b'-' | b'_');
    let longest = text.as_bytes().chunk_by(|a, b| base64(a) && base64(b)).map(<[u8]>::len).max();
    (longest >= Some(BASE64_MIN)).then_some("a key or ciphertext")
}

fn has_key(text: &str, prefix: &str) -> bool {
    prefix.len() + follows(text, prefix, is_hex) > KEY_CHARACTERS_SHOWN
}

fn is_hex(character: u8) -> bool {
    character.is_ascii_digit() || (b'a'..=b'f').contains(&character)
}

/// Returns the text behind each occurrence of the prefix.
fn after<'t>(text: &'t str, prefix: &'t str) -> impl Iterator<Item = &'t str> {
    text.match_indices(prefix).map(move |(at, _)| &text[at + prefix.len()..])
}

/// Counts the characters of this kind in a row directly behind each occurrence of the prefix. Returns the largest
/// count.
fn follows(text: &str, prefix: &str, kind: impl Fn(u8) -> bool) -> usize {
    after(text, prefix).map(|rest| rest.bytes().take_while(|&c| kind(c)).count()).max().unwrap_or(0)
}

/// Whether `rest`, the text behind `eyJ`, can be the remainder of a session token, perhaps with other text behind the
/// token.
fn is_token(rest: &str) -> bool {
    let mut parts = rest
        .splitn(3, '.')
        .map(|part| part.bytes().take_while(|&c| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_')).count());
    parts.clone().count() == 3 && parts.all(|characters| characters >= TOKEN_PART_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TestServer;
    use crate::http::Request;

    fn secrets() -> Vec<String> {
        let hex = "0123456789abcdef".repeat(4);
        vec![
            format!("svc_live_{}", &hex[..32]),
            format!("GET /api/v1/onboarding/temp-key/svc_trial_{}", &hex[..7]),
            format!("{{\"refresh_token\":\"rt_{hex}\"}}"),
            format!("http://localhost/setup#st_{hex}"),
            format!("http://localhost/reset#pt_{hex}"),
            format!("/api/v1/tfhe/session/sess_{}", "0123456789abcdefghijklmnop"),
            format!("Bearer eyJ{0}.{0}.{0}", "aB3-_xyz99"),
            format!("password={PASSWORD}"),
            "QUJD".repeat(80),
        ]
    }

    #[test]
    fn x16_whatever_is_secret_is_recognised() {
        for secret in secrets() {
            assert!(secret_in(&format!("DEBUG control: message {secret} and=more")).is_some(), "{secret}");
        }
    }

    #[test]
    fn what_may_be_written_down_is_not_taken_for_a_secret() {
        for line in [
            "key_prefix=svc_live_0123456 key_prefix=svc_trial_012345",
            "route=\"/api/v1/tfhe/session/{session_id}\" op_0123456789abcdefghijklmnop",
            "SELECT digest FROM gate_sessions WHERE digest = $1 sess_ rt_ st_ eyJ..",
            &format!("lockout {}", "0123456789abcdef".repeat(4)),
            "/tmp/.tmpAbCdEf/control/store/migrations/postgres/0001_gate_sessions.sql",
        ] {
            assert_eq!(secret_in(line), None, "{line}");
        }
    }

    #[tokio::test]
    async fn what_a_node_logs_is_looked_at() {
        let server = TestServer::start().await;
        let before = CANARY.looked.load(Ordering::Relaxed);
        server.send(Request::get("/health")).await.ok(200);
        assert!(tracing::enabled!(tracing::Level::TRACE));
        // the node logs an answer before it sends the answer, so the canary has read at least one more line
        assert!(CANARY.looked.load(Ordering::Relaxed) > before);
    }

    #[test]
    fn a_line_that_is_logged_is_found_and_only_the_first_ones_are_kept() {
        let canary: &Canary = Box::leak(Box::default());
        let lines = tracing_subscriber::fmt::layer().with_writer(canary);
        let log = tracing_subscriber::registry().with(lines).with(everything());
        tracing::subscriber::with_default(log, || {
            tracing::info!(key_prefix = "svc_live_0123456", "harmless");
            canary.assert_silent();
            for secret in secrets().iter().cycle().take(3 * FINDINGS_MAX) {
                tracing::trace!(%secret, "a secret in the log");
            }
        });
        assert_eq!(canary.found.lock().unwrap().len(), FINDINGS_MAX);
        assert!(std::panic::catch_unwind(|| canary.assert_silent()).is_err());
    }
}
