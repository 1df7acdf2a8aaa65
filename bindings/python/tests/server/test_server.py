"""The package `mnemon-engine-server`: with it, the command has what the wheel alone leaves out. `make test-python` installs it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import requires, version
from pathlib import Path
from urllib.request import urlopen

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
