//! Compares the texts of a stem with one another, with the table of stems and with the catalogue.

#[cfg(feature = "wgpu")]
mod wgsl;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::*;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the project").to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).expect(path)
}

/// Finds the numbered steps of a text, `// (1) ..` and so on, in the order of their numbers.
fn steps(text: &str) -> BTreeMap<u32, String> {
    let mut steps = BTreeMap::new();
    for line in text.lines().map(str::trim).filter_map(|line| line.strip_prefix("// (")) {
        let Some((number, _)) = line.split_once(") ") else { continue };
        if let Ok(number) = number.parse() {
            assert!(steps.insert(number, line.to_owned()).is_none(), "a second step {number}: {line}");
        }
    }
    steps
}

#[test]
fn a_stem_has_the_same_steps_in_every_language() {
    let of_stem = |&StemInfo { name, cpu, .. }: &StemInfo| cpu.map(|cpu| (name, name, format!("{cpu}/{name}.rs")));
    let of_helper = |&Helper { cuda, wgsl, cpu }: &Helper| (cuda, wgsl, cpu.to_owned());
    for (cuda, wgsl, cpu) in STEMS.iter().filter_map(of_stem).chain(HELPERS.iter().map(of_helper)) {
        let expected = steps(&text(&format!("kernels/src/{cpu}")));
        assert!(expected.keys().copied().eq(1..=expected.len() as u32), "{cpu} has steps {:?}", expected.keys());
        assert!(!expected.is_empty(), "{cpu} has no steps");
        for shader in [format!("shaders/{cuda}.cu"), format!("shaders/{wgsl}.wgsl")] {
            assert_eq!(steps(&text(&shader)), expected, "{shader} against {cpu}");
        }
    }
    for StemInfo { name, .. } in STEMS.iter().filter(|stem| stem.cpu.is_none()) {
        for shader in [format!("shaders/{name}.cu"), format!("shaders/{name}.wgsl")] {
            assert!(steps(&text(&shader)).is_empty(), "{shader} has steps that no CPU text has");
        }
    }
    for variant in ["shaders/blind_rotate.warp.cu", "shaders/blind_rotate.cluster.cu"] {
        let found = steps(&(text("shaders/blind_rotate.registers.cu") + &text(variant)));
        assert_eq!(found, steps(&text("kernels/src/tfhe/cpu/blind_rotate.rs")), "{variant} and its helpers");
    }
}

/// Finds the names of the functions that follow `mark` and `keyword`, with optional launch bounds before the name.
fn marked(text: &str, mark: &str, keyword: &str) -> BTreeSet<String> {
    let name = |rest: &str| {
        let declared = &rest[rest.find(keyword).expect("a function behind its mark") + keyword.len()..];
        let before_parentheses =
            declared.split('(').map(|part| part.rsplit(char::is_whitespace).next().unwrap_or(part));
        let mut names = before_parentheses.filter(|&name| name != "__launch_bounds__");
        names.next().expect("a name").to_owned()
    };
    text.split(mark).skip(1).map(name).collect()
}

#[test]
fn the_table_has_every_entry_of_the_texts() {
    for StemInfo { name, entries, .. } in STEMS {
        let variants: BTreeSet<Option<&str>> = entries.iter().map(|entry| entry.variant).collect();
        for variant in variants {
            let expected = entries.iter().filter(|entry| entry.variant == variant);
            let expected: BTreeSet<String> = expected.map(|entry| entry.name.to_owned()).collect();
            let file =
                [&["shaders/", name][..], &variant.map_or(vec![], |variant| vec![".", variant])].concat().concat();
            assert_eq!(marked(&text(&format!("{file}.cu")), "extern \"C\" __global__", "void "), expected, "{file}.cu");
            if variant.is_none() {
                assert_eq!(marked(&text(&format!("{file}.wgsl")), "@compute", "fn "), expected, "{file}.wgsl");
            }
        }
    }
}

#[test]
fn the_catalogue_has_every_text_and_knows_stems_from_helpers() {
    let catalogue = text("shaders/README.md");
    let rows = catalogue.lines().filter(|line| line.starts_with("| `"));
    // each name in the first column, with true if its row describes a stem; the row of a helper has `-` as its unit of
    // work
    let named = rows.flat_map(|row| {
        let cells: Vec<&str> = row.split(" | ").collect();
        let is_stem = cells[2] != "-";
        cells[0].split('`').skip(1).step_by(2).map(move |name| (name.to_owned(), is_stem)).collect::<Vec<_>>()
    });
    let named: BTreeMap<String, bool> = named.collect();
    let of_stem = |stem: &StemInfo| {
        let variants = stem.entries.iter().filter_map(|entry| entry.variant);
        [stem.name.to_owned()]
            .into_iter()
            .chain(variants.map(|variant| format!("{}.{variant}", stem.name)))
            .collect::<Vec<_>>()
    };
    let expected: BTreeSet<String> = STEMS.iter().flat_map(of_stem).collect();
    let launched = named.iter().filter(|(_, is_stem)| **is_stem).map(|(name, _)| name.clone());
    assert_eq!(launched.collect::<BTreeSet<_>>(), expected, "rows of shaders/README.md with a unit of work");

    let files =
        std::fs::read_dir(root().join("shaders")).expect("shaders").map(|entry| entry.expect("an entry").path());
    let mut found = BTreeSet::new();
    for file in files.filter(|path| path.extension().is_some_and(|ending| ending == "cu" || ending == "wgsl")) {
        let text = std::fs::read_to_string(&file).expect("text");
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{} has a long line", file.display());
        found.insert(file.file_stem().expect("a name").to_string_lossy().into_owned());
    }
    assert_eq!(named.into_keys().collect::<BTreeSet<_>>(), found, "names in shaders/README.md against its files");
}
