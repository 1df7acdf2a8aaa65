// Makes the packages that are published: one for each platform with the mnemon command in it, and the main one, which depends on them.
//
//   node platform.mjs --dist DIST --out FOLDER linux-x64=PATH/TO/mnemon linux-arm64=PATH/TO/mnemon ...
//
// DIST is what `tsc` made. In FOLDER are then `mnemon-engine` and `mnemon-engine-linux-x64`, ..., each ready for `npm pack` or `npm publish`.
// The platforms are to be published first. npm installs the one that fits the machine, because the main package has all of them as
// optional dependencies of its own version, and each says its `os` and `cpu`.

import { chmodSync, copyFileSync, cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const PLATFORMS = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"];
const here = dirname(fileURLToPath(import.meta.url));
const root = join(here, "..", "..");

const { values, positionals } = parseArgs({ options: { dist: { type: "string" }, out: { type: "string" } }, allowPositionals: true });
if (!values.dist || !values.out) throw new Error("give --dist, --out, and PLATFORM=BINARY for each platform");
const { devDependencies, ...main } = JSON.parse(readFileSync(join(here, "package.json"), "utf8"));

/** Makes the folder of a package with its description, licences and text, and returns its path. */
function folder(description, readme) {
  const path = join(values.out, description.name);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, "package.json"), `${JSON.stringify(description, null, 2)}\n`);
  writeFileSync(join(path, "README.md"), readme);
  for (const license of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(join(root, license), join(path, license));
  return path;
}

const optionalDependencies = {};
for (const argument of positionals) {
  const [platform, binary] = argument.split("=", 2);
  if (!PLATFORMS.includes(platform) || !binary) throw new Error(`${argument}: give PLATFORM=BINARY; platforms are ${PLATFORMS.join(", ")}`);
  const [os, cpu] = platform.split("-");
  const { version, license } = main;
  const name = `${main.name}-${platform}`;
  const description = `The mnemon command for ${platform}, of which the package ${main.name} makes use`;
  const files = ["bin", "LICENSE-*"];
  const path = folder({ name, version, description, license, os: [os], cpu: [cpu], files }, `# ${name}\n\n${description}.\n`);
  mkdirSync(join(path, "bin"));
  copyFileSync(binary, join(path, "bin", "mnemon"));
  chmodSync(join(path, "bin", "mnemon"), 0o755);
  optionalDependencies[name] = version;
}
const path = folder({ ...main, optionalDependencies }, readFileSync(join(here, "README.md"), "utf8"));
cpSync(values.dist, join(path, "dist"), { recursive: true });
