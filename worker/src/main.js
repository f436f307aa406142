// What the platform begins with: the edge, the sessions, and who counts them. The edge keeps nothing, so
// the entry that is made for the first request serves all; the tool that writes index.js would make one
// for each.

import Entry, { Session } from "./index.js";
import { Client } from "./client.js";

let answer;

export { Client, Session };
export default {
  fetch(request, env, context) {
    answer ??= new Entry(context, env).fetch;
    return Reflect.apply(answer, { env }, [request]);
  },
};
