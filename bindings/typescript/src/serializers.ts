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

/** Writes a value as JSON, which has no BigInt and no cycles. */
export function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (cause) {
    throw unwritable(value, cause);
  }
}

/** The error for a value that cannot be written as JSON. It names the place of the first BigInt, the usual reason. */
export function unwritable(value: unknown, cause?: unknown): InvalidArgumentError {
  const place = bigIntIn(value, "the value");
  if (place) return new InvalidArgumentError(`${place} is a BigInt, which JSON does not have; store it as a text, such as String(id)`, { cause });
  return new InvalidArgumentError(`the value cannot be written as JSON${cause ? ` (${cause})` : ""}; give plain objects and arrays`, { cause });
}

function bigIntIn(value: unknown, place: string, seen = new Set<unknown>()): string | undefined {
  if (typeof value === "bigint") return place;
  if (typeof value !== "object" || value === null || seen.has(value)) return undefined;
  seen.add(value);
  const isList = Array.isArray(value) || value instanceof Map || value instanceof Set;
  const parts: Iterable<[string | number, unknown]> = isList ? [...value].entries() : Object.entries(value);
  for (const [name, part] of parts) {
    const found = bigIntIn(part, `${place}[${JSON.stringify(name)}]`, seen);
    if (found) return found;
  }
  return undefined;
}

/** Writes a body as JSON, in which a surrogate is an escape only without its other half. */
export function bodySerializer(body: unknown): string {
  const text = jsonOf(body);
  const half = text.includes("\\ud") ? /(?:^|[^\\])(?:\\\\)*\\ud/.exec(text) : null;
  if (half) throw new InvalidArgumentError(`what follows ${text.slice(Math.max(0, half.index - 30), half.index + 1)} ${HALF}`);
  return text;
}
