//! Events as the machine writes them to an HTTP client: whole, with LF, and
//! nothing else in between.

#[derive(Debug, Default)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) kind: Option<String>,
    /// The data; nothing in a comment.
    pub(crate) data: Option<String>,
}

/// The events of a piece, comments among them; nothing if it holds anything
/// else.
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
