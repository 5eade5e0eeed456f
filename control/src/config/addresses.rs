//! Parses addresses in settings: the public URL, the networks of proxies, origins.

use std::net::IpAddr;

use ipnet::IpNet;

use super::CorsOrigins;

pub(super) fn public_url(text: &str) -> Result<String, &'static str> {
    let is_address = text.parse::<axum::http::Uri>().is_ok_and(|uri| {
        matches!(uri.scheme_str(), Some("http" | "https")) && uri.host().is_some() && uri.query().is_none()
    });
    if !is_address {
        return Err("must be an address such as https://fhe.example.org");
    }
    Ok(text.trim_end_matches('/').to_owned())
}

pub(super) fn cors_origins(text: &str) -> Result<CorsOrigins, &'static str> {
    match text {
        "none" => return Ok(CorsOrigins::None),
        "*" => return Ok(CorsOrigins::Any),
        _ => {}
    }
    let origin = |entry: &str| {
        // an origin as a browser writes it: no path, no default port, lower case
        let url = reqwest::Url::parse(entry).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let origin = url.map(|url| url.origin().ascii_serialization()).filter(|origin| origin == entry);
        origin.ok_or("must be none, * or a list of origins such as https://console.example.org")
    };
    text.split(',').map(|entry| origin(entry.trim())).collect::<Result<_, _>>().map(CorsOrigins::Listed)
}

/// Parses one network of a list.
pub(super) fn network(text: &str) -> Result<IpNet, &'static str> {
    let text = text.trim();
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = text.parse().or(address).map_err(|_| "must be a list of addresses or networks such as 10.0.0.0/8")?;
    if network.prefix_len() == 0 {
        return Err("must not include every address, because any client could then write its own X-Forwarded-For");
    }
    Ok(network)
}
