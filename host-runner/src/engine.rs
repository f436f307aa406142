//! The engine configuration, shared by the tool that compiles a component and the host
//! that loads it: any difference between the two makes the compiled code unloadable.

use wasmtime::{Config, Engine, Result};

/// Leaves out debugging information and support for concurrent guests: there is one
/// guest, called once.
pub fn config() -> Config {
    let mut config = Config::new();
    config.concurrency_support(false).generate_address_map(false).wasm_backtrace_max_frames(None);
    // Windows unwinds through these tables even without backtraces.
    if !cfg!(windows) {
        config.native_unwind_info(false);
    }
    config
}

pub fn engine() -> Result<Engine> {
    Engine::new(&config())
}
