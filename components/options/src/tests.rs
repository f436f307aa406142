//! The command line as tables: what the parser accepts, what it refuses and why, and what
//! the host passes on.

use std::time::Duration;

use super::{
    AllowedHost, Argument, AuthOptions, Browser, ClientConfig, ClientName, Command, Grant, KeepAlive, Options, Quirk,
    Replay, Shell, TokenStore, Transport, UsageError, parse,
};

const URL: &str = "https://example.com/mcp";

fn variables(name: &str) -> Option<String> {
    let value = match name {
        "TOKEN" => "s3cret",
        "EMPTY" => "",
        "BROKEN" => "a\nb",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read(shell: Shell, line: &str) -> Result<Command, UsageError> {
    parse(shell, line.split_whitespace().map(str::to_owned), &variables)
}

fn run(shell: Shell, line: &str) -> Options {
    match read(shell, line) {
        Ok(Command::Run(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn refusal(shell: Shell, line: &str) -> String {
    match read(shell, line) {
        Err(error) => error.to_string(),
        other => panic!("{line}: {other:?}"),
    }
}

fn header(shell: Shell, text: &str) -> Result<(String, String), String> {
    let args = ["--header", text, URL].map(str::to_owned);
    match parse(shell, args, &variables) {
        Ok(Command::Run(mut options)) => Ok(options.headers.remove(0)),
        Ok(other) => panic!("{other:?}"),
        Err(error) => Err(error.to_string()),
    }
}

fn pair(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

#[test]
fn a_url_alone_gives_the_documented_defaults() {
    let options = run(Shell::Component, URL);
    assert_eq!(options.url, URL);
    assert_eq!(options.transport, Transport::Auto);
    assert_eq!(options.connect_timeout, Duration::from_secs(30));
    assert_eq!(options.request_timeout, Some(Duration::from_secs(300)));
    assert_eq!(options.retries, 3);
    assert_eq!(options.max_message_bytes, 64 * 1024 * 1024);
    assert_eq!(options.drain_timeout, Duration::from_secs(5));
    assert!(!options.debug && options.headers.is_empty());
}

#[test]
fn values_follow_a_space_or_an_equals_sign() {
    for line in ["--retries 7", "--retries=7", "-v --retries=7"] {
        assert_eq!(run(Shell::Native, &format!("{line} {URL}")).retries, 7);
    }
    for flag in ["--debug", "-v", "--verbose"] {
        assert!(run(Shell::Native, &format!("{URL} {flag}")).debug);
    }
}

#[test]
fn durations_are_read_in_every_unit() {
    let cases = [("30", 30_000), ("30s", 30_000), ("500ms", 500), ("2m", 120_000), ("1h", 3_600_000)];
    for (text, millis) in cases {
        let options = run(Shell::Native, &format!("--connect-timeout {text} {URL}"));
        assert_eq!(options.connect_timeout, Duration::from_millis(millis), "{text}");
    }
    let options = run(Shell::Native, &format!("--request-timeout 0 {URL}"));
    assert_eq!(options.request_timeout, None);
}

#[test]
fn sizes_are_read_in_every_unit() {
    let cases = [("2048", 2048), ("512k", 512 << 10), ("16MiB", 16 << 20), ("10MB", 10_000_000), ("1g", 1 << 30)];
    for (text, bytes) in cases {
        let options = run(Shell::Native, &format!("--max-message-bytes {text} {URL}"));
        assert_eq!(options.max_message_bytes, bytes, "{text}");
    }
}

#[test]
fn headers_are_split_at_the_first_colon_or_equals_sign() {
    let cases = [
        ("X-Key:abc", "X-Key", "abc"),
        ("X-Key=abc", "X-Key", "abc"),
        ("X-Key: abc def ", "X-Key", "abc def"),
        ("X-Key=a:b=c", "X-Key", "a:b=c"),
        ("X-Key:a=b:c", "X-Key", "a=b:c"),
        ("X-Key:", "X-Key", ""),
    ];
    for (text, name, value) in cases {
        assert_eq!(header(Shell::Component, text), Ok(pair(name, value)), "{text}");
    }
}

#[test]
fn variables_in_headers_are_expanded_by_the_native_host_only() {
    let cases = [
        ("A: Bearer ${TOKEN}", "Bearer s3cret"),
        ("A:${TOKEN}${EMPTY}/${TOKEN}", "s3cret/s3cret"),
        ("A:$${TOKEN}", "${TOKEN}"),
        ("A:cost $5", "cost $5"),
    ];
    for (text, value) in cases {
        assert_eq!(header(Shell::Native, text), Ok(pair("A", value)), "{text}");
    }
    let refused = header(Shell::Component, "A:${TOKEN}").unwrap_err();
    assert!(refused.contains("only the native mcp-proxy"), "{refused}");
    let unknown = header(Shell::Native, "A:${NOPE}").unwrap_err();
    assert!(unknown.contains("NOPE is not set"), "{unknown}");
}

#[test]
fn a_refused_header_is_named_and_its_value_is_not_shown() {
    let cases = [
        ("X-Key:secret\u{7f}", "X-Key"),
        ("Connection:secret", "Connection"),
        ("X-Key:secret${TOKEN", "X-Key"),
        ("secret", "NAME:VALUE"),
        ("b@d:secret", "NAME:VALUE"),
    ];
    for (text, named) in cases {
        let error = header(Shell::Native, text).unwrap_err();
        assert!(error.contains(named) && !error.contains("secret"), "{error}");
    }
}

#[test]
fn headers_that_the_protocol_owns_are_refused_by_name_wherever_they_come_from() {
    let owned = [
        "Accept",
        "content-type",
        "Content-Length",
        "Last-Event-ID",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Mcp-Method",
        "mcp-name",
        "Mcp-Param-Region",
    ];
    for name in owned {
        let line = format!("{name}: secret");
        for shell in [Shell::Component, Shell::Native] {
            let env = |asked: &str| (asked == "MCP_PROXY_HEADERS").then(|| line.clone());
            let from_variable = parse(shell, [URL.to_owned()], &env).unwrap_err().to_string();
            for error in [header(shell, &line).unwrap_err(), from_variable] {
                assert!(error.contains(&format!("header {name} belongs")) && !error.contains("secret"), "{error}");
            }
        }
        let error = run(Shell::Native, URL).add_header_file(&line, &variables).unwrap_err().to_string();
        assert!(error.contains(name) && !error.contains("secret"), "{error}");
    }
    for name in ["Mcp-Api-Key", "X-Accept", "Accept-Language", "User-Agent", "Cookie"] {
        assert_eq!(header(Shell::Native, &format!("{name}:x")), Ok(pair(name, "x")));
    }
}

#[test]
fn a_bearer_token_comes_from_its_variable() {
    let options = run(Shell::Component, &format!("--bearer-token-env TOKEN {URL}"));
    assert_eq!(options.headers, [pair("Authorization", "Bearer s3cret")]);
    for var in ["EMPTY", "NOPE"] {
        let error = refusal(Shell::Component, &format!("--bearer-token-env {var} {URL}"));
        assert!(error.contains(&format!("--env {var}")), "{error}");
    }
    let error = refusal(Shell::Native, &format!("--bearer-token-env BROKEN {URL}"));
    assert!(error.contains("Authorization") && !error.contains("a\nb"), "{error}");
}

#[test]
fn the_command_line_wins_over_the_variable_and_the_variable_over_files() {
    let env = |name: &str| (name == "MCP_PROXY_HEADERS").then(|| "A: env\n\nB=env\nB=env2".to_owned());
    let args = ["--header=a:cli", URL].map(str::to_owned);
    let Ok(Command::Run(mut options)) = parse(Shell::Native, args, &env) else {
        panic!("must run");
    };
    options.add_header_file("# note\nB: file\nC: file\n", &env).unwrap();
    let expected = [pair("a", "cli"), pair("B", "env"), pair("B", "env2"), pair("C", "file")];
    assert_eq!(options.headers, expected);
}

#[test]
fn usage_errors_name_the_cause_and_the_remedy() {
    let cases = [
        ("", "no URL was given"),
        ("https://a/ https://b/", "more than one URL"),
        ("example.com/mcp", "write it as https://example.com/mcp"),
        ("ftp://a/b", "use http or https"),
        ("https://user:pw@a/", "--header"),
        ("https://a:99999/", "port 99999 is not a number between 1 and 65535"),
        ("http://[::1]:65536/", "port 65536 is not a number between 1 and 65535"),
        ("http://a:0/", "port 0 is not a number between 1 and 65535"),
        ("http://a:+1/", "port +1 is not a number between 1 and 65535"),
        ("http://a:port/", "port port is not a number between 1 and 65535"),
        ("http://a:/", "not a URL"),
        ("-", "not a"),
        ("--heder x:y https://a/", "did you mean --header?"),
        ("--zzzzzzzzzz https://a/", "see --help"),
        ("https://a/ --retries", "write --retries N"),
        ("--retries --debug https://a/", "write --retries N"),
        ("--retries= https://a/", "write --retries N"),
        ("--retries many https://a/", "expected a number"),
        ("--transport tcp https://a/", "auto, streamable-http or sse"),
        ("--transport sse --era modern https://a/", "--transport sse and --era modern exclude each other"),
        ("--connect-timeout 0 https://a/", "above zero"),
        ("--drain-timeout 5x https://a/", "30s, 500ms or 2m"),
        ("--max-message-bytes 5TB https://a/", "from 1KiB to 1GiB"),
        ("--max-message-bytes 5 https://a/", "from 1KiB to 1GiB"),
        ("--debug=1 https://a/", "takes no value"),
        ("--client-cert c.pem https://a/", "--client-key"),
        ("--client-key c.pem https://a/", "--client-cert"),
        ("--allow-host a*b https://a/", "write HOST or HOST:PORT"),
        ("--allow-host a:b https://a/", "write HOST or HOST:PORT"),
        ("--allow-host a:99999 https://a/", "write HOST or HOST:PORT"),
        ("-H authorization:x --bearer-token-env TOKEN https://a/", "given twice"),
    ];
    for (line, expected) in cases {
        let error = refusal(Shell::Native, line);
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains('\n') && !error.contains("pw"), "{line}: {error}");
    }
}

#[test]
fn what_only_a_host_can_do_is_refused_in_the_component() {
    let options =
        ["--ca-cert", "--client-cert", "--allow-host", "--header-file", "--component", "--record", "--oauth-scope"];
    for option in options {
        let error = refusal(Shell::Component, &format!("{option} x {URL}"));
        assert!(error.contains("only the native mcp-proxy"), "{error}");
    }
    let error = header(Shell::Component, "Host:other").unwrap_err();
    assert!(error.contains("only the native mcp-proxy"), "{error}");
}

#[test]
fn host_options_are_collected() {
    let line = "--ca-cert a --ca-cert b --client-cert c --client-key d --header-file e \
                --component f --allow-host B.example --allow-host [::1]:8080";
    let host = run(Shell::Native, &format!("{line} {URL}")).host;
    assert_eq!(host.ca_certs.len(), 2);
    assert!(host.client_identity.is_some() && host.component.is_some());
    let allowed = |host: &str, port| AllowedHost { host: host.to_owned(), port };
    assert_eq!(host.allow_hosts, [allowed("b.example", None), allowed("[::1]", Some(8080))]);
}

#[test]
fn urls_are_passed_on_without_their_fragment() {
    let cases = [
        ("https://example.com", "https://example.com/"),
        ("HTTP://127.0.0.1:8080/mcp?a=b#top", "http://127.0.0.1:8080/mcp?a=b"),
        ("http://[::1]:80/mcp", "http://[::1]:80/mcp"),
        ("http://a:65535/mcp", "http://a:65535/mcp"),
        ("-- https://a/b", "https://a/b"),
    ];
    for (text, url) in cases {
        assert_eq!(run(Shell::Component, text).url, url);
    }
}

#[test]
fn the_component_reads_its_arguments_as_the_host_meant_them() {
    let line = "--transport sse --connect-timeout 1500ms --request-timeout 0 --retries 0 -v \
                --max-message-bytes 2k --drain-timeout 0";
    let native = run(Shell::Native, &format!("{line} -H A:secret --ca-cert x {URL}"));
    let args = native.guest_args();
    assert!(!args.join(" ").contains("secret") && !args.join(" ").contains("--ca-cert"));
    let guest = run(Shell::Component, &args.join(" "));
    assert_eq!(guest, run(Shell::Component, &format!("{line} {URL}")));
}

#[test]
fn a_recording_is_made_by_the_component_and_kept_by_the_host() {
    let native = run(Shell::Native, &format!("--record run.log {URL}"));
    assert_eq!(native.host.record, Some("run.log".into()));
    let args = native.guest_args().join(" ");
    assert!(!args.contains("run.log"));
    assert!(run(Shell::Component, &args).record);
    assert!(!native.record && !run(Shell::Component, URL).record);
    let error = refusal(Shell::Native, &format!("--record-to-stderr {URL}"));
    assert!(error.contains("unknown option"), "{error}");
}

#[test]
fn replay_takes_a_recording_and_few_options() {
    let replay = |shell, line: &str| match read(shell, line) {
        Ok(Command::Replay(replay)) => replay,
        other => panic!("{line}: {other:?}"),
    };
    let native = replay(Shell::Native, "replay -v --component c.wasm run.log");
    let expected = Replay { file: Some("run.log".into()), component: Some("c.wasm".into()), debug: true };
    assert_eq!(native, expected);
    let guest = replay(Shell::Component, &native.guest_args().join(" "));
    assert_eq!(guest, Replay { file: None, component: None, debug: true });
    assert!(matches!(read(Shell::Component, "replay --help"), Ok(Command::Print(_))));
    let cases = [
        (Shell::Native, "replay", "write mcp-proxy replay FILE"),
        (Shell::Native, "replay a b", "more than one recording"),
        (Shell::Native, "replay --retries 3 a", "does nothing in `mcp-proxy replay`"),
        (Shell::Native, "replay --heder a", "did you mean --header?"),
        (Shell::Native, "replay --debug=1 a", "takes no value"),
        (Shell::Component, "replay a", "on stdin"),
        (Shell::Component, "replay --component a", "only the native mcp-proxy"),
        (Shell::Native, "--debug replay a", "write mcp-proxy replay …"),
    ];
    for (shell, line, expected) in cases {
        let error = refusal(shell, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn the_component_prints_its_help_and_the_host_is_asked_for_it() {
    let Ok(Command::Print(text)) = read(Shell::Component, "--help") else { panic!("no text") };
    assert!(text.contains("--header NAME:VALUE") && !text.contains("--ca-cert") && !text.contains("--record-"));
    for shell in [Shell::Component, Shell::Native] {
        assert!(matches!(read(shell, "--version"), Ok(Command::Print(text)) if text.starts_with("mcp-proxy ")));
    }
    let cases = [
        ("--help", ""),
        ("https://a/ --retries many -h", ""),
        ("help", ""),
        ("help login", "login"),
        ("login --help", "login"),
        ("replay -h", "replay"),
        ("auth --help", "auth status"),
        ("auth status -h", "auth status"),
        ("help auth", "auth status"),
    ];
    for (line, name) in cases {
        let command = read(Shell::Native, line);
        assert!(matches!(&command, Ok(Command::Help(spec)) if spec.name == name), "{line}: {command:?}");
    }
}

#[test]
fn the_options_for_the_login_are_collected() {
    let auth = |line: &str| run(Shell::Native, &format!("{line} {URL}")).host.auth;
    assert_eq!(auth(""), AuthOptions::default());
    let browser = "--oauth-grant browser --no-browser --oauth-client-metadata https://a.example/client.json \
                   --oauth-scope a:b --oauth-callback-port 3334 --token-store file";
    let expected = AuthOptions {
        grant: Grant::Browser,
        browser: Browser::Print,
        client_metadata: Some("https://a.example/client.json".to_owned()),
        scope: Some("a:b".to_owned()),
        callback_port: Some(3334),
        store: TokenStore::File,
        ..AuthOptions::default()
    };
    assert_eq!(auth(browser), expected);
    let headless = "--oauth-grant client-credentials --oauth-client-id me";
    let expected = AuthOptions {
        grant: Grant::ClientCredentials,
        client_id: Some("me".to_owned()),
        client_secret: Some("s3cret".to_owned()),
        ..AuthOptions::default()
    };
    assert_eq!(auth(&format!("{headless} --oauth-client-secret-env TOKEN")), expected);
    let expected = AuthOptions { client_secret: None, key: Some("key.pem".into()), ..expected };
    assert_eq!(auth(&format!("{headless} --oauth-key key.pem")), expected);
}

#[test]
fn blanks_separate_scopes_and_the_words_of_a_command() {
    let args = ["--oauth-scope", " read  write ", "--browser-command", "sh -c  open", URL].map(str::to_owned);
    let Ok(Command::Run(options)) = parse(Shell::Native, args, &variables) else { panic!("must run") };
    assert_eq!(options.host.auth.scope.as_deref(), Some("read write"));
    assert_eq!(options.host.auth.browser, Browser::Command(["sh", "-c", "open"].map(str::to_owned).to_vec()));
}

#[test]
fn a_login_that_cannot_work_is_a_usage_error() {
    let metadata = "expected a URL like https://host/client.json";
    let cases = [
        ("--oauth-grant password", "auto, browser, device, client-credentials or off"),
        ("--token-store memory", "auto, keychain or file"),
        ("--no-browser --browser-command x", "exclude each other"),
        ("--browser-command x --no-browser", "exclude each other"),
        ("--no-browser=1", "takes no value"),
        ("--oauth-client-secret-env TOKEN", "--oauth-client-id too"),
        ("--oauth-client-id a --oauth-client-secret-env NOPE", "NOPE is not set or empty"),
        ("--oauth-client-id a --oauth-client-secret-env EMPTY", "EMPTY is not set or empty"),
        ("--oauth-client-metadata http://a.example/client.json", metadata),
        ("--oauth-client-metadata https://a.example", metadata),
        ("--oauth-client-metadata https://a.example/c#d", metadata),
        ("--oauth-client-metadata https://user:hidden@a.example/c", metadata),
        ("--oauth-client-metadata client.json", metadata),
        ("--oauth-client-metadata https://a.example/c --oauth-client-id a", "exclude each other"),
        ("--oauth-key k", "--oauth-client-id and --oauth-grant client-credentials"),
        ("--oauth-key k --oauth-client-id a", "--oauth-grant client-credentials"),
        ("--oauth-key k --oauth-grant client-credentials", "--oauth-client-id"),
        ("--oauth-grant client-credentials", "--oauth-client-secret-env or --oauth-key"),
        ("--oauth-grant client-credentials --oauth-client-id a", "--oauth-client-secret-env or --oauth-key"),
        (
            "--oauth-key k --oauth-client-id a --oauth-grant client-credentials --oauth-client-secret-env TOKEN",
            "--oauth-key and --oauth-client-secret-env exclude each other",
        ),
        ("--oauth-scope a\"b", "scopes separated by blanks"),
        ("--oauth-callback-port 0", "between 1 and 65535"),
        ("--oauth-callback-port 65536", "between 1 and 65535"),
        ("--oauth-grant device -H authorization:hidden", "your own Authorization header"),
        ("--oauth-grant browser --bearer-token-env TOKEN", "your own Authorization header"),
    ];
    for (line, expected) in cases {
        let error = refusal(Shell::Native, &format!("{line} {URL}"));
        assert!(error.contains(expected), "{line}: {error}");
        assert!(!error.contains("hidden") && !error.contains("s3cret"), "{line}: {error}");
    }
}

#[test]
fn an_authorization_header_switches_the_login_off_wherever_it_comes_from() {
    let mut options = run(Shell::Native, URL);
    assert!(!options.own_authorization());
    options.add_header_file("authorization: x", &variables).unwrap();
    assert!(options.own_authorization());
    let mut device = run(Shell::Native, &format!("--oauth-grant device {URL}"));
    let error = device.add_header_file("Authorization: x", &variables).unwrap_err().to_string();
    assert!(error.contains("your own Authorization header"), "{error}");
    let env = |name: &str| (name == "MCP_PROXY_HEADERS").then(|| "Authorization: x".to_owned());
    let args = ["--oauth-grant=device", URL].map(str::to_owned);
    assert!(parse(Shell::Native, args, &env).unwrap_err().to_string().contains("your own Authorization header"));
}

#[test]
fn commands_are_read_with_the_options_that_they_accept() {
    let options = |line: &str| match read(Shell::Native, line) {
        Ok(Command::Login(options) | Command::Logout(options)) => options,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(options("login https://a/ --retries 7 --no-browser").retries, 7);
    assert_eq!(options("logout --token-store file https://a/").host.auth.store, TokenStore::File);
    assert!(matches!(read(Shell::Native, "auth status"), Ok(Command::AuthStatus { json: false })));
    let token = read(Shell::Native, "auth token https://a/mcp");
    assert!(matches!(token, Ok(Command::AuthToken(options)) if options.url == "https://a/mcp"));
    assert!(matches!(read(Shell::Native, "auth status --json"), Ok(Command::AuthStatus { json: true })));
    let Ok(Command::Doctor(doctor)) = read(Shell::Native, "doctor --deep https://a/ -H A:b") else { panic!() };
    assert!(doctor.deep && !doctor.json && doctor.options.headers == [pair("A", "b")]);
    for shell in super::SHELLS {
        let command = read(Shell::Native, &format!("completions {shell}"));
        assert!(matches!(command, Ok(Command::Completions(given)) if given == shell));
    }
    assert!(matches!(read(Shell::Native, "man"), Ok(Command::Man(spec)) if spec.name.is_empty()));
    assert!(matches!(read(Shell::Native, "man auth"), Ok(Command::Man(spec)) if spec.name == "auth status"));
}

#[test]
fn a_wrong_command_is_answered_with_the_right_one() {
    let cases = [
        ("logn https://a/", "did you mean login?"),
        ("completion zsh", "did you mean completions?"),
        ("loginn", "did you mean login?"),
        ("localhost", "write it as https://localhost"),
        ("cat", "write it as https://cat"),
        ("login", "no URL was given"),
        ("login https://a/ https://b/", "more than one URL"),
        ("login https://a/ --oauth-grant off", "exclude each other"),
        ("auth", "write mcp-proxy auth status"),
        ("auth list", "or mcp-proxy auth token"),
        ("auth token", "no URL was given"),
        ("auth status https://a/", "takes no arguments"),
        ("auth status --retries 3", "does nothing in `mcp-proxy auth status`"),
        ("--json https://a/", "does nothing in `mcp-proxy URL`"),
        ("doctor --jsn https://a/", "did you mean --json?"),
        ("completions", "bash, elvish, fish, powershell or zsh"),
        ("completions tcsh", "bash, elvish, fish, powershell, zsh"),
        ("man nothing", "no command"),
        ("help login logout", "more than one command"),
    ];
    for (line, expected) in cases {
        let error = refusal(Shell::Native, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
    for name in ["login", "logout", "auth", "doctor", "config", "completions", "man", "help"] {
        let error = refusal(Shell::Component, &format!("{name} {URL}"));
        assert!(error.contains("only the native mcp-proxy can do it"), "{error}");
    }
}

#[test]
fn the_entry_for_a_client_has_the_options_as_they_were_given() {
    let line = "config zed --name docs --header=A:${KEY}/$${B} --bearer-token-env NOPE \
                --ca-cert ca.pem -v --write --yes https://mcp.example.com/mcp";
    let Err(error) = read(Shell::Native, &line.replace("A:", "Authorization:")) else { panic!("two tokens") };
    assert!(error.to_string().contains("given twice"), "{error}");
    let Ok(Command::Config(config)) = read(Shell::Native, line) else { panic!("{line}") };
    let argument = |name, value: &str, file| Argument { name, value: value.to_owned(), file };
    let expected = ClientConfig {
        client: ClientName::Zed,
        url: "https://mcp.example.com/mcp".to_owned(),
        name: "docs".to_owned(),
        write: true,
        yes: true,
        force: false,
        args: vec![
            argument("--header", "A:${KEY}/$${B}", false),
            argument("--bearer-token-env", "NOPE", false),
            argument("--ca-cert", "ca.pem", true),
            argument("--debug", "", false),
        ],
        variables: vec!["KEY".to_owned(), "NOPE".to_owned()],
    };
    assert_eq!(config, expected);
}

#[test]
fn a_server_is_named_after_its_host() {
    let cases = [
        ("https://mcp.example.com/mcp", "mcp-example-com"),
        ("http://localhost:8080/", "localhost"),
        ("http://[::1]:8080/", "--1"),
        ("https://a_b.example", "a_b-example"),
    ];
    for (url, name) in cases {
        let Ok(Command::Config(config)) = read(Shell::Native, &format!("config generic {url}")) else {
            panic!("{url}")
        };
        assert_eq!(config.name, name);
    }
}

#[test]
fn an_entry_that_would_not_start_is_a_usage_error() {
    let cases = [
        ("config", "no client was given"),
        ("config zed", "no URL was given"),
        ("config https://a/", "no URL was given"),
        ("config emacs https://a/", "claude-desktop, claude-code, vscode, cursor, zed, generic"),
        ("config zed https://a/ https://b/", "more than one URL"),
        ("config zed https://a/ --retries many", "expected a number"),
        ("config zed https://a/ --name a.b", "letters, digits, - and _"),
        ("config zed https://a/ --yes", "--write"),
        ("config generic https://a/ --write", "generic has no file"),
        ("config zed a.example", "https://a.example"),
    ];
    for (line, expected) in cases {
        let error = refusal(Shell::Native, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn a_debug_print_shows_no_header_value() {
    let options = run(Shell::Native, &format!("-H A:s3cret {URL}"));
    assert!(!format!("{options:?}").contains("s3cret"));
    let options = run(Shell::Native, &format!("--oauth-client-id a --oauth-client-secret-env TOKEN {URL}"));
    let shown = format!("{options:?} {:?}", options.host.auth);
    assert!(shown.contains("***") && !shown.contains("s3cret"), "{shown}");
}

#[test]
fn timeouts_keep_alive_and_quirks_reach_the_component_as_they_were_given() {
    let words = "--first-byte-timeout 5s --endpoint-timeout 300ms --total-timeout 1h --keep-alive 25 \
                 --quirk cookies=off --quirk=null-id=on https://h/mcp";
    let native = run(Shell::Native, words);
    assert_eq!(native.keep_alive, KeepAlive::Every(Duration::from_secs(25)));
    assert_eq!(native.quirks, [(Quirk::Cookies, false), (Quirk::NullId, true)]);
    let Ok(Command::Run(component)) = parse(Shell::Component, native.guest_args(), &|_| None) else { panic!() };
    assert_eq!((component.keep_alive, &component.quirks), (native.keep_alive, &native.quirks));
    let times = |options: &Options| (options.first_byte_timeout, options.endpoint_timeout, options.total_timeout);
    assert_eq!(times(&component), times(&native));
    assert_eq!(times(&native).1, Duration::from_millis(300));
}

#[test]
fn a_quirk_that_is_not_known_is_answered_with_those_that_are() {
    for text in ["cookie=off", "cookies", "cookies=maybe"] {
        let error = refusal(Shell::Native, &format!("--quirk {text} {URL}"));
        assert!(error.contains("stripped-prefix"), "{error}");
    }
}
