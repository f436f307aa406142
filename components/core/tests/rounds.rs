//! A modern server asks a legacy client: its questions become requests, and the call goes
//! again with the answers, until there is a result or a limit.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod common;

use common::modern::*;
use common::*;
use mcp_proxy_core::{CallError, CallId, Exit, Note, Why};
use serde_json::{Value, json};

/// A call whose server asks this; the machine has asked its client.
fn asked(members: &str) -> (Bench, CallId) {
    let (mut bench, call) = calling();
    let answer = asks(&bench, call, members);
    bench.json(call, &answer);
    (bench, call)
}

/// The text of the tool result with which a call fails.
#[track_caller]
fn failed_result(bench: &mut Bench, id: &str) -> String {
    let line = bench.line();
    let value: Value = serde_json::from_str(&line).unwrap();
    assert_eq!((value["id"].to_string(), &value["result"]["isError"]), (id.to_owned(), &json!(true)), "{line}");
    value["result"]["content"][0]["text"].as_str().unwrap().to_owned()
}

#[test]
fn two_questions_become_two_requests_and_the_call_goes_again_with_both_answers() {
    let (mut bench, call) = asked(TWO);
    let who = question(&mut bench, "elicitation/create");
    let place = question(&mut bench, "roots/list");
    assert_ne!(who, place);
    bench.silent();
    let parallel = bench.calls("2");
    reply(&mut bench, &place, r#"{"roots":[]}"#);
    bench.silent();
    reply(&mut bench, &who, r#"{"action":"accept","content":{"n":1.0}}"#);
    let again = bench.called("POST tools/call ours");
    bench.silent();
    let (first, second) = (bench.rpc(call), bench.rpc(again));
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["params"]["inputResponses"]["where"], json!({ "roots": [] }));
    assert!(bench.sent(again).contains(r#""requestState":"s\u00e9 \/ 1.0""#), "{}", bench.sent(again));
    assert!(bench.sent(again).contains(r#""content":{"n":1.0}"#), "{}", bench.sent(again));
    for member in ["name", "arguments", "_meta"] {
        assert_eq!(first["params"][member], second["params"][member], "{member}");
    }
    for header in ["mcp-protocol-version", "mcp-method", "mcp-name"] {
        assert_eq!(bench.header(call, header), bench.header(again, header), "{header}");
    }
    for member in ["inputResponses", "requestState"] {
        assert_eq!(bench.rpc(parallel)["params"].get(member), None);
    }
    bench.json(again, &complete(&bench, again, r#","content":[]"#));
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#);
    bench.wait(200_000);
    bench.silent();
}

#[test]
fn questions_on_an_event_stream_are_asked_too() {
    let (mut bench, call) = calling();
    bench.sse(call);
    bench.event(call, &asks(&bench, call, ONE));
    let id = question(&mut bench, "roots/list");
    bench.end(call);
    bench.silent();
    reply(&mut bench, &id, r#"{"roots":[]}"#);
    let again = bench.called("POST tools/call ours");
    bench.sse(again);
    bench.event(again, &complete(&bench, again, ""));
    bench.wrote(&result("1"));
    bench.end(again);
    bench.silent();
}

#[test]
fn a_round_forgets_the_answers_of_the_one_before() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    reply(&mut bench, &id, r#"{"roots":[]}"#);
    let second = bench.called("POST tools/call ours");
    bench.json(second, &asks(&bench, second, r#""inputRequests":{"who":{"method":"elicitation/create"}}"#));
    let id = question(&mut bench, "elicitation/create");
    reply(&mut bench, &id, r#"{"action":"decline"}"#);
    let third = bench.called("POST tools/call ours");
    let params = &bench.rpc(third)["params"];
    assert_eq!(params["inputResponses"], json!({ "who": { "action": "decline" } }));
    assert_eq!(params.get("requestState"), None);
    bench.json(third, &complete(&bench, third, ""));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn the_eleventh_round_fails() {
    let (mut bench, mut call) = calling();
    for _ in 0..10 {
        bench.json(call, &asks(&bench, call, ONE));
        let id = question(&mut bench, "roots/list");
        reply(&mut bench, &id, r#"{"roots":[]}"#);
        call = bench.called("POST tools/call ours");
    }
    bench.json(call, &asks(&bench, call, ONE));
    let error = bench.error("1");
    assert!(error["message"].as_str().unwrap().contains("10 times"), "{error}");
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn an_error_of_the_client_fails_the_call_in_its_words() {
    let (mut bench, _) = asked(TWO);
    let who = question(&mut bench, "elicitation/create");
    let place = question(&mut bench, "roots/list");
    bench.say(&format!(r#"{{"jsonrpc":"2.0","id":{who},"error":{{"code":-1,"message":"no thanks"}}}}"#));
    withdrawn(&mut bench, &place);
    assert!(failed_result(&mut bench, "1").contains("no thanks"));
    reply(&mut bench, &place, "{}");
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn an_error_of_the_client_fails_another_request_with_an_error() {
    let mut bench = able();
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"p"}}"#);
    let call = bench.called("POST prompts/get 1");
    bench.json(call, &asks(&bench, call, ONE));
    let id = question(&mut bench, "roots/list");
    bench.say(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-1,"message":"no thanks"}}}}"#));
    assert!(bench.error("1")["message"].as_str().unwrap().contains("no thanks"));
    bench.silent();
}

#[test]
fn a_call_that_is_cancelled_in_a_round_withdraws_its_questions() {
    let (mut bench, _) = asked(TWO);
    let who = question(&mut bench, "elicitation/create");
    let place = question(&mut bench, "roots/list");
    reply(&mut bench, &who, r#"{"action":"cancel"}"#);
    bench.say(&cancel("1"));
    withdrawn(&mut bench, &place);
    reply(&mut bench, &place, r#"{"roots":[]}"#);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_person_has_ten_minutes_for_a_round() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    bench.wait(599_999);
    bench.silent();
    assert_eq!(bench.wait_for_deadline(), (1, Why::Round));
    withdrawn(&mut bench, &id);
    assert!(failed_result(&mut bench, "1").contains("in time"));
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_state_alone_is_sent_again_after_a_pause() {
    let (mut bench, call) = asked(r#""requestState":"later""#);
    bench.silent();
    assert_eq!(bench.wait_for_deadline(), (250, Why::Round));
    let again = bench.called("POST tools/call ours");
    let params = &bench.rpc(again)["params"];
    assert_eq!((&params["requestState"], params.get("inputResponses")), (&json!("later"), None));
    assert_eq!(params["name"], bench.rpc(call)["params"]["name"]);
    bench.json(again, &complete(&bench, again, ""));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_server_that_only_pauses_is_given_up_too() {
    let (mut bench, mut call) = calling();
    for _ in 0..10 {
        bench.json(call, &asks(&bench, call, r#""requestState":"later""#));
        bench.wait(250);
        call = bench.called("POST tools/call ours");
    }
    bench.json(call, &asks(&bench, call, r#""requestState":"later""#));
    bench.error("1");
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_call_that_is_cancelled_in_a_pause_is_not_sent_again() {
    let (mut bench, _) = asked(r#""requestState":"later""#);
    bench.say(&cancel("1"));
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_client_that_leaves_in_a_round_fails_the_call() {
    let (mut bench, _) = asked(TWO);
    question(&mut bench, "elicitation/create");
    question(&mut bench, "roots/list");
    bench.eof();
    failed_result(&mut bench, "1");
    bench.exited(Exit::Drained);

    let (mut bench, call) = calling();
    bench.eof();
    bench.json(call, &asks(&bench, call, TWO));
    failed_result(&mut bench, "1");
    bench.exited(Exit::Drained);
}

#[test]
fn a_machine_that_stops_in_a_round_answers_the_call() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    bench.fact(mcp_proxy_core::Input::Stop);
    withdrawn(&mut bench, &id);
    bench.error("1");
    bench.exited(Exit::Drained);
}

#[test]
fn questions_that_the_client_did_not_declare_fail_the_call() {
    let mut bench = open();
    let call = bench.calls("1");
    bench.json(call, &asks(&bench, call, ONE));
    assert!(bench.error("1")["message"].as_str().unwrap().contains("declare"));
    bench.silent();
}

#[test]
fn questions_in_a_form_that_no_client_can_answer_fail_the_call() {
    let rows = [
        r#""inputRequests":{}"#,
        r#""inputRequests":{"a":{"method":"ping"}}"#,
        r#""inputRequests":[]"#,
        r#""requestState":7"#,
        r#""x":1"#,
    ];
    for members in rows {
        let (mut bench, _) = asked(members);
        bench.error("1");
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn an_answer_that_no_question_waits_for_is_dropped() {
    let (mut bench, _) = asked(TWO);
    let who = question(&mut bench, "elicitation/create");
    let place = question(&mut bench, "roots/list");
    reply(&mut bench, &who, r#"{"action":"accept"}"#);
    reply(&mut bench, &who, r#"{"action":"decline"}"#);
    reply(&mut bench, "\"other\"", "{}");
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::StrayAnswer)), 2);
    reply(&mut bench, &place, "{}");
    let again = bench.called("POST tools/call ours");
    assert_eq!(bench.rpc(again)["params"]["inputResponses"]["who"], json!({ "action": "accept" }));
    bench.silent();
}

#[test]
fn a_second_answer_of_the_server_in_a_round_changes_nothing() {
    let seconds: [fn(&Bench, CallId) -> String; 2] =
        [|bench, call| asks(bench, call, TWO), |bench, call| complete(bench, call, r#","content":[]"#)];
    for second in seconds {
        let (mut bench, call) = calling();
        bench.sse(call);
        bench.event(call, &asks(&bench, call, ONE));
        let id = question(&mut bench, "roots/list");
        bench.event(call, &second(&bench, call));
        bench.end(call);
        bench.silent();
        reply(&mut bench, &id, r#"{"roots":[]}"#);
        let again = bench.called("POST tools/call ours");
        assert_eq!(bench.rpc(again)["params"]["requestState"], "s");
        bench.json(again, &complete(&bench, again, ""));
        bench.wrote(&result("1"));
        bench.silent();
    }
}

#[test]
fn a_call_that_breaks_after_a_round_is_answered_and_not_sent_again() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    reply(&mut bench, &id, r#"{"roots":[]}"#);
    let again = bench.called("POST tools/call ours");
    bench.fail(again, CallError::Reset);
    bench.error_delivered("1", "maybe");
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_call_that_cannot_be_sent_again_was_still_delivered() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    reply(&mut bench, &id, r#"{"roots":[]}"#);
    let again = bench.called("POST tools/call ours");
    bench.fail(again, CallError::Denied);
    let error = bench.error_delivered("1", "yes");
    assert_eq!(error["data"]["retrySafe"], false, "{error}");
    bench.silent();
}

#[test]
fn the_total_time_of_a_request_includes_its_rounds() {
    let limited = || {
        let mut bench = Bench::with(|config| {
            auto(config);
            config.total_timeout = Some(std::time::Duration::from_secs(30));
        });
        bench.say(ABLE);
        let probe = bench.called("POST server/discover ours");
        discovered(&mut bench, probe, CAPABILITIES);
        bench.line();
        bench
    };
    let mut bench = limited();
    let call = bench.calls("1");
    bench.wait(10_000);
    bench.json(call, &asks(&bench, call, ONE));
    let id = question(&mut bench, "roots/list");
    assert_eq!(bench.wait_for_deadline(), (20_000, Why::Round));
    withdrawn(&mut bench, &id);
    let error = bench.error_delivered("1", "yes");
    assert_eq!(error["data"]["attempt"], 1, "{error}");
    bench.wait(1_000_000);
    bench.silent();

    let mut bench = limited();
    let call = bench.calls("1");
    bench.wait(10_000);
    bench.json(call, &asks(&bench, call, ONE));
    let id = question(&mut bench, "roots/list");
    bench.wait(10_000);
    reply(&mut bench, &id, "{}");
    let again = bench.called("POST tools/call ours");
    assert_eq!(bench.wait_for_deadline(), (10_000, Why::Total));
    bench.cancelled(again);
    bench.error_delivered("1", "maybe");

    let mut bench = limited();
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"a:1"}}"#);
    bench.called("POST subscriptions/listen ours");
    assert_eq!(bench.wait_for_deadline(), (30_000, Why::Total));
    bench.error_delivered("1", "no");
    bench.silent();
}

#[test]
fn other_calls_go_on_while_a_person_answers() {
    let (mut bench, _) = asked(ONE);
    let id = question(&mut bench, "roots/list");
    let other = bench.calls("2");
    bench.sse(other);
    bench.wait(590_000);
    bench.silent();
    bench.event(other, &complete(&bench, other, ""));
    bench.wrote(&result("2"));
    reply(&mut bench, &id, "{}");
    bench.called("POST tools/call ours");
    bench.silent();
}

#[test]
fn progress_after_a_round_must_exceed_what_the_client_was_told() {
    let mut bench = able();
    bench.say(r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":7}}}"#);
    let call = bench.called("POST tools/call 1");
    let report = |value: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":7,"progress":{value}}}}}"#
        )
    };
    bench.sse(call);
    bench.event(call, &report("1"));
    bench.wrote(&report("1"));
    bench.event(call, &report("2.5"));
    bench.wrote(&report("2.5"));
    bench.event(call, &asks(&bench, call, ONE));
    let id = question(&mut bench, "roots/list");
    reply(&mut bench, &id, "{}");
    let again = bench.called("POST tools/call ours");
    bench.sse(again);
    for (value, told) in [("1", false), ("2.5", false), ("3", true), ("3", false), ("10", true)] {
        bench.event(again, &report(value));
        if told {
            bench.wrote(&report(value));
        }
        bench.silent();
    }
}

#[test]
fn large_calls_in_rounds_do_not_keep_the_answers_away() {
    let mut bench = Bench::with(|config| {
        auto(config);
        config.max_message = 2 << 20;
    });
    bench.say(ABLE);
    let probe = bench.called("POST server/discover ours");
    discovered(&mut bench, probe, r#"{"tools":{}}"#);
    bench.line();
    let filler = "x".repeat(1 << 20);
    let mut questions = Vec::new();
    for id in 1..=4 {
        bench.say(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","arguments":{{"x":"{filler}"}}}}}}"#
        ));
        let call = bench.called(&format!("POST tools/call {id}"));
        bench.json(call, &asks(&bench, call, ONE));
        questions.push(question(&mut bench, "roots/list"));
        assert!(bench.wants_client(), "after call {id}");
    }
    for id in questions {
        reply(&mut bench, &id, "{}");
        bench.called("POST tools/call ours");
    }
    bench.silent();
}
