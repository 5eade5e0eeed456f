//! Checks the dependencies among the files of each crate: no circle except between a parent and its direct children,
//! and no dependency on a file of a higher rung.

mod rungs;

use std::collections::{BTreeMap, BTreeSet};

/// The rungs of a crate's files. A file's name is its path from the crate's root, such as `work::bits` or `lib`.
struct Crate {
    /// The folder of the crate's sources, from the project's root.
    folder: &'static str,
    /// The rungs from the lowest to the highest. A file may use files of its own rung and of lower rungs. The name of a
    /// file also stands for the files in the folder of that name, except files that have names of their own in the
    /// table. `lib` is above all rungs.
    rungs: &'static [&'static [&'static str]],
    /// Names of files that every file in the folder of the same name may use, such as the state of an area. In the
    /// folder of any other file, only the file's direct children may use the file.
    shared: &'static [&'static str],
}

/// For each file, the files that it uses. A parent uses its children.
type Names = BTreeMap<String, BTreeSet<String>>;

fn parent(file: &str) -> &str {
    file.rsplit_once("::").map_or("lib", |(parent, _)| parent)
}

fn join(folder: &str, name: &str) -> String {
    if folder == "lib" { name.to_owned() } else { format!("{folder}::{name}") }
}

/// Whether `file` is `other` or lies in the folder of `other`.
fn is_within(file: &str, other: &str) -> bool {
    other == "lib" || file.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Whether the end of this code is inside an inline module, where `super` is the file itself.
fn is_in_module(code: &str) -> bool {
    let item = code.rsplit("\n}").next().unwrap_or(code);
    item.lines().any(|line| !line.starts_with(' ') && line.contains("mod ") && line.ends_with('{'))
}

/// Reads a path, which can have braces, from the start of `text`. Adds the items of the path to `found`: each item's
/// path, and the item's name in this file. Returns the text that follows the path.
fn expand<'t>(prefix: &str, text: &'t str, found: &mut Vec<(String, String)>) -> &'t str {
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
    let word = |text: &'t str| text.split_at(text.find(|c| !is_of_word(c)).unwrap_or(text.len()));
    let (name, rest) = word(text);
    if name.is_empty() && !rest.starts_with('*') {
        return rest; // a trailing comma: no name follows
    }
    let path = match name {
        "super" => parent(prefix).to_owned(),
        "self" | "" => prefix.to_owned(),
        _ => join(prefix, name),
    };
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(&path, rest, found);
    }
    let alias = rest.strip_prefix(" as ").map_or(path.rsplit("::").next().unwrap_or_default(), |rest| word(rest).0);
    found.push((path.clone(), alias.to_owned()));
    rest
}

/// Returns the code of a file without comments and tests, and the names of the file's test modules.
fn code_of(text: &str) -> (String, Vec<&str>) {
    let (mut code, mut tests) = (String::new(), Vec::new());
    for part in text.split("\n#[cfg(") {
        let module = part
            .split_once(")]\nmod ")
            .filter(|(condition, _)| matches!(*condition, "test") || condition.starts_with("all(test,"));
        match module.map(|(_, module)| module.split_once(';').filter(|(name, _)| name.chars().all(is_of_word))) {
            None => code.push_str(part),
            Some(Some((name, rest))) => {
                tests.push(name);
                code.push_str(rest);
            }
            // the rest of the text is a test module in braces, which is the last item of every file that has one
            Some(None) => break,
        }
        code.push('\n');
    }
    let lines: Vec<&str> = code.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    (lines.join("\n"), tests)
}

/// A path that is written in the code of a file.
struct Mention {
    path: String,
    /// The item's name in the file that contains the path.
    name: String,
    /// Whether the path is in a `use`, so that the name is valid in the whole file.
    is_use: bool,
}

/// Finds the paths in a file's code that begin at the crate's root, at the file, at the file's parent or at a child.
fn mentions(file: &str, code: &str, children: &[&str]) -> Vec<Mention> {
    let mut roots: Vec<(&str, &str)> =
        children.iter().map(|child| (child.rsplit("::").next().unwrap_or(child), *child)).collect();
    roots.extend([("crate", "lib"), ("super", parent(file)), ("self", file)]);
    let mut mentions = Vec::new();
    for (root, folder) in roots {
        let root = format!("{root}::");
        for (at, _) in code.match_indices(&root) {
            let before = &code[..at];
            let is_later_part = before.ends_with(|c| is_of_word(c) || c == ':');
            if is_later_part || before.ends_with("(in ") || (root == "super::" && is_in_module(before)) {
                continue;
            }
            let mut found = Vec::new();
            expand(folder, &code[at + root.len()..], &mut found);
            let is_use = before.ends_with("use ");
            mentions.extend(found.into_iter().map(|(path, name)| Mention { path, name, is_use }));
        }
    }
    mentions
}

/// Finds the files that each file uses. `sources` has the text of each file by its path below the crate's folder. If a
/// file uses a re-exported name, the used file is the file that has the item.
fn names(sources: &BTreeMap<String, String>) -> Names {
    let mut codes: BTreeMap<String, _> =
        sources.iter().map(|(path, text)| (path.trim_end_matches(".rs").replace('/', "::"), code_of(text))).collect();
    let of_tests: Vec<String> =
        codes.iter().flat_map(|(file, (_, tests))| tests.iter().map(|name| join(file, name))).collect();
    codes.retain(|file, _| !of_tests.iter().any(|test| is_within(file, test)));

    let files: Vec<&str> = codes.keys().map(String::as_str).collect();
    let children_of = |file: &str| -> Vec<&str> {
        files.iter().copied().filter(|child| *child != "lib" && parent(child) == file).collect()
    };
    let mut mentions: BTreeMap<&str, Vec<Mention>> =
        codes.iter().map(|(file, (code, _))| (file.as_str(), mentions(file, code, &children_of(file)))).collect();
    // leaves out paths into test modules: product code names such a path only to call a hook that exists in builds for
    // tests
    let is_of_tests = |mention: &Mention| of_tests.iter().any(|test| is_within(&mention.path, test));
    mentions.values_mut().for_each(|mentions| mentions.retain(|mention| !is_of_tests(mention)));
    let used = mentions.iter().flat_map(|(file, all)| all.iter().filter(|one| one.is_use).map(move |one| (*file, one)));
    let used: BTreeMap<(&str, &str), &str> =
        used.map(|(file, Mention { path, name, .. })| ((file, name.as_str()), path.as_str())).collect();
    let holder_of = |path: &str| {
        let holders = files.iter().copied().filter(|file| *file != "lib" && is_within(path, file));
        holders.max_by_key(|file| file.len()).unwrap_or("lib")
    };
    let standing = |mention: &Mention| {
        let mut path = mention.path.clone();
        // a chain of re-exports has at most this many files; the bound ends the loop if a file seems to import a name
        // from itself
        for _ in 0..files.len() {
            let file = holder_of(&path);
            let item = if file == "lib" { &path } else { path[file.len()..].trim_start_matches("::") };
            let (name, rest) = item.split_at(item.find("::").unwrap_or(item.len()));
            let Some(from) = used.get(&(file, name)) else { break };
            path = format!("{from}{rest}");
        }
        holder_of(&path).to_owned()
    };
    let named = |(file, all): (&&str, &Vec<Mention>)| {
        let children = children_of(file).into_iter().map(str::to_owned);
        let named: BTreeSet<String> = all.iter().map(standing).chain(children).filter(|other| other != file).collect();
        ((*file).to_owned(), named)
    };
    mentions.iter().map(named).collect()
}

impl Crate {
    /// Lists the faults of circles: each use of one file by another file of the same circle.
    fn circles(&self, names: &Names) -> Vec<String> {
        let mut names = names.clone();
        for (file, named) in &mut names {
            named.retain(|other| {
                let may = other == parent(file) || self.shared.contains(&other.as_str());
                !(may && is_within(file, other))
            });
        }
        let mut of_circles = names.clone();
        for (file, named) in &mut of_circles {
            named.retain(|other| reached(&names, other).contains(file.as_str()));
        }
        pairs(&of_circles)
    }

    /// Returns the rung of a file: the rung of the longest name in the table that stands for the file.
    fn rung(&self, file: &str) -> Option<usize> {
        let places =
            self.rungs.iter().enumerate().flat_map(|(rung, names)| names.iter().map(move |name| (rung, *name)));
        places.filter(|(_, name)| is_within(file, name)).max_by_key(|(_, name)| name.len()).map(|(rung, _)| rung)
    }

    /// Lists the other faults: uses of files on higher rungs, files that are not in the table, and names in the table
    /// without a file.
    fn upwards(&self, names: &Names) -> Vec<String> {
        let missing = self.rungs.iter().copied().flatten().filter(|name| !names.contains_key(**name));
        let mut faults: Vec<String> = missing.map(|name| format!("the crate has no {name}")).collect();
        let mut upward = names.clone();
        upward.remove("lib");
        for (file, named) in &mut upward {
            let Some(place) = self.rung(file) else {
                faults.push(format!("{file} is on no rung"));
                named.clear();
                continue;
            };
            // a parent may use its children, whatever their rung, because it declares them as modules
            named.retain(|other| {
                let is_root = other == "lib" && self.shared.contains(&"lib");
                !is_root && !is_within(other, file) && self.rung(other).is_none_or(|other| other > place)
            });
        }
        faults.extend(pairs(&upward));
        faults
    }

    fn check(&self) {
        let sources = super::sources(self.folder, &[".rs"]).into_iter().map(|(path, text)| {
            let path = path.strip_prefix(self.folder).expect("below the folder").trim_start_matches('/').to_owned();
            (path, text)
        });
        let names = names(&sources.filter(|(path, _)| path != "main.rs").collect());
        assert!(names.len() > 10, "the files of {} were not read: {names:?}", self.folder);
        for (faults, what) in [(self.circles(&names), "in a circle"), (self.upwards(&names), "upwards")] {
            assert!(faults.is_empty(), "{}, {what}:\n  {}", self.folder, faults.join("\n  "));
        }
    }
}

fn pairs(names: &Names) -> Vec<String> {
    names.iter().flat_map(|(file, named)| named.iter().map(move |other| format!("{file} names {other}"))).collect()
}

/// Returns all files that a file uses, directly or through other files.
fn reached<'n>(names: &'n Names, file: &'n str) -> BTreeSet<&'n str> {
    let (mut reached, mut left) = (BTreeSet::new(), vec![file]);
    while let Some(file) = left.pop() {
        let named = names.get(file).into_iter().flatten().map(String::as_str);
        left.extend(named.filter(|other| reached.insert(*other)));
    }
    reached
}

#[test]
fn no_file_of_the_service_names_one_above_it_or_is_in_a_circle() {
    rungs::CONTROL.check();
}

#[test]
fn no_file_of_the_kernels_names_one_above_it_or_is_in_a_circle() {
    rungs::KERNELS.check();
}

#[test]
fn no_file_of_the_engine_names_one_above_it_or_is_in_a_circle() {
    rungs::ENGINE.check();
    rungs::FLEET.check();
}

#[test]
fn no_file_of_the_store_names_one_above_it_or_is_in_a_circle() {
    rungs::STORE.check();
}

#[test]
fn no_file_of_the_client_names_one_above_it_or_is_in_a_circle() {
    rungs::CLIENT.check();
}

#[test]
fn no_file_of_the_api_types_names_one_above_it_or_is_in_a_circle() {
    rungs::API.check();
}

#[test]
fn no_file_of_the_documents_names_one_above_it_or_is_in_a_circle() {
    rungs::DOCS_MODULE.check();
}

#[test]
fn a_circle_and_a_name_from_above_are_found() {
    let names_of = |sources: &[(&str, &str)]| {
        names(&sources.iter().map(|&(path, text)| (path.to_owned(), text.to_owned())).collect())
    };
    let rungs: &[&[&str]] = &[&["clock"], &["web"], &["app"]];
    let order = Crate { folder: "", rungs, shared: &[] };
    let tree = names_of(&[
        ("lib.rs", "pub mod app;\nmod clock;\n#[cfg(test)]\nmod trial;\npub use web::Web;"),
        ("web.rs", "mod edge;\nuse crate::clock::Clock;\npub struct Web;"),
        ("web/edge.rs", "use super::Web;\nuse crate::web::{self, json};"),
        ("clock.rs", "// use crate::web;\nfn f() {}\n#[cfg(test)]\nmod tests {\n use crate::app;\n}"),
        ("app.rs", "use crate::{\n    clock::{Clock, Timestamp as T},\n    web::edge::answer,\n};"),
        ("trial.rs", "use crate::app;"),
    ]);
    assert_eq!(tree["app"].iter().collect::<Vec<_>>(), ["clock", "web::edge"]);
    assert!(!tree.contains_key("trial"));
    assert_eq!((order.circles(&tree), order.upwards(&tree)), (vec![], vec![]));

    let siblings = names_of(&[
        ("web.rs", "pub use b::f;"),
        ("web/a.rs", "use super::f;"),
        ("web/b.rs", "fn f() { crate::web::a::g() }"),
        ("app.rs", "use crate::web::a;"),
    ]);
    assert_eq!(order.circles(&siblings), ["web::a names web::b", "web::b names web::a"]);

    let deep = names_of(&[("web.rs", ""), ("web/a.rs", ""), ("web/a/b.rs", "use crate::web::Web;")]);
    assert_eq!(order.circles(&deep), ["web names web::a", "web::a names web::a::b", "web::a::b names web"]);
    assert_eq!(Crate { folder: "", rungs, shared: &["web"] }.circles(&deep), [""; 0]);

    let upward = names_of(&[
        ("lib.rs", "pub use web::Web;"),
        ("clock.rs", "use crate::{Web, fail};"),
        ("web.rs", ""),
        ("odd.rs", ""),
    ]);
    let faults = ["the crate has no app", "odd is on no rung", "clock names lib", "clock names web"];
    assert_eq!(order.upwards(&upward), faults);
}
