//! Requests about encrypted numbers (CKKS): encryption keys, ciphertexts and operations.

use std::io;

use api::ciphertexts::Ciphertext;
use api::compute::{ComputeOperation, ComputeRequest};
use api::encryption_keys::{
    CreateKeyUpload, DeletedEncryptionKey, EVALUATION_KEY_BYTES_MAX, EncryptionKeyRecord, EncryptionParams,
    KeyUploadStatus, UploadState, UploadedKey,
};
use api::{CiphertextId, EncryptionKeyId, UploadId};
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
        refuse_secret(&public_key)?;
        let upload = self.begin_key_upload(params).await?;
        let key = self.send_key(&upload, 0, public_key, pieces, progress).await;
        if key.is_err() {
            // open uploads count towards the plan's largest number of keys, so delete this one; if it cannot be
            // deleted, it expires within an hour
            let _ = self.delete_key_upload(&upload).await;
        }
        key
    }

    /// Begins the upload of a key with these parameters. The upload expires after an hour.
    ///
    /// # Errors
    /// The errors of all requests.
    pub async fn begin_key_upload(&self, params: &Params) -> Result<UploadId, Error> {
        let request = CreateKeyUpload { scheme: None, params: named(params) };
        let begun: KeyUploadStatus = self.ask(Method::POST, "keys/uploads", Some(&request)).await.and_then(read)?;
        Ok(begun.upload_id)
    }

    /// Like [`Client::upload_key`], but for an upload that has begun, also by another program. The client sends the
    /// bytes of the evaluation key that the node lacks. `pieces` are those of the whole key. A failed upload is not
    /// deleted, so another call can continue it.
    ///
    /// # Errors
    /// The errors of [`Client::upload_key`], and [`Error::Settings`] when the bytes that the node has do not end where a
    /// piece ends, because they are of another key.
    pub async fn continue_key_upload(
        &self,
        upload: &UploadId,
        public_key: Vec<u8>,
        pieces: impl Iterator<Item = io::Result<Vec<u8>>>,
        progress: impl FnMut(u64),
    ) -> Result<UploadedKey, Error> {
        refuse_secret(&public_key)?;
        let status: KeyUploadStatus = self.ask::<()>(Method::GET, &path_of(upload), None).await.and_then(read)?;
        match status.state {
            UploadState::Open => self.send_key(upload, status.eval_key_bytes, public_key, pieces, progress).await,
            // the answer of the completion was lost
            UploadState::Completed => self.complete(upload).await,
        }
    }

    /// Deletes an upload and the bytes that the node has received.
    ///
    /// # Errors
    /// The errors of all requests.
    pub async fn delete_key_upload(&self, upload: &UploadId) -> Result<(), Error> {
        self.ask::<()>(Method::DELETE, &path_of(upload), None).await.map(drop)
    }

    /// Sends the public key, then the evaluation key from byte `sent` on, and completes the upload. A part is as many
    /// whole rows as [`EVALUATION_KEY_BYTES_MAX`] holds.
    async fn send_key(
        &self,
        id: &UploadId,
        mut sent: u64,
        public_key: Vec<u8>,
        pieces: impl Iterator<Item = io::Result<Vec<u8>>>,
        mut progress: impl FnMut(u64),
    ) -> Result<UploadedKey, Error> {
        let upload = &path_of(id);
        let body = Some(Body { content_type: OCTET_STREAM, bytes: public_key.into() });
        let path = format!("{upload}/public-key");
        self.send(Ask { method: Method::PUT, path: &path, headers: &[], body }).await?;
        let (mut part, mut is_head, mut behind) = (Vec::new(), true, 0);
        let begin = sent;
        for piece in pieces {
            let piece =
                piece.map_err(|error| Error::Settings(format!("the evaluation key cannot be read: {error}")))?;
            if std::mem::take(&mut is_head) && matches!(numbers::read_key_head(&piece), Err(ContainerError::SecretKey))
            {
                return Err(Error::SecretKey);
            }
            if behind < begin {
                behind += piece.len() as u64;
                if behind > begin {
                    return Err(of_another_key(begin));
                }
                progress(behind);
                continue;
            }
            if part.len() + piece.len() > EVALUATION_KEY_BYTES_MAX {
                sent = self.send_part(upload, sent, std::mem::take(&mut part)).await?;
                progress(sent);
            }
            part.extend_from_slice(&piece);
        }
        if behind < begin {
            return Err(of_another_key(begin));
        }
        if !part.is_empty() {
            progress(self.send_part(upload, sent, part).await?);
        }
        self.complete(id).await
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
    async fn complete(&self, upload: &UploadId) -> Result<UploadedKey, Error> {
        let path = format!("{}/complete", path_of(upload));
        let mut unanswered = 0;
        loop {
            let headers = &[(IDEMPOTENCY_KEY, upload.as_str())];
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

/// The path of an upload.
fn path_of(upload: &UploadId) -> String {
    format!("keys/uploads/{}", upload.as_str())
}

fn refuse_secret(public_key: &[u8]) -> Result<(), Error> {
    match numbers::read_public_key(public_key) {
        Err(ContainerError::SecretKey) => Err(Error::SecretKey),
        _ => Ok(()),
    }
}

fn of_another_key(bytes: u64) -> Error {
    Error::Settings(format!("the node has {bytes} bytes of another evaluation key: begin a new upload"))
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
