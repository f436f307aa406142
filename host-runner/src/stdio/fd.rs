//! Non-blocking stdin and stdout on Linux.
//!
//! `O_NONBLOCK` belongs to the open file description, which parent, siblings and
//! terminals share, so it must not be set on fd 0 and 1. For a pipe, the host opens its
//! own description through /proc; for a socket, it uses a flag on each call. A thread
//! handles everything else.

use std::{
    io,
    os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd},
};

use rustix::{
    fs::{FileType, Mode, OFlags},
    net::{RecvFlags, SendFlags},
};
use tokio::io::{Interest, unix::AsyncFd};

#[derive(Debug)]
pub(super) struct Fd {
    fd: OwnedFd,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Pipe,
    Socket,
}

impl Fd {
    pub(super) fn stdin() -> Option<AsyncFd<Self>> {
        let fd = Self::open(rustix::stdio::stdin(), OFlags::RDONLY)?;
        fd.register(Interest::READABLE)
    }

    pub(super) fn stdout() -> Option<AsyncFd<Self>> {
        let fd = Self::open(rustix::stdio::stdout(), OFlags::WRONLY)?;
        fd.register(Interest::WRITABLE)
    }

    fn register(self, interest: Interest) -> Option<AsyncFd<Self>> {
        #[expect(unsafe_code, reason = "the descriptor is owned, and neither closed nor replaced while registered")]
        let registered = unsafe { AsyncFd::register_with_interest(self, interest) };
        registered.ok()
    }

    fn open(shared: BorrowedFd<'_>, access: OFlags) -> Option<Self> {
        let mode = rustix::fs::fstat(shared).ok()?.st_mode;
        match FileType::from_raw_mode(mode) {
            FileType::Fifo => {
                let path = format!("/proc/self/fd/{}", shared.as_raw_fd());
                let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
                let fd = rustix::fs::open(path, flags, Mode::empty()).ok()?;
                let kind = Kind::Pipe;
                Some(Self { fd, kind })
            }
            FileType::Socket => {
                let fd = shared.try_clone_to_owned().ok()?;
                let kind = Kind::Socket;
                Some(Self { fd, kind })
            }
            FileType::RegularFile
            | FileType::Directory
            | FileType::Symlink
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown => None,
        }
    }

    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = match self.kind {
            Kind::Pipe => rustix::io::read(&self.fd, buffer)?,
            Kind::Socket => rustix::net::recv(&self.fd, buffer, RecvFlags::DONTWAIT)?.0,
        };
        Ok(read)
    }

    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let written = match self.kind {
            Kind::Pipe => rustix::io::write(&self.fd, bytes)?,
            Kind::Socket => rustix::net::send(&self.fd, bytes, flags)?,
        };
        Ok(written)
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{ErrorKind, PipeReader, PipeWriter, pipe},
        os::{fd::AsFd, unix::net::UnixStream},
    };

    use super::*;

    fn is_nonblocking(fd: impl AsFd) -> bool {
        rustix::fs::fcntl_getfl(fd).unwrap().contains(OFlags::NONBLOCK)
    }

    fn fill(fd: &Fd) -> usize {
        let mut total = 0;
        loop {
            match fd.write(&[b'x'; 4096]) {
                Ok(length) => total += length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return total,
                Err(error) => panic!("{error}"),
            }
        }
    }

    #[test]
    fn a_full_or_empty_pipe_does_not_block_and_the_shared_flags_stay() {
        let (reader, writer): (PipeReader, PipeWriter) = pipe().unwrap();
        let output = Fd::open(writer.as_fd(), OFlags::WRONLY).unwrap();
        let input = Fd::open(reader.as_fd(), OFlags::RDONLY).unwrap();
        let mut buffer = vec![0; 1 << 20];
        assert_eq!(input.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
        let written = fill(&output);
        assert_eq!(input.read(&mut buffer).unwrap(), written);
        assert!(!is_nonblocking(&reader) && !is_nonblocking(&writer));
        drop((writer, output));
        assert_eq!(input.read(&mut buffer).unwrap(), 0);
    }

    #[test]
    fn a_full_or_empty_socket_does_not_block_and_the_shared_flags_stay() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let fd = Fd::open(ours.as_fd(), OFlags::RDWR).unwrap();
        assert_eq!(fd.read(&mut [0; 9]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(fill(&fd) > 0 && !is_nonblocking(&ours));
        drop(theirs);
        let error = fd.write(b"x").unwrap_err().kind();
        assert!([ErrorKind::BrokenPipe, ErrorKind::ConnectionReset].contains(&error), "{error}");
    }

    #[test]
    fn a_regular_file_is_left_to_a_thread() {
        let file = std::fs::File::open("/proc/self/exe").unwrap();
        assert!(Fd::open(file.as_fd(), OFlags::RDONLY).is_none());
    }
}
