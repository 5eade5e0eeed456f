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
    /// Whether a route of this level admits a role (readings A5, A7).
    pub fn admits(self, role: Role) -> bool {
        match self {
            Level::Own | Level::Trial | Level::Compute | Level::Session => true,
            Level::Read => role != Role::Trial,
            Level::Write => matches!(role, Role::Developer | Role::AccountAdmin),
            Level::Billing => role == Role::AccountAdmin,
        }
    }

    /// Returns the specification's name of the level.
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

    /// Returns the roles that a route of this level admits. `mutating`: the route changes state, so that it may admit
    /// fewer roles (readings A5, A7).
    pub fn roles(self, mutating: bool) -> impl Iterator<Item = Role> {
        let admits =
            move |role: &Role| self.admits(*role) && !(self.is_closed_to_viewers(mutating) && *role == Role::Viewer);
        Role::ALL.into_iter().filter(admits).filter(move |role| self != Level::Session || *role != Role::Trial)
    }

    /// Whether a route of this level refuses viewers because the route changes state (`mutating`). Except at the levels
    /// `Own` and `Session`, a viewer may only use GET (readings A5).
    pub fn is_closed_to_viewers(self, mutating: bool) -> bool {
        mutating && !matches!(self, Level::Own | Level::Session)
    }
}
