//! The byte stream to the server or to its proxy, before the server's own TLS:
//! a TCP connection, or TLS over TCP where the proxy is an https one.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_rustls::MaybeHttpsStream;
use hyper_util::{
    client::legacy::connect::{Connected, Connection},
    rt::TokioIo,
};
use tokio::net::TcpStream;

pub(super) type Wire = MaybeHttpsStream<TokioIo<TcpStream>>;

pub(super) struct Hop {
    wire: Wire,
    role: Role,
}

/// Who is at the end of the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The server itself, perhaps at the end of a tunnel.
    Server,
    /// A proxy that is sent whole URLs.
    Forwarder,
}

impl Hop {
    pub(super) fn new(wire: Wire, role: Role) -> Self {
        Self { wire, role }
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
        self.wire().poll_read(cx, buffer)
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
