//! `mcp-engine.wasm` as tests hold it: loaded once, instantiated often, its
//! memory watched. `mirror` says in the words of the WIT what the core says in
//! its own. What is expected of the engine stands in `tests/`.

mod mirror;

pub use bindings::exports::mcp::proxy::machine;
pub use mirror::{config, deadline, input, output};

use machine::{Config, ConfigError, Deadline, Input, Output, Side, Source};
use std::path::Path;
use wasmtime::component::{Component, Linker, ResourceAny};
use wasmtime::{ResourceLimiter, Result, Store};

#[allow(unreachable_pub, clippy::allow_attributes_without_reason, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({ path: "../../wit", world: "engine", additional_derives: [PartialEq] });
}

/// The engine, compiled.
pub struct Engine {
    wasmtime: wasmtime::Engine,
    engine: bindings::EnginePre<Memory>,
}

impl Engine {
    /// # Errors
    /// If there is no engine at that place, or it imports something.
    pub fn load(path: &Path) -> Result<Self> {
        let wasmtime = wasmtime::Engine::default();
        let component = Component::from_file(&wasmtime, path)?;
        let instance = Linker::new(&wasmtime).instantiate_pre(&component)?;
        Ok(Self { wasmtime, engine: bindings::EnginePre::new(instance)? })
    }

    /// # Errors
    /// If wasmtime cannot.
    pub fn instantiate(&self) -> Result<Instance> {
        let mut store = Store::new(&self.wasmtime, Memory::default());
        store.limiter(|memory| memory);
        let engine = self.engine.instantiate(&mut store)?;
        Ok(Instance { store, engine })
    }
}

/// An instance. Any error of its functions is a trap.
pub struct Instance {
    store: Store<Memory>,
    engine: bindings::Engine,
}

/// A machine in an instance.
#[derive(Clone, Copy)]
pub struct Proxy(ResourceAny);

impl Instance {
    /// # Errors
    /// If it traps.
    pub fn defaults(&mut self, url: &str) -> Result<Result<Config, ConfigError>> {
        self.engine.mcp_proxy_machine().call_defaults(&mut self.store, url)
    }

    /// # Errors
    /// If it traps.
    pub fn create(&mut self, config: &Config, seed: u64, now: u64) -> Result<Result<Proxy, ConfigError>> {
        let machine = self.engine.mcp_proxy_machine().proxy();
        Ok(machine.call_create(&mut self.store, config, seed, now)?.map(Proxy))
    }

    /// # Errors
    /// If it traps.
    pub fn handle(&mut self, proxy: Proxy, now: u64, input: &Input) -> Result<()> {
        self.engine.mcp_proxy_machine().proxy().call_handle(&mut self.store, proxy.0, now, input)
    }

    /// # Errors
    /// If it traps.
    pub fn poll(&mut self, proxy: Proxy) -> Result<Vec<Output>> {
        self.engine.mcp_proxy_machine().proxy().call_poll(&mut self.store, proxy.0)
    }

    /// # Errors
    /// If it traps.
    pub fn deadline(&mut self, proxy: Proxy) -> Result<Option<Deadline>> {
        self.engine.mcp_proxy_machine().proxy().call_deadline(&mut self.store, proxy.0)
    }

    /// # Errors
    /// If it traps.
    pub fn wants(&mut self, proxy: Proxy, source: Source) -> Result<bool> {
        self.engine.mcp_proxy_machine().proxy().call_wants(&mut self.store, proxy.0, source)
    }

    /// # Errors
    /// If it traps.
    pub fn wants_client(&mut self, proxy: Proxy) -> Result<bool> {
        self.wants(proxy, Source::Side(Side::Client))
    }

    /// # Errors
    /// If it traps.
    pub fn close(&mut self, proxy: Proxy) -> Result<()> {
        proxy.0.resource_drop(&mut self.store)
    }

    /// The size of its memory in bytes; wasm gives none back.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.store.data().0
    }
}

/// How big the memory of an instance has become.
#[derive(Default)]
struct Memory(usize);

impl ResourceLimiter for Memory {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        self.0 = self.0.max(desired);
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, _: usize, _: Option<usize>) -> Result<bool> {
        Ok(true)
    }
}
