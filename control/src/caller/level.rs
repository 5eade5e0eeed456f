//! What a route asks of a caller's role (specification, API keys and Endpoints).

use api::Role;

/// Which keys a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Any valid key, a viewer too, for what concerns nothing but the key.
    Own,
    /// Any valid key; a viewer only to read.
    Trial,
    /// The same, for what an account that did not pay may not do (readings P18).
    Compute,
    /// viewer, developer, account_admin.
    Read,
    /// developer, account_admin.
    Write,
    /// account_admin.
    Billing,
    /// Any user who shows a session token; no key (readings A8).
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

    /// The specification's word for it.
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

    /// The roles that reach a route of this level; fewer reach one that changes something (readings A5, A7).
    pub fn roles(self, mutating: bool) -> impl Iterator<Item = Role> {
        let admits =
            move |role: &Role| self.admits(*role) && !(self.is_closed_to_viewers(mutating) && *role == Role::Viewer);
        Role::ALL.into_iter().filter(admits).filter(move |role| self != Level::Session || *role != Role::Trial)
    }

    /// The definition of a viewer, GET only, wins over what a route admits (readings A5).
    pub fn is_closed_to_viewers(self, mutating: bool) -> bool {
        mutating && !matches!(self, Level::Own | Level::Session)
    }
}
