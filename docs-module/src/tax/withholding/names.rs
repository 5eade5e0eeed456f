//! Names of categories, and the callers' words for remunerations: single fees and occupations. A statutory form shows
//! the word (区分), because the tax office asks what was paid for.

use unicode_normalization::UnicodeNormalization;

use super::Category::{self, *};

/// Largest number of characters of a word on form 309.
pub const WORD_MAX: usize = 10;
/// Endings that a caller may write behind an occupation: 税理士報酬, サッカー選手の報酬.
const ENDINGS: [&str; 6] = ["", "報酬", "の報酬", "選手", "選手報酬", "選手の報酬"];

/// Words of a category that get the same ending on a form. Fees have no ending.
type Words = (&'static str, &'static [&'static str]);

/// Each category with its name, the form's word if the caller says no more than this name, and further words.
const NAMES: [(Category, &str, &str, &[Words]); 13] = [
    (
        Manuscript,
        "原稿料等",
        "原稿料",
        &[(
            "",
            &[
                "原稿料",
                "印税",
                "挿絵料",
                "さし絵料",
                "作曲料",
                "デザイン料",
                "放送謝金",
                "著作権使用料",
                "工業所有権使用料",
                "講演料",
                "脚本料",
                "翻訳料",
                "通訳料",
                "校正料",
                "装丁料",
                "速記料",
                "版下料",
                "写真料",
                "教授料",
                "指導料",
                "投資助言料",
            ],
        )],
    ),
    (
        Professional,
        "弁護士等",
        "弁護士等報酬",
        &[(
            "報酬",
            &[
                "弁護士",
                "外国法事務弁護士",
                "公認会計士",
                "会計士",
                "税理士",
                "社会保険労務士",
                "弁理士",
                "測量士",
                "建築士",
                "不動産鑑定士",
                "技術士",
                "計理士",
                "企業診断員",
                "中小企業診断士",
                "経営コンサルタント",
                "建築代理士",
                "火災損害鑑定人",
                "自動車等損害鑑定人",
            ],
        )],
    ),
    (Scrivener, "司法書士等", "司法書士等報酬", &[("報酬", &["司法書士", "土地家屋調査士", "海事代理士"])]),
    (Medical, "診療報酬", "診療報酬", &[]),
    (
        Athlete,
        "プロスポーツ選手等",
        "プロスポーツ選手報酬",
        &[
            (
                "選手報酬",
                &[
                    "職業野球",
                    "サッカー",
                    "テニス",
                    "レスリング",
                    "ゴルフ",
                    "ボウリング",
                    "自動車レース",
                    "競輪",
                    "オート",
                    "競艇",
                ],
            ),
            ("報酬", &["プロスポーツ選手", "騎手", "モデル"]),
        ],
    ),
    (Boxer, "プロボクサー", "プロボクサー報酬", &[("報酬", &["職業拳闘家"])]),
    (Salesperson, "外交員等", "外交員等報酬", &[("報酬", &["外交員", "集金人", "電力量計の検針人"])]),
    (
        Performance,
        "芸能等",
        "芸能等報酬",
        &[("", &["出演料", "演出料"]), ("報酬", &["俳優", "歌手", "監督", "芸能プロ"])],
    ),
    (Hostess, "ホステス等", "ホステス等報酬", &[("報酬", &["ホステス", "バンケットホステス", "コンパニオン"])]),
    (ContractFee, "契約金", "契約金", &[("", &["専属契約金", "技術者の契約金"])]),
    (Prize, "広告宣伝賞金", "広告宣伝賞金", &[("", &["懸賞金"])]),
    (HorseRacePrize, "競馬賞金", "競馬賞金", &[("", &["馬主の賞金"])]),
    (Outside, "対象外", "対象外", &[("", &["行政書士", "要約筆記", "手話通訳", "物品", "賃料"])]),
];

/// A remuneration as a caller named it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remuneration {
    /// The category, which decides the tax.
    pub category: Category,
    /// The caller's word as form 309 shows it (区分): 講演料, 税理士報酬. At most [`WORD_MAX`] characters.
    pub word: String,
}

impl Default for Remuneration {
    fn default() -> Remuneration {
        Remuneration { category: Manuscript, word: "原稿料".to_owned() }
    }
}

impl Remuneration {
    /// Reads a category's name, a fee or an occupation. Width and spaces do not matter.
    pub fn of_name(name: &str) -> Option<Remuneration> {
        let plain: String = name.nfkc().filter(|character| !character.is_whitespace()).collect();
        NAMES.iter().find_map(|(category, name, default, words)| {
            let word = if plain == *name || plain == *default {
                Some((*default).to_owned())
            } else {
                words.iter().find_map(|words| form_word(*category, *words, &plain))
            };
            word.map(|word| Remuneration { category: *category, word })
        })
    }
}

/// Returns the form's word for `plain`, if `plain` is one of these words: with or without an ending, and for assistants
/// of the professions with 補.
fn form_word(category: Category, (ending, words): Words, plain: &str) -> Option<String> {
    let endings = if ending.is_empty() { &ENDINGS[..1] } else { &ENDINGS[..] };
    let stem = endings.iter().filter_map(|ending| plain.strip_suffix(ending)).find(|stem| {
        let occupation = stem.strip_suffix('補').filter(|_| category == Professional).unwrap_or(stem);
        words.contains(&occupation)
    })?;
    let whole = format!("{stem}{ending}");
    Some(if whole.chars().count() <= WORD_MAX { whole } else { stem.to_owned() })
}

impl Category {
    /// The category's name in answers.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(category, ..)| *category == self).expect("each category has a name").1
    }

    /// Finds the category of a name ([`Remuneration::of_name`]).
    pub fn of_name(name: &str) -> Option<Category> {
        Remuneration::of_name(name).map(|found| found.category)
    }

    /// The names of all categories, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name, ..)| *name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn word(name: &str) -> Option<(Category, String)> {
        Remuneration::of_name(name).map(|found| (found.category, found.word))
    }

    #[test]
    fn each_name_means_one_category() {
        let mut seen = BTreeSet::new();
        for (category, name, default, words) in NAMES {
            assert_eq!((category.name(), word(name)), (name, Some((category, default.to_owned()))));
            for one in [&name].into_iter().chain(words.iter().flat_map(|(_, words)| *words)) {
                assert!(seen.insert(*one), "{one} twice");
                assert_eq!(Category::of_name(one), Some(category));
            }
        }
        assert_eq!((Category::of_name(""), Category::of_name("給与"), Category::names().count()), (None, None, 13));
        assert_eq!(Remuneration::of_name("原稿料等"), Some(Remuneration::default()));
    }

    #[test]
    fn a4_a_word_is_shown_as_the_form_has_it() {
        for (given, shown) in [
            ("講演料", "講演料"),
            ("ﾃﾞｻﾞｲﾝ料", "デザイン料"),
            (" 講 演\u{3000}料 ", "講演料"),
            ("さし絵料", "さし絵料"),
            ("税理士", "税理士報酬"),
            ("税理士報酬", "税理士報酬"),
            ("税理士の報酬", "税理士報酬"),
            ("司法書士報酬", "司法書士報酬"),
            ("不動産鑑定士補", "不動産鑑定士補報酬"),
            ("会計士補", "会計士補報酬"),
            ("建築士補報酬", "建築士補報酬"),
            ("ｻｯｶｰ", "サッカー選手報酬"),
            ("サッカー選手", "サッカー選手報酬"),
            ("騎手", "騎手報酬"),
            ("バンケットホステス", "バンケットホステス"),
            ("自動車等損害鑑定人", "自動車等損害鑑定人"),
            ("弁護士等", "弁護士等報酬"),
            ("原稿料等", "原稿料"),
        ] {
            assert_eq!(word(given).unwrap().1, shown, "{given}");
        }
        // only the professions of clause 2 have assistants, and a fee has no further ending
        for unknown in ["講演料補", "講演料報酬", "司法書士補", "騎手補", "補", "報酬"] {
            assert_eq!(word(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn a4_each_word_fits_the_form_and_is_read_back() {
        let all = NAMES.iter().flat_map(|(_, name, _, words)| {
            [*name].into_iter().chain(words.iter().flat_map(|(_, words)| words.iter().copied()))
        });
        for name in all {
            for name in [name.to_owned(), format!("{name}補")] {
                let Some((category, shown)) = word(&name) else { continue };
                assert!(shown.chars().count() <= WORD_MAX, "{shown}");
                assert_eq!(word(&shown), Some((category, shown.clone())));
            }
        }
    }
}
