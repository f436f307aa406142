//! The help, the completions and the manual pages. `clap` renders them from the table of
//! options; the parser stays the one that the component has too.

use clap::{
    Arg, ArgAction, Command, ValueHint,
    builder::{PossibleValuesParser, ValueParser},
};
use mcp_proxy_options::{CommandSpec, Group, Operand, Shell, Spec, notes};

const PROGRAM: &str = "mcp-proxy";

/// Prints the help for a command to stdout, with colours on a terminal.
pub fn print_help(spec: &CommandSpec) -> std::io::Result<()> {
    let mut program = program();
    program.build();
    find(&program, spec).print_help()
}

/// The manual page of a command, in roff.
pub fn page(spec: &CommandSpec) -> std::io::Result<Vec<u8>> {
    let mut program = program();
    program.build();
    let mut page = Vec::new();
    clap_mangen::Man::new(find(&program, spec)).render(&mut page)?;
    Ok(page)
}

/// A script that completes command lines in a shell, if we know the shell.
pub fn completions(shell: &str) -> Option<Vec<u8>> {
    let shell: clap_complete::Shell = shell.parse().ok()?;
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut program(), PROGRAM, &mut script);
    Some(script)
}

fn program() -> Command {
    let (mains, others): (Vec<_>, Vec<_>) = CommandSpec::all().iter().partition(|spec| spec.name.is_empty());
    let program = mains.into_iter().fold(Command::new(PROGRAM), describe);
    let program = program
        .version(env!("CARGO_PKG_VERSION"))
        .args_conflicts_with_subcommands(true)
        .subcommand_negates_reqs(true)
        .disable_help_subcommand(true)
        .after_help(notes(Shell::Native));
    others.into_iter().fold(plain(program), |program, spec| match spec.name.split_once(' ') {
        None => program.subcommand(plain(describe(Command::new(spec.name), spec))),
        Some((family, name)) => {
            let member = plain(describe(Command::new(name), spec));
            match program.find_subcommand(family) {
                Some(_) => program.mut_subcommand(family, |family| family.subcommand(member)),
                None => program.subcommand(plain(Command::new(family)).about(FAMILY).subcommand(member)),
            }
        }
    })
}

/// What the only commands of two words have in common.
const FAMILY: &str = "Shows what is known about logins.";

/// The table brings its own `--help` and `--version`.
fn plain(command: Command) -> Command {
    command.disable_help_flag(true).disable_version_flag(true)
}

fn describe(command: Command, spec: &CommandSpec) -> Command {
    let operands = spec.operands.iter().enumerate().map(|(at, operand)| positional(at, operand));
    command.about(spec.about).args(operands).args(spec.options().map(option))
}

fn positional(at: usize, operand: &Operand) -> Arg {
    let hint = match operand.name {
        "FILE" => ValueHint::FilePath,
        "URL" => ValueHint::Url,
        _ => ValueHint::Other,
    };
    let arg = Arg::new(operand.name).index(at + 1).required(!operand.optional).help(operand.help).value_hint(hint);
    arg.value_parser(values(operand.choices))
}

fn option(spec: &Spec) -> Arg {
    let long = |name: &'static str| name.strip_prefix("--");
    let arg = Arg::new(spec.name).help(spec.help).help_heading(heading(spec.group));
    let arg = arg.long(long(spec.name).unwrap_or(spec.name));
    let arg = spec.aliases.iter().fold(arg, |arg, alias| match (long(alias), alias.chars().nth(1)) {
        (Some(name), _) => arg.visible_alias(name),
        (None, Some(letter)) => arg.short(letter),
        (None, None) => arg,
    });
    if spec.value.is_empty() {
        return arg.action(ArgAction::SetTrue);
    }
    let hint = match spec.value {
        "FILE" => ValueHint::FilePath,
        "URL" => ValueHint::Url,
        "CMD" => ValueHint::CommandName,
        _ => ValueHint::Other,
    };
    // The help text names the values.
    let arg = arg.value_name(spec.value).action(ArgAction::Append).hide_possible_values(true);
    arg.value_parser(values(spec.choices)).value_hint(hint)
}

/// The options that belong to a command come first, under the usual heading.
fn heading(group: Group) -> Option<&'static str> {
    (group != Group::General).then(|| group.heading())
}

fn values(choices: &'static [&'static str]) -> ValueParser {
    match choices {
        [] => ValueParser::string(),
        choices => PossibleValuesParser::new(choices).into(),
    }
}

fn find(program: &Command, spec: &CommandSpec) -> Command {
    let words = spec.name.split_whitespace();
    words.fold(program.clone(), |command, word| command.find_subcommand(word).cloned().unwrap_or(command))
}
