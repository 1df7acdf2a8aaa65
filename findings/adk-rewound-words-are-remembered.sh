#!/usr/bin/env bash
# Expected: words that the user took back with `Runner.rewind_async` are no part of what `add_session_to_memory` remembers of the session.
# Happens: a rewind only appends an event that says so, which the next prompt obeys and both memory services pass over: they store all events of the
# session. A search in another session finds the words that were taken back.
# Package: google-adk 2.13.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check google-adk==2.13.0 aiosqlite
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 200 "$T/venv/bin/python" -W ignore <<'PY'
import asyncio
import importlib.metadata as meta
from google.adk.agents import LlmAgent
from google.adk.memory import InMemoryMemoryService, SqliteMemoryService
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

print("google-adk", meta.version("google-adk"))
shown = []


class Local(BaseLlm):
    """A model with fixed answers; `shown` has what its last request contained."""

    async def generate_content_async(self, llm_request, stream=False):
        shown[:] = [part.text for content in llm_request.contents for part in content.parts]
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="Noted.")]))


async def main():
    sessions = InMemorySessionService()
    runner = Runner(app_name="app", agent=LlmAgent(name="helper", model=Local(model="local")), session_service=sessions)
    monday = await sessions.create_session(app_name="app", user_id="ada", session_id="monday")

    async def say(text):
        message = types.Content(role="user", parts=[types.Part(text=text)])
        return [event async for event in runner.run_async(user_id="ada", session_id="monday", new_message=message)][-1]

    await say("My bicycle is red")
    taken_back = await say("The word for the locker is flowerpot")
    await runner.rewind_async(user_id="ada", session_id="monday", rewind_before_invocation_id=taken_back.invocation_id)
    await say("Thanks")
    print("shown to the model after the rewind:", shown)
    assert "My bicycle is red" in shown and not any("flowerpot" in text for text in shown)
    monday = await sessions.get_session(app_name="app", user_id="ada", session_id="monday")
    for memory in InMemoryMemoryService(), SqliteMemoryService("memory.db"):
        await memory.add_session_to_memory(monday)
        found = (await memory.search_memory(app_name="app", user_id="ada", query="flowerpot")).memories
        texts = [entry.content.parts[0].text for entry in found]
        print(type(memory).__name__, "remembers", texts)
        assert texts == ["The word for the locker is flowerpot"]


asyncio.run(main())
print("SEEN: words that were taken back are remembered")
PY
