//! From the URL to a connection: the scheme, proxies, the name, TCP and TLS.

use std::time::{Duration, Instant};

use url::{Host, Url};

use super::{finding::Finding, report::Report};
use crate::http::Http;

/// Where servers usually are.
const USUAL: [&str; 2] = ["/mcp", "/sse"];

/// Whether the server can be reached at all.
pub(super) async fn examine(http: &Http, url: &str, report: &mut Report) -> bool {
    let Ok(parsed) = Url::parse(url) else { return false };
    if parsed.scheme() == "http" && !is_local(&parsed) {
        let text = "http is not encrypted: everybody on the way can read and change messages";
        report.add(Finding::warning("url", text).hint("use https if the server offers it"));
    }
    let proxy = http.proxy(url);
    match &proxy {
        Some(address) => report.add(Finding::note("proxy", format!("requests go through the proxy {address}"))),
        None if !resolves(&parsed, report).await => return false,
        None => {}
    }
    report.doing("connecting");
    match http.link(url).await {
        Ok(link) => {
            let protocol = if link.http2 { "HTTP/2" } else { "HTTP/1.1" };
            let tls = link.tls.map_or_else(String::new, |tls| format!("{tls}, "));
            report.add(Finding::ok("connection", format!("{tls}{protocol}, {}", shown(link.took))));
            true
        }
        Err(text) => {
            report.add(Finding::error("connection", text));
            false
        }
    }
}

async fn resolves(url: &Url, report: &mut Report) -> bool {
    let Some(Host::Domain(name)) = url.host() else { return true };
    report.doing("looking up the name");
    let begun = Instant::now();
    let found = tokio::net::lookup_host((name, url.port_or_known_default().unwrap_or_default())).await;
    let finding = match found.map(Iterator::count) {
        Ok(count) => Finding::ok("name", format!("{name} has {count} addresses, {}", shown(begun.elapsed()))),
        Err(error) => Finding::error("name", format!("{name} is not found: {error}")).hint("check the spelling"),
    };
    let found = finding.level == super::finding::Level::Ok;
    report.add(finding);
    found
}

/// Other URLs on the same origin that may be the right one.
pub(super) fn usual_places(url: &str) -> Vec<String> {
    let Ok(url) = Url::parse(url) else { return Vec::new() };
    let other = |path: &&str| url.path().trim_end_matches('/') != *path;
    let at = |path: &str| {
        let mut place = url.clone();
        place.set_path(path);
        place.into()
    };
    USUAL.iter().filter(|path| other(path)).map(|path| at(path)).collect()
}

pub(super) fn shown(time: Duration) -> String {
    match time.as_millis() {
        0..10 => format!("{:.1} ms", time.as_secs_f64() * 1e3),
        10..10_000 => format!("{} ms", time.as_millis()),
        _ => format!("{} s", time.as_secs()),
    }
}

fn is_local(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
