use std::sync::{Arc, Mutex};

use kernels::ckks::params::{ParamsLiteral, SecurityLevel};

use super::*;
use crate::ckks::SecretKey;
use crate::http::tests::node;

const UPLOAD: &str = "up_01k809hp7f0oc1jgldmrvm9s18";
const CREATED: &str = "201 Created";
const OK: &str = "200 OK";
const HANGS_UP: (&str, String) = ("", String::new());

fn params() -> Params {
    let security = SecurityLevel::Testing;
    Params::new(ParamsLiteral { poly_degree: 64, scale_bits: 30, max_depth: 1, security, bootstrap: false }).unwrap()
}

/// The status of an upload that has received `come` bytes of the evaluation key.
fn status(come: u64) -> String {
    format!(
        r#"{{"upload_id":"{UPLOAD}","state":"open","public_key_bytes":6,"eval_key_bytes":{come},"eval_key_rows":0,
        "eval_key_rows_total":null,"eval_key_bytes_max":1000,"created_at":"2026-01-01T00:00:00Z",
        "expires_at":"2026-01-01T01:00:00Z"}}"#
    )
}

fn refusal(code: &str) -> String {
    format!(r#"{{"error":{{"code":"{code}","message":"no","request_id":"req_1","documentation_url":"http://x"}}}}"#)
}

fn uploaded() -> (&'static str, String) {
    let body = r#"{"key_id":"key_01k809hp7f0oc1jgldmrvm9s18","scheme":"rns-ckks","slot_count":32,
        "created_at":"2026-01-01T00:00:00Z","blind_guarantee":true,"params":{"poly_degree":64,"scale_bits":30,
        "security_level":"testing","max_depth":1,"bootstrap":false,"scheme":"rns-ckks","modulus_chain":[],
        "total_q_bits":0,"security_bits":0}}"#;
    (OK, body.into())
}

/// Uploads 12 bytes. The node answers the first two requests (begin, public key), then gives `answers`.
async fn upload(answers: Vec<(&'static str, String)>) -> (Result<UploadedKey, Error>, Vec<u64>, Vec<String>) {
    let begun = [(CREATED, status(0)), (OK, status(0))];
    let (client, asked) = node(begun.into_iter().chain(answers).collect()).await;
    let (mut heard, pieces) = (Vec::new(), [b"head", b"row1", b"row2"]);
    let pieces = pieces.into_iter().map(|piece| Ok(piece.to_vec()));
    let key = client.upload_key(&params(), b"public".to_vec(), pieces, |sent| heard.push(sent)).await;
    (key, heard, lines(&asked))
}

/// Method, last segment of the path, range and body of each request after the first.
fn lines(asked: &Arc<Mutex<Vec<String>>>) -> Vec<String> {
    let line = |request: &String| {
        let (head, body) = request.split_once("\r\n\r\n").unwrap();
        let mut words = head.split_whitespace();
        let (method, path) = (words.next().unwrap(), words.next().unwrap());
        let range = head.lines().find_map(|line| line.strip_prefix("content-range: bytes "));
        format!("{method} {} {} {body}", path.rsplit('/').next().unwrap(), range.unwrap_or("-"))
    };
    asked.lock().unwrap().iter().skip(1).map(line).collect()
}

const PUBLIC: &str = "PUT public-key - public";
const WHOLE: &str = "PUT eval-key 0-11/* headrow1row2";

fn asks_how_far() -> String {
    format!("GET {UPLOAD} - ")
}

#[tokio::test]
async fn a_key_goes_in_its_order_and_becomes_a_key() {
    let (key, heard, asked) = upload(vec![(OK, status(12)), uploaded()]).await;
    assert_eq!(key.unwrap().key_id.as_str(), "key_01k809hp7f0oc1jgldmrvm9s18");
    assert_eq!((heard, asked), (vec![12], [PUBLIC, WHOLE, "POST complete - "].map(String::from).to_vec()));
}

#[tokio::test]
async fn a_part_without_an_answer_goes_on_where_the_node_has_it() {
    let conflict = ("409 Conflict", refusal("CONFLICT"));
    // after the node has stated its progress, it stores one more row of the request that got no answer
    let answers = vec![HANGS_UP, (OK, status(4)), conflict, (OK, status(8)), (OK, status(12)), uploaded()];
    let (key, heard, asked) = upload(answers).await;
    key.unwrap();
    let rest = ["PUT eval-key 4-11/* row1row2", "PUT eval-key 8-11/* row2"];
    let expected = [PUBLIC, WHOLE, &asks_how_far(), rest[0], &asks_how_far(), rest[1], "POST complete - "];
    assert_eq!((heard, asked), (vec![12], expected.map(String::from).to_vec()));
}

#[tokio::test]
async fn a_part_that_came_whole_is_not_sent_again() {
    let (key, _, asked) = upload(vec![HANGS_UP, (OK, status(12)), uploaded()]).await;
    key.unwrap();
    assert_eq!(asked, [PUBLIC, WHOLE, &asks_how_far(), "POST complete - "]);
}

#[tokio::test]
async fn a_part_that_never_gets_an_answer_is_given_up_with_its_upload() {
    let mut answers = vec![[HANGS_UP, (OK, status(0))]; ATTEMPTS - 1].concat();
    answers.extend([HANGS_UP, ("204 No Content", String::new())]);
    let (key, heard, asked) = upload(answers).await;
    assert!(matches!(key, Err(Error::Transport(_))) && heard.is_empty());
    assert_eq!(asked.iter().filter(|line| *line == WHOLE).count(), ATTEMPTS);
    assert_eq!(asked.last().unwrap(), &format!("DELETE {UPLOAD} - "));
}

#[tokio::test]
async fn a_conflict_with_another_writer_ends_the_upload() {
    let (key, _, asked) = upload(vec![("409 Conflict", refusal("CONFLICT")), ("204 No Content", String::new())]).await;
    assert!(matches!(key, Err(Error::Refused { status: 409, .. })));
    assert_eq!(asked, [PUBLIC, WHOLE, &format!("DELETE {UPLOAD} - ")]);
}

#[tokio::test]
async fn a_refused_key_gives_up_its_upload_and_the_refusal_is_told() {
    let (key, _, asked) =
        upload(vec![(OK, status(12)), ("400 Bad Request", refusal("INVALID_PARAMS")), ("500 No", String::new())]).await;
    assert!(matches!(key, Err(Error::Refused { code, .. }) if code == "INVALID_PARAMS"));
    assert_eq!(asked.last().unwrap(), &format!("DELETE {UPLOAD} - "));
}

/// Continues an upload of 12 bytes. The node gives `answers`.
async fn resumed(answers: Vec<(&'static str, String)>) -> (Result<UploadedKey, Error>, Vec<u64>, Vec<String>) {
    let (client, asked) = node([vec![(OK, status(0))], answers].concat()).await;
    // the first answer, to a request that `lines` skips
    client.ask::<()>(Method::GET, "health", None).await.unwrap();
    let (mut heard, pieces) = (Vec::new(), [b"head", b"row1", b"row2"]);
    let pieces = pieces.into_iter().map(|piece| Ok(piece.to_vec()));
    let id = UPLOAD.parse().unwrap();
    let key = client.continue_key_upload(&id, b"public".to_vec(), pieces, |sent| heard.push(sent)).await;
    (key, heard, lines(&asked))
}

#[tokio::test]
async fn another_call_sends_what_the_node_lacks_of_an_upload() {
    for (come, part) in [(0, WHOLE), (4, "PUT eval-key 4-11/* row1row2"), (8, "PUT eval-key 8-11/* row2")] {
        let (key, heard, asked) =
            resumed(vec![(OK, status(come)), (OK, status(0)), (OK, status(12)), uploaded()]).await;
        assert_eq!(key.unwrap().key_id.as_str(), "key_01k809hp7f0oc1jgldmrvm9s18");
        assert_eq!(asked, [&asks_how_far(), PUBLIC, part, "POST complete - "]);
        assert_eq!(heard.last(), Some(&12));
    }
    let (key, _, asked) = resumed(vec![(OK, status(12)), (OK, status(0)), uploaded()]).await;
    key.unwrap();
    assert_eq!(asked, [&asks_how_far(), PUBLIC, "POST complete - "], "all rows came before");
    let (key, _, asked) = resumed(vec![(OK, status(12).replace("open", "completed")), uploaded()]).await;
    key.unwrap();
    assert_eq!(asked, [&asks_how_far(), "POST complete - "], "the answer was lost");
}

#[tokio::test]
async fn an_upload_of_another_key_is_not_continued_and_not_deleted() {
    for come in [3, 5, 16] {
        let (key, _, asked) = resumed(vec![(OK, status(come)), (OK, status(0))]).await;
        assert!(matches!(key, Err(Error::Settings(why)) if why.contains("another evaluation key")));
        assert_eq!(asked, [&asks_how_far(), PUBLIC]);
    }
    let (key, _, asked) =
        resumed(vec![(OK, status(4)), (OK, status(0)), ("503 No", refusal("SERVICE_UNAVAILABLE"))]).await;
    assert!(matches!(key, Err(Error::Refused { status: 503, .. })));
    assert_eq!(asked.len(), 3, "nothing is deleted: {asked:?}");
}

#[tokio::test]
async fn a_completion_without_an_answer_is_asked_again_under_the_same_idempotency_key() {
    let begun = [(CREATED, status(0)), (OK, status(0)), (OK, status(12)), HANGS_UP, uploaded()];
    let (client, asked) = node(begun.to_vec()).await;
    let pieces = [Ok(b"headrow1row2".to_vec())].into_iter();
    client.upload_key(&params(), b"public".to_vec(), pieces, |_| ()).await.unwrap();
    let asked = asked.lock().unwrap();
    let completions: Vec<&String> = asked.iter().filter(|request| request.contains("/complete ")).collect();
    assert_eq!(completions.len(), 2);
    assert!(completions.iter().all(|request| request.contains(&format!("idempotency-key: {UPLOAD}\r\n"))));
}

#[tokio::test]
async fn a_secret_key_is_not_sent_as_a_public_or_evaluation_key() {
    let secret = SecretKey::generate(&params()).to_bytes().to_vec();
    let (client, asked) = node(vec![]).await;
    let key = client.upload_key(&params(), secret.clone(), std::iter::empty(), |_| ()).await;
    assert!(matches!(key, Err(Error::SecretKey)) && asked.lock().unwrap().is_empty());

    let answers = vec![(CREATED, status(0)), (OK, status(0)), ("204 No Content", String::new())];
    let (client, asked) = node(answers).await;
    let key = client.upload_key(&params(), b"public".to_vec(), [Ok(secret)].into_iter(), |_| ()).await;
    assert!(matches!(key, Err(Error::SecretKey)));
    assert_eq!(lines(&asked), [PUBLIC, &format!("DELETE {UPLOAD} - ")]);
}
