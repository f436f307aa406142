//! `--record FILE`: the component's recording, kept by the host. Each line is
//! written at once and whole, so that a crash loses none that was made. What
//! is in a line is the component's business; the host only sees to it that the
//! file is new, so that nothing is overwritten and no link is followed, that no
//! one else can read it, and that the user's credentials, which the component
//! does not know, are not in it either.

mod mask;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use mask::Mask;

use crate::note;

/// A shorter piece of a path is a name.
const SHORTEST_SEGMENT: usize = 16;

/// A recording under way.
pub struct Recording {
    path: PathBuf,
    /// Gone when it could not be written to: the session matters more.
    file: Option<File>,
    lines: u64,
    mask: Mask,
}

impl Recording {
    /// Begins a recording in `path`, where nothing is yet. No line of it will
    /// have one of the `secrets` inside.
    pub fn new<'a>(path: &Path, secrets: impl IntoIterator<Item = &'a [u8]>) -> io::Result<Self> {
        let file = Some(open(path)?);
        Ok(Self { path: path.to_owned(), file, lines: 0, mask: Mask::new(secrets) })
    }

    /// Writes one line, which ends with LF.
    pub fn write(&mut self, mut line: Vec<u8>) {
        // The first says how the component was started; no peer has a word in it.
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

/// What of a URL may be a key: the values of its query, and long pieces of its
/// path.
pub fn keys(url: &str) -> impl Iterator<Item = &[u8]> {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let segments = place.split('/').skip(3).filter(|segment| segment.len() >= SHORTEST_SEGMENT);
    let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
    segments.chain(values).map(str::as_bytes)
}

/// Only ever a file that did not exist. The system looks and creates in one
/// step, and follows no link in place of the file, also none that dangles.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map_err(|error| match error.kind() == io::ErrorKind::AlreadyExists {
        true => taken(path),
        false => error,
    })
}

/// What is in the way, and what to do about it.
fn taken(path: &Path) -> io::Error {
    let found = fs::symlink_metadata(path).map(|found| found.file_type());
    let remedy = match found {
        Ok(found) if found.is_symlink() => "this is a symbolic link, which is not followed: name a new file",
        Ok(found) if !found.is_file() => "this is not a file: name a new one",
        Ok(_) | Err(_) => "this file exists and is not overwritten: name a new one, or remove it first",
    };
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
        let mut recording = Recording::new(&path, [&b"s3cret-word"[..]]).unwrap();
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

    fn refusal(path: &Path) -> String {
        Recording::new(path, []).err().unwrap().to_string()
    }

    #[test]
    fn what_is_there_is_not_overwritten() {
        let path = folder("taken").join("run");
        fs::write(&path, "something that was there before").unwrap();
        assert!(refusal(&path).contains("remove it first"), "{}", refusal(&path));
        assert_eq!(fs::read_to_string(&path).unwrap(), "something that was there before");
        assert!(refusal(path.parent().unwrap()).contains("not a file"));
        fs::remove_file(&path).unwrap();
        let first = Recording::new(&path, []).unwrap();
        assert!(refusal(&path).contains("remove it first"), "two recordings must not share a file");
        drop(first);
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn no_link_is_followed() {
        let folder = folder("link");
        let (aim, link) = (folder.join("aim"), folder.join("link"));
        std::os::unix::fs::symlink(&aim, &link).unwrap();
        assert!(refusal(&link).contains("symbolic link"), "a link that dangles: {}", refusal(&link));
        assert!(!aim.exists());
        fs::write(&aim, "kept").unwrap();
        assert!(refusal(&link).contains("symbolic link"), "{}", refusal(&link));
        assert_eq!(fs::read_to_string(&aim).unwrap(), "kept");
        fs::remove_dir_all(folder).unwrap();
    }
}
