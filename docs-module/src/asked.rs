//! Records which members the readers of this thread look up, so that tests can compare them with the description of a
//! body.

use std::cell::RefCell;
use std::collections::BTreeSet;

thread_local! {
    static ASKED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Notes that a reader looked up a member. `way`: the names on the path to the member; `[]` stands for any index of a
/// list.
pub fn note(way: impl Iterator<Item = String>, name: &str) {
    let way: String = way.map(|step| if step == "[]" { step } else { format!(".{step}") }).collect();
    ASKED.with_borrow_mut(|asked| asked.insert(format!("{way}.{name}").trim_start_matches('.').to_owned()));
}

/// Returns the members that were looked up since the last call, and forgets them.
pub fn take() -> BTreeSet<String> {
    ASKED.take()
}
