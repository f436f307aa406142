//! A server that wants credentials.

use super::{
    finding::{Finding, Verdict},
    report::Report,
    seen,
};
use crate::http::{Exchange, Http, Outcome};

/// What the refusal leads to. `message` is what a client reads.
pub(super) async fn examine(http: &Http, refused: &Exchange, message: &str, report: &mut Report) -> Verdict {
    let status = seen::status(refused).map_or(401, |status| status.as_u16());
    let Some(authorizer) = http.authorizer() else {
        let finding = Finding::error("authorization", format!("the server refuses your credentials: {message}"));
        report.add(finding.hint("give other credentials, or none, so that mcp-proxy can log in"));
        return Verdict::Broken;
    };
    let Outcome::Answered(answer) = &refused.outcome else { return Verdict::Broken };
    report.doing("asking who issues tokens");
    match authorizer.examine(&answer.headers).await {
        Ok(found) => {
            let scope = found.scope.map_or_else(String::new, |scope| format!(", for {scope}"));
            let text =
                format!("the server is protected ({status}): {} issues tokens{scope}, {}", found.issuer, found.client);
            report.add(Finding::note("authorization", text));
            Verdict::Login
        }
        Err(text) => {
            let finding = Finding::error("authorization", format!("the server is protected ({status}), and {text}"));
            report.add(finding.hint("tell whoever runs it, or get a token elsewhere and use --bearer-token-env"));
            Verdict::Broken
        }
    }
}
