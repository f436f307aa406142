//! The work of the simulated server for its streams: notifications, progress, questions,
//! polling, and the answer. Requests arrive in `streamable`, `channel` and `modern`.

use crate::server::{Effect, Frame, Server};
use crate::stream::{Form, Stream, Work, event};
use crate::weather::LONGEST;
use serde_json::json;

const QUESTIONS: [&str; 4] = ["sampling/createMessage", "roots/list", "elicitation/create", "ping"];

impl Server {
    /// Continues the work of a stream.
    pub(crate) fn wake(&mut self, key: u64) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let withdraws = stream.work.contains(&Work::Withdraw);
        if stream.awaits.is_some() && !withdraws {
            return;
        }
        let Some(work) = stream.work.pop_front() else { return };
        let pause = match work {
            Work::Pause(pause) => pause,
            Work::Notify
            | Work::Progress
            | Work::Comment
            | Work::Ask
            | Work::Withdraw
            | Work::Hangup
            | Work::Answer
            | Work::Endpoint
            | Work::Accept
            | Work::Acknowledge
            | Work::Change
            | Work::Update
            | Work::Conclude => 1,
        };
        self.work(key, work);
        self.effects.push(Effect::Wake(key, pause));
    }

    fn work(&mut self, key: u64, work: Work) {
        match work {
            Work::Pause(_) => {}
            Work::Notify => self.notify(key),
            Work::Progress => self.progress(key),
            Work::Comment => self.send(key, Frame::Chunk(b": still here\n\n".to_vec())),
            Work::Ask => self.ask(key),
            Work::Withdraw => self.withdraw(key),
            Work::Hangup => self.hang_up(key),
            Work::Answer => self.answer(key),
            Work::Endpoint => self.name_endpoint(key),
            Work::Acknowledge => self.acknowledge(key),
            Work::Change => self.change(key),
            Work::Update => self.update(key),
            Work::Conclude => self.conclude(key),
            Work::Accept => {
                let post = self.streams.get_mut(&key).and_then(|stream| stream.post.take());
                post.into_iter().for_each(|call| self.accept(call));
            }
        }
    }

    pub(crate) fn notify(&mut self, key: u64) {
        let filler = "x".repeat(if self.large { 100_000 } else { 0 });
        let params = format!(r#"{{"level":"info","s":{key},"q":{},"f":"{filler}"}}"#, self.new_number());
        self.unasked(key, format!(r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{params}}}"#));
    }

    fn progress(&mut self, key: u64) {
        let request = self.streams.get(&key).and_then(|stream| stream.request.as_ref());
        let params = format!(r#"{{"progressToken":{},"progress":1}}"#, request.map_or(0, |asked| asked.n));
        self.unasked(key, format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#));
    }

    fn unasked(&mut self, key: u64, text: String) {
        self.say(key, text);
    }

    /// Asks the client a question. The number of questions is limited, since each keeps a
    /// request open.
    fn ask(&mut self, key: u64) {
        if self.questions == 0 {
            return;
        }
        self.questions -= 1;
        let id = format!("\"ask-{}\"", self.new_number());
        let waits = |stream: &Stream| !stream.listens() || stream.work.contains(&Work::Withdraw);
        if let Some(stream) = self.streams.get_mut(&key).filter(|stream| waits(stream)) {
            stream.awaits = Some(id.clone());
        }
        let method = self.dice.pick(&QUESTIONS, "ping");
        self.unasked(key, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{}}}}"#));
    }

    /// Withdraws a question, unless it has its answer.
    fn withdraw(&mut self, key: u64) {
        let Some(id) = self.streams.get_mut(&key).and_then(|stream| stream.awaits.take()) else { return };
        let params = format!(r#"{{"requestId":{id}}}"#);
        self.unasked(key, format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{params}}}"#));
    }

    fn hang_up(&mut self, key: u64) {
        let hint = self.habits.retry.map_or(String::new(), |retry| format!("retry: {retry}\n\n"));
        self.send(key, Frame::Chunk(hint.into_bytes()));
        self.send(key, Frame::End);
        let Some(stream) = self.streams.get_mut(&key) else { return };
        stream.reader = None;
        if stream.form == Form::Channel {
            let session = stream.session.clone();
            self.close_channel(&session);
        }
    }

    fn answer(&mut self, key: u64) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let Some(asked) = stream.request.clone() else { return };
        stream.over = true;
        if let Some(rounds) = asked.asks {
            let text = self.inquire(&asked, rounds);
            return self.deliver(key, &text);
        }
        let (form, reader, session) = (stream.form, stream.reader, stream.session.clone());
        let filler = "y".repeat(if self.large { self.dice.pick(&[0, 150_000, LONGEST], 0) } else { 0 });
        let number = self.ledger.make(&asked.id, asked.n);
        let failed = self.dice.chance(10) && asked.n > 0;
        let text = if failed {
            json!({"jsonrpc": "2.0", "id": asked.id, "error": {"code": -32050, "message": "no", "data": {"r": number}}})
        } else {
            let (version, able) = (self.habits.version, self.habits.capabilities());
            let result = json!({"resultType": "complete", "n": asked.n, "r": number, "protocolVersion": version, "capabilities": able, "f": filler});
            json!({"jsonrpc": "2.0", "id": asked.id, "result": result})
        };
        let elsewhere = self.elsewhere(&session);
        match (form, elsewhere) {
            (Form::Body, None) => reader.into_iter().for_each(|call| self.reply(call, 200, &text.to_string())),
            (Form::Body, Some(other)) => {
                self.say(other, text.to_string());
                reader.into_iter().for_each(|call| self.reply(call, 202, ""));
            }
            (Form::Events | Form::Resumable, _) => {
                self.say(elsewhere.unwrap_or(key), text.to_string());
                self.send(key, Frame::End);
            }
            (Form::Channel | Form::Job, _) => self.say(key, text.to_string()),
        }
    }

    /// Some servers sometimes answer on the listening stream.
    fn elsewhere(&mut self, session: &str) -> Option<u64> {
        let wrong = self.dice.chance(3);
        let listens = |stream: &Stream| stream.listens() && stream.session == session && stream.reader.is_some();
        self.streams.iter().find(|(_, stream)| wrong && listens(stream)).map(|(key, _)| *key)
    }

    /// Sends a message on a stream, now or when the client resumes it.
    pub(crate) fn say(&mut self, key: u64, data: String) {
        let Some(stream) = self.streams.get(&key) else { return };
        let id = (stream.form == Form::Resumable).then(|| format!("{key}/{}", stream.said.len()));
        let bytes = event(id.as_deref(), &data, &mut self.dice);
        for _ in 0..1 + u32::from(self.dice.chance(self.habits.echoes)) {
            self.ledger.tell(&data);
            self.send(key, Frame::Chunk(bytes.clone()));
        }
        if let Some(stream) = self.streams.get_mut(&key) {
            stream.said.push(data);
        }
    }

    pub(crate) fn send(&mut self, key: u64, frame: Frame) {
        let reader = self.streams.get(&key).and_then(|stream| stream.reader);
        self.effects.extend(reader.map(|call| Effect::Send(call, frame)));
    }
}
