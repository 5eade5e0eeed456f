//! E-mails by SMTP (specification, Budget: alerts). An e-mail is a row in an outbox, written in one transaction with
//! the alert or document that it is about.
//!
//! A node can die after the mail server took an e-mail and before the node recorded this. An e-mail with a document is
//! not sent again in this case, because the buyer could get the document twice. The shop sees `failed` in the list of its
//! documents, and can send the document itself. All other e-mails, such as reminders, are sent again with the same
//! message id, because their recipients cannot know that an e-mail is missing.

use std::sync::Arc;
use std::time::Duration;

use lettre::message::header::ContentType;
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};
use lettre::{AsyncSmtpTransport, AsyncTransport, Message, Tokio1Executor};
use serde::{Deserialize, Serialize};
use store::Email;
use zeroize::Zeroizing;

use super::Billing;
use super::leases::{Job, holds_lease};
use crate::clock::Timestamp;
use crate::ids;
use crate::sealing::AccountSeals;
use crate::web::error::ApiError;

/// Timeout for sending a mail, from the connection to the server's last answer.
const SEND_TIMEOUT: Duration = Duration::from_secs(30);
/// Time after which a node that has taken a letter and recorded no result counts as dead.
const HAND_OVER: Duration = Duration::from_secs(120);
/// Largest number of e-mails that one look for billing work sends.
const AT_ONCE: i64 = 20;
/// Waits before retries. If the last retry fails, the mail is never sent.
const WAITS: [Duration; 5] = [
    Duration::from_secs(30),
    Duration::from_secs(300),
    Duration::from_secs(1800),
    Duration::from_secs(4 * 3600),
    Duration::from_secs(24 * 3600),
];
/// Number of characters of an error that are stored.
const ERROR_CHARACTERS_MAX: usize = 200;

/// Settings of e-mail.
#[derive(Clone, Debug, clap::Args)]
pub struct MailConfig {
    /// smtps://USER:PASSWORD@HOST (TLS), smtp://USER:PASSWORD@HOST?tls=required (STARTTLS) or smtp://HOST. When unset, no e-mails
    /// are sent. Give a password in the variable or in the settings file.
    #[arg(env = "ANGO_SMTP_URL", hide_env_values = true, value_parser = SmtpUrl::read)]
    pub smtp_url: Option<SmtpUrl>,
    /// The sender of e-mails: an address, or a name and an address in angle brackets.
    #[arg(env = "ANGO_SMTP_FROM", default_value = "ango@localhost", value_parser = sender)]
    pub smtp_from: Mailbox,
}

/// The address of the SMTP server. `Debug` hides the address because it may hold a password.
#[derive(Clone)]
pub struct SmtpUrl(Zeroizing<String>);

impl SmtpUrl {
    /// Reads the address of an SMTP server, for programs that embed the node.
    ///
    /// # Panics
    /// When `text` is not an SMTP URL.
    pub fn of(text: &str) -> SmtpUrl {
        SmtpUrl::read(text).expect("a URL of SMTP")
    }

    fn read(text: &str) -> Result<SmtpUrl, &'static str> {
        let is_known = text.starts_with("smtp://") || text.starts_with("smtps://");
        match AsyncSmtpTransport::<Tokio1Executor>::from_url(text) {
            Ok(_) if is_known => Ok(SmtpUrl(Zeroizing::new(text.to_owned()))),
            // do not repeat the library's error: it may quote the password
            _ => Err("must be an smtp: or smtps: URL"),
        }
    }
}

impl std::fmt::Debug for SmtpUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SmtpUrl(..)")
    }
}

fn sender(text: &str) -> Result<Mailbox, &'static str> {
    text.parse().map_err(|_| "must be an e-mail address, or a name and an address in <>")
}

/// An e-mail to write into the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Letter {
    /// The recipients' addresses, separated by commas. All addresses after the first get blind copies.
    pub recipient: String,
    /// The subject.
    pub subject: String,
    /// The text.
    pub body: String,
}

impl Letter {
    /// Makes the record of the e-mail for the outbox. The letter is sealed, because it names a customer, and records
    /// are kept for months. `document_id`: the attached document; empty for none.
    pub fn into_email(self, seals: &AccountSeals, document_id: &str, now: Timestamp) -> Email {
        let email_id = ids::email(now).as_str().to_owned();
        let letter = serde_json::to_vec(&self).expect("texts become JSON");
        Email {
            sealed: Some(seals.of_service().seal(&email_id, &letter)),
            email_id,
            recipient: String::new(),
            subject: String::new(),
            body: String::new(),
            document_id: document_id.to_owned(),
            attempts: 0,
            created_at: now.0,
        }
    }

    /// Opens the letter of an e-mail in the outbox. `None`: the e-mail was sealed under another secret.
    pub fn of(email: &Email, seals: &AccountSeals) -> Option<Letter> {
        match &email.sealed {
            Some(sealed) => serde_json::from_slice(&seals.of_service().open(&email.email_id, sealed)?).ok(),
            None => {
                let Email { recipient, subject, body, .. } = email.clone();
                Some(Letter { recipient, subject, body })
            }
        }
    }
}

/// Sends e-mails through an SMTP server.
pub struct Mailer {
    transport: AsyncSmtpTransport<Tokio1Executor>,
    from: Mailbox,
}

impl Mailer {
    /// Creates a mailer with these settings. `None`: no server is set, so no e-mails are sent.
    ///
    /// # Errors
    /// When the URL cannot be used.
    pub fn new(config: &MailConfig) -> anyhow::Result<Option<Mailer>> {
        let Some(url) = &config.smtp_url else { return Ok(None) };
        crate::tls::choose_cryptography();
        let transport = AsyncSmtpTransport::<Tokio1Executor>::from_url(&url.0)?.timeout(Some(SEND_TIMEOUT)).build();
        Ok(Some(Mailer { transport, from: config.smtp_from.clone() }))
    }

    async fn send(&self, email_id: &str, letter: Letter, attached: Option<Attached>) -> Result<(), Unsent> {
        let forever = |error: &dyn std::fmt::Display| Unsent { why: error.to_string(), forever: true };
        let Letter { recipient, subject, body } = letter;
        let to: Result<Vec<Mailbox>, _> = recipient.split(',').map(str::parse).collect();
        let to = to.map_err(|error: lettre::address::AddressError| forever(&error))?;
        let host = self.from.email.domain();
        let mut builder = Message::builder().from(self.from.clone());
        for (at, mailbox) in to.into_iter().enumerate() {
            builder = match at {
                0 => builder.to(mailbox),
                // the issuer of an attached document gets a copy of the mail, and the buyer's replies
                _ if attached.is_some() => builder.reply_to(mailbox.clone()).bcc(mailbox),
                _ => builder.bcc(mailbox),
            };
        }
        let builder = builder.subject(subject).message_id(Some(format!("<{email_id}@{host}>")));
        let message = match attached {
            None => builder.header(ContentType::TEXT_PLAIN).body(body),
            Some(Attached { name, pdf }) => {
                let pdf_type = ContentType::parse("application/pdf").map_err(|error| forever(&error))?;
                let text = SinglePart::plain(body);
                builder.multipart(
                    MultiPart::mixed().singlepart(text).singlepart(Attachment::new(name).body(pdf, pdf_type)),
                )
            }
        };
        let message = message.map_err(|error| forever(&error))?;
        // the transport's own timeout bounds the connection only, not the answers
        match tokio::time::timeout(SEND_TIMEOUT, self.transport.send(message)).await {
            Ok(sent) => {
                sent.map(drop).map_err(|error| Unsent { why: error.to_string(), forever: error.is_permanent() })
            }
            Err(_) => {
                let why = format!("the mail server took more than {} s", SEND_TIMEOUT.as_secs());
                Err(Unsent { why, forever: false })
            }
        }
    }
}

/// A document that is attached to a mail.
struct Attached {
    name: String,
    pdf: Vec<u8>,
}

/// Why a mail was not sent, and whether a retry is pointless.
struct Unsent {
    why: String,
    forever: bool,
}

/// Sends the e-mails that are due.
pub(super) async fn send_due(billing: &Arc<Billing>) -> Result<(), ApiError> {
    if billing.mailer.is_none() {
        return Ok(());
    }
    for email in billing.store.due_emails(billing.clock.now().0, AT_ONCE).await? {
        if !holds_lease(billing, Job::Mails).await? {
            return Ok(());
        }
        if email.document_id.is_empty() {
            send(billing, &email).await?;
            continue;
        }
        // a separate task, because the job ends when the node stops, and the node waits for this task
        let (billing, unfinished) = (billing.clone(), billing.unfinished.enter());
        let task = tokio::spawn(async move {
            let _unfinished = unfinished;
            send(&billing, &email).await
        });
        task.await??;
    }
    Ok(())
}

/// Makes an attempt to send an e-mail, and records the result.
async fn send(billing: &Billing, email: &Email) -> Result<(), store::Error> {
    let Some(mailer) = &billing.mailer else { return Ok(()) };
    let forever = |why: &str| Err(Unsent { why: why.to_owned(), forever: true });
    let has_document = !email.document_id.is_empty();
    if has_document && !email.has_letter() {
        let why = "a node died while it handed the e-mail over, so the e-mail may have been sent";
        return note(billing, email, forever(why)).await;
    }
    let Some(letter) = Letter::of(email, &billing.seals) else {
        return note(billing, email, forever("the e-mail was sealed under another secret")).await;
    };
    let attached = match attached(billing, email).await? {
        Ok(attached) => attached,
        Err(unsent) => return note(billing, email, Err(unsent)).await,
    };
    if has_document && !billing.store.take_letter(email, billing.clock.now().plus(HAND_OVER).0).await? {
        return Ok(());
    }
    note(billing, email, mailer.send(&email.email_id, letter, attached).await).await
}

/// Records the result of an attempt.
async fn note(billing: &Billing, email: &Email, sent: Result<(), Unsent>) -> Result<(), store::Error> {
    let Err(Unsent { why, forever }) = sent else {
        billing.telemetry.email("sent");
        return billing.store.note_email(email, true, 0, "").await;
    };
    let wait = WAITS.get(email.attempts.clamp(0, 100) as usize).filter(|_| !forever);
    let due_at = wait.map_or(0, |wait| billing.clock.now().plus(*wait).0);
    billing.telemetry.email(if due_at > 0 { "put_off" } else { "given_up" });
    let why: String = why.chars().take(ERROR_CHARACTERS_MAX).collect();
    tracing::warn!(email_id = email.email_id, cause = why, given_up = due_at == 0, "an e-mail could not be sent");
    billing.store.note_email(email, false, due_at, &why).await
}

/// Reads the document that is attached to a mail, if there is one.
async fn attached(billing: &Billing, email: &Email) -> Result<Result<Option<Attached>, Unsent>, store::Error> {
    if email.document_id.is_empty() {
        return Ok(Ok(None));
    }
    let missing = || Unsent { why: "the attached document cannot be read".to_owned(), forever: true };
    let Some(document) = billing.store.stored_document_of_id(&email.document_id).await? else {
        return Ok(Err(missing()));
    };
    let Some(sealed) = billing.store.document_file(&email.document_id).await? else { return Ok(Err(missing())) };
    let account = document.account_id.parse().ok();
    let pdf = account.and_then(|account| billing.seals.of(&account).open(&document.document_id, &sealed));
    let name = format!("{}-{}.pdf", document.kind, document.number);
    Ok(pdf.map(|pdf| Some(Attached { name, pdf: pdf.to_vec() })).ok_or_else(missing))
}
