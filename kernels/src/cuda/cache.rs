//! Compiled kernels on disk. A node compiles each kernel only once, and a machine without a compiler can receive
//! compiled kernels.
//!
//! A file is named by the SHA-256 of architecture and source; the compiler is not part of the name. The file holds a
//! line that names the format, then the SHA-256 of all that follows, then the compiler's name and the image. If a file
//! fails a check, its kernel is compiled again.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

/// First bytes of a file. The number in them rises when this format or the compiler's options change.
const MAGIC: &[u8] = b"ango kernel 1\n";
/// Largest size of one image, in bytes.
const IMAGE_BYTES_MAX: u64 = 64 << 20;
/// Largest size of all files, in bytes. The oldest files are removed first.
const FOLDER_BYTES_MAX: u64 = 256 << 20;

/// A folder of compiled kernels to which only this user and root may write.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

/// The output of a compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// Name and version of the compiler: `nvrtc 12.9`.
    pub compiler: String,
    /// A cubin, or PTX that ends in a zero byte.
    pub bytes: Vec<u8>,
}

impl Image {
    /// Whether the bytes are safe to pass to the driver: an ELF file, or text that ends in a zero byte.
    fn is_whole(&self) -> bool {
        let elf_header = self.bytes.len() >= 64 && self.bytes.starts_with(b"\x7fELF");
        elf_header || (self.bytes.last() == Some(&0) && !self.bytes.starts_with(b"\x7fELF"))
    }
}

impl Cache {
    /// Opens the cache in this folder, which is created with mode 0700 if it is missing. `None` if the folder cannot be
    /// created, or if its owner or its permissions let other users write kernels into it.
    pub fn open(folder: &Path) -> Option<Cache> {
        // an existing folder is not an error, and the next line notices other failures
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let metadata = fs::metadata(folder).ok()?;
        // SAFETY: the call takes no argument and cannot fail
        let user = unsafe { libc::geteuid() };
        let trusted = metadata.is_dir() && is_trusted(metadata.uid(), metadata.mode(), user);
        trusted.then(|| Cache { folder: folder.to_owned() })
    }

    fn path(&self, architecture: &str, text: &str) -> PathBuf {
        let mut hash = Sha256::new();
        hash.update(MAGIC);
        hash.update(architecture);
        hash.update("\n");
        hash.update(text);
        self.folder.join(format!("{}.kernel", hex(&hash.finalize())))
    }

    /// Returns the image of this source for this architecture, if the cache has an undamaged image.
    pub fn get(&self, architecture: &str, text: &str) -> Option<Image> {
        let file = fs::File::open(self.path(architecture, text)).ok()?;
        let mut bytes = Vec::new();
        file.take(IMAGE_BYTES_MAX + 1024).read_to_end(&mut bytes).ok()?;
        let rest = bytes.strip_prefix(MAGIC)?;
        let (sum, rest) = rest.split_at_checked(64)?;
        let rest = rest.strip_prefix(b"\n")?;
        if sum != hex(&Sha256::digest(rest)).as_bytes() {
            return None;
        }
        let line = rest.iter().position(|&byte| byte == b'\n')?;
        let compiler = String::from_utf8(rest[..line].to_vec()).ok()?;
        let image = Image { compiler, bytes: rest[line + 1..].to_vec() };
        image.is_whole().then_some(image)
    }

    /// Stores an image if possible. If the cache is full or read-only, nothing is stored, and the next process compiles
    /// the kernel again.
    pub fn put(&self, architecture: &str, text: &str, image: &Image) {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let path = self.path(architecture, text);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let beside = path.with_extension(format!("{}-{number}.new", std::process::id()));
        let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside).and_then(|mut file| {
            let rest = [image.compiler.as_bytes(), b"\n", &image.bytes].concat();
            file.write_all(MAGIC)?;
            file.write_all(hex(&Sha256::digest(&rest)).as_bytes())?;
            file.write_all(b"\n")?;
            file.write_all(&rest)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        self.keep_within(FOLDER_BYTES_MAX);
    }

    /// Removes the oldest files until all remaining files together have at most `bytes_max` bytes.
    fn keep_within(&self, bytes_max: u64) {
        let Ok(entries) = fs::read_dir(&self.folder) else { return };
        let mut files: Vec<_> = entries
            .filter_map(|entry| {
                let path = entry.ok()?.path();
                let metadata = fs::symlink_metadata(&path).ok()?;
                let ours = path.extension().is_some_and(|ending| ending == "kernel" || ending == "new");
                (ours && metadata.is_file()).then_some((metadata.modified().ok()?, metadata.len(), path))
            })
            .collect();
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, len, _)| len).sum();
        for (_, len, path) in files {
            if bytes <= bytes_max {
                break;
            }
            let _ = fs::remove_file(path);
            bytes -= len;
        }
    }
}

/// Whether a folder of this owner and mode takes writes only from this user and from root, who can write anywhere.
fn is_trusted(owner: u32, mode: u32, user: u32) -> bool {
    (owner == 0 || owner == user) && mode & 0o022 == 0
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown};

    use super::*;

    /// A temporary folder of one test, removed when the test ends.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("ango-cache-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Folder(path)
        }

        fn files(&self) -> Vec<PathBuf> {
            let mut files: Vec<_> = fs::read_dir(&self.0).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            files
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn image(bytes: usize) -> Image {
        let mut image = Image { compiler: "nvrtc 12.9".into(), bytes: b"\x7fELF".to_vec() };
        image.bytes.resize(bytes.max(64), 7);
        image
    }

    #[test]
    fn an_image_comes_back_under_its_source_and_architecture_only() {
        let folder = Folder::new("keys");
        let cache = Cache::open(&folder.0).unwrap();
        cache.put("sm_90", "text", &image(100));
        assert_eq!(cache.get("sm_90", "text"), Some(image(100)));
        assert_eq!(cache.get("sm_80", "text"), None);
        assert_eq!(cache.get("sm_90", "texts"), None);
        assert_eq!(folder.files().len(), 1, "nothing is left beside it");
    }

    #[test]
    fn a_damaged_cut_or_foreign_file_is_not_an_image() {
        let folder = Folder::new("damage");
        let cache = Cache::open(&folder.0).unwrap();
        cache.put("sm_90", "text", &image(100));
        let path = &folder.files()[0];
        let whole = fs::read(path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= 1;
            fs::write(path, &damaged).unwrap();
            assert_eq!(cache.get("sm_90", "text"), None, "byte {at}");
            fs::write(path, &whole[..at]).unwrap();
            assert_eq!(cache.get("sm_90", "text"), None, "cut at {at}");
        }
        // the hash matches, but the bytes are not a whole image, so they must not reach the driver
        cache.put("sm_90", "text", &Image { compiler: "nvrtc 12.9".into(), bytes: b"\x7fELF".to_vec() });
        assert_eq!(cache.get("sm_90", "text"), None);
        cache.put("sm_90", "text", &image(100));
        assert_eq!(cache.get("sm_90", "text"), Some(image(100)), "it is replaced");
    }

    #[test]
    fn a_folder_that_others_may_write_is_no_cache() {
        let folder = Folder::new("modes");
        assert!(Cache::open(&folder.0).is_some());
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        for (mode, trusted) in [(0o755, true), (0o775, false), (0o707, false)] {
            fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
            assert_eq!(Cache::open(&folder.0).is_some(), trusted, "{mode:o}");
        }
        let file = folder.0.join("file");
        fs::write(&file, "").unwrap();
        assert!(Cache::open(&file).is_none() && Cache::open(&file.join("below")).is_none());
    }

    #[test]
    fn a_folder_of_another_user_is_no_cache() {
        assert!(is_trusted(1000, 0o40_755, 1000) && is_trusted(0, 0o40_755, 1000) && is_trusted(0, 0o40_700, 0));
        assert!(!is_trusted(1001, 0o40_700, 1000) && !is_trusted(1001, 0o40_700, 0));
        assert!(!is_trusted(1000, 0o40_770, 1000) && !is_trusted(0, 0o40_702, 1000));
        let folder = Folder::new("owner");
        assert!(Cache::open(&folder.0).is_some());
        // only root can give a folder away
        if chown(&folder.0, Some(12_345), None).is_ok() {
            assert!(Cache::open(&folder.0).is_none());
        }
    }

    #[test]
    fn the_oldest_images_go_first() {
        let folder = Folder::new("bound");
        let cache = Cache::open(&folder.0).unwrap();
        let start = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000);
        for (age, text) in ["a", "b", "c"].into_iter().enumerate() {
            cache.put("sm_90", text, &image(1000));
            let file = fs::File::options().write(true).open(cache.path("sm_90", text)).unwrap();
            file.set_modified(start + std::time::Duration::from_secs(age as u64)).unwrap();
        }
        fs::write(folder.0.join("somebody-elses"), [0; 5000]).unwrap();
        cache.keep_within(2500);
        assert_eq!([cache.get("sm_90", "a"), cache.get("sm_90", "b")], [None, Some(image(1000))]);
        assert_eq!(cache.get("sm_90", "c"), Some(image(1000)));
        assert!(folder.0.join("somebody-elses").exists());
    }
}
