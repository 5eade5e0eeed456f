//! Runs the commands of the built program for clients: `ango client` with a node in this process, and `ango demo`.
#![cfg(feature = "client-tools")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use control::admin;
use control::app::{App, Running};
use control::caller::Plan;
use control::caller::{Environment, Role};
use control::config::Config;
use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// A netlist that adds two 2-bit numbers modulo 4.
const ADDER2: &str = "4 8\n2 2 2\n1 2\n\n2 1 0 2 6 XOR\n2 1 0 2 4 AND\n2 1 1 3 5 XOR\n2 1 5 4 7 XOR\n";

/// A folder in which the commands run, and their environment variables: a node's URL and an API key.
struct Shell {
    folder: TempDir,
    variables: Vec<(&'static str, String)>,
}

impl Shell {
    fn new() -> Shell {
        Shell { folder: tempfile::tempdir().unwrap(), variables: Vec::new() }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn output(&self, line: &str) -> Output {
        Command::new(env!("CARGO_BIN_EXE_ango"))
            .args(line.split_whitespace())
            .current_dir(self.folder.path())
            .env_clear()
            .envs(self.variables.iter().map(|(name, value)| (*name, value)))
            .output()
            .unwrap()
    }

    /// Runs a command, which must succeed. Returns the command's output without the line break at its end.
    #[track_caller]
    fn run(&self, line: &str) -> String {
        let output = self.output(line);
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    #[track_caller]
    fn json(&self, line: &str) -> Value {
        serde_json::from_str(&self.run(line)).unwrap()
    }

    /// Runs a command, which must fail. Returns the error, which must be a single line.
    #[track_caller]
    fn refusal(&self, line: &str) -> String {
        let output = self.output(line);
        let message = String::from_utf8(output.stderr).unwrap().trim_end().to_owned();
        assert!(!output.status.success() && output.stdout.is_empty(), "{line} succeeded");
        assert!(message.starts_with("ango: ") && !message.contains('\n'), "{message}");
        message
    }
}

/// A node, and a shell whose variables hold the node's URL and an API key.
struct Node {
    running: Option<Running>,
    runtime: Runtime,
    shell: Shell,
    _folder: TempDir,
}

impl Node {
    fn start() -> Node {
        let (runtime, folder, mut shell) = (Runtime::new().unwrap(), tempfile::tempdir().unwrap(), Shell::new());
        let config = Config::in_folder(folder.path().join("data"));
        let (key, running) = runtime.block_on(async {
            let node = App::start(config).await.unwrap();
            let plan = Some(Plan::Enterprise);
            let made = admin::create_key(node.config(), Role::Developer, Environment::Test, None, plan).await.unwrap();
            (made.key, node)
        });
        shell.variables = vec![("ANGO_URL", running.url()), ("ANGO_API_KEY", key.to_string())];
        Node { running: Some(running), runtime, shell, _folder: folder }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            self.runtime.block_on(running.shutdown());
        }
    }
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[cfg(unix)]
#[test]
fn a_secret_key_file_is_its_owner_s_alone_and_is_not_replaced_by_accident() {
    let shell = Shell::new();
    shell.run("client keygen --out keys");
    assert_eq!(mode(&shell.path("keys")), 0o700);
    assert_eq!(mode(&shell.path("keys/secret.key")), 0o600);
    let first = fs::read(shell.path("keys/secret.key")).unwrap();
    assert!(shell.refusal("client keygen --out keys").contains("--force"));
    assert_eq!(fs::read(shell.path("keys/secret.key")).unwrap(), first);
    let facts = shell.json("client keygen --out keys --force --preset standard_128 --json");
    assert_eq!(facts["preset"], "standard_128");
    assert_ne!(fs::read(shell.path("keys/secret.key")).unwrap(), first);
    assert_eq!(mode(&shell.path("keys/secret.key")), 0o600);
}

#[test]
fn numbers_survive_files_of_ciphertexts() {
    let shell = Shell::new();
    shell.run("client keygen");
    shell.run("client encrypt 200 --width 8 --out a.ct");
    shell.run("client encrypt 0xdeadbeefdeadbeefdeadbeefdeadbeef --out b.ct");
    shell.run("client encrypt 1 --out c.ct");
    assert_eq!(shell.run("client decrypt a.ct b.ct c.ct"), "200\n0xdeadbeefdeadbeefdeadbeefdeadbeef\n1");
    let values = shell.json("client decrypt --hex --json a.ct");
    assert_eq!(values["values"][0]["value"], "0xc8");
    assert!(shell.refusal("client encrypt 300 --width 8 --out d.ct").contains("does not fit"));
    assert!(shell.refusal("client encrypt 300 --out d.ct").contains("--width"));
    assert!(!shell.path("d.ct").exists());
    assert!(shell.refusal("client encrypt 1 --out a.ct").contains("--force"));

    // another key's ciphertext is refused, because it would decrypt to nonsense
    shell.run("client keygen --out other");
    assert!(shell.refusal("client decrypt --secret-key other/secret.key a.ct").contains("another key"));
    assert!(shell.refusal("client decrypt ango-keys/secret.key").contains("secret key"));
}

#[test]
fn a_shell_user_computes_on_a_node_with_no_other_tool() {
    let node = Node::start();
    let shell = &node.shell;
    fs::write(shell.path("adder2.txt"), ADDER2).unwrap();
    shell.run("client keygen");
    // the command takes numbers and prints a number: it encrypts the inputs and decrypts the result
    assert_eq!(shell.run("client run --circuit adder2.txt --input 3 --input 2"), "1");
    assert_eq!(shell.run("client run --circuit adder2.txt --mapping none --input 3 --input 2"), "1");
    assert_eq!(shell.run("client run --gate MUX --input 0 --input 1 --input 0"), "1");

    // without the secret key and in a session that stays open, the command reads ciphertexts from files and writes the
    // result to a file
    shell.run("client encrypt 1 --width 2 --out a.ct");
    let opened = shell.json("client session open --json");
    assert_eq!((&opened["preset"], &opened["is_blind"]), (&Value::from("fast_128"), &Value::from(true)));
    let session = opened["session_id"].as_str().unwrap();
    fs::rename(shell.path("ango-keys/secret.key"), shell.path("away")).unwrap();
    let line = "client run --circuit adder2.txt --input @a.ct --input @a.ct --out sum.ct --json";
    let facts = shell.json(&format!("{line} --session {session}"));
    // three XOR gates count four operations each, and one AND gate counts one
    assert_eq!((&facts["gates"], &facts["bootstrap_ops"], &facts["cost_jpy"]), (&4.into(), &13.into(), &1.3.into()));
    assert_eq!(shell.run("client decrypt sum.ct --secret-key away"), "2");
    let seen = shell.json(&format!("client session show {session} --json"));
    assert_eq!((&seen["gates_used"], &seen["total_cost_jpy"]), (&4.into(), &1.3.into()));
    shell.run(&format!("client session close {session}"));
    assert!(shell.refusal(&format!("client session show {session}")).contains("SESSION_NOT_FOUND"));
}

#[test]
fn what_is_wrong_is_said_in_one_line_before_anything_is_sent() {
    let node = Node::start();
    let mut shell = Shell { folder: tempfile::tempdir().unwrap(), variables: node.shell.variables.clone() };
    fs::write(shell.path("bad.txt"), "1 3\n1 2\n1 1\n2 1 0 1 2 IMPLY\n").unwrap();
    assert!(shell.refusal("client run --gate AND --input 1 --input 1").contains("ango-keys/secret.key"));
    shell.run("client keygen");
    for (line, part) in [
        ("client run --circuit bad.txt --input 1", "line 4"),
        ("client run --circuit none.txt --input 1", "none.txt"),
        ("client run --circuit builtin:sum64 --input 1 --input 2", "there are builtin:NAME"),
        ("client run --gate AND --input 1", "2 inputs of [1, 1] bits are needed"),
        ("client circuit stats none.txt", "none.txt"),
        ("client circuit stats bad.txt", "line 4"),
        ("client circuit show builtin:sum64", "there are builtin:NAME"),
        ("client run --gate AND --input 1 --input 2", "does not fit in 1 bits"),
        ("client run --gate NOT --input @none.ct", "none.ct"),
        ("client run --gate NOT --input @ango-keys/secret.key", "secret key"),
        ("client session open --evaluation-key ango-keys/secret.key", "not sent"),
        ("client run --circuit adder64 --input 1 --input 2 --out a --out b", "1 outputs"),
    ] {
        let message = shell.refusal(line);
        assert!(message.contains(part), "{line}: {message}");
    }
    shell.variables.retain(|(name, _)| *name != "ANGO_API_KEY");
    assert!(shell.refusal("client session open").contains("ANGO_API_KEY"));
    let key = node.shell.variables[1].1.clone();
    fs::write(shell.path("key"), format!("{key}\n")).unwrap();
    shell.run("client session open --api-key-file key");
    shell.variables[0].1 = "http://127.0.0.1:1".into();
    let message = shell.refusal("client session open --api-key-file key");
    assert!(message.contains("no answer from the node") && !message.contains(&key), "{message}");
}

#[test]
fn circuits_are_listed_shown_and_forecast_without_a_node() {
    let shell = Shell::new();
    let listed = shell.json("client circuit list --json");
    let names: Vec<&str> = listed["circuits"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    for name in ["adder64", "aes_128", "builtin:add<w>", "builtin:sort<n>x<w>"] {
        assert!(names.contains(&name), "{name} is missing: {names:?}");
    }
    let text = shell.run("client circuit list");
    assert!(text.contains("builtin:lt<w>") && text.contains("8 to 64") && text.contains("_signed _fast"), "{text}");

    // `circuit stats` shows the same figures for a circuit's name and for the netlist that `circuit show` prints
    let netlist = shell.run("client circuit show builtin:add8");
    fs::write(shell.path("add8.txt"), netlist + "\n").unwrap();
    let of = |circuit: &str| shell.json(&format!("client circuit stats {circuit} --preset fast_128_k2 --json"));
    let (by_file, by_name) = (of("add8.txt"), of("builtin:add8"));
    assert_eq!((&by_file["runs"], &by_file["gates"]), (&by_name["runs"], &by_name["gates"]));
    assert_eq!(by_name["gates_total"], 34);
    let runs = by_name["runs"].as_array().unwrap();
    let run = |mapping: &str, inputs: &str| {
        runs.iter().find(|run| run["mapping"] == mapping && run["inputs"] == inputs).unwrap()
    };
    let (cells, gates) = (run("cells", "fresh"), run("none", "fresh"));
    assert_eq!((&cells["bootstraps"], &cells["bootstrap_levels"]), (&15.into(), &8.into()));
    assert_eq!(gates["bootstraps"], 34);
    assert!(cells["failure_log2"].as_f64().unwrap() < gates["failure_log2"].as_f64().unwrap());

    let text = shell.run("client circuit stats builtin:add8");
    assert!(text.starts_with("builtin:add8: 34 gates (7 AND, 27 XOR) in "), "{text}");
    for preset in ["fast_128", "standard_128", "conservative_128", "fast_128_k2", "standard_128_k2"] {
        assert!(text.contains(preset), "{preset} is missing: {text}");
    }
}

#[test]
fn devices_are_shown_with_a_reason_for_each_that_is_passed_over_and_nothing_is_left_behind() {
    let shell = Shell::new();
    let shown = shell.json("devices --backend cpu --json");
    assert_eq!((&shown["choice"], &shown["passed_over"]), (&Value::from("cpu"), &serde_json::json!([])));
    assert!(shown["devices"][0]["backend"].as_str().unwrap().starts_with("cpu-"));
    let shown = shell.json("devices --backend cuda --json");
    let on_cpu = shown["devices"][0]["backend"].as_str().unwrap().starts_with("cpu-");
    assert_eq!(shown["passed_over"].as_array().unwrap().iter().any(|passed| passed["backend"] == "cuda"), on_cpu);
    assert!(shell.run("devices --backend cpu").starts_with("devices\n"));
    assert!(shell.refusal("devices --backend fpga").starts_with("ango: ANGO_BACKEND: "));
    assert_eq!(fs::read_dir(shell.path(".")).unwrap().count(), 0);
}

#[test]
fn the_demo_computes_a_circuit_and_leaves_nothing_behind() {
    let mut shell = Shell::new();
    fs::create_dir(shell.path("tmp")).unwrap();
    shell.variables = vec![("TMPDIR", shell.path("tmp").to_string_lossy().into_owned())];
    fs::write(shell.path("adder2.txt"), ADDER2).unwrap();
    let facts = shell.json("demo --circuit adder2.txt --input 3 --input 3 --json");
    assert_eq!((&facts["outputs"][0], &facts["correct"]), (&Value::from("2"), &Value::from(true)));
    assert_eq!((&facts["gates"], &facts["bootstrap_ops"], &facts["cost_jpy"]), (&4.into(), &13.into(), &1.3.into()));
    assert_eq!(facts["security_bits"], 128);
    let text = shell.run("demo --circuit adder2.txt");
    for part in ["backend", "fast_128_k2", "evaluation key", "gates/s", "1.3 yen", "equal to plain evaluation"] {
        assert!(text.contains(part), "{part} is missing: {text}");
    }
    assert!(shell.run("demo --licence").contains("University of Bristol"));
    assert!(shell.refusal("demo --circuit adder2.txt 1").contains("the circuit has 2"));
    assert_eq!(fs::read_dir(shell.path("tmp")).unwrap().count(), 0);
}

#[test]
fn vectors_of_numbers_are_encrypted_computed_with_and_decrypted() {
    let node = Node::start();
    let shell = &node.shell;
    let facts = shell
        .json("client numbers keygen --poly-degree 4096 --scale-bits 30 --max-depth 2 --security-level testing --json");
    assert_eq!(facts["slot_count"], 2048);
    #[cfg(unix)]
    assert_eq!(mode(&shell.path("ango-numbers/secret.key")), 0o600);
    assert!(shell.refusal("client numbers keygen").contains("--force"));
    shell.run("client numbers encrypt 1.5,-2.5 --out a.ct");
    shell.run("client numbers encrypt 4,2 --out b.ct");
    assert!(shell.run("client numbers decrypt a.ct").starts_with("1.50"));
    let read = |text: &str| text.split(',').map(|number| number.parse::<f64>().unwrap()).collect::<Vec<_>>();
    let near = |text: &str, expected: &[f64]| {
        let found = read(text);
        assert!(found.len() == expected.len(), "{text}");
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-2), "{text}");
    };
    // a single command uploads the keys, multiplies, and deletes the keys
    near(&shell.run("client numbers run --multiply --input 1.5,-2.5 --input 4,2"), &[6.0, -5.0]);
    // the same product in several commands, with a key that stays on the node
    let key = shell.run("client numbers key upload");
    assert!(key.starts_with("key_"), "{key}");
    shell.run(&format!("client numbers run --key {key} --multiply --input @a.ct --input @b.ct --out product.ct"));
    near(&shell.run("client numbers decrypt product.ct"), &[6.0, -5.0]);
    // numbers are shared with noise of the strength of this client's plan, which is written beside the result
    let lost = |line: &str| {
        let bits = |line: &str| shell.json(line)["results"][0]["precision_bits"].as_f64().unwrap();
        bits("client numbers decrypt product.ct --json") - bits(&format!("client numbers decrypt {line} --json"))
    };
    assert!((18.0..22.0).contains(&lost("product.ct --share 1")), "{}", lost("product.ct --share 1"));
    assert!((23.0..27.0).contains(&lost("product.ct --share")), "a thousand results");
    shell.run(&format!("client numbers run --key {key} --negate --input @product.ct --out negated.ct"));
    assert!((18.0..22.0).contains(&lost("negated.ct --share 1")), "the plan of a result of a result");
    let other = shell.refusal("client numbers decrypt negated.ct --share --plan product.ct.plan.json");
    assert!(other.contains("the plan of another ciphertext"), "{other}");
    std::fs::remove_file(shell.path("product.ct.plan.json")).unwrap();
    let refused = shell.refusal("client numbers decrypt product.ct --share");
    assert!(refused.contains("product.ct.plan.json") && refused.contains("--noise"), "{refused}");
    assert!(lost("product.ct --share 1 --noise 1") > 25.0, "a larger error than the record's");
    assert!(shell.refusal("client numbers decrypt product.ct --share --noise 0").contains("--noise"));
    shell.run("client numbers decrypt a.ct --share 1");
    let told = shell.json(&format!("client numbers run --key {key} --rotate -1 --input @product.ct --count 3 --json"));
    assert_eq!((&told["operation"], &told["levels_remaining"]), (&Value::from("rotate"), &Value::from(1)));
    near(
        &told["values"].as_array().unwrap().iter().map(Value::to_string).collect::<Vec<_>>().join(","),
        &[0.0, 6.0, -5.0],
    );
    near(
        &shell.run(&format!("client numbers run --key {key} --polynomial 1,0,1 --input @a.ct --count 2")),
        &[3.25, 7.25],
    );
    near(&shell.run(&format!("client numbers run --key {key} --add-plain 10 --input @a.ct --count 2")), &[11.5, -2.5]);
    let shown = shell.run(&format!("client numbers key show {key}"));
    assert!(shown.contains("operations   5") && shown.contains("ciphertexts  0"), "{shown}");
    // if the node refuses a request, the command prints the node's error in one line
    let refused = shell.refusal(&format!("client numbers run --key {key} --bootstrap --input @a.ct"));
    assert!(refused.contains("INVALID_PARAMS"), "{refused}");
    shell.run(&format!("client numbers key delete {key}"));
    assert!(shell.refusal(&format!("client numbers key show {key}")).contains("KEY_NOT_FOUND"));
    shell.run("client keygen");
    for (line, words) in [
        ("client numbers encrypt 1,x --out c.ct", "number 2, `x`, is not a number"),
        ("client numbers encrypt 5 --bound 4 --out c.ct", "above the bound"),
        ("client numbers encrypt 1 --out a.ct", "--force"),
        ("client numbers encrypt 1 --keys elsewhere --out c.ct", "keygen"),
        ("client numbers decrypt ango-numbers/secret.key", "secret key"),
        ("client numbers keygen --out other --poly-degree 4096 --max-depth 9", "max_depth"),
        ("client numbers run --multiply --input 1", "takes 2 ciphertexts"),
        // files of another kind are named, with the command that takes them
        (
            "client numbers decrypt ango-numbers/secret.key",
            "is a secret key for numbers, and a ciphertext of numbers is",
        ),
        ("client numbers decrypt ango-numbers/evaluation.key", "is an evaluation key for numbers"),
        (
            "client decrypt a.ct --secret-key ango-numbers/secret.key",
            "is a secret key for numbers, and a secret key for bits",
        ),
        ("client decrypt a.ct --secret-key ango-numbers/secret.key", "`ango client numbers decrypt`"),
        ("client run --gate NOT --input @a.ct", "is a ciphertext of numbers"),
    ] {
        let refused = shell.refusal(line);
        assert!(refused.contains(words), "{line}: {refused}");
    }
}

#[test]
fn the_demonstration_of_numbers_predicts_what_plain_arithmetic_does() {
    let shell = Shell::new();
    fs::write(
        shell.path("two.csv"),
        "name,temperature_c,vibration_mm_s,hours_k,load_pct\na,62,2.6,4.8,64\nb,70,3.1,2.0,80\n",
    )
    .unwrap();
    let report = shell.json("demo --ckks --csv two.csv --json");
    assert_eq!((&report["correct"], &report["operations"]), (&Value::from(true), &Value::from(4)));
    assert!(report["security_bits"].as_u64().unwrap() >= 128);
    assert!(report["precision_bits"].as_f64().unwrap() > 15.0, "{report}");
    for row in report["rows"].as_array().unwrap() {
        for outcome in 0..3 {
            let [found, plain] = ["decrypted", "plain"].map(|of| row[of][outcome].as_f64().unwrap());
            assert!((found - plain).abs() < 1e-4, "{row}");
        }
    }
    assert!(shell.refusal("demo --ckks --csv missing.csv").contains("missing.csv"));
}
