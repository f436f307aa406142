// The browser command of the tests: reports at the desk of its test (desk.mjs) how it was started, does what it is
// told there, and reports the page that it has seen last.

import { readFileSync } from "node:fs";
import { logIn, refuse } from "./person.mjs";

const linux = process.platform === "linux";
/** A process's own words of this kind, as `ps` shows them. */
const told = (pid, what) => (linux ? readFileSync(`/proc/${pid}/${what}`, "utf8").replaceAll("\0", "\n") : "");

/** The group of a process, which gets Ctrl-C together. */
const groupOf = (pid) =>
  told(pid, "stat")
    .replace(/^.*\) /, "")
    .split(" ")[2];

const report = async (path, value) => {
  const response = await fetch(new URL(path, process.env.E2E_DESK), { method: "POST", body: JSON.stringify(value) });
  return response.json();
};

const url = process.argv.at(-1);
const { act } = await report("/visit", {
  url,
  commandLine: process.argv.join("\n"),
  environment: linux ? told("self", "environ") : JSON.stringify(process.env),
  parent: told(process.ppid, "cmdline"),
  groups: linux ? [groupOf(process.pid), groupOf(process.ppid)] : [],
});
if (act === "log in") await report("/page", await logIn(url));
if (act === "refuse") await report("/page", await refuse(url));
