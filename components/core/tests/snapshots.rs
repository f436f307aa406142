//! The session snapshot: when the machine says that it has changed, and what is
//! in it. That another machine goes on with it is shown in `http_front`.

mod common;

use common::{Bench, INITIALIZE};
use mcp_proxy_core::{Input, Output, Proxy, Side, Snapshot, Time};

fn request(id: u32, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// The client sets something, and the server takes it.
fn set(bench: &mut Bench, id: u32, method: &str, params: &str) -> String {
    let line = request(id, method, params);
    bench.say(&line);
    let call = bench.called(&format!("POST {method} {id}"));
    let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
    bench.head(call, 200, &[("content-type", "application/json")]);
    bench.body(call, &answer);
    bench.wrote(&answer);
    line
}

#[test]
fn a_snapshot_follows_every_change_and_nothing_else() {
    let mut bench = Bench::open();
    let first = Snapshot { initialize: INITIALIZE.into(), version: "2025-11-25".to_owned(), settings: Vec::new() };
    assert_eq!(std::mem::take(&mut bench.snapshots), std::slice::from_ref(&first));

    let level = set(&mut bench, 1, "logging/setLevel", r#"{"level":"info"}"#);
    assert_eq!(bench.snapshots.pop(), Some(Snapshot { settings: vec![level.clone().into()], ..first.clone() }));
    let subscription = set(&mut bench, 2, "resources/subscribe", r#"{"uri":"a:1"}"#);
    let both = Snapshot { settings: vec![subscription.into(), level.clone().into()], ..first.clone() };
    assert_eq!(bench.snapshots.pop(), Some(both));

    set(&mut bench, 3, "tools/call", r#"{"name":"x"}"#);
    set(&mut bench, 4, "resources/unsubscribe", r#"{"uri":"a:2"}"#);
    assert_eq!(bench.snapshots, []);
    set(&mut bench, 5, "resources/unsubscribe", r#"{"uri":"a:1"}"#);
    assert_eq!(bench.snapshots, [Snapshot { settings: vec![level.into()], ..first }]);
}

#[test]
fn a_setting_that_the_server_refuses_is_not_in_the_snapshot() {
    let mut bench = Bench::open();
    bench.snapshots.clear();
    bench.say(&request(1, "logging/setLevel", r#"{"level":"loud"}"#));
    let call = bench.called("POST logging/setLevel 1");
    let error = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no such level"}}"#;
    bench.head(call, 200, &[("content-type", "application/json")]);
    bench.body(call, error);
    bench.wrote(error);
    assert_eq!(bench.snapshots, []);
}

#[test]
fn a_session_that_is_replaced_keeps_its_snapshot() {
    let mut bench = Bench::open();
    bench.snapshots.clear();
    bench.say(&request(1, "tools/list", "{}"));
    let call = bench.called("POST tools/list 1");
    bench.head(call, 404, &[]);
    bench.cancelled(call);
    let initialize = bench.called("POST initialize ours");
    bench.reopened(initialize, "s2");
    assert_eq!(bench.snapshots, []);
}

#[test]
fn a_snapshot_comes_before_the_answer_that_it_belongs_to() {
    let mut bench = Bench::new();
    bench.say(INITIALIZE);
    let call = bench.called("POST initialize 0");
    bench.head(call, 200, &[("content-type", "application/json")]);
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25"}}"#;
    bench.proxy.handle(Time(0), Input::Chunk(call, answer.as_bytes()));
    bench.proxy.handle(Time(0), Input::End(call));
    let said: Vec<Output> = std::iter::from_fn(|| bench.proxy.poll()).collect();
    let snapshot = said.iter().position(|output| matches!(output, Output::Snapshot(_)));
    let answer = said.iter().position(|output| matches!(output, Output::Write(Side::Client, _)));
    assert!(snapshot.is_some() && snapshot < answer, "{said:?}");
}

#[test]
fn snapshots_share_what_they_have_in_common() {
    let mut bench = Bench::open();
    set(&mut bench, 1, "resources/subscribe", r#"{"uri":"a:1"}"#);
    set(&mut bench, 2, "resources/subscribe", r#"{"uri":"a:2"}"#);
    let [_, one, other] = bench.snapshots.as_slice() else { panic!("{:?}", bench.snapshots) };
    assert_eq!(one.initialize.as_ptr(), other.initialize.as_ptr());
    assert_eq!(one.settings[0].as_ptr(), other.settings[0].as_ptr());
}

#[test]
fn a_machine_that_goes_on_with_a_session_says_so_at_once() {
    let known = Snapshot { initialize: INITIALIZE.into(), version: "2025-11-25".to_owned(), settings: Vec::new() };
    let mut config = mcp_proxy_core::Config::new(common::URL).unwrap();
    config.era = mcp_proxy_core::Era::Legacy;
    let mut proxy = Proxy::new(&config, 1, Time(0));
    proxy.resume(&known);
    assert!(matches!(proxy.poll(), Some(Output::Snapshot(said)) if said == known));
}
