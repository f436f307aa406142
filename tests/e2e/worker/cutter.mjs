// A path between a client and the Worker that can be cut: a plain TCP relay, which knows no HTTP but
// the bytes that a client has sent last on each connection.

import net from "node:net";

/** Starts a relay to this port of this machine. */
export async function startCutter(port) {
  const connections = new Set();
  let open = Promise.resolve();
  const relay = net.createServer(async (near) => {
    near.on("error", () => {});
    await open;
    if (near.destroyed) return;
    const far = net.connect(port, "127.0.0.1").on("error", () => {});
    const connection = {
      last: "",
      cut() {
        near.resetAndDestroy();
        far.resetAndDestroy();
      },
    };
    connections.add(connection);
    near.on("data", (bytes) => (connection.last = bytes.toString("latin1")));
    near.pipe(far).pipe(near);
    for (const [socket, other] of [
      [near, far],
      [far, near],
    ]) {
      socket.once("close", () => {
        connections.delete(connection);
        other.destroy();
      });
    }
  });
  await new Promise((resolve) => relay.listen(0, "127.0.0.1", resolve));
  return {
    port: relay.address().port,
    url: `http://127.0.0.1:${relay.address().port}`,
    /** Cuts the connections on which the client has said this last; returns how many there were. */
    cut(words) {
      const hit = [...connections].filter(({ last }) => last.includes(words));
      for (const connection of hit) connection.cut();
      return hit.length;
    },
    /** Whoever connects from now on has to wait until the returned function is called. */
    hold() {
      const { promise, resolve } = Promise.withResolvers();
      open = promise;
      return resolve;
    },
    close() {
      for (const connection of connections) connection.cut();
      return new Promise((resolve) => relay.close(resolve));
    },
  };
}
