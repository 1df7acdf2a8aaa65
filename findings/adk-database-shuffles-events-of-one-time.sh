#!/usr/bin/env bash
# Expected: a session has its events in the order in which they were appended, with each session service.
# Happens: DatabaseSessionService sorts them by their times, and those of one time by their ids, which are random. A conversation that is imported from a file with
# times in seconds comes back with answers before their questions, in another order with each import. InMemorySessionService and SqliteSessionService
# keep the order of events of one time.
# Package: google-adk 2.13.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check 'google-adk[db]==2.13.0'
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import asyncio
from importlib.metadata import version
from google.adk.events import Event
from google.adk.sessions import DatabaseSessionService, InMemorySessionService
from google.adk.sessions.sqlite_session_service import SqliteSessionService
from google.genai import types

print("google-adk", version("google-adk"))
WORDS = [f"{i // 2 + 1}. {'question' if i % 2 == 0 else 'answer'}" for i in range(20)]


async def read(service):
    key = {"app_name": "import", "user_id": "ada", "session_id": "chat"}
    session = await service.create_session(**key)
    for i, words in enumerate(WORDS):
        content = types.Content(role=["user", "model"][i % 2], parts=[types.Part(text=words)])
        await service.append_event(session, Event(author=["user", "helper"][i % 2], timestamp=1764417600.0, content=content))
    session = await service.get_session(**key)
    return [event.content.parts[0].text for event in session.events]


async def main():
    memory = await read(InMemorySessionService())
    sqlite = await read(SqliteSessionService("one.db"))
    database = await read(DatabaseSessionService("sqlite+aiosqlite:///two.db"))
    print("DatabaseSessionService:", database[:6], "...")
    assert memory == sqlite == WORDS
    assert sorted(database) == sorted(WORDS) and database != WORDS


asyncio.run(main())
print("SEEN: events of one time in a random order")
PY
