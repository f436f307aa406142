//! `--record FILE`: the component's recording, kept by the host. Each line is
//! written at once and whole, so that a crash loses none that was made. What
//! is in a line is the component's business; the host only sees to it that no
//! one else can read the file, and that the user's credentials, which the
//! component does not know, are not in it either.

mod mask;

use std::{
    fs::{self, File, OpenOptions, TryLockError},
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
    /// Begins a recording in `path`, in place of what is there. No line of it
    /// will have one of the `secrets` inside.
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

/// Only ever a file of our own: a device or a pipe cannot keep a recording,
/// and two at once would be none.
fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("this is not a file"));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(path)?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => io::Error::other("another mcp-proxy records there"),
        TryLockError::Error(error) => error,
    })?;
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.set_len(0)?;
    Ok(file)
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
    fn a_recording_replaces_what_was_there_and_is_private() {
        let path = folder("private").join("run");
        fs::write(&path, "something that was there before").unwrap();
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

    #[test]
    fn two_recordings_do_not_share_a_file() {
        let path = folder("shared").join("run");
        let first = Recording::new(&path, []).unwrap();
        let refused = Recording::new(&path, []).err().unwrap().to_string();
        assert!(refused.contains("another mcp-proxy"), "{refused}");
        drop(first);
        assert!(Recording::new(&path, []).is_ok());
        assert!(Recording::new(path.parent().unwrap(), []).is_err());
        fs::remove_dir_all(path.parent().unwrap()).unwrap();
    }
}
