//! What a legacy client hears from a modern server outside its requests: one
//! `subscriptions/listen` of the proxy's own, reopened when it is lost.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::modern::*;
use common::*;
use mcp_proxy_core::{CallError, CallId, Why};
use serde_json::{Value, json};

const CHANGED: &str = "notifications/tools/list_changed";

fn subscribe(bench: &mut Bench, id: &str, method: &str, uri: &str) {
    bench.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"resources/{method}","params":{{"uri":"{uri}"}}}}"#));
}

fn wanted(bench: &Bench, listen: CallId) -> Value {
    bench.rpc(listen)["params"]["notifications"].clone()
}

/// A machine that listens for this resource, with the call.
fn subscribed() -> (Bench, CallId) {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    acknowledged(&mut bench, listen);
    bench.wrote(&result("1"));
    bench.cancelled(old);
    bench.silent();
    (bench, listen)
}

/// What changed may have been missed.
#[track_caller]
fn reopened(bench: &mut Bench) -> CallId {
    let listen = bench.called("POST subscriptions/listen ours");
    acknowledged(bench, listen);
    bench.wrote(&note(CHANGED));
    bench.silent();
    listen
}

#[test]
fn a_server_that_announces_changes_is_listened_to() {
    let mut bench = open_with(INITIALIZE, CAPABILITIES);
    let listen = bench.called("POST subscriptions/listen ours");
    assert_eq!(wanted(&bench, listen), json!({ "toolsListChanged": true }));
    assert_eq!(bench.header(listen, "mcp-method"), Some("subscriptions/listen"));
    assert!(bench.rpc(listen)["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].is_string());
    acknowledged(&mut bench, listen);
    bench.wait(10_000_000);
    bench.silent();
}

#[test]
fn a_server_that_announces_nothing_is_not() {
    let mut bench = open();
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn changes_are_delivered_without_their_tag() {
    let (mut bench, listen) = listening();
    announced(&mut bench, listen, CHANGED, json!({}));
    let line = bench.line();
    let heard: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((&heard["method"], heard.get("id")), (&json!(CHANGED), None));
    assert!(!line.contains("subscriptionId"), "{line}");
    announced(&mut bench, listen, "notifications/prompts/list_changed", json!({}));
    announced(&mut bench, listen, "notifications/resources/updated", json!({ "uri": "a:1" }));
    announced(&mut bench, listen, "notifications/x", json!({}));
    bench.silent();
}

#[test]
fn a_subscription_opens_the_new_stream_before_it_closes_the_old_one() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    assert_eq!(wanted(&bench, listen), json!({ "toolsListChanged": true, "resourceSubscriptions": ["a:1"] }));
    bench.silent();
    announced(&mut bench, old, CHANGED, json!({}));
    bench.line();
    acknowledged(&mut bench, listen);
    bench.wrote(&result("1"));
    bench.cancelled(old);
    bench.silent();
    announced(&mut bench, listen, "notifications/resources/updated", json!({ "uri": "a:1" }));
    assert!(bench.line().contains(r#""uri":"a:1""#));
    subscribe(&mut bench, "2", "unsubscribe", "a:1");
    bench.wrote(&result("2"));
    let next = bench.called("POST subscriptions/listen ours");
    assert_eq!(wanted(&bench, next), json!({ "toolsListChanged": true }));
    bench.silent();
    acknowledged(&mut bench, next);
    bench.cancelled(listen);
    announced(&mut bench, next, "notifications/resources/updated", json!({ "uri": "a:1" }));
    bench.silent();
}

#[test]
fn a_resource_that_is_already_subscribed_needs_no_new_stream() {
    let (mut bench, _) = subscribed();
    subscribe(&mut bench, "2", "subscribe", "a:1");
    bench.wrote(&result("2"));
    bench.silent();
}

#[test]
fn subscriptions_made_during_an_opening_share_the_next_stream() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let first = bench.called("POST subscriptions/listen ours");
    subscribe(&mut bench, "2", "subscribe", "b:2");
    subscribe(&mut bench, "3", "subscribe", "c:3");
    bench.silent();
    acknowledged(&mut bench, first);
    bench.wrote(&result("1"));
    bench.cancelled(old);
    let second = bench.called("POST subscriptions/listen ours");
    assert_eq!(wanted(&bench, second)["resourceSubscriptions"], json!(["a:1", "b:2", "c:3"]));
    bench.silent();
    acknowledged(&mut bench, second);
    bench.wrote(&result("2"));
    bench.wrote(&result("3"));
    bench.cancelled(first);
    bench.silent();
}

#[test]
fn a_resource_that_the_server_does_not_announce_is_an_error() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    acknowledged_as(&mut bench, listen, &json!({ "toolsListChanged": true }));
    assert_eq!(bench.error("1")["code"], -32602);
    bench.cancelled(old);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_server_without_subscriptions_is_not_asked() {
    let mut bench = open();
    for method in ["subscribe", "unsubscribe"] {
        subscribe(&mut bench, "1", method, "a:1");
        assert_eq!(bench.error("1")["code"], -32601, "{method}");
    }
    let (mut bench, _) = listening();
    bench.say(&request("2", "resources/subscribe"));
    assert_eq!(bench.error("2")["code"], -32602);
    bench.silent();
}

#[test]
fn a_lost_stream_is_reopened_with_growing_waits_and_changes_are_announced() {
    let losses: [fn(&mut Bench, CallId); 3] = [
        |bench, listen| bench.end(listen),
        |bench, listen| bench.fail(listen, CallError::Reset),
        |bench, listen| {
            let id = bench.rpc_id(listen);
            let meta = format!(r#"{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
            bench.event(
                listen,
                &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"resultType":"complete","_meta":{meta}}}}}"#),
            );
            bench.end(listen);
        },
    ];
    for loss in losses {
        let (mut bench, mut listen) = listening();
        for least in [1000, 2000, 4000] {
            loss(&mut bench, listen);
            bench.silent();
            let (waited, why) = bench.wait_for_deadline();
            assert!((least..=least * 11 / 10).contains(&waited), "{waited}");
            assert_eq!(why, Why::Reopen);
            listen = reopened(&mut bench);
        }
        announced(&mut bench, listen, CHANGED, json!({}));
        bench.line();
        loss(&mut bench, listen);
        assert!((1000..=1100).contains(&bench.wait_for_deadline().0));
        reopened(&mut bench);
    }
}

#[test]
fn a_stream_that_is_cut_in_silence_again_and_again_is_reopened_for_ever() {
    let (mut bench, mut listen) = listening();
    for _ in 0..50 {
        bench.wait(60_000);
        bench.end(listen);
        bench.wait_for_deadline();
        listen = reopened(&mut bench);
    }
}

#[test]
fn a_stream_that_the_server_refuses_is_not_tried_again() {
    let mut bench = open_with(INITIALIZE, CAPABILITIES);
    let listen = bench.called("POST subscriptions/listen ours");
    bench.head(listen, 404, &[JSON]);
    let id = bench.rpc_id(listen);
    bench.body(listen, &format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"m"}}}}"#));
    bench.wait(1_000_000);
    bench.silent();
    bench.calls("1");
    bench.silent();
}

#[test]
fn a_stream_that_a_busy_server_refuses_is_tried_again() {
    for status in [408, 429, 500, 503] {
        let mut bench = open_with(INITIALIZE, CAPABILITIES);
        let listen = bench.called("POST subscriptions/listen ours");
        bench.status(listen, status, "");
        bench.wait(1_200);
        reopened(&mut bench);
    }
}

#[test]
fn a_subscription_whose_stream_cannot_be_opened_is_an_error_and_the_old_stream_stays() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    bench.status(listen, 500, "");
    bench.error("1");
    bench.wait(100_000);
    bench.silent();
    announced(&mut bench, old, CHANGED, json!({}));
    bench.line();
    bench.silent();
}

#[test]
fn an_old_stream_that_ends_while_the_new_one_opens_leaves_no_stuck_deadline() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    bench.sse(listen);
    bench.end(old);
    let waits = (0..3).map_while(|_| bench.deadline().map(|_| bench.wait_for_deadline().0)).collect::<Vec<_>>();
    assert!(!waits.iter().skip(1).any(|wait| *wait == 0), "{waits:?}");
}

#[test]
fn a_subscription_that_the_server_never_acknowledges_is_answered() {
    for begins in [false, true] {
        let (mut bench, _) = listening();
        subscribe(&mut bench, "1", "subscribe", "a:1");
        let listen = bench.called("POST subscriptions/listen ours");
        if begins {
            bench.sse(listen);
        }
        bench.wait(1_000_000);
        let said = std::iter::from_fn(|| bench.any()).collect::<Vec<_>>();
        let errors = said.iter().filter(|said| said.contains(r#""id":1,"error""#)).count();
        assert_eq!(errors, 1, "{said:?}");
    }
}

#[test]
fn a_subscription_that_is_cancelled_gets_no_answer() {
    let (mut bench, old) = listening();
    subscribe(&mut bench, "1", "subscribe", "a:1");
    let listen = bench.called("POST subscriptions/listen ours");
    bench.say(&cancel("1"));
    bench.silent();
    acknowledged(&mut bench, listen);
    bench.cancelled(old);
    bench.silent();
}
