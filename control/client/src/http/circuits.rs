//! Requests about circuits. Ciphertexts are sent as bare words after a JSON head (docs/wire-format.md 10).

use api::OperationId;
use api::circuits::{CancelledOperation, CircuitFacts, CircuitOperation, CircuitRequest};
use api::octets;
use reqwest::Method;
use reqwest::header::{ACCEPT, HeaderName};

use super::{Ask, Body, Client, Error, read};

const OCTET_STREAM: &str = "application/octet-stream";
const PREFER: HeaderName = HeaderName::from_static("prefer");
/// Largest number of bytes of an answer's head, which describes the run and has a handle or a number of ciphertexts for
/// each output.
const HEAD_BYTES_MAX: usize = 1 << 20;

/// The node's answer to a question about a run, with the results.
#[derive(Clone, Debug, PartialEq)]
pub struct CircuitAnswer {
    /// The run. If results are ciphertexts, the run states how many belong to each output.
    pub operation: CircuitOperation,
    /// The ciphertexts, one after another: `n + 1` words each, mask then body, little-endian.
    pub words: Vec<u8>,
}

impl Client {
    /// Keeps a netlist on the node under a name.
    ///
    /// # Errors
    /// [`Error::Refused`] with `INVALID_PARAMS` for an invalid netlist or name; the errors of all requests.
    pub async fn keep_circuit(&self, name: &str, netlist: &str) -> Result<CircuitFacts, Error> {
        let body = Body { content_type: "text/plain", bytes: netlist.as_bytes().to_vec().into() };
        let path = format!("tfhe/circuits/{name}");
        self.send(Ask { method: Method::PUT, path: &path, headers: &[], body: Some(body) }).await.and_then(read)
    }

    /// Runs a circuit and waits for its results. `words`: the ciphertexts of the inputs, as many as the request states.
    ///
    /// # Errors
    /// The errors of all requests; nothing was charged.
    pub async fn run_circuit(&self, request: &CircuitRequest, words: &[u8]) -> Result<CircuitAnswer, Error> {
        let body = Some(framed(request, words));
        let headers = &[(ACCEPT, OCTET_STREAM)];
        self.send(Ask { method: Method::POST, path: "tfhe/circuits", headers, body }).await.and_then(split)
    }

    /// Begins a run of a circuit, without waiting for its results.
    ///
    /// # Errors
    /// The errors of all requests.
    pub async fn begin_circuit(&self, request: &CircuitRequest, words: &[u8]) -> Result<CircuitOperation, Error> {
        let body = Some(framed(request, words));
        let headers = &[(ACCEPT, OCTET_STREAM), (PREFER, "respond-async")];
        let answer = self.send(Ask { method: Method::POST, path: "tfhe/circuits", headers, body }).await?;
        split(answer).map(|answer| answer.operation)
    }

    /// The progress of a run, and its results when it is completed.
    ///
    /// # Errors
    /// [`Error::Refused`] with `OPERATION_NOT_FOUND` for a run that is unknown, or that ended more than a day ago; the
    /// errors of all requests.
    pub async fn circuit_operation(&self, operation: &OperationId) -> Result<CircuitAnswer, Error> {
        let path = format!("tfhe/circuits/operations/{operation}");
        let headers = &[(ACCEPT, OCTET_STREAM)];
        self.send(Ask { method: Method::GET, path: &path, headers, body: None }).await.and_then(split)
    }

    /// Cancels a run, or drops the results of a run that has ended.
    ///
    /// # Errors
    /// As [`Client::circuit_operation`].
    pub async fn cancel_circuit(&self, operation: &OperationId) -> Result<CancelledOperation, Error> {
        let path = format!("tfhe/circuits/operations/{operation}");
        self.ask::<()>(Method::DELETE, &path, None).await.and_then(read)
    }
}

fn framed(request: &CircuitRequest, words: &[u8]) -> Body {
    let head = serde_json::to_vec(request).expect("plain data becomes JSON");
    let mut bytes = octets::begin(&head, words.len());
    bytes.extend_from_slice(words);
    Body { content_type: OCTET_STREAM, bytes: bytes.into() }
}

fn split(mut body: Vec<u8>) -> Result<CircuitAnswer, Error> {
    let (head, _) = octets::split(&body, HEAD_BYTES_MAX)
        .map_err(|fault| Error::Answer(format!("the body is not a JSON head followed by ciphertexts: {fault:?}")))?;
    let (start, operation) = (octets::LENGTH_BYTES + head.len(), serde_json::from_slice(head));
    let operation = operation.map_err(|error| Error::Answer(error.to_string()))?;
    body.drain(..start);
    Ok(CircuitAnswer { operation, words: body })
}
