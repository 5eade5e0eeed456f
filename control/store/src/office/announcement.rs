//! Events of payment providers about sales and returns, as they are recorded (readings B14, B15).

use api::words;

/// The state of a sale or of a return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DocumentState {
    /// Only a return of the sale was announced so far. Not a state of a return.
    Announced,
    /// The document is being made, or waits for a fuller object, or could not be made yet.
    Waiting,
    /// The key's cap is reached. The document is made when the key may spend again (readings B16).
    Held,
    /// The document is stored.
    Issued,
    /// No document can be made of the objects that came.
    NotIssued,
    /// The merchant wants no document.
    Declined,
}

words!(DocumentState, "state of a sale or of a return", {
    Announced = "announced",
    Waiting = "waiting",
    Held = "held",
    Issued = "issued",
    NotIssued = "not_issued",
    Declined = "declined",
});

impl DocumentState {
    /// Whether the document may still be made.
    pub fn is_open(self) -> bool {
        matches!(
            self,
            DocumentState::Announced | DocumentState::Waiting | DocumentState::Held | DocumentState::NotIssued
        )
    }
}

/// The consequence of an object of a sale or of a return for the document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The object makes a document.
    Issue,
    /// No document can be made of the object, for this reason.
    Refuse(String),
    /// The merchant wants no document.
    Decline,
}

/// An event about a sale or a return.
#[derive(Clone, Debug)]
pub struct Announcement {
    /// The id for the document, if the sale or the return is new.
    pub document_id: String,
    /// The owner's account.
    pub account_id: String,
    /// The key's lineage.
    pub lineage_id: String,
    /// The provider's name.
    pub provider: String,
    /// The event's type, as the provider calls it.
    pub event_type: String,
    /// The event's object, encrypted.
    pub sealed_event: Vec<u8>,
    /// The object's id. May be empty.
    pub payment_id: String,
    /// The object's consequence for the document.
    pub verdict: Verdict,
    /// Whether no fuller object can come.
    pub is_final: bool,
    /// When the document is made if no fuller object comes, in microseconds since 1970.
    pub wait_until: i64,
    /// Until when the caller has time to make the document. Afterwards another node makes the document.
    pub leased_until: i64,
    /// Now, in microseconds since 1970.
    pub received_at: i64,
}

impl Announcement {
    /// Whether the caller makes the document now.
    pub(super) fn is_ready(&self) -> bool {
        self.verdict == Verdict::Issue && (self.is_final || self.wait_until <= self.received_at)
    }

    /// When the document is due.
    pub(super) fn due_at(&self) -> i64 {
        if self.is_ready() { self.leased_until } else { self.wait_until }
    }

    /// The state of a new row.
    pub(super) fn state(&self) -> DocumentState {
        match self.verdict {
            Verdict::Issue => DocumentState::Waiting,
            Verdict::Refuse(_) => DocumentState::NotIssued,
            Verdict::Decline => DocumentState::Declined,
        }
    }

    /// Why no document can be made. Empty: a document can be made.
    pub(super) fn error(&self) -> &str {
        if let Verdict::Refuse(why) = &self.verdict { why } else { "" }
    }
}

/// An object of a sale.
#[derive(Clone, Debug)]
pub struct NewSale {
    /// The event.
    pub told: Announcement,
    /// Ids of the event and of the objects that stand for the same payment, without an invoice that is only named.
    pub names: Vec<String>,
    /// The invoice that the object names, or the object's own id if it is an invoice. May be empty.
    pub invoice_id: String,
    /// How much the object knows: 1 charge, 2 payment intent, 3 session, 4 session with lines, 5 invoice.
    pub fullness: i64,
    /// The provider's customer. May be empty.
    pub customer: String,
    /// The amount of the sale in yen.
    pub total_yen: i64,
    /// When the payment was made, in microseconds since 1970.
    pub paid_at: i64,
    /// Whether the object names a payment intent or a charge, or is one.
    pub is_intent: bool,
}

impl NewSale {
    /// Whether the object stands for the whole sale. A charge or a payment intent may be a part of an invoice.
    pub(super) fn is_whole(&self) -> bool {
        self.fullness >= WHOLE
    }
}

/// The smallest fullness of an object that stands for a whole sale.
pub(super) const WHOLE: i64 = 3;
