// What the page does: a button connects, lists the tools and calls one of them.

import { Client } from "./client.mjs";

const part = (id) => document.getElementById(id);
let client;

part("url").value = new URLSearchParams(location.search).get("server") ?? "http://localhost:3001/sse";

part("run").onclick = () =>
  show(async () => {
    client ??= await Client.connect(part("url").value);
    const { tools } = await client.request("tools/list");
    part("tools").replaceChildren(...tools.map(({ name }) => item(name)));
    const { content } = await client.request("tools/call", { name: "echo", arguments: { message: "from a page" } });
    part("echo").textContent = content[0].text;
    return "connected";
  });

part("close").onclick = () =>
  show(async () => {
    const exit = await client.close();
    client = undefined;
    return exit;
  });

// The engine is loaded.
for (const id of ["run", "close"]) part(id).disabled = false;

async function show(work) {
  part("state").textContent = "…";
  part("state").textContent = await work().catch((error) => `failed: ${error.message}`);
}

function item(text) {
  const element = document.createElement("li");
  element.textContent = text;
  return element;
}
