#!/usr/bin/env bash
# Expected: a resource template of an MCP server, `note://{name}`, gives its reader for the address note://red%20boat the name "red boat", as that is
# how the SDK itself writes the name into the address; and a parameter of a query, `{?from,limit}`, may be left out.
# Happens: with the SDKs for TypeScript the name is "red%20boat", and "Köln" is "K%C3%B6ln", also where the client sent the letters themselves: a
# memory that keeps notes under their names finds none with a space or an umlaut. An address without one of the parameters, or with them in another
# order, is no address of the template: "not found". The SDK for Python decodes the name, and takes the address without parameters.
# Package: @modelcontextprotocol/server and client 2.4.0, @modelcontextprotocol/sdk 1.32.2 (npm); mcp 2.3.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
cd "$T"
timeout 300 npm install --silent --no-audit --no-fund < /dev/null \
    @modelcontextprotocol/server@2.4.0 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/sdk@1.32.2
cat > run.mjs <<'JS'
import assert from "node:assert";
import { readFileSync } from "node:fs";
import * as client2 from "@modelcontextprotocol/client";
import * as server2 from "@modelcontextprotocol/server";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { InMemoryTransport } from "@modelcontextprotocol/sdk/inMemory.js";
import { McpServer, ResourceTemplate } from "@modelcontextprotocol/sdk/server/mcp.js";
import { UriTemplate } from "@modelcontextprotocol/sdk/shared/uriTemplate.js";

console.log("written into the address:", new UriTemplate("note://{name}").expand({ name: "red boat" }));
for (const [name, sdk] of [
  ["sdk", { Client, InMemoryTransport, McpServer, ResourceTemplate }],
  ["server", { ...client2, ...server2, InMemoryTransport: server2.InMemoryTransport ?? client2.InMemoryTransport }],
]) {
  console.log(`@modelcontextprotocol/${name}`, JSON.parse(readFileSync(`node_modules/@modelcontextprotocol/${name}/package.json`, "utf8")).version);
  const server = new sdk.McpServer({ name: "notes", version: "1" });
  const given = async (uri, values) => ({ contents: [{ uri: uri.href, text: JSON.stringify(values) }] });
  server.registerResource("note", new sdk.ResourceTemplate("note://{name}", { list: undefined }), {}, given);
  server.registerResource("list", new sdk.ResourceTemplate("list://{name}{?from,limit}", { list: undefined }), {}, given);
  const client = new sdk.Client({ name: "reader", version: "1" });
  const [one, other] = sdk.InMemoryTransport.createLinkedPair();
  await Promise.all([server.connect(one), client.connect(other)]);
  for (const [uri, expected] of [
    ["note://red%20boat", { name: "red%20boat" }],
    ["note://Köln", { name: "K%C3%B6ln" }],
    ["list://boats?from=1&limit=3", { name: "boats", from: "1", limit: "3" }],
    ["list://boats?limit=3&from=1", "not found"],
    ["list://boats?limit=3", "not found"],
    ["list://boats", "not found"],
  ]) {
    const seen = await client.readResource({ uri }).then(({ contents }) => JSON.parse(contents[0].text), (error) => {
      assert.match(error.message, /not found/);
      return "not found";
    });
    console.log(uri, "->", JSON.stringify(seen));
    assert.deepStrictEqual(seen, expected);
  }
  await client.close();
}
JS
timeout 60 node run.mjs
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0
timeout 60 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from mcp.server import MCPServer

print("mcp", meta.version("mcp"))
server = MCPServer("notes")


@server.resource("note://{name}")
def note(name: str) -> str:
    return name


@server.resource("list://{name}{?start,limit}")
def listed(name: str, start: int = 0, limit: int = 10) -> str:
    return name


async def main():
    for uri, expected in (("note://red%20boat", "red boat"), ("list://boats", "boats"), ("list://boats?limit=3", "boats")):
        seen = [part.content for part in await server.read_resource(uri)]
        print(uri, "->", seen)
        assert seen == [expected], seen


asyncio.run(main())
print("SEEN: names of resources that arrive encoded, in one language of two")
PY
