//! Traps on command from either peer. Only builds that test how a host handles a crashed
//! component contain this.

use mcp_proxy_core::Input;

const COMMAND: &[u8] = b"mcp-proxy/crash";

pub(crate) fn on_command(input: &Input<'_>) {
    let bytes: &[u8] = match input {
        Input::Bytes(_, bytes) | Input::Chunk(_, bytes) => bytes,
        Input::Tick
        | Input::Eof(_)
        | Input::Request(..)
        | Input::Gone(_)
        | Input::Head(..)
        | Input::End(_)
        | Input::Failed(..)
        | Input::Flushed(..)
        | Input::Waiting(_)
        | Input::Stop
        | Input::Shutdown => return,
    };
    if bytes.windows(COMMAND.len()).any(|piece| piece == COMMAND) {
        std::process::abort();
    }
}
