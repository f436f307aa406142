// When a figure that the other side moves has stopped: all buffers on the way are full.

import { setTimeout as delay } from "node:timers/promises";

/** Resolves when the figure has begun and then not moved for a while. */
export async function standstill(figure) {
  let still = 0;
  for (let last; still < 10;) {
    await delay(50);
    const now = figure();
    still = now !== undefined && now > 0 && now === last ? still + 1 : 0;
    last = now;
  }
}
