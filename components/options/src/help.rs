//! The component's help, and the notes that follow the options in both shells. The native
//! program lays out its own help, from the same table.

use std::fmt::Write as _;

use crate::{
    Quirk, Shell,
    table::{Spec, TABLE},
};

pub(crate) fn version() -> String {
    format!("mcp-proxy {}\n", env!("CARGO_PKG_VERSION"))
}

/// The component's whole help.
pub(crate) fn text() -> String {
    let mut text = String::from(HEAD);
    for spec in TABLE.iter().filter(|spec| spec.offered_in(Shell::Component)) {
        let _ = writeln!(text, "{:<34}{}", usage(spec), spec.help);
    }
    text.push('\n');
    text.push_str(&notes(Shell::Component));
    text
}

fn usage(spec: &Spec) -> String {
    let names: Vec<&str> = spec.aliases.iter().copied().chain([spec.name]).collect();
    format!("  {} {}", names.join(", "), spec.value)
}

/// What the help says below the options: quirks, units and variables.
pub fn notes(shell: Shell) -> String {
    let mut text = String::from("Quirks:\n");
    for (_, name, reason) in Quirk::TABLE {
        let _ = writeln!(text, "  {name:<18}{reason}");
    }
    text.push_str(NOTES);
    text.push_str(match shell {
        Shell::Component => COMPONENT_NOTES,
        Shell::Native => NATIVE_NOTES,
    });
    text
}

const HEAD: &str = "\
Connects an MCP client on stdin and stdout to the MCP server at URL.

Usage: wasmtime run -S http mcp-proxy.wasm [OPTIONS] URL
       wasmtime run -S http mcp-proxy.wasm replay < FILE    (plays a recording of --record again)

Options:
";

const NOTES: &str = "
TIME is 30, 30s, 500ms, 2m or 1h; SIZE is 1048576, 512k, 16MiB or 10MB.
A header from --header or --bearer-token-env wins over one of the same name from elsewhere.

Environment:
  MCP_PROXY_HEADERS     more headers, one NAME:VALUE a line
  DEBUG=1               the same as --debug
";

const COMPONENT_NOTES: &str =
    "wasmtime passes a variable to the component only with --env: `wasmtime run --env MCP_PROXY_HEADERS …`.
";

const NATIVE_NOTES: &str = "  MCP_PROXY_CONFIG_DIR  the folder for tokens that no keychain keeps
  HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY   the proxy to use (a wrong value is an error)
${NAME} in a header's value becomes the variable NAME (write $${ for a plain ${).
An Authorization header of your own switches the login off.
";
