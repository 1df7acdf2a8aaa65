// Writes the programs of a README as files: node readme.mjs README FOLDER

import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const [readme, folder] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });
const programs = [...readFileSync(readme, "utf8").matchAll(/^```ts\n(.*?)^```$/gms)];
if (!programs.length) throw new Error(`${readme} has no programs`);
programs.forEach(([, text], at) => writeFileSync(join(folder, `program${at + 1}.ts`), text));
