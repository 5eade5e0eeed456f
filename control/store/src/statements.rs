//! The statements that this process has run, for tests of their query plans. Only in debug builds: a release keeps no
//! list.

#[cfg(debug_assertions)]
static SEEN: std::sync::Mutex<std::collections::BTreeSet<(&str, &str)>> =
    std::sync::Mutex::new(std::collections::BTreeSet::new());

/// Returns all statements that this process has run so far, in their forms for SQLite and for PostgreSQL.
#[cfg(debug_assertions)]
pub fn seen() -> Vec<(&'static str, &'static str)> {
    SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).iter().copied().collect()
}

/// Adds a statement to the list, in its forms for SQLite and for PostgreSQL.
pub(crate) fn note(sqlite: &'static str, postgres: &'static str) {
    #[cfg(debug_assertions)]
    SEEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner).insert((sqlite, postgres));
    #[cfg(not(debug_assertions))]
    let _ = (sqlite, postgres);
}
