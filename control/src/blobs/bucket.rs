//! A bucket of Amazon S3, or of a server with the same protocol.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as ObjectPath;
use object_store::{ClientOptions, ObjectStore, RetryConfig};
use zeroize::Zeroizing;

use crate::parsers::secret;

/// Timeout of one request to the bucket.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout for a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Largest number of retries of a request after errors of the server or the connection.
const RETRIES_MAX: usize = 2;

/// The address and the credentials of a bucket. `Debug` hides the secret.
#[derive(Clone, clap::Args)]
pub struct BucketConfig {
    /// The S3 bucket in which the nodes of one database store large answers and other lasting objects, encrypted:
    /// s3://BUCKET/PREFIX. When unset, each node stores its objects in its data folder, and only that node can repeat
    /// such an answer.
    #[arg(env = "ANGO_OBJECTS_URL", value_parser = BucketUrl::read)]
    pub url: BucketUrl,
    /// Address of the server of the bucket in ANGO_OBJECTS_URL, such as `https://minio.example.org`. When unset,
    /// Amazon's server for the region.
    #[arg(env = "ANGO_S3_ENDPOINT", value_parser = read_endpoint)]
    pub endpoint: Option<String>,
    /// Region of the bucket. The region is part of a request's signature.
    #[arg(env = "ANGO_S3_REGION", default_value = "us-east-1")]
    pub region: String,
    /// Access key of the bucket. When unset, the access key of the machine's role.
    #[arg(env = "ANGO_S3_ACCESS_KEY_ID")]
    pub access_key_id: Option<String>,
    /// The secret of ANGO_S3_ACCESS_KEY_ID.
    #[arg(env = "ANGO_S3_SECRET_ACCESS_KEY", hide = true, value_parser = secret)]
    pub secret_access_key: Option<Zeroizing<String>>,
}

impl fmt::Debug for BucketConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BucketConfig { url, endpoint, region, .. } = self;
        write!(f, "BucketConfig {{ url: {url:?}, endpoint: {endpoint:?}, region: {region:?} }}")
    }
}

/// A bucket, and the prefix of all names in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketUrl {
    /// The bucket's name.
    pub bucket: String,
    /// The prefix of all names. May be empty.
    pub prefix: String,
}

impl BucketUrl {
    /// Reads `s3://BUCKET` or `s3://BUCKET/PREFIX`.
    ///
    /// # Errors
    /// A text that says which form the address must have.
    pub fn read(url: &str) -> Result<BucketUrl, &'static str> {
        let rest = url.strip_prefix("s3://").ok_or("must be s3://BUCKET or s3://BUCKET/PREFIX")?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        // only a part of S3's rule for names of buckets: the length and the allowed characters
        let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, b'-' | b'.');
        if !(3..=63).contains(&bucket.len()) || !bucket.bytes().all(plain) {
            return Err("must name a bucket by 3 to 63 of a-z, 0-9, - and .");
        }
        let prefix = ObjectPath::parse(prefix).map_err(|_| "must have a prefix that is the path of an object")?;
        Ok(BucketUrl { bucket: bucket.to_owned(), prefix: prefix.to_string() })
    }
}

fn read_endpoint(text: &str) -> Result<String, &'static str> {
    let is_address = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    if is_address { Ok(text.to_owned()) } else { Err("must be an address such as https://s3.example.org") }
}

impl BucketConfig {
    /// Opens the bucket. Returns also the prefix of all names.
    pub(super) fn open(&self) -> anyhow::Result<(Arc<dyn ObjectStore>, ObjectPath)> {
        crate::tls::choose_cryptography();
        // objects are sealed before they leave the node, so the connection to the bucket may use HTTP
        let client = ClientOptions::new()
            .with_allow_http(true)
            .with_timeout(REQUEST_TIMEOUT)
            .with_connect_timeout(CONNECT_TIMEOUT);
        let retry = RetryConfig { max_retries: RETRIES_MAX, retry_timeout: REQUEST_TIMEOUT, ..RetryConfig::default() };
        let mut builder = AmazonS3Builder::new()
            .with_bucket_name(&self.url.bucket)
            .with_region(&self.region)
            .with_client_options(client)
            .with_retry(retry);
        if let Some(endpoint) = &self.endpoint {
            builder = builder.with_endpoint(endpoint);
        }
        if let (Some(id), Some(secret)) = (&self.access_key_id, &self.secret_access_key) {
            builder = builder.with_access_key_id(id).with_secret_access_key(secret.as_str());
        }
        let bucket = builder.build().context("ANGO_OBJECTS_URL")?;
        Ok((Arc::new(bucket), ObjectPath::parse(&self.url.prefix).context("ANGO_OBJECTS_URL")?))
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
            let found = BucketUrl::read(url).ok().map(|bucket| (bucket.bucket, bucket.prefix));
            assert_eq!(found, expected.map(|(bucket, prefix)| (bucket.to_owned(), prefix.to_owned())), "{url}");
        }
    }
}
