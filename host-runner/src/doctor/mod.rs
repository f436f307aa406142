//! `mcp-proxy doctor`: examines a server and says what is wrong. It runs the component as
//! a client would and watches its exchanges, so it sees what a client would see; what the
//! component never does, it tries itself. It logs nobody in.

mod address;
mod finding;
mod idle;
mod probe;
mod protected;
mod report;
mod seen;
mod session;

use std::time::Duration;

use ::http::{Method, StatusCode, header::CONTENT_ENCODING};
use mcp_proxy_options::{ClientConfig, Doctor, Era, Options, UsageError};
use serde_json::{Value, json};
use wasmtime::component::Component;

use self::{
    finding::{Finding, Verdict},
    report::Report,
    seen::{Kind, MODERN},
    session::{Answer, Session},
};
use crate::{
    command::failed,
    config,
    http::{Exchange, Http, Watch},
};

/// How long the responses to notifications, and the listening stream, may take.
const SETTLED: Duration = Duration::from_secs(5);
/// How many calls the latency is the median of.
const CALLS: usize = 5;

type Variables<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Examines the server and returns the exit code.
pub async fn run(doctor: &Doctor, component: Component, env: Variables<'_>) -> i32 {
    let report = Report::new(&doctor.options.url, doctor.json);
    let mut examination = Examination { doctor, component, env, report, options: (*doctor.options).clone() };
    let ended = match examination.run().await {
        Ok(verdict) => examination.end(verdict).map(|()| verdict.code()),
        Err(error) => Err(error.to_string()),
    };
    ended.unwrap_or_else(|text| failed(&text, 1))
}

struct Examination<'a> {
    doctor: &'a Doctor,
    component: Component,
    env: Variables<'a>,
    report: Report,
    /// The user's, but with another URL if the server is there.
    options: Options,
}

/// A session that has begun.
struct Begun {
    session: Session,
    watch: Watch,
    kind: Kind,
    /// The result of `initialize`.
    welcome: Value,
}

impl Begun {
    fn new(session: Session, watch: Watch, welcome: Value) -> Self {
        let kind = Kind::of(&watch.exchanges());
        Self { session, watch, kind, welcome }
    }
}

impl Examination<'_> {
    async fn run(&mut self) -> Result<Verdict, UsageError> {
        if !address::examine(&self.http(&self.options)?, &self.options.url, &mut self.report).await {
            return Ok(Verdict::Broken);
        }
        self.report.doing("opening a session");
        let (watch, answer, session) = self.begin(&self.options).await?;
        seen::redirect(&watch.exchanges()).into_iter().for_each(|finding| self.report.add(finding));
        match answer {
            Ok(welcome) => self.works(Begun::new(session, watch, welcome)).await.map(|()| Verdict::Works),
            Err(error) => {
                session.end().await;
                self.does_not_work(&error, &watch.exchanges()).await
            }
        }
    }

    async fn begin(&self, options: &Options) -> Result<(Watch, Answer, Session), UsageError> {
        let watch = Watch::default();
        let mut session = Session::start(&self.component, options, self.http(options)?, &watch);
        let answer = session.initialize().await;
        Ok((watch, answer, session))
    }

    fn http(&self, options: &Options) -> Result<Http, UsageError> {
        Http::new(options, self.env)
    }

    // ---- a server that works -----------------------------------------------------------

    async fn works(&mut self, mut begun: Begun) -> Result<(), UsageError> {
        if let Some(authorizer) = self.http(&self.options)?.authorizer()
            && let Some(issuer) = authorizer.issuer().await
        {
            self.report.add(Finding::ok("authorization", format!("the server accepts your login at {issuer}")));
        }
        self.report.add(Finding::ok("transport", begun.kind.transport()));
        self.identity(&begun);
        self.report.doing("listening to the server");
        self.opening(&mut begun).await;
        self.report.doing("calling the server");
        self.calls(&mut begun).await;
        if self.doctor.deep {
            self.report.doing("waiting for the server, or something before it, to cut an idle stream");
            self.report.add(idle::examine(&begun.watch).await);
        }
        let Begun { session, watch, kind, welcome } = begun;
        let said = session.end().await;
        seen::ending(&watch.exchanges()).into_iter().for_each(|finding| self.report.add(finding));
        if let Some(encoding) = seen::header(&watch.exchanges(), &CONTENT_ENCODING) {
            let text = format!("the server compresses responses ({encoding}), which nobody asked for");
            self.report.add(Finding::warning("compression", text));
        }
        for line in said {
            self.report.add(Finding::note("proxy", line));
        }
        let keeps = watch.exchanges().iter().any(|exchange| exchange.headers.contains_key(seen::SESSION));
        if kind == Kind::Legacy && !keeps {
            self.report.add(Finding::ok("sessions", "the server keeps none"));
        } else if kind == Kind::Legacy {
            let version = welcome.get("protocolVersion").and_then(Value::as_str).unwrap_or_default();
            let mut http = self.http(&self.options)?;
            let found = probe::unknown_session(&mut http, &self.options.url, version).await;
            found.into_iter().for_each(|finding| self.report.add(finding));
        }
        self.other_era(kind).await
    }

    /// Who the server is, and what it speaks.
    fn identity(&mut self, begun: &Begun) {
        let text = |at: &str| begun.welcome.pointer(at).and_then(Value::as_str);
        let version = text("/protocolVersion").unwrap_or("an unknown revision");
        self.report.add(match begun.kind {
            Kind::Modern => Finding::ok("era", format!("modern: {MODERN}, without sessions")),
            Kind::Legacy | Kind::Sse => Finding::ok("era", format!("legacy: {version}")),
        });
        let name = text("/serverInfo/name").unwrap_or("(no name)");
        let release = text("/serverInfo/version").unwrap_or_default();
        let capabilities = begun.welcome.get("capabilities").and_then(Value::as_object);
        let names: Vec<&str> = capabilities.into_iter().flat_map(|all| all.keys().map(String::as_str)).collect();
        let offers =
            if names.is_empty() { "offers nothing".to_owned() } else { format!("offers {}", names.join(", ")) };
        self.report.add(Finding::ok("server", format!("{} {offers}", format!("{name} {release}").trim_end())));
    }

    /// The end of the handshake: how the server takes a notification, and whether it
    /// listens.
    async fn opening(&mut self, begun: &mut Begun) {
        let before = begun.watch.exchanges().len();
        begun.session.notify("notifications/initialized").await;
        if begun.kind == Kind::Modern {
            return;
        }
        let listens = begun.kind == Kind::Legacy;
        let settled = begun.watch.until(|exchanges| {
            let new = exchanges.get(before..).unwrap_or_default();
            let done = |method: Method| new.iter().any(|exchange| exchange.method == method && seen::is_over(exchange));
            done(Method::POST) && (!listens || done(Method::GET))
        });
        let _ = tokio::time::timeout(SETTLED, settled).await;
        let exchanges = begun.watch.exchanges();
        let new = exchanges.get(before..).unwrap_or_default();
        let find = |method: Method| new.iter().find(|exchange| exchange.method == method);
        self.report.add(seen::notification(find(Method::POST)));
        if listens {
            self.report.add(seen::listening(find(Method::GET)));
        }
    }

    async fn calls(&mut self, begun: &mut Begun) {
        let has_tools = begun.welcome.pointer("/capabilities/tools").is_some();
        if has_tools {
            let tools = begun.session.ask("tools/list", json!({})).await;
            self.report.add(tools_found(tools));
        }
        // A modern server has no ping, and the proxy answers it itself.
        let method = match (begun.kind, has_tools) {
            (Kind::Legacy | Kind::Sse, _) => "ping",
            (Kind::Modern, true) => "tools/list",
            (Kind::Modern, false) => return,
        };
        let mut times = Vec::new();
        for _ in 0..CALLS {
            times.extend(begun.session.timed(method).await);
        }
        times.sort_unstable();
        self.report.add(match times.get(times.len() / 2) {
            Some(median) => {
                Finding::ok("latency", format!("{} for {method} (median of {})", address::shown(*median), times.len()))
            }
            None => Finding::warning("latency", format!("the server does not answer {method}")),
        });
    }

    /// Whether the server speaks the other era too.
    async fn other_era(&mut self, kind: Kind) -> Result<(), UsageError> {
        let (era, text) = match kind {
            Kind::Sse => return Ok(()),
            Kind::Legacy => (Era::Modern, format!("the server also speaks {MODERN}")),
            Kind::Modern => (Era::Legacy, "the server also speaks earlier revisions, with initialize".to_owned()),
        };
        if self.options.era != Era::Auto {
            return Ok(());
        }
        self.report.doing("trying the other era");
        let (_, answer, session) = self.begin(&Options { era, ..self.options.clone() }).await?;
        session.end().await;
        if answer.is_ok() {
            self.report.add(Finding::ok("other era", text));
        }
        Ok(())
    }

    // ---- a server that does not --------------------------------------------------------

    async fn does_not_work(&mut self, error: &Value, exchanges: &[Exchange]) -> Result<Verdict, UsageError> {
        let message = error.get("message").and_then(Value::as_str).unwrap_or("there was no answer");
        let refused = exchanges.iter().rfind(|exchange| {
            seen::status(exchange)
                .is_some_and(|status| status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN)
        });
        if let Some(refused) = refused {
            let http = self.http(&self.options)?;
            return Ok(protected::examine(&http, refused, message, &mut self.report).await);
        }
        self.report.add(Finding::error("session", message));
        self.report.doing("looking for the server elsewhere");
        let Some((url, begun)) = self.elsewhere().await? else { return Ok(Verdict::Broken) };
        self.report.add(Finding::note("elsewhere", format!("an MCP server answers at {url}")).hint("use that URL"));
        self.options.url = url;
        self.works(begun).await.map(|()| Verdict::Elsewhere)
    }

    /// A usual path of the same origin where an MCP server answers.
    async fn elsewhere(&self) -> Result<Option<(String, Begun)>, UsageError> {
        for url in address::usual_places(&self.options.url) {
            let options = Options { url: url.clone(), ..self.options.clone() };
            let (watch, answer, session) = self.begin(&options).await?;
            match answer {
                Ok(welcome) => return Ok(Some((url, Begun::new(session, watch, welcome)))),
                Err(_) => drop(session.end().await),
            }
        }
        Ok(None)
    }

    fn end(self, verdict: Verdict) -> Result<(), String> {
        let url = self.options.url;
        let entry = config::generic(&ClientConfig { url: url.clone(), ..self.doctor.entry.clone() })?;
        self.report.end(verdict, &url, &entry)
    }
}

fn tools_found(answer: Answer) -> Finding {
    match answer {
        Ok(list) => {
            let count = list.get("tools").and_then(Value::as_array).map_or(0, Vec::len);
            let more = if list.get("nextCursor").is_some() { ", and more pages" } else { "" };
            Finding::ok("tools", format!("{count} {}{more}", if count == 1 { "tool" } else { "tools" }))
        }
        Err(error) => Finding::warning("tools", error.get("message").and_then(Value::as_str).unwrap_or("no answer")),
    }
}
