//! The sandbox: one store, one component, the interfaces it may use, and its exit code.
//! The host links only wasi:cli, io, clocks, random and http; a component that imports
//! files or sockets does not start.

use wasmtime::{
    Engine, Result, Store, StoreContextMut, StoreLimits, StoreLimitsBuilder,
    component::{Component, Linker, Resource, ResourceTable},
};
use wasmtime_wasi::{
    I32Exit, WasiCtx, WasiCtxView, WasiView,
    cli::{StdinStream, StdoutStream, WasiCli, WasiCliView},
    p2::bindings::{Command, cli, random},
    random::WasiRandom,
};
use wasmtime_wasi_http::{
    WasiHttp, WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView,
    p2::{
        bindings::{
            LinkOptions,
            http::{outgoing_handler::Host as _, types},
        },
        types::{HostFutureIncomingResponse, HostOutgoingRequest},
    },
};

/// Exit code of a component that crashed (`EX_SOFTWARE`).
pub const BROKEN: i32 = 70;

/// A component that needs more memory than this is out of control.
const MEMORY_LIMIT: usize = 2 << 30;

/// Matches every version that is compatible with the component's.
const OUTGOING_HANDLER: &str = "wasi:http/outgoing-handler@0.2.0";

struct State {
    wasi: WasiCtx,
    http: WasiHttpCtx,
    hooks: Box<dyn WasiHttpHooks>,
    table: ResourceTable,
    limits: StoreLimits,
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl WasiHttpView for State {
    fn http(&mut self) -> WasiHttpCtxView<'_> {
        WasiHttpCtxView { ctx: &mut self.http, table: &mut self.table, hooks: &mut *self.hooks }
    }
}

/// A component and everything it can access.
pub struct Guest {
    component: Component,
    store: Store<State>,
}

/// The remains of a component after it ended.
pub struct Finished {
    pub ended: Ended,
    /// Its HTTP client, for the next component.
    pub http: Box<dyn WasiHttpHooks>,
    /// How many resources it left in the host's table, which can hold a million.
    pub entries: usize,
}

/// How a component ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It exited with this code.
    Exited(i32),
    /// It crashed for this reason.
    Broke(String),
}

impl Guest {
    pub fn new(component: Component, wasi: WasiCtx, hooks: Box<dyn WasiHttpHooks>) -> Self {
        let state = State {
            wasi,
            http: WasiHttpCtx::new(),
            hooks,
            table: ResourceTable::new(),
            limits: StoreLimitsBuilder::new().memory_size(MEMORY_LIMIT).build(),
        };
        let mut store = Store::new(component.engine(), state);
        store.limiter(|state| &mut state.limits);
        Self { component, store }
    }

    /// Runs the component until it ends.
    pub async fn run(mut self) -> Finished {
        let ended = ended(self.call().await);
        let mut state = self.store.into_data();
        Finished { ended, entries: state.table.iter_mut().count(), http: state.hooks }
    }

    async fn call(&mut self) -> Result<Result<(), ()>> {
        let linker = linker(self.component.engine())?;
        let command = Command::instantiate_async(&mut self.store, &self.component, &linker).await?;
        command.wasi_cli_run().call_run(&mut self.store).await
    }
}

/// A component's arguments, variables and streams. It does not inherit the process's
/// environment.
pub fn context(
    args: &[String],
    env: &[(&str, String)],
    stdin: impl StdinStream + 'static,
    stdout: impl StdoutStream + 'static,
    stderr: impl StdoutStream + 'static,
) -> WasiCtx {
    let mut builder = WasiCtx::builder();
    builder.arg("mcp-proxy").args(args).stdin(stdin).stdout(stdout).stderr(stderr);
    if args.iter().any(|arg| arg == "--debug") {
        builder.env("DEBUG", "1");
    }
    builder.envs(env);
    builder.build()
}

fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    wasmtime_wasi::p2::add_to_linker_proxy_interfaces_async(l)?;
    types::add_to_linker::<State, WasiHttp>(l, &LinkOptions::default().into(), State::http)?;
    l.instance(OUTGOING_HANDLER)?
        .func_wrap("handle", |store, (request, options)| Ok((handle(store, request, options)?,)))?;
    random::insecure::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    random::insecure_seed::add_to_linker::<State, WasiRandom>(l, |state| state.wasi.random())?;
    cli::exit::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::environment::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_input::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_output::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdin::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stdout::add_to_linker::<State, WasiCli>(l, State::cli)?;
    cli::terminal_stderr::add_to_linker::<State, WasiCli>(l, State::cli)?;
    Ok(linker)
}

/// Sends a request and deletes its options: wasmtime-wasi-http would leave them in the
/// table, one more with every request. The timeouts in the options are for hosts without
/// their own; here `http::dial` limits connecting, and the component limits the rest.
fn handle(
    mut store: StoreContextMut<'_, State>,
    request: Resource<HostOutgoingRequest>,
    options: Option<Resource<types::RequestOptions>>,
) -> Result<Result<Resource<HostFutureIncomingResponse>, types::ErrorCode>> {
    let mut http = store.data_mut().http();
    if let Some(options) = options {
        http.table.delete(options)?;
    }
    match http.handle(request, None) {
        Ok(response) => Ok(Ok(response)),
        Err(error) => Ok(Err(error.downcast()?)),
    }
}

fn ended(ended: Result<Result<(), ()>>) -> Ended {
    match ended {
        Ok(Ok(())) => Ended::Exited(0),
        Ok(Err(())) => Ended::Exited(1),
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(code)) => Ended::Exited(*code),
            None => Ended::Broke(format!("{error:#}").replace('\n', " ")),
        },
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Error, component::ResourceType};

    use super::*;

    /// The version of the interfaces that wasmtime-wasi links.
    const WASI: &str = "0.2.12";

    #[test]
    fn the_exit_code_is_the_component_s_own() {
        let cases = [
            (Ok(Ok(())), Ended::Exited(0)),
            (Ok(Err(())), Ended::Exited(1)),
            (Err(Error::from(I32Exit(0))), Ended::Exited(0)),
            (Err(Error::from(I32Exit(2))), Ended::Exited(2)),
            (Err(Error::msg("unreachable executed")), Ended::Broke("unreachable executed".to_owned())),
        ];
        for (result, how) in cases {
            assert_eq!(ended(result), how);
        }
    }

    #[test]
    fn a_component_gets_streams_and_http_but_no_files_and_no_sockets() {
        for (interface, resource, linked) in [
            ("io/streams", "input-stream", true),
            ("http/types", "outgoing-request", true),
            ("cli/terminal-input", "terminal-input", true),
            ("filesystem/types", "descriptor", false),
            ("sockets/network", "network", false),
            ("sockets/tcp", "tcp-socket", false),
            ("sockets/udp", "udp-socket", false),
        ] {
            assert_eq!(is_linked(interface, resource), linked, "wasi:{interface}");
        }
    }

    /// What is linked cannot be linked a second time.
    fn is_linked(interface: &str, resource: &str) -> bool {
        let mut linker = linker(&crate::engine::engine().unwrap()).unwrap();
        let mut instance = linker.instance(&format!("wasi:{interface}@{WASI}")).unwrap();
        instance.resource(resource, ResourceType::host::<()>(), |_, _| Ok(())).is_err()
    }
}
