#!/usr/bin/env bash
# Expected: an agent that is started with a new system prompt works by that one, and the session brings back what was said.
# Happens: SnapshotSessionManager keeps the system prompt with the messages, and puts the old one in the place of the one that the program gives, without a warning: a
# correction of the instructions never reaches a conversation that had begun before. With FileSessionManager the new one counts. And the messages
# that the window had left out are not in the snapshot: they are gone, while FileSessionManager keeps them in their files.
# Package: strands-agents 1.62.0 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check strands-agents==1.62.0
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from pathlib import Path
from strands import Agent
from strands.agent.conversation_manager import SlidingWindowConversationManager
from strands.models import Model
from strands.session import FileSessionManager
from strands.session.snapshot_session_manager import SnapshotSessionManager
from strands.storage import LocalFileStorage

print("strands-agents", version("strands-agents"))


class Local(Model):
    """Answers always the same, and keeps the system prompt that it is given."""

    def update_config(self, **config):
        pass

    def get_config(self):
        return {}

    def structured_output(self, *args, **kwargs):
        raise NotImplementedError

    async def stream(self, messages, tool_specs=None, system_prompt=None, **kwargs):
        self.given = system_prompt
        yield {"messageStart": {"role": "assistant"}}
        yield {"contentBlockStart": {"start": {}}}
        yield {"contentBlockDelta": {"delta": {"text": "Yes."}}}
        yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "end_turn"}}


def run(manager, prompt, questions):
    model = Local()
    agent = Agent(model=model, system_prompt=prompt, session_manager=manager(), callback_handler=None,
                  conversation_manager=SlidingWindowConversationManager(window_size=4))
    for question in questions:
        agent(question)
    return model.given


def written(folder, words):
    return any(words in path.read_text() for path in Path(folder).rglob("*") if path.is_file())


managers = {
    "files": lambda: FileSessionManager(session_id="ada", storage_dir="files"),
    "snapshots": lambda: SnapshotSessionManager(session_id="ada", storage=LocalFileStorage("snapshots")),
}
seen = {}
for name, manager in managers.items():
    run(manager, "The office is in Berlin.", ["My name is Ada.", "Second.", "Third.", "Fourth."])
    seen[name] = run(manager, "The office is in Paris.", ["Where is the office?"]), written(name, "My name is Ada.")
    print(f"{name}: the model is given {seen[name][0]!r}; the first message is on disk: {seen[name][1]}")
assert seen == {"files": ("The office is in Paris.", True), "snapshots": ("The office is in Berlin.", False)}
print("SEEN: the old instructions in the place of the new ones")
PY
