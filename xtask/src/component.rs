//! Checks the imports of the built artefacts: the component imports no more than its
//! world in `wit/` allows, the core nothing at all.

use crate::step::{compressed, dist, root, say};
use anyhow::{Context, Result, bail, ensure};
use std::collections::BTreeSet;
use std::path::Path;
use wasmparser::{Parser, Payload};
use wit_parser::{Resolve, WorldKey};

/// Checks `dist/mcp-proxy.wasm` against the world `stdio`.
pub(crate) fn check_stdio() -> Result<()> {
    let allowed = world_imports("stdio")?;
    let (found, _) = component_interface(&dist().join("mcp-proxy.wasm"))?;
    let extra: Vec<_> = found.difference(&allowed).collect();
    ensure!(extra.is_empty(), "dist/mcp-proxy.wasm imports what its world does not allow: {extra:?}");
    let packages: BTreeSet<_> = found.iter().filter_map(|name| name.split('/').next()).collect();
    say(&format!("mcp-proxy.wasm: {} imports, of {packages:?} only", found.len()));
    Ok(())
}

/// Checks that `dist/mcp-engine.wasm` imports nothing, exports the machine, and is small.
pub(crate) fn check_engine() -> Result<()> {
    let path = dist().join("mcp-engine.wasm");
    let (imports, exports) = component_interface(&path)?;
    ensure!(imports.is_empty(), "dist/mcp-engine.wasm imports {imports:?}");
    ensure!(exports.contains("mcp:proxy/machine"), "dist/mcp-engine.wasm exports {exports:?}");
    let bytes = std::fs::read(&path)?;
    let (size, packed) = (bytes.len() / 1000, compressed(&bytes)? / 1000);
    ensure!(size < 1000 && packed < 400, "dist/mcp-engine.wasm is too big: {size} KB, {packed} KB compressed");
    say(&format!("mcp-engine.wasm: 0 imports, {size} KB, {packed} KB compressed"));
    Ok(())
}

/// Checks that a core module imports nothing.
pub(crate) fn check_no_imports(module: &Path) -> Result<()> {
    let bytes = std::fs::read(module).with_context(|| format!("no {}", module.display()))?;
    let mut imports = 0;
    for payload in Parser::new(0).parse_all(&bytes) {
        if let Payload::ImportSection(section) = payload? {
            imports += section.count();
        }
    }
    ensure!(imports == 0, "{} has {imports} imports", module.display());
    ensure!(bytes.len() > 100_000, "{} is too small to hold the core", module.display());
    say(&format!("the core as a module: 0 imports, {} KB", bytes.len() / 1000));
    Ok(())
}

fn world_imports(world: &str) -> Result<BTreeSet<String>> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(root().join("wit"))?;
    let world = resolve.select_world(&[package], Some(world))?;
    let Some(world) = resolve.worlds.get(world) else { bail!("no such world") };
    let names = world.imports.keys().map(|key| match key {
        WorldKey::Name(name) => name.clone(),
        WorldKey::Interface(id) => resolve.id_of(*id).unwrap_or_default(),
    });
    Ok(names.map(|name| unversioned(&name)).collect())
}

/// The names that a component imports and exports.
fn component_interface(path: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>)> {
    let bytes = std::fs::read(path).with_context(|| format!("no {}: cargo xtask build", path.display()))?;
    let (mut imports, mut exports) = (BTreeSet::new(), BTreeSet::new());
    let mut depth = 0_u32;
    for payload in Parser::new(0).parse_all(&bytes) {
        let payload = payload?;
        if matches!(payload, Payload::ModuleSection { .. } | Payload::ComponentSection { .. }) {
            depth += 1;
        } else if matches!(payload, Payload::End(_)) {
            depth = depth.saturating_sub(1);
        } else if let (Payload::ComponentImportSection(section), 0) = (&payload, depth) {
            for import in section.clone() {
                imports.insert(unversioned(import?.name.name));
            }
        } else if let (Payload::ComponentExportSection(section), 0) = (&payload, depth) {
            for export in section.clone() {
                exports.insert(unversioned(export?.name.name));
            }
        }
    }
    ensure!(!exports.is_empty(), "{} is not a component", path.display());
    Ok((imports, exports))
}

fn unversioned(name: &str) -> String {
    name.split('@').next().unwrap_or(name).to_owned()
}
