//! `front`: the whole machine as a Streamable HTTP server, with a hostile shell
//! that feeds it raw facts, held against the laws that need no model.

use crate::driver::{Driver, Outcome};

pub(crate) fn front(data: &[u8]) {
    let whole = play(data, usize::MAX);
    for size in [1, 7] {
        let cut = play(data, size);
        assert_eq!(cut, whole, "in pieces of {size}");
    }
}

fn play(data: &[u8], size: usize) -> Outcome {
    let mut driver = Driver::http(data, size);
    driver.play();
    driver.end()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call is parked, the client repeats it, and the server's answer is its answer.
    #[test]
    fn an_input_of_the_corpus_parks_a_call_and_continues_it() {
        let said = play(include_bytes!("../corpus/front/parked"), usize::MAX).join("\n");
        for words in ["input_required", r#"\"id\":\"q\",\"result\":{}"#, r#"\"id\":7,\"result\""#] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
}
