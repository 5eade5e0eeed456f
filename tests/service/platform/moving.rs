//! A node with SQLite and a folder moves to PostgreSQL and a bucket (`ango admin move`).

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use client::Preset;
use control::admin::moving::{self, Check, LEFT_OUT, Moved};
use control::app::App;
use control::caller::{Environment, Role};
use control::config::{BucketConfig, Config, ServerSecret};
use control::{admin, work::BackendChoice};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use store::Store;
use tempfile::TempDir;
use tests_service::TestServer;
use tests_service::gates::{Account, BATCH, CIRCUITS, SESSION, and_netlist, open_session};
use tests_service::http::Request;
use tests_service::s3::S3;
use tests_store::{Kind, all_rows, boolean_columns, execute, fill_every_table, psql};
use tokio::sync::Notify;

/// Columns that name objects, and the folders of these objects.
const OBJECTS: [(&str, &str); 5] = [
    ("kept_answers.blob", "answers"),
    ("circuits.blob", "circuits"),
    ("key_materials.public_key_object", "encryption-keys"),
    ("key_rows.object", "encryption-keys"),
    ("ciphertexts.object", "ciphertexts"),
];

/// Returns a new prefix in the bucket of this process. `None`: this machine has no SeaweedFS.
fn bucket() -> Option<BucketConfig> {
    static SERVER: OnceLock<Option<S3>> = OnceLock::new();
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut bucket = SERVER.get_or_init(S3::start).as_ref()?.config();
    bucket.url.prefix = format!("moved-{}", NEXT.fetch_add(1, Ordering::Relaxed));
    Some(bucket)
}

/// The data folder of a stopped node with SQLite, and the settings of its move.
struct Machine {
    folder: TempDir,
    /// The settings with the target.
    config: Config,
    /// The URL of the node's own database.
    own: String,
}

impl Machine {
    /// Makes a node with one API key, and an empty database and an empty bucket for its move. `None`: this machine has no
    /// PostgreSQL or no SeaweedFS.
    async fn new() -> Option<Machine> {
        let (folder, bucket) = (tempfile::tempdir().unwrap(), bucket()?);
        let mut config = Config::in_folder(folder.path());
        let own = config.database_url.clone();
        tests_store::copy_template(&folder.path().join("ango.db"));
        admin::prepare(&config).await.unwrap();
        admin::create_key(&config, Role::Developer, Environment::Test, None, None).await.unwrap();
        config.database_url = Kind::Postgres.new_url(folder.path())?;
        config.bucket = Some(bucket);
        Some(Machine { folder, config, own })
    }

    /// Writes rows to all tables, and the objects that these rows name.
    async fn fill(&self) {
        let booleans = boolean_columns(&self.config.database_url).await;
        fill_every_table(&self.folder.path().join("ango.db"), &booleans, |column, row| {
            // the audit of the ledger reads these numbers of gates
            if column.ends_with(".by_gate") {
                return Some("'{\"NAND\": 1}'".to_owned());
            }
            let (_, kind) = OBJECTS.iter().find(|(name, _)| *name == column)?;
            Some(format!("'{}'", self.put_object(kind, format!("{column} {row}").as_bytes())))
        })
        .await;
        for sql in [
            "UPDATE lockout_version SET version = 41",
            "DELETE FROM nodes WHERE node_id <> 'fleet'",
            // a row of the release before, which its tables still have
            "DELETE FROM circuit_operations",
            "DELETE FROM arithmetic_operations WHERE op_id <> 'third'",
            "UPDATE arithmetic_operations SET op_id = 'older'",
        ] {
            execute(&self.own, sql).await;
        }
    }

    /// Writes an object to the folder, and returns its name.
    fn put_object(&self, kind: &str, bytes: &[u8]) -> String {
        let (name, folder) = (hex::encode(Sha256::digest(bytes)), self.folder.path().join(kind));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join(&name), bytes).unwrap();
        name
    }

    /// Returns the paths of the objects in the folder.
    fn objects(&self) -> Vec<PathBuf> {
        let kinds: BTreeSet<&str> = OBJECTS.iter().map(|(_, kind)| *kind).collect();
        let folders = kinds.into_iter().filter_map(|kind| std::fs::read_dir(self.folder.path().join(kind)).ok());
        folders.flatten().map(|object| object.unwrap().path()).collect()
    }

    /// Moves the node, or returns the whole error.
    async fn try_run(&self) -> Result<Moved, String> {
        moving::run(&self.config, None, &|_| ()).await.map_err(|error| format!("{error:#}"))
    }

    /// Moves the node. Returns the checks, which are all the same on both sides.
    async fn run(&self) -> Vec<Check> {
        match self.try_run().await.unwrap() {
            Moved::Now(checks) => {
                let differing: Vec<&Check> = checks.iter().filter(|check| !check.is_same).collect();
                assert!(differing.is_empty(), "{differing:?}");
                checks
            }
            Moved::Before(at) => panic!("the node was moved at {}", at.rfc3339()),
        }
    }

    async fn refused(&self, why: &str) {
        let error = self.try_run().await.expect_err("the move is refused");
        assert!(error.contains(why), "{error}");
    }

    /// Checks that the target has the rows of the source.
    async fn arrived(&self) {
        let (mut here, mut there) = (all_rows(&self.own).await, all_rows(&self.config.database_url).await);
        for (table, _) in LEFT_OUT {
            here.remove(table);
            there.remove(table);
        }
        for (table, rows) in &here {
            assert_eq!(Some(rows), there.get(table), "{table}");
        }
        assert_eq!(here.len(), there.len());
    }

    /// Tries to start a node on the target.
    async fn start(&self) -> Result<(), String> {
        let folder = tempfile::tempdir().unwrap();
        let of_node = Config::in_folder(folder.path());
        let mut config = Config { data_dir: of_node.data_dir, ..self.config.clone() };
        config.secret = Some(self.secret());
        config.compute.backend = BackendChoice::Cpu;
        App::start(config).await.map_err(|error| format!("{error:#}"))?.shutdown().await;
        Ok(())
    }

    fn secret(&self) -> ServerSecret {
        let pepper = std::fs::read(self.folder.path().join("pepper")).unwrap();
        ServerSecret(<[u8; 32]>::try_from(pepper).unwrap().into())
    }
}

#[tokio::test]
async fn every_table_is_copied_or_left_out_for_a_reason_and_every_value_arrives() {
    let Some(machine) = Machine::new().await else { return };
    machine.fill().await;
    let mut checks: BTreeSet<String> = machine.run().await.into_iter().map(|check| check.what).collect();
    machine.arrived().await;
    let (here, there) = (all_rows(&machine.own).await, all_rows(&machine.config.database_url).await);
    assert!(there["operations"].iter().any(|row| row.contains("older")));
    let tables: BTreeSet<&String> = here.keys().chain(there.keys()).collect();
    for table in tables {
        let is_left_out = LEFT_OUT.iter().any(|(name, reason)| name == table && !reason.is_empty());
        assert_ne!(checks.remove(table), is_left_out, "{table} must be copied, or be in LEFT_OUT with a reason");
        // a table that a later migration makes has rows here too
        assert!(is_left_out || !there[table].is_empty(), "{table}");
    }
    assert!(LEFT_OUT.iter().all(|(name, _)| here.contains_key(*name)), "{LEFT_OUT:?}");
    assert!(here["accounts"].iter().any(|row| row.contains("漢字 \u{1f980}")) && here["accounts"].len() == 4);
    for amount in ["transfers: sum of milli_yen", "invoices: sum of amount_usd_cents", "usage_bills: sum of cents"] {
        assert!(checks.contains(amount), "{amount}: {checks:?}");
    }
    assert!(checks.contains("ledger: balances") && checks.contains("ciphertexts: whole objects"), "{checks:?}");

    // a repeat changes nothing, whatever the source has meanwhile
    execute(&machine.own, "UPDATE lockout_version SET version = 42").await;
    assert!(matches!(machine.try_run().await.unwrap(), Moved::Before(_)));
    assert_eq!(all_rows(&machine.config.database_url).await, there);
    machine.start().await.unwrap();
}

#[tokio::test]
async fn a_move_that_breaks_off_anywhere_is_continued_and_no_node_starts_before_its_end() {
    let Some(machine) = Machine::new().await else { return };
    machine.fill().await;
    // the number of lines that a move tells before it breaks off
    for lines in [1, 2, 4, 6, 7, 15, 40] {
        let (told, broken) = (AtomicUsize::new(0), Notify::new());
        let tell = |_| {
            if told.fetch_add(1, Ordering::Relaxed) + 1 == lines {
                broken.notify_one();
            }
        };
        let ended = tokio::select! {
            biased;
            () = broken.notified() => false,
            _ = moving::run(&machine.config, None, &tell) => true,
        };
        assert!(!ended, "the move ended before line {lines}");
        let error = machine.start().await.unwrap_err();
        assert!(error.contains("`ango admin move` again"), "{error}");
        let error = admin::Operator::open(&machine.config).await.err().unwrap().to_string();
        assert!(error.contains("`ango admin move` again"), "{error}");
    }
    // what was copied before does not hold back what the source has now
    execute(&machine.own, "UPDATE accounts SET granted_plan = 'scale'; DELETE FROM events").await;
    // the objects are whole in the bucket, so the folder is not read any more
    assert!(machine.objects().len() > 10);
    machine.objects().iter().for_each(|object| std::fs::remove_file(object).unwrap());
    machine.run().await;
    machine.arrived().await;
    machine.start().await.unwrap();
}

#[tokio::test]
async fn a_target_with_data_of_others_is_refused_and_loses_nothing() {
    let Some(mut machine) = Machine::new().await else { return };
    let folder = tempfile::tempdir().unwrap();
    let (empty, own_bucket) = (machine.config.database_url.clone(), machine.config.bucket.clone());

    // a database with keys
    let mut other = Config::in_folder(folder.path());
    other.database_url = Kind::Postgres.new_url(folder.path()).unwrap();
    admin::create_key(
        &Config { secret: Some(ServerSecret([9; 32].into())), ..other.clone() },
        Role::Developer,
        Environment::Test,
        None,
        None,
    )
    .await
    .unwrap();
    machine.config.database_url = other.database_url.clone();
    let before = all_rows(&other.database_url).await;
    machine.refused("the database is in use").await;
    assert_eq!(all_rows(&other.database_url).await, before);

    // a database with an older schema, and one of a later version
    machine.config.database_url = Kind::Postgres.empty_url(folder.path()).unwrap();
    Store::connect(&machine.config.database_url).await.unwrap().migrate_up_to(37).await.unwrap();
    machine.refused("run `ango migrate` first").await;
    machine.config.database_url = Kind::Postgres.new_url(folder.path()).unwrap();
    psql(
        &machine.config.database_url,
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9000, 'later', TRUE, '\\x00', 1)",
    );
    machine.refused("migration 9000").await;

    // a bucket of another database
    machine.config.database_url = empty.clone();
    let second = Machine::new().await.unwrap();
    second.run().await;
    machine.config.bucket = second.config.bucket.clone();
    machine.refused("belong to another database").await;
    machine.config.bucket = own_bucket;

    // a database into which another node was moved, or is being moved
    machine.config.database_url = second.config.database_url.clone();
    let before = all_rows(&machine.config.database_url).await;
    machine.refused("another database was moved").await;
    assert_eq!(all_rows(&machine.config.database_url).await, before);
    machine.config.database_url = empty;
    let target = Store::connect(&machine.config.database_url).await.unwrap();
    let id = Store::connect(&machine.own).await.unwrap().database_id().await.unwrap();
    let held = target.hold_move(&id, 5).await.unwrap().unwrap();
    machine.refused("another process is moving the node").await;
    drop(held);
    target.close().await;

    // settings without a target
    let settings = machine.config.clone();
    machine.config.bucket = None;
    machine.refused("ANGO_OBJECTS_URL").await;
    machine.config = Config { database_url: machine.own.clone(), ..settings.clone() };
    machine.refused("ANGO_DATABASE_URL").await;
    machine.config = Config { secret: Some(ServerSecret([9; 32].into())), ..settings.clone() };
    machine.refused("ANGO_SECRET").await;
    machine.config = settings;
    machine.run().await;
    machine.arrived().await;
}

#[tokio::test]
async fn a_source_that_runs_or_lacks_something_is_refused_until_it_is_mended() {
    let Some(machine) = Machine::new().await else { return };
    let folder = machine.folder.path();
    // a node on the folder, and a node on the database with another folder
    let node = Config { database_url: machine.own.clone(), bucket: None, ..machine.config.clone() };
    let running = App::start(node).await.unwrap();
    machine.refused("stop the node first").await;
    running.shutdown().await;
    execute(&machine.own, "INSERT INTO nodes (node_id, lease_until) VALUES ('other', 9223372036854775806)").await;
    machine.refused("the nodes other use the database").await;
    // a node that was killed leaves its lease behind
    let id = std::fs::read_to_string(folder.join("node-id")).unwrap();
    execute(&machine.own, &format!("UPDATE nodes SET node_id = '{id}' WHERE node_id = 'other'")).await;

    // work that the killed node left behind
    for sql in [
        "INSERT INTO gate_sessions (digest, account_id, environment, preset, is_blind, state, created_at, expires_at, node_id) \
         SELECT zeroblob(32), account_id, 'test', 'fast_128', 1, 'active', 5, 9000000000000000000, 'ID' FROM accounts",
        "INSERT INTO kept_answers (digest, account_id, claim, node_id, held_until) \
         SELECT zeroblob(32), account_id, zeroblob(16), 'ID', 9000000000000000000 FROM accounts",
        "INSERT INTO operations (op_id, account_id, kind, node_id, key_id, environment, operation, status, created_at) \
         SELECT 'op_1', account_id, 'arithmetic', 'ID', 'key_1', 'test', 'add', 'pending', 5 FROM accounts",
        "INSERT INTO ledger_accounts SELECT account_id FROM accounts",
        "INSERT INTO transfers SELECT 't_1', 'pending', account_id, 24320, 150000, 0, 0, 0, 5, 'ID', 5 FROM accounts",
        "INSERT INTO open_reservations SELECT 't_1', account_id, 24320, 150000, 0, 0, 0, 5, 'ID', 5 FROM accounts",
        "INSERT INTO ledger_balances SELECT account_id, 24320, 150000, 0, 0, 0, 0, 0, 5 FROM accounts",
    ] {
        execute(&machine.own, &sql.replace("ID", &id)).await;
    }

    // a missing object and a damaged one
    let name = machine.put_object("circuits", b"a netlist");
    let circuit = format!(
        "INSERT INTO circuits (account_id, name, text, bytes, sha256, gates, by_gate, levels, input_widths, output_widths, \
         created_at, updated_at, blob) SELECT account_id, 'and', '', 9, zeroblob(32), 1, '{{}}', 1, '[]', '[]', 5, 5, '{name}' FROM accounts"
    );
    execute(&machine.own, &circuit).await;
    let object = folder.join("circuits").join(&name);
    std::fs::write(&object, b"a netlisp").unwrap();
    machine.refused("was changed in the folder").await;
    std::fs::remove_file(&object).unwrap();
    machine.refused(&name).await;
    machine.put_object("circuits", b"a netlist");

    // a text that PostgreSQL cannot store
    execute(&machine.own, "INSERT INTO announcements VALUES ('a' || char(0), 5)").await;
    machine.refused("announcements: a row of announcements: the column fact has the character U+0000").await;
    assert!(machine.start().await.is_err());
    execute(&machine.own, "DELETE FROM announcements").await;
    machine.run().await;
    machine.arrived().await;
    let there = all_rows(&machine.config.database_url).await;
    let has = |table: &str, word: &str| there[table].iter().any(|row| row.contains(word));
    assert!(has("gate_sessions", "lost") && has("operations", "failed") && has("transfers", "voided"), "{there:?}");
    assert!(there["kept_answers"].is_empty() && there["open_reservations"].is_empty());
    machine.start().await.unwrap();
}

#[tokio::test]
async fn the_log_of_registration_numbers_is_checked_to_its_end() {
    let Some(mut machine) = Machine::new().await else { return };
    let log = machine.folder.path().join("audit.log");
    machine.config.office.audit_log = Some(log.clone());
    std::fs::write(&log, "{\"seq\":1}\n").unwrap();
    match machine.try_run().await.unwrap() {
        Moved::Now(checks) => {
            let differing: Vec<&Check> = checks.iter().filter(|check| !check.is_same).collect();
            assert!(differing.len() == 1 && differing[0].target.starts_with("line 1 "), "{differing:?}");
        }
        Moved::Before(_) => unreachable!(),
    }
    assert!(machine.start().await.is_err(), "a move whose checks differ is not finished");
    std::fs::remove_file(&log).unwrap();
    machine.run().await;
}

/// Requests a batch whose answer is large, always with the same `Idempotency-Key`.
async fn large_answer(server: &TestServer, key: &str, body: &Value) -> Value {
    server.send(Request::post(BATCH, body).key(key).header("Idempotency-Key", "once-and-again")).await.ok(200)
}

#[tokio::test]
async fn a_moved_node_has_its_keys_circuits_answers_and_charges() {
    let Some(bucket) = bucket() else { return };
    let server = TestServer::with(|config| {
        config.database_url = format!("sqlite:{}", config.data_dir.join("ango.db").display());
    })
    .await;
    let mut config = server.running().config().clone();
    let account = Account::open(&server, Preset::Fast128).await;
    let (key, session) = (account.key.clone(), account.session.clone());
    account.send(Request::put_text(format!("{CIRCUITS}/and"), and_netlist(2))).await.ok(201);
    let body = account.batch("NOT", 32);
    let answer = large_answer(&server, &key, &body).await;
    let used = account.show().await["gates_used"].clone();
    drop(account);
    let folder = server.stop().await;
    assert_eq!(std::fs::read_dir(folder.path().join("answers")).unwrap().count(), 1);

    config.database_url = Kind::Postgres.empty_url(folder.path()).unwrap();
    config.bucket = Some(bucket);
    assert!(
        matches!(moving::run(&config, None, &|_| ()).await.unwrap(), Moved::Now(checks) if checks.iter().all(|check| check.is_same))
    );
    let pepper = std::fs::read(folder.path().join("pepper")).unwrap();
    drop(folder);

    let moved = TestServer::with(|of_node| {
        (of_node.database_url, of_node.bucket) = (config.database_url.clone(), config.bucket.clone());
        of_node.secret = Some(ServerSecret(<[u8; 32]>::try_from(pepper).unwrap().into()));
    })
    .await;
    assert_eq!(large_answer(&moved, &key, &body).await, answer);
    let old = moved.send(Request::get(format!("{SESSION}/{session}")).key(&key)).await;
    assert_eq!(old.status, 410, "the key of the session ended with the node's process");
    assert_eq!(used, json!(32));
    let account = Account {
        session: open_session(&moved, &key, Preset::Fast128).await,
        key,
        server: &moved,
        secret: tests_service::keys::of(Preset::Fast128),
    };
    let inputs = json!([account.value(&[true, true, true, false])]);
    let out = account.post(CIRCUITS, &account.circuit("and", inputs)).await.ok(200);
    assert_eq!(account.bits(&out["outputs"][0]), [true, false]);
    let report = moved.running().store().audit_ledger(i64::MAX / 4).await.unwrap();
    assert_eq!(report.findings, []);
}
