//! The command line as tables: what the parser accepts, what it refuses and why, and what
//! the host passes on.

use std::time::Duration;

use super::{AllowedHost, Command, KeepAlive, Options, Quirk, Replay, Shell, Transport, UsageError, parse};

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
    let options = ["--ca-cert", "--client-cert", "--allow-host", "--header-file", "--component", "--record"];
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
    assert!(matches!(read(Shell::Native, "replay --help"), Ok(Command::Print(_))));
    let cases = [
        (Shell::Native, "replay", "write mcp-proxy replay FILE"),
        (Shell::Native, "replay a b", "more than one recording"),
        (Shell::Native, "replay --retries 3 a", "does nothing in a replay"),
        (Shell::Native, "replay --heder a", "did you mean --header?"),
        (Shell::Native, "replay --debug=1 a", "takes no value"),
        (Shell::Component, "replay a", "on stdin"),
        (Shell::Component, "replay --component a", "does nothing in a replay"),
        (Shell::Native, "--debug replay a", "not an absolute URL"),
    ];
    for (shell, line, expected) in cases {
        let error = refusal(shell, line);
        assert!(error.contains(expected), "{line}: {error}");
    }
}

#[test]
fn help_lists_what_the_shell_can_do() {
    let text = |shell| match read(shell, "--help") {
        Ok(Command::Print(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(text(Shell::Native).contains("--ca-cert"));
    assert!(!text(Shell::Component).contains("--ca-cert") && !text(Shell::Component).contains("--record-"));
    assert!(text(Shell::Component).contains("--header NAME:VALUE"));
    assert!(matches!(read(Shell::Native, "--version"), Ok(Command::Print(text)) if text.starts_with("mcp-proxy ")));
}

#[test]
fn a_debug_print_shows_no_header_value() {
    let options = run(Shell::Native, &format!("-H A:s3cret {URL}"));
    assert!(!format!("{options:?}").contains("s3cret"));
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
