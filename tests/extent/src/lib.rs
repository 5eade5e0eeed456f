//! How much the suites do. `TEST_EXTENT` is `full` in `.ci/run` and `soak` in `scripts/soak`. Without it, a suite that
//! repeats its checks repeats them less: fewer presets, emulated cards, databases, requests and deaths.

/// How much a suite does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Extent {
    /// What shows most faults in minutes: `cargo test`.
    Short,
    /// Everything that a merge needs: `.ci/run`.
    Full,
    /// Measurements that take long: `scripts/soak`.
    Soak,
}

impl Extent {
    /// The extent that the environment names.
    ///
    /// # Panics
    /// When `TEST_EXTENT` has another value.
    pub fn named() -> Extent {
        match std::env::var("TEST_EXTENT").as_deref() {
            Err(_) | Ok("") => Extent::Short,
            Ok("full") => Extent::Full,
            Ok("soak") => Extent::Soak,
            Ok(other) => panic!("TEST_EXTENT is full or soak, not {other}"),
        }
    }

    /// Whether a suite does everything that a merge needs.
    pub fn is_full(self) -> bool {
        self >= Extent::Full
    }
}

/// `full` if the suites do everything, else `short`.
pub fn pick<T>(short: T, full: T) -> T {
    if Extent::named().is_full() { full } else { short }
}

/// Whether a short run leaves this part out; prints a line then.
pub fn leaves_out(part: &str) -> bool {
    let leaves_out = !Extent::named().is_full();
    if leaves_out {
        println!("not tested: {part}; TEST_EXTENT=full tests it");
    }
    leaves_out
}
