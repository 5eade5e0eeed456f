//! `ango client numbers keygen` and `key`: keys in files and on a node.

use std::fs::{DirBuilder, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use api::encryption_keys::{EVALUATION_KEY_BYTES_MAX, UploadedKey};
use api::{EncryptionKeyId, UploadId};
use clap::{Args, Subcommand, ValueEnum};
use client::ckks::container::{self, KEY_HEAD_BYTES, ROW_HEADER_BYTES};
use client::ckks::{
    Params, ParamsLiteral, PartKind, SecretKey, SecurityLevel, evaluation_key_parts, joint_rotation_parts,
    matrix_product_parts, power_of_two_steps, rotations,
};
use client::container::Tag;
use client::http;
use zeroize::Zeroizing;

use crate::caller::{Plan, PlanTable};
use crate::cli::client::node::NodeArgs;
use crate::cli::files::{self, FileReaders};
use crate::cli::progress::ByteProgress;

/// Largest size of a secret key's file in bytes: a byte for each of 32,768 coefficients, and a header.
const SECRET_KEY_BYTES_MAX: usize = 1 << 16;
/// Largest size of a public key's file in bytes.
const PUBLIC_KEY_BYTES_MAX: usize = 8 << 20;

/// Make the keys for numbers: the secret key, which stays here, the public key, and the evaluation key, with which a
/// node computes.
#[derive(Debug, Args)]
pub struct KeygenArgs {
    /// Degree of the ring: 4096, 8192, 16384 or 32768; 64 and 256 for testing. A ciphertext holds half as many numbers.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    poly_degree: usize,
    /// Bits of the scale, 10 to 50.
    #[arg(long, value_name = "BITS", default_value_t = 40)]
    scale_bits: u32,
    /// Depth: number of multiplications one after another, 1 to 14.
    #[arg(long, value_name = "LEVELS", default_value_t = 3)]
    max_depth: u32,
    /// Security level: testing, 128-bit, 192-bit or 256-bit.
    #[arg(long, value_name = "LEVEL", default_value = "128-bit", value_parser = parse_level)]
    security_level: SecurityLevel,
    /// Leave room for bootstrapping, and make its keys. Only for degree 32768, and 64 and 256 for testing.
    #[arg(long)]
    bootstrap: bool,
    /// Directions of the rotations by powers of two. When absent: both, unless the key would then be too large for a plan or
    /// upload that takes the key with left rotations.
    #[arg(long, value_name = "DIRECTIONS")]
    rotations: Option<Rotations>,
    /// Folder that gets secret.key (mode 0600), public.key and evaluation.key.
    #[arg(long, value_name = "DIR", default_value = "ango-numbers")]
    out: PathBuf,
    /// Replace existing keys. Data encrypted under the old keys can then not be decrypted any more.
    #[arg(long)]
    force: bool,
    /// Print one JSON object.
    #[arg(long)]
    json: bool,
}

fn parse_level(name: &str) -> Result<SecurityLevel, String> {
    let all = [SecurityLevel::Testing, SecurityLevel::Bits128, SecurityLevel::Bits192, SecurityLevel::Bits256];
    let names = all.map(SecurityLevel::name).join(", ");
    all.into_iter().find(|level| level.name() == name).ok_or_else(|| format!("not one of {names}"))
}

pub fn keygen(args: KeygenArgs) -> anyhow::Result<()> {
    let literal = ParamsLiteral {
        poly_degree: args.poly_degree,
        scale_bits: args.scale_bits,
        max_depth: args.max_depth,
        security: args.security_level,
        bootstrap: args.bootstrap,
    };
    let params = Params::new(literal)?;
    let paths = KeyFiles { folder: args.out };
    let all = [paths.secret(), paths.public(), paths.evaluation()];
    if let Some(path) = all.iter().find(|path| !args.force && path.exists()) {
        bail!("{} exists already; --force replaces it", path.display());
    }
    let mut folder = DirBuilder::new();
    folder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut folder, 0o700);
    folder.create(&paths.folder).with_context(|| format!("cannot make the folder {}", paths.folder.display()))?;
    let key = SecretKey::generate(&params);
    files::write(&paths.secret(), &key.to_bytes(), FileReaders::Private, args.force)?;
    let public = container::write_public_key(&key.public_key(params.level_max()));
    files::write(&paths.public(), &public, FileReaders::Shared, args.force)?;
    let parts = parts(&params, args.rotations);
    let progress = ByteProgress::new(key_bytes(&params, &parts));
    let write = || {
        let mut file = BufWriter::new(File::create(paths.evaluation())?);
        let mut written = 0;
        for piece in key.evaluation_key(&parts) {
            file.write_all(&piece)?;
            written += piece.len() as u64;
            progress.update(written);
        }
        file.into_inner()?.sync_all().map(|()| written)
    };
    let evaluation_bytes = write().with_context(|| format!("cannot write {}", paths.evaluation().display()))?;
    progress.finish();
    if args.json {
        let facts = serde_json::json!({
            "security_bits": params.security_bits(),
            "slot_count": params.slots(),
            "secret_key": paths.secret(),
            "public_key": paths.public(),
            "public_key_bytes": public.len(),
            "evaluation_key": paths.evaluation(),
            "evaluation_key_bytes": evaluation_bytes,
        });
        println!("{facts}");
    } else {
        println!("secret key      {}: keep it private, it never leaves this machine", paths.secret().display());
        println!("public key      {} ({} bytes)", paths.public().display(), public.len());
        println!("evaluation key  {} ({evaluation_bytes} bytes): for nodes", paths.evaluation().display());
        println!("security        {} bits; {} numbers in a ciphertext", params.security_bits(), params.slots());
    }
    Ok(())
}

/// The directions of the rotations in an evaluation key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Rotations {
    /// To the left and to the right. A rotation takes half as many steps as with left rotations only.
    Both,
    /// To the left only.
    Left,
}

/// Lists the parts of an evaluation key: for products, rotations by powers of two, matrix products and bootstrapping.
/// Without a choice, the key gets rotations both ways if no plan and no kind of upload that takes the key with left
/// rotations refuses it then. The parts that join rotations of a matrix product are added by the same rule.
fn parts(params: &Params, chosen: Option<Rotations>) -> Vec<(PartKind, usize)> {
    let of = |signed: bool, joins: bool| {
        let mut parts = evaluation_key_parts(params);
        let steps = power_of_two_steps(params, signed);
        let joint = if joins { joint_rotation_parts(params) } else { Vec::new() };
        let more = rotations(params, &steps, params.level_max()).into_iter().chain(matrix_product_parts(params));
        for (kind, level) in more.chain(joint) {
            match parts.iter_mut().find(|(of, _)| *of == kind) {
                Some((_, highest)) => *highest = level.max(*highest),
                None => parts.push((kind, level)),
            }
        }
        parts
    };
    let table = PlanTable::default();
    let plans = Plan::ALL.into_iter().map(|plan| table.of(plan).encryption_key_bytes());
    let limits: Vec<u64> = plans.chain([EVALUATION_KEY_BYTES_MAX as u64]).collect();
    // whether the larger key is taken wherever the smaller one is
    let fits = |larger: &[(PartKind, usize)], smaller: &[(PartKind, usize)]| {
        let [larger, smaller] = [larger, smaller].map(|parts| key_bytes(params, parts));
        limits.iter().all(|&limit| smaller > limit || larger <= limit)
    };
    let left = of(false, false);
    let signed = match chosen {
        Some(rotations) => rotations == Rotations::Both,
        None => fits(&of(true, false), &left),
    };
    let (without, with) = (of(signed, false), of(signed, true));
    if fits(&with, &without) { with } else { without }
}

/// Returns the size in bytes of an evaluation key with these parts.
fn key_bytes(params: &Params, parts: &[(PartKind, usize)]) -> u64 {
    let parts = parts.iter().map(|&(kind, level)| container::part_bytes(params, kind, level) as u64);
    KEY_HEAD_BYTES as u64 + parts.sum::<u64>()
}

/// The option for the folder of the keys.
#[derive(Debug, Args)]
pub struct KeysArgs {
    /// Folder of the keys.
    #[arg(long, value_name = "DIR", default_value = "ango-numbers")]
    keys: PathBuf,
}

impl KeysArgs {
    /// Reads the secret key.
    pub fn secret(&self) -> anyhow::Result<SecretKey> {
        let path = self.files().secret();
        if !path.exists() {
            bail!(
                "there is no {}: make keys with `ango client numbers keygen`, or name their folder with --keys",
                path.display()
            );
        }
        let bytes = Zeroizing::new(files::read_container(&path, SECRET_KEY_BYTES_MAX, &[Tag::ArithmeticSecretKey])?);
        SecretKey::from_bytes(&bytes)
            .with_context(|| format!("{} is not a usable secret key for encrypted numbers", path.display()))
    }

    /// Uploads the public key and the evaluation key. If the upload fails, it is deleted.
    pub async fn upload(&self, client: &http::Client) -> anyhow::Result<UploadedKey> {
        let Upload { params, public, pieces, progress } = self.begin_upload()?;
        let uploaded = client.upload_key(&params, public, pieces, |sent| progress.update(sent)).await?;
        progress.finish();
        Ok(uploaded)
    }

    /// Uploads the public key and the evaluation key, or continues the upload `resumed`. If no answer comes, or the
    /// node has no room at the moment, the upload stays, and the error says how to continue it. An upload that the node
    /// refuses is deleted, unless another command began it.
    pub async fn upload_or_resume(
        &self,
        client: &http::Client,
        resumed: Option<UploadId>,
    ) -> anyhow::Result<UploadedKey> {
        let Upload { params, public, pieces, progress } = self.begin_upload()?;
        let begun_here = resumed.is_none();
        let upload = match resumed {
            Some(upload) => upload,
            None => client.begin_key_upload(&params).await?,
        };
        let sent = client.continue_key_upload(&upload, public, pieces, |sent| progress.update(sent)).await;
        progress.finish();
        match sent {
            Err(error) if may_be_resumed(&error) => Err(error).with_context(|| {
                format!(
                    "the upload broke off; continue it within an hour of its begin: \
                     ango client numbers key upload --keys {} --resume {}",
                    self.keys.display(),
                    upload.as_str()
                )
            }),
            Err(error) => {
                if begun_here {
                    // open uploads count towards the plan's largest number of keys; one that cannot be deleted expires
                    let _ = client.delete_key_upload(&upload).await;
                }
                Err(error.into())
            }
            Ok(uploaded) => Ok(uploaded),
        }
    }

    /// Reads the public key, and opens the evaluation key.
    fn begin_upload(&self) -> anyhow::Result<Upload<impl Iterator<Item = io::Result<Vec<u8>>> + use<>>> {
        let files = self.files();
        let public = files::read_container(&files.public(), PUBLIC_KEY_BYTES_MAX, &[Tag::ArithmeticPublicKey])?;
        let key = container::read_public_key(&public).with_context(|| {
            format!("{} is not a usable public key for encrypted numbers", files.public().display())
        })?;
        let path = files.evaluation();
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let progress = ByteProgress::new(file.metadata()?.len());
        let pieces = pieces_of(key.params.clone(), BufReader::new(file));
        Ok(Upload { params: key.params, public, pieces, progress })
    }

    fn files(&self) -> KeyFiles {
        KeyFiles { folder: self.keys.clone() }
    }
}

/// The keys that an upload sends, and its progress.
struct Upload<P> {
    params: Params,
    public: Vec<u8>,
    pieces: P,
    progress: ByteProgress,
}

/// Whether another command may continue the upload after this error.
fn may_be_resumed(error: &http::Error) -> bool {
    match error {
        http::Error::Transport(_) => true,
        http::Error::Refused { status, .. } => *status == 429 || *status >= 500,
        _ => false,
    }
}

struct KeyFiles {
    folder: PathBuf,
}

impl KeyFiles {
    fn secret(&self) -> PathBuf {
        self.folder.join("secret.key")
    }

    fn public(&self) -> PathBuf {
        self.folder.join("public.key")
    }

    fn evaluation(&self) -> PathBuf {
        self.folder.join("evaluation.key")
    }
}

/// Reads an evaluation key in pieces: first the head, then each row. The iterator reads one piece at a time, so that
/// only one piece is in memory.
fn pieces_of(params: Params, mut from: impl Read) -> impl Iterator<Item = io::Result<Vec<u8>>> {
    let mut is_head = true;
    std::iter::from_fn(move || {
        let mut piece = vec![0; if std::mem::take(&mut is_head) { KEY_HEAD_BYTES } else { ROW_HEADER_BYTES }];
        let whole = piece.len() == KEY_HEAD_BYTES;
        match from.read(&mut piece[..1]) {
            Ok(0) => return None,
            Ok(_) => {}
            Err(error) => return Some(Err(error)),
        }
        let rest = |from: &mut dyn Read, piece: &mut Vec<u8>| {
            from.read_exact(&mut piece[1..])?;
            if !whole {
                let bytes = container::row_bytes_from(&params, piece)
                    .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
                piece.resize(bytes, 0);
                from.read_exact(&mut piece[ROW_HEADER_BYTES..])?;
            }
            Ok(())
        };
        Some(rest(&mut from, &mut piece).map(|()| piece))
    })
}

/// Upload, show and delete an encryption key on a node.
#[derive(Debug, Args)]
pub struct KeyArgs {
    #[command(subcommand)]
    command: KeyCommand,
}

#[derive(Debug, Subcommand)]
enum KeyCommand {
    /// Upload the public key and the evaluation key, and print the key's id.
    Upload {
        #[command(flatten)]
        node: NodeArgs,
        #[command(flatten)]
        keys: KeysArgs,
        /// Continue an upload that broke off: its id (up_ and 26 characters).
        #[arg(long, value_name = "UPLOAD", value_parser = parse_upload_id)]
        resume: Option<UploadId>,
        /// Print the node's answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print a key's figures.
    Show {
        #[command(flatten)]
        node: NodeArgs,
        #[command(flatten)]
        key: KeyIdArgs,
        /// Print the node's answer as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Delete a key and its ciphertexts from the node.
    Delete {
        #[command(flatten)]
        node: NodeArgs,
        #[command(flatten)]
        key: KeyIdArgs,
    },
}

/// The argument for a key on a node.
#[derive(Debug, Args)]
pub struct KeyIdArgs {
    /// The key's id.
    #[arg(env = "ANGO_KEY", value_parser = parse_key_id)]
    key_id: EncryptionKeyId,
}

/// Parses an encryption key's id.
pub fn parse_key_id(text: &str) -> Result<EncryptionKeyId, String> {
    text.parse().map_err(|_| "not the id of an encryption key (key_ and 26 characters)".to_owned())
}

fn parse_upload_id(text: &str) -> Result<UploadId, String> {
    text.parse().map_err(|_| "not the id of an upload (up_ and 26 characters)".to_owned())
}

pub async fn key(args: KeyArgs) -> anyhow::Result<()> {
    match args.command {
        KeyCommand::Upload { node, keys, resume, json } => {
            let uploaded = keys.upload_or_resume(&node.client()?, resume).await?;
            uploaded.warnings.iter().for_each(|warning| eprintln!("ango: {warning}"));
            if json {
                println!("{}", serde_json::to_string(&uploaded)?);
            } else {
                println!("{}", uploaded.key_id.as_str());
            }
        }
        KeyCommand::Show { node, key, json } => {
            let record = node.client()?.encryption_key(&key.key_id).await?;
            if json {
                println!("{}", serde_json::to_string(&record)?);
            } else {
                println!(
                    "parameters   degree {}, scale of {} bits, depth {}",
                    record.params.poly_degree, record.params.scale_bits, record.params.max_depth
                );
                println!("security     {} bits", record.params.security_bits);
                println!("ciphertexts  {}", record.ciphertext_count);
                println!("operations   {}", record.operation_count);
            }
        }
        KeyCommand::Delete { node, key } => {
            node.client()?.delete_encryption_key(&key.key_id).await?;
        }
    }
    Ok(())
}

/// Reads a file with a ciphertext. The caller checks the bytes.
pub fn read_ciphertext(path: &Path) -> anyhow::Result<Vec<u8>> {
    /// Largest size of a ciphertext in bytes: two polynomials of 32,768 coefficients modulo primes that have 881 bits
    /// together.
    const CIPHERTEXT_BYTES_MAX: usize = 8 << 20;
    files::read_container(path, CIPHERTEXT_BYTES_MAX, &[Tag::ArithmeticCiphertext])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(poly_degree: usize, scale_bits: u32, max_depth: u32, bootstrap: bool) -> Params {
        let security = if poly_degree < 4096 { SecurityLevel::Testing } else { SecurityLevel::Bits128 };
        Params::new(ParamsLiteral { poly_degree, scale_bits, max_depth, security, bootstrap }).unwrap()
    }

    #[test]
    fn rotations_go_both_ways_where_no_limit_is_crossed_for_it_and_no_part_is_there_twice() {
        let small = [params(8192, 40, 3, false), params(64, 40, 2, true), params(4096, 25, 1, false)];
        let large = (1..=5).map(|depth| params(16384, 40, depth, false));
        let larger = (1..=14).map(|depth| params(32768, 50, depth, false));
        let mut only_left = 0;
        for params in small.into_iter().chain(large).chain(larger) {
            let [left, both] = [Rotations::Left, Rotations::Both].map(|chosen| parts(&params, Some(chosen)));
            assert!(both.len() > left.len() + 2);
            let found = parts(&params, None);
            assert!(found.iter().enumerate().all(|(at, (kind, _))| found[..at].iter().all(|(of, _)| of != kind)));
            let crossed = |limit: u64| (key_bytes(&params, &left)..key_bytes(&params, &both)).contains(&limit);
            let table = PlanTable::default();
            let crosses = Plan::ALL.into_iter().any(|plan| crossed(table.of(plan).encryption_key_bytes()))
                || crossed(EVALUATION_KEY_BYTES_MAX as u64);
            assert_eq!(found, if crosses { left } else { both }, "{:?}", params.literal());
            only_left += usize::from(crosses);
        }
        assert!(only_left > 0, "a limit is crossed by some parameters");
    }
}
