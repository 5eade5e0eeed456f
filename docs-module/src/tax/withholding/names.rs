//! Names of categories: the name in documents and answers, and names of single occupations that callers may give
//! instead.

use super::Category::{self, *};

/// Each category with its name, and with other names for it.
const NAMES: [(Category, &str, &[&str]); 13] = [
    (
        Manuscript,
        "原稿料等",
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
    ),
    (
        Professional,
        "弁護士等",
        &[
            "弁護士",
            "外国法事務弁護士",
            "公認会計士",
            "税理士",
            "社会保険労務士",
            "弁理士",
            "測量士",
            "測量士補",
            "建築士",
            "不動産鑑定士",
            "不動産鑑定士補",
            "技術士",
            "技術士補",
            "会計士補",
            "計理士",
            "企業診断員",
            "中小企業診断士",
            "経営コンサルタント",
            "建築代理士",
            "火災損害鑑定人",
            "自動車等損害鑑定人",
            "弁護士報酬",
            "税理士報酬",
        ],
    ),
    (Scrivener, "司法書士等", &["司法書士", "土地家屋調査士", "海事代理士", "司法書士報酬"]),
    (Medical, "診療報酬", &[]),
    (
        Athlete,
        "プロスポーツ選手等",
        &[
            "プロスポーツ選手",
            "職業野球",
            "サッカー",
            "テニス",
            "レスリング",
            "ゴルフ",
            "ボウリング",
            "自動車レース",
            "騎手",
            "競輪",
            "オート",
            "競艇",
            "モデル",
        ],
    ),
    (Boxer, "プロボクサー", &["職業拳闘家"]),
    (Salesperson, "外交員等", &["外交員", "集金人", "電力量計の検針人", "外交員報酬"]),
    (Performance, "芸能等", &["出演料", "演出料", "俳優", "歌手", "監督", "芸能プロ"]),
    (Hostess, "ホステス等", &["ホステス", "バンケットホステス", "コンパニオン", "ホステス報酬"]),
    (ContractFee, "契約金", &["専属契約金", "技術者の契約金"]),
    (Prize, "広告宣伝賞金", &["懸賞金"]),
    (HorseRacePrize, "競馬賞金", &["馬主の賞金"]),
    (Outside, "対象外", &["行政書士", "要約筆記", "手話通訳", "物品", "賃料"]),
];

impl Category {
    /// The category's name in documents and answers.
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(category, ..)| *category == self).expect("each category has a name").1
    }

    /// Finds the category by its name or by a synonym.
    pub fn of_name(name: &str) -> Option<Category> {
        let found = NAMES.iter().find(|(_, canonical, others)| *canonical == name || others.contains(&name));
        found.map(|(category, ..)| *category)
    }

    /// The names of all categories, for messages.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMES.iter().map(|(_, name, _)| *name)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_name_means_one_category() {
        let mut seen = BTreeSet::new();
        for (category, name, others) in NAMES {
            assert_eq!(category.name(), name);
            for one in [name].iter().chain(others) {
                assert!(seen.insert(*one), "{one} twice");
                assert_eq!(Category::of_name(one), Some(category));
            }
        }
        assert_eq!((Category::of_name(""), Category::of_name("給与"), Category::names().count()), (None, None, 13));
    }
}
