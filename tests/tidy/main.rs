//! Checks rules that the compiler does not check: the dependencies between crates (ARCHITECTURE.md), the licences, and
//! what files of the project may contain.

mod areas;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, MetadataCommand, Package};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the suite lies in the project")
}

/// Reads the workspace's packages, without their dependencies.
fn workspace() -> cargo_metadata::Metadata {
    MetadataCommand::new().current_dir(root()).no_deps().exec().expect("cargo metadata")
}

/// Reads the packages of the workspace and all their dependencies on this machine's platform.
fn graph() -> cargo_metadata::Metadata {
    let rustc = std::process::Command::new("rustc").arg("-vV").output().expect("rustc");
    let rustc = String::from_utf8(rustc.stdout).expect("text");
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: ")).expect("rustc names its host");
    MetadataCommand::new()
        .current_dir(root())
        .other_options(["--offline".into(), "--locked".into(), "--filter-platform".into(), host.into()])
        .exec()
        .expect("cargo metadata")
}

/// Reads every file below `folder` whose name ends with one of these endings. Returns the texts by path, relative to
/// the project.
fn sources(folder: &str, endings: &[&str]) -> BTreeMap<String, String> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).expect("a readable folder").map(|entry| entry.expect("an entry").path())
        {
            let name = entry.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if entry.is_dir()
                && !matches!(name.as_str(), "target" | "node_modules" | ".git" | "ango-data" | "__pycache__")
            {
                walk(&entry, found);
            } else if entry.is_file() {
                found.push(entry);
            }
        }
    }
    let mut found = Vec::new();
    walk(&root().join(folder), &mut found);
    found
        .into_iter()
        .filter(|path| endings.iter().any(|ending| path.to_string_lossy().ends_with(ending)))
        .map(|path| {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            (path.strip_prefix(root()).expect("below the root").to_string_lossy().into_owned(), text)
        })
        .collect()
}

/// Whether the code of a text, without its comments, uses the crate: `name::` or `use name`.
fn names_crate(text: &str, name: &str) -> bool {
    text.lines().map(str::trim_start).filter(|line| !line.starts_with("//")).any(|line| {
        line.match_indices(name).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            let after = &line[at + name.len()..];
            !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':' || c == '.') && after.starts_with("::")
        })
    })
}

fn normal_dependencies(package: &Package) -> Vec<&str> {
    package
        .dependencies
        .iter()
        .filter(|dependency| dependency.kind == DependencyKind::Normal)
        .map(|dependency| dependency.name.as_str())
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let allowed: BTreeMap<&str, &[&str]> = BTreeMap::from([
        ("kernels", &[][..]),
        ("engine", &["kernels"][..]),
        ("api", &[][..]),
        ("docs-module", &[][..]),
        ("fleet", &[][..]),
        ("seal", &[][..]),
        ("store", &["api"][..]),
        ("client", &["kernels", "api"][..]),
        ("control", &["engine", "api", "docs-module", "fleet", "seal", "store", "client"][..]),
        ("ango", &["control"][..]),
    ]);
    let metadata = workspace();
    let ours: Vec<&str> = metadata.workspace_packages().into_iter().map(|package| package.name.as_str()).collect();
    for package in metadata.workspace_packages() {
        let name = package.name.as_str();
        let Some(allowed) = allowed.get(name) else {
            let is_product = !["crosscheck", "benches", "fuzz", "tidy"].contains(&name) && !name.starts_with("tests-");
            assert!(!is_product, "what may {name} know?");
            continue;
        };
        for dependency in normal_dependencies(package) {
            assert!(!ours.contains(&dependency) || allowed.contains(&dependency), "{name} must not know {dependency}");
        }
    }
}

#[test]
fn the_product_carries_no_tfhe_crate_and_kernels_carry_no_runtime() {
    for package in workspace().workspace_packages() {
        let dependencies = normal_dependencies(package);
        let banned: &[&str] = match package.name.as_str() {
            "kernels" | "engine" => &["tfhe", "tokio", "axum", "serde_json", "sqlx"],
            "api" => &["tfhe", "tokio", "axum", "sqlx"],
            "client" | "fleet" | "seal" | "store" | "control" => &["tfhe"],
            _ => &[],
        };
        for name in banned {
            assert!(!dependencies.contains(name), "{} must not depend on {name}", package.name);
        }
    }
}

#[test]
fn each_door_is_one_file() {
    let control = sources("control/src", &[".rs"]);
    let doors: [(&str, &[&str]); 5] = [
        ("engine", &["control/src/work"]),
        // only the file for secret keys that the server makes, and the command-line client, use secret keys
        ("client", &["control/src/compute/held_keys.rs", "control/src/cli/"]),
        // the broker
        ("async_nats", &[]),
        ("sqlx", &[]),
        ("redis", &["control/src/cache_store"]),
    ];
    for (name, files) in doors {
        for (path, text) in &control {
            let may = files.iter().any(|door| path.starts_with(door));
            assert!(may || !names_crate(text, name), "{path} names crate {name}");
        }
    }
    for (path, text) in sources("control/fleet/src", &[".rs"]) {
        assert!(
            path == "control/fleet/src/nats.rs" || !names_crate(&text, "async_nats"),
            "{path} names crate async_nats"
        );
    }
    for (path, text) in sources("kernels/src", &[".rs"]) {
        // `queue.rs` is unsafe because it compiles WGSL without run-time checks; the suites run the same texts with all
        // checks
        let places = ["kernels/src/cpu", "kernels/src/tfhe/cpu", "kernels/src/cuda", "kernels/src/wgpu/queue.rs"];
        let may = places.iter().any(|place| path.starts_with(place));
        assert!(may || !text.contains("unsafe {"), "{path} is unsafe: only the interfaces to vectors and cards may be");
    }
}

#[test]
fn only_the_worker_of_the_process_knows_the_ids_of_the_engine() {
    for (path, text) in sources("control/src", &[".rs"]) {
        let may = path == "control/src/work/here.rs";
        // the engine's ids end with the process; everything else uses names that hold beyond it
        for id in ["engine::SessionId", "engine::OperationId"] {
            assert!(may || !text.contains(id), "{path} names {id}");
        }
    }
}

#[test]
fn the_wings_of_compute_do_not_name_each_other() {
    for (wing, other) in [("bits", "numbers"), ("numbers", "bits")] {
        let files = sources(&format!("control/src/compute/{wing}"), &[".rs"]);
        assert!(files.len() > 5, "the files were not found");
        for (path, text) in files {
            assert!(!text.contains(&format!("compute::{other}")), "{path} names the other wing");
        }
    }
}

/// Files and folders of `kernels` that must not use the modules of any scheme.
const BELOW_SCHEMES: [&str; 13] = [
    "bytes.rs",
    "modular.rs",
    "ring.rs",
    "xof.rs",
    "security.rs",
    "error.rs",
    "backend",
    "cpu.rs",
    "cpu/",
    "gpu.rs",
    "gpu/",
    "cuda",
    "wgpu",
];

/// The modules of `kernels` for the scheme of gates, and for the scheme of numbers.
const GATES: [&str; 2] = ["tfhe", "tfhe_rs"];
const NUMBERS: [&str; 1] = ["ckks"];

/// Checks that the code of `kernels` below this path names none of these modules. Test files are skipped.
fn name_none(folder: &str, modules: &[&str]) {
    let sources = sources("kernels/src", &[".rs"]).into_iter();
    let sources = sources.filter(|(path, _)| !path.ends_with("/tests.rs") && !path.contains("/tests/"));
    let files: Vec<_> = sources.filter(|(path, _)| path.starts_with(&format!("kernels/src/{folder}"))).collect();
    assert!(!files.is_empty(), "kernels/src/{folder} is missing");
    for (path, text) in files {
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            // `-` is a part of a word, because a name such as `tfhe-rs` is not the module `tfhe`
            let mut words = line.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'));
            assert!(!words.any(|word| modules.contains(&word)), "{path} names a scheme: {line}");
        }
    }
}

#[test]
fn the_column_of_kernels_only_looks_down() {
    for below in BELOW_SCHEMES {
        name_none(below, &[&GATES[..], &NUMBERS].concat());
    }
}

#[test]
fn no_scheme_of_kernels_names_the_other() {
    name_none("tfhe", &NUMBERS);
    name_none("ckks", &GATES);
}

/// The files of `engine` that may use a scheme: the tasks, the thread of a device, the bounds, and the crate's public
/// items.
const SCHEMES_OF_ENGINE: [&str; 4] = ["task", "device.rs", "config.rs", "lib.rs"];

#[test]
fn the_engine_but_for_its_tasks_works_for_any_scheme() {
    let mut seen = 0;
    for (path, text) in sources("engine/src", &[".rs"]) {
        let within = path.strip_prefix("engine/src/").expect("below the folder");
        let is_test = within.ends_with("/tests.rs") || within.contains("/tests/");
        if is_test || SCHEMES_OF_ENGINE.iter().any(|file| within.starts_with(file)) {
            continue;
        }
        seen += 1;
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            for word in line.to_lowercase().split(|c: char| !c.is_alphanumeric()) {
                let scheme = ["tfhe", "ckks", "lwe", "gate", "gates", "bootstrap", "bootstraps"].contains(&word);
                assert!(!scheme, "{path} names a scheme: {line}");
            }
        }
    }
    assert!(seen > 15, "the files were not found");
}

#[test]
fn nothing_below_control_reads_the_environment_or_the_clock_of_the_wall() {
    for folder in ["kernels/src", "control/api/src", "control/seal/src", "control/store/src", "engine/src"] {
        for (path, text) in sources(folder, &[".rs"]) {
            assert!(!text.contains("std::env::var"), "{path} reads the environment");
            assert!(!text.contains("SystemTime::now"), "{path} reads the clock");
        }
    }
}

#[test]
fn files_have_one_reason_to_exist() {
    for folder in ["kernels", "engine", "control", "docs-module", "tests", "benches"] {
        for (path, text) in sources(folder, &[".rs"]) {
            let lines = text.lines().count();
            assert!(lines <= 700, "{path} has {lines} lines");
        }
    }
}

#[test]
fn every_test_that_is_left_out_of_a_fleet_exists_and_has_a_reason() {
    let folder = root().join("tests/service/platform");
    let list = std::fs::read_to_string(folder.join("left_out_of_a_fleet.txt")).expect("the list");
    let mut names = std::collections::BTreeSet::new();
    for line in list.lines().filter(|line| !line.starts_with('#') && !line.is_empty()) {
        let (name, reason) = line.split_once("  ").expect("a name, two spaces, a reason");
        let (module, test) = name.split_once("::").expect("module::test");
        let text = std::fs::read_to_string(folder.join(format!("{module}.rs"))).expect("the module's file");
        assert!(text.contains(&format!("async fn {test}()")), "{name} is no test");
        assert!(!reason.trim().is_empty() && names.insert(name), "{name} needs one reason");
    }
}

#[test]
fn every_setting_is_in_the_sample() {
    let sample = std::fs::read_to_string(root().join(".env.sample")).expect(".env.sample");
    let mut seen = 0;
    for (path, text) in sources("control/src", &[".rs"]) {
        for word in text.split(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')) {
            let setting = (word.starts_with("ANGO_") || word.starts_with("SERVICE_")) && !word.ends_with('_');
            let client_side = path.starts_with("control/src/cli/");
            // these words are not settings: an error code with the same prefix, two variables of tests, and two
            // variables of the quickstart's client
            const NO_SETTINGS: [&str; 5] =
                ["SERVICE_UNAVAILABLE", "ANGO_FAIL_POINT", "ANGO_CLOCK_AHEAD", "ANGO_URL", "ANGO_API_KEY"];
            let no_setting = NO_SETTINGS.contains(&word);
            if setting && !client_side && !no_setting {
                seen += 1;
                assert!(sample.contains(word), "{word} of {path} is not in .env.sample");
            }
        }
    }
    assert!(seen > 0, "the settings were not found");
}

#[test]
fn licences_are_permissive() {
    const ALLOWED: [&str; 14] = [
        "MIT",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "ISC",
        "Zlib",
        "Unicode-3.0",
        "BSL-1.0",
        "Unlicense",
        "0BSD",
        "MIT-0",
        "CC0-1.0",
        "CDLA-Permissive-2.0",
        "Apache-2.0 WITH LLVM-exception",
    ];
    // this licence leaves patents to the vendor's terms, so only tests and benches may depend on packages under it
    const TEST_ONLY: [&str; 1] = ["BSD-3-Clause-Clear"];
    for package in graph().packages {
        let Some(licence) = &package.license else {
            panic!("{} names no licence", package.name);
        };
        let acceptable = licence.replace('/', " OR ").split(" OR ").any(|choice| {
            choice.split(" AND ").all(|name| {
                let name = name.trim().trim_matches(['(', ')']);
                ALLOWED.contains(&name) || TEST_ONLY.contains(&name)
            })
        });
        assert!(acceptable, "{}: {licence}", package.name);
    }
}

#[test]
fn the_tree_speaks_only_of_the_project() {
    for folder in ["kernels", "shaders", "engine", "control", "docs-module", "tests", "benches", "docs", ".ci"] {
        for (path, text) in
            sources(folder, &[".rs", ".cu", ".wgsl", ".h", ".cpp", ".md", ".sql", ".py", ".mjs", "run", ".toml"])
        {
            for top in ["work", "root", "home"] {
                let is_absolute =
                    |at: usize| !text[..at].ends_with(|c: char| c.is_alphanumeric() || "_-.}".contains(c));
                let folder = format!("/{top}/");
                let mut found = text.match_indices(&folder);
                assert!(!found.any(|(at, _)| is_absolute(at)), "{path} names a path of one machine");
            }
        }
    }
}
