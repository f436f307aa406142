//! Loads the component: the one embedded at build time, or the file given with
//! `--component`. Precompiled code comes only from these two. For a `.wasm` file,
//! `mcp-proxy-aot` compiles it first, in its own process.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use wasmtime::{Engine, component::Component};

static EMBEDDED: &[u8] = include_bytes!(env!("MCP_PROXY_EMBEDDED"));

/// Loads `file`, or the embedded component. The error is a line for the user.
pub fn load(engine: &Engine, file: Option<&Path>) -> Result<Component, String> {
    match file {
        None if EMBEDDED.is_empty() => {
            Err("this build has no component inside: run `cargo xtask build`, or use --component".to_owned())
        }
        None => embedded(engine),
        Some(path) if !path.is_file() => Err(absent(path)),
        Some(path) if path.extension().is_some_and(|it| it == "cwasm") => precompiled(engine, path),
        Some(path) => compiled(engine, path),
    }
}

/// Report this before looking for a compiler, which may be missing too.
fn absent(path: &Path) -> String {
    let cause = fs::metadata(path).err().map_or_else(|| "this is not a file".to_owned(), |error| error.to_string());
    format!("--component {}: {cause}: name a .wasm or a .cwasm", path.display())
}

fn embedded(engine: &Engine) -> Result<Component, String> {
    #[expect(unsafe_code, reason = "the bytes come from our own build, by the same wasmtime and configuration")]
    let component = unsafe { Component::deserialize(engine, EMBEDDED) };
    give_back(EMBEDDED);
    component.map_err(|error| format!("the embedded component does not load: {error:#}"))
}

/// Lets the system take back the memory of bytes that nobody will read again: wasmtime has
/// copied them. It is a fifth of what an idle process holds.
#[cfg(target_os = "linux")]
fn give_back(bytes: &'static [u8]) {
    use rustix::mm::{Advice, madvise};
    let page = rustix::param::page_size();
    let skipped = bytes.as_ptr().align_offset(page);
    let Some(whole) = bytes.get(skipped..).map(|rest| rest.len() / page * page).filter(|whole| *whole > 0) else {
        return;
    };
    let start = bytes.as_ptr().wrapping_add(skipped).cast_mut().cast();
    #[expect(unsafe_code, reason = "the pages are of a read-only file mapping, which brings them back when read")]
    let advised = unsafe { madvise(start, whole, Advice::LinuxDontNeed) };
    // Without it, the process only holds more memory.
    let _ = advised;
}

#[cfg(not(target_os = "linux"))]
fn give_back(_bytes: &'static [u8]) {}

fn precompiled(engine: &Engine, path: &Path) -> Result<Component, String> {
    #[expect(unsafe_code, reason = "a .cwasm is native code; naming one is as deliberate as naming a program to run")]
    let component = unsafe { Component::deserialize_file(engine, path) };
    component.map_err(|error| format!("--component {}: {error:#}", path.display()))
}

fn compiled(engine: &Engine, path: &Path) -> Result<Component, String> {
    let compiler = compiler()?;
    let directory = PrivateDirectory::new()?;
    let output = directory.0.join("component.cwasm");
    let result = Command::new(&compiler).arg(path).arg(&output).output();
    let result = result.map_err(|error| format!("{}: {error}", compiler.display()))?;
    if !result.status.success() {
        let text = String::from_utf8_lossy(&result.stderr);
        return Err(format!("--component {}: {}", path.display(), text.trim()));
    }
    precompiled(engine, &output)
}

fn compiler() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let name = format!("mcp-proxy-aot{}", std::env::consts::EXE_SUFFIX);
    let path = own.with_file_name(name);
    if path.is_file() {
        return Ok(path);
    }
    Err(format!("--component needs {} to compile a .wasm: put it there, or give a .cwasm", path.display()))
}

/// A directory that only this user can write to: the host loads code from it.
struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    fn new() -> Result<Self, String> {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let nanos = now.map_or(0, |time| time.subsec_nanos());
        let name = format!("mcp-proxy-{}-{nanos}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        // Fails if the name exists, so the host never uses a planted directory.
        let made = builder.create(&path);
        made.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // If this fails, the system cleans up its temporary files.
        let _ = fs::remove_dir_all(&self.0);
    }
}
