#!/usr/bin/env bash
# Expected: WhatsAppChatLoader reads an export of WhatsApp, or raises.
# Happens: an export from Android, and one of an iPhone in German, has no messages for it, without an error. One of an iPhone in English (US) has
# messages of a person who is called "\u202fPM] Ada", at a time without its half of the day; and a line that continues a message is joined to it
# with a space.
# Package: langchain-community 0.4.2 (PyPI). Seen 2026-11-29.
set -euo pipefail
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
"${PYTHON:-python3}" -m venv "$T/venv"
timeout 400 "$T/venv/bin/pip" install --quiet --disable-pip-version-check langchain-community==0.4.2
cd "$T"
env -i HOME="$T" PATH="$PATH" timeout 120 "$T/venv/bin/python" -W ignore <<'PY'
from importlib.metadata import version
from langchain_community.chat_loaders.whatsapp import WhatsAppChatLoader

print("langchain-community", version("langchain-community"))
exports = {
    "iPhone, English (US)": "[1/25/23, 3:45:12\u202fPM] Ada: The keel\nis oiled.\n[1/25/23, 3:46:12\u202fPM] Charles: Good.\n",
    "iPhone, German": "[25.01.23, 15:45:12] Ada: The keel\nis oiled.\n[25.01.23, 15:46:12] Charles: Good.\n",
    "Android, English (US)": "1/25/23, 3:45\u202fPM - Ada: The keel\nis oiled.\n1/25/23, 3:46\u202fPM - Charles: Good.\n",
    "Android, English (UK)": "25/01/2023, 15:45 - Ada: The keel\nis oiled.\n25/01/2023, 15:46 - Charles: Good.\n",
}
found = {}
for phone, text in exports.items():
    with open("chat.txt", "w", encoding="utf-8") as file:
        file.write(text)
    (session,) = WhatsAppChatLoader(path="chat.txt").load()
    messages = [(m.additional_kwargs["sender"], m.content, m.additional_kwargs["events"][0]["message_time"]) for m in session["messages"]]
    found[phone] = messages
    print(f"{phone}: {len(messages)} of 2 messages", messages)
assert [len(messages) for messages in found.values()] == [2, 0, 0, 0]
assert found["iPhone, English (US)"][0] == ("\u202fPM] Ada", "The keel is oiled.", "1/25/23, 3:45:12")
print("SEEN: no messages in three of four exports, and a wrong name in the fourth")
PY
