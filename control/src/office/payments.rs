//! Makes one document for each sale and each return that a provider announced (readings B11, B14-B16). The sale is
//! recorded before its document is made, so a document that a crash or a cap holds up is made later.

use std::time::Duration;

use api::AccountId;
use docs_module::document::{Document, Draft, Problem, Step, yen};
use docs_module::payment_import::{self, Announced, Fullness, Order, Payment, Provider, Return, Sale};
use docs_module::reconcile::{NameKind, key};
use docs_module::request::{DeliveryMode, Profile};
use docs_module::tax::consumption::Rate;
use serde_json::Value;
use sha2::{Digest, Sha256};
use store::{DeliveryState, DocumentState, DueDocument, Email, OfficeCharged, StoredDocument};
use time::Date;

use super::charge::{OfficeOperation, PayingKey};
use super::corrections::issuer_of;
use super::documents::new_number;
use super::{Office, today};
use crate::access::limits::{Period, month_start};
use crate::access::users::normal_email;
use crate::billing::mail::Letter;
use crate::clock::Timestamp;
use crate::resource;
use crate::web::error::ApiError;

/// Waiting time between two attempts to make a document.
const HELD_WAIT: Duration = Duration::from_secs(3600);
/// Largest number of payments that one query reads.
const AT_ONCE: i64 = 20;
/// Largest number of attempts to make a document while further objects of its sale come.
const ATTEMPTS_MAX: usize = 5;
/// Number of characters of an error that are stored, at most.
const ERROR_CHARACTERS_MAX: usize = 200;

/// The result of an attempt to make a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issued {
    /// The document was made and stored.
    Now,
    /// The document had been stored before.
    Before,
    /// The document is held up, because the key's cap is reached or the key's account has not paid.
    Held,
    /// The document of a return waits for the document of its sale.
    Waits,
    /// The merchant wanted no document for the sale of this return.
    Declined,
    /// No document can be made, for this reason.
    Never(String),
}

/// Why no document came about.
enum Unmade {
    /// No document can be made of what came so far.
    Never(String),
    /// The attempt failed and may succeed later.
    Failed(ApiError),
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

/// The sale of a return.
enum SaleOfReturn {
    /// The sale, as its document says it, or as the charge says it that was given back.
    Told(Box<Sale>),
    /// No event told enough of the sale.
    Unknown,
    /// The document of the sale is not made yet.
    Waits,
    /// The merchant wants no document for the sale.
    Declined,
}

/// A document that is to be stored, with what its record says beside the document.
struct Made {
    document: Document,
    pdf: Vec<u8>,
    payment_id: String,
    day: Date,
    email: Option<String>,
    original_id: String,
    warnings: Vec<String>,
    /// The facts of the sale's document that a return needs.
    sale: Vec<u8>,
}

/// The name under which the events of a key are sealed.
pub(super) fn event_name(lineage_id: &str) -> String {
    format!("{lineage_id} event")
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
) -> Result<Document, Vec<Problem>> {
    // the merchant's choice for this payment comes before the profile's
    let kind = payment.wishes.document_type.is_none().then_some(profile.kind);
    let order = Order { kind, ..order(profile, number, today) };
    payment_import::draft_of_one(payment, order).map_err(|problem| vec![problem])?.complete()
}

fn order(profile: &Profile, number: String, today: Date) -> Order {
    let (theme, receipt_proviso) = (profile.theme.clone(), profile.proviso.clone());
    Order { theme, receipt_proviso, ..Order::new(profile.issuer.clone(), number, today) }
}

/// Makes the document of a sale.
fn sale_of(payment: Payment, profile: &Profile, number: String, today: Date) -> Result<Made, String> {
    let payment = payment.without_refunds();
    let document = document_of(&payment, profile, number, today).map_err(|problems| reason(&problems))?;
    let mut warnings = warnings_of(&document);
    warnings.extend(payment.warnings.iter().cloned());
    if let Some(invoice_id) = payment.invoice_id.as_ref().filter(|_| payment.fullness < Fullness::Invoice) {
        warnings.push(format!(
            "the payment names the invoice {invoice_id}, whose event did not come: send invoice.paid too, because only \
             the invoice says what was sold"
        ));
    }
    Ok(Made {
        pdf: document.pdf(),
        day: payment.date.unwrap_or(today),
        email: payment.email.clone(),
        original_id: String::new(),
        warnings,
        sale: Sale::of(&document, &payment).to_bytes(),
        payment_id: payment.id,
        document,
    })
}

/// Makes the document of `yen` of a return.
fn return_of(returned: &Return, yen: i64, sale: Option<&Sale>, sale_id: &str, order: Order) -> Result<Made, String> {
    let today = order.today;
    let draft = payment_import::draft_of_return(returned, yen, sale, order);
    let document = draft.map_err(|problem| vec![problem]).and_then(Draft::complete);
    let document = document.map_err(|problems| reason(&problems))?;
    let mut warnings = warnings_of(&document);
    warnings.extend(returned.warnings.iter().cloned());
    let documented = sale.filter(|sale| !sale.number.is_empty());
    if documented.is_none() {
        warnings.push("the document of the sale is not known here, so this document does not name it".to_owned());
    }
    Ok(Made {
        pdf: document.pdf(),
        payment_id: returned.id.clone(),
        day: returned.date.unwrap_or(today),
        email: sale.and_then(|sale| sale.email.clone()),
        original_id: documented.map(|_| sale_id.to_owned()).unwrap_or_default(),
        warnings,
        sale: Vec::new(),
        document,
    })
}

fn warnings_of(document: &Document) -> Vec<String> {
    document.warnings.iter().map(ToString::to_string).collect()
}

impl Office {
    /// Makes the documents that are due. A document that cannot be made does not hold up the others.
    pub(super) async fn issue_due(&self) -> Result<(), ApiError> {
        loop {
            let due = self.store.due_documents(self.clock.now().0, AT_ONCE).await?;
            for document in &due {
                self.issue_or_put_off(document).await?;
            }
            // each of these documents now is stored or is due later
            if (due.len() as i64) < AT_ONCE {
                return Ok(());
            }
        }
    }

    async fn issue_or_put_off(&self, due: &DueDocument) -> Result<(), ApiError> {
        if let Err(error) = self.issue(&due.document_id).await {
            let why: String = error.message.chars().take(ERROR_CHARACTERS_MAX).collect();
            tracing::warn!(
                document_id = due.document_id,
                cause = why,
                "the document of a payment could not be made and will be tried again"
            );
            let due_at = self.clock.now().plus(HELD_WAIT).0;
            self.store.put_document_off(due, DocumentState::Waiting, due_at, &why).await?;
        }
        Ok(())
    }

    /// Makes the document of a sale or a return, and stores the document and its e-mail.
    pub(super) async fn issue(&self, document_id: &str) -> Result<Issued, ApiError> {
        // a fuller object may come while the document is made
        for _ in 0..ATTEMPTS_MAX {
            let Some(due) = self.store.due_document(document_id).await? else { return Ok(Issued::Before) };
            if let Some(issued) = self.issue_revision(&due).await? {
                return Ok(issued);
            }
        }
        // objects come faster than documents are made, so the job makes the document later
        Ok(Issued::Waits)
    }

    /// `None`: another object came meanwhile, or the document of the sale of a return.
    async fn issue_revision(&self, due: &DueDocument) -> Result<Option<Issued>, ApiError> {
        let DueDocument { document_id, account_id, lineage_id, .. } = due;
        let account: AccountId = account_id.parse().map_err(ApiError::internal)?;
        let record = self.store.issuer_profile(lineage_id).await?;
        let record = record.ok_or_else(|| ApiError::internal("a recorded payment has no profile"))?;
        let standing = self.store.account_standing(account_id).await?;
        let standing = standing.ok_or_else(|| ApiError::internal("a recorded payment has no account"))?;
        if standing.is_suspended {
            return self.hold(due, "the account has not paid").await.map(Some);
        }
        let sale = match self.sale_of_return(due, &account).await? {
            SaleOfReturn::Told(sale) => Some(*sale),
            SaleOfReturn::Unknown => None,
            SaleOfReturn::Waits => {
                let due_at = self.clock.now().plus(HELD_WAIT).0;
                let why = "the document of the sale is not made yet";
                let is_off = self.store.put_document_off(due, DocumentState::Waiting, due_at, why).await?;
                return Ok(is_off.then_some(Issued::Waits));
            }
            SaleOfReturn::Declined => {
                self.store.put_document_off(due, DocumentState::Declined, i64::MAX, "").await?;
                return Ok(Some(Issued::Declined));
            }
        };
        let now = self.clock.now();
        let profile = self.opened_profile(&record)?.profile;
        let made = match self.make(due, &account, profile.clone(), sale).await {
            Ok(made) => made,
            Err(Unmade::Failed(error)) => return Err(error),
            Err(Unmade::Never(why)) => {
                tracing::warn!(document_id, cause = why, "no document can be made of a payment");
                let is_off = self.store.put_document_off(due, DocumentState::NotIssued, i64::MAX, &why).await?;
                return Ok(is_off.then_some(Issued::Never(why)));
            }
        };
        let (delivery_status, email) = self.delivery(&profile, made.email.as_deref(), &made.document, document_id);
        let stored = StoredDocument {
            payment_id: made.payment_id,
            transaction_date: made.day.to_string(),
            original_id: made.original_id,
            delivery_status,
            warnings: serde_json::to_string(&made.warnings).map_err(ApiError::internal)?,
            ..self.record_of(&made.document, (account_id.clone(), lineage_id.clone()), document_id, &made.pdf)
        };
        let issuer = issuer_of(&made.document, document_id);
        let payer = PayingKey {
            account_id: account_id.clone(),
            lineage_id: lineage_id.clone(),
            plan: standing.plan,
            environment: record.environment,
        };
        let charge = self.charge(&payer, OfficeOperation::Document, 1, now);
        let seal = self.seals.of(&account);
        let (sealed_pdf, sealed_sale) = (seal.seal(document_id, &made.pdf), seal.seal(document_id, &made.sale));
        let kept = self
            .store
            .write(async |tx| {
                if !tx.finish_document(due, &sealed_sale, now.0).await? {
                    return Err(Unkept::Before);
                }
                match tx.charge_office(&charge).await? {
                    OfficeCharged::Made => {}
                    refused => return Err(Unkept::Refused(refused)),
                }
                tx.insert_document(&stored, &sealed_pdf).await?;
                tx.insert_document_issuer(&issuer).await?;
                match &email {
                    Some(email) => Ok(tx.write_email(email).await?),
                    None => Ok(()),
                }
            })
            .await;
        match kept {
            Ok(()) => Ok(Some(Issued::Now)),
            Err(Unkept::Before) => Ok(None),
            Err(Unkept::Store(error)) => Err(error.into()),
            Err(Unkept::Refused(refused)) => {
                let why = self.refusal(refused).map_or_else(String::new, |error| error.message);
                self.hold(due, &why).await.map(Some)
            }
        }
    }

    /// Finds what the document of a return's sale says.
    async fn sale_of_return(&self, due: &DueDocument, account: &AccountId) -> Result<SaleOfReturn, ApiError> {
        if due.sale_id.is_empty() {
            return Ok(SaleOfReturn::Unknown);
        }
        let Some(sale) = self.store.sale_of_return(&due.sale_id).await? else { return Ok(SaleOfReturn::Unknown) };
        let seal = self.seals.of(account);
        Ok(match sale.state {
            DocumentState::Waiting | DocumentState::Held => SaleOfReturn::Waits,
            DocumentState::Declined => SaleOfReturn::Declined,
            // a document of an earlier release did not keep its lines
            DocumentState::Issued => match sale.sealed_sale {
                Some(sealed) => {
                    let opened = seal.open(&due.sale_id, &sealed).and_then(|bytes| Sale::read(&bytes));
                    let sale = opened.ok_or_else(|| ApiError::internal("a sale was sealed under another secret"))?;
                    SaleOfReturn::Told(Box::new(sale))
                }
                None => SaleOfReturn::Unknown,
            },
            DocumentState::NotIssued => SaleOfReturn::Unknown,
            DocumentState::Announced => {
                let sealed = sale.sealed_event.unwrap_or_default();
                let object = seal.open(event_name(&due.lineage_id), &sealed);
                let object: Option<Value> = object.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                let provider = Provider::of_name(&sale.provider).unwrap_or_default();
                let told = object.map(|it| payment_import::announced(provider, &sale.event_type, &it, Rate::Standard));
                match told {
                    Some(Ok(Announced::Return(Return { sale: Some(sale), .. }))) => SaleOfReturn::Told(Box::new(sale)),
                    _ => SaleOfReturn::Unknown,
                }
            }
        })
    }

    /// Makes the document of the object that a row holds.
    async fn make(
        &self,
        due: &DueDocument,
        account: &AccountId,
        profile: Profile,
        sale: Option<Sale>,
    ) -> Result<Made, Unmade> {
        let seal = self.seals.of(account);
        let object = seal.open(event_name(&due.lineage_id), &due.sealed_event);
        // an event of an earlier release was sealed under the document's id
        let object = object.or_else(|| seal.open(&due.document_id, &due.sealed_event));
        let object = object.ok_or_else(|| ApiError::internal("an event was sealed under another secret"));
        let object = object.map_err(Unmade::Failed)?;
        // an object without a time has the day on which its event came
        let day = today(Timestamp(due.received_at));
        let number = new_number(self.clock.now());
        let provider = Provider::of_name(&due.provider).unwrap_or_default();
        let (kind, sale_id, yen) = (due.event_type.clone(), due.sale_id.clone(), due.yen);
        let made = self.web.offload.finish(resource::Payer::account(account.clone()), move || {
            let object: Value = serde_json::from_slice(&object).map_err(|error| error.to_string())?;
            let announced = payment_import::announced(provider, &kind, &object, profile.default_rate);
            match announced.map_err(|problem| reason(&[problem]))? {
                Announced::Sale(payment) => sale_of(payment, &profile, number, day),
                Announced::Return(returned) => {
                    let order = order(&profile, number, day);
                    return_of(&returned, yen, sale.as_ref(), &sale_id, order)
                }
            }
        });
        made.await.map_err(Unmade::Failed)?.map_err(Unmade::Never)
    }

    /// Puts a document off for an hour, or until the next month if the month begins earlier. If the key gets a new cap,
    /// the document is due at once.
    async fn hold(&self, due: &DueDocument, why: &str) -> Result<Issued, ApiError> {
        let now = self.clock.now();
        let due_at = now.plus(HELD_WAIT).min(month_start(Period::of(now).month + 1));
        self.store.put_document_off(due, DocumentState::Held, due_at.0, why).await?;
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
            warnings: serde_json::to_string(&warnings_of(document)).expect("texts become JSON"),
            created_at: self.clock.now().0,
        }
    }

    /// Returns the delivery status of a document, and the e-mail to send, if the document is sent by e-mail (readings
    /// B11).
    fn delivery(
        &self,
        profile: &Profile,
        email: Option<&str>,
        document: &Document,
        document_id: &str,
    ) -> (DeliveryState, Option<Email>) {
        if profile.delivery_mode == DeliveryMode::Store {
            return (DeliveryState::Stored, None);
        }
        let buyer = email.and_then(normal_email).filter(|_| self.sends_mail);
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

/// Says in one line why no document can be made: each fault with its path in the object.
pub fn reason(problems: &[Problem]) -> String {
    let path = |problem: &Problem| {
        let steps = problem.at.iter().map(|step| match step {
            Step::Field(name) => (*name).to_owned(),
            Step::Index(at) => at.to_string(),
        });
        steps.collect::<Vec<_>>().join(".")
    };
    let fault = |problem: &Problem| match path(problem) {
        path if path.is_empty() => problem.message.clone(),
        path => format!("{path} {}", problem.message),
    };
    problems.iter().map(fault).collect::<Vec<_>>().join("; ")
}
