#!/usr/bin/env bash
# Expected: a message of 3:45 in the afternoon is read as one of 15:45 in each of the phone's languages.
# Happens: of an export in Chinese or Korean, where the half of the day stands before the hour, it is read as one of 03:45, without an error: each
# afternoon is the morning. In English it is right.
# Package: whatsapp-chat-parser 4.0.2 (npm). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
(cd "$T" && timeout 300 npm install --prefix "$T" --no-save --no-audit --no-fund whatsapp-chat-parser@4.0.2 > "$T/install.txt" 2>&1) ||
    { cat "$T/install.txt"; exit 1; }
cat > "$T/read.mjs" <<'JS'
import { readFileSync } from "node:fs";
import * as parser from "whatsapp-chat-parser";

const version = JSON.parse(readFileSync(new URL("node_modules/whatsapp-chat-parser/package.json", import.meta.url))).version;
console.log("whatsapp-chat-parser", version);
const hours = {};
for (const [language, time] of [
  ["English", "[1/25/23, 3:45:12 PM]"],
  ["Chinese", "[2023/1/25 下午3:45:12]"],
  ["Korean", "[2023. 1. 25. 오후 3:45:12]"],
]) {
  const [message] = parser.parseString(`${time} Ada: The keel is oiled.`);
  hours[language] = message.date.getHours();
  console.log(language, time, "->", message.author, "at", `${hours[language]}:${message.date.getMinutes()}`);
}
if (hours.English !== 15 || hours.Chinese !== 3 || hours.Korean !== 3) process.exit(1);
console.log("SEEN: the afternoon is the morning in Chinese and Korean");
JS
(cd "$T" && env -i HOME="$T" PATH="$PATH" TZ=UTC timeout 60 node read.mjs)
