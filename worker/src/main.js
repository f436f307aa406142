// What the platform begins with: the edge, and the sessions. The edge keeps nothing, so one entry serves
// every request; the tool that writes index.js would make a new one for each.

import Entry, { Session } from "./index.js";

const { fetch } = new Entry({}, {});

export { Session };
export default { fetch: (request, env) => Reflect.apply(fetch, { env }, [request]) };
