"""The program of docs/server.md, run as a reader copies it, with the address and a token of this server."""

import re
from pathlib import Path

import httpx
import pytest

DOCUMENT = (Path(__file__).parents[3] / "docs" / "server.md").read_text()


def put(server, namespace, *messages):
    url = f"{server.url}/v1/namespaces/{namespace}/messages"
    headers = {"Authorization": f"Bearer {server.tokens['all']}"}
    httpx.post(url, headers=headers, json={"messages": list(messages), "flush": True}).raise_for_status()


@pytest.mark.parametrize("filled", [False, True], ids=["as it is", "filled over HTTP"])
def test_the_program_runs(server, filled):
    if filled:
        call = {"type": "tool_call", "id": "c", "name": "weather", "arguments": {"city": "Lisbon"}}
        put(
            server, "users%2Fada",
            {"id": "other-1", "role": "user", "content": "The greenhouse needs new glass.", "name": "Ben", "session": "monday"},
            {"id": "other-2", "role": "assistant", "content": [call]},
            {"id": "other-3", "role": "tool", "content": [{"type": "tool_result", "id": "c", "content": "22 degrees"}]},
        )
    [program] = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    assert "http://127.0.0.1:7411" in program
    program = program.replace("http://127.0.0.1:7411", server.url)
    # The last line is looked at.
    lines = program.strip().splitlines()
    names = {"TOKEN": server.tokens["all"]}
    exec("\n".join(lines[:-1]), names)
    found = eval(lines[-1], names)
    assert "I row on Thursdays." in [memory["memory"] for memory in found["results"]]
    names["client"].delete_all(user_id="ada")
