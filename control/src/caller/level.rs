//! The role that a route demands of its caller (specification, API keys and Endpoints).

use api::Role;

/// The keys that a route admits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Any valid key, also a viewer's, for routes that concern only the key itself.
    Own,
    /// Any valid key; a viewer may only read.
    Trial,
    /// Like `Trial`, but refused to an account that has not paid (readings P18).
    Compute,
    /// The roles viewer, developer and account_admin.
    Read,
    /// The roles developer and account_admin.
    Write,
    /// The role account_admin.
    Billing,
    /// Any user with a session token; no API key (readings A8).
    Session,
}

impl Level {
    /// Whether a role reaches a route of this level (readings A5, A7).
    pub fn admits(self, role: Role) -> bool {
        match self {
            Level::Own | Level::Trial | Level::Compute | Level::Session => true,
            Level::Read => role != Role::Trial,
            Level::Write => matches!(role, Role::Developer | Role::AccountAdmin),
            Level::Billing => role == Role::AccountAdmin,
        }
    }

    /// The specification's name of the level.
    pub fn class(self) -> &'static str {
        match self {
            Level::Own => "OWN",
            Level::Trial | Level::Compute => "TRIAL+",
            Level::Read => "READ+",
            Level::Write => "WRITE+",
            Level::Billing => "BILLING+",
            Level::Session => "SESSION",
        }
    }

    /// The roles that reach a route of this level. Fewer roles reach a route that changes state (readings A5, A7).
    pub fn roles(self, mutating: bool) -> impl Iterator<Item = Role> {
        let admits =
            move |role: &Role| self.admits(*role) && !(self.is_closed_to_viewers(mutating) && *role == Role::Viewer);
        Role::ALL.into_iter().filter(admits).filter(move |role| self != Level::Session || *role != Role::Trial)
    }

    /// Whether viewers are refused: the rule that a viewer may only use GET comes before a route's level (readings A5).
    pub fn is_closed_to_viewers(self, mutating: bool) -> bool {
        mutating && !matches!(self, Level::Own | Level::Session)
    }
}
