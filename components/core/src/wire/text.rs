//! Text of peers that people read.

/// Whether a character would steer a terminal: a control character, one that
/// turns the direction of a text, or one that stands in it unseen.
#[must_use]
pub fn steers(letter: char) -> bool {
    let hidden =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || hidden
}
