//! Legal forms and kinds of business in names, as they are written in full, in kana, and by banks.
//!
//! The abbreviations are those of the list that the Japanese banks share for names of account holders (法人略語,
//! 営業所略語, 事業略語). An abbreviation counts only in brackets: カ at the end of ヤマダカ belongs to the name.

use std::sync::LazyLock;

/// Legal forms, which are no part of a name: in full, in large kana, and the banks' abbreviation, which may be empty.
const LEGAL: [(&str, &str, &str); 48] = [
    ("株式会社", "カブシキガイシヤ", "カ"),
    ("有限会社", "ユウゲンガイシヤ", "ユ"),
    ("合名会社", "ゴウメイガイシヤ", "メ"),
    ("合資会社", "ゴウシガイシヤ", "シ"),
    ("合同会社", "ゴウドウガイシヤ", "ド"),
    ("相互会社", "ソウゴガイシヤ", "ソ"),
    ("特定目的会社", "トクテイモクテキガイシヤ", ""),
    ("医療法人社団", "イリヨウホウジンシヤダン", "イ"),
    ("医療法人財団", "イリヨウホウジンザイダン", "イ"),
    ("社会医療法人", "シヤカイイリヨウホウジン", "イ"),
    ("医療法人", "イリヨウホウジン", "イ"),
    ("一般財団法人", "イツパンザイダンホウジン", "ザイ"),
    ("公益財団法人", "コウエキザイダンホウジン", "ザイ"),
    ("財団法人", "ザイダンホウジン", "ザイ"),
    ("一般社団法人", "イツパンシヤダンホウジン", "シヤ"),
    ("公益社団法人", "コウエキシヤダンホウジン", "シヤ"),
    ("社団法人", "シヤダンホウジン", "シヤ"),
    ("宗教法人", "シユウキヨウホウジン", "シユウ"),
    ("学校法人", "ガツコウホウジン", "ガク"),
    ("社会福祉法人", "シヤカイフクシホウジン", "フク"),
    ("更生保護法人", "コウセイホゴホウジン", "ホゴ"),
    ("特定非営利活動法人", "トクテイヒエイリカツドウホウジン", "トクヒ"),
    ("npo法人", "エヌピーオーホウジン", ""),
    ("npo法人", "npoホウジン", ""),
    ("独立行政法人", "ドクリツギヨウセイホウジン", "ドク"),
    ("地方独立行政法人", "チホウドクリツギヨウセイホウジン", "チドク"),
    ("中期目標管理法人", "チユウキモクヒヨウカンリホウジン", "モク"),
    ("国立研究開発法人", "コクリツケンキユウカイハツホウジン", "ケン"),
    ("行政執行法人", "ギヨウセイシツコウホウジン", "シツ"),
    ("国立大学法人", "コクリツダイガクホウジン", "ダイ"),
    ("公立大学法人", "コウリツダイガクホウジン", "ダイ"),
    ("有限責任中間法人", "ユウゲンセキニンチユウカンホウジン", "チユウ"),
    ("無限責任中間法人", "ムゲンセキニンチユウカンホウジン", "チユウ"),
    ("弁護士法人", "ベンゴシホウジン", "ベン"),
    ("税理士法人", "ゼイリシホウジン", "ゼイ"),
    ("司法書士法人", "シホウシヨシホウジン", "シホウ"),
    ("行政書士法人", "ギヨウセイシヨシホウジン", "ギヨウ"),
    ("社会保険労務士法人", "シヤカイホケンロウムシホウジン", "ロウム"),
    ("土地家屋調査士法人", "トチカオクチヨウサシホウジン", ""),
    ("弁理士法人", "ベンリシホウジン", ""),
    ("監査法人", "カンサホウジン", ""),
    ("管理組合法人", "カンリクミアイホウジン", "カンリ"),
    ("農事組合法人", "ノウジクミアイホウジン", "ノウ"),
    ("有限責任事業組合", "ユウゲンセキニンジギヨウクミアイ", "ユウクミ"),
    ("農業協同組合", "ノウギヨウキヨウドウクミアイ", "ノウキヨウ"),
    ("漁業協同組合", "ギヨギヨウキヨウドウクミアイ", "ギヨキヨウ"),
    // some banks write ギヨ for this and for 行政書士法人
    ("漁業協同組合", "ギヨギヨウキヨウドウクミアイ", "ギヨ"),
    ("生活協同組合", "セイカツキヨウドウクミアイ", "セイキヨウ"),
];
/// Kinds of business, which tell names apart: the union of a company and its pension fund are not the company. So they
/// are not removed. All three spellings become the abbreviation.
const BUSINESSES: [(&str, &str, &str); 21] = [
    ("国家公務員共済組合連合会", "コツカコウムインキヨウサイクミアイレンゴウカイ", "コクキヨウレン"),
    ("経済農業協同組合連合会", "ケイザイノウギヨウキヨウドウクミアイレンゴウカイ", "ケイザイレン"),
    ("共済農業協同組合連合会", "キヨウサイノウギヨウキヨウドウクミアイレンゴウカイ", "キヨウサイレン"),
    ("農業協同組合連合会", "ノウギヨウキヨウドウクミアイレンゴウカイ", "ノウキヨウレン"),
    ("漁業協同組合連合会", "ギヨギヨウキヨウドウクミアイレンゴウカイ", "ギヨレン"),
    ("国民健康保険団体連合会", "コクミンケンコウホケンダンタイレンゴウカイ", "コクホレン"),
    ("社会保険診療報酬支払基金", "シヤカイホケンシンリヨウホウシユウシハライキキン", "シヤホ"),
    ("国民健康保険組合", "コクミンケンコウホケンクミアイ", "コクホ"),
    ("健康保険組合", "ケンコウホケンクミアイ", "ケンポ"),
    ("厚生年金基金", "コウセイネンキンキキン", "コウネン"),
    ("食糧販売協同組合", "シヨクリヨウハンバイキヨウドウクミアイ", "シヨクハンキヨウ"),
    ("協同組合", "キヨウドウクミアイ", "キヨウクミ"),
    ("共済組合", "キヨウサイクミアイ", "キヨウサイ"),
    ("従業員組合", "ジユウギヨウインクミアイ", "ジユウクミ"),
    ("労働組合", "ロウドウクミアイ", "ロウクミ"),
    ("連合会", "レンゴウカイ", "レン"),
    ("生命保険", "セイメイホケン", "セイメイ"),
    ("海上火災保険", "カイジヨウカサイホケン", "カイジヨウ"),
    ("火災海上保険", "カサイカイジヨウホケン", "カサイ"),
    ("公共職業安定所", "コウキヨウシヨクギヨウアンテイジヨ", "シヨクアン"),
    ("社会福祉協議会", "シヤカイフクシキヨウギカイ", "シヤキヨウ"),
];
/// Abbreviations of offices.
const OFFICES: [&str; 2] = ["エイ", "シユツ"];
/// Offices in full, at the end of a name.
const OFFICES_IN_FULL: [&str; 6] =
    ["営業所", "出張所", "エイギヨウシヨ", "エイギヨウジヨ", "シユツチヨウジヨ", "シユツチヨウシヨ"];
/// Legal forms that are written in kanji in brackets.
const SHORT: [&str; 26] = [
    "株", "有", "同", "名", "資", "相", "医", "医社", "医財", "財", "一財", "公財", "社", "一社", "公社", "宗", "学",
    "福", "社福", "特非", "独", "弁", "税", "監", "協", "npo",
];

/// Words, and what replaces them.
pub(super) struct Words(Vec<(char, Vec<(String, &'static str)>)>);

/// Legal forms in full.
pub(super) static FULL: LazyLock<Words> =
    LazyLock::new(|| Words::new(LEGAL.iter().map(|(full, _, _)| (full.to_string(), ""))));
/// Legal forms in full, and kinds of business in full, as banks abbreviate them.
pub(super) static FULL_OF_BANKS: LazyLock<Words> = LazyLock::new(|| {
    let businesses = BUSINESSES.iter().map(|(full, _, short)| (full.to_string(), *short));
    Words::new(LEGAL.iter().map(|(full, _, _)| (full.to_string(), "")).chain(businesses))
});
/// Legal forms in large kana.
pub(super) static KANA: LazyLock<Words> = LazyLock::new(|| Words::new(in_kana()));
/// Legal forms in large kana, and kinds of business, as banks abbreviate them.
pub(super) static KANA_OF_BANKS: LazyLock<Words> = LazyLock::new(|| {
    let businesses = BUSINESSES.iter().map(|(_, kana, short)| (kana.to_string(), *short));
    Words::new(in_kana().chain(businesses))
});

/// Legal forms in large kana. ガイシヤ is written カイシヤ too.
fn in_kana() -> impl Iterator<Item = (String, &'static str)> {
    LEGAL.iter().flat_map(|(_, kana, _)| {
        let unvoiced = kana.strip_suffix("ガイシヤ").map(|form| format!("{form}カイシヤ"));
        [Some(kana.to_string()), unvoiced].into_iter().flatten().map(|form| (form, ""))
    })
}

impl Words {
    fn new(words: impl Iterator<Item = (String, &'static str)>) -> Words {
        let mut by_first: Vec<(char, Vec<(String, &'static str)>)> = Vec::new();
        for (word, by) in words {
            let Some(first) = word.chars().next() else { continue };
            match by_first.iter_mut().find(|(known, _)| *known == first) {
                Some((_, others)) => others.push((word, by)),
                None => by_first.push((first, vec![(word, by)])),
            }
        }
        by_first.sort_by_key(|(first, _)| *first);
        for (_, words) in &mut by_first {
            // a longer word may begin with a shorter one
            words.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
        }
        Words(by_first)
    }

    /// Replaces all words, from the left to the right, in one pass.
    pub fn replaced_in(&self, name: &str) -> String {
        let mut replaced = String::with_capacity(name.len());
        let mut rest = name;
        while let Some(first) = rest.chars().next() {
            let found = self.0.binary_search_by_key(&first, |(first, _)| *first).ok();
            let word = found.and_then(|at| self.0[at].1.iter().find(|(word, _)| rest.starts_with(word)));
            match word {
                Some((word, by)) => {
                    replaced.push_str(by);
                    rest = &rest[word.len()..];
                }
                None => {
                    replaced.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        replaced
    }
}

/// The replacements of kanji in brackets, and of empty brackets.
pub(super) fn short(inner: &str) -> Option<&'static str> {
    (inner.is_empty() || SHORT.contains(&inner)).then_some("")
}

/// The replacement of an abbreviation of banks in brackets.
pub(super) fn of_banks(inner: &str) -> Option<&'static str> {
    let is_form = inner.is_empty() || OFFICES.contains(&inner) || LEGAL.iter().any(|(_, _, short)| *short == inner);
    let business = || BUSINESSES.iter().find(|(_, _, short)| *short == inner).map(|(_, _, short)| *short);
    if is_form { Some("") } else { business() }
}

/// Removes an office at the end.
pub(super) fn without_office(name: &str) -> &str {
    OFFICES_IN_FULL.iter().find_map(|office| name.strip_suffix(office)).filter(|name| !name.is_empty()).unwrap_or(name)
}

/// Replaces what stands in brackets. `by` knows what is replaced. The opening bracket may be missing at the beginning
/// of the name, and the closing bracket at the end.
pub(super) fn without_brackets(name: &str, by: fn(&str) -> Option<&'static str>) -> String {
    let (mut replaced, mut rest) = (String::with_capacity(name.len()), name);
    while let Some((inner, after)) = rest.split_once(')').filter(|(inner, _)| !inner.is_empty()) {
        let Some(by) = by(inner) else { break };
        replaced.push_str(by);
        rest = after;
    }
    while let Some((before, bracket)) = rest.split_once('(') {
        replaced.push_str(before);
        let (inner, after) = match bracket.find(['(', ')']) {
            Some(end) if bracket[end..].starts_with(')') => (&bracket[..end], &bracket[end + 1..]),
            Some(_) => ("(", bracket),
            None => (bracket, ""),
        };
        match by(inner) {
            Some(by) => {
                replaced.push_str(by);
                rest = after;
            }
            None => {
                replaced.push('(');
                rest = bracket;
            }
        }
    }
    replaced.push_str(rest);
    replaced
}
