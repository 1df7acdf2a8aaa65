// Writes the programs of READMEs as files: node readme.mjs FOLDER README...

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [folder, ...readmes] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
let written = 0;
for (const readme of readmes) {
  const programs = [...readFileSync(readme, "utf8").matchAll(/^```ts\n(.*?)^```$/gms)];
  if (!programs.length) throw new Error(`${readme} has no programs`);
  for (const [, text] of programs) writeFileSync(join(folder, `program${++written}.ts`), text);
}
