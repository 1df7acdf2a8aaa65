#!/usr/bin/env bash
# Expected: a time in the state of a graph is after a checkpoint what it was before; a daily reminder at nine in London stays at nine.
# Happens: the serializer keeps a time's offset and drops its zone, without an error. What is read back equals the old time, but one more day over the
# change of the clocks is ten o'clock. Without a checkpointer the same graph gives nine. A tuple comes back as a list, and half of a surrogate pair as
# a question mark.
# Package: langgraph 1.2.24, langgraph-checkpoint 4.3.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langgraph==1.2.24 langgraph-checkpoint==4.3.2 tzdata
timeout 100 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
from datetime import datetime, timedelta
from typing import Any, TypedDict
from zoneinfo import ZoneInfo
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph

for name in "langgraph", "langgraph-checkpoint":
    print(name, meta.version(name))
LONDON = ZoneInfo("Europe/London")


class State(TypedDict, total=False):
    reminder: datetime
    other: Any


def model(state):
    return {"reminder": state["reminder"] + timedelta(days=1)} if "reminder" in state else {}


graph = StateGraph(State).add_node("model", model).add_edge(START, "model")
# The clocks change in the night to 29 March.
saturday = datetime(2026, 3, 28, 9, tzinfo=LONDON)
plain = graph.compile().invoke({"reminder": saturday - timedelta(days=1)})
plain = graph.compile().invoke(plain)["reminder"]
kept = graph.compile(checkpointer=InMemorySaver())
thread = {"configurable": {"thread_id": "monday"}}
kept.invoke({"reminder": saturday - timedelta(days=1), "other": ("a", "\ud83d")}, thread)
stored = kept.get_state(thread).values
later = kept.invoke({}, thread)["reminder"]
local = [time.astimezone(LONDON).strftime("%d %B %H:%M") for time in (plain, later)]
print("stored:", repr(stored["reminder"]), stored["other"])
print("in London one day later: without a checkpointer", local[0], "with one", local[1])
assert stored["reminder"] == saturday and stored["reminder"].tzinfo != LONDON
assert local == ["29 March 09:00", "29 March 10:00"], local
assert stored["other"] == ["a", "?"], stored
print("SEEN: a checkpoint moves a reminder by an hour")
PY
