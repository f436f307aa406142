// Writes what workerd needs to serve a built Worker, and a link to workerd itself, so that the bench
// can start it without a launcher: node worker.mjs BUNDLE -o FOLDER
// UPSTREAM_URL comes from the environment of workerd. The folder of its storage is named on the
// command line (--directory-path=storage=…), and so is its address (--socket-addr=http=…).

import { mkdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { config, copyModules, program } from "../tests/e2e/worker/workerd.mjs";

const [bundle, , folder] = process.argv.slice(2);
rmSync(folder, { recursive: true, force: true });
mkdirSync(folder, { recursive: true });
const text = config({
  modules: copyModules(bundle, folder),
  variables: { ALLOW_HTTP: "1", PUBLIC: "1" },
  environment: ["UPSTREAM_URL"],
  port: 0,
});
writeFileSync(join(folder, "config.capnp"), text);
symlinkSync(program(), join(folder, "workerd"));
