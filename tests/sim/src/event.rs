//! Reads the events that the machine writes to an HTTP client. It accepts only complete
//! events with LF line ends and nothing between them, since the machine must write no
//! others.

#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) kind: Option<String>,
    /// The data; `None` for a comment.
    pub(crate) data: Option<String>,
}

/// The events of a piece, including comments; `None` if it contains anything else.
pub(crate) fn events(bytes: &[u8]) -> Option<Vec<Event>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix("\n\n")?;
    text.split("\n\n").map(event).collect()
}

fn event(block: &str) -> Option<Event> {
    let mut event = Event::default();
    for line in block.split('\n').filter(|line| !line.starts_with(':')) {
        let (name, value) = line.split_once(": ")?;
        let field = match name {
            "id" => &mut event.id,
            "event" => &mut event.kind,
            "data" => &mut event.data,
            "retry" => continue,
            _ => return None,
        };
        if field.replace(value.to_owned()).is_some() {
            return None;
        }
    }
    Some(event)
}
