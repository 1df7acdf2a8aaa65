#!/usr/bin/env bash
# Expected: SlackChatLoader returns what people wrote in the channels of an export, as Slack shows it.
# Happens: "X set the channel topic" is a message of X's, and what X writes next, a reply in a thread, is in the same message; texts have Slack's
# entities (&amp;) and marks (<@U1>) as they are; and names are ids, although users.json is in the archive.
# Package: langchain-community 0.4.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-community==0.4.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import json
import zipfile
from importlib.metadata import version
from langchain_community.chat_loaders.slack import SlackChatLoader

print("langchain-community", version("langchain-community"))
users = [{"id": "U1", "name": "ada", "profile": {"display_name": "Ada"}}, {"id": "U2", "name": "charles", "profile": {"display_name": "Charles"}}]
day = [
    {"type": "message", "user": "U1", "ts": "1700000000.000100", "text": "Oak &amp; pine, <@U2>?"},
    {"type": "message", "user": "U2", "ts": "1700000001.000100", "subtype": "channel_topic", "text": "<@U2> set the channel topic: Boats"},
    {"type": "message", "user": "U2", "ts": "1700000002.000100", "text": "Oak.", "thread_ts": "1700000000.000100"},
]
with zipfile.ZipFile("export.zip", "w") as archive:
    archive.writestr("users.json", json.dumps(users))
    archive.writestr("general/2023-11-14.json", json.dumps(day))
messages = [(m.additional_kwargs["sender"], m.content) for session in SlackChatLoader(path="export.zip").load() for m in session["messages"]]
for message in messages:
    print(message)
assert messages == [("U1", "Oak &amp; pine, <@U2>?"), ("U2", "<@U2> set the channel topic: Boats\n\nOak.")]
print("SEEN: what Slack wrote is a person's words, and texts and names are as in the file")
PY
