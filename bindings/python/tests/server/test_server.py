"""The package `mnemon-engine-server`: with it, the command has what the wheel alone leaves out. `make test-python` installs it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path
from urllib.request import Request, urlopen

import mnemon
import pytest

SCRIPTS = Path(sys.executable).parent
COMMANDS = [[sys.executable, "-m", "mnemon"], [str(SCRIPTS / "mnemon")], [str(SCRIPTS / "mnemon-engine-server")]]


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The folder of the sockets."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    yield


def test_the_extra_is_of_the_same_version() -> None:
    wanted = [one for one in requires("mnemon-engine") or [] if "mnemon-engine-server" in one]
    assert [re.split("[ ;]", one)[0] for one in wanted] == [f"mnemon-engine-server=={version('mnemon-engine')}"]
    assert version("mnemon-engine-server") == version("mnemon-engine")


@pytest.mark.parametrize("command", COMMANDS)
def test_it_serves(command: list[str], tmp_path: Path) -> None:
    arguments = [*command, "--format", "json", "serve", "--listen", "127.0.0.1:0", "--db", str(tmp_path / "m.redb")]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        lines = (json.loads(line) for line in server.stderr)
        address = next(line["listening"] for line in lines if "listening" in line)
        with urlopen(f"{address}/health") as answer:
            assert answer.status == 200
        server.terminate()
        assert server.wait(20) == 0


@pytest.mark.skipif(os.name == "nt", reason="there are no Unix sockets")
@pytest.mark.parametrize("command", COMMANDS)
def test_mcp_and_hooks_share_a_memory(command: list[str], tmp_path: Path) -> None:
    db = ["--db", str(tmp_path / "m.redb"), "--idle", "1"]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "add_memory", "arguments": {"text": "The boat is named Anouk.", "namespace": "n"}}
    said: list[dict[str, object]] = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in said)
    done = subprocess.run([*command, "mcp", *db], input=lines, capture_output=True, text=True)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0 and [one["id"] for one in answers] == [0, 1] and not answers[1]["result"].get("isError"), done
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "cwd": str(tmp_path), "prompt": "What is the boat named?"}
    arguments = [*command, "hook", *db, "--namespace", "n", "--deadline", "30"]
    hooked = subprocess.run(arguments, input=json.dumps(event), capture_output=True, text=True)
    assert hooked.returncode == 0 and "Anouk" in hooked.stdout, hooked


def test_wrong_usage_has_its_status() -> None:
    done = subprocess.run([*COMMANDS[1], "serve", "--nonsense"], capture_output=True, text=True)
    assert done.returncode == 2 and "--nonsense" in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="there are no Unix sockets")
def test_one_turn_is_the_same_on_every_surface(tmp_path: Path) -> None:
    """What a model is given for one prompt over Python, HTTP, MCP and the hook: `pytest -s` prints it."""
    db, prompt = str(tmp_path / "m.redb"), "Which port does the harbour simulator listen on?"
    command = COMMANDS[0]
    said = [
        ("user", "The harbour simulator listens on port 4711.", "2026-05-01T09:00:00Z"),
        ("assistant", "Noted: port 4711 for the harbour simulator.", "2026-05-01T09:00:05Z"),
        ("user", "My sister's bakery opens in June.", "2026-05-02T09:00:00Z"),
    ]
    given: dict[str, str] = {}
    with mnemon.Engine(db) as engine:
        engine.put("n", [mnemon.Message(text, role, session="before", created_at=at) for role, text, at in said])
        engine.flush()
        messages = engine.memory("n", "now").assemble(prompt).messages
        given["Python"] = "\n".join(f"[{message.role}] {message.text}" for message in messages)

    arguments = [*command, "--format", "json", "serve", "--listen", "127.0.0.1:0", "--db", db]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        address = next(line["listening"] for line in map(json.loads, server.stderr) if "listening" in line)
        url = f"{address}/v1/namespaces/n/sessions/now/assemble"
        request = Request(url, json.dumps({"prompt": prompt}).encode(), {"content-type": "application/json"})
        with urlopen(request) as answer:
            messages = json.load(answer)["messages"]
        server.terminate()
        assert server.wait(20) == 0
    text = {True: lambda content: content, False: lambda content: "\n".join(part["text"] for part in content)}
    given["HTTP"] = "\n".join(f"[{one['role']}] {text[isinstance(one['content'], str)](one['content'])}" for one in messages)

    call = {"name": "assemble_context", "arguments": {"prompt": prompt, "namespace": "n", "run_id": "now"}}
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    asked: list[dict[str, object]] = [
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/call", "params": call},
    ]
    lines = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in asked)
    done = subprocess.run([*command, "mcp", "--db", db, "--idle", "1"], input=lines, capture_output=True, text=True)
    given["MCP"] = json.loads(done.stdout.splitlines()[1])["result"]["content"][0]["text"]

    event = {"hook_event_name": "UserPromptSubmit", "session_id": "now", "cwd": str(tmp_path), "prompt": prompt}
    hook = [*command, "hook", "--db", db, "--namespace", "n", "--deadline", "60"]
    given["hook"] = subprocess.run(hook, input=json.dumps(event), capture_output=True, text=True).stdout

    for surface, shown in given.items():
        print(f"--- {surface}\n{shown}\n")
    quoted = {surface: re.findall("<message .*?</message>", shown) for surface, shown in given.items()}
    assert "4711" in quoted["Python"][0] and all(found == quoted["Python"] for found in quoted.values()), quoted
