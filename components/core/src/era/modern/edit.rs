//! Edits of one raw JSON object or array. An edit copies what it does not change, byte
//! for byte, and returns a text in which nothing changes as it is. A text that is neither
//! object nor array has no items. Of members with the same name the last counts; an edit
//! applies to all of them. The meaning of members does not belong here.

use crate::wire::message::span;
use serde::Deserializer;
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// The member of params, results and other objects that holds data about the message.
pub(crate) const META: &str = "_meta";

/// A member of an object, or an element of an array.
#[derive(Debug)]
pub(crate) struct Item<'a> {
    /// `None` for an element, and for a name that is not Unicode.
    name: Option<Cow<'a, str>>,
    /// The raw value.
    pub(crate) value: &'a str,
    start: usize,
    value_start: usize,
}

impl Item<'_> {
    pub(crate) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    fn end(&self) -> usize {
        self.value_start + self.value.len()
    }
}

/// What an edit does to an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    Keep,
    Drop,
    /// Replace the value; the name stays.
    Set(String),
}

/// The change that a nested edit amounts to.
impl From<Cow<'_, str>> for Change {
    fn from(edited: Cow<'_, str>) -> Self {
        match edited {
            Cow::Borrowed(_) => Self::Keep,
            Cow::Owned(text) => Self::Set(text),
        }
    }
}

/// Visits each item in order. `None` if the text turns out to be neither a JSON object nor
/// an array; then what was visited does not count.
pub(crate) fn each<'a>(text: &'a str, visit: &mut dyn FnMut(&Item<'a>)) -> Option<()> {
    let mut json = serde_json::Deserializer::from_str(text);
    json.deserialize_any(Items { text, visit }).ok()?;
    json.end().ok()
}

/// The raw values of the named members.
pub(crate) fn get<'a, const N: usize>(object: &'a str, names: [&str; N]) -> [Option<&'a str>; N] {
    let mut found = [None; N];
    if names.iter().all(|name| lacks(object, name)) {
        return found;
    }
    let valid = each(object, &mut |item| {
        let member = found.iter_mut().zip(names).find(|(_, name)| item.name() == Some(name));
        if let Some((value, _)) = member {
            *value = Some(item.value);
        }
    });
    if valid.is_some() { found } else { [None; N] }
}

/// Edits each item, and appends members if it is an object.
pub(crate) fn rewrite<'a>(
    text: &'a str,
    added: &[(&str, &str)],
    change: &mut dyn FnMut(&Item<'a>) -> Change,
) -> Cow<'a, str> {
    let open = memchr::memchr2(b'{', b'[', text.as_bytes()).map_or(0, |at| at + 1);
    let mut edit = Edit { text, out: None, kept: false, end: open };
    if each(text, &mut |item| edit.apply(item, change(item))).is_none() {
        return Cow::Borrowed(text);
    }
    edit.finish(if is_object(text) { added } else { &[] })
}

/// Removes members.
pub(crate) fn without<'a>(object: &'a str, names: &[&str]) -> Cow<'a, str> {
    if names.iter().all(|name| lacks(object, name)) {
        return Cow::Borrowed(object);
    }
    rewrite(object, &[], &mut |item| if named(item, names) { Change::Drop } else { Change::Keep })
}

/// Removes members of the object and of its `_meta`, and a `_meta` that this empties.
pub(crate) fn without_meta<'a>(object: &'a str, names: &[&str], meta: &[&str]) -> Cow<'a, str> {
    if lacks(object, META) && names.iter().all(|name| lacks(object, name)) {
        return Cow::Borrowed(object);
    }
    rewrite(object, &[], &mut |item| match item.name() {
        Some(META) => unless_emptied(without(item.value, meta)).map_or(Change::Drop, Change::from),
        Some(name) if names.contains(&name) => Change::Drop,
        Some(_) | None => Change::Keep,
    })
}

/// The edited object, or `None` if the edit left no member of it.
pub(crate) fn unless_emptied(edited: Cow<'_, str>) -> Option<Cow<'_, str>> {
    let emptied = matches!(&edited, Cow::Owned(rest) if is_empty(rest));
    (!emptied).then_some(edited)
}

/// Sets members to raw values: removes what has these names, and appends. Empty text and
/// `null` count as an object without members.
pub(crate) fn with(object: &str, members: &[(&str, &str)]) -> String {
    let change = &mut |item: &Item<'_>| if sets(members, item) { Change::Drop } else { Change::Keep };
    rewrite(or_empty(object), members, change).into_owned()
}

/// Sets members of the object and of its `_meta`, which it creates if there is none.
pub(crate) fn with_meta(object: &str, members: &[(&str, &str)], meta: &[(&str, &str)]) -> String {
    let object = or_empty(object);
    // Most messages have none of these, and need no scan.
    if is_object(object) && lacks(object, META) && members.iter().all(|(name, _)| lacks(object, name)) {
        let meta = self::object(meta.iter().copied());
        let meta = (meta.len() > 2).then_some((META, &*meta));
        return append(object, members.iter().copied().chain(meta));
    }
    let [current] = get(object, [META]);
    let current = current.filter(|current| is_object(current));
    let edited = with(current.unwrap_or_default(), meta);
    let place = current.map(|current| span(object, current).start);
    let mut added = members.to_vec();
    if current.is_none() && !meta.is_empty() {
        added.push((META, &edited));
    }
    let change = &mut |item: &Item<'_>| match item.name() {
        Some(META) if place == Some(item.value_start) => Change::Set(edited.clone()),
        Some(META) => Change::Drop,
        _ if sets(members, item) => Change::Drop,
        _ => Change::Keep,
    };
    rewrite(object, &added, change).into_owned()
}

/// Whether an object certainly has no such member: finding a text costs far less than
/// reading JSON. A name may be written with escapes, which are `\u0000` and `\/`.
fn lacks(object: &str, name: &str) -> bool {
    let absent = |text: &str| memchr::memmem::find(object.as_bytes(), text.as_bytes()).is_none();
    absent(name) && absent(if name.contains('/') { "\\" } else { "\\u" })
}

/// Appends members to an object that has none of them.
fn append<'m>(object: &str, members: impl Iterator<Item = (&'m str, &'m str)>) -> String {
    let Some((head, rest)) = object.rsplit_once('}') else { return object.to_owned() };
    let mut out = String::with_capacity(object.len() + 256);
    out.push_str(head.trim_end());
    let mut empty = out.ends_with('{');
    for (name, value) in members {
        let comma = if std::mem::take(&mut empty) { "" } else { "," };
        out.extend([comma, &quote(name), ":", value]);
    }
    out.push_str(head.get(head.trim_end().len()..).unwrap_or_default());
    out.push('}');
    out.push_str(rest);
    out
}

/// Appends an element to an array.
pub(crate) fn push(array: &str, element: &str) -> String {
    match array.trim_end().strip_suffix(']') {
        Some(head) if head.trim() == "[" => format!("[{element}]"),
        Some(head) => format!("{head},{element}]"),
        None => format!("[{element}]"),
    }
}

/// Whether a raw value is an object.
pub(crate) fn is_object(value: &str) -> bool {
    value.trim_start().starts_with('{')
}

/// Whether a raw object has no members.
pub(crate) fn is_empty(object: &str) -> bool {
    let inside = object.trim().strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    inside.is_some_and(|inside| inside.trim().is_empty())
}

/// The content of a raw string; `None` if the value is something else.
pub(crate) fn string(value: &str) -> Option<Cow<'_, str>> {
    let inside = value.strip_prefix('"')?.strip_suffix('"')?;
    if memchr::memchr(b'\\', inside.as_bytes()).is_none() {
        return Some(Cow::Borrowed(inside));
    }
    serde_json::from_str(value).ok().map(Cow::Owned)
}

/// A text as a raw string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}

/// Writes an object from names and raw values.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<String> = members.into_iter().map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    format!("{{{}}}", members.join(","))
}

fn or_empty(object: &str) -> &str {
    if matches!(object.trim(), "" | "null") { "{}" } else { object }
}

fn named(item: &Item<'_>, names: &[&str]) -> bool {
    item.name().is_some_and(|name| names.contains(&name))
}

fn sets(members: &[(&str, &str)], item: &Item<'_>) -> bool {
    members.iter().any(|(name, _)| item.name() == Some(name))
}

/// A copy in progress. It begins with the first change.
struct Edit<'a> {
    text: &'a str,
    out: Option<String>,
    /// Whether the copy has an item, which the next one must be separated from.
    kept: bool,
    /// Where the last item ends.
    end: usize,
}

impl<'a> Edit<'a> {
    fn apply(&mut self, item: &Item<'a>, change: Change) {
        let from = if self.kept { self.end } else { item.start };
        match change {
            Change::Keep => {
                if let Some(out) = &mut self.out {
                    out.push_str(part(self.text, from, item.end()));
                }
                self.kept = true;
            }
            Change::Drop => {
                self.copy(from);
            }
            Change::Set(value) => {
                let text = self.text;
                let out = self.copy(from);
                out.push_str(part(text, from, item.value_start));
                out.push_str(&value);
                self.kept = true;
            }
        }
        self.end = item.end();
    }

    /// The copy, begun with everything before `to` if there is none.
    fn copy(&mut self, to: usize) -> &mut String {
        let text = self.text;
        self.out.get_or_insert_with(|| part(text, 0, to).to_owned())
    }

    fn finish(mut self, added: &[(&str, &str)]) -> Cow<'a, str> {
        for (name, value) in added {
            let comma = if self.kept { "," } else { "" };
            let member = format!("{comma}{}:{value}", quote(name));
            self.copy(self.end).push_str(&member);
            self.kept = true;
        }
        let rest = part(self.text, self.end, self.text.len());
        self.out.map_or(Cow::Borrowed(self.text), |out| Cow::Owned(out + rest))
    }
}

fn part(text: &str, from: usize, to: usize) -> &str {
    text.get(from..to).unwrap_or_default()
}

struct Items<'v, 'a> {
    text: &'a str,
    visit: &'v mut dyn FnMut(&Item<'a>),
}

impl<'a> Visitor<'a> for Items<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some((name, value)) = members.next_entry::<&RawValue, &RawValue>()? {
            let (start, value) = (span(self.text, name.get()).start, value.get());
            let value_start = span(self.text, value).start;
            (self.visit)(&Item { name: string(name.get()), value, start, value_start });
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'a>>(self, mut elements: A) -> Result<(), A::Error> {
        while let Some(value) = elements.next_element::<&RawValue>()? {
            let value = value.get();
            let start = span(self.text, value).start;
            (self.visit)(&Item { name: None, value, start, value_start: start });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_removed_with_one_comma_each() {
        let cases = [
            (r#"{"a":1,"b":2,"c":3}"#, r#"{"c":3}"#),
            (r#"{"c":3,"a":1}"#, r#"{"c":3}"#),
            (r#"{"a":1}"#, "{}"),
            (r#"{ "a" : 1 , "c" : 1.0 , "b":2 , "d":9007199254740993 }"#, r#"{ "c" : 1.0 , "d":9007199254740993 }"#),
            (r#"{"a":1,"\u0061":2,"c":"\ud800","a":[{"a":1}]}"#, r#"{"c":"\ud800"}"#),
            (r#"{"\ud800":1,"a":2}"#, r#"{"\ud800":1}"#),
            (r#"{"c":{"a":1,"b":2}}"#, r#"{"c":{"a":1,"b":2}}"#),
            (r#"["a","b"]"#, r#"["a","b"]"#),
            (r#"{"a":1,"b":}"#, r#"{"a":1,"b":}"#),
            (r#"{"a":1} x"#, r#"{"a":1} x"#),
            ("\"a\"", "\"a\""),
            ("", ""),
        ];
        for (text, want) in cases {
            assert_eq!(without(text, &["a", "b"]), want, "{text}");
        }
        assert!(matches!(without(r#"{ "c":3}"#, &["a"]), Cow::Borrowed(_)));
    }

    #[test]
    fn members_are_set_once() {
        let cases = [
            ("", r#"{"a":1,"b":{}}"#),
            ("null", r#"{"a":1,"b":{}}"#),
            ("{ }", r#"{"a":1,"b":{} }"#),
            (r#"{"c":1.0}"#, r#"{"c":1.0,"a":1,"b":{}}"#),
            (r#"{"a":7,"c":0,"a":8}"#, r#"{"c":0,"a":1,"b":{}}"#),
            ("[1]", "[1]"),
        ];
        for (text, want) in cases {
            assert_eq!(with(text, &[("a", "1"), ("b", "{}")]), want, "{text}");
        }
    }

    #[test]
    fn meta_is_edited_where_it_stands() {
        let cases = [
            ("", r#"{"x":0,"_meta":{"k":1}}"#),
            (r#"{"_meta":{"t":5},"y":1}"#, r#"{"_meta":{"t":5,"k":1},"y":1,"x":0}"#),
            (r#"{"_meta":null,"y":1}"#, r#"{"y":1,"x":0,"_meta":{"k":1}}"#),
            (r#"{"_meta":{"a":1},"_meta":{"b":2,"k":3}}"#, r#"{"_meta":{"b":2,"k":1},"x":0}"#),
        ];
        for (text, want) in cases {
            assert_eq!(with_meta(text, &[("x", "0")], &[("k", "1")]), want, "{text}");
        }
        let cases = [
            (r#"{"_meta":{"k":1},"x":2}"#, "{}"),
            (r#"{"_meta":{"k":1,"t":5},"y":2}"#, r#"{"_meta":{"t":5},"y":2}"#),
            (r#"{"_meta":{},"y":2}"#, r#"{"_meta":{},"y":2}"#),
            (r#"{"_meta":7,"y":{"_meta":{"k":1}}}"#, r#"{"_meta":7,"y":{"_meta":{"k":1}}}"#),
        ];
        for (text, want) in cases {
            assert_eq!(without_meta(text, &["x"], &["k"]), want, "{text}");
        }
    }

    #[test]
    fn the_last_of_several_members_is_read() {
        assert_eq!(get(r#"{"a":1,"b": [ 2 ],"\u0061":3}"#, ["a", "b", "c"]), [Some("3"), Some("[ 2 ]"), None]);
        assert_eq!(get(r#"{"a":1"#, ["a"]), [None]);
        assert_eq!(get(r#"[["a",1]]"#, ["a"]), [None]);
    }

    #[test]
    fn elements_are_replaced_and_appended() {
        let change = &mut |item: &Item<'_>| match item.value {
            "1" => Change::Drop,
            "2" => Change::Set("[]".to_owned()),
            _ => Change::Keep,
        };
        assert_eq!(rewrite("[1, 2 , 3,1]", &[], change), "[[] , 3]");
        assert_eq!(
            (push("[]", "1"), push("[ 0 ]", "1"), push("7", "1")),
            ("[1]".into(), "[ 0 ,1]".into(), "[1]".into())
        );
    }

    #[test]
    fn deep_nesting_neither_fails_nor_overflows() {
        let deep = format!("{{\"a\":{}{},\"b\":1}}", "[".repeat(200_000), "]".repeat(200_000));
        assert_eq!(without(&deep, &["a"]), r#"{"b":1}"#);
    }
}
