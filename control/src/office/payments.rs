//! Makes one document for each payment that a provider announced (readings B11, B14-B16). The payment is recorded before
//! its document is made, so a document that a crash or a cap holds up is made later.

use std::time::Duration;

use api::AccountId;
use docs_module::document::{Document, yen};
use docs_module::payment_import::{self, Order, Payment, Provider};
use docs_module::reconcile::{NameKind, key};
use docs_module::request::{DeliveryMode, Profile};
use docs_module::rounding::Rounding;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::{DeliveryState, Email, IngestedPayment, OfficeCharged, PaymentState, StoredDocument};
use time::Date;

use super::Office;
use super::charge::{OfficeOperation, PayingKey};
use super::documents::new_number;
use crate::access::limits::{Period, month_start};
use crate::access::users::normal_email;
use crate::billing::mail::Letter;
use crate::resource;
use crate::web::error::ApiError;

/// Waiting time between two attempts to make a document.
const HELD_WAIT: Duration = Duration::from_secs(3600);
/// Largest number of payments that one query reads.
const AT_ONCE: i64 = 20;
/// Number of characters of an error that are stored, at most.
const ERROR_CHARACTERS_MAX: usize = 200;

/// The result of an attempt to make a payment's document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issued {
    /// The document was made and stored.
    Now,
    /// The document had been stored before.
    Before,
    /// The document is held up, because the key's cap is reached or the key's account has not paid.
    Held,
}

/// Why a transaction ended without storing the document.
enum Unkept {
    Refused(OfficeCharged),
    Before,
    Store(store::Error),
}

impl From<store::Error> for Unkept {
    fn from(error: store::Error) -> Unkept {
        Unkept::Store(error)
    }
}

/// Makes the document for a payment, with the settings of a profile.
///
/// # Errors
/// The faults of the document, each with its path from the payment object.
pub fn document_of(
    payment: &Payment,
    profile: &Profile,
    number: String,
    today: Date,
) -> Result<Document, Vec<docs_module::document::Problem>> {
    // the merchant's choice for this payment comes before the profile's
    let kind = payment.wishes.document_type.is_none().then_some(profile.kind);
    let order = Order {
        issuer: profile.issuer.clone(),
        number,
        today,
        recipient: String::new(),
        kind,
        rounding: Rounding::Floor,
        consignor: None,
        due_date: None,
        period: String::new(),
        bank: None,
        transfer_fee_note: String::new(),
        notes: String::new(),
        theme: profile.theme.clone(),
    };
    payment_import::draft_of_one(payment, order).map_err(|problem| vec![problem])?.complete()
}

impl Office {
    /// Makes the documents that are due. A payment whose document cannot be made does not hold up the others.
    pub(super) async fn issue_due(&self) -> Result<(), ApiError> {
        loop {
            let due = self.store.due_payments(self.clock.now().0, AT_ONCE).await?;
            for payment in &due {
                self.issue_or_put_off(payment).await?;
            }
            // each of these payments now has a stored document or is due later
            if (due.len() as i64) < AT_ONCE {
                return Ok(());
            }
        }
    }

    async fn issue_or_put_off(&self, payment: &IngestedPayment) -> Result<(), ApiError> {
        if let Err(error) = self.issue(payment).await {
            let why: String = error.message.chars().take(ERROR_CHARACTERS_MAX).collect();
            tracing::warn!(
                document_id = payment.document_id,
                cause = why,
                "the document of a payment could not be made and will be tried again"
            );
            let due_at = self.clock.now().plus(HELD_WAIT).0;
            self.store.put_payment_off(&payment.document_id, PaymentState::Waiting, due_at, &why).await?;
        }
        Ok(())
    }

    /// Makes the document of a payment, and stores the document and its e-mail.
    pub(super) async fn issue(&self, ingested: &IngestedPayment) -> Result<Issued, ApiError> {
        let IngestedPayment { document_id, account_id, lineage_id, sealed_event, .. } = ingested;
        let account: AccountId = account_id.parse().map_err(ApiError::internal)?;
        let seal = self.seals.of(&account);
        let object = seal.open(document_id, sealed_event);
        let object = object.ok_or_else(|| ApiError::internal("an event was sealed under another secret"))?;
        let record = self.store.issuer_profile(lineage_id).await?;
        let record = record.ok_or_else(|| ApiError::internal("a recorded payment has no profile"))?;
        let standing = self.store.account_standing(account_id).await?;
        let standing = standing.ok_or_else(|| ApiError::internal("a recorded payment has no account"))?;
        if standing.is_suspended {
            return self.hold(ingested, "the account has not paid").await;
        }
        let now = self.clock.now();
        let (profile, today, number) = (self.opened_profile(&record)?.profile, self.today(), new_number(now));
        let made = self.web.offload.finish(resource::Payer::account(account.clone()), move || {
            let object: Value = serde_json::from_slice(&object).map_err(|error| error.to_string())?;
            let payment = payment_import::read(Provider::Stripe, &object, profile.default_rate);
            let payment = payment.map_err(|problem| problem.message)?;
            let document =
                document_of(&payment, &profile, number, today).map_err(|problems| format!("{problems:?}"))?;
            let pdf = document.pdf();
            Ok((payment, document, profile, pdf))
        });
        let (payment, document, profile, pdf) = made.await?.map_err(|why: String| ApiError::internal(why))?;
        let (delivery_status, email) = self.delivery(&profile, &payment, &document, document_id);
        let stored = StoredDocument {
            payment_id: payment.id.clone(),
            transaction_date: payment.date.unwrap_or(today).to_string(),
            delivery_status,
            ..self.record_of(&document, (account_id.clone(), lineage_id.clone()), document_id, &pdf)
        };
        let payer = PayingKey {
            account_id: account_id.clone(),
            lineage_id: lineage_id.clone(),
            plan: standing.plan,
            environment: record.environment,
        };
        let charge = self.charge(&payer, OfficeOperation::Document, 1, now);
        let sealed_pdf = seal.seal(document_id, &pdf);
        let kept = self
            .store
            .write(async |tx| {
                if !tx.finish_payment(document_id).await? {
                    return Err(Unkept::Before);
                }
                match tx.charge_office(&charge).await? {
                    OfficeCharged::Made => {}
                    refused => return Err(Unkept::Refused(refused)),
                }
                tx.insert_document(&stored, &sealed_pdf).await?;
                match &email {
                    Some(email) => Ok(tx.write_email(email).await?),
                    None => Ok(()),
                }
            })
            .await;
        match kept {
            Ok(()) => Ok(Issued::Now),
            Err(Unkept::Before) => Ok(Issued::Before),
            Err(Unkept::Store(error)) => Err(error.into()),
            Err(Unkept::Refused(refused)) => {
                let why = self.refusal(refused).map_or_else(String::new, |error| error.message);
                self.hold(ingested, &why).await
            }
        }
    }

    /// Puts a payment off for an hour, or until the next month if the month begins earlier. If the key gets a new cap,
    /// the payment is due at once.
    async fn hold(&self, ingested: &IngestedPayment, why: &str) -> Result<Issued, ApiError> {
        let now = self.clock.now();
        let due_at = now.plus(HELD_WAIT).min(month_start(Period::of(now).month + 1));
        self.store.put_payment_off(&ingested.document_id, PaymentState::Held, due_at.0, why).await?;
        Ok(Issued::Held)
    }

    /// Makes the record of a document for this account and lineage. The record's fields about a payment are empty.
    pub(super) fn record_of(
        &self,
        document: &Document,
        (account_id, lineage_id): (String, String),
        document_id: &str,
        pdf: &[u8],
    ) -> StoredDocument {
        let draft = &document.draft;
        StoredDocument {
            document_id: document_id.to_owned(),
            account_id,
            lineage_id,
            number: draft.number.clone(),
            kind: draft.kind.name().to_owned(),
            recipient: draft.recipient.clone(),
            recipient_key: key(NameKind::Text, &draft.recipient),
            total_yen: document.totals.total.gross,
            issue_date: draft.issue_date.to_string(),
            transaction_date: draft.issue_date.to_string(),
            payment_id: String::new(),
            original_id: String::new(),
            pdf_sha256: hex::encode(Sha256::digest(pdf)),
            delivery_status: DeliveryState::Stored,
            created_at: self.clock.now().0,
        }
    }

    /// Returns the delivery status of a document, and the e-mail to send, if the document is sent by e-mail (readings
    /// B11).
    fn delivery(
        &self,
        profile: &Profile,
        payment: &Payment,
        document: &Document,
        document_id: &str,
    ) -> (DeliveryState, Option<Email>) {
        if profile.delivery_mode == DeliveryMode::Store {
            return (DeliveryState::Stored, None);
        }
        let buyer = payment.email.as_deref().and_then(normal_email).filter(|_| self.sends_mail);
        let Some(buyer) = buyer else { return (DeliveryState::NotSent, None) };
        let copy = normal_email(&profile.delivery_email).map(|copy| format!(",{copy}")).unwrap_or_default();
        let now = self.clock.now();
        let letter = Letter { recipient: format!("{buyer}{copy}"), subject: subject(document), body: text(document) };
        (DeliveryState::Pending, Some(letter.into_email(&self.seals, document_id, now)))
    }
}

/// Makes the subject of the e-mail with a document. Line breaks become spaces, because a line break would begin another
/// header.
fn subject(document: &Document) -> String {
    let draft = &document.draft;
    let subject = format!("{} {}（{}）", draft.kind.title(), draft.number, draft.issuer.name);
    subject.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// Makes the text of the e-mail with a document.
fn text(document: &Document) -> String {
    let draft = &document.draft;
    let to =
        if draft.recipient.is_empty() { String::new() } else { format!("{} {}\n\n", draft.recipient, draft.honorific) };
    format!(
        "{to}お支払いいただき、ありがとうございます。\n{}（番号 {}、合計 {}・税込）をお送りします。添付のPDFをご確認ください。\n\n{}\n登録番号 {}\n\n\
         このメールは自動で送信しています。\n",
        draft.kind.title(),
        draft.number,
        yen(document.totals.total.gross),
        draft.issuer.name,
        draft.issuer.registration_number,
    )
}
