//! What the clients' configurations look like and where they are.

use std::path::{Path, PathBuf};

use etcetera::BaseStrategy as _;
use mcp_proxy_options::{Argument, ClientConfig, ClientName};
use serde_json::{Map, Value, json};

/// A client, as its documentation describes it.
pub(super) struct Client {
    pub(super) title: &'static str,
    /// The member of the file that holds the servers.
    pub(super) member: &'static str,
    place: Place,
    /// The entry says that the server speaks stdio.
    typed: bool,
    variables: Variables,
}

enum Place {
    /// Below the folder where the platform's applications keep their data or settings.
    Application(&'static [&'static str]),
    /// Below the home folder.
    Home(&'static [&'static str]),
    /// In the current folder.
    Project(&'static str),
    Zed,
    Nowhere,
}

/// How an entry refers to a variable of the environment in which the client started.
enum Variables {
    /// `${env:NAME}`
    Prefixed,
    /// `${NAME}`, in arguments too. There it would become visible to every process of the
    /// machine, so a header that has one goes into the entry's environment.
    Bare,
    Unsupported,
}

pub(super) fn of(name: ClientName) -> Client {
    let bare = |title, member, place| Client { title, member, place, typed: false, variables: Variables::Unsupported };
    match name {
        ClientName::ClaudeDesktop => {
            let path = &["Claude", "claude_desktop_config.json"];
            bare("Claude Desktop", "mcpServers", Place::Application(path))
        }
        ClientName::ClaudeCode => Client {
            typed: true,
            variables: Variables::Bare,
            ..bare("Claude Code", "mcpServers", Place::Project(".mcp.json"))
        },
        ClientName::VsCode => Client {
            typed: true,
            variables: Variables::Prefixed,
            ..bare("VS Code", "servers", Place::Application(&["Code", "User", "mcp.json"]))
        },
        ClientName::Cursor => Client {
            variables: Variables::Prefixed,
            ..bare("Cursor", "mcpServers", Place::Home(&[".cursor", "mcp.json"]))
        },
        ClientName::Zed => bare("Zed", "context_servers", Place::Zed),
        ClientName::Generic => bare("the client", "mcpServers", Place::Nowhere),
    }
}

impl Client {
    /// The file that the client reads, if we know one.
    pub(super) fn file(&self) -> Result<Option<PathBuf>, String> {
        let base = || etcetera::base_strategy::choose_native_strategy().map_err(|error| error.to_string());
        let below = |folder: PathBuf, path: &[&str]| path.iter().fold(folder, |folder, name| folder.join(name));
        Ok(Some(match &self.place {
            Place::Application(path) if cfg!(target_os = "macos") => below(base()?.data_dir(), path),
            Place::Application(path) => below(base()?.config_dir(), path),
            Place::Home(path) => below(base()?.home_dir().to_path_buf(), path),
            Place::Project(name) => std::env::current_dir().map_err(|error| error.to_string())?.join(name),
            // Zed follows the customs of Linux on macOS too.
            Place::Zed if cfg!(target_os = "macos") => {
                below(base()?.home_dir().to_path_buf(), &[".config", "zed", "settings.json"])
            }
            Place::Zed => below(base()?.config_dir(), &[if cfg!(windows) { "Zed" } else { "zed" }, "settings.json"]),
            Place::Nowhere => return Ok(None),
        }))
    }

    /// The variables whose values the user has to put into the entry.
    pub(super) fn unset<'a>(&self, config: &'a ClientConfig) -> &'a [String] {
        match self.variables {
            Variables::Unsupported => &config.variables,
            Variables::Prefixed | Variables::Bare => &[],
        }
    }

    /// The entry for the server: it runs `program`.
    pub(super) fn entry(&self, config: &ClientConfig, program: &Path) -> Result<Value, String> {
        let mut args = Vec::new();
        let mut headers = Vec::new();
        for argument in &config.args {
            match self.variables {
                Variables::Bare if argument.name == "--header" && argument.value.contains("${") => {
                    headers.push(argument.value.as_str());
                }
                Variables::Bare | Variables::Prefixed | Variables::Unsupported => args.extend(words(argument)?),
            }
        }
        args.push(config.url.clone());
        let env = self.environment(config, &headers);
        let mut entry = Map::new();
        if self.typed {
            entry.insert("type".to_owned(), json!("stdio"));
        }
        entry.insert("command".to_owned(), json!(text(program)?));
        entry.insert("args".to_owned(), json!(args));
        if !env.is_empty() {
            entry.insert("env".to_owned(), Value::Object(env));
        }
        Ok(Value::Object(entry))
    }

    /// What the client has to set: the variables, by reference, never their values.
    fn environment(&self, config: &ClientConfig, headers: &[&str]) -> Map<String, Value> {
        let reference = |name: &String| match self.variables {
            Variables::Prefixed => Some(format!("${{env:{name}}}")),
            Variables::Bare if !headers.iter().any(|header| header.contains(&format!("${{{name}}}"))) => {
                Some(format!("${{{name}}}"))
            }
            Variables::Bare | Variables::Unsupported => None,
        };
        let named = config.variables.iter().filter_map(|name| Some((name.clone(), json!(reference(name)?))));
        let joined = (!headers.is_empty()).then(|| ("MCP_PROXY_HEADERS".to_owned(), json!(headers.join("\n"))));
        named.chain(joined).collect()
    }
}

/// The words of an option. A client starts the program in a folder of its choice.
fn words(argument: &Argument) -> Result<Vec<String>, String> {
    let name = argument.name.to_owned();
    if argument.value.is_empty() {
        return Ok(vec![name]);
    }
    if !argument.file {
        return Ok(vec![name, argument.value.clone()]);
    }
    let path = std::path::absolute(&argument.value).map_err(|error| format!("{name} {}: {error}", argument.value))?;
    Ok(vec![name, text(&path)?])
}

/// JSON holds only Unicode.
fn text(path: &Path) -> Result<String, String> {
    path.to_str().map(str::to_owned).ok_or_else(|| format!("{} is not valid UTF-8: rename it", path.display()))
}
