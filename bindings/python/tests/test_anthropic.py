"""Claude's memory tool through Anthropic's SDK: the cases of the SDK's own tests of its tool for local files, and a session with a server."""

import asyncio
import inspect
import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from anthropic import Anthropic, AsyncAnthropic
from anthropic.lib.tools import ToolError
from anthropic.types.beta import (
    BetaMemoryTool20250818CreateCommand as Create,
    BetaMemoryTool20250818DeleteCommand as Delete,
    BetaMemoryTool20250818InsertCommand as Insert,
    BetaMemoryTool20250818RenameCommand as Rename,
    BetaMemoryTool20250818StrReplaceCommand as StrReplace,
    BetaMemoryTool20250818ViewCommand as View,
)

from mnemon import AsyncEngine, Engine, InvalidNamespaceError, LegalHoldError
from mnemon.anthropic import MnemonAsyncMemoryTool, MnemonMemoryTool

NAMESPACE, FILES = "acme/ada", "acme/ada/memories"
Tool = MnemonMemoryTool | MnemonAsyncMemoryTool


def create(path: str, text: str) -> Create:
    return Create(command="create", path=path, file_text=text)


def view(path: str, *view_range: int) -> View:
    return View(command="view", path=path, view_range=list(view_range)) if view_range else View(command="view", path=path)


def replace(path: str, old: str, new: str) -> StrReplace:
    return StrReplace(command="str_replace", path=path, old_str=old, new_str=new)


def insert(path: str, line: int, text: str) -> Insert:
    return Insert(command="insert", path=path, insert_line=line, insert_text=text)


def delete(path: str) -> Delete:
    return Delete(command="delete", path=path)


def rename(old: str, new: str) -> Rename:
    return Rename(command="rename", old_path=old, new_path=new)


@pytest.fixture
def engine() -> Iterator[Engine]:
    with Engine() as engine:
        yield engine


def run(answer: Any) -> Any:
    return asyncio.run(answer) if inspect.isawaitable(answer) else answer


@pytest.fixture(params=[MnemonMemoryTool, MnemonAsyncMemoryTool])
def tool(request: pytest.FixtureRequest, engine: Engine) -> Tool:
    made: Tool = request.param(AsyncEngine(engine) if request.param is MnemonAsyncMemoryTool else engine, NAMESPACE)
    return made


@pytest.fixture
def ask(tool: Tool) -> Callable[..., str]:
    return lambda command: run(getattr(tool, command.command)(command))


def files(engine: Engine) -> dict[str, str]:
    return {file.key: file.value["text"] for file in engine.documents(FILES).search(limit=100)}


# The text of a file, or none; a command; its answer, and the text afterwards. Of the SDK's tests.
CASES: list[tuple[str | None, Any, str, str]] = [
    (None, create("/memories/f", "Hello, World!"), "File created successfully at: /memories/f", "Hello, World!"),
    (
        "Line 1\nLine 2\nLine 3", view("/memories/f"),
        "Here's the content of /memories/f with line numbers:\n     1\tLine 1\n     2\tLine 2\n     3\tLine 3", "Line 1\nLine 2\nLine 3",
    ),
    (
        "1\n2\n3\n4\n5", view("/memories/f", 2, 4),
        "Here's the content of /memories/f with line numbers:\n     2\t2\n     3\t3\n     4\t4", "1\n2\n3\n4\n5",
    ),
    (
        "line1\r\nline2\r\n", view("/memories/f"),
        "Here's the content of /memories/f with line numbers:\n     1\tline1\r\n     2\tline2\r\n     3\t", "line1\r\nline2\r\n",
    ),
    (
        "Line 1\nOld Text\nLine 3", replace("/memories/f", "Old Text", "New Text"),
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     1\tLine 1\n     2\tNew Text\n     3\tLine 3", "Line 1\nNew Text\nLine 3",
    ),
    ("Line 1\nLine 2", insert("/memories/f", 1, "Inserted"), "The file /memories/f has been edited.", "Line 1\nInserted\nLine 2\n"),
    ("Line 1\nLine 2", insert("/memories/f", 0, "First"), "The file /memories/f has been edited.", "First\nLine 1\nLine 2\n"),
    ("Line 1\nLine 2", insert("/memories/f", 2, "Last"), "The file /memories/f has been edited.", "Line 1\nLine 2\nLast\n"),
    ("a\r\nb\r\n", insert("/memories/f", 1, "Inserted"), "The file /memories/f has been edited.", "a\r\nInserted\nb\r\n"),
]


@pytest.mark.parametrize(("before", "command", "answer", "after"), CASES)
def test_commands_do_what_those_of_the_sdk_do(
    before: str | None, command: Any, answer: str, after: str, ask: Callable[..., str], engine: Engine
) -> None:
    if before is not None:
        ask(create("/memories/f", before))
    assert (ask(command), files(engine)) == (answer, {"f": after})


# A command and its error, with a file `f` of "Hello\nMiddle\nHello" and one `g`. Of the SDK's tests; where the documentation has another
# wording than the SDK, that of the documentation.
ERRORS: list[tuple[Any, str]] = [
    (create("/memories/f", "New"), "File /memories/f already exists"),
    (view("/memories/none"), "The path /memories/none does not exist. Please provide a valid path."),
    (
        replace("/memories/f", "NotFound", "x"),
        "No replacement was performed, old_str `NotFound` did not appear verbatim in /memories/f.",
    ),
    (
        replace("/memories/f", "Hello", "Hi"),
        "No replacement was performed. Multiple occurrences of old_str `Hello` in lines: 1, 3. Please ensure it is unique",
    ),
    (replace("/memories/none", "old", "new"), "The path /memories/none does not exist. Please provide a valid path."),
    (insert("/memories/none", 0, "text"), "The path /memories/none does not exist"),
    (insert("/memories/f", 10, "text"), "Invalid `insert_line` parameter: 10. It should be within the range of lines of the file: [0, 3]"),
    (delete("/memories/none"), "The path /memories/none does not exist"),
    (delete("/memories"), "Cannot delete the /memories directory itself"),
    (delete("/memories/"), "Cannot delete the /memories directory itself"),
    (rename("/memories/none", "/memories/new"), "The path /memories/none does not exist"),
    (rename("/memories/f", "/memories/g"), "The destination /memories/g already exists"),
    (rename("/memories/", "/memories/moved"), "Cannot rename the /memories directory itself"),
    (create("/invalid/path.txt", "x"), "Path must start with /memories"),
    (create("/memories/../../../etc/passwd", "x"), "Path /memories/../../../etc/passwd would escape /memories directory"),
]


@pytest.mark.parametrize(("command", "error"), ERRORS)
def test_errors_are_those_that_are_documented(command: Any, error: str, ask: Callable[..., str], engine: Engine) -> None:
    for name, text in (("f", "Hello\nMiddle\nHello"), ("g", "")):
        ask(create(f"/memories/{name}", text))
    before = files(engine)
    with pytest.raises(ToolError, match=re.escape(error)):
        ask(command)
    assert files(engine) == before


def test_directories_are_moved_and_deleted(ask: Callable[..., str], tool: Tool, engine: Engine) -> None:
    for name in ("dir/file1.txt", "dir/file2.txt", "file.txt"):
        ask(create(f"/memories/{name}", "Content"))
    assert ask(view("/memories/dir")).splitlines()[1:] == [
        "14B\t/memories/dir", "7B\t/memories/dir/file1.txt", "7B\t/memories/dir/file2.txt",
    ]
    ask(rename("/memories/file.txt", "/memories/nested/dir/file.txt"))
    assert ask(delete("/memories/dir")) == "Successfully deleted /memories/dir"
    assert files(engine) == {"nested/dir/file.txt": "Content"}
    engine.flush()
    assert [found.key for found in engine.documents(NAMESPACE).search("content", below=True)] == ["nested/dir/file.txt"]
    assert run(tool.clear_all_memory()) == "All memory cleared"
    assert files(engine) == {} and run(tool.clear_all_memory()) == "All memory cleared"


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"command": "read", "path": "/memories"}, "unknown variant `read`"),
        ({"command": "view"}, "The parameter `path` is missing"),
        ({"command": "view", "path": "/memories", "view_range": 1}, "expected a sequence"),
        ({"command": "view", "path": 5}, "expected a string"),
        ({"command": "view", "path": "/memories", "limit": 5}, "unknown field `limit`"),
        ({}, "missing field `command`"),
        ("view", "expected struct"),
    ],
)
def test_an_input_of_another_form_is_told(given: object, error: str, tool: Tool) -> None:
    with pytest.raises(ToolError, match=error):
        run(tool.call(given))


def test_what_no_model_can_correct_is_raised(engine: Engine) -> None:
    with pytest.raises(InvalidNamespaceError):
        MnemonMemoryTool(engine, "").call({"command": "view", "path": "/memories"})
    tool = MnemonMemoryTool(engine, NAMESPACE)
    tool.execute(create("/memories/f", "x"))
    engine.hold(NAMESPACE, "a case")
    with pytest.raises(LegalHoldError):
        tool.execute(delete("/memories/f"))


def test_writers_at_the_same_time_lose_nothing(engine: Engine) -> None:
    def write(writer: int) -> None:
        tool = MnemonMemoryTool(engine, NAMESPACE)
        for number in range(10):
            tool.execute(insert("/memories/log", 0, f"{writer} {number}"))

    MnemonMemoryTool(engine, NAMESPACE).execute(create("/memories/log", ""))
    with ThreadPoolExecutor() as pool:
        assert list(pool.map(write, range(4))) == [None] * 4
    assert sorted(files(engine)["log"].split("\n")) == ["", *sorted(f"{writer} {number}" for writer in range(4) for number in range(10))]


@contextmanager
def claude(inputs: list[dict[str, Any]], asked: list[dict[str, Any]]) -> Iterator[str]:
    """A server of Anthropic's API whose model calls the tool with these inputs, one after another, and then says that it is done."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            content: dict[str, Any] = {"type": "text", "text": "Done."}
            if len(asked) <= len(inputs):
                content = {"type": "tool_use", "id": f"toolu_{len(asked)}", "name": "memory", "input": inputs[len(asked) - 1]}
            message = {
                "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-test", "content": [content],
                "stop_reason": "tool_use" if content["type"] == "tool_use" else "end_turn", "stop_sequence": None,
                "usage": {"input_tokens": 1, "output_tokens": 1},
            }
            body = json.dumps(message).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def converse(engine: Engine, inputs: list[dict[str, Any]], with_await: bool) -> list[tuple[str, bool]]:
    """Lets the SDK run a conversation; returns what the model was told of each of its calls."""
    asked: list[dict[str, Any]] = []
    options: Any = {"model": "claude-test", "max_tokens": 1024, "messages": [{"role": "user", "content": "When do I row?"}]}

    async def main(url: str) -> Any:
        async with AsyncAnthropic(api_key="key", base_url=url, max_retries=0) as client:
            tool = MnemonAsyncMemoryTool(engine, NAMESPACE)
            return await client.beta.messages.tool_runner(**options, tools=[tool]).until_done()

    with claude(inputs, asked) as url:
        if with_await:
            last = asyncio.run(main(url))
        else:
            with Anthropic(api_key="key", base_url=url, max_retries=0) as client:
                last = client.beta.messages.tool_runner(**options, tools=[MnemonMemoryTool(engine, NAMESPACE)]).until_done()
    assert last.content[0].text == "Done."
    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    results = [result for request in asked[1:] for result in request["messages"][-1]["content"]]
    told = []
    for number, result in enumerate(results):
        assert result["tool_use_id"] == f"toolu_{number + 1}"
        content = result["content"]
        told.append((content if isinstance(content, str) else content[0]["text"], result.get("is_error", False)))
    return told


@pytest.mark.parametrize("with_await", [False, True])
def test_a_session_of_the_tool_runner(with_await: bool, tmp_path: Path) -> None:
    head = "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n"
    transcript: list[tuple[dict[str, Any], str, bool]] = [
        ({"command": "view", "path": "/memories"}, f"{head}0B\t/memories", False),
        (
            {"command": "create", "path": "/memories/sport/rowing.md", "file_text": "Ada rows on Thursdays.\n"},
            "File created successfully at: /memories/sport/rowing.md", False,
        ),
        (
            {"command": "create", "path": "/memories/sport/rowing.md", "file_text": "again"},
            "Error: File /memories/sport/rowing.md already exists", True,
        ),
        (
            {"command": "str_replace", "path": "/memories/sport/rowing.md", "old_str": "Thursdays", "new_str": "Fridays"},
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     1\tAda rows on Fridays.\n     2\t",
            False,
        ),
        (
            {"command": "insert", "path": "/memories/sport/rowing.md", "insert_line": 1, "insert_text": "At nine.\n"},
            "The file /memories/sport/rowing.md has been edited.", False,
        ),
        (
            {"command": "view", "path": "/memories/sport/rowing.md", "view_range": [2, 2]},
            "Here's the content of /memories/sport/rowing.md with line numbers:\n     2\tAt nine.", False,
        ),
        (
            {"command": "rename", "old_path": "/memories/sport", "new_path": "/memories/ada"},
            "Successfully renamed /memories/sport to /memories/ada", False,
        ),
        ({"command": "view", "path": "/memories"}, f"{head}30B\t/memories\n30B\t/memories/ada/\n30B\t/memories/ada/rowing.md", False),
        ({"command": "delete", "path": "/memories/sport"}, "Error: The path /memories/sport does not exist", True),
        ({"command": "append", "path": "/memories/ada"}, None, True),  # type: ignore[list-item]
        ({"command": "delete", "path": "/memories"}, "Error: Cannot delete the /memories directory itself", True),
    ]
    with Engine(tmp_path / "memory.redb") as engine:
        told = converse(engine, [given for given, _, _ in transcript], with_await)
        assert len(told) == len(transcript)
        for (given, expected, is_error), (content, was_error) in zip(transcript, told, strict=True):
            assert was_error == is_error and expected in (content, None), given
        assert "unknown variant `append`" in told[9][0]
    with Engine(tmp_path / "memory.redb") as engine:
        later = [
            {"command": "view", "path": "/memories/ada/rowing.md"},
            {"command": "delete", "path": "/memories/ada"},
            {"command": "view", "path": "/memories"},
        ]
        assert [content for content, _ in converse(engine, later, with_await)] == [
            "Here's the content of /memories/ada/rowing.md with line numbers:\n     1\tAda rows on Fridays.\n     2\tAt nine.\n     3\t",
            "Successfully deleted /memories/ada",
            f"{head}0B\t/memories",
        ]


def test_the_documents_have_a_session_as_it_is(tmp_path: Path) -> None:
    text = (Path(__file__).parents[3] / "docs/server.md").read_text()
    parts = text.partition("```text\n> {")[2].partition("\n```")[0].split("\n\n> {")
    calls, told = zip(*(("{" + part).split("\n", 1) for part in parts), strict=True)
    with Engine(tmp_path / "memory.redb") as engine:
        answers = converse(engine, [json.loads(call) for call in calls], False)
    printed = [("is_error: " if is_error else "") + content for content, is_error in answers]
    assert [answer.rstrip() for answer in printed] == [answer.rstrip() for answer in told]
