"""`python -m mnemon`."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "mnemon", *map(str, arguments)], capture_output=True, text=True)


def test_the_command_ingests_and_recalls(tmp_path: Path) -> None:
    messages, db = tmp_path / "messages.jsonl", tmp_path / "memory.redb"
    messages.write_text(json.dumps({"namespace": "n", "role": "user", "content": "My bike is in the cellar."}) + "\n")
    ingested = run("ingest", "--db", db, messages)
    assert ingested.returncode == 0, ingested.stderr
    found = run("recall", "--db", db, "--namespace", "n", "--format", "json", "where is the bike?")
    assert found.returncode == 0 and "cellar" in found.stdout, found.stderr
    assert run("verify", "--db", db).returncode == 0


def test_the_exit_status_is_that_of_the_command(tmp_path: Path) -> None:
    assert run("--version").stdout.startswith("mnemon ")
    wrong = run("recall", "--nonsense")
    assert wrong.returncode == 2 and "Usage: mnemon recall" in wrong.stderr
    missing = run("stats", "--db", tmp_path / "missing.redb")
    assert missing.returncode == 1 and "missing.redb" in missing.stderr and "Traceback" not in missing.stderr


def test_what_the_wheel_leaves_out_says_what_to_install(tmp_path: Path) -> None:
    db = tmp_path / "memory.redb"
    commands: list[tuple[str, list[object]]] = [
        ("serve", ["serve", "--db", db, "--listen", "127.0.0.1:0"]),
        ("mcp", ["mcp", "--db", db]),
        ("token", ["token", "--help"]),
        ("bench", ["bench", "recall", "--messages", "x"]),
    ]
    for name, arguments in commands:
        done = run(*arguments)
        assert done.returncode == 2 and f"no `{name}`" in done.stderr, (arguments, done.stderr)
        assert "pip install 'mnemon-engine[server]'" in done.stderr, (arguments, done.stderr)
        assert "cargo install --path crates/cli" in done.stderr, (arguments, done.stderr)
    assert not db.exists()
    error = json.loads(run("--format", "json", "serve").stderr)
    assert "cargo install" in str(error), error


@pytest.mark.skipif(sys.platform == "win32", reason="signals are another thing there")
def test_ctrl_c_ends_it(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mnemon", "ingest", "--db", str(tmp_path / "memory.redb"), "-"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
