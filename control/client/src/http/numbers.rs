//! Requests about encrypted numbers (CKKS): encryption keys, ciphertexts and operations.

use std::io;

use api::ciphertexts::Ciphertext;
use api::compute::{ComputeOperation, ComputeRequest};
use api::encryption_keys::{
    CreateKeyUpload, DeletedEncryptionKey, EVALUATION_KEY_BYTES_MAX, EncryptionKeyRecord, EncryptionParams,
    KeyUploadStatus, UploadedKey,
};
use api::{CiphertextId, EncryptionKeyId};
use kernels::ckks::{Params, container as numbers};
use kernels::container::Error as ContainerError;
use reqwest::Method;
use reqwest::header::{ACCEPT, CONTENT_RANGE, HeaderName};

use super::{Ask, Body, Client, Error, read};

const OCTET_STREAM: &str = "application/octet-stream";
/// Largest number of times that a request is sent if no answer comes.
const ATTEMPTS: usize = 4;
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

impl Client {
    /// Uploads a public key and an evaluation key. `pieces`: the head of the evaluation key, then its rows, as
    /// [`crate::ckks::SecretKey::evaluation_key`] makes them. Only one part of the key is in memory at a time.
    /// `progress` is called with the number of bytes that the node has received.
    ///
    /// If a part gets no answer, the client sends the rest of the part, from the first byte that the node lacks. A
    /// failed upload is deleted.
    ///
    /// # Errors
    /// [`Error::SecretKey`] for a secret key, which is not sent; [`Error::Settings`] when a piece cannot be read;
    /// the errors of all requests.
    pub async fn upload_key(
        &self,
        params: &Params,
        public_key: Vec<u8>,
        pieces: impl Iterator<Item = io::Result<Vec<u8>>>,
        progress: impl FnMut(u64),
    ) -> Result<UploadedKey, Error> {
        if matches!(numbers::read_public_key(&public_key), Err(ContainerError::SecretKey)) {
            return Err(Error::SecretKey);
        }
        let request = CreateKeyUpload { scheme: None, params: named(params) };
        let begun: KeyUploadStatus = self.ask(Method::POST, "keys/uploads", Some(&request)).await.and_then(read)?;
        let upload = format!("keys/uploads/{}", begun.upload_id.as_str());
        let key = async {
            self.send_pair(&upload, public_key, pieces, progress).await?;
            self.complete(&upload, begun.upload_id.as_str()).await
        };
        let key = key.await;
        if key.is_err() {
            // open uploads count towards the plan's largest number of keys, so delete this one; if it cannot be
            // deleted, it expires within an hour
            let _ = self.ask::<()>(Method::DELETE, &upload, None).await;
        }
        key
    }

    /// Sends the public key, then the evaluation key, to an upload. A part is as many whole rows as
    /// [`EVALUATION_KEY_BYTES_MAX`] holds.
    async fn send_pair(
        &self,
        upload: &str,
        public_key: Vec<u8>,
        pieces: impl Iterator<Item = io::Result<Vec<u8>>>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), Error> {
        let body = Some(Body { content_type: OCTET_STREAM, bytes: public_key.into() });
        let path = format!("{upload}/public-key");
        self.send(Ask { method: Method::PUT, path: &path, headers: &[], body }).await?;
        let (mut part, mut sent, mut is_head) = (Vec::new(), 0, true);
        for piece in pieces {
            let piece =
                piece.map_err(|error| Error::Settings(format!("the evaluation key cannot be read: {error}")))?;
            if std::mem::take(&mut is_head) && matches!(numbers::read_key_head(&piece), Err(ContainerError::SecretKey))
            {
                return Err(Error::SecretKey);
            }
            if part.len() + piece.len() > EVALUATION_KEY_BYTES_MAX {
                sent = self.send_part(upload, sent, std::mem::take(&mut part)).await?;
                progress(sent);
            }
            part.extend_from_slice(&piece);
        }
        if !part.is_empty() {
            progress(self.send_part(upload, sent, part).await?);
        }
        Ok(())
    }

    /// Sends a part of an evaluation key that begins at byte `begin`. Returns where the next part begins.
    async fn send_part(&self, upload: &str, begin: u64, part: Vec<u8>) -> Result<u64, Error> {
        let (path, end) = (format!("{upload}/eval-key"), begin + part.len() as u64);
        let bytes = bytes::Bytes::from(part);
        // `unanswered` counts the requests without an answer since the node last received new bytes
        let (mut from, mut unanswered) = (begin, 0);
        loop {
            let range = format!("bytes {from}-{}/*", end - 1);
            let body = Some(Body { content_type: OCTET_STREAM, bytes: bytes.slice((from - begin) as usize..) });
            let headers = &[(CONTENT_RANGE, range.as_str())];
            let error = match self.send(Ask { method: Method::PUT, path: &path, headers, body }).await {
                Ok(_) => return Ok(end),
                Err(Error::Transport(error)) if unanswered + 1 < ATTEMPTS => {
                    unanswered += 1;
                    Error::Transport(error)
                }
                // status 409 (conflict) means here that `from` is out of date: after the node had stated its progress,
                // it stored more rows of the request that got no answer
                Err(error @ Error::Refused { status: 409, .. }) if unanswered > 0 => error,
                Err(error) => return Err(error),
            };
            let is_conflict = matches!(error, Error::Refused { .. });
            let status: KeyUploadStatus = self.ask::<()>(Method::GET, upload, None).await.and_then(read)?;
            from = match status.eval_key_bytes {
                come if come == end => return Ok(end),
                come if come == from && !is_conflict => from,
                come if (from + 1..end).contains(&come) => {
                    unanswered = 1;
                    come
                }
                _ => return Err(error),
            };
        }
    }

    /// Completes an upload, from which the node then makes a key. Sends the request again if no answer comes; the
    /// `Idempotency-Key` makes the node act only once.
    async fn complete(&self, upload: &str, idempotency_key: &str) -> Result<UploadedKey, Error> {
        let path = format!("{upload}/complete");
        let mut unanswered = 0;
        loop {
            let headers = &[(IDEMPOTENCY_KEY, idempotency_key)];
            match self.send(Ask { method: Method::POST, path: &path, headers, body: None }).await {
                Err(Error::Transport(_)) if unanswered + 1 < ATTEMPTS => unanswered += 1,
                answer => return answer.and_then(read),
            }
        }
    }

    /// A key's record.
    ///
    /// # Errors
    /// [`Error::Refused`] with `KEY_NOT_FOUND`; the errors of all requests.
    pub async fn encryption_key(&self, key: &EncryptionKeyId) -> Result<EncryptionKeyRecord, Error> {
        self.ask::<()>(Method::GET, &format!("keys/{}", key.as_str()), None).await.and_then(read)
    }

    /// Deletes a key and its ciphertexts.
    ///
    /// # Errors
    /// [`Error::Refused`] with `KEY_NOT_FOUND`; the errors of all requests.
    pub async fn delete_encryption_key(&self, key: &EncryptionKeyId) -> Result<DeletedEncryptionKey, Error> {
        self.ask::<()>(Method::DELETE, &format!("keys/{}", key.as_str()), None).await.and_then(read)
    }

    /// Uploads a ciphertext under a key. Returns the ciphertext's id.
    ///
    /// # Errors
    /// [`Error::SecretKey`] for a secret key, which is not sent; the errors of all requests.
    pub async fn upload_ciphertext(&self, key: &EncryptionKeyId, ciphertext: Vec<u8>) -> Result<CiphertextId, Error> {
        if matches!(numbers::open_secret_key(&ciphertext), Ok(_) | Err(ContainerError::SecretKey)) {
            return Err(Error::SecretKey);
        }
        let path = format!("ciphertexts?key_id={}", key.as_str());
        let body = Some(Body { content_type: OCTET_STREAM, bytes: ciphertext.into() });
        let answer = self.send(Ask { method: Method::POST, path: &path, headers: &[], body }).await?;
        read::<Ciphertext>(answer).map(|told| told.ciphertext_id)
    }

    /// The bytes of a ciphertext that the node keeps.
    ///
    /// # Errors
    /// [`Error::Refused`] with `CIPHERTEXT_NOT_FOUND`; the errors of all requests.
    pub async fn ciphertext(&self, ciphertext: &CiphertextId) -> Result<Vec<u8>, Error> {
        let path = format!("ciphertexts/{}", ciphertext.as_str());
        self.send(Ask { method: Method::GET, path: &path, headers: &[(ACCEPT, OCTET_STREAM)], body: None }).await
    }

    /// Deletes a ciphertext that the node keeps.
    ///
    /// # Errors
    /// [`Error::Refused`] with `CIPHERTEXT_NOT_FOUND`; the errors of all requests.
    pub async fn delete_ciphertext(&self, ciphertext: &CiphertextId) -> Result<(), Error> {
        self.ask::<()>(Method::DELETE, &format!("ciphertexts/{}", ciphertext.as_str()), None).await.map(drop)
    }

    /// Runs the requested operation on encrypted numbers, and waits until the operation ends.
    ///
    /// # Errors
    /// [`Error::Refused`] for an invalid request, and with `NOISE_BUDGET_EXHAUSTED` if the result could not be
    /// decrypted; such requests are not charged. The errors of all requests.
    pub async fn compute(&self, request: &ComputeRequest) -> Result<ComputeOperation, Error> {
        self.ask(Method::POST, "compute", Some(request)).await.and_then(read)
    }
}

/// The parameters in the form of the API.
fn named(params: &Params) -> EncryptionParams {
    let literal = params.literal();
    EncryptionParams {
        poly_degree: literal.poly_degree as u64,
        scale_bits: Some(literal.scale_bits.into()),
        security_level: Some(literal.security.name().to_owned()),
        max_depth: Some(literal.max_depth.into()),
        bootstrap: Some(literal.bootstrap),
    }
}

#[cfg(test)]
mod tests;
