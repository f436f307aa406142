//! The commands: their names, arguments and options, and what the parser makes of each.
//! The component knows only the main form and `replay`.

use std::iter::Peekable;

use crate::{
    Options, Shell, UsageError, client,
    client::ClientConfig,
    replay::{self, Replay},
    table::{self, Group, Kind, Own, Show, Spec, TABLE},
};

/// What the command line asks for.
#[derive(Debug)]
pub enum Command {
    Run(Box<Options>),
    Replay(Replay),
    /// A text for stdout.
    Print(String),
    /// The native program's help for a command.
    Help(&'static CommandSpec),
    Login(Box<Options>),
    Logout(Box<Options>),
    AuthStatus {
        json: bool,
    },
    /// Print the token, for a program that cannot log in itself.
    AuthToken(Box<Options>),
    Doctor(Doctor),
    Config(ClientConfig),
    /// For this one of [`SHELLS`].
    Completions(&'static str),
    /// The manual page of a command.
    Man(&'static CommandSpec),
}

/// Examines a server.
#[derive(Debug)]
pub struct Doctor {
    pub options: Box<Options>,
    /// The same options, as a client's configuration has them.
    pub entry: ClientConfig,
    pub json: bool,
    /// Also measure what takes minutes.
    pub deep: bool,
}

/// A command as the help, the completions and the manual describe it.
#[derive(Debug)]
pub struct CommandSpec {
    pub(crate) key: Key,
    /// One or two words; empty for the main form.
    pub name: &'static str,
    pub about: &'static str,
    pub operands: &'static [Operand],
    takes: Takes,
    own: &'static [Own],
}

/// An argument that is not an option.
#[derive(Debug)]
pub struct Operand {
    pub name: &'static str,
    pub help: &'static str,
    pub choices: &'static [&'static str],
    /// Whether the command works without it.
    pub optional: bool,
    /// What an error says if it is missing, or if there is one too many.
    missing: &'static str,
    excess: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Key {
    Run,
    Login,
    Logout,
    AuthStatus,
    AuthToken,
    Doctor,
    Config,
    Replay,
    Completions,
    Man,
    Help,
}

/// Which options of the main form a command accepts.
#[derive(Debug)]
enum Takes {
    /// All of them, so that one list of arguments serves several commands. The help shows
    /// those of the groups that matter.
    Every(&'static [Group]),
    Only(&'static [&'static str]),
}

const URL: Operand = Operand {
    name: "URL",
    help: "the server, like https://host/mcp",
    choices: &[],
    optional: false,
    missing: "no URL was given: say which server, like https://host/mcp (see --help)",
    excess: "more than one URL was given: give exactly one",
};

const RECORDING: Operand = Operand {
    name: "FILE",
    help: "a recording of --record",
    choices: &[],
    optional: false,
    missing: "no recording was given: write mcp-proxy replay FILE",
    excess: "more than one recording was given: give exactly one",
};

const CLIENT: Operand = Operand {
    name: "CLIENT",
    help: "the program that has to use the server",
    choices: &client::NAMES,
    optional: false,
    missing: "no client was given: write mcp-proxy config CLIENT URL (see mcp-proxy config --help)",
    excess: URL.excess,
};

const SHELL: Operand = Operand {
    name: "SHELL",
    help: "the shell that has to complete your command lines",
    choices: &SHELLS,
    optional: false,
    missing: "no shell was given: write mcp-proxy completions SHELL with bash, elvish, fish, powershell or zsh",
    excess: "more than one shell was given: give exactly one",
};

const OF_COMMAND: Operand = Operand {
    name: "COMMAND",
    help: "the command to describe",
    choices: &[],
    optional: true,
    missing: "",
    excess: "more than one command was given: give one at most",
};

/// The shells that complete command lines.
pub const SHELLS: [&str; 5] = ["bash", "elvish", "fish", "powershell", "zsh"];

const ALL: &[Group] = &[
    Group::General,
    Group::Server,
    Group::Headers,
    Group::Authorization,
    Group::Limits,
    Group::Network,
    Group::Diagnosis,
];
const ASKING: &[Group] = &[Group::General, Group::Headers, Group::Authorization, Group::Network, Group::Diagnosis];
const NONE: Takes = Takes::Only(&[]);

#[rustfmt::skip]
static COMMANDS: [CommandSpec; 11] = [
    command(Key::Run, "", "Connects an MCP client on stdin and stdout to the MCP server at URL.", &[URL], Takes::Every(ALL)),
    command(Key::Login, "login", "Logs in at the server's authorization server, and keeps the tokens.", &[URL], Takes::Every(ASKING)),
    command(Key::Logout, "logout", "Revokes and forgets the tokens for the server.", &[URL], Takes::Every(ASKING)),
    command(Key::AuthStatus, "auth status", "Lists the servers with stored tokens, their scopes and when they expire.", &[], NONE).own(&[Own::Json]),
    command(Key::AuthToken, "auth token", "Prints the token for the server, renewed if necessary, for a program that cannot log in itself.", &[URL], Takes::Every(ASKING)),
    command(Key::Doctor, "doctor", "Examines the server and says what is wrong, and what to put into your client.", &[URL], Takes::Every(ASKING)).own(&[Own::Deep, Own::Json]),
    command(Key::Config, "config", "Prints the configuration for a client; with --write, adds it to the client's file. Further options become part of it.", &[CLIENT, URL], Takes::Every(ALL)).own(&[Own::Name, Own::Write, Own::Yes, Own::Force]),
    command(Key::Replay, "replay", "Plays a recording again, offline, and shows each input and what the proxy did with it.", &[RECORDING], Takes::Only(&["--debug", "--component"])),
    command(Key::Completions, "completions", "Prints a script that completes command lines.", &[SHELL], NONE),
    command(Key::Man, "man", "Prints the manual page, in roff.", &[OF_COMMAND], NONE),
    command(Key::Help, "help", "Prints the help for a command.", &[OF_COMMAND], NONE),
];

const fn command(
    key: Key,
    name: &'static str,
    about: &'static str,
    operands: &'static [Operand],
    takes: Takes,
) -> CommandSpec {
    CommandSpec { key, name, about, operands, takes, own: &[] }
}

impl CommandSpec {
    /// All commands, the main form first.
    pub fn all() -> &'static [Self] {
        &COMMANDS
    }

    /// The options that the native program's help lists.
    pub fn options(&self) -> impl Iterator<Item = &'static Spec> {
        TABLE.iter().filter(|spec| spec.offered_in(Shell::Native) && self.lists(spec))
    }

    /// How to write the command, like `mcp-proxy login`.
    pub fn words(&self) -> String {
        format!("mcp-proxy {}", if self.name.is_empty() { "URL" } else { self.name })
    }

    pub(crate) fn accepts(&self, spec: &Spec) -> bool {
        match (spec.kind, &self.takes) {
            (Kind::Show(_), _) => true,
            (Kind::Own(own), _) => self.own.contains(&own),
            (_, Takes::Every(_)) => true,
            (_, Takes::Only(names)) => names.contains(&spec.name),
        }
    }

    /// The number of arguments is right.
    pub(crate) fn check_operands(&self, shell: Shell, given: &[String]) -> Result<(), UsageError> {
        if shell == Shell::Component && self.key == Key::Replay {
            return replay::check_operands(given);
        }
        if let Some(spec) = given.first().and_then(|word| misplaced(self, word)) {
            return Err(UsageError::new(format!("the command comes first: write {} …", spec.words())));
        }
        let missing = self.operands.get(given.len()).filter(|operand| !operand.optional);
        match (missing, self.operands.last()) {
            (Some(operand), _) => Err(UsageError::new(operand.missing)),
            (None, _) if given.len() <= self.operands.len() => Ok(()),
            (None, Some(operand)) => Err(UsageError::new(operand.excess)),
            (None, None) => Err(UsageError::new(format!("{} takes no arguments: remove them", self.words()))),
        }
    }

    fn lists(&self, spec: &Spec) -> bool {
        let matters = match &self.takes {
            Takes::Every(groups) => groups.contains(&spec.group),
            Takes::Only(_) => true,
        };
        matters && self.accepts(spec)
    }

    fn works_in(&self, shell: Shell) -> bool {
        shell == Shell::Native || matches!(self.key, Key::Run | Key::Replay)
    }

    const fn own(mut self, own: &'static [Own]) -> Self {
        self.own = own;
        self
    }
}

/// Takes the words of the command off the arguments; without any, it is the main form.
pub(crate) fn begin(
    shell: Shell,
    args: &mut Peekable<impl Iterator<Item = String>>,
) -> Result<&'static CommandSpec, UsageError> {
    let [main, others @ ..] = &COMMANDS;
    let Some(word) = args.next_if(|arg| others.iter().any(|spec| first_word(spec) == arg)) else {
        let mistaken = args.peek().and_then(|word| nearest(word).map(|name| (word, name)));
        return mistaken.filter(|_| shell == Shell::Native).map_or(Ok(main), |(word, name)| Err(mistyped(word, name)));
    };
    let named: Vec<_> = others.iter().filter(|spec| first_word(spec) == word).collect();
    if !named.iter().all(|spec| spec.works_in(shell)) {
        return Err(UsageError::new(format!(
            "{word} does not work inside wasmtime: only the native mcp-proxy can do it"
        )));
    }
    by_second_word(&named, args).map(|spec| spec.unwrap_or(main))
}

/// The command whose word follows an option.
fn misplaced(spec: &CommandSpec, word: &str) -> Option<&'static CommandSpec> {
    let mut others = COMMANDS.iter().filter(|other| other.key != Key::Run);
    others.find(|other| spec.key == Key::Run && first_word(other) == word)
}

fn first_word(spec: &CommandSpec) -> &'static str {
    spec.name.split_once(' ').map_or(spec.name, |(first, _)| first)
}

/// The command that the second word chooses, or the first one if a request for help follows.
fn by_second_word(
    named: &[&'static CommandSpec],
    args: &mut Peekable<impl Iterator<Item = String>>,
) -> Result<Option<&'static CommandSpec>, UsageError> {
    let second = |spec: &CommandSpec| spec.name.split_once(' ').map(|(_, second)| second);
    let Some(first) = named.iter().copied().find(|spec| second(spec).is_some()) else {
        return Ok(named.first().copied());
    };
    let help = |arg: &String| table::find(arg).is_some_and(|spec| matches!(spec.kind, Kind::Show(_)));
    if args.peek().is_some_and(help) {
        return Ok(Some(first));
    }
    let word = args.next_if(|arg| named.iter().any(|spec| second(spec) == Some(arg)));
    let chosen = word.and_then(|word| named.iter().copied().find(|spec| second(spec) == Some(&*word)));
    let forms: Vec<String> = named.iter().map(|spec| spec.words()).collect();
    chosen.map(Some).ok_or_else(|| UsageError::new(format!("the command is incomplete: write {}", forms.join(" or "))))
}

/// The command that the user probably meant.
fn nearest(word: &str) -> Option<&'static str> {
    let letters = word.bytes().all(|letter| letter.is_ascii_lowercase());
    let names = COMMANDS.iter().map(first_word).filter(|name| !name.is_empty());
    table::nearest(names, word, word.len().saturating_sub(1) / 2).filter(|_| letters)
}

fn mistyped(word: &str, name: &str) -> UsageError {
    UsageError::new(format!("`{word}` is neither a URL nor a command: did you mean {name}?"))
}

/// The command that `man` and `help` describe.
pub(crate) fn described(operands: &[String]) -> Result<&'static CommandSpec, UsageError> {
    let name = operands.first().map_or("", String::as_str);
    let spec = COMMANDS.iter().find(|spec| spec.name == name || first_word(spec) == name);
    spec.ok_or_else(|| UsageError::new(format!("`{name}` is no command: see mcp-proxy --help")))
}

/// What the options that show something lead to.
pub(crate) fn show(shell: Shell, spec: &'static CommandSpec, show: Show) -> Command {
    match (show, shell) {
        (Show::Version, _) => Command::Print(crate::help::version()),
        (Show::Help, Shell::Component) => Command::Print(crate::help::text()),
        (Show::Help, Shell::Native) => Command::Help(spec),
    }
}
