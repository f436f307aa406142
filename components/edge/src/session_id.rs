//! The public id of a session: `<place>.<secret>`. The place says where the
//! session is served and may be known; the secret cannot be guessed, and only
//! the session knows it.

use subtle::ConstantTimeEq;

/// The id of the session that is served at this place.
#[must_use]
pub fn write(place: &str, secret: &str) -> String {
    format!("{place}.{secret}")
}

/// Where the session of this id is served; none for what cannot be an id.
#[must_use]
pub fn place(id: &str) -> Option<&str> {
    let (place, secret) = id.split_once('.')?;
    (!place.is_empty() && !secret.is_empty()).then_some(place)
}

/// Whether two ids are the same, in a time that does not depend on how much of
/// them agrees.
#[must_use]
pub fn same(one: &str, other: &str) -> bool {
    one.as_bytes().ct_eq(other.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_a_place_and_a_secret() {
        assert_eq!(place(&write("abc", "123")), Some("abc"));
        for (id, expected) in
            [("a.b", Some("a")), ("a.b.c", Some("a")), ("a", None), ("a.", None), (".b", None), (".", None), ("", None)]
        {
            assert_eq!(place(id), expected, "{id}");
        }
    }

    #[test]
    fn ids_are_the_same_byte_for_byte() {
        for (one, other, expected) in
            [("a.b", "a.b", true), ("a.b", "a.B", false), ("a.b", "a.bc", false), ("", "", true)]
        {
            assert_eq!(same(one, other), expected, "{one} {other}");
        }
    }
}
