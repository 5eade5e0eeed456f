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
    /// Owner of everything the request may touch.
    pub account: AccountId,
    /// Environment of the key; live for a session token.
    pub environment: Environment,
    /// Role of the key or of the user.
    pub role: Role,
    /// Plan of the account.
    pub plan: Plan,
    /// The account did not pay: a key of it computes nothing (readings P18). Session tokens do not say it.
    pub is_suspended: bool,
    /// What they showed.
    pub credential: Credential,
}

/// What a caller showed to be let in.
#[derive(Clone, Debug)]
pub enum Credential {
    /// An API key.
    Key {
        /// Its record's id.
        key_id: KeyId,
        /// What it shares with its rotated successors (readings A19).
        lineage_id: LineageId,
    },
    /// A session token of the dashboard (readings A9).
    Token {
        /// The user.
        user_id: UserId,
        /// The sign-in it belongs to; none for tokens of an external issuer.
        sign_in_id: Option<SignInId>,
        /// Digest of what names the token.
        id: [u8; 32],
        /// When it ends by itself.
        ends: Timestamp,
    },
}

impl Credential {
    /// What stays the same when a key is rotated or a token refreshed: the key's lineage, or the user.
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

/// On whose behalf a request uses memory and cores, as far as its credential was checked.
pub fn payer(extensions: &Extensions) -> Payer {
    extensions.get::<Caller>().map_or_else(Payer::without_key, Payer::from)
}
