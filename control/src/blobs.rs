//! Large bytes in files of the data folder, named by their digest.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use sha2::{Digest as _, Sha256};

use crate::ids;

/// A file that nobody names is left alone this long: its record may be about to be written.
const UNNAMED: Duration = Duration::from_secs(3600);

/// A folder of such files. Clones share it.
#[derive(Clone, Debug)]
pub struct Blobs {
    folder: PathBuf,
}

impl Blobs {
    /// Makes the folder (mode 0700) if it is not there.
    pub fn open(folder: PathBuf) -> io::Result<Blobs> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&folder)?;
        Ok(Blobs { folder })
    }

    /// Writes bytes to the disk; the name to find them by.
    pub fn put(&self, bytes: &[u8]) -> io::Result<String> {
        let name = hex(&Sha256::digest(bytes));
        let aside = self.folder.join(format!("{name}.{}", hex(&ids::random::<8>())));
        let written = write(&aside, bytes).and_then(|()| fs::rename(&aside, self.folder.join(&name)));
        if written.is_err() {
            // what is left of it is swept later
            let _ = fs::remove_file(&aside);
        }
        written?;
        // the name must be on the disk too before anybody relies on it
        File::open(&self.folder)?.sync_all()?;
        Ok(name)
    }

    /// The bytes of this name.
    pub fn get(&self, name: &str) -> io::Result<Vec<u8>> {
        match name.bytes().all(|c| c.is_ascii_hexdigit()) {
            true => fs::read(self.folder.join(name)),
            false => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    /// Removes files whose names are not among these and that are not new.
    pub fn sweep(&self, named: &[String]) -> io::Result<()> {
        self.sweep_older_than(named, UNNAMED)
    }

    fn sweep_older_than(&self, named: &[String], age: Duration) -> io::Result<()> {
        let named: HashSet<&str> = named.iter().map(String::as_str).collect();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let name = entry.file_name();
            // a file of the future is not old
            let old = entry.metadata()?.modified()?.elapsed().is_ok_and(|elapsed| elapsed >= age);
            if old && !name.to_str().is_some_and(|name| named.contains(name)) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

/// A file that was not there and only its owner may read.
pub fn new_file(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create_new(true).write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = new_file(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_by_name_until_nobody_names_them() {
        let folder = tempfile::tempdir().unwrap();
        let blobs = Blobs::open(folder.path().join("answers")).unwrap();
        let [kept, dropped] = [&b"kept"[..], b"dropped"].map(|bytes| blobs.put(bytes).unwrap());
        assert_eq!(blobs.put(b"kept").unwrap(), kept);
        assert_eq!(blobs.get(&dropped).unwrap(), b"dropped");
        // new files stay: their record may be on its way
        blobs.sweep(&[]).unwrap();
        assert_eq!(blobs.get(&kept).unwrap(), b"kept");
        blobs.sweep_older_than(std::slice::from_ref(&kept), Duration::ZERO).unwrap();
        assert_eq!(blobs.get(&kept).unwrap(), b"kept");
        assert_eq!(blobs.get(&dropped).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(&blobs.folder).unwrap().count(), 1);
    }

    #[test]
    fn a_name_is_never_a_path() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("pepper"), "secret").unwrap();
        let blobs = Blobs::open(folder.path().join("answers")).unwrap();
        assert_eq!(blobs.get("../pepper").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
