#!/usr/bin/env bash
# Expected: a tool of an MCP server whose argument is a text, `str | None` or `str | list[str]`, is given the text that the client sent.
# Happens: unless the annotation is `str` alone, a text that is JSON is parsed first. The note "null" arrives as None, "[1, 2]" and '{"a": 1}' are
# refused as no strings, and for `str | list[str]` the text '["x", "y"]' arrives as a list: a memory tool loses or changes what it should keep word by
# word, a snippet of JSON above all. "12" and '"quoted"' arrive as they are.
# Package: mcp 2.3.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check mcp==2.3.0
timeout 60 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError

print("mcp", meta.version("mcp"))
server = MCPServer("notes")
kept = []


@server.tool()
def optional(text: str | None = None) -> str:
    kept.append(text)
    return "kept"


@server.tool()
def either(text: str | list[str]) -> str:
    kept.append(text)
    return "kept"


@server.tool()
def plain(text: str) -> str:
    kept.append(text)
    return "kept"


async def outcome(tool, text):
    try:
        await server.call_tool(tool, {"text": text})
        return kept[-1]
    except ToolError:
        return "refused"


async def main():
    for tool, text, expected in (
        ("plain", "null", "null"),
        ("plain", "[1, 2]", "[1, 2]"),
        ("optional", "null", None),
        ("optional", "[1, 2]", "refused"),
        ("optional", '{"a": 1}', "refused"),
        ("optional", "12", "12"),
        ("optional", '"quoted"', '"quoted"'),
        ("either", '["x", "y"]', ["x", "y"]),
        ("either", "null", "refused"),
    ):
        got = await outcome(tool, text)
        print(f"{tool}: the text {text} -> {got!r}")
        assert got == expected, (got, expected)


asyncio.run(main())
print("SEEN: texts that arrive as other values, or not at all")
PY
