//! `mcp-proxy config`: the entry for a client, printed, or added to the client's own file.

mod client;
mod file;

use std::{
    io::{self, BufRead as _, IsTerminal as _, Write as _},
    path::PathBuf,
};

use mcp_proxy_options::{ClientConfig, ClientName};
use serde_json::json;

use crate::note;
use file::{Change, File};

/// Prints the entry, or shows and writes the change.
pub fn run(config: &ClientConfig) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let client = client::of(config.client);
    let entry = client.entry(config, &program)?;
    for variable in client.unset(config) {
        note::line(&format!(
            "mcp-proxy: set {variable} in the entry's `env`: {} does not pass on the variables of your shell",
            client.title
        ));
    }
    let Some(path) = client.file().map_err(|why| format!("cannot find the file of {}: {why}", client.title))? else {
        return pretty(&json!({ client.member: { &config.name: entry } }));
    };
    if !config.write {
        note::line(&format!("mcp-proxy: {} reads this from {}", client.title, path.display()));
        return pretty(&json!({ client.member: { &config.name: entry } }));
    }
    let file = File::read(path)?;
    match file.with(client.member, &config.name, entry, config.force)? {
        Change::None => Ok(format!("{}: the entry is there already", file.path().display())),
        Change::To(text) => write(&file, &text, config.yes, client.title),
    }
}

/// The entry that most clients accept.
pub(crate) fn generic(config: &ClientConfig) -> Result<serde_json::Value, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find the path of this program: {error}"))?;
    let client = client::of(ClientName::Generic);
    Ok(json!({ client.member: { &config.name: client.entry(config, &program)? } }))
}

fn write(file: &File, text: &str, yes: bool, title: &str) -> Result<String, String> {
    let shown = file.path().display();
    let _ = write!(io::stdout(), "{}", file.diff(text));
    if !yes && !confirmed(&format!("Write {shown}? [y/N] "))? {
        return Err("nothing was written".to_owned());
    }
    let backup = file.replace(text).map_err(|why| format!("{shown} is unchanged: {why}"))?;
    let backup = backup.as_deref().map(PathBuf::from).map(|path| format!("; the old one is {}", path.display()));
    Ok(format!("wrote {shown}{}. Restart {title} to use the server.", backup.unwrap_or_default()))
}

fn confirmed(question: &str) -> Result<bool, String> {
    if !io::stdin().is_terminal() {
        return Err("nothing was written, since nobody can be asked here: add --yes".to_owned());
    }
    let _ = write!(io::stderr(), "{question}");
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer).map_err(|error| format!("cannot read your answer: {error}"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

pub(crate) fn pretty(value: &serde_json::Value) -> Result<String, String> {
    serde_json::to_string_pretty(value).map_err(|error| error.to_string())
}
