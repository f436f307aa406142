// Counts the sessions that one client has open. A session says again and again that it is there: the
// place of one that has ended without a word is free when its time is over.

import { DurableObject } from "cloudflare:workers";

export class Client extends DurableObject {
  /** Sessions, and until when each has its place. The same is in the storage: the object comes and goes. */
  #open;

  constructor(state, env) {
    super(state, env);
    state.blockConcurrencyWhile(async () => {
      this.#open = await state.storage.list();
    });
  }

  /** Takes or keeps a place for so many milliseconds; says whether there was one among at most so many. */
  async enter(session, most, lease) {
    const { storage } = this.ctx;
    const now = Date.now();
    this.#sweep(now);
    if (!this.#open.has(session) && this.#open.size >= most) return false;
    this.#open.set(session, now + lease);
    storage.put(session, now + lease);
    if ((await storage.getAlarm()) === null) await storage.setAlarm(now + lease);
    return true;
  }

  async leave(session) {
    if (this.#open.delete(session)) this.ctx.storage.delete(session);
  }

  /** Forgets those whose time is over; in the end, everything. */
  async alarm() {
    this.#sweep(Date.now());
    if (this.#open.size === 0) return this.ctx.storage.deleteAll();
    return this.ctx.storage.setAlarm(this.#open.values().reduce((one, other) => Math.min(one, other)));
  }

  #sweep(now) {
    const over = [...this.#open].filter(([, until]) => until <= now).map(([session]) => session);
    for (const session of over) this.#open.delete(session);
    for (const session of over) this.ctx.storage.delete(session);
  }
}
