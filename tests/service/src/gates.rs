//! Gate sessions for tests: an account with a session under its client's key, and the requests of that account.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use client::{Preset, container};
use control::caller::Role;
use kernels::tfhe::Lwe;
use serde_json::{Value, json};

use crate::TestServer;
use crate::http::{Request, Response};
use crate::keys::{self, ClientKey};

/// Path for opening a session under an uploaded key.
pub const EVAL_SESSION: &str = "/api/v1/tfhe/eval-session";
/// Path for opening a session whose key the server makes. The path of a single session begins with this path too.
pub const SESSION: &str = "/api/v1/tfhe/session";
/// Path for listing sessions.
pub const SESSIONS: &str = "/api/v1/tfhe/sessions";
/// Path for evaluating one gate.
pub const GATE: &str = "/api/v1/tfhe/gate";
/// Path for evaluating up to 1024 gates.
pub const BATCH: &str = "/api/v1/tfhe/batch";
/// Path for running circuits and for storing them.
pub const CIRCUITS: &str = "/api/v1/tfhe/circuits";
/// Path for runs of circuits.
pub const OPERATIONS: &str = "/api/v1/tfhe/circuits/operations";
/// The media type of a body with a JSON head, followed by the words of ciphertexts without their containers' headers.
pub const OCTETS: &str = "application/octet-stream";

/// Makes a body of a JSON head and, behind it, ciphertexts without their containers' headers.
pub fn octets(head: &Value, ciphertexts: &[Vec<u8>]) -> Vec<u8> {
    let head = head.to_string();
    let words = ciphertexts.iter().flat_map(|container| &container[container::HEADER_BYTES..]);
    (head.len() as u32).to_le_bytes().into_iter().chain(head.bytes()).chain(words.copied()).collect()
}

/// Splits an answer in octets into its JSON head and the ciphertexts that follow the head, each of `n + 1` words.
#[track_caller]
pub fn split_octets(answer: &Response, preset: Preset) -> (Value, Vec<Lwe>) {
    assert_eq!((answer.status, answer.header("content-type")), (200, Some(OCTETS)), "{:?}", answer.body.get(..200));
    let (length, rest) = answer.body.split_at(4);
    let (head, words) = rest.split_at(u32::from_le_bytes(length.try_into().expect("four bytes")) as usize);
    let ciphertexts = words.chunks_exact(4 * (preset.params().lwe_dimension + 1));
    assert!(ciphertexts.remainder().is_empty());
    let word = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
    let read = |bytes: &[u8]| Lwe::new(bytes.chunks_exact(4).map(word).collect());
    (serde_json::from_slice(head).expect("a head of JSON"), ciphertexts.map(read).collect())
}

/// Makes a netlist of `width` AND gates. Gate `i` reads the bits `i` and `width + i` of one input value.
pub fn and_netlist(width: usize) -> String {
    let gates = (0..width).map(|i| format!("2 1 {i} {} {} AND\n", width + i, 2 * width + i));
    format!("{width} {}\n1 {}\n1 {width}\n\n{}", 3 * width, 2 * width, gates.collect::<String>())
}

/// Makes a netlist of one input of [`CHAIN_BITS`] bits and one output bit, in which each of so many gates takes the result of
/// the gate before: AND and OR in turns, each with another input bit.
pub fn chain_netlist(gates: usize) -> String {
    let lines = (0..gates).map(|gate| {
        let (before, input) = (if gate == 0 { 0 } else { CHAIN_BITS + gate - 1 }, (7 * gate + 1) % CHAIN_BITS);
        format!("2 1 {before} {input} {} {}\n", CHAIN_BITS + gate, if gate % 2 == 0 { "AND" } else { "OR" })
    });
    format!("{gates} {}\n1 {CHAIN_BITS}\n1 1\n\n{}", CHAIN_BITS + gates, lines.collect::<String>())
}

/// Returns the output of [`chain_netlist`] for these input bits.
pub fn chain_result(gates: usize, bits: &[bool]) -> bool {
    (0..gates).fold(bits[0], |before, gate| {
        let input = bits[(7 * gate + 1) % CHAIN_BITS];
        if gate % 2 == 0 { before && input } else { before || input }
    })
}

/// Makes a netlist of one input of [`CHAIN_BITS`] bits and one output of a bit for each chain: so many chains side by side, each
/// of so many gates. No chain reads a gate of another chain.
pub fn chains_netlist(chains: usize, gates: usize) -> String {
    let wire = |gate: usize, chain: usize| CHAIN_BITS + gate * chains + chain;
    let line = |gate: usize, chain: usize| {
        let (before, input) =
            (if gate == 0 { chain } else { wire(gate - 1, chain) }, (7 * gate + 1 + chain) % CHAIN_BITS);
        format!("2 1 {before} {input} {} {}\n", wire(gate, chain), if gate.is_multiple_of(2) { "AND" } else { "OR" })
    };
    let lines = (0..gates).flat_map(|gate| (0..chains).map(move |chain| line(gate, chain)));
    let count = gates * chains;
    format!("{count} {}\n1 {CHAIN_BITS}\n1 {chains}\n\n{}", CHAIN_BITS + count, lines.collect::<String>())
}

/// Returns the output of [`chains_netlist`] for these input bits.
pub fn chains_result(chains: usize, gates: usize, bits: &[bool]) -> Vec<bool> {
    let chain = |chain: usize| {
        (0..gates).fold(bits[chain], |before, gate| {
            let input = bits[(7 * gate + 1 + chain) % CHAIN_BITS];
            if gate % 2 == 0 { before && input } else { before || input }
        })
    };
    (0..chains).map(chain).collect()
}

/// Number of input bits of [`chain_netlist`].
pub const CHAIN_BITS: usize = 32;

/// Encodes bytes in base64, for a JSON member.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// Decodes a base64 member.
#[track_caller]
pub fn bytes(member: &Value) -> Vec<u8> {
    STANDARD.decode(member.as_str().expect("a string")).expect("base64")
}

/// An account with an open session whose secret key the server does not have.
pub struct Account<'s> {
    /// The node.
    pub server: &'s TestServer,
    /// The API key.
    pub key: String,
    /// The session's id.
    pub session: String,
    /// The client's secret key.
    pub secret: &'static ClientKey,
}

impl<'s> Account<'s> {
    /// Makes an account with an administrator's key, and opens a session of this preset.
    pub async fn open(server: &'s TestServer, preset: Preset) -> Self {
        let key = server.key(Role::AccountAdmin).await;
        let session = open_session(server, &key, preset).await;
        Self { server, key, session, secret: keys::of(preset) }
    }

    /// Sends a request with the API key.
    pub async fn send(&self, request: Request) -> Response {
        self.server.send(request.key(&self.key)).await
    }

    /// Posts a JSON body with the API key.
    pub async fn post(&self, path: &str, body: &Value) -> Response {
        self.send(Request::post(path, body)).await
    }

    /// Returns the session's path, with `rest` at its end.
    pub fn path(&self, rest: &str) -> String {
        format!("{SESSION}/{}{rest}", self.session)
    }

    /// Fetches the session's description from the node.
    pub async fn show(&self) -> Value {
        self.send(Request::get(self.path(""))).await.ok(200)
    }

    /// Encrypts a bit. Returns the ciphertext in base64.
    pub fn encrypt(&self, bit: bool) -> String {
        base64(&self.secret.encrypt(bit))
    }

    /// Decrypts a ciphertext of an answer. Returns the bit.
    #[track_caller]
    pub fn decrypt(&self, member: &Value) -> bool {
        self.secret.decrypt(&bytes(member))
    }

    /// Encrypts these bits, and makes a request to evaluate one gate on them.
    pub fn gate(&self, op: &str, a: bool, b: Option<bool>, sel: Option<bool>) -> Value {
        json!({
            "session_id": self.session,
            "op": op,
            "a": self.encrypt(a),
            "b": b.map(|bit| self.encrypt(bit)),
            "sel": sel.map(|bit| self.encrypt(bit)),
        })
    }

    /// Makes a request for a batch of `gates` gates of this operation.
    pub fn batch(&self, op: &str, gates: usize) -> Value {
        let gate = json!({"op": op, "a": self.encrypt(true), "b": self.encrypt(false), "sel": self.encrypt(true)});
        json!({"session_id": self.session, "gates": vec![gate; gates]})
    }

    /// Encrypts the bits of a value. Returns the ciphertexts as a member of a circuit's request.
    pub fn value(&self, bits: &[bool]) -> Value {
        json!(bits.iter().map(|&bit| self.encrypt(bit)).collect::<Vec<_>>())
    }

    /// Decrypts a value of a circuit's answer. Returns the value's bits.
    #[track_caller]
    pub fn bits(&self, member: &Value) -> Vec<bool> {
        member.as_array().expect("a list of ciphertexts").iter().map(|text| self.decrypt(text)).collect()
    }

    /// Makes a request to run a circuit.
    pub fn circuit(&self, circuit: &str, inputs: Value) -> Value {
        json!({"session_id": self.session, "circuit": circuit, "inputs": inputs})
    }

    /// Returns the path of one of the session's handles.
    pub fn handle(&self, handle: &Value) -> String {
        self.path(&format!("/handles/{}", handle.as_str().expect("a handle")))
    }

    /// Starts a circuit in the background and returns its id.
    pub async fn begin(&self, request: &Value) -> String {
        let answer = self.send(Request::post(CIRCUITS, request).header("Prefer", "respond-async")).await;
        assert_eq!(answer.header("preference-applied"), Some("respond-async"));
        let operation = answer.ok(200);
        assert_eq!((&operation["status"], &operation["outputs"]), (&json!("pending"), &json!(null)));
        operation["op_id"].as_str().expect("an id").to_owned()
    }

    /// Polls a run until it has ended. Returns the last answer.
    pub async fn ended(&self, op_id: &str) -> Value {
        loop {
            let operation = self.send(Request::get(format!("{OPERATIONS}/{op_id}"))).await.ok(200);
            if !matches!(operation["status"].as_str(), Some("pending" | "running")) {
                return operation;
            }
        }
    }

    /// Checks that nothing was charged to the session.
    pub async fn nothing_charged(&self) {
        let session = self.show().await;
        assert_eq!((&session["gates_used"], &session["total_cost_jpy"]), (&json!(0), &json!(0)));
    }
}

/// Opens a session without a secret key on the server, and returns its id.
pub async fn open_session(server: &TestServer, key: &str, preset: Preset) -> String {
    let upload =
        Request::new("POST", EVAL_SESSION).body("application/octet-stream", keys::of(preset).evaluation.clone());
    let opened = server.send(upload.key(key)).await.ok(201);
    opened["session_id"].as_str().expect("a session id").to_owned()
}
