#!/usr/bin/env bash
# Expected: a session on whose branch a conversation went on is that conversation when the program opens its file again.
# Happens: which branch is current is in the object alone. Opened again, an `AdvancedSQLiteSession` has the turns of main, which the user had
# replaced, and the next turn goes there, beside the one that it should follow. A `SQLiteSession` on the file reads both branches as one conversation.
# Package: openai-agents 0.24.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check openai-agents==0.24.0
cd "$T"
env -i HOME="$T" PATH="$PATH" OPENAI_AGENTS_DISABLE_TRACING=1 timeout 100 "$T/venv/bin/python" <<'PY'
import asyncio
import importlib.metadata as meta
from agents import Agent, Model, ModelResponse, Runner, SQLiteSession, Usage
from agents.extensions.memory import AdvancedSQLiteSession
from openai.types.responses import ResponseOutputMessage, ResponseOutputText

print("openai-agents", meta.version("openai-agents"))


class Local(Model):
    """A model with fixed answers, which keeps what it was shown."""

    async def get_response(self, system_instructions, input, *_, **__):
        self.shown = asked(input)
        text = ResponseOutputText(text="Noted.", type="output_text", annotations=[])
        answer = ResponseOutputMessage(id="m", content=[text], role="assistant", status="completed", type="message")
        return ModelResponse(output=[answer], usage=Usage(), response_id=None)

    def stream_response(self, *_, **__):
        raise NotImplementedError


def asked(items):
    return [item["content"] for item in items if item.get("role") == "user"]


async def main():
    model = Local()
    agent = Agent(name="helper", model=model)
    session = AdvancedSQLiteSession(session_id="monday", db_path="sessions.db", create_tables=True)
    for text in "We are two", "Book a room in Ely", "Thanks":
        await Runner.run(agent, text, session=session)
    await session.create_branch_from_turn(2)
    await Runner.run(agent, "Book a room in Rye", session=session)
    before = asked(await session.get_items())
    session.close()
    again = AdvancedSQLiteSession(session_id="monday", db_path="sessions.db")
    after = asked(await again.get_items())
    await Runner.run(agent, "When is breakfast?", session=again)
    again.close()
    plain = asked(await SQLiteSession("monday", "sessions.db").get_items())
    print("before the restart:     ", before)
    print("after it:               ", after)
    print("shown to the model:     ", model.shown)
    print("read by a SQLiteSession:", plain)
    assert before == ["We are two", "Book a room in Rye"]
    assert after == ["We are two", "Book a room in Ely", "Thanks"]
    assert model.shown == [*after, "When is breakfast?"]
    assert plain == ["We are two", "Book a room in Ely", "Thanks", "Book a room in Rye", "When is breakfast?"]


asyncio.run(main())
print("SEEN: a session goes on where the user had turned away")
PY
