//! Panics on a client's request, so that a test can see what happens to the other
//! sessions. Only the build for that test contains this.

#![allow(clippy::panic, reason = "that is what it is for")]

use wasm_bindgen_futures::spawn_local;

const AT_ONCE: &[u8] = b"crash at once";
const IN_A_TASK: &[u8] = b"crash in a task";

/// Panics if the body asks for it: in the request handler, or in a task.
pub(crate) fn at_word_of(body: &[u8]) {
    let says = |words: &[u8]| body.windows(words.len()).any(|window| window == words);
    assert!(!says(AT_ONCE), "a crash on purpose");
    if says(IN_A_TASK) {
        spawn_local(async { panic!("a crash on purpose") });
    }
}
