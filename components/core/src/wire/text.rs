//! Text from peers that people read.

/// Whether a character could control a terminal: a control character, one that changes
/// the text direction, or an invisible one.
#[must_use]
pub fn steers(letter: char) -> bool {
    let hidden =
        matches!(letter, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    letter.is_control() || hidden
}
