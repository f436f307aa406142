//! A request body that can be sent again: it keeps its pieces until the response begins,
//! since a server may refuse the request for want of a token. Pieces are shared, not
//! copied.

use std::{
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use wasmtime_wasi_http::{Error, WasiBody};

use crate::stdio::lock;

/// One sending of a body. `again` makes the next one, which must not begin before this one
/// ends.
pub(super) struct Repeatable {
    source: Arc<Mutex<Source>>,
    /// How many pieces this sending has taken.
    taken: usize,
}

struct Source {
    body: WasiBody,
    /// The size that the component has announced.
    announced: SizeHint,
    /// Everything that was taken; `None` if no further sending can or will follow.
    pieces: Option<Vec<Bytes>>,
    kept: usize,
}

/// A longer body is not kept, so it is sent only once.
const MOST_KEPT: usize = 8 << 20;

impl Repeatable {
    pub(super) fn new(body: WasiBody) -> Self {
        let announced = body.size_hint();
        let source = Source { body, announced, pieces: Some(Vec::new()), kept: 0 };
        Self { source: Arc::new(Mutex::new(source)), taken: 0 }
    }

    /// The same body from its beginning; `None` if its pieces are gone.
    pub(super) fn again(&self) -> Option<Self> {
        let kept = lock(&self.source).pieces.is_some();
        kept.then(|| Self { source: self.source.clone(), taken: 0 })
    }

    /// Whether everything that was taken so far can be sent again.
    pub(super) fn is_kept(&self) -> bool {
        lock(&self.source).pieces.is_some()
    }

    /// Drops the pieces: there will be no other sending.
    pub(super) fn settle(&self) {
        lock(&self.source).pieces = None;
    }
}

impl Source {
    fn keep(&mut self, piece: &Bytes) {
        self.kept += piece.len();
        match &mut self.pieces {
            Some(pieces) if self.kept <= MOST_KEPT => pieces.push(piece.clone()),
            Some(_) | None => self.pieces = None,
        }
    }
}

impl Body for Repeatable {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        let this = &mut *self;
        let mut source = lock(&this.source);
        if let Some(piece) = source.pieces.as_ref().and_then(|pieces| pieces.get(this.taken)) {
            this.taken += 1;
            return Poll::Ready(Some(Ok(Frame::data(piece.clone()))));
        }
        let frame = ready!(Pin::new(&mut source.body).poll_frame(cx));
        if let Some(piece) = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref()) {
            source.keep(piece);
            this.taken += 1;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let source = lock(&self.source);
        let left = source.pieces.as_ref().is_some_and(|pieces| self.taken < pieces.len());
        !left && source.body.is_end_stream()
    }

    /// hyper asks before it takes anything.
    fn size_hint(&self) -> SizeHint {
        if self.taken == 0 { lock(&self.source).announced } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{BodyExt as _, StreamBody};

    use super::*;

    fn body(pieces: &'static [&'static str]) -> Repeatable {
        let frames = pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes()))));
        Repeatable::new(StreamBody::new(futures_util::stream::iter(frames)).boxed_unsync())
    }

    async fn text(body: Repeatable) -> String {
        String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_body_is_sent_again_from_its_beginning() {
        let mut first = body(&["one ", "two ", "three"]);
        let second = first.again().unwrap();
        first.frame().await.unwrap().unwrap();
        drop(first);
        let third = second.again().unwrap();
        assert_eq!(text(second).await, "one two three");
        assert_eq!(text(third).await, "one two three");
    }

    #[tokio::test]
    async fn what_is_settled_goes_on_but_does_not_begin_again() {
        let mut first = body(&["one ", "two"]);
        first.frame().await.unwrap().unwrap();
        first.settle();
        assert!(first.again().is_none());
        assert_eq!(text(first).await, "two");
    }
}
