//! A setting has one definition, the core's `Config`, and several places that must list it:
//! the recorder's first line, `config` in the WIT, the options with their `--help`, and the
//! README. The compiler compares the recorder with the core. These tests compare the rest
//! with the recorder, so that a missing setting fails a test.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test fails by panicking")]

use http::HeaderValue;
use mcp_proxy_core::record::Recorder;
use mcp_proxy_core::{ClientTransport, Config, HttpTransport, Snapshot, Time};
use mcp_proxy_options::{Command, CommandSpec, Shell, parse};
use serde_json::{Map, Value};
use std::collections::BTreeSet;

const WIT: &str = include_str!("../../../wit/machine.wit");
const README: &str = include_str!("../../../README.md");

/// Every setting of the core, and its option; none where a shell decides.
const SETTINGS: [(&str, Option<&str>); 16] = [
    // The argument of the command line.
    ("url", None),
    ("transport", Some("--transport")),
    ("era", Some("--era")),
    ("headers", Some("--header")),
    ("first_byte_timeout", Some("--first-byte-timeout")),
    ("endpoint_timeout", Some("--endpoint-timeout")),
    ("request_timeout", Some("--request-timeout")),
    ("total_timeout", Some("--total-timeout")),
    ("drain_timeout", Some("--drain-timeout")),
    ("retries", Some("--retries")),
    ("max_message", Some("--max-message-bytes")),
    ("keep_alive", Some("--keep-alive")),
    ("quirks", Some("--quirk")),
    // The Worker follows none, the command line always does.
    ("redirects", None),
    ("trace", Some("--debug")),
    // The command line serves a client on stdio.
    ("http", None),
];

/// Options that the component handles without the machine.
const OF_THE_COMPONENT: [&str; 5] = ["--bearer-token-env", "--connect-timeout", "--log-bodies", "--version", "--help"];

/// Options that only the native runner has.
const OF_THE_RUNNER: [&str; 17] = [
    "--allow-host",
    "--header-file",
    "--ca-cert",
    "--client-cert",
    "--client-key",
    "--component",
    "--record",
    "--oauth-grant",
    "--no-browser",
    "--browser-command",
    "--oauth-client-id",
    "--oauth-client-secret-env",
    "--oauth-client-metadata",
    "--oauth-key",
    "--oauth-scope",
    "--oauth-callback-port",
    "--token-store",
];

/// What a host of the engine can set, and the machine does not know.
const OF_THE_ENGINE: [&str; 1] = ["notes"];

/// The members of a recording's first line that are not settings.
const OF_THE_RECORDING: [&str; 4] = ["mcp-proxy-record", "version", "seed", "start"];

type Names = BTreeSet<String>;

#[test]
fn the_table_above_has_every_setting_of_the_core() {
    let recorded: Names = names(recorded().keys().filter(|key| !OF_THE_RECORDING.contains(&key.as_str())));
    assert_eq!(recorded, names(SETTINGS.map(|(setting, _)| setting)));
}

#[test]
fn the_wit_has_every_setting_of_the_core() {
    let settings = SETTINGS.map(|(setting, _)| setting);
    assert_eq!(wit("record config {"), names(settings.into_iter().chain(OF_THE_ENGINE)));
    assert_eq!(wit("record http-transport {"), keys(&recorded()["http"]));
    assert_eq!(wit("record snapshot {"), keys(&recorded()["http"]["resumed"]));
    assert_eq!(wit("flags quirks {"), keys(&recorded()["quirks"]));
}

#[test]
fn the_help_has_every_option_and_no_other() {
    let options = SETTINGS.into_iter().filter_map(|(_, option)| option).chain(OF_THE_COMPONENT);
    assert_eq!(offered(Shell::Component), names(options.clone()));
    assert_eq!(offered(Shell::Native), names(options.chain(OF_THE_RUNNER)));
}

#[test]
fn the_help_has_every_quirk() {
    let help = help();
    let (_, quirks) = help.split_once("\nQuirks:\n").unwrap();
    let (quirks, _) = quirks.split_once("\n\n").unwrap();
    let quirks = quirks.lines().filter_map(|line| line.split_whitespace().next());
    assert_eq!(names(quirks.map(|quirk| quirk.replace('-', "_"))), keys(&recorded()["quirks"]));
}

#[test]
fn the_readme_has_every_option_and_no_other() {
    let section = README.split_once("\n## Options\n").unwrap().1.split_once("\n### ").unwrap().0;
    let (both, native) = section.split_once("Only the native").unwrap();
    // `--debug` and `--verbose` are spellings of one option.
    let documented = |text| without(options(text), "--verbose");
    assert_eq!(documented(both), offered(Shell::Component));
    assert_eq!(documented(native), names(OF_THE_RUNNER));
}

/// Headers stay outside the sandbox, and nothing is left to print.
#[test]
fn the_runner_passes_every_other_option_on() {
    let line = ["--debug", "--log-bodies", "--quirk=cookies=off", "http://server.test/mcp"];
    let passed = match parse(Shell::Native, line.map(str::to_owned), &|_| None) {
        Ok(Command::Run(options)) => options.guest_args(),
        other => panic!("{other:?}"),
    };
    let kept = ["--header", "--bearer-token-env", "--version", "--help"];
    let expected = kept.into_iter().fold(offered(Shell::Component), without);
    assert_eq!(names(passed.iter().flat_map(|word| long_options(word))), expected);
}

/// The first line of a recording, which has every setting.
fn recorded() -> Map<String, Value> {
    let mut config = Config::new("http://server.test/mcp").unwrap();
    let resumed = Snapshot { initialize: "{}".into(), version: String::new(), settings: Vec::new() };
    let client = HttpTransport::new(HeaderValue::from_static("session"));
    config.client = ClientTransport::Http(HttpTransport { resumed: Some(resumed), ..client });
    let (_, line) = Recorder::start(&config, 0, Time(0));
    serde_json::from_str(&line).unwrap()
}

/// The names between this line of the WIT and the closing brace, as Rust spells them.
fn wit(opening: &str) -> Names {
    let (_, rest) = WIT.split_once(opening).unwrap();
    let (body, _) = rest.split_once("\n  }").unwrap();
    let lines = body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("///"));
    names(lines.filter_map(|line| line.split([':', ',']).next()).map(|name| name.replace('-', "_")))
}

/// The options in the help of a shell, each by its first name.
fn offered(shell: Shell) -> Names {
    match shell {
        Shell::Component => listed(&help()),
        // The native program lays out its help from the table.
        Shell::Native => CommandSpec::all().first().map(|main| names(main.options().map(|spec| spec.name))).unwrap(),
    }
}

fn listed(help: &str) -> Names {
    let (_, listed) = help.split_once("\nOptions:\n").unwrap();
    let (listed, _) = listed.split_once("\n\n").unwrap();
    without(names(listed.lines().flat_map(|line| long_options(line.get(..34).unwrap_or(line)))), "--verbose")
}

fn help() -> String {
    match parse(Shell::Component, ["--help".to_owned()], &|_| None) {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    }
}

/// The options in the first cells of the tables in a text.
fn options(text: &str) -> Names {
    let cells = text.lines().filter_map(|line| line.strip_prefix('|')?.split(" | ").next());
    names(cells.flat_map(long_options))
}

/// The long options among the words of a text.
fn long_options(text: &str) -> impl Iterator<Item = &str> {
    let named = |word: &&str| word.strip_prefix("--").is_some_and(|name| name.starts_with(char::is_alphabetic));
    text.split([' ', ',', '`', '=']).filter(named)
}

fn without(mut names: Names, name: &str) -> Names {
    names.remove(name);
    names
}

fn keys(object: &Value) -> Names {
    names(object.as_object().unwrap().keys())
}

fn names<T: ToString>(names: impl IntoIterator<Item = T>) -> Names {
    names.into_iter().map(|name| name.to_string()).collect()
}
