// Where the tokens of a login are not: in what the proxy says, in its recording, in the arguments and the environment
// of processes, and in the memory of the component. A search that finds nothing proves nothing: each of these also
// finds something that is there.

import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { assertServed, loginScenario } from "./auth/scene.mjs";

const SECRET = "s3cret-of-the-known-client";
const MARK = "m4rk-that-a-call-carries";
const LOGIN = "POST /token authorization_code";

const onLinux = { skip: process.platform !== "linux" && "only Linux shows the memory of a process" };
const known = {
  client_id: "known",
  client_secret: SECRET,
  application_type: "native",
  redirect_uris: ["http://127.0.0.1/callback"],
  grant_types: ["authorization_code", "refresh_token"],
};
const withSecret = {
  as: { clients: [known] },
  options: ["--oauth-client-id", "known", "--oauth-client-secret-env", "KNOWN_SECRET"],
  env: { KNOWN_SECRET: SECRET },
};

/** A session with two logins and a renewal; resolves with everything that was secret in it, by name. */
async function eventfulSession(scene, client) {
  const { as, server } = scene;
  await client.handshake();
  await assertServed(client, MARK);
  const first = scene.stored();
  await as.forget(first.access);
  await assertServed(client, MARK);
  const second = scene.stored();
  assert.ok((await client.call("write", { text: MARK })).result);
  const third = scene.stored();
  const [one, two] = as.parameters(LOGIN);
  const secrets = { client: SECRET };
  for (const [n, { access, refresh }] of [first, second, third].entries())
    Object.assign(secrets, { [`access ${n}`]: access, [`refresh ${n}`]: refresh });
  for (const [n, { code, code_verifier: verifier }] of [one, two].entries())
    Object.assign(secrets, { [`code ${n}`]: code, [`verifier ${n}`]: verifier });
  assert.ok(Object.values(secrets).every((secret) => secret.length >= 20));
  assert.deepEqual(
    server.tokens(),
    [first, second, third].map(({ access }) => access),
  );
  return secrets;
}

/** The names of the secrets that a text has. */
const found = (text, secrets) => Object.keys(secrets).filter((name) => text.includes(secrets[name]));

loginScenario("no secret is in stdout, in stderr with all details, or in a recording", withSecret, async (scene) => {
  const file = join(scene.folder, "run.jsonl");
  const client = scene.connect({ options: ["--debug", "--log-bodies", "--record", file] });
  const secrets = await eventfulSession(scene, client);
  await client.finish();
  const stdout = client.lines.map(({ text }) => text).join("\n");
  const texts = { stdout, stderr: client.stderr, recording: readFileSync(file, "utf8") };
  for (const [name, text] of Object.entries(texts)) {
    assert.ok(text.includes(MARK), `the mark is in ${name}`);
    assert.deepEqual(found(text, secrets), [], name);
  }
});

loginScenario("no secret is in what ps shows of the proxy and of its browser", withSecret, async (scene) => {
  const client = scene.connect();
  const secrets = await eventfulSession(scene, client);
  const { visits } = scene.desk;
  assert.equal(visits.length, 2);
  for (const { commandLine, environment, parent } of visits) {
    assert.ok(environment.includes("E2E_DESK"), "the environment was seen");
    assert.ok(commandLine.includes("code_challenge="), "the arguments were seen");
    for (const text of [commandLine, environment, parent]) assert.deepEqual(found(text, secrets), []);
    assert.ok(!environment.includes("KNOWN_SECRET"), environment);
  }
  if (process.platform === "linux")
    assert.deepEqual(found(readFileSync(`/proc/${client.child.pid}/cmdline`, "utf8"), secrets), []);
  await client.finish();
});

loginScenario("no secret is in the memory of the component", { ...withSecret, ...onLinux }, async (scene) => {
  const client = scene.connect();
  const secrets = await eventfulSession(scene, client);
  const memory = new Memory(client.child.pid);
  scene.t.after(() => memory.close());
  const guest = memory.guest();
  // The search finds what each side holds: the call in the component, the token outside of it.
  assert.ok(guest.includes(MARK), "the call is in the component's memory");
  assert.ok(memory.isOutside(secrets["access 2"]), "the token is in the host's memory");
  assert.deepEqual(found(guest, secrets), []);
  // Once the component does hold the token, the search finds it.
  await assertServed(client, secrets["access 2"]);
  assert.deepEqual(found(memory.guest(), secrets), ["access 2"]);
  await client.finish();
});

/** The least that the host reserves for a memory of the component: all of its 32-bit addresses. */
const RESERVED = 2n ** 32n;
/** How much to read at once. */
const PIECE = 2n ** 20n;

/** The memory of a process that runs a component. */
class Memory {
  #pid;
  #file;

  constructor(pid) {
    this.#pid = pid;
    this.#file = openSync(`/proc/${pid}/mem`, "r");
  }

  close() {
    closeSync(this.#file);
  }

  /** All of the component's linear memory. */
  guest() {
    return Buffer.concat(this.#areas().linear.map((area) => this.#read(area)));
  }

  /** Whether the rest of the process's writable memory holds a text. */
  isOutside(text) {
    return this.#areas().others.some((area) => pieces(area).some((piece) => this.#tryToRead(piece).includes(text)));
  }

  /**
   * The linear memory is the writable beginning of a reservation of 4 GiB and more; nothing else in the process
   * reserves as much.
   */
  #areas() {
    const all = readFileSync(`/proc/${this.#pid}/maps`, "utf8").trimEnd().split("\n").map(parseArea);
    const linear = all.filter((area, at) => area.isWritable && isReserved(all, at));
    const beginnings = linear.filter(({ begin }) => !linear.some(({ end }) => end === begin));
    assert.equal(beginnings.length, 1, "there is one linear memory");
    return { linear, others: all.filter((area) => area.isWritable && !linear.includes(area)) };
  }

  /** The bytes of an area, if it is still there: the process goes on. */
  #tryToRead(area) {
    try {
      return this.#read(area);
    } catch {
      return Buffer.alloc(0);
    }
  }

  #read({ begin, end }) {
    const bytes = Buffer.alloc(Number(end - begin));
    let filled = 0;
    while (filled < bytes.length) {
      const count = readSync(this.#file, bytes, filled, bytes.length - filled, begin + BigInt(filled));
      assert.ok(count > 0, "the memory can be read");
      filled += count;
    }
    return bytes;
  }
}

/** Whether a writable area goes on, without a gap, into a reservation of all addresses of the component. */
function isReserved(areas, at) {
  const [area, next] = areas.slice(at, at + 2);
  if (next?.begin !== area.end) return false;
  return next.isWritable ? isReserved(areas, at + 1) : next.isEmpty && next.end - area.begin >= RESERVED;
}

function parseArea(line) {
  const [, begin, end, rights] = line.match(/^([0-9a-f]+)-([0-9a-f]+) (\S+)/);
  return {
    begin: BigInt(`0x${begin}`),
    end: BigInt(`0x${end}`),
    isWritable: rights.startsWith("rw"),
    isEmpty: rights.startsWith("---"),
  };
}

/** An area in pieces, which overlap by more than any secret has. */
function pieces({ begin, end }) {
  const count = Number((end - begin + PIECE - 1n) / PIECE);
  return Array.from({ length: count }, (_, n) => {
    const first = begin + BigInt(n) * PIECE;
    const last = first + PIECE + 4096n;
    return { begin: first, end: last < end ? last : end };
  });
}
