// CONFORMANCE.md: what the official conformance suite says about the proxy. Each test file that runs
// the suite owns one part of it. With CI set, a part must say what the run has found; otherwise the
// run writes it.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { test } from "node:test";

const FILE = new URL("../../CONFORMANCE.md", import.meta.url);

/** Collects the cells of one part. `columns` are the heads of its table, `rows` all that it has, in order. */
export class Report {
  #part;
  #columns;
  #cells = new Map();
  #notes = [];

  constructor(part, columns) {
    this.#part = part;
    this.#columns = columns;
  }

  /** The row begins with `row`, and this is in the column of that name. */
  put(row, column, score) {
    const key = JSON.stringify(row);
    if (!this.#cells.has(key)) this.#cells.set(key, new Map());
    this.#cells.get(key).set(column, score);
  }

  /** A line below the table. */
  note(line) {
    this.#notes.push(line);
  }

  /** Registers the last test of a file: by then each of these rows has to be full. */
  check(rows) {
    test(`CONFORMANCE.md has what this run has found: ${this.#part}`, () => {
      const found = replace(readFileSync(FILE, "utf8"), this.#part, this.#write(rows));
      const isSame = readFileSync(FILE, "utf8") === found;
      if (process.env.CI) assert.ok(isSame, `CONFORMANCE.md should be:\n${found}`);
      else if (!isSame) writeFileSync(FILE, found);
    });
  }

  #write(rows) {
    const lines = rows.map((row) => {
      const cells = this.#cells.get(JSON.stringify(row)) ?? assert.fail(`nothing was found about ${row}`);
      const scores = this.#columns.slice(row.length).map((name) => cells.get(name) ?? assert.fail(`${row}: ${name}`));
      return line([...row, ...scores]);
    });
    const rule = this.#columns.map(() => "---");
    const notes = this.#notes.length > 0 ? ["", ...this.#notes] : [];
    return [line(this.#columns), line(rule), ...lines, ...notes].join("\n");
  }
}

const line = (cells) => `| ${cells.join(" | ")} |`;

/** The text with this between the marks of the part. */
function replace(text, part, content) {
  const [begin, end] = [`<!-- ${part} -->\n`, `\n<!-- end of ${part} -->`];
  const [from, to] = [text.indexOf(begin) + begin.length, text.indexOf(end)];
  assert.ok(from >= begin.length && to >= from, `CONFORMANCE.md has no marks for ${part}`);
  return text.slice(0, from) + content + text.slice(to);
}
