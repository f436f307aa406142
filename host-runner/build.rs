//! Finds the precompiled component that `mcp-proxy` carries inside.
//!
//! Without `MCP_PROXY_CWASM` an empty one is embedded, so that lints and tests
//! need no component; such a binary says what to do when it is started.

use std::{env, error::Error, fs, path::PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=MCP_PROXY_CWASM");
    println!("cargo::rustc-env=MCP_PROXY_TARGET={}", env::var("TARGET")?);
    let cwasm = match env::var_os("MCP_PROXY_CWASM") {
        Some(path) => given(&PathBuf::from(path))?,
        None => empty()?,
    };
    println!("cargo::rustc-env=MCP_PROXY_EMBEDDED={}", cwasm.display());
    Ok(())
}

fn given(path: &PathBuf) -> Result<PathBuf, Box<dyn Error>> {
    println!("cargo::rerun-if-changed={}", path.display());
    fs::canonicalize(path).map_err(|error| {
        let path = path.display();
        format!("MCP_PROXY_CWASM={path}: {error}; run `cargo xtask build`").into()
    })
}

fn empty() -> Result<PathBuf, Box<dyn Error>> {
    let path = PathBuf::from(env::var("OUT_DIR")?).join("empty.cwasm");
    fs::write(&path, [])?;
    Ok(path)
}
