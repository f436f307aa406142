//! The HTTP client of a component without network access, for `replay`. It refuses every
//! request, so nothing can leave. Real requests belong to `http`.

use ::http::Request;
use wasmtime_wasi_http::{Error, RequestOptions, WasiBody, WasiHttpHooks};

use super::{Exchanged, Sent};

/// Refuses every request.
pub struct Offline;

impl WasiHttpHooks for Offline {
    fn send_request(
        &mut self,
        _request: Request<WasiBody>,
        _options: Option<RequestOptions>,
        _sent: Box<dyn Future<Output = Sent> + Send>,
    ) -> Box<dyn Future<Output = Exchanged> + Send> {
        Box::new(std::future::ready(Err(Error::HttpRequestDenied)))
    }
}
