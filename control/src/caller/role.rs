//! Roles, environments, and what a route asks for (specification, API keys and Endpoints).

/// What a key may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Role {
    /// Reads: GET only.
    Viewer,
    /// Runs compute, manages keys and webhooks.
    Developer,
    /// Everything, billing too.
    AccountAdmin,
    /// A trial key's role.
    Trial,
}

impl Role {
    const ALL: [Role; 4] = [Role::Viewer, Role::Developer, Role::AccountAdmin, Role::Trial];

    /// The specification's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Viewer => "viewer",
            Role::Developer => "developer",
            Role::AccountAdmin => "account_admin",
            Role::Trial => "trial",
        }
    }

    /// The role of this word.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// Whether the role reaches a route of this level (readings A5, A7).
    pub fn permits(self, level: Level) -> bool {
        match level {
            Level::Own | Level::Trial | Level::Session => true,
            Level::Read => self != Role::Trial,
            Level::Write => matches!(self, Role::Developer | Role::AccountAdmin),
            Level::Billing => self == Role::AccountAdmin,
        }
    }
}

impl Level {
    /// The specification's word for it.
    pub fn class(self) -> &'static str {
        match self {
            Level::Own => "OWN",
            Level::Trial => "TRIAL+",
            Level::Read => "READ+",
            Level::Write => "WRITE+",
            Level::Billing => "BILLING+",
            Level::Session => "SESSION",
        }
    }

    /// The roles that reach a route of this level; fewer reach one that changes something (readings A5, A7).
    pub fn roles(self, mutating: bool) -> impl Iterator<Item = Role> {
        let permits =
            move |role: &Role| role.permits(self) && !(self.is_closed_to_viewers(mutating) && *role == Role::Viewer);
        Role::ALL.into_iter().filter(permits).filter(move |role| self != Level::Session || *role != Role::Trial)
    }

    /// The definition of a viewer, GET only, wins over what a route admits (readings A5).
    pub fn is_closed_to_viewers(self, mutating: bool) -> bool {
        mutating && !matches!(self, Level::Own | Level::Session)
    }
}

/// Which keys a route takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Any valid key, a viewer too, for what concerns nothing but the key.
    Own,
    /// Any valid key; a viewer only to read.
    Trial,
    /// viewer, developer, account_admin.
    Read,
    /// developer, account_admin.
    Write,
    /// account_admin.
    Billing,
    /// Any user who shows a session token; no key (readings A8).
    Session,
}

/// What a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Environment {
    /// Real billing.
    #[value(alias = "production")]
    Live,
    /// No payments; for CI.
    #[value(alias = "sandbox")]
    Test,
    /// Internal use.
    #[value(alias = "development")]
    Dev,
    /// Half an hour for everybody.
    Trial,
}

impl Environment {
    /// All environments.
    pub const ALL: [Environment; 4] = [Environment::Live, Environment::Test, Environment::Dev, Environment::Trial];

    /// The specification's word.
    pub fn as_str(self) -> &'static str {
        match self {
            Environment::Live => "live",
            Environment::Test => "test",
            Environment::Dev => "dev",
            Environment::Trial => "trial",
        }
    }

    /// The environment of this word.
    pub fn from_name(name: &str) -> Option<Environment> {
        Environment::ALL.into_iter().find(|environment| environment.as_str() == name)
    }

    /// What its keys start with.
    pub fn key_prefix(self) -> &'static str {
        match self {
            Environment::Live => "svc_live_",
            Environment::Test => "svc_test_",
            Environment::Dev => "svc_dev_",
            Environment::Trial => "svc_trial_",
        }
    }
}
