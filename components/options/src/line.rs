//! Splits a command line into arguments and options, without interpreting the values: what
//! has a value, what is unknown, and what the command does not accept.

use std::iter::Peekable;

use crate::{
    Shell, UsageError,
    command::CommandSpec,
    table::{self, Kind, Own, Show, Spec, TABLE},
};

/// A command line, taken apart.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) operands: Vec<String>,
    pub(crate) options: Vec<Given>,
}

/// An option, and its value or the empty text.
pub(crate) struct Given {
    pub(crate) spec: &'static Spec,
    pub(crate) value: String,
}

/// What the words after the command say.
pub(crate) enum Words {
    Line(Line),
    /// Nothing but to show a text.
    Show(Show),
}

impl Line {
    pub(crate) fn has(&self, own: Own) -> bool {
        self.value(own).is_some()
    }

    /// The last value of a command's own option.
    pub(crate) fn value(&self, own: Own) -> Option<&str> {
        let given = self.options.iter().rfind(|given| matches!(given.spec.kind, Kind::Own(other) if other == own));
        given.map(|given| given.value.as_str())
    }
}

pub(crate) fn read(
    shell: Shell,
    command: &CommandSpec,
    args: &mut Peekable<impl Iterator<Item = String>>,
) -> Result<Words, UsageError> {
    let mut line = Line::default();
    let mut only_operands = false;
    while let Some(arg) = args.next() {
        if only_operands || arg == "-" || !arg.starts_with('-') {
            line.operands.push(arg);
        } else if arg == "--" {
            only_operands = true;
        } else {
            let given = option(shell, command, &arg, args)?;
            if let Kind::Show(show) = given.spec.kind {
                return Ok(Words::Show(show));
            }
            line.options.push(given);
        }
    }
    Ok(Words::Line(line))
}

/// The option that an argument names, with its value: inline, or the next argument.
fn option(
    shell: Shell,
    command: &CommandSpec,
    arg: &str,
    args: &mut Peekable<impl Iterator<Item = String>>,
) -> Result<Given, UsageError> {
    let (name, inline) = match arg.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (arg, None),
    };
    let spec = named(shell, command, name)?;
    if !spec.takes_value() {
        let given = Given { spec, value: String::new() };
        return inline
            .map_or(Ok(given), |_| Err(UsageError::new(format!("{} takes no value: remove `=…`", spec.name))));
    }
    let value = inline.or_else(|| args.next_if(|next| table::find(next).is_none()));
    let value = value.filter(|text| !text.is_empty());
    value.map(|value| Given { spec, value }).ok_or_else(|| no_value(spec))
}

fn named(shell: Shell, command: &CommandSpec, name: &str) -> Result<&'static Spec, UsageError> {
    let spec = table::find(name).filter(|spec| shell == Shell::Component || !matches!(spec.kind, Kind::Inner));
    let spec = spec.ok_or_else(|| unknown(shell, command, name))?;
    match (spec.kind, shell) {
        _ if !command.accepts(spec) => Err(useless(spec, command)),
        (Kind::Native(_), Shell::Component) => Err(UsageError::new(format!(
            "{} does not work inside wasmtime: only the native mcp-proxy can do it",
            spec.name
        ))),
        _ => Ok(spec),
    }
}

fn no_value(spec: &Spec) -> UsageError {
    let Spec { name, value, .. } = spec;
    UsageError::new(format!("{name} has no value: write {name} {value}"))
}

fn useless(spec: &Spec, command: &CommandSpec) -> UsageError {
    UsageError::new(format!("{} does nothing in `{}`: remove it", spec.name, command.words()))
}

fn unknown(shell: Shell, command: &CommandSpec, name: &str) -> UsageError {
    let offered = TABLE.iter().filter(|spec| {
        let own = matches!(spec.kind, Kind::Own(_));
        spec.offered_in(shell) && (!own || command.accepts(spec))
    });
    let names = offered.flat_map(|spec| spec.aliases.iter().copied().chain([spec.name]));
    let hint = match table::nearest(names.filter(|name| name.starts_with("--")), name, 3) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => "see --help".to_owned(),
    };
    UsageError::new(format!("unknown option {name}: {hint}"))
}
