//! `--record FILE`: the component's recording, written by the host. The host writes each
//! line at once and whole, so that a crash loses no finished line. The component decides
//! the contents. The host makes sure that the file is new, so that it overwrites nothing
//! and follows no link; that only the user can read it; and that it contains none of the
//! user's credentials, which the component does not know. A client starts the same
//! command line every time, so if FILE exists, the recording gets a number
//! (`run-2.jsonl`).

mod mask;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
};

pub use mask::Mask;

use crate::note;

/// How many numbers to try.
const MOST_FILES: u32 = 1000;
/// A shorter path segment is a name, not a key.
const SHORTEST_SEGMENT: usize = 16;

/// A recording under way.
pub struct Recording {
    path: PathBuf,
    /// `None` after a write error: the session matters more than its recording.
    file: Option<File>,
    lines: u64,
    mask: Arc<Mask>,
}

impl Recording {
    /// Starts a recording in `path`, or beside it if that exists. The mask covers every
    /// secret in it.
    pub fn new(path: &Path, mask: Arc<Mask>) -> io::Result<Self> {
        let (used, file) = create(path)?;
        if used != path {
            note::line(&format!("[RECORD] {} exists: the recording goes to {}", path.display(), used.display()));
        }
        Ok(Self { path: used, file: Some(file), lines: 0, mask })
    }

    /// Writes one line, which ends with LF.
    pub fn write(&mut self, mut line: Vec<u8>) {
        // The first line describes how the component was started; no peer wrote any of
        // it.
        if self.lines > 0 {
            self.mask.cover(&mut line);
        }
        self.lines += 1;
        let written = self.file.as_mut().map_or(Ok(()), |file| file.write_all(&line));
        if let Err(error) = written {
            note::line(&format!("[RECORD] {}: {error}: the recording ends here", self.path.display()));
            self.file = None;
        }
    }
}

/// The parts of a URL that may be keys: the values of its query, and long segments of its
/// path.
pub fn keys(url: &str) -> impl Iterator<Item = &[u8]> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let segments = place.split('/').skip(3).filter(|segment| segment.len() >= SHORTEST_SEGMENT);
    let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    segments.chain(values).map(str::as_bytes)
}

/// Creates `path`, or the first of its numbered names that does not exist.
fn create(path: &Path) -> io::Result<(PathBuf, File)> {
    if is_no_file(path) {
        return Err(taken("this is not a file: name one"));
    }
    let numbers = (2..=MOST_FILES).map(|number| numbered(path, number));
    for name in std::iter::once(path.to_owned()).chain(numbers) {
        match open(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (name, file)),
        }
    }
    Err(taken("this file and its numbers up to 1000 exist: remove some, or name another file"))
}

/// `run.jsonl`, `run-2.jsonl`, and so on.
fn numbered(path: &Path, number: u32) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(format!("-{number}"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// Creates a new file. The system checks and creates in one step and follows no link, not
/// even a dangling one.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// A user who names a directory or a device does not want a file beside it.
fn is_no_file(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| !found.is_file() && !found.is_symlink())
}

fn taken(remedy: &str) -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("mcp-proxy-record-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn a_recording_is_private_and_has_no_secret_in_it() {
        let path = folder("private").join("run");
        let mut recording = Recording::new(&path, Arc::new(Mask::new([&b"s3cret-word"[..]]))).unwrap();
        recording.write(b"first\n".to_vec());
        recording.write(b"a s3cret-word\n".to_vec());
        assert_eq!(fs::read_to_string(&path).unwrap(), "first\na ***********\n");
        #[cfg(unix)]
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&fs::metadata(&path).unwrap().permissions()) & 0o777, 0o600);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[test]
    fn a_url_may_hold_keys() {
        let found = |url| keys(url).map(|key| String::from_utf8_lossy(key).into_owned()).collect::<Vec<_>>();
        assert_eq!(found("https://long-name-of-a-host.example/mcp"), [""]);
        assert_eq!(found("https://h/s/0123456789abcdef/mcp?a=b&c"), ["0123456789abcdef", "b", "c"]);
    }

    fn nothing() -> Arc<Mask> {
        Arc::new(Mask::new([]))
    }

    fn used(path: &Path) -> String {
        let recording = Recording::new(path, nothing()).unwrap();
        recording.path.file_name().unwrap().to_str().unwrap().to_owned()
    }

    fn refusal(path: &Path) -> String {
        Recording::new(path, nothing()).err().unwrap().to_string()
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let folder = folder("taken");
        let path = folder.join("run.x.log");
        fs::write(&path, "something that was there before").unwrap();
        fs::create_dir(folder.join("run.x-3.log")).unwrap();
        let first = Recording::new(&path, nothing()).unwrap();
        assert!(first.path.ends_with("run.x-2.log"));
        assert_eq!(used(&path), "run.x-4.log", "two recordings must not share a file");
        assert_eq!(fs::read_to_string(&path).unwrap(), "something that was there before");
        assert!(refusal(&folder).contains("not a file"));
        let names = ["plain", ".hidden"].map(|name| [used(&folder.join(name)), used(&folder.join(name))].join(" "));
        assert_eq!(names, ["plain plain-2", ".hidden .hidden-2"]);
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn numbers_have_an_end() {
        let folder = folder("many");
        let path = folder.join("run");
        for number in 2..=MOST_FILES {
            fs::write(numbered(&path, number), "").unwrap();
        }
        assert_eq!(used(&path), "run");
        assert!(refusal(&path).contains("remove some"), "{}", refusal(&path));
        fs::remove_dir_all(folder).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed() {
        let folder = folder("link");
        let (aim, link) = (folder.join("aim"), folder.join("link"));
        std::os::unix::fs::symlink(&aim, &link).unwrap();
        std::os::unix::fs::symlink(&aim, folder.join("link-2")).unwrap();
        assert_eq!(used(&link), "link-3", "a link that dangles");
        assert!(!aim.exists());
        fs::write(&aim, "kept").unwrap();
        assert_eq!(used(&link), "link-4");
        assert_eq!(fs::read_to_string(&aim).unwrap(), "kept");
        fs::remove_dir_all(folder).unwrap();
    }
}
