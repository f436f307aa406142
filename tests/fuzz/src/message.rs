//! `message`: the envelope scan finds the kind of message that plain JSON has,
//! and what is made of a message says the same on one line.

use crate::wire::message::{Id, Kind, Message, Parsed, member, parse, text_member, to_line};
use serde_json::Value;

pub(crate) fn message(data: &[u8]) {
    match parse(data.to_vec()) {
        Ok(Parsed::One(message)) => one(message),
        Ok(Parsed::Batch(members)) => {
            let all = serde_json::from_slice::<Vec<Value>>(data).map(|all| all.len());
            assert!(all.is_err() || all.ok() == Some(members.clone().count()));
            assert!(members.clone().next().is_some());
            members.flatten().for_each(one);
        }
        Err(_) => {}
    }
    if let Ok(value) = serde_json::from_slice::<Value>(data) {
        plain(&value);
    }
    if let Some(id) = std::str::from_utf8(data).ok().and_then(Id::parse) {
        assert_eq!(Id::parse(id.text()), Some(id));
    }
}

/// What a message amounts to.
#[derive(Debug, PartialEq, Eq)]
enum What {
    Request,
    Notification,
    Response,
    Nothing,
}

/// JSON that is written without tricks is the message that it says it is.
fn plain(value: &Value) {
    let Some(members) = value.as_object() else { return };
    let identified = value.get("id").is_some_and(|id| id.is_string() || id.is_number());
    let answers = members.contains_key("result") || value.get("error").is_some_and(|error| !error.is_null());
    let want = match (value.get("method"), value.get("id")) {
        (Some(Value::String(_)), Some(_)) if identified => What::Request,
        (Some(Value::String(_)), None) => What::Notification,
        (None | Some(Value::Null), _) if answers => What::Response,
        (_, _) => What::Nothing,
    };
    let got = match parse(value.to_string().into_bytes()) {
        Ok(Parsed::One(message)) => what(&message.kind),
        Ok(Parsed::Batch(_)) | Err(_) => What::Nothing,
    };
    assert_eq!(got, want, "{value}");
}

fn what(kind: &Kind) -> What {
    match kind {
        Kind::Request { .. } => What::Request,
        Kind::Notification { .. } => What::Notification,
        Kind::Response { .. } => What::Response,
    }
}

/// The edits of a relayed message change nothing but what they are for.
fn one(message: Message) {
    let value = serde_json::from_slice::<Value>(&message.bytes).ok();
    for part in [message.params(), message.result(), message.error()] {
        assert!(part.is_empty() || serde_json::from_str::<&serde_json::value::RawValue>(part).is_ok(), "{part}");
        let _ = (member(part, "_meta"), text_member(part, "uri"));
    }
    let line = to_line(message.bytes.clone(), true);
    assert_eq!(line.iter().position(|byte| matches!(byte, b'\n' | b'\r')), Some(line.len() - 1));
    assert!(!String::from_utf8_lossy(&line).contains(['\u{2028}', '\u{2029}']));
    let again = parsed(line);
    assert_eq!(again.kind, message.kind);
    assert_eq!(serde_json::from_slice::<Value>(&again.bytes).ok(), value);
    renamed(message, value);
}

fn renamed(message: Message, value: Option<Value>) {
    let id = Id::parse("\"renamed\"").unwrap();
    let (kind, error) = (message.kind.clone(), message.error().to_owned());
    if matches!(kind, Kind::Notification { .. }) {
        return;
    }
    let again = parsed(message.with_id(&id));
    let same = match (&kind, &again.kind) {
        (Kind::Request { method, .. }, Kind::Request { method: other, id: own }) => method == other && *own == id,
        (Kind::Response { .. }, Kind::Response { id: own }) => own.as_ref() == Some(&id) && again.error() == error,
        (_, _) => false,
    };
    assert!(same, "{kind:?} became {:?}", again.kind);
    let whole = !matches!(kind, Kind::Response { id: None });
    if let (Some(mut value), Ok(other), true) = (value, serde_json::from_slice::<Value>(&again.bytes), whole) {
        value["id"] = "renamed".into();
        assert_eq!(value, other);
    }
}

fn parsed(bytes: Vec<u8>) -> Message {
    match parse(bytes) {
        Ok(Parsed::One(message)) => message,
        Ok(Parsed::Batch(_)) | Err(_) => panic!("no message any more"),
    }
}
