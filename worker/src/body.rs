//! Reading what a client sends, up to a limit.

use futures::StreamExt;
use worker::{Request, Result};

/// How much more of a body that is too long is read: a client that is still
/// sending would rather see a broken connection than our answer.
const PATIENCE: usize = 16 << 20;

/// The body, or nothing if it is longer than `limit`.
pub(crate) async fn read(request: &mut Request, limit: usize) -> Result<Option<Vec<u8>>> {
    if request.inner().body().is_none() {
        return Ok(Some(Vec::new()));
    }
    let mut stream = request.stream()?;
    let (mut body, mut length) = (Vec::new(), 0);
    while let Some(chunk) = stream.next().await {
        let chunk = chunk?;
        length += chunk.len();
        if length <= limit {
            body.extend_from_slice(&chunk);
        } else {
            body = Vec::new();
        }
        if length > limit.saturating_add(PATIENCE) {
            break;
        }
    }
    Ok((length <= limit).then_some(body))
}
