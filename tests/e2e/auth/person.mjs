// A person at the pages of `oidc-provider`, without a browser: follows redirects and keeps cookies. Resolves with the
// page that ends the login: its URL, status and text.

/** More pages than a login has. */
const MOST_PAGES = 20;

/** Logs in and agrees to everything: fills in each form and sends it off. */
export function logIn(url, fields = { login: "ada", password: "x" }) {
  return visit(url, (html, place) => filledIn(html, place, fields));
}

/** Leaves the first page by its link "Cancel". */
export function refuse(url) {
  return visit(url, (html, place) => ({
    url: new URL(html.match(/href="([^"]*\/abort)"/)[1], place).href,
    method: "GET",
  }));
}

/** `next` says where to go from a page with a form. */
async function visit(url, next) {
  const cookies = new Map();
  let request = { url, method: "GET" };
  for (let page = 0; page < MOST_PAGES; page += 1) {
    const response = await open(request, cookies);
    const text = await response.text();
    const target = response.headers.get("location");
    if (target) request = { url: new URL(target, request.url).href, method: "GET" };
    else if (text.includes("<form")) request = next(text, request.url);
    else return { url: request.url, status: response.status, text };
  }
  throw new Error(`the login does not end; it is at ${request.url}`);
}

async function open({ url, method, body }, cookies) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
  // A browser does not come with the cookies of another port's pages here, which are all on one host.
  const response = await fetch(url, { method, body, headers: cookie ? { cookie } : {}, redirect: "manual" });
  for (const line of response.headers.getSetCookie()) {
    const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
    cookies.set(name, value);
  }
  return response;
}

/** The first form of a page, with hidden values as they are. */
function filledIn(html, place, fields) {
  const [form] = html.match(/<form[\s\S]*?<\/form>/);
  const inputs = [...form.matchAll(/<input[^>]*>/g)].map(([input]) => [
    attribute(input, "name"),
    attribute(input, "value"),
  ]);
  const body = new URLSearchParams();
  for (const [name, value] of inputs) if (name) body.append(name, value ?? fields[name] ?? "");
  return { url: new URL(attribute(form, "action"), place).href, method: "POST", body };
}

function attribute(tag, name) {
  return tag.match(new RegExp(`\\s${name}="([^"]*)"`))?.[1].replaceAll("&amp;", "&");
}
