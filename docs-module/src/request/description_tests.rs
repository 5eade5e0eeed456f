//! Readers and the description of bodies (`api::office`) agree member by member. The schemas drive these tests. Each
//! described type, requirement, word, form, range and length is tried with an allowed value and with a refused one. A
//! reader asks for exactly the described members.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use time::macros::date;
use utoipa::ToSchema;

use super::tests::{faults, reconciled, verification, watch};
use super::*;
use crate::asked;
use crate::drawing::picture::tests::png_uri;

const GIVEN: Given<'static> = Given { number: "20251130-AAAAAAAA", ..Given::on(date!(2025 - 11 - 30)) };

/// A body with its schema's name, its reader, and all described members.
struct Body {
    name: &'static str,
    faults: fn(&[u8]) -> Vec<Fault>,
    whole: Value,
    disagreements: RefCell<Vec<String>>,
}

/// The schemas of the API page, by name.
struct Schemas(BTreeMap<String, Value>);

/// A described member, or a value of a list or map, in a whole body.
struct Member {
    /// The path to the member in the body.
    at: Vec<Place>,
    /// The allowed kinds of value: schemas of one type each.
    kinds: Vec<Value>,
    /// True if the member is required. `None` for a value of a list or map, which has no name to leave out.
    required: Option<bool>,
    /// True if the member belongs to an object of a provider or of an authority. These tests do not check its type.
    foreign: bool,
}

fn bodies() -> Vec<Body> {
    macro_rules! body {
        ($name:ident, $read:expr, $whole:expr) => {
            Body {
                name: stringify!($name),
                faults: |bytes| faults($read(bytes)),
                whole: $whole,
                disagreements: RefCell::default(),
            }
        };
    }
    let theme = json!({"brand_color": "#2B4C7E", "logo": png_uri(1, 1, |_, _| [0; 4]), "seal": png_uri(1, 1, |_, _| [0; 4]), "footer": "下", "locale": "ja"});
    let bank = json!({"bank_name": "あおば", "bank_code": "0001", "branch_name": "本店", "branch_code": "001", "account_type": "普通",
        "account_number": "1234567", "account_holder": "山田", "account_holder_kana": "ﾔﾏﾀﾞ", "note": "備考"});
    let payer = json!({"name": "株式会社あんご", "address": "東京都", "number": "7000012050002", "tel": "03-1"});
    let published = json!([{"registratedNumber": "T7000012050002", "process": "01", "registrationDate": "2023-10-01", "disposalDate": "",
        "expireDate": null, "name": "国税庁"}]);
    let issuer = json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002", "rounding": "floor", "issuer_address": "東京都",
        "issuer_tel": "03-1", "consignor": "青果店", "consignor_registration_number": "T1180301018771", "theme": theme});
    let billed = json!({"invoice_number": "A-1", "notes": "備考", "due_date": "2025-12-31", "bank_transfer": bank, "transfer_fee_note": "手数料",
        "period": "11月分", "document_type": "invoice", "recipient": "山田商事"});
    let imported = json!({"provider": "generic", "recipient_number": "1180301018771", "default_tax_rate": 10, "recipient": "山田商事", "document_type": "receipt",
        "proviso": "書籍代"});
    vec![
        body!(
            InvoiceIn,
            |bytes| document(bytes, &GIVEN),
            join(&[
                &issuer,
                &billed,
                &json!({
            "items": [{"name": "設計", "unit_price": 900_000_000_000_i64, "tax_rate": 10, "qty": 2}], "issue_date": "2025-11-01",
            "tax_inclusive": true, "recipient_honorific": "様", "payment_method": "cash", "original_date": "2025-10-01",
            "original_number": "A-0", "recipient_number": "T1180301018771", "proviso": "お品代",
            "withholding": {"category": "原稿料等", "basis": "tax_inclusive", "amount": 100, "lines": [0]}})
            ])
        ),
        body!(
            PaymentImportIn,
            |bytes| document_of_payment(bytes, &GIVEN),
            join(&[&issuer, &imported, &json!({"payment_object": payment()})])
        ),
        body!(
            PaymentsImportIn,
            |bytes| document_of_payments(bytes, &GIVEN),
            join(&[&issuer, &imported, &billed, &json!({"payment_objects": [payment()]})])
        ),
        body!(
            WithholdingRecordsIn,
            |bytes| records(bytes, &GIVEN),
            json!({"year": 2025, "payer": payer, "theme": theme, "payees": [
            {"name": "山田", "address": "東京都", "number": "", "is_individual": true, "payments": [{"amount": 1000, "category": "ホステス等",
                "paid_on": "2025-11-30", "consumption_tax": "100", "description": "酒席", "detail": "宴会", "unpaid": true, "days": 1, "salary": 0}]}]})
        ),
        body!(
            TransfersWithholdingIn,
            |bytes| records_of_transfers(bytes, &GIVEN),
            json!({"year": 2025, "payer": payer, "theme": theme,
            "default_category": "原稿料等", "transfers": transfers(),
            "payee_map": {"acct_1": {"name": "山田", "address": "東京都", "number": "", "is_individual": true, "category": "原稿料等",
                "description": "講演", "tax": "included", "tax_included": true, "tax_rate": 10, "amount_is": "gross", "non_resident": false}}})
        ),
        body!(
            ReconcileIn,
            reconciled,
            json!({"left": [{"n": "x", "a": 1}], "right": [{"n": "x", "a": "1"}], "left_key": "n", "right_key": "n",
            "kind": "text", "left_amount": "a", "right_amount": "a", "amount_tolerance": 0})
        ),
        body!(
            RegistrationVerifyIn,
            verification,
            json!({"numbers": ["T1"], "records": published, "as_of": "2025-11-30", "source": "web"})
        ),
        body!(
            RegistrationMonitorIn,
            watch,
            json!({"watch": ["T1"], "records": published, "as_of": "2025-11-30", "source": "web"})
        ),
        body!(IssueKeyIn, key_order, json!({"plan": "pro", "customer": "x", "cap_yen": 5})),
        body!(
            ProfileIn,
            |bytes| profile(bytes, &GIVEN),
            json!({"issuer": "株式会社あんご", "registration_number": "T7000012050002",
            "delivery_mode": "both", "delivery_email": "a@example.jp", "default_tax_rate": 8, "document_type": "receipt", "issuer_address": "東京都",
            "issuer_tel": "03-1", "brand_color": "#2B4C7E", "logo": theme["logo"], "seal": theme["seal"], "rotate_token": true,
            "provider": "payjp", "proviso": "書籍代", "skip_small_returns": true, "provider_signing_secret": "whsec_x"})
        ),
        body!(CapIn, cap, json!({"cap_yen": 5})),
    ]
}

/// A payment of `generic` with all its members.
fn payment() -> Value {
    json!({"id": "p1", "object": "payment", "currency": "jpy", "amount": 1100, "created": 1_764_514_800, "description": "デザイン", "customer_name": "山田",
        "customer_email": "a@example.jp", "payment_method": "cash", "tax_rate": 10, "type": "payment", "original_id": "p0",
        "original_date": "2025-10-01",
        "lines": [{"amount": 1100, "description": "デザイン", "name": "デザイン", "quantity": 1, "tax_rate": "10%"}],
        "metadata": {"tax_rate": "10", "recipient": "山田", "invoice_recipient": "山田", "宛名": "山田", "recipient_honorific": "様", "item_name": "茶",
            "description": "茶", "invoice_number": "A-1", "document_type": "receipt", "consignor": "青果店",
            "consignor_registration_number": "T1180301018771", "do_not_invoice": "false", "original_date": "2025年10月分"}})
}

fn transfers() -> Value {
    let transfer = json!({"id": "tr_1", "object": "transfer", "amount": 1100, "currency": "jpy", "amount_reversed": 0, "created": 1_764_514_800,
        "arrival_date": 1_764_514_800, "destination": "acct_1", "account": "acct_1", "status": "paid", "reversed_by": null,
        "metadata": {"category": "講演料", "detail": "講座", "days": 1, "salary": "0", "consumption_tax": "100", "account": "acct_1", "payee": "acct_1"}});
    let payout = join(&[&transfer, &json!({"id": "po_1", "object": "payout", "destination": {"id": "ba_1"}})]);
    json!([transfer, payout])
}

/// Joins objects into one object. A later member replaces an earlier one.
fn join(objects: &[&Value]) -> Value {
    let members = objects.iter().flat_map(|object| object.as_object().unwrap().clone());
    Value::Object(members.collect())
}

impl Schemas {
    fn of_page() -> Schemas {
        macro_rules! schemas {
            ($($name:ident),*) => {{
                let mut found = Vec::new();
                $(
                    found.push((stringify!($name).to_owned(), <api::office::$name as utoipa::PartialSchema>::schema()));
                    api::office::$name::schemas(&mut found);
                )*
                found
            }};
        }
        let found = schemas!(
            InvoiceIn,
            PaymentImportIn,
            PaymentsImportIn,
            WithholdingRecordsIn,
            TransfersWithholdingIn,
            ReconcileIn,
            RegistrationVerifyIn,
            RegistrationMonitorIn,
            IssueKeyIn,
            ProfileIn,
            CapIn
        );
        Schemas(found.into_iter().map(|(name, schema)| (name, serde_json::to_value(schema).unwrap())).collect())
    }

    /// Splits `schema` into schemas of one type each, which together mean the same as `schema`.
    fn kinds(&self, schema: &Value) -> Vec<Value> {
        if let Some(way) = schema["$ref"].as_str() {
            return self.kinds(&self.0[way.rsplit('/').next().unwrap()]);
        }
        if let Some(choices) = schema["oneOf"].as_array().or(schema["anyOf"].as_array()) {
            return choices.iter().flat_map(|choice| self.kinds(choice)).collect();
        }
        let types = match &schema["type"] {
            Value::Array(types) => types.clone(),
            one => vec![one.clone()],
        };
        types.into_iter().map(|one| join(&[schema, &json!({"type": one})])).collect()
    }

    /// Finds the members of `value`, which has these kinds, and adds them to `found`.
    fn members(&self, kinds: &[Value], value: &Value, at: &[Place], foreign: bool, found: &mut Vec<Member>) {
        let step = |place: Place| [at, &[place]].concat();
        for kind in kinds {
            match (kind["type"].as_str(), value) {
                (Some("object"), Value::Object(members)) => {
                    let described = kind["properties"].as_object().cloned().unwrap_or_default();
                    let rest = kind.get("additionalProperties");
                    // an object that allows members beyond the described ones has its form from a provider or an
                    // authority
                    let foreign = foreign || !described.is_empty() && rest.is_some();
                    let required = kind["required"].as_array().cloned().unwrap_or_default();
                    for (name, schema) in &described {
                        assert!(foreign || members.contains_key(name), "{at:?} has no {name} in the whole body");
                        let required = Some(required.contains(&json!(name)));
                        self.member(
                            schema,
                            members.get(name),
                            step(Place::Name(name.clone().into())),
                            required,
                            foreign,
                            found,
                        );
                    }
                    let Some(rest) = rest.filter(|_| described.is_empty()) else { continue };
                    for (name, value) in members {
                        self.member(rest, Some(value), step(Place::Name(name.clone().into())), None, foreign, found);
                    }
                }
                (Some("array"), Value::Array(values)) => {
                    self.member(&kind["items"], values.first(), step(Place::Index(0)), None, foreign, found);
                }
                _ => {}
            }
        }
    }

    fn member(
        &self,
        schema: &Value,
        value: Option<&Value>,
        at: Vec<Place>,
        required: Option<bool>,
        foreign: bool,
        found: &mut Vec<Member>,
    ) {
        let kinds = self.kinds(schema);
        if let Some(value) = value {
            self.members(&kinds, value, &at, foreign, found);
        }
        found.push(Member { at, kinds, required, foreign });
    }
}

impl Body {
    fn members(&self, schemas: &Schemas) -> Vec<Member> {
        let mut found = Vec::new();
        let kinds = schemas.kinds(&schemas.0[self.name]);
        schemas.members(&kinds, &self.whole, &["body".into()], false, &mut found);
        found
    }

    /// Makes the whole body with one member replaced or left out.
    fn with(&self, at: &[Place], value: Option<Value>) -> Value {
        let mut body = self.whole.clone();
        let mut here = &mut body;
        let (last, way) = at[1..].split_last().unwrap();
        for step in way {
            here = match step {
                Place::Name(name) => &mut here[name.as_ref()],
                Place::Index(place) => &mut here[place],
            };
        }
        match (last, value) {
            (Place::Name(name), Some(value)) => here[name.as_ref()] = value,
            (Place::Index(place), Some(value)) => here[place] = value,
            (Place::Name(name), None) => drop(here.as_object_mut().unwrap().remove(name.as_ref())),
            (Place::Index(_), None) => unreachable!("places are not left out"),
        }
        body
    }

    /// Finds the faults at a path when the value at this path is replaced. The path of a fault in a published record
    /// ends at the list, and the fault's message states the record's index. Faults of members that are required only in
    /// some cases are left out, because the schema describes such cases only in its texts.
    fn told(&self, at: &[Place], value: Option<Value>) -> Vec<Fault> {
        let body = serde_json::to_vec(&self.with(at, value)).unwrap();
        let is_of_record =
            |fault: &Fault| at.starts_with(&fault.loc) && fault.msg.contains("published records: record 0");
        let is_of_case = |fault: &Fault| {
            ["is required with", "has no number", "has no registrationDate"].iter().any(|case| fault.msg.contains(case))
        };
        let is_told = |fault: &Fault| (fault.loc == at || is_of_record(fault)) && !is_of_case(fault);
        (self.faults)(&body).into_iter().filter(is_told).collect()
    }

    fn expect(&self, agrees: bool, at: &[Place], what: &str) {
        if !agrees {
            self.disagreements.borrow_mut().push(format!("{}: {} {what}", self.name, way(at)));
        }
    }

    fn accepts(&self, at: &[Place], value: Value) {
        let shown: String = value.to_string().chars().take(80).collect();
        let told = self.told(at, Some(value));
        self.expect(told.is_empty(), at, &format!("is described to take {shown}: {told:?}"));
    }

    fn refuses(&self, at: &[Place], value: Value) {
        let shown: String = value.to_string().chars().take(80).collect();
        self.expect(
            !self.told(at, Some(value)).is_empty(),
            at,
            &format!("is not described to take {shown}, and takes it"),
        );
    }

    fn value(&self, at: &[Place]) -> &Value {
        at[1..].iter().fold(&self.whole, |value, step| match step {
            Place::Name(name) => &value[name.as_ref()],
            Place::Index(place) => &value[place],
        })
    }

    /// Tries a value of each JSON type. The reader must refuse the types that the description does not admit.
    fn check_types(&self, member: &Member) {
        let at = &member.at;
        let described: BTreeSet<&str> =
            member.kinds.iter().map(|kind| kind["type"].as_str().unwrap_or("any")).collect();
        let admits = |types: &[&str]| types.iter().chain(&["any"]).any(|one| described.contains(one));
        for (value, types) in [
            (json!(true), &["boolean"][..]),
            (json!(7), &["integer", "number"]),
            (json!(7.5), &["number"]),
            (json!("no such text"), &["string"]),
            (json!([]), &["array"]),
            (json!({}), &["object"]),
        ] {
            if !admits(types) {
                self.refuses(at, value);
            }
        }
        match admits(&["null"]) {
            true => self.accepts(at, Value::Null),
            false => self.refuses(at, Value::Null),
        }
        // an amount may be a number or a text
        if admits(&["string"]) && admits(&["integer", "number"]) {
            self.accepts(at, json!(1));
            self.accepts(at, json!("1"));
        }
    }

    fn check_requirement(&self, member: &Member) {
        let Some(required) = member.required else { return };
        let is_required = !self.told(&member.at, None).is_empty();
        self.expect(
            is_required == required,
            &member.at,
            &format!("is described as required: {required}, and is: {is_required}"),
        );
    }

    /// Compares the words of a closed set in the description with the words in the message of a fault. Neither lists
    /// aliases.
    fn check_words(&self, member: &Member, words: &[Value]) {
        for word in words {
            self.accepts(&member.at, word.clone());
        }
        let other = if words[0].is_string() { json!("no such word") } else { json!(9) };
        self.refuses(&member.at, other.clone());
        let told = self.told(&member.at, Some(other));
        let ctx = told.first().and_then(|fault| fault.ctx.as_ref());
        if let Some(expected) = ctx.and_then(|ctx| ctx["expected"].as_str()) {
            let expected: BTreeSet<&str> = expected.split(", ").map(|word| word.trim_matches('\'')).collect();
            let words: Vec<String> =
                words.iter().map(|word| word.as_str().map_or(word.to_string(), str::to_owned)).collect();
            // leave out the empty text, which readers treat as a missing member
            let words: BTreeSet<&str> = words.iter().map(String::as_str).filter(|word| !word.is_empty()).collect();
            self.expect(words == expected, &member.at, &format!("is described with {words:?}, read with {expected:?}"));
        }
    }

    fn check_text(&self, member: &Member, kind: &Value) {
        let at = &member.at;
        if kind["format"] == "date" {
            self.refuses(at, json!("2025-02-30"));
            return self.refuses(at, json!("20251130"));
        }
        let given = self.value(at).as_str().unwrap_or("1");
        let longer = |characters: usize| {
            let first: String = given.chars().take(1).collect();
            json!(first.repeat(characters.saturating_sub(given.chars().count())) + given)
        };
        if kind.get("pattern").is_some() {
            self.refuses(at, json!("!"));
        } else {
            match kind["minLength"].as_u64() {
                Some(1) => self.refuses(at, json!("")),
                Some(_) => self.expect(false, at, "has a least length that this test does not try"),
                None => self.accepts(at, json!("")),
            }
        }
        match kind["maxLength"].as_u64() {
            Some(most) => {
                self.accepts(at, longer(most as usize));
                self.refuses(at, longer(most as usize + 1));
            }
            None if kind.get("pattern").is_none() => self.accepts(at, longer(20_000)),
            None => {}
        }
    }

    fn check_integer(&self, member: &Member, kind: &Value) {
        let bound = |name: &str| kind[name].as_f64().map(|bound| bound as i64);
        let (Some(least), Some(most)) = (bound("minimum"), bound("maximum")) else {
            return self.expect(false, &member.at, "has no range in its description");
        };
        self.accepts(&member.at, json!(least));
        self.accepts(&member.at, json!(most));
        self.refuses(&member.at, json!(least - 1));
        self.refuses(&member.at, json!(most + 1));
    }

    /// Tries lengths of lists. A fault states the largest allowed length.
    fn check_list(&self, member: &Member, kind: &Value) {
        let of = |values: u64| json!(vec![Value::Null; values as usize]);
        match kind["minItems"].as_u64() {
            Some(least) => self.refuses(&member.at, of(least - 1)),
            None => self.accepts(&member.at, of(0)),
        }
        let described = kind["maxItems"].as_u64();
        let told = self.told(&member.at, Some(of(described.unwrap_or(200_000) + 1)));
        let read = told.first().and_then(|fault| fault.ctx.as_ref()?["max_length"].as_u64());
        self.expect(
            read == described,
            &member.at,
            &format!("is described with at most {described:?} values, read with {read:?}"),
        );
    }

    fn check(&self, member: &Member) {
        self.check_requirement(member);
        if member.foreign {
            return;
        }
        self.check_types(member);
        for kind in &member.kinds {
            match (kind["type"].as_str(), kind["enum"].as_array()) {
                (_, Some(words)) => self.check_words(member, words),
                (Some("string"), None) => self.check_text(member, kind),
                (Some("integer"), None) => self.check_integer(member, kind),
                (Some("array"), None) => self.check_list(member, kind),
                _ => {}
            }
        }
    }
}

/// Writes the path to a member as a text, in the form that `asked::note` uses.
fn way(at: &[Place]) -> String {
    let steps = at.iter().map(Place::step);
    steps
        .map(|step| if step == "[]" { step } else { format!(".{step}") })
        .collect::<String>()
        .trim_start_matches('.')
        .to_owned()
}

#[test]
fn each_member_is_read_as_it_is_described() {
    let schemas = Schemas::of_page();
    let mut disagreements = Vec::new();
    for body in bodies() {
        assert_eq!((body.faults)(&serde_json::to_vec(&body.whole).unwrap()), [], "{}", body.name);
        for member in body.members(&schemas) {
            body.check(&member);
        }
        // unknown members are ignored
        assert_eq!(body.told(&["body".into(), "no_such_member".into()], Some(json!([]))), [], "{}", body.name);
        disagreements.extend(body.disagreements.into_inner());
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}

#[test]
fn the_members_that_are_read_are_those_that_are_described() {
    let schemas = Schemas::of_page();
    for body in bodies() {
        asked::take();
        (body.faults)(&serde_json::to_vec(&body.whole).unwrap());
        let read: BTreeSet<String> = asked::take().into_iter().filter(|way| way.starts_with("body")).collect();
        let members = body.members(&schemas);
        let ours = members.iter().filter(|member| !member.foreign && member.required.is_some());
        let described: BTreeSet<String> = ours.map(|member| way(&member.at)).collect();
        assert_eq!(read, described, "{}", body.name);
    }
}

/// Objects of providers have their own readers, which ignore unknown members.
#[test]
fn members_of_payments_transfers_and_published_records_are_read_as_they_are_described() {
    let schemas = Schemas::of_page();
    let of = |name: &str, whole: &Value| -> BTreeSet<String> {
        let mut found = Vec::new();
        schemas.members(&schemas.kinds(&schemas.0[name]), whole, &[], true, &mut found);
        found.iter().filter(|member| member.required.is_some()).map(|member| way(&member.at)).collect()
    };
    let read = |name: &str, whole: Value| -> BTreeSet<String> {
        let body = bodies().into_iter().find(|body| body.name == name).unwrap();
        asked::take();
        (body.faults)(&serde_json::to_vec(&join(&[&body.whole, &whole])).unwrap());
        asked::take().into_iter().filter(|way| !way.starts_with("body")).collect()
    };

    // a reader stops at the first name that is present, so several payments are read to see all names
    let without =
        |changes: Value| join(&[&payment(), &json!({"paid": true, "captured": true, "status": "succeeded"}), &changes]);
    let mut of_payments = BTreeSet::new();
    let returned = without(json!({"type": "refund"}));
    for payment in
        [payment(), without(json!({"lines": []})), without(json!({"object": "charge", "metadata": {}})), returned]
    {
        for provider in ["generic", "stripe"] {
            let found = read("PaymentImportIn", json!({"provider": provider, "payment_object": payment}));
            let is_ours = |way: &String| provider == "generic" || way == "object" || way.starts_with("metadata");
            of_payments.extend(found.into_iter().filter(is_ours));
        }
    }
    let whole =
        read("PaymentImportIn", json!({"provider": "stripe", "payment_object": without(json!({"object": "charge"}))}));
    of_payments.extend(whole.into_iter().filter(|way| way.starts_with("metadata")));
    // described in words only, because generators make names of programs of the names in a schema
    assert!(of_payments.remove("metadata.宛名"));
    assert_eq!(of_payments, of("PaymentObject", &payment()));

    let of_transfers = read("TransfersWithholdingIn", json!({}));
    let transfers = transfers();
    let described = transfers
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|transfer| of("TransferIn", transfer))
        .map(|way| format!("[].{way}"));
    assert_eq!(of_transfers, described.collect());

    let verification = bodies().into_iter().find(|body| body.name == "RegistrationVerifyIn").unwrap();
    for member in verification.members(&schemas).iter().filter(|member| member.foreign) {
        let told = verification.told(&member.at[..3], Some(json!({way(&member.at[3..]): []})));
        assert!(
            told.first().is_some_and(|fault| fault.msg.contains("expected a text")),
            "{:?} is not read: {told:?}",
            member.at
        );
    }
}

/// Checks that an answer is a value of its type, without other members.
fn check_answer<T: serde::Serialize + serde::de::DeserializeOwned>(answer: Value) {
    let read: T = serde_json::from_value(answer.clone()).unwrap_or_else(|error| panic!("{error}: {answer}"));
    assert_eq!(serde_json::to_value(read).unwrap(), answer);
}

#[test]
fn answers_have_the_members_that_are_described() {
    let of = |name: &str, changes: Value| {
        let body = bodies().into_iter().find(|body| body.name == name).unwrap();
        serde_json::to_vec(&join(&[&body.whole, &changes])).unwrap()
    };
    let payees = json!({"payees": [{"name": "山田", "payments": [{"amount": 5, "paid_on": "2025-01-01"}, {"amount": 5, "paid_on": "2024-01-01"}]}]});
    check_answer::<api::office::WithholdingRecords>(
        records(&of("WithholdingRecordsIn", payees), &GIVEN).unwrap().yearly.json(),
    );
    let dollars = json!({"id": "tr_2", "amount": 5, "currency": "usd"});
    let transfers = json!({"transfers": [transfers()[0], dollars]});
    let order = records_of_transfers(&of("TransfersWithholdingIn", transfers), &GIVEN).unwrap();
    assert!(order.yearly.payees.len() == 1 && order.yearly.skipped.len() == 1);
    check_answer::<api::office::WithholdingRecords>(order.yearly.json());

    let rows = json!({"left": [{"n": "x", "a": 1}, {"n": "y", "a": 2}, {"n": "z", "a": "?"}], "right": [{"n": "x", "a": 1.5}, {"n": "y", "a": 9}, {"n": "w", "a": 1}],
        "amount_tolerance": 1});
    let answer: Value = serde_json::from_str(&reconciled(&of("ReconcileIn", rows)).unwrap()).unwrap();
    for group in ["matched", "amount_mismatch", "left_only", "right_only"] {
        assert!(!answer[group].as_array().unwrap().is_empty(), "{group}: {answer}");
    }
    check_answer::<api::office::Reconciliation>(answer);

    let numbers = json!(["T7000012050002", "T1180301018771", "x"]);
    let order = verification(&of("RegistrationVerifyIn", json!({"numbers": numbers}))).unwrap();
    check_answer::<api::office::RegistrationResults>(
        order.answer(&order.checked(GIVEN.today, Limit::NONE).unwrap(), GIVEN.today),
    );
    let order = watch(&of("RegistrationMonitorIn", json!({"watch": numbers}))).unwrap();
    check_answer::<api::office::MonitorResult>(
        order.answer(&order.found(GIVEN.today, Limit::NONE).unwrap(), GIVEN.today),
    );
}
