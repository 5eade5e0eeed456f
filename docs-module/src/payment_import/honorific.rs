//! The honorific after a recipient's name: 御中 for organisations and departments, 様 for persons.

use super::{NamedBy, Payment};
use crate::reconcile::{NameKind, key};

const TO_ORGANISATIONS: &str = "御中";
const TO_PERSONS: &str = "様";
/// Ends of names that are not the honorific of an organisation, so that the name before them counts.
const HONORIFICS: [&str; 6] = ["御中", "各位", "先生", "様", "殿", "行"];
/// Ends of names of organisations and their parts that no name of a person has.
#[rustfmt::skip]
const ENDINGS: [&str; 84] = [
    "事務所", "大学", "大学院", "高校", "学校", "学園", "学院", "幼稚園", "保育園", "病院", "医院", "診療所",
    "クリニック", "薬局", "協会", "協議会", "委員会", "連合会", "自治会", "町内会", "商工会", "会議所",
    "組合", "農協", "漁協", "生協", "役所", "役場", "支所", "出張所", "警察署", "消防署", "税務署", "裁判所",
    "法務局", "庁", "銀行", "金庫", "商店", "商会", "商事", "商社", "工業", "工務店", "建設", "産業", "物産",
    "製作所", "製造所", "研究所", "営業所", "印刷所", "会社", "法人", "公社", "公団", "機構", "財団", "連盟",
    "書店", "支店", "本店", "支社", "本社", "本部", "支部", "総務部", "経理部", "営業部", "人事部", "購買部",
    "事業部", "センター", "総務省", "法務省", "外務省", "財務省", "科学省", "労働省", "水産省", "産業省",
    "交通省", "環境省", "防衛省",
];
/// Ends of names of regions. A person's name may have the same end: 木村, 大町, 村山富市, 山田正道.
const REGIONS: [&str; 4] = ["東京都", "北海道", "大阪府", "京都府"];
const PARTS_OF_REGIONS: [char; 3] = ['県', '市', '区'];
/// Given names that end like a city. No city has one of these ends.
const GIVEN_NAMES: [&str; 8] = ["富市", "与市", "太市", "喜市", "嘉市", "源市", "卯市", "亀市"];

/// Chooses the honorific for the recipient of a payment. A buyer who gives the name of a business is an organisation.
pub(super) fn honorific_of(payment: &Payment) -> &'static str {
    if payment.named_by == NamedBy::Business { TO_ORGANISATIONS } else { honorific(&payment.recipient) }
}

/// Chooses the honorific for a name.
pub(super) fn honorific(name: &str) -> &'static str {
    let name = name.trim();
    let bare = HONORIFICS.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).trim();
    let is_organisation = [name, bare].into_iter().any(ends_like_organisation) || has_legal_form(bare);
    if is_organisation { TO_ORGANISATIONS } else { TO_PERSONS }
}

fn ends_like_organisation(name: &str) -> bool {
    ENDINGS.iter().any(|ending| name.ends_with(ending)) || is_region(name)
}

/// Whether the name contains a legal form such as 株式会社: the key of companies leaves the form out. Keys also replace
/// single characters, so their lengths are compared.
fn has_legal_form(name: &str) -> bool {
    let length = |kind| key(kind, name).chars().count();
    length(NameKind::Company) < length(NameKind::Text)
}

fn is_region(name: &str) -> bool {
    if REGIONS.iter().any(|region| name.ends_with(region)) {
        return true;
    }
    // the last word of 村山 富市 is a given name
    let word = name.split_whitespace().next_back().unwrap_or_default();
    let Some(before) = word.strip_suffix(PARTS_OF_REGIONS) else { return false };
    before.chars().count() >= 2 && !GIVEN_NAMES.iter().any(|given| word.ends_with(given))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::payment_import::{Provider, read};
    use crate::tax::consumption::Rate;

    #[test]
    fn a9_organisations_are_addressed_as_such() {
        for name in [
            "株式会社川",
            "川商事（株）",
            "Kawa Inc.",
            "青空法律事務所",
            "青空大学",
            "県立青空高校",
            "市立病院",
            "日本協会",
            "健康保険組合",
            "みどり農協",
            "港区役所",
            "みずほ銀行",
            "青空商店",
            "川商会",
            "川工業",
            "川製作所",
            "東京都",
            "北海道",
            "大阪府",
            "神奈川県",
            "横浜市",
            "千代田区",
            "川村役場",
            "株式会社川 御中",
            "青空大学御中",
            "みずほ銀行 行",
            "経理部",
            "NPO法人あお",
        ] {
            assert_eq!(honorific(name), "御中", "{name}");
        }
        for name in [
            "山田太郎",
            "木村",
            "大町",
            "中村 健",
            "高市",
            "古市",
            "村山富市",
            "山田正道",
            "田中美都",
            "長谷部",
            "服部",
            "髙橋花子",
            "渡邊一",
            "齋藤",
            "平行",
            "山田様",
            "北川 大学生",
            "",
            "市",
            "Taro Yamada",
            "工藤 新一",
        ] {
            assert_eq!(honorific(name), "様", "{name}");
        }
    }

    #[test]
    fn a9_the_name_of_a_business_at_the_checkout_is_an_organisation() {
        let session = |details: Value| {
            json!({"id": "cs_1", "object": "checkout.session", "payment_status": "paid", "currency": "jpy",
                "amount_total": 5500,
                "created": 1_764_547_200, "customer_details": details})
        };
        let honorific = |object: Value| honorific_of(&read(Provider::Stripe, &object, Rate::Standard).unwrap());
        assert_eq!(honorific(session(json!({"business_name": "アトリエ花", "name": "川太郎"}))), "御中");
        assert_eq!(honorific(session(json!({"name": "アトリエ花"}))), "様");
    }
}
