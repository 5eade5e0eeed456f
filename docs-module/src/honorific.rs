//! Honorifics after a name (敬称).

/// Honorifics that are recognised at the end of a name, also without a space.
const HONORIFICS: [&str; 5] = ["御中", "先生", "各位", "様", "殿"];
/// The modest honorific of a sender for its own name. 銀行 ends with the same character, so this one needs a space.
const MODEST: char = '行';

/// Returns the name without the honorific at its end, and without spaces at its end. A name that is only an honorific
/// stays as it is.
pub fn without_honorific(name: &str) -> &str {
    let name = name.trim_end();
    let modest = || name.strip_suffix(MODEST).filter(|before| ends_with_a_word_and_a_space(before));
    let before = HONORIFICS.iter().find_map(|honorific| name.strip_suffix(honorific)).or_else(modest);
    before.map(str::trim_end).filter(|before| !before.is_empty()).unwrap_or(name)
}

/// Whether an honorific ends the name.
pub fn has_honorific(name: &str) -> bool {
    without_honorific(name).len() < name.trim_end().len()
}

/// False for the letters of a name that is written with spaces between them, such as み ず ほ 銀 行.
fn ends_with_a_word_and_a_space(text: &str) -> bool {
    let word = text.split_whitespace().next_back().unwrap_or_default();
    text.ends_with(char::is_whitespace) && word.chars().count() > 1 && !word.ends_with('銀')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a9_honorifics_are_recognised_at_the_end_and_the_modest_one_after_a_space() {
        for (name, before) in [
            ("山田商事 御中", "山田商事"),
            ("山田商事御中", "山田商事"),
            ("山田太郎　様　", "山田太郎"),
            ("田中先生", "田中"),
            ("社員各位", "社員"),
            ("山田殿", "山田"),
            ("株式会社あんご 行", "株式会社あんご"),
            ("みずほ銀行　行", "みずほ銀行"),
        ] {
            assert_eq!((without_honorific(name), has_honorific(name)), (before, true), "{name}");
        }
        for name in ["みずほ銀行", "株式会社平行", "み ず ほ 銀 行", "みずほ銀 行", "行", "様", "御中", "", "山田商事"]
        {
            assert_eq!((without_honorific(name), has_honorific(name)), (name, false), "{name}");
        }
    }
}
