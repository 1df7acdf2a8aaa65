/** Files to import: a request reads one while it sends it, and again for each repetition if that is possible. */

import { InvalidArgumentError } from "./errors.js";

/**
 * A file to import: its path, in Node, Deno and Bun; a `Blob`, such as a `File` of a page; its bytes; or a stream of them, which is read once, so
 * that the call is not repeated. Browsers send no streams over HTTP/1.1.
 */
export type FileLike = string | Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;

/** The body of a request that is a file. */
export interface FileBody {
  /** The name of the file, if it has one. */
  name: string | undefined;
  /** Whether the file can be read only once. */
  isStream: boolean;
  open(): Blob | Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array>;
}

export async function fileBody(file: FileLike): Promise<FileBody> {
  if (typeof file === "string") return fileAt(file);
  if (!(file instanceof Blob || file instanceof Uint8Array || file instanceof ReadableStream)) {
    throw new InvalidArgumentError(`the file is ${String(file)}; give a path, a Blob, a Uint8Array or a ReadableStream`);
  }
  const name = (file as { name?: unknown } | undefined)?.name;
  return { name: typeof name === "string" && name ? name : undefined, isStream: file instanceof ReadableStream, open: () => file };
}

async function fileAt(path: string): Promise<FileBody> {
  // Names that a bundler for browsers does not follow.
  const [fs, stream, paths] = ["node:fs", "node:stream", "node:path"] as const;
  const modules = Promise.all([import(/* @vite-ignore */ fs as string), import(/* @vite-ignore */ stream as string), import(/* @vite-ignore */ paths as string)]);
  const [{ createReadStream, statSync }, { Readable }, { basename }] = (await modules.catch(() => {
    throw new InvalidArgumentError("there are no paths here; give a Blob, such as a File of a page, or a Uint8Array");
  })) as [typeof import("node:fs"), typeof import("node:stream"), typeof import("node:path")];
  if (!statSync(path, { throwIfNoEntry: false })?.isFile()) {
    throw new InvalidArgumentError(`${JSON.stringify(path)} is no file; give the path of one, such as a zip archive of a folder`);
  }
  return { name: basename(path), isStream: false, open: () => Readable.toWeb(createReadStream(path)) as ReadableStream<Uint8Array> };
}
