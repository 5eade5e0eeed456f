use rust_decimal::Decimal;
use time::macros::date;

use super::*;

pub(super) fn line(name: &str, unit_price: &str, quantity: &str, percent: i64) -> Line {
    let decimal = |text: &str| text.parse::<Decimal>().unwrap();
    Line {
        name: name.to_owned(),
        unit_price: decimal(unit_price),
        quantity: decimal(quantity),
        rate: Rate::of_percent(percent).unwrap(),
    }
}

pub(super) fn draft(kind: Kind) -> Draft {
    Draft {
        kind,
        number: "20251130-7K3QX2MA".to_owned(),
        issue_date: date!(2025 - 11 - 30),
        due_date: Some(date!(2025 - 12 - 31)),
        issuer: Issuer {
            name: "株式会社あんごデザイン".to_owned(),
            registration_number: RegistrationNumber::read("T7000012050002").unwrap(),
            address: "〒100-8978\n東京都千代田区霞が関３－１－１".to_owned(),
            tel: "03-3581-4161".to_owned(),
        },
        recipient: "山田商事株式会社".to_owned(),
        recipient_number: PartyNumber::read("T1180301018771").ok(),
        honorific: "御中".to_owned(),
        lines: vec![
            line("ロゴタイプの設計", "150000", "1", 10),
            line("名刺の印刷（100枚）", "3300.5", "12", 10),
            line("打ち合わせの茶菓", "1080", "3", 8),
            line("お値引き", "-5000", "1", 10),
        ],
        basis: Basis::Exclusive,
        rounding: Rounding::Floor,
        withholding: None,
        period: "2025年11月1日〜11月30日".to_owned(),
        payment_method: "bank_transfer".to_owned(),
        original_date: String::new(),
        original_number: String::new(),
        proviso: String::new(),
        bank: Some(BankAccount {
            bank_name: "あおば銀行".to_owned(),
            bank_code: "0123".to_owned(),
            branch_name: "霞が関支店".to_owned(),
            branch_code: "45".to_owned(),
            account_type: "ordinary".to_owned(),
            account_number: "12345".to_owned(),
            account_holder: "株式会社あんごデザイン".to_owned(),
            account_holder_kana: "ｶ)ｱﾝｺﾞﾃﾞｻﾞｲﾝ".to_owned(),
            note: String::new(),
        }),
        transfer_fee_note: "振込手数料は貴社にてご負担ください。".to_owned(),
        consignor: None,
        notes: "今月もありがとうございました。\n来月の納品は12月20日を予定しております。".to_owned(),
        theme: Theme::default(),
    }
}

fn problems(draft: Draft) -> Vec<String> {
    let path = |problem: &Problem| {
        let steps = problem.at.iter().map(|step| match step {
            Step::Field(name) => (*name).to_owned(),
            Step::Index(at) => at.to_string(),
        });
        steps.collect::<Vec<_>>().join(".")
    };
    draft.complete().unwrap_err().iter().map(path).collect()
}

#[test]
fn a_document_has_its_sums_and_its_words() {
    let document = draft(Kind::Invoice).complete().unwrap();
    // standard rate: 150,000 + 39,606 - 5,000 = 184,606; reduced rate: 3,240
    assert_eq!(document.amounts, [150_000, 39_606, 3_240, -5_000]);
    let total = document.totals.total;
    assert_eq!((total.net, total.tax, total.gross), (187_846, 18_460 + 259, 206_565));
    let html = document.html();
    for text in [
        "請求書",
        "適格請求書",
        "山田商事株式会社 御中",
        "¥206,565",
        "登録番号 T7000012050002",
        "打ち合わせの茶菓※",
        "3,300.5",
        "10%対象（税抜）",
        "¥184,606",
        "¥18,460",
        "8%対象（税抜）※",
        "※は軽減税率対象",
        "あおば銀行（0123）　霞が関支店（045）",
        "普通　0012345",
        "お支払期限",
        "2025年12月31日",
        "2025年11月1日〜11月30日",
        "銀行振込",
        "振込手数料は貴社にて",
    ] {
        assert!(html.contains(text), "{text}");
    }
}

/// Examples of the fact sheet, 3.2.
#[test]
fn withholding_is_taken_of_the_chosen_fee() {
    let with = |price: &str, basis, amount, lines| {
        let mut draft = draft(Kind::Invoice);
        draft.lines = vec![line("原稿料", price, "1", 10), line("実費", "0", "1", 10)];
        draft.withholding = Some(Withholding { category: Category::Manuscript, basis, amount, lines });
        let document = draft.complete().unwrap();
        (document.withheld.unwrap(), document.payable())
    };
    assert_eq!(with("500000", Basis::Exclusive, None, None), (51_050, 498_950));
    assert_eq!(with("1500000", Basis::Exclusive, None, None), (204_200, 1_445_800));
    assert_eq!(with("500000", Basis::Inclusive, None, Some(vec![0])), (56_155, 493_845));
    assert_eq!(with("500000", Basis::Exclusive, Some(1), Some(vec![1])), (1, 549_999));
    let mut wrong = draft(Kind::Invoice);
    wrong.withholding = Some(Withholding {
        category: Category::Manuscript,
        basis: Basis::Exclusive,
        amount: None,
        lines: Some(vec![0, 9]),
    });
    assert_eq!(problems(wrong.clone()), ["withholding.lines"]);
    wrong.withholding.as_mut().unwrap().lines = None;
    wrong.withholding.as_mut().unwrap().amount = Some(206_566);
    assert_eq!(problems(wrong), ["withholding.amount"]);
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let mut wrong = draft(Kind::CreditNote);
    wrong.issuer.name = " ".to_owned();
    wrong.number = "9".repeat(201);
    wrong.notes = "x".repeat(1 << 20);
    wrong.consignor = Some(Consignor { name: String::new(), registration_number: None });
    wrong.lines = vec![line("", "1000000000000", "0.0000001", 10)];
    let bank = wrong.bank.as_mut().unwrap();
    (bank.bank_code, bank.account_number, bank.account_type) =
        ("12345".to_owned(), "12-3".to_owned(), "gold".to_owned());
    assert_eq!(
        problems(wrong),
        [
            "invoice_number",
            "issuer",
            "notes",
            "consignor",
            "items.0.name",
            "bank_transfer.bank_code",
            "bank_transfer.account_number",
            "bank_transfer.account_type",
            "original_date",
            "items.0.unit_price",
            "items.0.qty"
        ]
    );
    let with_lines = |kind, lines| {
        let mut draft = draft(kind);
        draft.original_date = "2025-10-31".to_owned();
        draft.lines = lines;
        draft
    };
    assert_eq!(problems(with_lines(Kind::Invoice, vec![])), ["items"]);
    assert_eq!(problems(with_lines(Kind::Invoice, vec![line("x", "1", "1", 10); 1001])), ["items"]);
    assert_eq!(problems(with_lines(Kind::Invoice, vec![line("x", "-1", "1", 10)])), ["items"]);
    assert_eq!(problems(with_lines(Kind::Invoice, vec![line("x", "999999999999", "999999999999", 10)])), ["items.0"]);
    assert_eq!(problems(with_lines(Kind::Invoice, vec![line("x", "999999999999", "1000", 10); 2])), ["items"]);
    let returned = with_lines(Kind::CreditNote, vec![line("返品", "-1000", "1", 10)]).complete().unwrap();
    assert_eq!(returned.totals.total.gross, -1_100);
}

#[test]
fn what_the_caller_should_know_is_told() {
    let mut odd = draft(Kind::Invoice);
    odd.recipient = String::new();
    odd.issuer.registration_number = RegistrationNumber::read("T1234567890123").unwrap();
    odd.consignor = Some(Consignor { name: "𠮷野😀".to_owned(), registration_number: None });
    odd.lines[2].name = "שי".to_owned();
    let document = odd.complete().unwrap();
    let told: Vec<String> = document.warnings.iter().map(Warning::to_string).collect();
    assert_eq!(
        told,
        [
            "check digit of T1234567890123 is wrong, expected 9",
            "a qualified invoice must name its recipient",
            "the consignor has no registration number",
            "characters shown as U+3013 in the PDF: U+1F600 in consignor, U+05D9 U+05E9 in items.2.name",
        ]
    );
    assert!(document.html().contains("委託者: 𠮷野😀"));
    // B23: a receipt without a recipient is a simplified invoice, so there is no warning
    let mut receipt = draft(Kind::Receipt);
    receipt.recipient = String::new();
    assert_eq!(receipt.complete().unwrap().warnings, []);
    assert_eq!(draft(Kind::SimplifiedInvoice).complete().unwrap().warnings, [Warning::Simplified]);
}

#[test]
fn a6_a_warning_names_a_few_of_many_members() {
    let mut many = draft(Kind::Invoice);
    many.lines = vec![line("😀", "1", "1", 10); 1000];
    let told = many.complete().unwrap().warnings[0].to_string();
    assert!(told.ends_with("U+1F600 in items.4.name, and in 995 more members") && told.len() < 300, "{told}");
}

#[test]
fn a6_a_draft_keeps_the_caller_s_text() {
    let names = ["𠮷野家", "か\u{3099}", "葛\u{e0100}城", "A\u{2011}B", "⽇本", "홍길동", "😀"];
    for name in names {
        let mut foreign = draft(Kind::Invoice);
        foreign.recipient = format!("\u{202e}{name}\u{7}");
        let document = foreign.complete().unwrap();
        assert_eq!(document.draft.recipient, name);
        assert!(document.html().contains(name), "{name}");
        assert_eq!(document.warnings.is_empty(), name != "😀", "{name}");
    }
}

#[test]
fn c2_no_document_asks_its_reader_to_check_it() {
    for kind in Kind::ALL {
        let html = of_kind(kind).html();
        assert!(!html.contains("公的な手段") && !html.contains("<footer>"), "{}", kind.name());
    }
    let mut own = draft(Kind::Invoice);
    own.theme.footer = "株式会社あんごデザイン".to_owned();
    assert!(own.complete().unwrap().html().contains("<footer><p>株式会社あんごデザイン</p></footer>"));
}

#[test]
fn c3_a_credit_note_names_what_is_returned_without_a_sign() {
    let mut returned = draft(Kind::CreditNote);
    returned.original_date = "2025-10-31".to_owned();
    returned.lines = vec![line("返品", "-14920", "1", 10)];
    let html = returned.complete().unwrap().html();
    assert!(html.contains("<span>返還金額</span><strong>¥16,412</strong>"));
    assert!(html.contains("<dt>元の取引日</dt><dd>2025年10月31日</dd>"));
}

#[test]
fn c4_a_receipt_says_for_what_the_money_was_paid() {
    let printed = |proviso: &str, kind| {
        let mut receipt = draft(kind);
        receipt.proviso = proviso.to_owned();
        let html = receipt.complete().unwrap().html();
        let value =
            html.split_once("<dt>但し</dt><dd>").map(|(_, rest)| rest.split_once("</dd>").unwrap().0.to_owned());
        value.unwrap_or_default()
    };
    for (given, shown) in [
        ("", "ロゴタイプの設計ほか　として"),
        ("書籍代ほか", "書籍代ほか　として"),
        ("但し、お食事代として", "お食事代　として"),
        ("但し書き：お品代　として。", "お品代　として"),
        ("但馬牛代", "但馬牛代　として"),
        ("として", "ロゴタイプの設計ほか　として"),
    ] {
        assert_eq!(printed(given, Kind::Receipt), shown);
    }
    assert_eq!(printed("", Kind::Invoice), "");
    assert_eq!(printed("お品代", Kind::SimplifiedInvoice), "お品代　として");
}

#[test]
fn markup_in_texts_is_text() {
    let mut hostile = draft(Kind::Invoice);
    hostile.recipient = "<script>alert('1')</script>".to_owned();
    hostile.notes = "\"><img src=x onerror=alert(1)>&amp;".to_owned();
    let html = hostile.complete().unwrap().html();
    assert!(!html.contains("<script") && !html.contains("<img src=x"));
    assert!(html.contains("&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;") && html.contains("&amp;amp;"));
}

pub(super) fn of_kind(kind: Kind) -> Document {
    let mut draft = draft(kind);
    if kind.needs_original() {
        draft.original_date = "2025年10月分".to_owned();
        draft.original_number = "20251031-AAAAAAAA".to_owned();
    }
    if kind == Kind::Receipt {
        draft.payment_method = "credit_card".to_owned();
        (draft.bank, draft.transfer_fee_note) = (None, String::new());
    }
    draft.complete().unwrap()
}

#[test]
fn equal_documents_have_equal_bytes() {
    for kind in Kind::ALL {
        let pdf = of_kind(kind).pdf();
        assert!(pdf == of_kind(kind).pdf() && pdf.len() < 60_000, "{} {}", kind.name(), pdf.len());
    }
}
