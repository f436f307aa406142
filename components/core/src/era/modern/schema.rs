//! JSON Schemas as text: a walk over all subschemas in one pass, and the wrapper that legacy
//! clients need around an output schema. The walk needs no recursion, so depth costs
//! nothing. The meaning of annotations does not belong here.

use super::edit;
use std::borrow::Cow;

/// The parts of a schema that a walk finds, in the order of the text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step<'s, 'a> {
    /// A schema begins.
    Enter,
    /// A keyword of the innermost schema.
    Keyword {
        name: &'s str,
        /// The raw value, or an empty text for an object or array.
        value: &'a str,
        /// Where the value begins.
        at: usize,
    },
    /// The innermost schema ends. With the names on the path to it, if `properties` alone
    /// lead from the root to it.
    Leave(Option<&'s [Cow<'a, str>]>),
}

/// The role of an object or array in a schema. `plain`: `properties` alone lead to it from
/// the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Schema {
        plain: bool,
    },
    /// Its members have names that the author chose, and schemas as values.
    Names {
        plain: bool,
    },
    /// A list of schemas.
    List,
    /// Values such as defaults, which may look like schemas.
    Data,
}

/// Walks a schema that is valid JSON.
pub(super) fn walk<'a>(schema: &'a str, visit: &mut dyn FnMut(Step<'_, 'a>)) {
    let mut walk = Walk { places: Vec::new(), path: Vec::new(), name: None, scalar: None };
    for (token, at) in (Tokens { text: schema, at: 0 }) {
        match token {
            Token::Open(bracket) => walk.open(bracket, at, visit),
            Token::Close => walk.close(visit),
            Token::Colon => walk.name = walk.scalar.take().and_then(|(name, _)| edit::string(name)),
            Token::Comma => walk.end_member(visit),
            Token::Scalar(text) => walk.scalar = Some((text, at)),
        }
    }
}

struct Walk<'a> {
    /// The open objects and arrays, from the root.
    places: Vec<Place>,
    /// The names of the properties that lead to the innermost plain schema.
    path: Vec<Cow<'a, str>>,
    /// The name of the current member.
    name: Option<Cow<'a, str>>,
    /// A string, number or word that has just been read: a name if a colon follows.
    scalar: Option<(&'a str, usize)>,
}

impl<'a> Walk<'a> {
    fn open(&mut self, bracket: u8, at: usize, visit: &mut dyn FnMut(Step<'_, 'a>)) {
        let parent = self.places.last().copied();
        let name = self.name.take();
        if let (Some(Place::Schema { .. }), Some(name)) = (parent, name.as_deref()) {
            visit(Step::Keyword { name, value: "", at });
        }
        let place = child(parent, name.as_deref().unwrap_or_default(), bracket);
        if let Place::Schema { plain } = place {
            if let (true, Some(_)) = (plain, parent) {
                self.path.push(name.unwrap_or_default());
            }
            visit(Step::Enter);
        }
        self.places.push(place);
    }

    fn close(&mut self, visit: &mut dyn FnMut(Step<'_, 'a>)) {
        self.end_member(visit);
        if let Some(Place::Schema { plain }) = self.places.pop() {
            visit(Step::Leave(plain.then_some(&self.path)));
            if plain {
                self.path.pop();
            }
        }
    }

    fn end_member(&mut self, visit: &mut dyn FnMut(Step<'_, 'a>)) {
        let (name, scalar) = (self.name.take(), self.scalar.take());
        if let (Some(Place::Schema { .. }), Some(name), Some((value, at))) = (self.places.last(), name, scalar) {
            visit(Step::Keyword { name: &name, value, at });
        }
    }
}

/// The role of an object or array under this keyword or name.
fn child(parent: Option<Place>, name: &str, bracket: u8) -> Place {
    let is_object = bracket == b'{';
    match (parent, name) {
        (None, _) if is_object => Place::Schema { plain: true },
        (Some(Place::Schema { plain }), "properties") if is_object => Place::Names { plain },
        (
            Some(Place::Schema { .. }),
            "patternProperties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
        ) if is_object => Place::Names { plain: false },
        (Some(Place::Schema { .. }), "const" | "enum" | "default" | "examples" | "properties") => Place::Data,
        (Some(Place::Names { plain }), _) if is_object => Place::Schema { plain },
        (Some(Place::Schema { .. } | Place::List), _) if is_object => Place::Schema { plain: false },
        (Some(Place::Schema { .. } | Place::List), _) => Place::List,
        (Some(Place::Names { .. } | Place::Data) | None, _) => Place::Data,
    }
}

enum Token<'a> {
    Open(u8),
    Close,
    Colon,
    Comma,
    /// A string with its quotes, a number or a word.
    Scalar(&'a str),
}

/// The tokens of valid JSON, each with its position.
struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Iterator for Tokens<'a> {
    type Item = (Token<'a>, usize);

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let start = self.at + rest.iter().position(|byte| !byte.is_ascii_whitespace())?;
        let first = *self.text.as_bytes().get(start)?;
        let token = match first {
            b'{' | b'[' => Token::Open(first),
            b'}' | b']' => Token::Close,
            b':' => Token::Colon,
            b',' => Token::Comma,
            _ => Token::Scalar(self.scalar(start)?),
        };
        self.at = start + if let Token::Scalar(text) = token { text.len() } else { 1 };
        Some((token, start))
    }
}

impl<'a> Tokens<'a> {
    fn scalar(&self, start: usize) -> Option<&'a str> {
        let rest = self.text.get(start..)?;
        let word_ends = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}') || byte.is_ascii_whitespace();
        let len = match rest.as_bytes().split_first()? {
            (b'"', inside) => 1 + string_len(inside),
            (_, _) => rest.bytes().position(|byte| word_ends(&byte)).unwrap_or(rest.len()),
        };
        rest.get(..len)
    }
}

/// The length of a string after its opening quote, with the closing one.
fn string_len(inside: &[u8]) -> usize {
    let mut at = 0;
    while let Some(found) = memchr::memchr2(b'"', b'\\', inside.get(at..).unwrap_or_default()) {
        at += found + 1;
        if inside.get(at - 1) == Some(&b'"') {
            return at;
        }
        at += 1;
    }
    inside.len()
}

/// Whether legacy clients refuse the schema: an output schema has to describe an object.
pub(super) fn needs_wrapper(schema: &str) -> bool {
    let is_schema = edit::is_object(schema) || matches!(schema, "true" | "false");
    is_schema && edit::get(schema, ["type"]) != [Some("\"object\"")]
}

/// The schema of an object whose member `result` has the given schema.
pub(super) fn wrapped(schema: &str) -> String {
    let [dialect] = edit::get(schema, ["$schema"]);
    let dialect = dialect.map(|dialect| format!("\"$schema\":{dialect},")).unwrap_or_default();
    let inner = edit::without(schema, &["$schema"]);
    let inner = moved(&inner);
    format!("{{{dialect}\"type\":\"object\",\"properties\":{{\"result\":{inner}}},\"required\":[\"result\"]}}")
}

/// The schema for its place in the wrapper. A JSON pointer into this document gets a longer
/// path, unless an `$id` makes the schema around it a document of its own (JSON Schema
/// 2020-12, section 8.2). Anchors stay.
fn moved(schema: &str) -> Cow<'_, str> {
    let mut pointers: Vec<usize> = Vec::new();
    // For each open schema: how many pointers came before it, and whether it has an `$id`.
    let mut schemas: Vec<(usize, bool)> = Vec::new();
    walk(schema, &mut |step| match step {
        Step::Enter => schemas.push((pointers.len(), false)),
        Step::Keyword { name: "$id", value, .. } if value.len() > 2 && !value.starts_with("\"#") => {
            if let Some((_, is_document)) = schemas.last_mut() {
                *is_document = true;
            }
        }
        Step::Keyword { name: "$ref" | "$dynamicRef", value, at } if is_pointer(value) => pointers.push(at + 2),
        Step::Keyword { .. } => {}
        Step::Leave(_) => {
            if let Some((before, true)) = schemas.pop() {
                pointers.truncate(before);
            }
        }
    });
    if pointers.is_empty() {
        return Cow::Borrowed(schema);
    }
    let mut out = String::with_capacity(schema.len() + pointers.len() * 18);
    let mut from = 0;
    for at in pointers {
        out.push_str(schema.get(from..at).unwrap_or_default());
        out.push_str("/properties/result");
        from = at;
    }
    Cow::Owned(out + schema.get(from..).unwrap_or_default())
}

/// Whether a raw string is a JSON pointer into its own document.
fn is_pointer(value: &str) -> bool {
    value.strip_prefix("\"#").is_some_and(|rest| rest.starts_with(['"', '/']) || rest.starts_with("\\/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_visits_schemas_and_their_paths() {
        let cases = [
            (r#"{"type":"string"}"#, "( type=\"string\" )/"),
            (r#"{"properties":{"a":{"x":1},"b":true}}"#, "( properties= ( x=1 )/a )/"),
            (r#"{"properties":{"a":{"properties":{"b":{}}}}}"#, "( properties= ( properties= ( )/a/b )/a )/"),
            (r#"{"items":{"properties":{"a":{}}}}"#, "( items= ( properties= ( )- )- )/"),
            (r#"{"anyOf":[{"x":1},{"y":[]}]}"#, "( anyOf= ( x=1 )- ( y= )- )/"),
            (r#"{"$defs":{"items":{"x":1}},"default":{"x":{"y":2}}}"#, "( $defs= ( x=1 )- default= )/"),
            (
                r#"{"properties":{"default":{"x":1},"properties":{}}}"#,
                "( properties= ( x=1 )/default ( )/properties )/",
            ),
            (r#"{ "a\"\\" : "b\\\"}" , "c":[1,{"d":null}] }"#, r#"( a"\="b\\\"}" c= ( d=null )- )/"#),
            (r#"{"properties":[{"x":1}]}"#, "( properties= )/"),
            ("[1]", ""),
            ("true", ""),
        ];
        for (schema, want) in cases {
            let mut seen: Vec<String> = Vec::new();
            walk(schema, &mut |step| {
                seen.push(match step {
                    Step::Enter => "(".to_owned(),
                    Step::Keyword { name, value, at } => {
                        assert!(schema[at..].starts_with(value), "{schema}");
                        format!("{name}={value}")
                    }
                    Step::Leave(path) => path.map_or(")-".to_owned(), |path| format!(")/{}", path.join("/"))),
                });
            });
            assert_eq!(seen.join(" "), want, "{schema}");
        }
    }

    #[test]
    fn broken_text_does_not_break_the_walk() {
        for text in ["", "{", "}", "]]", "{\"a", "{\"a\\", "{\"a\":", "\"", "{:,}", "{\"properties\":{\"a\":{", "é"] {
            walk(text, &mut |_| {});
        }
        let mut count = 0;
        walk(&"{\"items\":".repeat(100_000), &mut |_| count += 1);
        assert_eq!(count, 199_999);
    }

    #[test]
    fn schemas_of_objects_need_no_wrapper() {
        let cases = [
            (r#"{"type":"object"}"#, false),
            (r#"{"type":"array"}"#, true),
            (r#"{"anyOf":[]}"#, true),
            ("{}", true),
            ("true", true),
            ("null", false),
            ("7", false),
        ];
        for (schema, want) in cases {
            assert_eq!(needs_wrapper(schema), want, "{schema}");
        }
    }

    #[test]
    fn references_follow_the_schema_into_the_wrapper() {
        let cases = [
            (r#"{"type":"array","items":{"type":"integer"}}"#, r#"{"type":"array","items":{"type":"integer"}}"#),
            (
                r##"{"$ref":"#/$defs/a","$defs":{"a":{"items":{"$ref":"#"}},"b":{"$ref":"#\/x"}}}"##,
                r##"{"$ref":"#/properties/result/$defs/a","$defs":{"a":{"items":{"$ref":"#/properties/result"}},"b":{"$ref":"#/properties/result\/x"}}}"##,
            ),
            (r##"{"$ref":"#anchor"}"##, r##"{"$ref":"#anchor"}"##),
            (r##"{"$ref":"https://h/x#/a"}"##, r##"{"$ref":"https://h/x#/a"}"##),
            (r##"{"$id":"https://h/x","$ref":"#/a"}"##, r##"{"$id":"https://h/x","$ref":"#/a"}"##),
            (
                r##"{"allOf":[{"$ref":"#/a","$id":"i"},{"$ref":"#/b"}]}"##,
                r##"{"allOf":[{"$ref":"#/a","$id":"i"},{"$ref":"#/properties/result/b"}]}"##,
            ),
            (r##"{"const":{"$ref":"#/a"}}"##, r##"{"const":{"$ref":"#/a"}}"##),
            (
                r##"{"properties":{"$ref":{"const":1},"const":{"$ref":"#/a"}}}"##,
                r##"{"properties":{"$ref":{"const":1},"const":{"$ref":"#/properties/result/a"}}}"##,
            ),
            ("true", "true"),
        ];
        for (schema, want) in cases {
            let want = format!(r#"{{"type":"object","properties":{{"result":{want}}},"required":["result"]}}"#);
            assert_eq!(wrapped(schema), want, "{schema}");
        }
        let dialect =
            r#"{"$schema":"d","type":"object","properties":{"result":{"type":"null"}},"required":["result"]}"#;
        assert_eq!(wrapped(r#"{"$schema":"d","type":"null"}"#), dialect);
    }
}
