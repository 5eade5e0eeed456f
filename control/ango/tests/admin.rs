//! Runs the operator's commands as programs, on both databases. Each command prints a table for people or, with
//! `--json`, JSON for scripts. A failing command prints its error in one line.

use std::io::Write;
use std::net::IpAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use api::{Environment, Plan, Role};
use control::config::ServerSecret;
use serde_json::Value;
use store::{Lockout, LockoutKind, NewApiKey, Store};
use tempfile::TempDir;
use tests_service::TestServer;
use tests_service::http::Request;
use tests_store::Kind;

/// A data folder and the URL of its database.
struct Place {
    folder: PathBuf,
    database: String,
    /// Keeps the temporary folder until the place is dropped. `None` if a running node owns the folder.
    _kept: Option<TempDir>,
}

impl Place {
    /// Makes a data folder, with the URL of an empty database. Returns `None` if this machine lacks the database.
    fn new(kind: Kind) -> Option<Place> {
        let folder = tempfile::tempdir().unwrap();
        let database = kind.empty_url(folder.path())?;
        Some(Place { folder: folder.path().to_owned(), database, _kept: Some(folder) })
    }

    /// Returns the data folder and the database URL of a running node.
    fn of(server: &TestServer) -> Place {
        let config = server.running().config();
        Place { folder: config.data_dir.clone(), database: config.database_url.clone(), _kept: None }
    }

    /// Runs `ango admin` with the words of `line` as arguments, and with `input` on the standard input. Returns whether
    /// the command succeeded, its output and its error output.
    fn run(&self, line: &str, input: &str) -> (bool, String, String) {
        self.program(&format!("admin {line}"), input)
    }

    /// Like [`Place::run`], but runs `ango` instead of `ango admin`.
    fn program(&self, line: &str, input: &str) -> (bool, String, String) {
        let mut process = Command::new(env!("CARGO_BIN_EXE_ango"))
            .args(line.split_whitespace())
            .arg("--data-dir")
            .arg(&self.folder)
            .env_clear()
            .env("ANGO_DATABASE_URL", &self.database)
            .env("ANGO_SECRET", "07".repeat(32))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // some commands read no input and may have ended already; then the write fails, which does not matter
        let _ = process.stdin.take().unwrap().write_all(input.as_bytes());
        let output = process.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    /// Runs a command of `ango admin`, which must succeed. Returns the output for people.
    #[track_caller]
    fn table(&self, line: &str) -> String {
        let (fine, output, errors) = self.run(line, "");
        assert!(fine, "{line}: {errors}");
        output
    }

    /// Runs a command of `ango admin`, which must succeed. Returns the output for scripts.
    #[track_caller]
    fn json(&self, line: &str) -> Value {
        let output = self.table(&format!("{line} --json"));
        serde_json::from_str(&output).unwrap_or_else(|_| panic!("{line}: {output}"))
    }

    #[track_caller]
    fn refused(&self, line: &str, why: &str) {
        let (fine, output, errors) = self.run(line, "");
        assert!(!fine && output.is_empty() && errors.contains(why), "{line}: {output}{errors}");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a text")
}

/// Whether a text has the form of an API key.
fn is_key(text: &str) -> bool {
    text.starts_with("svc_live_") && text.len() == 41
}

async fn every_command_works_as_a_program(kind: Kind) {
    let Some(place) = Place::new(kind) else { return };

    // operators' commands do not make the schema: `migrate` makes it (D15)
    place.refused("create-key", if kind == Kind::Sqlite { "cannot open" } else { "ango migrate" });
    for said in ["the schema was created", "up to date"] {
        let (fine, output, errors) = place.program("migrate", "");
        assert!(fine && output.contains(said), "{output}{errors}");
    }

    // the commands for keys, accounts and plans
    assert!(is_key(place.table("create-key").trim()));
    let made = place.json("create-key --role account_admin --plan pro");
    assert!(is_key(text(&made["key"])));
    let (key_id, account) = (text(&made["key_id"]), text(&made["account_id"]));
    let keys = place.json("list-keys");
    assert_eq!(keys.as_array().unwrap().len(), 2);
    let keys = place.json(&format!("list-keys --account {account}"));
    assert_eq!((&keys[0]["key_id"], &keys[0]["revoked_at"]), (&made["key_id"], &Value::Null));
    let table = place.table("list-keys");
    assert!(table.contains("key_prefix") && table.contains(key_id) && !table.contains(text(&made["key"])), "{table}");
    assert!(place.table(&format!("set-plan {account} enterprise")).contains("enterprise"));
    assert_eq!(place.json(&format!("set-plan {account} scale"))["plan"], "scale");
    let accounts = place.json("list-accounts");
    let ours = accounts.as_array().unwrap().iter().find(|one| one["account_id"] == account).unwrap();
    assert_eq!((&ours["plan"], &ours["keys"]), (&"scale".into(), &1.into()));
    assert!(place.table("list-accounts").contains("scale"));
    assert_eq!(place.json(&format!("revoke-key {key_id}"))["status"], "revoked");
    place.refused(&format!("revoke-key {key_id}"), "revoked already");

    // users
    let link = place.table("setup-link");
    assert!(link.contains("/setup#st_"), "{link}");
    assert_ne!(text(&place.json("setup-link")["setup_link"]), link.trim());
    let ada = place.json("create-user ada@example.org --role account_admin");
    assert!(text(&ada["password"]).len() >= 12);
    let (fine, output, errors) = place.run("create-user bob@example.org --password-stdin", "a password of bob\n");
    assert!(fine && output.is_empty() && errors.contains("is created"), "{output}{errors}");
    place.refused("create-user ada@example.org", "there is a user");
    place.refused("setup-link", "there are users already");
    let users = place.json("list-users");
    assert_eq!((&users[0]["email"], &users[1]["role"]), (&"ada@example.org".into(), &"developer".into()));
    assert!(place.table("list-users").contains("bob@example.org"));
    let link = place.table("reset-password bob@example.org");
    assert!(link.contains("/reset#pt_"), "{link}");
    assert_eq!(place.json("reset-password Bob@example.org")["user_id"], users[1]["user_id"]);
    assert!(place.json("disable-user bob@example.org")["disabled_at"].is_string());
    place.refused("disable-user bob@example.org", "disabled already");
    place.refused("reset-password bob@example.org", "enable-user");
    assert!(place.table("enable-user bob@example.org").contains("is enabled"));
    place.refused("enable-user bob@example.org", "not disabled");
    place.refused("reset-password eve@example.org", "no user");
    assert!(place.table("disable-user bob@example.org").contains("is disabled"));
    assert!(place.json("enable-user bob@example.org")["disabled_at"].is_null());

    // the commands for the role, the sign-ins and the keys of a user
    assert_eq!(place.json("set-role bob@example.org viewer")["role"], "viewer");
    assert_eq!(place.json("list-users")[1]["role"], "viewer");
    place.refused("set-role bob@example.org trial", "for keys");
    place.refused("set-role eve@example.org viewer", "no user");
    assert_eq!(place.json("sign-out bob@example.org")["ended"], 0);
    let bob = text(&users[1]["user_id"]).to_owned();
    let store = Store::open(&place.database).await.unwrap();
    let made = |digest: &'static [u8; 32], key_id: &'static str| NewApiKey {
        key_id,
        account_id: "acct_of_bob",
        lineage_id: key_id,
        digest,
        key_prefix: "svc_live_0123456",
        role: Role::Viewer,
        environment: Environment::Live,
        office: true,
        plan: Plan::Free,
        created_at: 5,
        expires_at: None,
    };
    for (digest, key_id) in [(&[1; 32], "ak_bobs"), (&[2; 32], "ak_second")] {
        store.write(async |tx| tx.insert_user_key(&made(digest, key_id), &bob, 0, 9).await).await.unwrap();
    }
    // a rotation adds no row to `user_keys` for the successor, but the successor has the lineage of the old key, and
    // the lineage leads to the user
    let next = NewApiKey { key_id: "ak_next", ..made(&[3; 32], "ak_bobs") };
    assert!(store.write(async |tx| tx.rotate_api_key("ak_bobs", 900, &next, None).await).await.unwrap());
    let of_bob = |place: &Place| place.json("list-keys --user bob@example.org").as_array().unwrap().clone();
    assert_eq!(of_bob(&place).len(), 3);
    assert!(of_bob(&place).iter().any(|key| key["status"] == "expired" && key["lineage_id"] == "ak_bobs"));
    let (fine, output, errors) = place.run("revoke-keys --user bob@example.org", "");
    assert!(fine && output.contains("2 keys revoked"), "{output}{errors}");
    assert!(errors.contains("security: keys revoked by the operator") && errors.contains(&bob), "{errors}");
    assert!(of_bob(&place).iter().all(|key| key["status"] == "revoked"));
    assert_eq!(place.json(&format!("revoke-keys --account {account}"))["revoked"], 0);
    place.refused("revoke-keys --account acct_00000000000000000000000000", "no account");
    place.refused("revoke-keys", "--account");
    assert_eq!(place.json("delete-user bob@example.org")["revoked"], 0);
    place.refused("delete-user bob@example.org", "no user");
    assert_eq!(place.json("list-users").as_array().unwrap().len(), 1);
    store.close().await;

    // usage
    assert_eq!(place.json(&format!("usage {account}")).as_array().unwrap().len(), 0);
    place.refused(&format!("usage {account} --months 0"), "months");

    place.refused("rotate-signing-key", "no signing key yet");
    let store = Store::open(&place.database).await.unwrap();
    store.signing_key(b"of a node that has started").await.unwrap();
    store.close().await;
    assert!(place.table("rotate-signing-key").contains("is the new signing key"));
    assert!(place.json("rotate-signing-key")["old_key_ends_at"].is_string());

    // lockouts
    assert_eq!(place.json("list-lockouts").as_array().unwrap().len(), 0);
    let store = Store::open(&place.database).await.unwrap();
    let far = i64::MAX / 4_000;
    let lock = |subject: u8| Lockout {
        subject: [subject; 32],
        kind: LockoutKind::Address,
        failures: Vec::new(),
        locked_until: Some(far),
        expires_at: far,
    };
    let set = |known: &mut Lockout, new: &Lockout| *known = new.clone();
    store.add_lockout_failures(&[lock(1), lock(2), lock(3)], set).await.unwrap();
    store.close().await;
    let first = "01".repeat(32);
    assert!(place.table("list-lockouts").contains(&first));
    assert_eq!(place.json(&format!("clear-lockout {first}"))["cleared"], 1);
    place.refused(&format!("clear-lockout {first}"), "there is no lockout");
    let nobody: IpAddr = "192.0.2.1".parse().unwrap();
    place.refused(&format!("clear-lockout --address {nobody}"), "there is no lockout");
    assert!(place.table("clear-lockout --all").contains("2 lockouts cleared"));
}

/// Runs `ango` in this folder with the words of `line` as arguments, and with no other settings. Returns whether the
/// program succeeded, and its output followed by its error output.
fn alone(folder: &std::path::Path, line: &str) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ango"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .output()
        .unwrap();
    (output.status.success(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[test]
fn a_folder_that_is_not_a_node_s_is_refused_and_not_made() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["admin list-keys", "admin create-key", "admin setup-link", "admin list-users --data-dir ."] {
        let (fine, said) = alone(folder.path(), line);
        assert!(!fine && said.contains("ANGO_DATA_DIR"), "{line}: {said}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let (fine, said) = alone(folder.path(), "migrate");
    assert!(fine, "{said}");
    let (fine, said) = alone(folder.path(), "admin create-key");
    assert!(fine && said.contains("svc_live_"), "{said}");
    // if the file of the secret is missing, the command makes no new secret, because the database has keys
    std::fs::remove_file(folder.path().join("ango-data/pepper")).unwrap();
    let (fine, said) = alone(folder.path(), "admin create-key");
    assert!(!fine && said.contains("pepper is missing"), "{said}");
}

#[tokio::test]
async fn d15_a_node_leaves_an_older_schema_of_a_shared_database_to_the_operator() {
    let folder = tempfile::tempdir().unwrap();
    let Some(url) = Kind::Postgres.empty_url(folder.path()) else { return };
    let store = Store::connect(&url).await.unwrap();
    store.migrate_up_to(1).await.unwrap();
    let node = |at_start: bool| {
        let mut config = control::config::Config::in_folder(folder.path());
        (config.database_url, config.migrate_at_start) = (url.clone(), at_start);
        control::app::App::start(config)
    };
    let error = node(false).await.err().expect("the node does not start").to_string();
    assert!(error.contains("ango migrate") && error.contains("0002"), "{error}");
    assert!(matches!(store.schema().await.unwrap(), store::Schema::Older(_)));
    node(true).await.unwrap().shutdown().await;
    assert_eq!(store.schema().await.unwrap(), store::Schema::Current);
}

#[tokio::test]
async fn every_command_works_as_a_program_sqlite() {
    every_command_works_as_a_program(Kind::Sqlite).await;
}

#[tokio::test]
async fn every_command_works_as_a_program_postgres() {
    every_command_works_as_a_program(Kind::Postgres).await;
}

/// Starts a node with the same secret as the programs that [`Place::program`] runs.
async fn server() -> TestServer {
    TestServer::with(|config| config.secret = Some(ServerSecret([7; 32].into()))).await
}

// two threads, so that the node keeps running while the test waits for a program: the program may wait for a database
// lock that the node holds
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a17_revoke_key_ends_the_successor_of_a_stolen_key_and_list_keys_shows_it() {
    let server = server().await;
    let place = Place::of(&server);
    let list = async |key: &str| server.send(Request::get("/api/v1/tfhe/circuits").key(key)).await;
    let made = place.json("create-key --role viewer");
    let (stolen, key_id) = (text(&made["key"]), text(&made["key_id"]));
    let rotated = server.send(Request::new("POST", "/api/v1/keys/apikey/rotate").key(stolen)).await.ok(200);
    let successor = text(&rotated["key"]);
    list(successor).await.ok(200);

    let keys = place.json("list-keys");
    let of = |id: &str| {
        keys.as_array().unwrap().iter().find(|key| key["key_id"] == id).expect("the list has the key").clone()
    };
    let (old, new) = (of(key_id), of(text(&rotated["key_id"])));
    assert_eq!(old["lineage_id"], new["lineage_id"]);
    assert!(text(&new["lineage_id"]).starts_with("lin_"));
    assert_eq!((old["rotated_at"].is_string(), &new["rotated_at"]), (true, &Value::Null));
    assert_eq!((&new["last_used_at"], &new["made_by"]), (&Value::Null, &Value::Null));

    let revoked = place.json(&format!("revoke-key {key_id}"));
    assert_eq!(revoked["revoked_key_ids"].as_array().unwrap().len(), 2);
    server.clock.advance(std::time::Duration::from_secs(1));
    for key in [stolen, successor] {
        list(key).await.error(401, "INVALID_API_KEY");
    }
    place.refused(&format!("revoke-key {}", text(&rotated["key_id"])), "revoked already");
}

// two threads, so that the node keeps running while the test waits for a program: the program may wait for a database
// lock that the node holds
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn list_keys_names_the_user_who_made_a_key() {
    let server = server().await;
    let user = server.user("ada@example.org", control::caller::Role::AccountAdmin).await;
    let body = serde_json::json!({"environment": "live"});
    let made = server.send(Request::post("/api/v1/user/api-keys", &body).key(&user.token)).await.ok(201);
    let keys = Place::of(&server).json("list-keys");
    assert_eq!((&keys[0]["key_id"], text(&keys[0]["made_by"])), (&made["key_id"], user.user_id.as_str()));
}

// two threads, so that the provider and the node keep running while the test waits for a program
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reconcile_provider_prints_both_values_and_exits_with_1_if_anything_differs() {
    let provider = tests_service::payments::PaymentStandIn::start().await;
    let server = TestServer::with(|config| {
        config.secret = Some(ServerSecret([7; 32].into()));
        provider.configure(config);
    })
    .await;
    let place = Place::of(&server);
    place.refused("reconcile-provider", "ANGO_PAYMENTS_PROVIDER");
    place.refused("preview-month 2026-13", "must be a month");
    assert_eq!(place.json("preview-month"), Value::Array(Vec::new()));
    let run = |line: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_ango"))
            .args(["admin", "reconcile-provider"])
            .args(line.split_whitespace())
            .arg("--data-dir")
            .arg(&place.folder)
            .env_clear()
            .env("ANGO_DATABASE_URL", &place.database)
            .envs(provider.variables())
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, output, errors) = run("");
    assert_eq!((code, output.as_str()), (Some(0), "the records and the provider agree\n"), "{errors}");
    let account = place.json("create-key");
    let customer = provider.account().new_customer_of(text(&account["account_id"]));
    let (code, output, errors) = run("--days 1");
    assert!(output.contains("customer_not_on_record") && output.contains(&customer), "{output}");
    assert_eq!(code, Some(1));
    assert!(errors.contains("1 differences"), "{errors}");
    let (code, output, _) = run("--apply --json");
    let found: Value = serde_json::from_str(&output).unwrap();
    assert_eq!((code, &found[0]["there"], &found[0]["mended"]), (Some(0), &customer.into(), &true.into()));
    assert_eq!(run("--json").1, "[]\n");
}
