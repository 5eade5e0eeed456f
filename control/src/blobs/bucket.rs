//! A bucket of Amazon S3, or of a server that speaks its protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use zeroize::Zeroizing;

/// Longest time for one request to the bucket.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Longest time until there is a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Requests are sent again so often at most, after errors of the server or the connection.
const RETRIES_MAX: usize = 2;

/// Where a bucket is, and how to be let in. It hides its secret from logs.
#[derive(Clone)]
pub struct BucketConfig {
    /// The bucket's name.
    pub bucket: String,
    /// In front of all names; may be empty.
    pub prefix: String,
    /// Address of the server; Amazon's by region when unset.
    pub endpoint: Option<String>,
    /// The region, which is part of a request's signature.
    pub region: String,
    /// Access key and its secret; when unset, those that the machine's role gives.
    pub credentials: Option<(String, Zeroizing<String>)>,
}

impl fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BucketConfig { bucket, prefix, endpoint, region, .. } = self;
        write!(
            f,
            "BucketConfig {{ bucket: {bucket:?}, prefix: {prefix:?}, endpoint: {endpoint:?}, region: {region:?} }}"
        )
    }
}

impl BucketConfig {
    /// Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// What is wrong with the address.
    pub fn at(url: &str) -> Result<BucketConfig, &'static str> {
        let rest = url.strip_prefix("s3://").ok_or("must be s3://BUCKET or s3://BUCKET/PREFIX")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // the rule of S3 for names of buckets, less its rarer parts
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
            return Err("a bucket's name is 3 to 63 of a-z, 0-9, - and .");
        }
        let prefix = ObjectPath::parse(prefix).map_err(|_| "the prefix is no path of an object")?;
        Ok(BucketConfig {
            bucket: bucket.to_owned(),
            prefix: prefix.to_string(),
            endpoint: None,
            region: String::new(),
            credentials: None,
        })
    }

    /// The bucket, and what is in front of all names.
    pub(super) fn open(&self) -> anyhow::Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        crate::tls::choose_cryptography();
        // what leaves the node is sealed, so a server next to it may speak HTTP
        let client = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT);
        let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: REQUEST_TIMEOUT, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.bucket)
            .with_region(&self.region)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some((id, secret)) = &self.credentials {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.as_str());
        }
        let bucket = builder.build().context("ANGO_OBJECTS_URL")?;
        Ok((Arc::new(bucket), ObjectPath::parse(&self.prefix).context("ANGO_OBJECTS_URL")?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        for (url, expected) in [
            ("s3://ango", Some(("ango", ""))),
            ("s3://ango/", Some(("ango", ""))),
            ("s3://a.b-9/tokyo/1", Some(("a.b-9", "tokyo/1"))),
            ("s3://", None),
            ("s3://ab", None),
            ("s3://Ango", None),
            ("s3://ango/../other", None),
            ("https://ango", None),
        ] {
            let found = BucketConfig::at(url).ok().map(|bucket| (bucket.bucket, bucket.prefix));
            assert_eq!(found, expected.map(|(bucket, prefix)| (bucket.to_owned(), prefix.to_owned())), "{url}");
        }
    }
}
