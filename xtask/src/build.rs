//! `cargo xtask build`: the components, then the native runner with the component
//! compiled ahead of time and embedded, then the Worker.

use crate::step::{self, cargo, dist, say, target};
use crate::{tools, worker};
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use wit_component::ComponentEncoder;

/// Builds everything in `dist/`, or only the Worker.
pub(crate) fn run(names: &[String]) -> Result<()> {
    match names {
        [] => local().and_then(|()| worker::build()),
        [name] if name == "worker" => worker::build(),
        _ => bail!("only the Worker can be built alone: cargo xtask build worker"),
    }
}

/// Builds everything that runs on a local machine.
pub(crate) fn local() -> Result<()> {
    component()?;
    engine()?;
    runner()
}

/// `dist/mcp-proxy.wasm`.
pub(crate) fn component() -> Result<()> {
    tools::targets()?;
    let arguments =
        ["build", "--profile", "guest", "--locked", "--target", "wasm32-wasip2", "--package", "mcp-proxy-stdio"];
    step::run("build the component", &mut cargo(&arguments))?;
    place(&target().join("wasm32-wasip2/guest/mcp-proxy.wasm"), "mcp-proxy.wasm")
}

/// `dist/mcp-proxy-crash.wasm`, which traps on a test's command.
pub(crate) fn crash() -> Result<()> {
    tools::targets()?;
    let arguments =
        ["build", "--profile", "tool", "--locked", "--target", "wasm32-wasip2", "--package", "mcp-proxy-stdio"];
    step::run("build the component that traps", cargo(&arguments).args(["--features", "crash"]))?;
    place(&target().join("wasm32-wasip2/tool/mcp-proxy.wasm"), "mcp-proxy-crash.wasm")
}

/// `dist/mcp-engine.wasm`: a core module, wrapped as a component by the WIT that it
/// carries.
pub(crate) fn engine() -> Result<()> {
    tools::targets()?;
    let arguments = ["build", "--profile", "engine", "--locked", "--package", "mcp-proxy-engine"];
    step::run("build the engine", cargo(&arguments).args(["--target", "wasm32-unknown-unknown"]))?;
    let module = std::fs::read(target().join("wasm32-unknown-unknown/engine/mcp_proxy_engine.wasm"))?;
    let component = ComponentEncoder::default().validate(true).module(&module)?.encode()?;
    let built = target().join("mcp-engine.wasm");
    std::fs::write(&built, component)?;
    place(&built, "mcp-engine.wasm")
}

/// Builds a native runner quickly, for the demo, and returns its path. The runner and the
/// compiler share their features, so cargo builds every dependency once.
pub(crate) fn quick() -> Result<PathBuf> {
    tools::targets()?;
    let guest = ["build", "--profile", "tool", "--locked", "--target", "wasm32-wasip2", "--package", "mcp-proxy-stdio"];
    step::run("1 of 4: build the component", &mut cargo(&guest))?;
    let native = |program| {
        let mut build = cargo(&["build", "--profile", "tool", "--locked", "--package", "host-runner"]);
        build.args(["--features", "compile", "--bin", program]);
        build
    };
    let built = |program| target().join(format!("tool/{program}{}", std::env::consts::EXE_SUFFIX));
    step::run("2 of 4: build the ahead-of-time compiler", &mut native("mcp-proxy-aot"))?;
    let compiled = target().join("mcp-proxy-demo.cwasm");
    let mut compile = Command::new(built("mcp-proxy-aot"));
    compile.arg(target().join("wasm32-wasip2/tool/mcp-proxy.wasm")).arg(&compiled);
    step::run("3 of 4: compile the component", &mut compile)?;
    step::run("4 of 4: build the native runner", native("mcp-proxy").env("MCP_PROXY_CWASM", &compiled))?;
    Ok(built("mcp-proxy"))
}

/// `dist/mcp-proxy`, and `dist/mcp-proxy-aot`, which compiles components for it.
fn runner() -> Result<()> {
    let exe = std::env::consts::EXE_SUFFIX;
    let arguments = [
        "build",
        "--profile",
        "tool",
        "--locked",
        "--package",
        "host-runner",
        "--bin",
        "mcp-proxy-aot",
        "--features",
        "compile",
    ];
    step::run("build the ahead-of-time compiler", &mut cargo(&arguments))?;
    place(&target().join(format!("tool/mcp-proxy-aot{exe}")), &format!("mcp-proxy-aot{exe}"))?;
    let compiled = target().join("mcp-proxy.cwasm");
    let mut compile = Command::new(dist().join(format!("mcp-proxy-aot{exe}")));
    step::run("compile the component", compile.arg(dist().join("mcp-proxy.wasm")).arg(&compiled))?;
    let arguments = ["build", "--release", "--locked", "--package", "host-runner", "--bin", "mcp-proxy"];
    step::run("build the native runner", cargo(&arguments).env("MCP_PROXY_CWASM", &compiled))?;
    place(&target().join(format!("release/mcp-proxy{exe}")), &format!("mcp-proxy{exe}"))
}

/// Copies an artefact to `dist/` under its public name. Removes the old file first, since
/// it may be running.
fn place(from: &Path, name: &str) -> Result<()> {
    std::fs::create_dir_all(dist())?;
    let to = dist().join(name);
    std::fs::remove_file(&to).ok();
    let size = std::fs::copy(from, &to).with_context(|| format!("no {}", from.display()))?;
    say(&format!("dist/{name}: {} KB", size / 1000));
    Ok(())
}
