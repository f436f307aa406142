//! `mcp-proxy-aot IN.wasm OUT.cwasm`: compiles a component ahead of time for the machines
//! that this build of mcp-proxy runs on. The only program here that contains a compiler.

use std::{error::Error, fs, process::ExitCode};

use wasmtime::{Config, Engine};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output] = args.as_slice() else {
        return failed("usage: mcp-proxy-aot IN.wasm OUT.cwasm", 2);
    };
    match compile(input, output) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error.to_string(), 1),
    }
}

fn compile(input: &str, output: &str) -> Result<(), Box<dyn Error>> {
    let wasm = fs::read(input).map_err(|error| format!("{input}: {error}"))?;
    let mut config = host_runner::engine::config();
    // Name the target to keep out the build machine's own CPU features.
    config.target(env!("MCP_PROXY_TARGET"))?;
    enable_common_features(&mut config);
    let compiled = Engine::new(&config)?.precompile_component(&wasm).map_err(|error| format!("{input}: {error:#}"))?;
    fs::write(output, compiled).map_err(|error| format!("{output}: {error}").into())
}

/// The x86-64-v2 level: every CPU since 2009 has it, and SIMD needs it to be fast.
#[cfg(target_arch = "x86_64")]
fn enable_common_features(config: &mut Config) {
    let features = ["sse3", "ssse3", "sse41", "sse42", "popcnt"];
    for feature in features {
        #[expect(unsafe_code, reason = "loading checks these flags against the CPU before any code runs")]
        unsafe {
            config.cranelift_flag_enable(&format!("has_{feature}"));
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn enable_common_features(_config: &mut Config) {}

fn failed(text: &str, code: u8) -> ExitCode {
    host_runner::note::line(&format!("mcp-proxy-aot: {text}"));
    ExitCode::from(code)
}
