//! Puts the migrations' texts into the build, as `(version, description, text)`, in the order of their versions.
//!
//! The driver's own macro does this too. But that macro would compile both drivers, including SQLite's C code, a second
//! time for the build machine.

use std::path::Path;
use std::{env, fs};

fn main() {
    println!("cargo:rerun-if-changed=migrations");
    let root = env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
    let tables = ["sqlite", "postgres"].map(|database| {
        let folder = Path::new(&root).join("migrations").join(database);
        format!("pub static {}: &[(i64, &str, &str)] = &[{}];\n", database.to_uppercase(), entries(&folder))
    });
    let out = env::var("OUT_DIR").expect("cargo sets it");
    fs::write(Path::new(&out).join("migrations.rs"), tables.concat()).expect("the table is written");
}

/// Returns the table's entry for each migration in a folder, in the order of their versions. A file's name is
/// `<version>_<description>.sql`.
fn entries(folder: &Path) -> String {
    let files = fs::read_dir(folder).expect("a folder of migrations").map(|file| file.expect("a file").path());
    let mut entries: Vec<(i64, String)> = files
        .map(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("a name");
            let (version, description) = name.split_once('_').expect("a version and a description");
            let version = version.parse().expect("a number in front");
            (version, format!("({version}, {:?}, include_str!({path:?})),", description.replace('_', " ")))
        })
        .collect();
    entries.sort_unstable();
    entries.into_iter().map(|(_, entry)| entry).collect()
}
