//! Event streams: framing as the standard has it, priming, resumption, and
//! the listening stream.

mod common;

use common::*;
use mcp_proxy_core::{CallError, Note, Why};

// ----- framing -------------------------------------------------------------------

#[test]
fn line_ends_cut_between_chunks_give_one_message() {
    let (mut bench, call) = Bench::streaming();
    for chunk in ["data: {\"jsonrpc\":\"2.0\",\"id\":1,", "\"result\":{}}\r", "\n\r", "\n"] {
        bench.chunk(call, chunk);
    }
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_character_cut_into_bytes_stays_whole() {
    let (mut bench, call) = Bench::streaming();
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"t":"😀"}}"#;
    for byte in format!("data: {answer}\n\n").as_bytes() {
        bench.chunk(call, [*byte]);
    }
    bench.wrote(answer);
    bench.silent();
}

#[test]
fn a_byte_order_mark_in_pieces_is_dropped() {
    let (mut bench, call) = Bench::streaming();
    for chunk in [b"\xEF", b"\xBB", b"\xBF"] {
        bench.chunk(call, chunk);
    }
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn data_on_several_lines_becomes_one_line() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "data: {\"jsonrpc\":\"2.0\",\ndata: \"id\":1,\"result\":{}}\n\n");
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn line_separators_in_strings_are_escaped_for_stdio() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"t\":\"a\u{2028}b\u{2029}\"}}");
    bench.wrote(r#"{"jsonrpc":"2.0","id":1,"result":{"t":"a\u2028b\u2029"}}"#);
    bench.silent();
}

#[test]
fn a_flood_of_comments_says_nothing_and_keeps_the_call_alive() {
    let (mut bench, call) = Bench::streaming();
    for _ in 0..10 {
        bench.wait(100_000);
        bench.chunk(call, ": ka\n\n".repeat(1000));
    }
    bench.silent();
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn comments_on_another_stream_do_not_keep_a_request_alive() {
    let (mut bench, listen) = Bench::listening();
    let call = bench.calls("1");
    for _ in 0..30 {
        bench.wait(9_999);
        bench.chunk(listen, ": ka\n\n".repeat(1000));
        bench.silent();
    }
    bench.wait(30);
    bench.cancelled(call);
    bench.error_delivered("1", "maybe");
    bench.called("POST notifications/cancelled");
    bench.silent();
}

#[test]
fn events_of_a_foreign_type_are_ignored() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "event: ping\ndata: x\n\nevent: keepalive\ndata:\n\nevent: message\ndata: \n\ndata\n\n");
    bench.chunk(call, format!("event: endpoint\ndata: /m\n\nevent: message\ndata: {}\n\n", result("1")));
    bench.wrote(&result("1"));
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::BadMessage(_))), 0);
}

#[test]
fn a_message_that_is_no_json_is_noted_and_the_stream_goes_on() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, "{nonsense");
    bench.silent();
    assert_eq!(bench.noted(|note| matches!(note, Note::BadMessage(_))), 1);
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

// ----- a stream that ends before its answer ---------------------------------------

#[test]
fn a_primed_stream_is_polled_after_the_servers_wait() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\nretry: 700\ndata: \n\n");
    bench.end(call);
    bench.silent();
    bench.wait(699);
    bench.silent();
    bench.wait(1);
    let resume = bench.called("GET");
    assert_eq!(bench.header(resume, "last-event-id"), Some("e1"));
    assert_eq!(bench.header(resume, "mcp-session-id"), Some("s1"));
    bench.sse(resume);
    bench.event(resume, &result("1"));
    bench.wrote(&result("1"));
    bench.end(resume);
    bench.wait(1000);
    bench.silent();
}

#[test]
fn a_stream_that_breaks_after_an_event_id_is_resumed_from_it() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, format!("id: a/7\ndata: {}\n\nid: lost\ndata: cut", note("notifications/message")));
    bench.wrote(&note("notifications/message"));
    bench.fail(call, CallError::Reset);
    let (waited, why) = bench.wait_for_deadline();
    assert!((1000..=1100).contains(&waited) && why == Why::Reconnect, "{waited} {why:?}");
    let resume = bench.called("GET");
    assert_eq!(bench.header(resume, "last-event-id"), Some("a/7"));
    bench.silent();
}

#[test]
fn a_tool_call_whose_stream_ends_without_ids_is_answered_and_not_sent_again() {
    for broken in [None, Some(CallError::Reset)] {
        let (mut bench, call) = Bench::streaming();
        match broken {
            None => bench.end(call),
            Some(error) => bench.fail(call, error),
        }
        let error = bench.error_delivered("1", "maybe");
        assert_eq!((&error["data"]["phase"], &error["data"]["retrySafe"]), (&"stream".into(), &false.into()));
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn a_list_whose_stream_ends_without_ids_is_asked_again() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.sse(call);
    bench.end(call);
    bench.silent();
    let (waited, why) = bench.wait_for_deadline();
    assert!((100..=110).contains(&waited) && why == Why::Retry, "{waited} {why:?}");
    let again = bench.called("POST tools/list 1");
    bench.json(again, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_truncated_body_is_not_an_answer() {
    let (mut bench, call) = Bench::calling();
    bench.head(call, 200, &[("content-type", "application/json")]);
    bench.chunk(call, &result("1")[..20]);
    bench.fail(call, CallError::Reset);
    bench.error_delivered("1", "maybe");
    bench.silent();
}

#[test]
fn empty_resumes_wait_longer_each_time_until_the_request_expires() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\ndata: \n\n");
    bench.end(call);
    let mut waits = Vec::new();
    while bench.now < 290_000 {
        let (waited, why) = bench.wait_for_deadline();
        if why == Why::Quiet {
            break;
        }
        waits.push(waited);
        let resume = bench.called("GET");
        bench.sse(resume);
        bench.end(resume);
    }
    assert!(waits.len() < 20, "{waits:?}");
    assert!(waits[..4].windows(2).all(|pair| pair[0] < pair[1]), "{waits:?}");
    bench.wait(300_000);
    while !bench.next_is_a_line() {
        bench.skip();
    }
    bench.error_delivered("1", "maybe");
}

#[test]
fn a_resume_that_the_server_refuses_is_the_end() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\nretry: 100\ndata: \n\n");
    bench.end(call);
    bench.wait(100);
    let resume = bench.called("GET");
    bench.head(resume, 400, &[]);
    bench.cancelled(resume);
    assert_eq!(bench.error_delivered("1", "maybe")["data"]["httpStatus"], 400);
    bench.silent();
}

#[test]
fn a_resume_that_cannot_connect_is_tried_four_times() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\nretry: 100\ndata: \n\n");
    bench.end(call);
    for _ in 0..4 {
        assert_eq!(bench.wait_for_deadline().1, Why::Reconnect);
        let resume = bench.called("GET");
        bench.fail(resume, CallError::Refused);
    }
    bench.error_delivered("1", "maybe");
    bench.silent();
}

#[test]
fn a_resume_that_ends_before_its_head_is_no_reason_to_send_the_request_again() {
    let mut bench = Bench::open();
    bench.say(&list("1"));
    let call = bench.called("POST tools/list 1");
    bench.sse(call);
    bench.chunk(call, "id: e1\nretry: 100\ndata: \n\n");
    bench.end(call);
    bench.wait(100);
    let resume = bench.called("GET");
    bench.end(resume);
    assert_eq!(bench.wait_for_deadline().1, Why::Reconnect);
    bench.called("GET");
    bench.silent();
}

#[test]
fn events_that_come_twice_after_a_resume_answer_once() {
    let (mut bench, call) = Bench::streaming();
    bench.chunk(call, "id: e1\nretry: 100\ndata: \n\n");
    bench.end(call);
    bench.wait(100);
    let resume = bench.called("GET");
    bench.sse(resume);
    bench.event(resume, &result("1"));
    bench.event(resume, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
}

#[test]
fn a_stream_that_stays_open_after_its_answer_is_let_go() {
    let (mut bench, call) = Bench::streaming();
    bench.event(call, &result("1"));
    bench.wrote(&result("1"));
    bench.wait(9_999);
    bench.silent();
    bench.wait(1);
    bench.cancelled(call);
    bench.silent();
}

// ----- the listening stream --------------------------------------------------------

#[test]
fn what_the_server_says_unasked_reaches_the_client() {
    let (mut bench, listen) = Bench::listening();
    bench.event(listen, &note("notifications/tools/list_changed"));
    bench.wrote(&note("notifications/tools/list_changed"));
    bench.wait(10_000_000);
    bench.silent();
}

#[test]
fn a_server_without_a_listening_stream_is_not_asked_again() {
    for status in [400, 404, 405, 501] {
        let mut bench = Bench::new();
        let listen = bench.handshake();
        bench.head(listen, status, &[]);
        bench.cancelled(listen);
        assert_eq!(bench.noted(|note| matches!(note, Note::ListenRefused(_))), 1);
        bench.say(&list("1"));
        let call = bench.called("POST tools/list 1");
        bench.json(call, &result("1"));
        bench.wrote(&result("1"));
        bench.wait(1_000_000);
        bench.silent();
    }
}

#[test]
fn a_listening_stream_that_is_no_event_stream_is_not_asked_again() {
    let mut bench = Bench::new();
    let listen = bench.handshake();
    bench.head(listen, 200, &[("content-type", "text/html")]);
    bench.cancelled(listen);
    bench.wait(1_000_000);
    bench.silent();
}

#[test]
fn a_listening_stream_that_ends_is_reopened_from_the_last_event() {
    let (mut bench, listen) = Bench::listening();
    bench.chunk(listen, format!("id: g1\nretry: 250\ndata: {}\n\n", note("notifications/x")));
    bench.wrote(&note("notifications/x"));
    bench.end(listen);
    assert_eq!(bench.wait_for_deadline(), (250, Why::Reconnect));
    let again = bench.called("GET");
    assert_eq!(bench.header(again, "last-event-id"), Some("g1"));
    bench.silent();
}

#[test]
fn a_listening_stream_whose_session_is_gone_opens_a_new_one_unasked() {
    let unknown = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"Session not found"}}"#;
    for (status, body) in [(404, ""), (400, unknown), (400, r#"{"error":"Invalid or missing session ID"}"#)] {
        let (mut bench, listen) = Bench::listening();
        bench.end(listen);
        bench.wait_for_deadline();
        let again = bench.called("GET");
        bench.status(again, status, body);
        let (_, why) = bench.wait_for_deadline();
        assert_eq!(why, Why::Reopen, "{status} {body}");
        let call = bench.called_last();
        assert_eq!(bench.rpc(call)["method"], "initialize");
        bench.reopened(call, "s2");
        let initialized = bench.called("POST notifications/initialized");
        bench.accept(initialized);
        let listen = bench.called("GET");
        assert_eq!(bench.header(listen, "mcp-session-id"), Some("s2"));
        bench.silent();
    }
}

#[test]
fn a_listening_stream_that_never_opened_says_nothing_of_the_session() {
    let mut bench = Bench::new();
    let listen = bench.handshake();
    bench.head(listen, 404, &[]);
    bench.cancelled(listen);
    bench.say(&tool("1"));
    bench.called("POST tools/call 1");
    bench.silent();
}

#[test]
fn a_listening_stream_that_cannot_be_opened_backs_off_to_a_cap() {
    let mut bench = Bench::new();
    let mut listen = bench.handshake();
    let mut last = 0;
    for round in 0..12 {
        match round % 2 {
            0 => bench.fail(listen, CallError::Refused),
            _ => {
                bench.head(listen, 503, &[]);
                bench.cancelled(listen);
            }
        }
        let (waited, why) = bench.wait_for_deadline();
        assert!(why == Why::Reconnect && (1000..=33_000).contains(&waited), "{waited} {why:?}");
        assert!(waited > last || waited >= 30_000, "{last} then {waited}");
        last = waited;
        listen = bench.called("GET");
    }
    bench.silent();
}

#[test]
fn a_listening_stream_resumed_in_vain_forgets_its_event_and_slows_down() {
    let (mut bench, listen) = Bench::listening();
    bench.chunk(listen, "id: g1\ndata: \n\n");
    bench.end(listen);
    let mut last = 0;
    for (round, event) in [Some("g1"), None, None, None, None].into_iter().enumerate() {
        let (waited, why) = bench.wait_for_deadline();
        assert!(why == Why::Reconnect && waited > last, "round {round}: {last} then {waited}");
        last = waited;
        let again = bench.called("GET");
        assert_eq!(bench.header(again, "last-event-id"), event, "round {round}");
        bench.sse(again);
        bench.end(again);
    }
    bench.silent();
}

#[test]
fn a_listening_stream_whose_head_is_withheld_holds_nothing_up() {
    let mut bench = Bench::new();
    let listen = bench.handshake();
    bench.wait(3_600_000);
    let call = bench.calls("1");
    bench.json(call, &result("1"));
    bench.wrote(&result("1"));
    bench.silent();
    bench.sse(listen);
    bench.event(listen, &note("notifications/x"));
    bench.wrote(&note("notifications/x"));
    bench.silent();
}

#[test]
fn a_new_initialized_replaces_the_listening_stream() {
    let (mut bench, listen) = Bench::listening();
    bench.say(INITIALIZED);
    let initialized = bench.called("POST notifications/initialized");
    bench.accept(initialized);
    bench.cancelled(listen);
    bench.called("GET");
    bench.silent();
}

#[test]
fn a_second_listening_stream_that_is_refused_is_tried_again_ever_more_slowly() {
    for status in [409, 400] {
        let (mut bench, mut listen) = Bench::listening();
        bench.end(listen);
        for wait in [1_000, 2_000, 4_000] {
            let (waited, why) = bench.wait_for_deadline();
            assert!((wait..=wait + wait / 10).contains(&waited) && why == Why::Reconnect, "{waited}");
            listen = bench.called("GET");
            bench.head(listen, status, &[]);
            match status {
                409 => bench.cancelled(listen),
                // The body might say that the session is gone.
                _ => bench.body(listen, "no"),
            }
        }
        bench.say(&tool("1"));
        bench.called("POST tools/call 1");
        bench.silent();
    }
}
