//! The byte stream to the server or to its proxy, below the server's own TLS: a TCP
//! connection, or TLS over TCP to an https proxy.
//!
//! A hop inspects the first bytes that it reads, because hyper drops them and reports
//! only that they are not HTTP/1.1.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBuf, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::net::TcpStream;

pub(super) type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

/// Size of the first read; most response heads fit.
const FIRST: usize = 1024;

pub(super) struct Hop {
    wire: Wire,
    role: Role,
    /// The hop has read and inspected the first bytes.
    begun: bool,
}

/// The peer on this connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The server itself, perhaps through a tunnel.
    Server,
    /// A proxy that receives absolute URLs.
    Forwarder,
}

/// The server speaks HTTP/2 with prior knowledge (RFC 9113, section 3.3).
#[derive(Debug)]
pub(super) struct Http2WithoutTls;

impl Hop {
    pub(super) fn new(wire: Wire, role: Role) -> Self {
        Self { wire, role, begun: false }
    }

    /// Reads into a separate buffer, since hyper's can be written but not read.
    fn poll_first(&mut self, cx: &mut Context<'_>, mut buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; FIRST];
        let room = bytes.get_mut(..buffer.remaining().min(FIRST)).unwrap_or_default();
        let mut first = ReadBuf::new(room);
        ready!(Pin::new(&mut self.wire).poll_read(cx, first.unfilled()))?;
        self.begun = true;
        if is_settings(first.filled()) {
            return Poll::Ready(Err(io::Error::other(Http2WithoutTls)));
        }
        buffer.put_slice(first.filled());
        Poll::Ready(Ok(()))
    }

    fn wire(self: Pin<&mut Self>) -> Pin<&mut Wire> {
        Pin::new(&mut self.get_mut().wire)
    }
}

impl Connection for Hop {
    fn connected(&self) -> Connected {
        let connected = self.wire.connected();
        connected.proxy(self.role == Role::Forwarder)
    }
}

impl Read for Hop {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: ReadBufCursor<'_>) -> Poll<io::Result<()>> {
        let hop = self.get_mut();
        if hop.begun {
            return Pin::new(&mut hop.wire).poll_read(cx, buffer);
        }
        hop.poll_first(cx, buffer)
    }
}

impl Write for Hop {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.wire().poll_write(cx, bytes)
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.wire().poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.wire.is_write_vectored()
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.wire().poll_write_vectored(cx, pieces)
    }
}

/// Every HTTP/2 server first sends a SETTINGS frame (RFC 9113, section 3.4): on stream 0,
/// and not an acknowledgement. Neither HTTP/1.1 nor TLS begins with a zero byte.
fn is_settings(bytes: &[u8]) -> bool {
    matches!(bytes, [0, _, _, 4, 0, 0, 0, 0, 0, ..])
}

impl fmt::Display for Http2WithoutTls {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the server speaks HTTP/2 without TLS (h2c), which is not supported")
    }
}

impl std::error::Error for Http2WithoutTls {}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, io::Write as _, net::TcpListener};

    use tokio::net::TcpStream;

    use super::*;

    #[test]
    fn a_server_of_http_2_is_known_by_its_first_frame() {
        let cases: [(&[u8], bool); 7] = [
            (b"\0\0\0\x04\0\0\0\0\0", true),
            (b"\0\0\x12\x04\0\0\0\0\0\0\x03\0\0\0\x64", true),
            (b"\0\0\0\x04\x01\0\0\0\0", false),
            (b"\0\0\x08\x07\0\0\0\0\0", false),
            (b"\0\0\0\x04", false),
            (b"HTTP/1.1 200 OK\r\n", false),
            (b"\x16\x03\x03\0\x04\0\0\0\0", false),
        ];
        for (bytes, expected) in cases {
            assert_eq!(is_settings(bytes), expected, "{bytes:?}");
        }
    }

    /// All bytes that a hop reads from a server that sends `bytes`, in pieces of at most
    /// `size`.
    async fn read(bytes: &[u8], size: usize) -> io::Result<Vec<u8>> {
        let server = TcpListener::bind("127.0.0.1:0")?;
        let tcp = TcpStream::connect(server.local_addr()?).await?;
        server.accept()?.0.write_all(bytes)?;
        let mut hop = Hop::new(Wire::Http(TokioIo::new(tcp)), Role::Server);
        let mut read = Vec::new();
        loop {
            let mut piece = vec![0; size];
            let mut buffer = ReadBuf::new(&mut piece);
            poll_fn(|cx| Pin::new(&mut hop).poll_read(cx, buffer.unfilled())).await?;
            if buffer.filled().is_empty() {
                return Ok(read);
            }
            read.extend_from_slice(buffer.filled());
        }
    }

    #[tokio::test]
    async fn what_is_not_http_2_is_read_as_it_comes() {
        for length in [0, 1, FIRST - 1, FIRST, FIRST + 1, 5 * FIRST] {
            let bytes: Vec<u8> = b"HTTP/1.1 200 OK\r\n".iter().copied().cycle().take(length).collect();
            for size in [7, FIRST, 8 * FIRST] {
                assert_eq!(read(&bytes, size).await.unwrap(), bytes, "{length} {size}");
            }
        }
        let error = read(b"\0\0\0\x04\0\0\0\0\0", 8192).await.unwrap_err();
        assert!(error.get_ref().unwrap().is::<Http2WithoutTls>(), "{error}");
    }
}
