//! Places where a test lets the process die, in debug builds only: `ANGO_FAIL_POINT` names the place.

/// Ends the process at once, as a power cut would, if this place is the named one.
pub fn reach(place: &str) {
    #[cfg(debug_assertions)]
    if std::env::var("ANGO_FAIL_POINT").is_ok_and(|named| named == place) {
        std::process::abort();
    }
    #[cfg(not(debug_assertions))]
    let _ = place;
}
