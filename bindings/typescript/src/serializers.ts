/** Writes names into paths and values into bodies, and refuses what would arrive as something else. */

import { InvalidArgumentError } from "./errors.js";

/** Writes the parameters of a path. URLs drop the segments `.` and `..`, even encoded: the request would be another one. */
export function pathSerializer(path: string, params: Record<string, unknown>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = given(name, params[name]);
    if (value === "." || value === "..") {
      throw new InvalidArgumentError(`${name} ${JSON.stringify(value)} cannot be in a path; \`batch\` and \`forget\` take it`);
    }
    try {
      return encodeURIComponent(value);
    } catch {
      throw new InvalidArgumentError(`${name} ${JSON.stringify(value)} ${HALF}`);
    }
  });
}

/** Returns a name that was given. Of one that was not, `undefined` in a path, all users who have none would share a memory. */
export function given(name: string, value: unknown): string {
  if (typeof value === "string" && value !== "") return value;
  throw new InvalidArgumentError(`the ${name} is ${value === "" ? "empty" : String(value)}; give a text`);
}

const HALF = "has half of a surrogate pair, as a text that is cut within an emoji; give whole characters, such as text.toWellFormed()";

/** Writes a body as JSON, in which a surrogate is an escape only without its other half. */
export function bodySerializer(body: unknown): string {
  const text = JSON.stringify(body);
  const half = text.includes("\\ud") ? /(?:^|[^\\])(?:\\\\)*\\ud/.exec(text) : null;
  if (half) throw new InvalidArgumentError(`what follows ${text.slice(Math.max(0, half.index - 30), half.index + 1)} ${HALF}`);
  return text;
}
