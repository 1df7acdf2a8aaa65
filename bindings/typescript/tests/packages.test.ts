import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { after, test } from "node:test";
import { MNEMON, temporaryFolder } from "./server.js";

const folder = temporaryFolder();
after(() => rmSync(folder, { recursive: true }));
const script = join(process.env.CHECKOUT as string, "bindings/typescript/platform.mjs");
const dist = join(process.env.TOOLS as string, "dist");
const make = (...platforms: string[]) =>
  execFileSync(process.execPath, [script, "--dist", dist, "--out", folder, ...platforms], { encoding: "utf8", stdio: "pipe" });

test("a package for each platform, and the main one that depends on them", () => {
  make(`linux-x64=${MNEMON}`, `darwin-arm64=${script}`);
  const read = (name: string) => JSON.parse(readFileSync(join(folder, name, "package.json"), "utf8")) as Record<string, unknown>;
  const main = read("mnemon-engine");
  assert.deepEqual(main.optionalDependencies, { "mnemon-engine-linux-x64": main.version, "mnemon-engine-darwin-arm64": main.version });
  const workspace = readFileSync(join(process.env.CHECKOUT as string, "Cargo.toml"), "utf8").split("[workspace.package]")[1] ?? "";
  assert.equal(main.version, /^version = "(.*)"/m.exec(workspace)?.[1]);
  assert.equal(main.devDependencies, undefined);
  const platform = read("mnemon-engine-linux-x64");
  assert.deepEqual([platform.os, platform.cpu, platform.version], [["linux"], ["x64"], main.version]);
  assert.match(execFileSync(join(folder, "mnemon-engine-linux-x64/bin/mnemon"), ["--version"], { encoding: "utf8" }), /mnemon/);
  const packed = execFileSync("npm", ["pack", "--dry-run", "--json"], { cwd: join(folder, "mnemon-engine"), encoding: "utf8" });
  const names = (JSON.parse(packed) as { files: { path: string }[] }[])[0]?.files.map((file) => file.path) ?? [];
  for (const name of ["README.md", "LICENSE-MIT", "dist/index.js", "dist/index.d.ts", "dist/local.js"]) assert.ok(names.includes(name), name);
  assert.ok(existsSync(join(folder, "mnemon-engine/dist/index.js")));
});

test("an unknown platform is refused", () => {
  assert.throws(() => make(`windows-x64=${MNEMON}`), /platforms are linux-x64/);
});
