//! Reads files of keys, ciphertexts and netlists up to a largest size. Writes files. A secret is written so that other
//! users can never read its file.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, bail};
use client::container::Tag;
use zeroize::Zeroizing;

/// Reads a file. Refuses a file with more than `bytes_max` bytes.
pub fn read(path: &Path, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    checked_length(path, beginning(path, bytes_max + 1)?, bytes_max)
}

/// Reads a file like [`read`]. Refuses a container of a kind that is not wanted, and names the kind and the command
/// that takes it. The caller checks everything else.
pub fn read_container(path: &Path, bytes_max: usize, wanted: &[Tag]) -> anyhow::Result<Vec<u8>> {
    // zeroized on a refusal, because a file of another kind may be a secret key
    let mut bytes = Zeroizing::new(beginning(path, bytes_max + 1)?);
    if let Some(found) = Tag::of(&bytes).filter(|found| !wanted.contains(found)) {
        let command = match found {
            Tag::SecretKey | Tag::Ciphertext | Tag::SeededCiphertexts => "`ango client decrypt` and `ango client run`",
            Tag::EvaluationKey => "`ango client session open`",
            Tag::ArithmeticSecretKey | Tag::ArithmeticCiphertext => {
                "`ango client numbers decrypt` and `ango client numbers run`"
            }
            Tag::ArithmeticPublicKey | Tag::ArithmeticEvaluationKey => "`ango client numbers key upload`",
        };
        let (path, wanted) = (path.display(), wanted[0].name());
        bail!("{path} is {}, and {wanted} is needed here; {command} take such a file", found.name());
    }
    checked_length(path, std::mem::take(&mut *bytes), bytes_max)
}

fn checked_length(path: &Path, bytes: Vec<u8>, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    if bytes.len() > bytes_max {
        bail!("{} has more than {bytes_max} bytes", path.display());
    }
    Ok(bytes)
}

/// Reads the first `bytes_max` bytes of a file.
fn beginning(path: &Path, bytes_max: usize) -> anyhow::Result<Vec<u8>> {
    let context = || format!("cannot read {}", path.display());
    let file = File::open(path).with_context(context)?;
    // one allocation of the right size: a buffer that grows would leave copies of a secret in memory
    let expected = file.metadata().with_context(context)?.len().min(bytes_max as u64) as usize;
    let mut bytes = Vec::with_capacity(expected + 1);
    file.take(bytes_max as u64).read_to_end(&mut bytes).with_context(context)?;
    Ok(bytes)
}

/// The users who may read a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileReaders {
    /// Only the owner: mode 0600 from the first byte on.
    Private,
    /// All users that the umask permits.
    Shared,
}

/// Writes a new file. An existing file is an error without `force`, and is replaced atomically with `force`.
pub fn write(path: &Path, bytes: &[u8], readers: FileReaders, force: bool) -> anyhow::Result<()> {
    let context = || format!("cannot write {}", path.display());
    if !force {
        return create(path, bytes, readers).with_context(|| {
            if path.exists() { format!("{} exists already; --force replaces it", path.display()) } else { context() }
        });
    }
    let name = path.file_name().with_context(|| format!("{} names no file", path.display()))?;
    let aside = path.with_file_name(format!(".{}.{}", name.to_string_lossy(), std::process::id()));
    create(&aside, bytes, readers).with_context(context)?;
    fs::rename(&aside, path).inspect_err(|_| remove(&aside)).with_context(context)
}

fn create(path: &Path, bytes: &[u8], readers: FileReaders) -> std::io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if readers == FileReaders::Private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = readers;
    let mut file = options.open(path)?;
    file.write_all(bytes).and_then(|()| file.sync_all()).inspect_err(|_| remove(path))
}

/// Removes an unfinished file. An error is ignored, because the first failure matters more.
fn remove(path: &Path) {
    let _ = fs::remove_file(path);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    fn mode(path: &Path) -> u32 {
        use std::os::unix::fs::PermissionsExt;
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[cfg(unix)]
    #[test]
    fn a_private_file_is_its_owner_s_alone_even_where_a_public_one_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("secret.key");
        write(&path, b"one", FileReaders::Private, false).unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
        write(&path, b"two", FileReaders::Private, true).unwrap();
        assert_eq!((mode(&path), fs::read(&path).unwrap()), (0o600, b"two".to_vec()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left aside");
    }

    #[test]
    fn an_existing_file_is_kept_unless_forced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.ct");
        write(&path, b"one", FileReaders::Shared, false).unwrap();
        let error = write(&path, b"two", FileReaders::Shared, false).unwrap_err();
        assert!(error.to_string().contains("--force"), "{error}");
        assert_eq!(fs::read(&path).unwrap(), b"one");
    }

    #[test]
    fn a_file_over_its_bound_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::write(&path, [0; 11]).unwrap();
        assert!(read(&path, 10).unwrap_err().to_string().contains("more than 10 bytes"));
        assert_eq!(read(&path, 11).unwrap().len(), 11);
    }
}
