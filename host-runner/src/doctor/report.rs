//! Prints an examination: lines for a person, with colours and a spinner on a terminal, or
//! one JSON object for a program.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::Duration,
};

use anstyle::{AnsiColor, Style};
use serde_json::json;
use tokio::task::JoinHandle;

use super::finding::{Finding, Level, Verdict};
use crate::{config::pretty, note};

/// How wide the columns of a line are.
const LEVEL: usize = 7;
const CHECK: usize = 15;

const FRAMES: [&str; 4] = ["⠋", "⠙", "⠸", "⠴"];
const FRAME: Duration = Duration::from_millis(120);

pub(super) struct Report {
    url: String,
    /// What was found, for a program; a person has read it already.
    json: Option<Vec<Finding>>,
    spinner: Option<JoinHandle<()>>,
}

impl Report {
    pub(super) fn new(url: &str, json: bool) -> Self {
        let report = Self { url: url.to_owned(), json: json.then(Vec::new), spinner: None };
        if !json {
            print(&format!("mcp-proxy doctor {url}\n"));
        }
        report
    }

    /// Says what happens now, on a terminal.
    pub(super) fn doing(&mut self, what: &'static str) {
        self.done();
        if self.json.is_none() && io::stderr().is_terminal() {
            self.spinner = Some(tokio::spawn(spin(what)));
        }
    }

    pub(super) fn add(&mut self, finding: Finding) {
        self.done();
        match &mut self.json {
            Some(findings) => findings.push(finding),
            None => print(&line(&finding)),
        }
    }

    /// The verdict about the server, which is at `url`, and the entry for the user's client.
    pub(super) fn end(mut self, verdict: Verdict, url: &str, entry: &serde_json::Value) -> Result<(), String> {
        self.done();
        let entry = (verdict != Verdict::Broken).then_some(entry);
        if let Some(findings) = &self.json {
            let report = json!({ "url": self.url, "verdict": verdict, "findings": findings, "config": entry });
            print(&pretty(&report)?);
            return Ok(());
        }
        print(&format!("\n{}", conclusion(verdict, url)));
        if let Some(entry) = entry {
            print(&format!(
                "Put this into your client (`mcp-proxy config --help` lists those with other forms):\n\n{}",
                pretty(entry)?
            ));
        }
        Ok(())
    }

    fn done(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.abort();
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

fn conclusion(verdict: Verdict, url: &str) -> String {
    let (color, text) = match verdict {
        Verdict::Works => (AnsiColor::Green, "mcp-proxy can use this server.".to_owned()),
        Verdict::Login => {
            (AnsiColor::Yellow, format!("mcp-proxy can use this server once you have logged in: mcp-proxy login {url}"))
        }
        Verdict::Elsewhere => (AnsiColor::Yellow, format!("mcp-proxy cannot use this URL, but {url} works.")),
        Verdict::Broken => (AnsiColor::Red, "mcp-proxy cannot use this server.".to_owned()),
    };
    painted(color, &text)
}

async fn spin(what: &str) {
    for frame in FRAMES.iter().cycle() {
        let _ = write!(io::stderr(), "\r{frame} {what} ");
        tokio::time::sleep(FRAME).await;
    }
}

fn line(finding: &Finding) -> String {
    let (color, word) = match finding.level {
        Level::Ok => (AnsiColor::Green, "ok"),
        Level::Note => (AnsiColor::Cyan, "note"),
        Level::Warning => (AnsiColor::Yellow, "warning"),
        Level::Error => (AnsiColor::Red, "error"),
    };
    let word = painted(color, &format!("{word:LEVEL$}"));
    let mut line = format!("  {word}  {:CHECK$}  {}", finding.check, note::escaped(&finding.text));
    if let Some(hint) = &finding.hint {
        line += &format!("\n  {:LEVEL$}  {:CHECK$}  → {}", "", "", note::escaped(hint));
    }
    line
}

fn painted(color: AnsiColor, text: &str) -> String {
    let style = Style::new().fg_color(Some(color.into()));
    format!("{style}{text}{style:#}")
}

/// Prints a line to stdout, without colours where nobody sees them.
fn print(text: &str) {
    let _ = writeln!(anstream::stdout(), "{text}");
}
