//! `replay`: plays a recording, without a client and without a server.

use std::path::PathBuf;

use crate::{
    UsageError,
    line::Line,
    parse::{Env, debug},
    table::Kind,
};

/// The command word.
const WORD: &str = "replay";

/// Replays a recording, without a client and without a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replay {
    /// Always set in [`Shell::Native`]; a component reads its stdin.
    pub file: Option<PathBuf>,
    pub component: Option<PathBuf>,
    pub debug: bool,
}

impl Replay {
    /// The arguments that the host passes to the component.
    pub fn guest_args(&self) -> Vec<String> {
        let mut args = vec![WORD.to_owned()];
        args.extend(self.debug.then(|| "--debug".to_owned()));
        args
    }
}

/// A component opens no files.
pub(crate) fn check_operands(given: &[String]) -> Result<(), UsageError> {
    match given {
        [] => Ok(()),
        _ => Err(UsageError::new("replay cannot open files here: give it the recording on stdin")),
    }
}

pub(crate) fn parse(line: Line, env: Env<'_>) -> Replay {
    let file = line.operands.into_iter().next().map(Into::into);
    let mut replay = Replay { file, component: None, debug: debug(env) };
    for given in line.options {
        match given.spec.kind {
            Kind::Native(_) => replay.component = Some(given.value.into()),
            Kind::Debug => replay.debug = true,
            Kind::LogBodies | Kind::Shared(_) | Kind::Own(_) | Kind::Inner | Kind::Show(_) => {}
        }
    }
    replay
}
