// Where the browsers of a test report (visitor.mjs): the test sees each that was opened, and says what the person
// does there. By default the person logs in at once.

import { fileURLToPath } from "node:url";
import { Fixture } from "../../fixtures/fixture.mjs";

const visitor = fileURLToPath(new URL("visitor.mjs", import.meta.url));

export async function startDesk() {
  const desk = new Desk({});
  await desk.listen();
  return desk;
}

class Desk extends Fixture {
  /** The browser command. */
  command = `${process.execPath} ${visitor}`;
  /** Every browser that was opened, in order. */
  visits = [];
  /** The pages that ended logins. */
  pages = [];
  #busy = false;

  /** From now on the person does nothing, until told with `act` of a visit. */
  wait() {
    this.#busy = true;
  }

  /** Resolves with the n-th browser that was opened. */
  visit(n = 1) {
    return this.until(`browser ${n}`, () => this.visits[n - 1]);
  }

  /** Resolves with the page that ended the n-th login. */
  page(n = 1) {
    return this.until(`page ${n} of a login`, () => this.pages[n - 1]);
  }

  labelOf({ path }) {
    return path;
  }

  dispatch(exchange) {
    if (exchange.entry.path === "/page") {
      this.pages.push(exchange.message);
      exchange.json({});
    } else {
      const act = (what) => exchange.json({ act: what });
      this.visits.push({ ...exchange.message, act });
      if (!this.#busy) act("log in");
    }
    this.changed();
  }
}
