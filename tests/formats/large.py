"""Writes one large file of each format, with which `mnemon bench import` measures how fast it is read and with how much memory.

    python3 large.py FOLDER [MEGABYTES]

makes FOLDER/FORMAT.ENDING with at least MEGABYTES (default: 50), or a folder of files where a format has one for each day. The zip archives have
that size before they are compressed.
"""

import json
import mailbox
import random
import sqlite3
import sys
import zipfile
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

FOLDER = Path(sys.argv[1])
BYTES = int(sys.argv[2] if len(sys.argv) > 2 else 50) * 1_000_000
WORDS = "mast keel sail rudder anchor harbour winch oak pine rope tide paint varnish deck bow stern Ada Berta the of a to and is in on".split()
RNG = random.Random(1)
SPEAKERS = ("Ada", "Berta", "Carl")


def turns():
    """Yields numbers, times and texts without end."""
    clock = datetime(2025, 1, 20, 8, tzinfo=timezone.utc)
    number = 0
    while True:
        clock += timedelta(seconds=RNG.randrange(5, 120))
        yield number, clock, " ".join(RNG.choices(WORDS, k=RNG.randrange(10, 90)))
        number += 1


def iso(clock):
    return clock.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def lines(name, write, before="", after="", between="\n"):
    """Writes pieces of text to a file until it is large enough."""
    with open(FOLDER / name, "w") as file:
        size = file.write(before)
        for number, clock, text in turns():
            size += file.write((between if number else "") + write(number, clock, text))
            if size > BYTES:
                break
        file.write(after)


def listed(name, write, before="[", after="]"):
    lines(name, lambda *turn: json.dumps(write(*turn)), before, after, ",\n")


def zipped(name, inner, write):
    listed(inner, write)
    with zipfile.ZipFile(FOLDER / name, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.write(FOLDER / inner, inner)
    (FOLDER / inner).unlink()


def is_user(number):
    return number % 2 == 0


def claude_code(number, clock, text):
    kind = "user" if is_user(number) else "assistant"
    content = text if is_user(number) else [{"type": "text", "text": text}]
    return json.dumps({
        "type": kind, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None, "sessionId": "s1", "cwd": "/home/ada/boat",
        "timestamp": iso(clock), "isSidechain": False, "message": {"role": kind, "content": content},
    })


def codex(number, clock, text):
    role, kind = ("user", "input_text") if is_user(number) else ("assistant", "output_text")
    payload = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return json.dumps({"timestamp": iso(clock), "ordinal": number + 1, "type": "response_item", "payload": payload})


def chatgpt(number, clock, text):
    def node(at, parent, role):
        content = {"content_type": "text", "parts": [text]}
        message = {"id": f"{number}-{at}", "author": {"role": role}, "create_time": clock.timestamp(), "content": content, "metadata": {}}
        return {"id": str(at), "parent": parent, "children": [], "message": message}
    mapping = {"0": {"id": "0", "parent": None, "message": None}, "1": node(1, "0", "user"), "2": node(2, "1", "assistant")}
    return {"conversation_id": f"c{number}", "title": "Boats", "create_time": clock.timestamp(), "current_node": "2", "mapping": mapping}


def claude_ai(number, clock, text):
    message = lambda sender: {
        "uuid": f"{number}-{sender}", "text": text, "content": [{"type": "text", "text": text}], "sender": sender,
        "created_at": iso(clock), "attachments": [], "files": [],
    }
    return {"uuid": f"c{number}", "name": "Boats", "created_at": iso(clock), "chat_messages": [message("human"), message("assistant")]}


def card(number, clock, text):
    return (
        '<div class="outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp"><div class="mdl-grid"><div class="header-cell mdl-cell '
        'mdl-cell--12-col"><p class="mdl-typography--title">Gemini Apps<br></p></div><div class="content-cell mdl-cell '
        f'mdl-cell--6-col mdl-typography--body-1">Prompted&nbsp;{text}<br>{clock:%b} {clock.day}, {clock:%Y, %I:%M:%S %p} UTC<br><p>{text}</p></div>'
        '<div class="content-cell mdl-cell mdl-cell--12-col mdl-typography--caption"><b>Products:</b><br>&emsp;Gemini Apps</div></div></div>'
    )


def opencode():
    database = sqlite3.connect(FOLDER / "opencode.db")
    database.executescript(
        "CREATE TABLE session (id TEXT PRIMARY KEY, parent_id TEXT, directory TEXT, revert TEXT, time_created INTEGER);"
        "CREATE TABLE message (id TEXT PRIMARY KEY, session_id TEXT, time_created INTEGER, data TEXT);"
        "CREATE TABLE part (id TEXT PRIMARY KEY, message_id TEXT, session_id TEXT, data TEXT);"
        "CREATE INDEX message_session ON message (session_id); CREATE INDEX part_session ON part (session_id);"
    )
    size = 0
    for number, clock, text in turns():
        session, millis = f"ses_{number // 100:06}", int(clock.timestamp() * 1000)
        if number % 100 == 0:
            database.execute("INSERT INTO session VALUES (?, NULL, '/home/ada/boat', NULL, ?)", (session, millis))
        data = json.dumps({"role": "user" if is_user(number) else "assistant", "time": {"created": millis}})
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?)", (f"msg_{number:08}", session, millis, data))
        part = json.dumps({"type": "text", "text": text}, separators=(",", ":"))
        database.execute("INSERT INTO part VALUES (?, ?, ?, ?)", (f"prt_{number:08}", f"msg_{number:08}", session, part))
        size += len(data) + len(part) + 150
        if size > BYTES:
            break
    database.commit()
    database.close()


def slack():
    size, day, messages = 0, None, []
    folder = FOLDER / "slack" / "boats"
    folder.mkdir(parents=True)
    for _, clock, text in turns():
        if day != clock.date() and messages:
            size += (folder / f"{day}.json").write_text(json.dumps(messages))
            messages = []
            if size > BYTES:
                break
        day = clock.date()
        messages.append({"type": "message", "user": "U1", "text": text, "ts": f"{clock.timestamp():.6f}", "user_profile": {"real_name": "Ada"}})


def mbox():
    box, size = mailbox.mbox(FOLDER / "mail.mbox"), 0
    for number, clock, text in turns():
        mail = EmailMessage()
        mail["From"], mail["Subject"], mail["Date"] = "Ada <ada@example.org>", f"Boat {number // 10}", format_datetime(clock)
        mail.set_content(text)
        box.add(mail)
        size += len(bytes(mail))
        if size > BYTES:
            break
    box.close()


def main():
    FOLDER.mkdir(parents=True)
    speaker = lambda number: SPEAKERS[number % 3]
    lines("claude-code.jsonl", claude_code)
    head = {"timestamp": "2025-01-20T08:00:00Z", "type": "session_meta", "payload": {"id": "c1", "cwd": "/home/ada/boat", "source": "cli"}}
    lines("codex.jsonl", codex, json.dumps(head) + "\n")
    zipped("chatgpt.zip", "conversations.json", chatgpt)
    zipped("claude-ai.zip", "conversations.json", claude_ai)
    listed("gemini-takeout.json", lambda _, clock, text: {
        "header": "Gemini Apps", "title": f"Prompted {text}", "time": iso(clock), "products": ["Gemini Apps"], "safeHtmlItem": [{"html": f"<p>{text}</p>"}],
    })
    lines("gemini-takeout.html", card, "<html><body>", "</body></html>", "")
    lines("whatsapp.txt", lambda number, clock, text: f"[{clock:%d.%m.%y, %H:%M:%S}] {speaker(number)}: {text}")
    slack()
    listed("telegram.json", lambda number, clock, text: {
        "id": number, "type": "message", "date": f"{clock:%Y-%m-%dT%H:%M:%S}", "date_unixtime": str(int(clock.timestamp())), "from": speaker(number),
        "from_id": f"user{number % 3}", "text": text, "text_entities": [],
    }, '{"name": "Boats", "type": "private_group", "id": 1, "messages": [', "]}")
    listed("discord.json", lambda number, clock, text: {
        "id": str(number), "type": "Default", "timestamp": clock.isoformat(), "content": text,
        "author": {"id": str(number % 3), "name": speaker(number), "nickname": speaker(number)},
    }, '{"guild": {"id": "1", "name": "Boats"}, "channel": {"id": "2", "name": "deck"}, "exportedAt": "2025-06-01T08:00:00Z", "messages": [', "]}")
    opencode()
    head = {"sessionId": "s1", "projectHash": "h", "startTime": "2025-01-20T08:00:00Z"}
    lines("gemini-cli.jsonl", lambda number, clock, text: json.dumps({
        "id": str(number), "type": "user" if is_user(number) else "gemini", "content": text, "timestamp": iso(clock),
    }), json.dumps(head) + "\n")
    lines("aider.md", lambda number, _, text: f"#### {text}  " if is_user(number) else text, "\n# aider chat started at 2025-01-20 08:00:00\n\n", "", "\n\n")
    listed("zulip.json", lambda number, clock, text: {
        "id": number, "sender_full_name": speaker(number), "content": f"<p>{text}</p>", "timestamp": int(clock.timestamp()), "subject": "deck",
        "display_recipient": "boats", "type": "stream",
    }, '{"messages": [', "]}")
    listed("matrix.json", lambda number, clock, text: {
        "type": "m.room.message", "event_id": f"${number}", "sender": f"@{speaker(number)}:example.org",
        "origin_server_ts": int(clock.timestamp() * 1000), "content": {"msgtype": "m.text", "body": text},
    }, '{"room_name": "Boats", "messages": [', "]}")
    lines("boats_2025-01-20.log", lambda number, clock, text: f"[{clock:%H:%M:%S}] <{speaker(number)}> {text}")
    mbox()
    listed("langchain.json", lambda number, _, text: {"type": "human" if is_user(number) else "ai", "data": {"content": text, "id": str(number)}})
    lines("openai.jsonl", lambda number, _, text: json.dumps({"role": "user" if is_user(number) else "assistant", "content": text}))
    for path in sorted(FOLDER.iterdir()):
        print(path)


if __name__ == "__main__":
    main()
