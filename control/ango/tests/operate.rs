//! Operators can restore a backup and check the settings.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use control::admin;
use control::app::{App, Running};
use control::caller::Plan;
use control::caller::{Environment, Role};
use control::config::Config;
use serde_json::{Value, json};
use tests_service::http::{Request, Response};
use tests_service::s3::S3;
use tests_store::Kind;

/// Runs `ango` in this folder, with the words of `line` as arguments. Returns the exit code, and the output followed by
/// the error output.
fn ango(line: &str, folder: &Path, variables: &[(&str, &str)]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_ango"))
        .args(line.split_whitespace())
        .current_dir(folder)
        .env_clear()
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    (output.status.code(), String::from_utf8([output.stdout, output.stderr].concat()).unwrap())
}

#[track_caller]
fn done(line: &str, folder: &Path) -> String {
    let (code, said) = ango(line, folder, &[]);
    assert_eq!(code, Some(0), "{line}: {said}");
    said
}

#[track_caller]
fn refused(line: &str, folder: &Path, why: &str) {
    let (code, said) = ango(line, folder, &[]);
    assert!(code == Some(1) && said.contains(why), "{line}: {said}");
}

async fn send(node: &Running, request: Request) -> Response {
    request.send(node.api_addr).await
}

/// Checks that the node computes NAND(1, 1) and runs the stored circuit `and` on the bits 1 and 1. Both run in a new
/// session whose key the node holds.
async fn computes(node: &Running, key: &str) {
    let session =
        send(node, Request::post("/api/v1/tfhe/session", &json!({"preset": "fast_128"})).key(key)).await.ok(201);
    let session = session["session_id"].as_str().unwrap().to_owned();
    let at = |what: &str| format!("/api/v1/tfhe/session/{session}/{what}");
    let one = send(node, Request::post(at("encrypt"), &json!({"bit": true})).key(key)).await.ok(200);
    let one = &one["ciphertext_b64"];
    let gate = json!({"session_id": session, "op": "NAND", "a": one, "b": one});
    let out = send(node, Request::post("/api/v1/tfhe/gate", &gate).key(key)).await.ok(200);
    let read = json!({"ciphertext_b64": out["result_b64"]});
    assert_eq!(send(node, Request::post(at("decrypt"), &read).key(key)).await.ok(200)["bit"], false);
    let circuit = json!({"session_id": session, "circuit": "and", "inputs": [[one], [one]]});
    let out = send(node, Request::post("/api/v1/tfhe/circuits", &circuit).key(key)).await.ok(200);
    let read = json!({"ciphertext_b64": out["outputs"][0][0]});
    assert_eq!(send(node, Request::post(at("decrypt"), &read).key(key)).await.ok(200)["bit"], true);
}

/// Rotates the key, always with the same `Idempotency-Key`, so that later calls get the stored answer of the first
/// call.
async fn kept(node: &Running, key: &str) -> Value {
    let request =
        Request::new("POST", "/api/v1/keys/apikey/rotate").key(key).header("Idempotency-Key", "once-and-again");
    send(node, request).await.ok(200)
}

#[tokio::test]
async fn a_backup_of_a_node_that_works_is_restored_and_computes_with_the_old_keys() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let node = App::start(Config::in_folder(at.join("ango-data"))).await.unwrap();
    let plan = Some(Plan::Enterprise);
    let made = admin::create_key(node.config(), Role::Developer, Environment::Test, None, plan).await.unwrap();
    let answer = kept(&node, &made.key).await;
    let netlist = Request::put_text("/api/v1/tfhe/circuits/and", "1 3\n2 1 1\n1 1\n\n2 1 0 1 2 AND\n");
    send(&node, netlist.key(&made.key)).await.ok(201);
    // the file of a large stored answer has a name of 64 hexadecimal digits; the backup leaves out other files
    let answers = at.join("ango-data/answers");
    let large = "ab".repeat(32);
    std::fs::write(answers.join(&large), "an answer").unwrap();
    std::fs::write(answers.join("half.of.one"), "half").unwrap();

    assert!(done("admin backup copy", at).contains("backed up"));
    refused("admin backup copy", at, "exists already");
    refused("admin backup other --without-database", at, "is a file");
    let names = |folder: &Path| {
        let mut names: Vec<_> =
            std::fs::read_dir(folder).unwrap().map(|one| one.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    assert_eq!(
        names(&at.join("copy")),
        ["ango.db", "answers", "ciphertexts", "circuits", "encryption-keys", "manifest.json", "node-id", "pepper"]
    );
    assert_eq!(names(&at.join("copy/answers")), [large]);
    assert_eq!(names(&at.join("copy/circuits")), names(&at.join("ango-data/circuits")));
    assert_eq!(names(at), ["ango-data", "copy"]);
    #[cfg(unix)]
    for (name, wanted) in [("", 0o700), ("ango.db", 0o600), ("pepper", 0o600), ("manifest.json", 0o600)] {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(at.join("copy").join(name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, wanted, "{name}");
    }
    node.shutdown().await;

    refused("admin restore copy", at, "not empty");
    refused("admin restore ango-data --data-dir new", at, "is not a backup");
    done("admin restore copy --data-dir new", at);
    let node = App::start(Config::in_folder(at.join("new"))).await.unwrap();
    computes(&node, &made.key).await;
    // the restored node can decrypt the stored answer, because the backup holds the secret and the id of the node
    assert_eq!(kept(&node, &made.key).await, answer);
    node.shutdown().await;
}

#[tokio::test]
async fn a_backup_that_is_not_whole_makes_no_data_folder() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done("migrate", at);
    done("admin create-key", at);
    done("admin backup copy", at);
    let restore = |why| {
        refused("admin restore copy --data-dir new", at, why);
        assert_eq!(std::fs::read_dir(at).unwrap().count(), 2, "the refused command leaves no files");
    };
    let damaged = |name: &str, bytes: &[u8], why| {
        let path = at.join("copy").join(name);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, bytes).unwrap();
        restore(why);
        std::fs::write(&path, whole).unwrap();
    };
    damaged("pepper", &[7; 32], "damaged");
    damaged("ango.db", b"", "damaged");
    let manifest = std::fs::read_to_string(at.join("copy/manifest.json")).unwrap();
    damaged("manifest.json", manifest.replace("\"pepper\"", "\"../pepper\"").as_bytes(), "is not a file of a backup");
    damaged("manifest.json", manifest.replace("\"secret\": true", "\"secret\": false").as_bytes(), "missing");
    damaged("manifest.json", manifest.replace("\"format\": 1", "\"format\": 2").as_bytes(), "format 2");
    std::fs::rename(at.join("copy/pepper"), at.join("copy/salt")).unwrap();
    restore("cannot read");
    std::fs::rename(at.join("copy/salt"), at.join("copy/pepper")).unwrap();
    done("admin restore copy --data-dir new", at);
}

#[tokio::test]
async fn half_a_backup_of_a_node_on_postgres_is_asked_for_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let Some(url) = Kind::Postgres.new_url(at) else { return };
    let mut config = Config::in_folder(at.join("ango-data"));
    config.database_url = url.clone();
    App::start(config).await.unwrap().shutdown().await;
    let with_url = |line: &str| ango(line, at, &[("ANGO_DATABASE_URL", &url)]);
    let (code, said) = with_url("admin backup copy");
    assert!(code == Some(1) && said.contains("pg_dump"), "{said}");
    let (code, said) = with_url("admin backup copy --without-database");
    assert!(code == Some(0) && said.contains("database is not in the backup"), "{said}");
    assert!(at.join("copy/pepper").is_file() && !at.join("copy/ango.db").exists());
    refused("admin restore copy --data-dir new", at, "ANGO_DATABASE_URL");
    let (code, said) = with_url("admin restore copy --data-dir new");
    assert!(code == Some(0) && at.join("new/pepper").is_file(), "{said}");
}

#[tokio::test]
async fn a_node_is_moved_by_the_program_which_tells_whether_both_sides_are_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done("migrate", at);
    done("admin create-key", at);
    refused("admin move", at, "ANGO_DATABASE_URL");
    let Some(url) = Kind::Postgres.empty_url(at) else { return };
    let Some(s3) = S3::start() else { return };
    let bucket = s3.config();
    let objects = format!("s3://{}/{}", bucket.url.bucket, bucket.url.prefix);
    let (endpoint, secret) = (bucket.endpoint.unwrap(), bucket.secret_access_key.unwrap());
    let settings = [
        ("ANGO_DATABASE_URL", url.as_str()),
        ("ANGO_OBJECTS_URL", &objects),
        ("ANGO_S3_ENDPOINT", &endpoint),
        ("ANGO_S3_ACCESS_KEY_ID", bucket.access_key_id.as_deref().unwrap()),
        ("ANGO_S3_SECRET_ACCESS_KEY", &secret),
    ];
    let (code, said) = ango("admin move --from-database postgres://127.0.0.1/ango", at, &settings);
    assert!(code == Some(1) && said.contains("--from-database"), "{said}");
    // a log that is broken keeps the move from its end
    std::fs::write(at.join("log"), "no entry\n").unwrap();
    let broken = [&settings[..], &[("SERVICE_AUDIT_LOG", "log")]].concat();
    let (code, said) = ango("admin move", at, &broken);
    assert!(code == Some(1) && said.contains("checks differ, so the move is not finished"), "{said}");
    let (code, said) = ango("admin create-key", at, &settings);
    assert!(code == Some(1) && said.contains("`ango admin move` again"), "{said}");
    let (code, said) = ango("config check", at, &settings);
    assert!(code == Some(3) && said.contains("`ango admin move` again"), "{said}");
    let database = format!("sqlite:{}", at.join("ango-data/ango.db").display());
    let (code, said) = ango(&format!("admin move --json --from-database {database}"), at, &settings);
    assert_eq!(code, Some(0), "{said}");
    let checks: Value = serde_json::from_str(said.lines().find(|line| line.starts_with('[')).unwrap()).unwrap();
    let checks = checks.as_array().unwrap();
    assert!(checks.len() > 50 && checks.iter().all(|check| check["is_same"] == true), "{checks:?}");
    assert!(said.contains("continuing") && said.contains("ango-data/pepper") && !said.contains(&*secret), "{said}");
    let (code, said) = ango("admin move", at, &settings);
    assert!(code == Some(0) && said.contains("nothing was changed"), "{said}");
    let (code, said) = ango("admin list-keys --json", at, &settings);
    assert!(code == Some(0) && said.contains("ak_"), "{said}");
}

#[tokio::test]
async fn config_check_prints_settings_without_secrets_and_says_what_does_not_answer() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let said = done("config check --session-ttl-s 60", at);
    let row = |said: &str, name: &str| {
        let row =
            said.lines().find(|line| line.trim_start().starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
        row.split_whitespace().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(row(&said, "ANGO_SESSION_TTL_S "), ["ANGO_SESSION_TTL_S", "flag", "60"]);
    assert_eq!(row(&said, "ANGO_LISTEN "), ["ANGO_LISTEN", "default", "127.0.0.1:8080"]);
    assert!(said.contains("ok   database"), "{said}");
    assert_eq!(std::fs::read_dir(at).unwrap().count(), 0, "the command makes no files");

    let (code, said) = ango("config check", at, &[("ANGO_SESSION_TTL_S", "1h")]);
    assert!(code == Some(1) && said.contains("ANGO_SESSION_TTL_S"), "{said}");

    let settings = at.join("settings.toml");
    std::fs::write(&settings, "session-ttl-s = 61\nrequest-deadline-s = 62\n").unwrap();
    let variables = [("ANGO_CONFIG", settings.to_str().unwrap()), ("ANGO_REQUEST_DEADLINE_S", "63")];
    let (code, said) = ango("config check", at, &variables);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(row(&said, "ANGO_SESSION_TTL_S ")[1..], ["file", settings.to_str().unwrap(), "61"]);
    assert_eq!(row(&said, "ANGO_REQUEST_DEADLINE_S ")[1..], ["environment", "63"]);
    std::fs::write(&settings, "sesion-ttl-s = 61\n").unwrap();
    refused("config check --config settings.toml", at, "did you mean \"session-ttl-s\"");
    let (code, said) = ango("admin create-key --secret hunter2", at, &[]);
    assert!(code == Some(2) && said.contains("ANGO_SECRET is a secret") && !said.contains("hunter2"), "{said}");

    let secret = "0123456789abcdef".repeat(4);
    // nothing listens on port 9, so none of these servers can be reached
    let away = [
        ("ANGO_SECRET", secret.as_str()),
        ("ANGO_DATABASE_URL", "postgres://ango:hunter2@127.0.0.1:9/ango"),
        ("ANGO_REDIS_URL", "redis://:hunter2@127.0.0.1:9"),
        ("ANGO_TRUSTED_PROXIES", "10.0.0.0/8"),
        ("ANGO_OBJECTS_URL", "s3://ango"),
        ("ANGO_S3_ENDPOINT", "http://127.0.0.1:9"),
        ("ANGO_S3_ACCESS_KEY_ID", "ango"),
        ("ANGO_S3_SECRET_ACCESS_KEY", "hunter2"),
    ];
    let (code, said) = ango("config check", at, &away);
    assert_eq!(code, Some(3), "{said}");
    for what in ["database", "redis", "bucket", "proxies"] {
        assert!(said.contains(&format!("FAIL {what}: ")), "{what}: {said}");
    }
    assert!(!said.contains("hunter2") && !said.contains(&secret), "{said}");
    let (code, said) = ango("config check --json", at, &away);
    let said: Value = serde_json::from_str(&said).unwrap();
    assert_eq!((code, &said["settings"]["ANGO_SECRET"]["value"]), (Some(3), &"(given, not shown)".into()));

    if let Some(s3) = S3::start() {
        let bucket = s3.config();
        let (url, endpoint) = (format!("s3://{}/{}", bucket.url.bucket, bucket.url.prefix), bucket.endpoint.unwrap());
        let (id, secret) = (bucket.access_key_id.unwrap(), bucket.secret_access_key.unwrap());
        let there = [
            ("ANGO_OBJECTS_URL", url.as_str()),
            ("ANGO_S3_ENDPOINT", &endpoint),
            ("ANGO_S3_ACCESS_KEY_ID", &id),
            ("ANGO_S3_SECRET_ACCESS_KEY", &secret),
        ];
        let (code, said) = ango("config check", at, &there);
        assert!(code == Some(0) && said.contains("ok   bucket: "), "{said}");
        let (code, said) = ango("config check", at, &[&there[..3], &[("ANGO_S3_SECRET_ACCESS_KEY", "wrong")]].concat());
        assert!(code == Some(3) && said.contains("FAIL bucket: "), "{said}");

        // start a node with another database, so that the prefix of the objects in the bucket belongs to that database
        let other = tempfile::tempdir().unwrap();
        let mut config = Config::in_folder(other.path());
        config.bucket = Some(s3.config());
        App::start(config).await.unwrap().shutdown().await;
        let (code, said) = ango("config check", at, &there);
        assert!(code == Some(3) && said.contains("to another database"), "{said}");
    }

    let Some(url) = Kind::Postgres.empty_url(at) else { return };
    let postgres = [("ANGO_DATABASE_URL", url.as_str())];
    let (code, said) = ango("config check", at, &postgres);
    assert!(code == Some(0) && said.contains("creates the tables at startup"), "{said}");
    store::Store::connect(&url).await.unwrap().migrate_up_to(1).await.unwrap();
    let (code, said) = ango("config check", at, &postgres);
    assert!(code == Some(3) && said.contains("ango migrate"), "{said}");
}

/// X16: the log says who did what.
#[test]
fn the_log_names_account_and_key_and_what_happened_to_credentials_and_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    done("migrate", at);
    let made = done("admin create-key --json", at);
    assert!(made.contains("key made by the operator"), "{made}");
    let made: Value = serde_json::from_str(made.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let log = std::fs::File::create(at.join("log")).unwrap();
    let mut node = Command::new(env!("CARGO_BIN_EXE_ango"))
        .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--log-format", "json"])
        .current_dir(at)
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(log)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(node.stdout.take().unwrap()).lines().map(Result::unwrap);
    let address = said.find_map(|line| Some(line.strip_prefix("  API      http://")?.to_owned())).unwrap();
    let line = said.find(|line| line.contains("the link is in the file")).unwrap();
    // without a terminal, the node writes the setup link to a file that only the file's owner can read
    assert!(!line.contains("st_") && line.contains("setup-link"), "{line}");
    let link = std::fs::read_to_string(at.join("ango-data/setup-link")).unwrap();
    let token = link.trim().split_once("/setup#").unwrap().1.to_owned();

    let runtime = tokio::runtime::Runtime::new().unwrap();
    let send = |request: Request| runtime.block_on(request.send(address.parse().unwrap()));
    let key = made["key"].as_str().unwrap();
    send(Request::new("POST", "/api/v1/keys/apikey/rotate").key(key)).ok(200);
    let wrong = format!("svc_live_{}", "0f".repeat(16));
    send(Request::get("/api/v1/tfhe/circuits").key(&wrong)).error(401, "INVALID_API_KEY");
    let user = json!({"token": token, "email": "ada@example.org", "password": "a long password"});
    let user = send(Request::post("/auth/setup", &user)).ok(201);
    let log_in = json!({"email": "ada@example.org", "password": "another password"});
    send(Request::post("/auth/login", &log_in)).error(401, "INVALID_CREDENTIALS");
    let tokens = user["access_token"].as_str().unwrap();
    let new = send(Request::post("/api/v1/user/api-keys", &json!({"environment": "live"})).key(tokens)).ok(201);
    send(Request::delete(format!("/api/v1/user/api-keys/{}", new["key_id"].as_str().unwrap())).key(tokens));
    send(Request::new("POST", "/api/v1/user/logout").key(tokens)).ok(200);
    node.kill().unwrap();
    node.wait().unwrap();

    let log = std::fs::read_to_string(at.join("log")).unwrap();
    let lines: Vec<Value> = log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let answered = |route: &str| {
        let is = |line: &&Value| line["message"] == "answered" && line["route"] == route;
        lines.iter().find(is).unwrap_or_else(|| panic!("{route}: {log}"))
    };
    let rotated = answered("/api/v1/keys/apikey/rotate");
    assert_eq!((&rotated["account_id"], &rotated["key_id"]), (&made["account_id"], &made["key_id"]));
    let of_user = answered("/api/v1/user/api-keys");
    assert_eq!((&of_user["user_id"], &of_user["key_id"]), (&user["user"]["user_id"], &Value::Null));
    // the log does not name a caller whose key was refused
    assert_eq!(answered("/api/v1/tfhe/circuits")["account_id"], Value::Null);
    for event in
        ["key rotated", "credential refused", "signed in", "sign-in refused", "key made", "key revoked", "signed out"]
    {
        assert!(lines.iter().any(|line| line["target"] == "security" && line["message"] == event), "{event}: {log}");
    }
    for secret in [key, &wrong, &token, tokens, "ada@example.org", "a long password", new["key"].as_str().unwrap()] {
        assert!(!log.contains(secret), "{secret}");
    }
}

#[test]
fn b38_a_timer_tells_findings_from_trouble_by_the_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let record = |end: &str| format!("{{\"T7000012050002\": {{\"registrationDate\": \"2023-10-01\"{end}}}}}");
    std::fs::write(folder.path().join("watch"), "T7000012050002\n").unwrap();
    std::fs::write(folder.path().join("active"), record("")).unwrap();
    std::fs::write(folder.path().join("revoked"), record(", \"disposalDate\": \"2025-11-01\"")).unwrap();
    for (records, code, said) in
        [("active", 0, "1 in force"), ("revoked", 1, "1 revoked or lapsed"), ("none", 2, "ango: none: ")]
    {
        let line = format!("run-job monitor --watch watch --records {records} --as-of 2025-12-01");
        let (ended, told) = ango(&line, folder.path(), &[]);
        assert!(ended == Some(code) && told.contains(said), "{line}: {ended:?} {told}");
    }
    // e2: a line without a registration number is an error, and the output names the numbers that are not found
    std::fs::write(folder.path().join("watch"), "T7000012050002\nT17001500070\nT1180301018771\n").unwrap();
    let line = "run-job monitor --watch watch --records active --as-of 2025-12-01";
    let (ended, told) = ango(line, folder.path(), &[]);
    assert_eq!(ended, Some(2), "{told}");
    for said in ["watch: line 2: T17001500070", "T1180301018771  not_found", "1 in force, 2 not found"] {
        assert!(told.contains(said), "{said}: {told}");
    }
}
