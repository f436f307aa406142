//! The sandbox: one store, one component, the interfaces it may use, and its
//! exit code. Only wasi:cli, io, clocks, random and http are linked; a component
//! that imports files or sockets does not start.

use wasmtime::{
    Engine, Result, Store, StoreLimits, StoreLimitsBuilder,
    component::{Component, Linker, ResourceTable},
};
use wasmtime_wasi::{
    I32Exit, WasiCtx, WasiCtxView, WasiView,
    cli::{StdinStream, StdoutStream, WasiCli, WasiCliView},
    p2::bindings::{Command, cli, random},
    random::WasiRandom,
};
use wasmtime_wasi_http::{WasiHttpCtx, WasiHttpCtxView, WasiHttpHooks, WasiHttpView};

use crate::note;

/// Exit code of a component that broke (`EX_SOFTWARE`).
pub const BROKEN: i32 = 70;

/// A component that needs more than this has gone wild.
const MEMORY_LIMIT: usize = 2 << 30;

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

/// A component and everything it can reach.
pub struct Guest {
    component: Component,
    store: Store<State>,
}

impl Guest {
    pub fn new(component: Component, wasi: WasiCtx, http: impl WasiHttpHooks + 'static) -> Self {
        let state = State {
            wasi,
            http: WasiHttpCtx::new(),
            hooks: Box::new(http),
            table: ResourceTable::new(),
            limits: StoreLimitsBuilder::new().memory_size(MEMORY_LIMIT).build(),
        };
        let mut store = Store::new(component.engine(), state);
        store.limiter(|state| &mut state.limits);
        Self { component, store }
    }

    /// Runs the component to its end and gives its exit code.
    pub async fn run(mut self) -> i32 {
        let ended = self.call().await;
        exit_code(ended)
    }

    async fn call(&mut self) -> Result<Result<(), ()>> {
        let linker = linker(self.component.engine())?;
        let command = Command::instantiate_async(&mut self.store, &self.component, &linker).await?;
        command.wasi_cli_run().call_run(&mut self.store).await
    }
}

/// A component's arguments and streams. Of the environment it sees nothing but
/// what its arguments say too.
pub fn context(
    args: &[String],
    stdin: impl StdinStream + 'static,
    stdout: impl StdoutStream + 'static,
    stderr: impl StdoutStream + 'static,
) -> WasiCtx {
    let mut builder = WasiCtx::builder();
    builder.arg("mcp-proxy").args(args).stdin(stdin).stdout(stdout).stderr(stderr);
    if args.iter().any(|arg| arg == "--debug") {
        builder.env("DEBUG", "1");
    }
    builder.build()
}

fn linker(engine: &Engine) -> Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    let l = &mut linker;
    wasmtime_wasi_http::p2::add_to_linker_async(l)?;
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

fn exit_code(ended: Result<Result<(), ()>>) -> i32 {
    match ended {
        Ok(Ok(())) => 0,
        Ok(Err(())) => 1,
        Err(error) => match error.downcast_ref::<I32Exit>() {
            Some(I32Exit(code)) => *code,
            None => {
                let cause = format!("{error:#}").replace('\n', " ");
                note::line(&format!("mcp-proxy: the component broke: {cause}"));
                BROKEN
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::Error;

    use super::*;

    #[test]
    fn the_exit_code_is_the_component_s_own() {
        let cases = [
            (Ok(Ok(())), 0),
            (Ok(Err(())), 1),
            (Err(Error::from(I32Exit(0))), 0),
            (Err(Error::from(I32Exit(2))), 2),
            (Err(Error::msg("unreachable executed")), BROKEN),
        ];
        for (ended, code) in cases {
            assert_eq!(exit_code(ended), code);
        }
    }

    #[test]
    fn the_linker_takes_all_interfaces() {
        let engine = crate::engine::engine().unwrap();
        assert!(linker(&engine).is_ok());
    }
}
