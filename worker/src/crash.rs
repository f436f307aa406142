//! Panics at a client's word, so that a test can see what becomes of the other
//! sessions. Only a build for that test has this.

#![allow(clippy::panic, reason = "that is what it is for")]

use wasm_bindgen_futures::spawn_local;

const AT_ONCE: &[u8] = b"crash at once";
const IN_A_TASK: &[u8] = b"crash in a task";

/// Panics if the body says so: where a request is answered, or in a task.
pub(crate) fn at_word_of(body: &[u8]) {
    let says = |words: &[u8]| body.windows(words.len()).any(|window| window == words);
    assert!(!says(AT_ONCE), "a crash on purpose");
    if says(IN_A_TASK) {
        spawn_local(async { panic!("a crash on purpose") });
    }
}
