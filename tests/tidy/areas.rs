//! The files of `control/src` among one another: no circle but a parent with its children, and no `use` that runs up.

use std::collections::{BTreeMap, BTreeSet};

/// From the ground up: a file names files of its own rung and of those below.
const RUNGS: [&[&str]; 13] = [
    // what serves all
    &[
        "blobs",
        "resource",
        "cache_store",
        "caller",
        "clock",
        "data_dir",
        "fail_point",
        "ids",
        "in_flight",
        "parsers",
        "probe",
        "sealing",
        "secrets",
        "telemetry",
        "tls",
    ],
    // the areas; the door to the engine lies below the prices of its gates
    &["web"],
    &["events"],
    &["access"],
    &["compute::engine"],
    &["billing"],
    &["compute"],
    &["office"],
    &["docs"],
    // what makes a node of them
    &["config", "database", "listener"],
    &["admin", "router"],
    &["app"],
    &["cli"],
];

/// Which modules each module names; a parent its children.
type Names = BTreeMap<String, BTreeSet<String>>;

/// Whether a module is another one or lies in it.
fn is_within(module: &str, other: &str) -> bool {
    module.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Expands a path, braces too, into `found`; what follows it.
fn expand<'t>(prefix: &str, text: &'t str, found: &mut Vec<String>) -> &'t str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = expand(prefix, rest, found);
            rest = &rest[rest.find([',', '}']).unwrap_or(rest.len())..];
            match rest.strip_prefix(',') {
                Some(more) => rest = more,
                None => return rest.strip_prefix('}').unwrap_or(rest),
            }
        }
    }
    let (name, rest) = text.split_at(text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len()));
    let path = format!("{prefix}::{name}");
    match rest.strip_prefix("::") {
        Some(rest) if name == "super" => {
            let parent = prefix.rsplit_once("::").map_or("", |(parent, _)| parent);
            expand(parent, rest, found)
        }
        Some(rest) => expand(&path, rest, found),
        None => {
            found.push(path);
            rest
        }
    }
}

/// What the files name outside their tests, by module. Sources by path in `control/src`.
fn names(sources: &BTreeMap<String, String>) -> Names {
    let module = |path: &str| path.trim_end_matches(".rs").replace('/', "::");
    let modules: BTreeSet<String> = sources.keys().map(|path| module(path)).collect();
    let known = |path: &str| {
        let within = modules.iter().filter(|module| is_within(path.trim_start_matches("::"), module));
        within.max_by_key(|module| module.len()).cloned()
    };
    let named = |(path, text): (&String, &String)| {
        let this = module(path);
        let code = text.split("\nmod tests").next().unwrap_or_default();
        let code: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        let code = code.join("\n");
        let mut paths = Vec::new();
        for (root, prefix) in [("crate::", ""), ("super::", this.rsplit_once("::").map_or("", |(parent, _)| parent))] {
            for (at, _) in code.match_indices(root) {
                if !code[..at].ends_with(':') {
                    expand(prefix, &code[at + root.len()..], &mut paths);
                }
            }
        }
        let mut named: BTreeSet<String> = paths.iter().filter_map(|path| known(path)).collect();
        named.remove(&this);
        named.extend(
            modules.iter().filter(|child| child.rsplit_once("::").is_some_and(|(parent, _)| parent == this)).cloned(),
        );
        (this, named)
    };
    sources.iter().map(named).collect()
}

/// Modules that know each other in a circle, and those between circles; a child may know those that it lies in.
fn circles(names: &Names) -> Vec<String> {
    let mut left: Names = names.clone();
    for (module, named) in &mut left {
        named.retain(|other| !is_within(module, other));
    }
    loop {
        let before = left.len();
        let known: BTreeSet<String> = left.values().flatten().cloned().collect();
        left.retain(|module, named| !named.is_empty() && known.contains(module));
        let modules: BTreeSet<String> = left.keys().cloned().collect();
        left.values_mut().for_each(|named| named.retain(|other| modules.contains(other)));
        if left.len() == before {
            return left.into_keys().collect();
        }
    }
}

/// Where a module stands: by the longest name in the table.
fn rung(module: &str) -> Option<usize> {
    let places = RUNGS.iter().enumerate().flat_map(|(rung, names)| names.iter().map(move |name| (rung, *name)));
    places.filter(|(_, name)| is_within(module, name)).max_by_key(|(_, name)| name.len()).map(|(rung, _)| rung)
}

/// What names something above itself, or has no place in the table.
fn upwards(names: &Names) -> Vec<String> {
    let mut faults = Vec::new();
    for (module, named) in names {
        let Some(place) = rung(module) else {
            faults.push(format!("{module} is on no rung"));
            continue;
        };
        // a parent has the module declarations of its children, whatever rung they are on
        let up =
            named.iter().filter(|other| !is_within(other, module) && rung(other).is_none_or(|other| other > place));
        faults.extend(up.map(|other| format!("{module} names {other}")));
    }
    faults
}

#[test]
fn no_file_of_the_service_names_one_above_it_or_is_in_a_circle() {
    let sources = super::sources("control/src", &[".rs"]).into_iter().map(|(path, text)| {
        let path = path.strip_prefix("control/src/").expect("below the folder").to_owned();
        (path, text)
    });
    let sources = sources.filter(|(path, _)| !["lib.rs", "main.rs"].contains(&path.as_str())).collect();
    let names = names(&sources);
    assert!(names["access"].contains("clock"), "the files were not read: {:?}", names["access"]);
    assert_eq!(circles(&names), [""; 0], "in circles");
    assert_eq!(upwards(&names), [""; 0], "upwards");
}

#[test]
fn a_circle_and_a_name_from_above_are_found() {
    let names_of = |sources: &[(&str, &str)]| {
        names(&sources.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect())
    };
    let tree = names_of(&[
        ("web.rs", "mod edge;\nuse crate::clock::Clock;\npub struct Web;"),
        ("web/edge.rs", "use super::Web;\nuse crate::web::{self, json};"),
        ("clock.rs", "// use crate::web;\nfn f() {}\n#[cfg(test)]\nmod tests {\n use crate::app;\n}"),
        ("app.rs", "use crate::{\n    clock::{Clock, Timestamp as T},\n    web::edge::answer,\n};"),
    ]);
    assert_eq!(tree["app"].iter().collect::<Vec<_>>(), ["clock", "web::edge"]);
    assert_eq!((circles(&tree), upwards(&tree)), (vec![], vec![]));

    let siblings = names_of(&[
        ("web.rs", ""),
        ("web/a.rs", "use super::b::f;"),
        ("web/b.rs", "fn f() { crate::web::a::g() }"),
        ("app.rs", "use crate::web::a;"),
    ]);
    assert_eq!(circles(&siblings), ["web::a", "web::b"]);

    let upward = names_of(&[("clock.rs", "use crate::access::{Access, limits};"), ("access.rs", ""), ("odd.rs", "")]);
    assert_eq!(upwards(&upward), ["clock names access", "odd is on no rung"]);
}
