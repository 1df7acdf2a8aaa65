#!/usr/bin/env bash
# Expected: with `pin_first=2` the first two messages of a session, such as its task, stay in the conversation for good, also after a restart.
# Happens: on a restart the session manager skips as many messages from the beginning of the stored session as were removed. The pinned ones are at
# the beginning, so they are the ones that are missing, and two that were removed are back. The new beginning is then pinned instead.
# Package: strands-agents 1.62.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
SERVER=
trap 'kill $SERVER 2> /dev/null || true; rm -rf "$T" || { sleep 3; rm -rf "$T"; }' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 300 "$T/venv/bin/pip" install --quiet --disable-pip-version-check strands-agents==1.62.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 100 "$T/venv/bin/python" <<'PY'
import importlib.metadata as meta
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models import Model
from strands.session.file_session_manager import FileSessionManager

print("strands-agents", meta.version("strands-agents"))


class Local(Model):
    """A model with fixed answers, which keeps what it was shown."""

    def update_config(self, **_):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *_, **__):
        raise NotImplementedError

    async def stream(self, messages, *_, **__):
        self.shown = texts(messages)
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "answer to " + self.shown[-1]}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}
        yield {"metadata": {"usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}, "metrics": {"latencyMs": 1}}}


def texts(messages):
    return [message["content"][0]["text"] for message in messages]


def agent():
    return Agent(
        model=Local(),
        agent_id="helper",
        callback_handler=None,
        conversation_manager=SlidingWindowConversationManager(window_size=4, pin_first=2),
        session_manager=FileSessionManager("monday", storage_dir="sessions"),
    )


first = agent()
for i in range(5):
    first(f"q{i}")
before = texts(first.messages)
second = agent()
after = texts(second.messages)
second("q5")
print("before the restart:", before)
print("after it:          ", after)
print("shown to the model:", second.model.shown)
assert before == ["q0", "answer to q0", "q3", "answer to q3", "q4", "answer to q4"], before
assert after == ["q2", "answer to q2", "q3", "answer to q3", "q4", "answer to q4"], after
assert second.model.shown == [*after, "q5"]
assert texts(second.messages) == ["q2", "answer to q2", "q4", "answer to q4", "q5", "answer to q5"], texts(second.messages)
print("SEEN: a restart loses the pinned messages")
PY
