#!/usr/bin/env bash
# Expected: TelegramChatLoader returns the text of each message that somebody wrote.
# Happens: a message with a bold word, a link or a mention has a list as its content, with parts of type "bold" or "link", which no model takes, and
# whose text has only two of its three pieces; that somebody pinned a message is a message of nobody's with no text; and the
# time is the exporter's local one without a zone, although the file has the moment beside it.
# Package: langchain-community 0.4.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-community==0.4.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
import json
from importlib.metadata import version
from langchain_community.chat_loaders.telegram import TelegramChatLoader

print("langchain-community", version("langchain-community"))
pieces = ["The ", {"type": "bold", "text": "keel"}, " is oiled."]
times = {"date": "2025-01-25T12:00:00", "date_unixtime": "1737799200"}
chat = {"name": "Boats", "type": "personal_chat", "id": 1, "messages": [
    {"id": 1, "type": "message", **times, "from": "Ada", "from_id": "user1", "text": pieces},
    {"id": 2, "type": "service", **times, "actor": "Ada", "actor_id": "user1", "action": "pin_message", "message_id": 1, "text": ""},
]}
with open("result.json", "w") as file:
    json.dump(chat, file)
(session,) = TelegramChatLoader(path="result.json").load()
for message in session["messages"]:
    print(repr(message.additional_kwargs["sender"]), repr(message.content), "text:", repr(str(message.text)))
first, second = session["messages"]
assert first.content == pieces and str(first.text) == "The  is oiled."
assert (second.additional_kwargs["sender"], second.content) == ("", "")
assert first.additional_kwargs["events"] == [{"message_time": "2025-01-25T12:00:00"}]
print("SEEN: the bold word is missing from the text, and a pin is a message of nobody")
PY
