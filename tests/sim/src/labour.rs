//! The work of the simulated server for its streams: notifications, progress,
//! questions, polling, and the answer.

use crate::server::{Effect, Frame, Server};
use crate::stream::{Form, Work, event};
use serde_json::json;

impl Server {
    /// Goes on with the work of a stream.
    pub(crate) fn wake(&mut self, key: u64) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        if stream.awaits.is_some() || stream.over {
            return;
        }
        let Some(work) = stream.work.pop_front() else { return };
        let pause = match work {
            Work::Pause(pause) => pause,
            Work::Notify | Work::Progress | Work::Comment | Work::Ask | Work::Hangup(_) | Work::Answer => 1,
        };
        self.work(key, work);
        self.effects.push(Effect::Wake(key, pause));
    }

    fn work(&mut self, key: u64, work: Work) {
        match work {
            Work::Pause(_) => {}
            Work::Notify => {
                let filler = "x".repeat(if self.weather.large { 200_000 } else { 0 });
                let text = format!(
                    r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"s":{key},"f":"{filler}"}}}}"#
                );
                self.unasked(key, text);
            }
            Work::Progress => {
                let mark =
                    self.streams.get(&key).and_then(|stream| stream.request.as_ref()).map_or(0, |(_, mark)| *mark);
                self.unasked(key, format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{mark},"progress":1}}}}"#));
            }
            Work::Comment => self.send(key, Frame::Chunk(b": still here\n\n".to_vec())),
            Work::Ask => self.ask(key),
            Work::Hangup(retry) => self.hang_up(key, retry),
            Work::Answer => self.answer(key),
        }
    }

    fn unasked(&mut self, key: u64, text: String) {
        self.said.insert(text.clone());
        self.say(key, text);
    }

    fn ask(&mut self, key: u64) {
        self.issued += 1;
        let id = format!("\"ask-{}\"", self.issued);
        if let Some(stream) = self.streams.get_mut(&key).filter(|stream| stream.request.is_some()) {
            stream.awaits = Some(id.clone());
        }
        self.unasked(key, format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"sampling/createMessage","params":{{}}}}"#));
    }

    fn hang_up(&mut self, key: u64, retry: u64) {
        self.send(key, Frame::Chunk(format!("retry: {retry}\n\n").into_bytes()));
        self.send(key, Frame::End);
        self.streams.entry(key).and_modify(|stream| stream.reader = None);
    }

    fn answer(&mut self, key: u64) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let Some((id, mark)) = stream.request.clone() else { return };
        stream.over = true;
        let filler = "y".repeat(if self.weather.large { 300_000 } else { 0 });
        let text = json!({"jsonrpc": "2.0", "id": id, "result": {"n": mark, "f": filler}}).to_string();
        if stream.form == Form::Body {
            let reader = stream.reader;
            reader.into_iter().for_each(|call| self.reply(call, 200, &text));
        } else {
            self.say(key, text);
            self.send(key, Frame::End);
        }
    }

    /// Says something on a stream, now or when it is resumed.
    pub(crate) fn say(&mut self, key: u64, data: String) {
        let Some(stream) = self.streams.get_mut(&key) else { return };
        let id = (stream.form == Form::Resumable).then(|| format!("{key}/{}", stream.said.len()));
        let bytes = event(id.as_deref(), &data, &mut self.dice);
        stream.said.push(data);
        self.send(key, Frame::Chunk(bytes));
    }

    fn send(&mut self, key: u64, frame: Frame) {
        let reader = self.streams.get(&key).and_then(|stream| stream.reader);
        self.effects.extend(reader.map(|call| Effect::Send(call, frame)));
    }
}
