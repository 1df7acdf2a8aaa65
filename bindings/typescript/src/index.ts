export * from "./client.js";
export * from "./errors.js";
export type { FileLike } from "./files.js";
export * from "./pages.js";
export type { CallOptions, ChangeOptions, ClientOptions } from "./transport.js";
export type * from "./types.js";
export type { components, operations, paths } from "./schema.js";
