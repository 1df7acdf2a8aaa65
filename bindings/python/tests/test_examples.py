"""The programs that are shown run as they are shown: alone, and on a database that another surface filled."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mnemon import Engine, Message, StaticBlock

FOLDER = Path(__file__).parent.parent
EXAMPLES = sorted(path for path in FOLDER.glob("examples/**/*.py") if path.parent.name != "frameworks")
BLOCKS = [block.split("```")[0] for block in (FOLDER / "README.md").read_text().split("```python\n")[1:]]
TITLES = ["recall", "assemble", "files", "in_python", "langgraph", "langchain", "llama_index", "openai_agents", "anthropic"]
NAMESPACE, DATABASE = "acme/user-42", "memory.redb"


def chat(session: str) -> list[dict[str, object]]:
    """A conversation with everything that a message may have, in OpenAI's form and in ours."""
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"what": "boat"}'}}
    messages: list[dict[str, object]] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "name": "Ada", "content": [
            {"type": "text", "text": "What is this?"}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
        ]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "a boat"},
        {"role": "assistant", "content": "A boat. Your lesson in it is on Thursday."},
        {"role": "user", "content": [{"type": "file", "uri": "a.pdf"}, {"type": "text", "text": "And this?"}], "metadata": {"n": [1, None]}},
        {"role": "assistant", "content": "A form.", "created_at": "2024-05-01T09:30:00Z"},
        {"role": "user", "content": "Long ago.", "created_at": "-000044-03-15T12:00:00Z"},
    ]
    return [message | {"session": session} for message in messages]


def command(folder: Path, *arguments: str, text: str = "") -> None:
    line = [sys.executable, "-m", "mnemon", *arguments]
    done = subprocess.run(line, cwd=folder, input=text, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def alone(folder: Path) -> None:
    """There is no database yet."""


def ingested(folder: Path) -> None:
    """By the command."""
    sessions = ("monday", "tuesday", "wednesday")
    lines = [json.dumps(message | {"namespace": NAMESPACE}) for session in sessions for message in chat(session)]
    command(folder, "ingest", "--db", DATABASE, "-", text="\n".join(lines))


def remembered(folder: Path) -> None:
    """By sessions, as those of the server, whose buffers were flushed in part; then exported and imported by the command."""
    with Engine(folder / "first.redb") as engine:
        for session in ("monday", "tuesday", "wednesday"):
            memory = engine.memory(NAMESPACE, session, blocks=[StaticBlock("about", "You are Atlas.")])
            memory.put(chat(session))
            memory.flush()
            memory.checkpoint("then")
            memory.put([Message("The last one.", id=session), "Or this."])
        engine.documents(NAMESPACE).put("profile", {"name": "Ada"})
        engine.flush()
    command(folder, "export", "--db", "first.redb", "--output", "export.jsonl")
    command(folder, "import", "--db", DATABASE, "export.jsonl")


FILLED = pytest.mark.parametrize("fill", [alone, ingested, remembered], ids=lambda fill: fill.__name__)


def check(program: Path, folder: Path) -> None:
    result = subprocess.run([sys.executable, program], cwd=folder, capture_output=True, text=True, timeout=120)
    assert (result.returncode, result.stderr) == (0, "")
    assert "Thursday" in result.stdout


@FILLED
@pytest.mark.parametrize("block", range(len(BLOCKS)), ids=TITLES)
def test_a_program_of_the_readme_runs(block: int, fill: Callable[[Path], None], tmp_path: Path) -> None:
    assert len(TITLES) == len(BLOCKS)
    fill(tmp_path)
    program = tmp_path / f"{TITLES[block]}_program.py"
    program.write_text(BLOCKS[block])
    check(program, tmp_path)
    check(program, tmp_path)


@FILLED
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, fill: Callable[[Path], None], tmp_path: Path) -> None:
    fill(tmp_path)
    check(example, tmp_path)


@pytest.mark.parametrize("readme", [FOLDER / "README.md", FOLDER.parent.parent / "README.md"])
def test_the_readme_shows_the_first_example(readme: Path) -> None:
    shown = readme.read_text().split("```python\n")[1].split("```")[0]
    assert shown == (FOLDER / "examples/recall.py").read_text()
