//! Multi-round trips (2026-07-28, "multi round-trip requests"): a modern server asks in a
//! result, and the client sends its request again with the answers. A legacy server asks in
//! a request. This module reads and writes both forms. Counting rounds, and remembering who
//! asked whom, do not belong here.

use super::capabilities::Needed;
use super::edit;
use super::envelope::{INPUT_RESPONSES, REQUEST_STATE};
use crate::wire::message::Id;
use std::borrow::Cow;

const INPUT_REQUESTS: &str = "inputRequests";

/// Limits for the questions of one round.
const MOST_QUESTIONS: usize = 32;
const LONGEST_KEY: usize = 256;

/// A modern result that asks for input. It has questions, a state, or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InputRequired {
    pub(crate) questions: Vec<Question>,
    /// A raw string, which the next request repeats byte for byte.
    pub(crate) state: Option<String>,
}

/// One question to the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    /// Names the question in its round.
    pub(crate) key: String,
    pub(crate) ask: Ask,
    /// A raw object, or empty.
    pub(crate) params: String,
}

/// The kinds of questions that a server may ask a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ask {
    Elicitation,
    Sampling,
    Roots,
}

/// Why a result that asks for input is unusable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unusable {
    /// It has neither questions nor a state, or they have the wrong form.
    Malformed,
    /// It asks too many questions, or one with a key that is too long.
    TooLong,
    /// It asks a question that clients do not answer.
    UnknownMethod,
}

/// The contents of a modern client's repeated request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retry<'a> {
    /// A raw object: the answers by key.
    pub(crate) responses: Option<&'a str>,
    pub(crate) state: Option<String>,
}

impl Ask {
    pub(crate) fn parse(method: &str) -> Option<Self> {
        [Self::Elicitation, Self::Sampling, Self::Roots].into_iter().find(|ask| ask.method() == method)
    }

    pub(crate) fn method(self) -> &'static str {
        match self {
            Self::Elicitation => "elicitation/create",
            Self::Sampling => "sampling/createMessage",
            Self::Roots => "roots/list",
        }
    }
}

impl InputRequired {
    /// Reads a modern server's result.
    ///
    /// # Errors
    /// If the proxy cannot ask its questions or repeat its state.
    pub(crate) fn read(result: &str) -> Result<Self, Unusable> {
        let [requests, state] = edit::get(result, [INPUT_REQUESTS, REQUEST_STATE]);
        if requests.or(state).is_none() || state.is_some_and(|state| !state.starts_with('"')) {
            return Err(Unusable::Malformed);
        }
        let questions = questions(requests.unwrap_or("{}"))?;
        if questions.is_empty() && state.is_none() {
            return Err(Unusable::Malformed);
        }
        Ok(Self { questions, state: state.map(str::to_owned) })
    }

    /// The result that asks a modern client these questions. `state` is a text
    /// of the proxy's own.
    pub(crate) fn write(questions: &[Question], state: &str) -> String {
        let bodies: Vec<String> = questions.iter().map(Question::body).collect();
        let requests =
            edit::object(questions.iter().map(|question| &*question.key).zip(bodies.iter().map(|body| &**body)));
        let state = edit::quote(state);
        let members = [("resultType", "\"input_required\""), (INPUT_REQUESTS, &*requests), (REQUEST_STATE, &*state)];
        edit::object(members.into_iter().filter(|(name, _)| *name != INPUT_REQUESTS || !questions.is_empty()))
    }

    /// The params for sending the request again: the original ones, the answers by key, as
    /// raw results, and the server's state.
    pub(crate) fn retry(&self, params: &str, answers: &[(&str, &str)]) -> String {
        let rest = edit::without(params, &[INPUT_RESPONSES, REQUEST_STATE]);
        let responses = edit::object(answers.iter().copied());
        let responses = (!answers.is_empty()).then_some((INPUT_RESPONSES, &*responses));
        let state = self.state.as_deref().map(|state| (REQUEST_STATE, state));
        let members: Vec<_> = responses.into_iter().chain(state).collect();
        if members.is_empty() { rest.into_owned() } else { edit::with(&rest, &members) }
    }
}

fn questions(requests: &str) -> Result<Vec<Question>, Unusable> {
    let (mut questions, mut fault) = (Vec::<Question>::new(), None);
    let whole = edit::each(requests, &mut |item| match question(item.name(), item.value) {
        Ok(question) => {
            questions.retain(|known| known.key != question.key);
            if questions.len() < MOST_QUESTIONS {
                questions.push(question);
            } else {
                fault = Some(Unusable::TooLong);
            }
        }
        Err(why) => fault = fault.or(Some(why)),
    });
    match (whole, fault) {
        (Some(()), None) => Ok(questions),
        (Some(()), Some(fault)) => Err(fault),
        (None, _) => Err(Unusable::Malformed),
    }
}

fn question(key: Option<&str>, request: &str) -> Result<Question, Unusable> {
    let key = key.ok_or(Unusable::Malformed)?;
    if key.len() > LONGEST_KEY {
        return Err(Unusable::TooLong);
    }
    let [method, params] = edit::get(request, ["method", "params"]);
    let method = method.and_then(edit::string).ok_or(Unusable::Malformed)?;
    let ask = Ask::parse(&method).ok_or(Unusable::UnknownMethod)?;
    let params = params.unwrap_or_default();
    if !params.is_empty() && !edit::is_object(params) {
        return Err(Unusable::Malformed);
    }
    Ok(Question { key: key.to_owned(), ask, params: params.to_owned() })
}

impl Question {
    /// The question of a legacy server, for a modern client. Its tasks and the id of a URL
    /// elicitation have no modern counterpart. `None` if no client can answer it.
    pub(crate) fn of_request(id: &Id, method: &str, params: &str) -> Option<Self> {
        let params = edit::without(params, &["elicitationId", "task"]).into_owned();
        Some(Self { key: key(id), ask: Ask::parse(method)?, params })
    }

    /// The capability that the client must have declared.
    pub(crate) fn needs(&self) -> Needed {
        let [mode, tools] = edit::get(&self.params, ["mode", "tools"]);
        match self.ask {
            Ask::Elicitation if mode == Some("\"url\"") => Needed::UrlElicitation,
            Ask::Elicitation => Needed::FormElicitation,
            Ask::Sampling if tools.is_some() => Needed::SamplingWithTools,
            Ask::Sampling => Needed::Sampling,
            Ask::Roots => Needed::Roots,
        }
    }

    /// The JSON-RPC request that asks a legacy client. Only 2025-11-25 knows modes of
    /// elicitation; there, one without a mode is a form, and one by URL needs an id.
    pub(crate) fn request(&self, id: &Id, elicitation_id: &str) -> Vec<u8> {
        let [mode] = edit::get(&self.params, ["mode"]);
        let params = match (self.ask, mode.and_then(edit::string).as_deref()) {
            (Ask::Elicitation, Some("form")) => edit::without(&self.params, &["mode"]),
            (Ask::Elicitation, Some("url")) => {
                Cow::Owned(edit::with(&self.params, &[("elicitationId", &edit::quote(elicitation_id))]))
            }
            (Ask::Elicitation | Ask::Sampling | Ask::Roots, _) => Cow::Borrowed(&*self.params),
        };
        let rest = body(self.ask, &params);
        let rest = rest.strip_prefix('{').unwrap_or_default();
        format!("{{\"jsonrpc\":\"2.0\",\"id\":{},{rest}", id.text()).into_bytes()
    }

    /// How many bytes it holds.
    pub(crate) fn size(&self) -> usize {
        self.key.len() + self.params.len()
    }

    fn body(&self) -> String {
        body(self.ask, &self.params)
    }
}

fn body(ask: Ask, params: &str) -> String {
    let method = edit::quote(ask.method());
    let params = (!params.is_empty()).then_some(("params", params));
    edit::object([("method", &*method)].into_iter().chain(params))
}

/// The key for a question: the text of a number, or the content of a string. A string that
/// could be taken for a number keeps its quotes, so different ids have different keys.
pub(crate) fn key(id: &Id) -> String {
    match edit::string(id.text()) {
        Some(text) if !text.starts_with('"') && Id::parse(&text).is_none() => text.into_owned(),
        Some(text) => edit::quote(&text),
        None => id.text().to_owned(),
    }
}

impl<'a> Retry<'a> {
    /// Reads the answers and the state in a request. `None` if it is a first request.
    ///
    /// # Errors
    /// If the answers are not an object, or the state is not a string.
    pub(crate) fn read(params: &'a str) -> Result<Option<Self>, Unusable> {
        let [responses, state] = edit::get(params, [INPUT_RESPONSES, REQUEST_STATE]);
        if responses.is_some_and(|responses| !edit::is_object(responses)) {
            return Err(Unusable::Malformed);
        }
        let state = state.map(|state| edit::string(state).ok_or(Unusable::Malformed)).transpose()?;
        let is_first = responses.is_none() && state.is_none();
        Ok((!is_first).then(|| Self { responses, state: state.map(Cow::into_owned) }))
    }

    /// The answers to these questions, as raw objects.
    pub(crate) fn answers<K: AsRef<str>>(&self, keys: &[K]) -> Vec<Option<&'a str>> {
        let mut answers = vec![None; keys.len()];
        let _ = edit::each(self.responses.unwrap_or_default(), &mut |item| {
            for (answer, key) in answers.iter_mut().zip(keys) {
                if item.name() == Some(key.as_ref()) {
                    *answer = Some(item.value).filter(|value| edit::is_object(value));
                }
            }
        });
        answers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RESULT: &str = r#"{"resultType":"input_required",
 "inputRequests":{"k1":{"method":"elicitation/create","params":{"mode":"form","message":"?","requestedSchema":{"type":"object","properties":{"n":{"type":"string"}}}}},
                  "k2":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":50}},
                  "k3":{"method":"roots/list"}},
 "requestState":"opaque"}"#;

    fn id(text: &str) -> Id {
        Id::parse(text).unwrap()
    }

    #[test]
    fn a_result_is_read_into_questions() {
        let round = InputRequired::read(RESULT).unwrap();
        let seen: Vec<_> = round.questions.iter().map(|question| (&*question.key, question.ask)).collect();
        assert_eq!(seen, [("k1", Ask::Elicitation), ("k2", Ask::Sampling), ("k3", Ask::Roots)]);
        assert_eq!(round.questions[1].params, r#"{"messages":[],"maxTokens":50}"#);
        assert_eq!(round.state.as_deref(), Some(r#""opaque""#));
        let needs: Vec<_> = round.questions.iter().map(|question| question.needs().to_json()).collect();
        assert_eq!(needs, [r#"{"elicitation":{}}"#, r#"{"sampling":{}}"#, r#"{"roots":{}}"#]);
    }

    #[test]
    fn unusable_results_are_refused() {
        let ask = r#"{"method":"roots/list"}"#;
        let asks = |count: usize| {
            let keys: Vec<String> = (0..count).map(|at| format!("\"k{at}\":{ask}")).collect();
            format!(r#"{{"inputRequests":{{{}}}}}"#, keys.join(","))
        };
        let keyed = |key: usize| format!(r#"{{"inputRequests":{{"{}":{ask}}}}}"#, "k".repeat(key));
        let cases = [
            (asks(32), Ok(32)),
            (asks(33), Err(Unusable::TooLong)),
            (keyed(256), Ok(1)),
            (keyed(257), Err(Unusable::TooLong)),
            (format!(r#"{{"inputRequests":{{"a":{ask},"a":{ask}}}}}"#), Ok(1)),
            (r#"{"requestState":"s"}"#.into(), Ok(0)),
            (r#"{"inputRequests":{},"requestState":""}"#.into(), Ok(0)),
            (r#"{"inputRequests":{}}"#.into(), Err(Unusable::Malformed)),
            (r#"{"inputRequests":{"a":{"method":"ping"}}}"#.into(), Err(Unusable::UnknownMethod)),
            (r#"{"inputRequests":{"a":{"params":{}}}}"#.into(), Err(Unusable::Malformed)),
            (r#"{"inputRequests":{"a":{"method":"roots/list","params":[]}}}"#.into(), Err(Unusable::Malformed)),
            (r#"{"inputRequests":{"a":7}}"#.into(), Err(Unusable::Malformed)),
            (format!(r#"{{"inputRequests":[{ask}]}}"#), Err(Unusable::Malformed)),
            (r#"{"inputRequests":null}"#.into(), Err(Unusable::Malformed)),
            (r#"{"requestState":7}"#.into(), Err(Unusable::Malformed)),
            ("{}".into(), Err(Unusable::Malformed)),
            ("".into(), Err(Unusable::Malformed)),
        ];
        for (result, want) in cases {
            assert_eq!(InputRequired::read(&result).map(|round| round.questions.len()), want, "{result}");
        }
    }

    #[test]
    fn a_legacy_client_is_asked_by_request() {
        let cases = [
            ("roots/list", "", r#""method":"roots/list"}"#),
            (
                "sampling/createMessage",
                r#"{"mode":"url","n":1.0}"#,
                r#""method":"sampling/createMessage","params":{"mode":"url","n":1.0}}"#,
            ),
            ("elicitation/create", r#"{"message":"?"}"#, r#""method":"elicitation/create","params":{"message":"?"}}"#),
            (
                "elicitation/create",
                r#"{"mode":"form","message":"?"}"#,
                r#""method":"elicitation/create","params":{"message":"?"}}"#,
            ),
            (
                "elicitation/create",
                r#"{"mode":"url","url":"https://h/"}"#,
                r#""method":"elicitation/create","params":{"mode":"url","url":"https://h/","elicitationId":"e1"}}"#,
            ),
        ];
        for (method, params, want) in cases {
            let question = Question { key: "k".into(), ask: Ask::parse(method).unwrap(), params: params.into() };
            let request = String::from_utf8(question.request(&id("\"p-1\""), "e1")).unwrap();
            assert_eq!(request, format!(r#"{{"jsonrpc":"2.0","id":"p-1",{want}"#));
        }
    }

    #[test]
    fn a_request_is_repeated_with_the_answers_and_the_exact_state() {
        let round = |state: Option<&str>| InputRequired { questions: Vec::new(), state: state.map(str::to_owned) };
        type Case = (&'static str, &'static [(&'static str, &'static str)], Option<&'static str>, &'static str);
        let cases: [Case; 5] = [
            (
                r#"{"name":"t","arguments":{"n":9007199254740993}}"#,
                &[("k1", r#"{"action":"accept","content":{}}"#), ("k\"", r#"{"roots":[]}"#)],
                Some(r#""a\u0062\/c""#),
                r#"{"name":"t","arguments":{"n":9007199254740993},"inputResponses":{"k1":{"action":"accept","content":{}},"k\"":{"roots":[]}},"requestState":"a\u0062\/c"}"#,
            ),
            (
                r#"{"inputResponses":{"old":1},"a":1,"requestState":"old"}"#,
                &[],
                Some("\"new\""),
                r#"{"a":1,"requestState":"new"}"#,
            ),
            (r#"{"a":1,"requestState":"old"}"#, &[("k", "{}")], None, r#"{"a":1,"inputResponses":{"k":{}}}"#),
            ("", &[], Some("\"s\""), r#"{"requestState":"s"}"#),
            ("", &[], None, ""),
        ];
        for (params, answers, state, want) in cases {
            assert_eq!(round(state).retry(params, answers), want, "{params}");
        }
    }

    #[test]
    fn a_modern_client_is_asked_by_result() {
        let cases = [
            (
                r#""q""#,
                "elicitation/create",
                r#"{"message":"?","mode":"url","elicitationId":"e","task":{},"n":1.0}"#,
                r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","mode":"url","n":1.0}}},"requestState":"s\"t"}"#,
            ),
            (
                "7",
                "roots/list",
                "",
                r#"{"resultType":"input_required","inputRequests":{"7":{"method":"roots/list"}},"requestState":"s\"t"}"#,
            ),
        ];
        for (own, method, params, want) in cases {
            let question = Question::of_request(&id(own), method, params).unwrap();
            let written = InputRequired::write(std::slice::from_ref(&question), "s\"t");
            assert_eq!(written, want);
            assert_eq!(InputRequired::read(&written).unwrap().questions, [question]);
        }
        assert_eq!(InputRequired::write(&[], "s"), r#"{"resultType":"input_required","requestState":"s"}"#);
        assert_eq!(Question::of_request(&id("1"), "ping", ""), None);
    }

    #[test]
    fn different_ids_have_different_keys() {
        let cases = [
            ("1", "1"),
            (r#""1""#, r#""1""#),
            (r#""q""#, "q"),
            (r#""\u0071""#, "q"),
            (r#""\"1\"""#, r#""\"1\"""#),
            (r#""""#, ""),
            ("9007199254740993", "9007199254740993"),
        ];
        for (text, want) in cases {
            assert_eq!(key(&id(text)), want, "{text}");
        }
    }

    #[test]
    fn a_retry_is_told_from_a_first_request() {
        let cases = [
            (r#"{"name":"t"}"#, Ok(None)),
            ("", Ok(None)),
            (r#"{"requestState":"a\u0062"}"#, Ok(Some((None, Some("ab"))))),
            (r#"{"inputResponses":{"q":{}}}"#, Ok(Some((Some(r#"{"q":{}}"#), None)))),
            (r#"{"inputResponses":[]}"#, Err(Unusable::Malformed)),
            (r#"{"requestState":{}}"#, Err(Unusable::Malformed)),
        ];
        for (params, want) in cases {
            let want =
                want.map(|retry| retry.map(|(responses, state)| Retry { responses, state: state.map(str::to_owned) }));
            assert_eq!(Retry::read(params), want, "{params}");
        }
        let params = r#"{"inputResponses":{"q":{"action":"accept"},"x":{},"7":5,"q":{"action":"cancel"}}}"#;
        let retry = Retry::read(params).unwrap().unwrap();
        assert_eq!(retry.answers(&["q", "7", "z"]), [Some(r#"{"action":"cancel"}"#), None, None]);
    }
}
