//! The file of a client: JSON, often with comments, which stay.

use std::{
    fs,
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use jsonc_parser::{
    ParseOptions,
    cst::{CstInputValue, CstRootNode},
    parse_to_serde_value,
};
use serde_json::Value;
use similar::TextDiff;
use tempfile::NamedTempFile;

pub(super) struct File {
    /// Where its content is, behind any links.
    path: PathBuf,
    /// Nothing if there is no such file yet.
    text: Option<String>,
}

pub(super) enum Change {
    None,
    To(String),
}

impl File {
    pub(super) fn read(path: PathBuf) -> Result<Self, String> {
        let path = fs::canonicalize(&path).unwrap_or(path);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Self { path, text: Some(text) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self { path, text: None }),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The text with an entry added, or replaced if the user `force`s it.
    pub(super) fn with(&self, member: &str, name: &str, entry: Value, force: bool) -> Result<Change, String> {
        let shown = self.path.display();
        let text = self.text();
        let explain = |error: &dyn std::error::Error| format!("{shown} is not JSON, so it stays as it is: {error}");
        let options = ParseOptions::default();
        let known = parse_to_serde_value(text, &options).map_err(|error| explain(&error))?;
        let known = known.as_ref().and_then(|file| file.get(member)?.get(name));
        if known == Some(&entry) {
            return Ok(Change::None);
        }
        if known.is_some() && !force {
            let hint = "add --force to replace it, or choose another --name";
            return Err(format!("{shown} has a different entry `{name}`: {hint}"));
        }
        let root = CstRootNode::parse(text, &options).map_err(|error| explain(&error))?;
        let servers = root.object_value_or_create().and_then(|file| file.object_value_or_create(member));
        let Some(servers) = servers else {
            return Err(format!("{shown} has no place for servers: the file and its `{member}` must be objects"));
        };
        match servers.get(name) {
            Some(entry_there) => entry_there.set_value(input(entry)),
            None => drop(servers.append(name, input(entry))),
        }
        let text = root.to_string();
        Ok(Change::To(if text.ends_with('\n') || self.text.is_some() { text } else { text + "\n" }))
    }

    /// What would change, as a unified diff.
    pub(super) fn diff(&self, text: &str) -> String {
        let name = self.path.display().to_string();
        let diff = TextDiff::from_lines(self.text(), text);
        diff.unified_diff().context_radius(1).header(&name, &name).to_string()
    }

    /// Writes the text in one step, and says where the old one is.
    pub(super) fn replace(&self, text: &str) -> Result<Option<PathBuf>, String> {
        let now = Self::read(self.path.clone())?;
        if now.text != self.text {
            return Err("another program has changed it meanwhile: try again".to_owned());
        }
        self.write(text).map_err(|error| error.to_string())
    }

    fn write(&self, text: &str) -> io::Result<Option<PathBuf>> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let mut file = NamedTempFile::new_in(folder)?;
        file.write_all(text.as_bytes())?;
        let backup = self.text.is_some().then(|| self.back_up()).transpose()?;
        if backup.is_some() {
            file.as_file().set_permissions(fs::metadata(&self.path)?.permissions())?;
        }
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(backup)
    }

    /// Copies the file to a name that is free. Nothing else ever overwrites a backup.
    fn back_up(&self) -> io::Result<PathBuf> {
        let name = |number: u32| {
            let mut name = self.path.clone().into_os_string();
            name.push(if number == 0 { ".bak".to_owned() } else { format!(".bak{number}") });
            PathBuf::from(name)
        };
        for path in (0..1000).map(name) {
            match fs::File::create_new(&path) {
                Ok(_) => return fs::copy(&self.path, &path).map(|_| path),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("there are a thousand backups: remove some"))
    }

    fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }
}

fn input(value: Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(value) => CstInputValue::Bool(value),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text),
        Value::Array(items) => CstInputValue::Array(items.into_iter().map(input).collect()),
        Value::Object(members) => {
            CstInputValue::Object(members.into_iter().map(|(name, value)| (name, input(value))).collect())
        }
    }
}
