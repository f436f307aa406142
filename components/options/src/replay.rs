//! `replay`: the only command besides running. It accepts a recording and the options
//! that make sense without a server.

use std::{iter::Peekable, path::PathBuf};

use crate::{
    Command, Replay, Shell, UsageError,
    parse::{Env, debug, named, value_of},
    table::{Kind, Native, Spec},
};

/// The command word, which comes first.
pub(crate) const WORD: &str = "replay";

/// Parses the arguments after the word.
pub(crate) fn parse(
    shell: Shell,
    args: &mut Peekable<impl Iterator<Item = String>>,
    env: Env<'_>,
) -> Result<Command, UsageError> {
    let mut replay = Replay { file: None, component: None, debug: debug(env) };
    let mut only_files = false;
    while let Some(arg) = args.next() {
        if only_files || !arg.starts_with('-') {
            take_file(shell, &mut replay, arg.into())?;
        } else if arg == "--" {
            only_files = true;
        } else {
            let (spec, inline) = named(shell, &arg)?;
            match spec.kind {
                Kind::Print(text) => return Ok(Command::Print(text(shell))),
                Kind::Debug => replay.debug = true,
                Kind::Native(Native::Component) if shell == Shell::Native => {
                    replay.component = Some(value_of(spec, inline, args)?.into());
                }
                Kind::LogBodies | Kind::Shared(_) | Kind::Native(_) | Kind::Inner => return Err(useless(spec)),
            }
        }
    }
    match (shell, &replay.file) {
        (Shell::Native, None) => Err(UsageError::new("no recording was given: write mcp-proxy replay FILE")),
        (Shell::Native, Some(_)) | (Shell::Component, _) => Ok(Command::Replay(replay)),
    }
}

fn take_file(shell: Shell, replay: &mut Replay, file: PathBuf) -> Result<(), UsageError> {
    if shell == Shell::Component {
        return Err(UsageError::new("replay cannot open files here: give it the recording on stdin"));
    }
    match replay.file.replace(file) {
        None => Ok(()),
        Some(_) => Err(UsageError::new("more than one recording was given: give exactly one")),
    }
}

fn useless(spec: &Spec) -> UsageError {
    UsageError::new(format!("{} does nothing in a replay: remove it", spec.name))
}
