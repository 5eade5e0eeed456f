//! Addresses in settings: the public one, of proxies in front, of pages that may call, of another issuer of tokens.

use ipnet::IpNet;

use super::{ConfigError, CorsOrigins, ExternalIssuer, Reader, wrong};
use crate::access::key_set;

pub(super) fn public_url(text: String) -> Result<Option<String>, ConfigError> {
    if text.is_empty() {
        return Ok(None);
    }
    let acceptable = text.parse::<axum::http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none()
    });
    if !acceptable {
        return Err(wrong("ANGO_PUBLIC_URL", &format!("{text:?} is not an address such as https://fhe.example.org")));
    }
    Ok(Some(text.trim_end_matches('/').to_owned()))
}

pub(super) fn cors_origins(text: &str) -> Result<CorsOrigins, ConfigError> {
    let entries: Vec<&str> = text.split(',').map(str::trim).filter(|entry| !entry.is_empty()).collect();
    match entries.as_slice() {
        [] => return Ok(CorsOrigins::None),
        ["*"] => return Ok(CorsOrigins::Any),
        _ => {}
    }
    let origin = |entry: &&str| {
        // as a browser writes it: no path, no port that goes without saying, lower case
        let url = reqwest::Url::parse(entry).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        match url.map(|url| url.origin().ascii_serialization()) {
            Some(origin) if origin == *entry => Ok(origin),
            _ => Err(wrong(
                "ANGO_CORS_ORIGINS",
                &format!("{entry:?} is not an origin such as https://console.example.org"),
            )),
        }
    };
    entries.iter().map(origin).collect::<Result<_, _>>().map(CorsOrigins::Listed)
}

pub(super) fn external_issuer(
    read: &Reader<impl Fn(&str) -> Option<String>>,
) -> Result<Option<ExternalIssuer>, ConfigError> {
    let [address, audience, jwks_url] =
        ["ANGO_OIDC_ISSUER", "ANGO_OIDC_AUDIENCE", "ANGO_OIDC_JWKS_URL"].map(|name| read.text(name));
    if address.is_empty() {
        let alone = [("ANGO_OIDC_AUDIENCE", &audience), ("ANGO_OIDC_JWKS_URL", &jwks_url)];
        return match alone.into_iter().find(|(_, text)| !text.is_empty()) {
            Some((name, _)) => Err(wrong(name, "is of use with ANGO_OIDC_ISSUER only")),
            None => Ok(None),
        };
    }
    for (name, url) in [("ANGO_OIDC_ISSUER", &address), ("ANGO_OIDC_JWKS_URL", &jwks_url)] {
        if !url.is_empty() && !reqwest::Url::parse(url).is_ok_and(|url| key_set::is_safe(&url)) {
            return Err(wrong(name, &format!("{url:?} is neither an https address nor on this machine")));
        }
    }
    if audience.is_empty() {
        return Err(wrong(
            "ANGO_OIDC_AUDIENCE",
            "must say which `aud` the tokens of ANGO_OIDC_ISSUER carry for this node",
        ));
    }
    Ok(Some(ExternalIssuer {
        address,
        audience,
        jwks_url: Some(jwks_url).filter(|url| !url.is_empty()),
        trusts_account_ids: read.switch("ANGO_OIDC_TRUST_ACCOUNT_IDS")?,
        accounts_max: read.number("ANGO_OIDC_ACCOUNTS_MAX", 1, 1 << 31)? as u32,
    }))
}

pub(super) fn networks(text: &str) -> Result<Vec<IpNet>, ConfigError> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            let address = || entry.parse().map(|address: std::net::IpAddr| address.into());
            let network: IpNet = entry.parse().or_else(|_| address()).map_err(|_| {
                wrong(
                    "ANGO_TRUSTED_PROXIES",
                    &format!("{entry:?} is neither an address nor a network such as 10.0.0.0/8"),
                )
            })?;
            if network.prefix_len() == 0 {
                let why = format!("{entry:?} is every address: any client could write its own X-Forwarded-For");
                return Err(wrong("ANGO_TRUSTED_PROXIES", &why));
            }
            Ok(network)
        })
        .collect()
}
