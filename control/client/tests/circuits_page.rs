//! Checks that the tables of docs/circuits.md agree with the code.
//!
//! `UPDATE_SNAPSHOTS=1 cargo test -p client --test circuits_page` writes the tables.

use std::collections::BTreeMap;

use client::circuits::{Builtin, PREFIX, all, families};
use client::forecast::{Forecast, Inputs};
use client::{Circuit, Preset, netlists};
use kernels::tfhe::mapping::Offers;

/// Preset of the table of sizes.
const PRESET: Preset = Preset::Fast128K2;

/// Widths in the table of sizes, in bits.
const WIDTHS: [usize; 3] = [8, 32, 64];

/// A table: its header, then its rows.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let header: Vec<String> = header.iter().map(|&cell| cell.to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    line(&header) + &line(&rule) + &rows.map(|row| line(&row)).collect::<String>()
}

fn offers() -> String {
    let presets = Preset::ALL.map(|preset| format!("`{}`", preset.name()));
    let header: Vec<&str> = ["cell"].into_iter().chain(presets.iter().map(String::as_str)).collect();
    let offers = Preset::ALL.map(|preset| Offers::of(&preset.params()));
    let row = |name: &str, of: &dyn Fn(&Offers) -> String| {
        [name.to_owned()].into_iter().chain(offers.iter().map(of)).collect::<Vec<_>>()
    };
    let word = |offered: bool| if offered { "yes" } else { "no" }.to_owned();
    let rows = [
        row("AND and its kin, XOR of two", &|_| word(true)),
        row("XOR of three", &|of| word(of.xor3)),
        row("majority, not all equal", &|of| word(of.majority)),
        row("`c ^ (a & b)`, c at an eighth", &|of| word(of.xor_and_of_eighth)),
        row("`c ^ (a & b)`, c at a quarter", &|of| word(of.xor_and_of_quarter)),
        row("pair", &|of| word(of.pair)),
        row("widest parity of quarters", &|of| of.widest_parity.to_string()),
    ];
    table(&header, rows.into_iter())
}

fn names() -> String {
    let rows = families().map(|family| {
        let name = format!("`{}`", family.name.trim_start_matches(PREFIX));
        let endings: Vec<String> = family.endings.iter().map(|ending| format!("`{ending}`")).collect();
        vec![
            name,
            endings.join(", "),
            family.inputs.into(),
            family.outputs.into(),
            family.meaning.replace("_full", "`_full`").replace("_signed", "`_signed`"),
        ]
    });
    table(&["name after `builtin:`", "may end in", "inputs, bits", "outputs, bits", "outputs"], rows)
}

/// Gates, bootstraps and levels of bootstraps.
fn sizes_of(text: &str, inputs: Inputs) -> [String; 3] {
    let circuit = Circuit::parse(text).unwrap();
    let forecast = Forecast::of_cells(&circuit, PRESET, inputs);
    [circuit.gates().len(), forecast.bootstraps, forecast.levels].map(|count| count.to_string())
}

/// The name without its width, and the width.
fn parts(builtin: &Builtin) -> (String, usize) {
    let name = builtin.to_string().trim_start_matches(PREFIX).to_owned();
    let start = name.find(|c: char| c.is_ascii_digit()).unwrap();
    let digits = name[start..].bytes().take_while(u8::is_ascii_digit).count();
    let width = name[start..start + digits].parse().unwrap();
    (format!("{}{}", &name[..start], &name[start + digits..]), width)
}

fn sizes() -> String {
    let is_list = |builtin: &Builtin| builtin.to_string().contains("sort");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for builtin in all().filter(|builtin| !is_list(builtin)) {
        let (name, width) = parts(&builtin);
        if WIDTHS.contains(&width) {
            let name = format!("`{name}`");
            if rows.last().is_none_or(|row| row[0] != name) {
                rows.push(vec![name]);
            }
            rows.last_mut().unwrap().extend(sizes_of(builtin.build().text(), Inputs::Fresh));
        }
    }
    let sizes_by_name: BTreeMap<_, _> = rows.iter().map(|row| (row[0].clone(), row[1..].to_vec())).collect();
    rows.retain(|row| !row[0].contains("_signed") || sizes_by_name[&row[0].replace("_signed", "")] != row[1..]);
    let header = WIDTHS.map(|width| [format!("{width} bits: gates"), "bootstraps".into(), "levels".into()]).concat();
    let header: Vec<&str> = ["circuit"].into_iter().chain(header.iter().map(String::as_str)).collect();
    table(&header, rows.into_iter())
}

fn lists() -> String {
    let builtins = all().map(|builtin| (builtin.to_string(), builtin.build().into_text()));
    let public = netlists::PUBLIC.map(|public| (public.name.to_owned(), public.text.to_owned()));
    let rows = builtins.filter(|(name, _)| name.contains("sort") && !name.contains("_signed")).chain(public).map(
        |(name, text)| {
            let [_, bootstraps, levels] = sizes_of(&text, Inputs::Results);
            let name = format!("`{}`", name.trim_start_matches(PREFIX));
            [name].into_iter().chain(sizes_of(&text, Inputs::Fresh)).chain([bootstraps, levels]).collect()
        },
    );
    table(&["circuit", "gates", "bootstraps", "levels", "inputs are results: bootstraps", "levels"], rows)
}

#[test]
fn the_tables_of_the_page_are_what_the_code_says() {
    let path = format!("{}/../../docs/circuits.md", env!("CARGO_MANIFEST_DIR"));
    let committed = std::fs::read_to_string(&path).unwrap();
    let mut page = committed.clone();
    for (name, table) in [("offers", offers()), ("names", names()), ("sizes", sizes()), ("lists", lists())] {
        let (begin, end) = (format!("<!-- table {name} -->\n"), "<!-- end -->\n");
        let start = page.find(&begin).unwrap_or_else(|| panic!("the page has no table {name}")) + begin.len();
        let length = page[start..].find(end).unwrap();
        page.replace_range(start..start + length, &format!("\n{table}\n"));
    }
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::write(&path, &page).unwrap();
    } else {
        assert!(committed == page, "docs/circuits.md is not up to date: run this test with UPDATE_SNAPSHOTS=1");
    }
}

#[test]
fn the_page_names_every_width_and_length() {
    let page = include_str!("../../../docs/circuits.md").replace('\n', " ");
    let (widths, lengths) = (client::circuits::WIDTHS, client::circuits::LENGTHS);
    for range in [
        format!("{} to {} bits", widths.start(), widths.end()),
        format!("{} to {} numbers", lengths.start(), lengths.end()),
    ] {
        assert!(page.contains(&range), "{range}");
    }
}
