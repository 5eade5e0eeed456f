//! The caller of a request: account, environment, role and plan, and the credential.

mod level;
mod plan;

use api::{AccountId, KeyId, LineageId, SignInId, UserId};
use axum::http::Extensions;

use crate::clock::Timestamp;
use crate::resource::Payer;

pub use api::{Environment, Plan, Role};
pub use level::Level;
pub use plan::{PlanLimits, PlanTable, UNLIMITED};

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The account, which owns everything that the request may use.
    pub account: AccountId,
    /// The key's environment; live for a session token.
    pub environment: Environment,
    /// Role of the key or of the user.
    pub role: Role,
    /// Plan of the account.
    pub plan: Plan,
    /// Whether the account has not paid, so that its keys may not compute (readings P18). False for session tokens.
    pub is_suspended: bool,
    /// The credential of the request.
    pub credential: Credential,
}

/// The credential that a caller sent.
#[derive(Clone, Debug)]
pub enum Credential {
    /// An API key.
    Key {
        /// The id of the key's record.
        key_id: KeyId,
        /// The key's lineage, shared with its rotated successors (readings A19).
        lineage_id: LineageId,
    },
    /// A session token of the dashboard (readings A9).
    Token {
        /// The user's id.
        user_id: UserId,
        /// The sign-in to which the token belongs. `None` for tokens of an external issuer.
        sign_in_id: Option<SignInId>,
        /// Digest of the token's id.
        id: [u8; 32],
        /// When the token expires.
        ends: Timestamp,
    },
}

impl Credential {
    /// Returns the part of the credential that stays the same when a key is rotated or a token refreshed: the key's
    /// lineage, or the user.
    pub fn lasting_id(&self) -> &str {
        match self {
            Credential::Key { lineage_id, .. } => lineage_id.as_str(),
            Credential::Token { user_id, .. } => user_id.as_str(),
        }
    }
}

impl From<&Caller> for Payer {
    fn from(caller: &Caller) -> Payer {
        let account = caller.account.clone();
        if caller.plan == Plan::Trial { Payer::trial(account) } else { Payer::account(account) }
    }
}

/// Returns the payer of a request's memory and cores. Until the credential is checked, the payer is a caller without a
/// key.
pub fn payer(extensions: &Extensions) -> Payer {
    extensions.get::<Caller>().map_or_else(Payer::without_key, Payer::from)
}
