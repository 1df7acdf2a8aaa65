"""Writes random files of many programs' formats, and beside each what it says: the messages that a reader must find.

    python generate.py SEED COUNT FOLDER [FORMAT ...]

makes COUNT files (or folders) of each format in FOLDER/FORMAT/NUMBER, with `truth.json` beside: a list of {"role", "name",
"text", "time", "session"?, "contains"?}. `time` is in UTC with whole seconds, or null. A message with `contains` has at least
these texts. The shapes are those of the programs' own files, traps included; the texts are made of words.

This is written from descriptions of the formats, without the readers in the library, so that a mistake in one is not made in
the other as well.
"""

import json
import random
import sys
import zipfile
from datetime import datetime, timedelta, timezone
from html import escape
from pathlib import Path

WORDS = (
    "rowing lesson Thursday bakery June sister keel harbour seven letters Ärger über straße naïve café 東京 に 行く "
    "деревня письмо 12.50 3:15 e-mail C++ node.js it's \"quoted\" <tag> & a/b x=y #tag 100% … — 👍🏽"
).split()
EPOCH = datetime(2025, 3, 1, 8, 0, tzinfo=timezone.utc)


class Maker:
    """Random texts, times and ids of one file."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = EPOCH + timedelta(days=self.random.randrange(300), seconds=self.random.randrange(86400))

    def text(self, lines=2, plain=False):
        words = [word for word in WORDS if not plain or word.isalpha()]
        some = lambda: " ".join(self.random.choices(words, k=self.random.randint(1, 12)))
        return "\n".join(some() for _ in range(self.random.randint(1, lines)))

    def tick(self, seconds=600):
        self.now += timedelta(seconds=self.random.randint(1, seconds))
        return self.now

    def id(self):
        return f"{self.random.getrandbits(128):032x}"

    def uuid(self):
        digits = self.id()
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    def some(self, most):
        return range(self.random.randint(1, most))

    def maybe(self, share=0.3):
        return self.random.random() < share


def said(role, text, time=None, name=None, session=None, contains=None):
    message = {"role": role, "name": name, "text": text, "time": time and stamp(time)}
    if session is not None:
        message["session"] = session
    if contains:
        message["contains"] = contains
    return message


def stamp(time):
    return time.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def iso(time, digits=6):
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond:06d}"[:digits] + "Z"


def dump(folder, name, value):
    (folder / name).write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def claude_ai(make, folder):
    """Claude.ai: `content` has the texts, `text` a placeholder where tools ran; pasted documents are only in attachments."""
    conversations, truth = [], []
    for _ in make.some(3):
        conversation = {"uuid": make.uuid(), "name": make.text(1), "summary": "", "created_at": iso(make.tick()), "chat_messages": []}
        for number in range(make.random.randint(1, 8)):
            role, sender = [("user", "human"), ("assistant", "assistant")][number % 2]
            time, text = make.tick(), make.text()
            blocks = [{"type": "text", "text": text, "citations": []}]
            flat = text
            if role == "assistant" and make.maybe():
                blocks = [
                    {"type": "thinking", "thinking": "a thought that is not talk"},
                    {"type": "tool_use", "name": "repl", "input": {"code": "1"}},
                    {"type": "tool_result", "name": "repl", "content": [{"type": "text", "text": "machinery"}]},
                    {"type": "token_budget"},
                    *blocks,
                ]
                flat = "```\nThis block is not supported on your current device yet.\n```\n\n" + text
            message = {
                "uuid": make.uuid(), "text": flat, "content": blocks, "sender": sender, "created_at": iso(time), "updated_at": iso(time),
                "attachments": [], "files": [],
            }
            contains = None
            if role == "user" and make.maybe():
                pasted = make.text(3)
                message["attachments"] = [{"file_name": "notes.txt", "file_size": 9, "file_type": "txt", "extracted_content": pasted}]
                contains = [text, pasted, "notes.txt"]
            conversation["chat_messages"].append(message)
            truth.append(said(role, text, time, session=conversation["uuid"], contains=contains))
        conversations.append(conversation)
    if make.maybe():
        with zipfile.ZipFile(folder / "data-2025.zip", "w") as archive:
            archive.writestr("conversations.json", json.dumps(conversations))
            archive.writestr("users.json", json.dumps([{"uuid": make.uuid(), "full_name": "Ada", "email_address": "ada@example.com"}]))
    else:
        dump(folder, "conversations.json", conversations)
    return truth


def gemini_takeout(make, folder):
    """Gemini's Takeout: newest first, the prompt in the title, the answer as HTML, no conversations."""
    records, truth = [], []
    for _ in make.some(12):
        time, prompt = make.tick(20000), make.text(3)
        kind = make.random.random()
        record = {"header": "Gemini Apps", "time": iso(time, 3), "products": ["Gemini Apps"], "activityControls": ["Gemini Apps Activity"]}
        if kind < 0.15:
            record["title"] = make.random.choice(["Used an Assistant feature", "Gave feedback: Good response", "Selected preferred draft"])
        else:
            record["title"] = "Prompted " + prompt
            truth.append(said("user", prompt, time))
            if kind < 0.8:
                paragraphs = [make.text(1) for _ in make.some(3)]
                record["safeHtmlItem"] = [{"html": "".join(f"<p>{escape(text)}</p>\n" for text in paragraphs)}]
                truth.append(said("assistant", "\n\n".join(paragraphs), time))
        records.insert(0, record)
    dump(folder, "MyActivity.json", records)
    return truth


def whatsapp(make, folder):
    """WhatsApp: no zone, lines that continue, system lines, marks of media; days and months in the phone's order."""
    is_ios, truth, lines = make.maybe(0.5), [], []
    people = ["Ada Lovelace", "~\u202fCharles", "+49\u00a0171\u00a05550100"]
    make.now = make.now.replace(day=make.random.randint(13, 28), second=0)
    order = make.random.choice(["dmy", "mdy"]) if not is_ios else "dmy"
    year = make.random.choice(["%y", "%Y"])
    hours = "%H:%M" if order == "dmy" else "%I:%M\u202f%p"
    shape = {"dmy": "%d.%m." if is_ios else "%d/%m/", "mdy": "%m/%d/"}[order] + year

    def line(time, rest):
        if is_ios:
            return time.strftime(f"[{shape}, %H:%M:%S] ") + rest
        return time.strftime(f"{shape}, {hours} - ") + rest

    lines.append(line(make.now, ("\u200e" if is_ios else "") + "Messages and calls are end-to-end encrypted."))
    if is_ios:
        lines[0] = "\u200e" + line(make.now, "Trip 2025: \u200eMessages and calls are end-to-end encrypted.")
    for _ in range(make.random.randint(3, 25)):
        time = make.tick(4000)
        if not is_ios:
            time = make.now = make.now.replace(second=0)
        name, text = make.random.choice(people), make.text(3)
        shown = name.removeprefix("~\u202f").replace("\u00a0", " ")
        if make.maybe(0.1):
            lines.append(line(time, f"{name}: \u200eimage omitted" if is_ios else f"{name}: <Media omitted>"))
            continue
        if make.maybe(0.1):
            lines.append(line(time, "Trip 2025: \u200eAda Lovelace added Charles" if is_ios else "Ada Lovelace added Charles"))
            continue
        lines.append(line(time, f"{name}: {text}"))
        truth.append(said("user", text, time, name=shown))
    (folder / "_chat.txt").write_text("\r\n".join(lines) + "\r\n" if is_ios else "\n".join(lines) + "\n", encoding="utf-8", newline="")
    return truth


def slack(make, folder):
    """Slack: a folder a channel, a file a day, names by users.json, replies on their own day."""
    users = [{"id": f"U{make.id()[:8].upper()}", "name": name.lower(), "profile": {"display_name": shown, "real_name": name}}
             for name, shown in [("Ada", "Ada"), ("Charles", ""), ("Grace", "amazing")]]
    shown_names = ["Ada", "Charles", "amazing"]
    dump(folder, "users.json", users)
    dump(folder, "channels.json", [{"id": "C1", "name": "general", "members": [user["id"] for user in users]}])
    (folder / "general").mkdir()
    days, truth = {}, []
    for _ in make.some(20):
        time, who = make.tick(9000).replace(microsecond=make.random.randrange(1000) * 1000), make.random.randrange(3)
        text, ts = make.text(), f"{int(make.now.timestamp())}.{make.random.randrange(1000000):06d}"
        raw = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        message = {"type": "message", "user": users[who]["id"], "ts": ts, "text": raw}
        if make.maybe(0.2):
            other = make.random.randrange(3)
            message["text"] += f" <@{users[other]['id']}> <https://example.com/a|here>"
            text += f" @{shown_names[other]} here"
            truth_contains = [text.rsplit(" @", 1)[0], f"@{shown_names[other]}", "here"]
        else:
            truth_contains = None
        if make.maybe(0.1):
            message["subtype"] = "channel_join"
        elif make.maybe(0.1):
            del message["text"]
            message["files"] = [{"id": "F1", "name": "boat.png"}]
            truth.append(said("user", "", make.now, name=shown_names[who]))
        else:
            truth.append(said("user", text, make.now, name=shown_names[who], contains=truth_contains))
        days.setdefault(make.now.strftime("%Y-%m-%d"), []).append(message)
    for day, messages in days.items():
        dump(folder / "general", f"{day}.json", messages)
    return truth


def telegram(make, folder):
    """Telegram: a text or a list of texts and entities; times as text in UTC beside local ones; service messages."""
    def chat(name, number):
        messages, truth = [], []
        for count in make.some(15):
            time, text = make.tick(), make.text()
            message = {"id": count, "type": "message", "date": "2025-01-01T00:00:00", "date_unixtime": str(int(time.timestamp())),
                       "from": make.random.choice(["Ada", "Charles"]), "from_id": "user1", "text": text,
                       "text_entities": [{"type": "plain", "text": text}]}
            if make.maybe():
                message["text"] = [text + " ", {"type": "bold", "text": "bold"}, " ", {"type": "text_link", "text": "link", "href": "https://example.com"}]
                text += " bold link"
            if make.maybe(0.15):
                messages.append({**message, "type": "service", "action": "pin_message", "actor": "Ada", "text": "", "text_entities": []})
                continue
            messages.append(message)
            truth.append(said("user", text, time, name=message["from"]))
        return {"name": name, "type": "personal_chat", "id": number, "messages": messages}, truth

    chats = [chat(f"Chat {number}", number) for number in make.some(3)]
    if len(chats) == 1:
        dump(folder, "result.json", chats[0][0])
    else:
        dump(folder, "result.json", {"about": "Here is the data", "chats": {"about": "", "list": [value for value, _ in chats]}})
    return [message for _, truth in chats for message in truth]


def discord(make, folder):
    """DiscordChatExporter: times with the exporter's distance from UTC, empty contents, joins."""
    messages, truth = [], []
    zone = timezone(timedelta(hours=make.random.randint(-8, 9)))
    for count in make.some(20):
        time, text, who = make.tick(), make.text(), make.random.choice(["ada", "charles"])
        message = {"id": str(1000 + count), "type": "Default", "timestamp": time.astimezone(zone).isoformat(), "timestampEdited": None,
                   "isPinned": False, "content": text, "attachments": [], "embeds": [], "stickers": [], "reactions": [], "mentions": [],
                   "author": {"id": who, "name": who, "discriminator": "0000", "nickname": who.title(), "isBot": False}}
        kind = make.random.random()
        if kind < 0.1:
            message.update(type="GuildMemberJoin", content="Joined the server.")
        elif kind < 0.2:
            message.update(content="", stickers=[{"id": "1", "name": "wave"}])
        else:
            if kind < 0.4:
                message.update(type="Reply", reference={"messageId": "1000"})
            truth.append(said("user", text, time, name=who.title()))
        messages.append(message)
    dump(folder, "general.json", {"guild": {"id": "1", "name": "Boats"}, "channel": {"id": "2", "type": "GuildTextChat", "name": "general"},
                                  "dateRange": {"after": None, "before": None}, "exportedAt": iso(make.tick()), "messages": messages,
                                  "messageCount": len(messages)})
    return truth


def opencode(make, folder):
    """opencode's export: parts of messages; texts that the program inserted are marked."""
    messages, truth, session = [], [], f"ses_{make.id()[:20]}"
    for _ in make.some(5):
        time, text = make.tick(), make.text()
        info = {"id": f"msg_{make.id()[:20]}", "sessionID": session, "role": "user", "time": {"created": int(time.timestamp() * 1000)}}
        parts = [{"type": "text", "text": text}, {"type": "text", "text": "<file>inserted</file>", "synthetic": True}]
        messages.append({"info": info, "parts": parts})
        truth.append(said("user", text, time, session=session))
        for _ in make.some(3):
            time, text = make.tick(), make.text()
            parts = [{"type": "step-start"}, {"type": "reasoning", "text": "a thought that is not talk"},
                     {"type": "tool", "callID": "c", "tool": "bash", "state": {"status": "completed", "input": {}, "output": "machinery"}}]
            if make.maybe(0.7):
                parts.append({"type": "text", "text": text})
                truth.append(said("assistant", text, time, session=session))
            answer = {"id": f"msg_{make.id()[:20]}", "sessionID": session, "role": "assistant", "parentID": info["id"],
                      "time": {"created": int(time.timestamp() * 1000)}}
            messages.append({"info": answer, "parts": [*parts, {"type": "step-finish"}]})
    dump(folder, "session.json", {"info": {"id": session, "version": "1.0", "title": "t", "directory": "/home/ada/boat"}, "messages": messages})
    return truth


def gemini_cli(make, folder):
    """Gemini CLI: one JSON until 2025, JSON Lines with changes and rewinding since; an id comes again when its message grows."""
    session, truth, lines = make.uuid(), [], []
    start = {"sessionId": session, "projectHash": make.id(), "startTime": iso(make.tick(), 3), "lastUpdated": iso(make.now, 3)}
    turns = []
    for _ in make.some(6):
        turns.append(({"id": make.uuid(), "timestamp": iso(make.tick(), 3), "type": "user", "content": make.text()}, make.now))
        turns.append(({"id": make.uuid(), "timestamp": iso(make.tick(), 3), "type": "gemini", "content": make.text(), "thoughts": [],
                       "toolCalls": [], "model": "gemini-2.5-pro"}, make.now))
        if make.maybe(0.2):
            turns.append(({"id": make.uuid(), "timestamp": iso(make.tick(), 3), "type": "info", "content": "Request cancelled."}, None))
    kept = turns
    if make.maybe(0.5):
        dump(folder, "session-2025-08-01T10-00-abcdef12.json", {**start, "messages": [turn for turn, _ in turns]})
    else:
        lines.append(start)
        for turn, _ in turns:
            if turn["type"] == "gemini" and make.maybe():
                lines.append({**turn, "content": turn["content"][:3]})
            lines.append(turn)
            if make.maybe(0.2):
                lines.append({"$set": {"lastUpdated": turn["timestamp"]}})
        if len(turns) > 2 and make.maybe(0.4):
            at = make.random.randrange(1, len(turns))
            lines.append({"$rewindTo": turns[at][0]["id"]})
            kept = turns[:at]
        path = folder / "session-2026-08-01T10-00-abcdef12.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    roles = {"user": "user", "gemini": "assistant"}
    for turn, time in kept:
        if turn["type"] in roles:
            truth.append(said(roles[turn["type"]], turn["content"], time, session=session))
    return truth


def aider(make, folder):
    """aider: Markdown; `#### ` before each line that the person typed, `> ` before the program's own."""
    lines, truth = [], []
    for _ in make.some(3):
        lines += ["", f"# aider chat started at {make.tick():%Y-%m-%d %H:%M:%S}", "", "> aider v0.86.2  ", "> Main model: gpt-4o  ", ""]
        for _ in make.some(4):
            prompt, answer = make.text(3, plain=True), make.text(3, plain=True)
            lines += [f"#### {line}  " for line in prompt.split("\n")] + ["", answer, "", "> Tokens: 2.3k sent, 12 received.  ", ""]
            truth += [said("user", prompt), said("assistant", answer)]
    (folder / ".aider.chat.history.md").write_text("\n".join(lines), encoding="utf-8")
    return truth


def langchain(make, folder):
    """LangChain: `messages_to_dict`, `dumps`, and flat objects of model_dump."""
    shape, messages, truth = make.random.choice(["dict", "dumps", "flat"]), [], []
    for number in range(make.random.randint(1, 8)):
        kind, name, role = [("human", "HumanMessage", "user"), ("ai", "AIMessage", "assistant")][number % 2]
        text = make.text()
        fields = {"content": text, "type": kind, "id": make.uuid(), "additional_kwargs": {}, "response_metadata": {}}
        if make.maybe():
            fields["content"] = [{"type": "text", "text": text}]
        if shape == "dict":
            messages.append({"type": kind, "data": fields})
        elif shape == "flat":
            messages.append(fields)
        else:
            messages.append({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", name], "kwargs": fields})
        truth.append(said(role, text))
    dump(folder, "history.json", messages)
    return truth


def sharegpt(make, folder):
    """ShareGPT: a conversation an object, `from` and `value`."""
    conversations, truth = [], []
    for number in make.some(4):
        turns = []
        for at in range(make.random.randint(1, 6)):
            who, role = [("human", "user"), ("gpt", "assistant")][at % 2]
            turns.append({"from": who, "value": make.text()})
            truth.append(said(role, turns[-1]["value"]))
        conversations.append({"id": f"chat_{number}", "conversations": turns})
    if make.maybe(0.5):
        dump(folder, "train.json", conversations)
    else:
        (folder / "train.jsonl").write_text("".join(json.dumps(one) + "\n" for one in conversations))
    return truth


def zulip(make, folder):
    """Zulip: contents as HTML, times in seconds."""
    messages, truth = [], []
    for number in make.some(12):
        time, text, who = make.tick(), make.text(1), make.random.choice(["Ada", "Charles"])
        messages.append({"id": number, "sender_full_name": who, "sender_email": f"{who.lower()}@example.com", "timestamp": int(time.timestamp()),
                         "content": f"<p>{escape(text)}</p>", "content_type": "text/html", "subject": "boats", "display_recipient": "general",
                         "type": "stream"})
        truth.append(said("user", text, time, name=who))
    dump(folder, "boats.json", {"result": "success", "msg": "", "messages": messages})
    return truth


def matrix(make, folder):
    """Element's export of a Matrix room: raw events; edits and redactions are events of their own, replies quote."""
    events, kept = [], []
    for number in make.some(15):
        time, text, who = make.tick(), make.text(1), make.random.choice(["@ada:example.com", "@charles:example.com"])
        event = {"type": "m.room.message", "event_id": f"${number}", "sender": who, "origin_server_ts": int(time.timestamp() * 1000),
                 "room_id": "!r", "content": {"msgtype": "m.text", "body": text}}
        kind = make.random.random()
        if kind < 0.1:
            events.append({**event, "type": "m.room.member", "content": {"membership": "join"}})
            continue
        if kind < 0.2 and kept:
            old = make.random.choice([entry for entry in kept])
            event["content"] = {"msgtype": "m.text", "body": f"* {text}", "m.new_content": {"msgtype": "m.text", "body": text},
                                "m.relates_to": {"rel_type": "m.replace", "event_id": old["id"]}}
            event["sender"] = old["sender"]
            old["text"] = text
            events.append(event)
            continue
        if kind < 0.3 and kept:
            old = kept.pop(make.random.randrange(len(kept)))
            next(one for one in events if one["event_id"] == old["id"])["content"] = {}
            events.append({**event, "type": "m.room.redaction", "redacts": old["id"], "content": {}})
            continue
        if kind < 0.4 and kept:
            event["content"]["body"] = f"> <{kept[0]['sender']}> {kept[0]['text']}\n\n{text}"
            event["content"]["m.relates_to"] = {"m.in_reply_to": {"event_id": kept[0]["id"]}}
        events.append(event)
        kept.append({"id": event["event_id"], "sender": who, "text": text, "time": time})
    dump(folder, "export.json", {"room_name": "Boats", "room_creator": "@ada:example.com", "topic": "", "export_date": "1.1.2025, 10:00:00",
                                 "exported_by": "@ada:example.com", "messages": events})
    return [said("user", one["text"], one["time"], name=one["sender"]) for one in kept]


def irc(make, folder):
    """IRC: the date is only in the file's name, joins and notices are no messages."""
    make.now = make.now.replace(hour=0, minute=0, second=0)
    lines, truth = [], []
    for _ in make.some(30):
        make.now += timedelta(minutes=make.random.randint(0, 40))
        if make.now.date() != (make.now - timedelta(minutes=1)).date() and lines:
            break
        who, text, kind = make.random.choice(["ada", "charles_b"]), make.text(1), make.random.random()
        if kind < 0.1:
            lines.append(f"[{make.now:%H:%M}] *** Joins: {who} (~{who}@example.com)")
        elif kind < 0.15:
            lines.append(f"[{make.now:%H:%M}] -bot- a notice")
        else:
            lines.append(f"[{make.now:%H:%M}] <{who}> {text}")
            truth.append(said("user", text, make.now, name=who))
    (folder / f"{EPOCH if not lines else make.now:%Y-%m-%d}-#boats.log").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return truth


def mbox(make, folder):
    """Mail: encoded headers, quoted-printable and base64, alternatives in HTML, `From ` at the beginning of a line."""
    import mailbox
    from email.message import EmailMessage
    from email.utils import format_datetime

    box, truth = mailbox.mbox(folder / "All mail.mbox"), []
    for number in make.some(8):
        mail, text, time = EmailMessage(), make.text(4), make.tick().replace(microsecond=0)
        if make.maybe(0.2):
            text += "\nFrom here on it is plain."
        who = make.random.choice(["Ada Lovelace", "Jürgen Straße"])
        mail["From"], mail["To"], mail["Subject"] = f"{who} <a@example.com>", "b@example.com", make.text(1)
        mail["Date"], mail["Message-ID"] = format_datetime(time), f"<{number}.{make.id()}@example.com>"
        mail.set_content(text)
        if make.maybe():
            mail.add_alternative(f"<html><body><p>{escape(text)}</p></body></html>", subtype="html")
        if make.maybe(0.2):
            mail.add_attachment(b"\x00\x01", maintype="image", subtype="png", filename="boat.png")
        box.add(mail)
        truth.append(said("user", text, time, name=who, contains=[text]))
    box.close()
    return truth


FORMATS = {
    "claude-ai": claude_ai, "gemini-takeout": gemini_takeout, "whatsapp": whatsapp, "slack": slack, "telegram": telegram,
    "discord": discord, "opencode": opencode, "gemini-cli": gemini_cli, "aider": aider, "langchain": langchain, "openai": sharegpt,
    "zulip": zulip, "matrix": matrix, "irc": irc, "mbox": mbox,
}


def main():
    seed, count, out, *names = sys.argv[1:]
    for name in names or FORMATS:
        for number in range(int(count)):
            folder = Path(out) / name / f"{number:04d}" / "files"
            folder.mkdir(parents=True)
            truth = FORMATS[name](Maker(f"{seed}/{name}/{number}"), folder)
            (folder.parent / "truth.json").write_text(json.dumps(truth, ensure_ascii=False, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
