//! A long circuit in the background.

use client::Preset;
use serde_json::{Value, json};
use tests_service::gates::{CHAIN_BITS, CIRCUITS, OPERATIONS, and_netlist, base64, bytes, chain_netlist, chain_result};
use tests_service::http::Request;
use tests_service::keys;
use tests_service::node::Node;

/// A circuit that runs in the background.
pub struct Operation {
    pub op_id: String,
    gates: usize,
    result: Vec<bool>,
    key: String,
}

impl Operation {
    /// Begins a circuit of so many gates, one after another, by way of this node. Its inputs are too large for the broker.
    pub async fn begin(node: &Node, key: &str, session: &str, gates: usize) -> Operation {
        let bits: Vec<bool> = (0..CHAIN_BITS).map(|at| at % 3 != 1).collect();
        let result = vec![chain_result(gates, &bits)];
        Operation::begin_circuit(node, key, session, (chain_netlist(gates), gates, bits), result).await
    }

    /// Begins a circuit of so many gates side by side. The inputs of a few gates pass the broker.
    pub async fn begin_small(node: &Node, key: &str, session: &str, gates: usize) -> Operation {
        let bits: Vec<bool> = (0..2 * gates).map(|at| at % 3 != 1).collect();
        let result = (0..gates).map(|at| bits[at] && bits[gates + at]).collect();
        Operation::begin_circuit(node, key, session, (and_netlist(gates), gates, bits), result).await
    }

    /// Returns a request for a circuit whose client waits.
    pub fn request(session: &str, gates: usize) -> Request {
        let input: Vec<String> = [true; CHAIN_BITS].map(|bit| base64(&keys::of(Preset::Fast128).encrypt(bit))).to_vec();
        Request::post(CIRCUITS, &json!({"session_id": session, "circuit": chain_netlist(gates), "inputs": [input]}))
    }

    /// The operation that an answer to [`Operation::request`] names.
    pub fn of_answer(answer: &Value, key: &str, gates: usize) -> Operation {
        let op_id = answer["op_id"].as_str().unwrap().to_owned();
        Operation { op_id, gates, result: vec![chain_result(gates, &[true; CHAIN_BITS])], key: key.to_owned() }
    }

    async fn begin_circuit(
        node: &Node,
        key: &str,
        session: &str,
        (netlist, gates, bits): (String, usize, Vec<bool>),
        result: Vec<bool>,
    ) -> Operation {
        let secret = keys::of(Preset::Fast128);
        let input: Vec<String> = bits.iter().map(|&bit| base64(&secret.encrypt(bit))).collect();
        let body = json!({"session_id": session, "circuit": netlist, "inputs": [input]});
        let begin = Request::post(CIRCUITS, &body).header("Prefer", "respond-async").key(key);
        let op_id = node.send(&begin).await.unwrap().ok(200)["op_id"].as_str().unwrap().to_owned();
        Operation { op_id, gates, result, key: key.to_owned() }
    }

    /// Polls by way of this node.
    pub async fn told(&self, node: &Node) -> Value {
        let poll = Request::get(format!("{OPERATIONS}/{}", self.op_id)).key(&self.key);
        node.send(&poll).await.unwrap().ok(200)
    }

    /// Returns how many gates are done, as this node tells.
    pub async fn done(&self, node: &Node) -> u64 {
        self.told(node).await["gates_done"].as_u64().unwrap()
    }

    /// Polls until the operation has ended. Returns the last answer.
    pub async fn ended(&self, node: &Node) -> Value {
        loop {
            let told = self.told(node).await;
            if !matches!(told["status"].as_str(), Some("pending" | "running")) {
                return told;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }

    /// Checks that the operation is completed with the right result.
    pub fn assert_right(&self, ended: &Value) {
        assert_eq!(ended["status"], "completed", "{ended}");
        let bits = ended["outputs"][0].as_array().unwrap().iter();
        let result: Vec<bool> = bits.map(|bit| keys::of(Preset::Fast128).decrypt(&bytes(bit))).collect();
        assert_eq!(result, self.result, "a wrong result");
        assert_eq!(ended["gates_total"], self.gates);
    }
}
