"""Files of assistants and coding agents: Claude.ai, Gemini's Takeout, opencode, Gemini CLI and aider."""

import io
import json
import zipfile
from datetime import datetime, timedelta
from html import escape

from talk import ANY, json_lines, json_text, stamp

ROOT = "00000000-0000-4000-8000-000000000000"


def claude_ai(talk):
    """Exports of 2024 (texts only), 2025 (blocks) and 2026 (parents, so that branches are seen; an archive for each kind of thing)."""
    year = talk.version = talk.rng.choice([2024, 2025, 2026])

    def blocks(text):
        times = {"start_timestamp": stamp(talk.clock, 6), "stop_timestamp": stamp(talk.clock, 6)}
        tools = [
            {**times, "type": "thinking", "thinking": "A thought.", "summaries": [{"summary": "A summary."}], "cut_off": False},
            {**times, "type": "tool_use", "name": "web_search", "input": {"query": "boats"}, "message": "Searching"},
            {**times, "type": "tool_result", "name": "web_search", "content": [{"type": "text", "text": "A page."}], "is_error": False},
            {"type": "token_budget"},
        ]
        return [*(talk.rng.sample(tools, talk.rng.randrange(5))), {**times, "type": "text", "text": text, "citations": []}]

    def message(parent, person):
        text, time = talk.text(), stamp(talk.tick(), 6)
        value = {"uuid": talk.uuid(), "text": text, "sender": "human" if person else "assistant", "created_at": time, "updated_at": time,
                 "attachments": [], "files": []}
        pieces = [text]
        if year > 2024:
            value["content"] = blocks(text) if not person else [{"type": "text", "text": text, "citations": []}]
            if len(value["content"]) > 1:
                value["text"] = "```\nThis block is not supported on your current device yet.\n```\n\n" + text
        if year == 2026:
            value["parent_message_uuid"] = parent
        if person and talk.maybe():
            pasted = talk.text()
            value["attachments"] = [{"file_name": "notes.txt", "file_size": 9, "file_type": "txt", "extracted_content": pasted}]
            pieces.append(pasted)
        if person and talk.maybe(0.2):
            value["files"] = [{"file_name": f"{talk.mark()}.png", **({"file_uuid": talk.uuid()} if year == 2026 else {})}]
        return value, {"role": "user" if person else "assistant", "text": pieces, "time": time}

    conversations = []
    for _ in range(talk.rng.randrange(1, 4)):
        uuid, messages, said, parent = talk.uuid(), [], [], ROOT
        for number in range(talk.rng.randrange(0, 9)):
            before = parent
            value, one = message(parent, number % 2 == 0)
            messages.append(value)
            if year == 2026 and talk.maybe(0.2):
                # The prompt was edited, or the answer made again: both stay in the export.
                value, one = message(before, number % 2 == 0)
                messages.append(value)
            said.append(one)
            parent = value["uuid"]
        for one in said:
            talk.say(session=uuid, **one)
        conversations.append({"uuid": uuid, "name": talk.line(4), "summary": talk.text() if year == 2026 else "", "created_at": stamp(talk.clock, 6),
                              "updated_at": stamp(talk.clock, 6), "account": {"uuid": talk.uuid()}, "chat_messages": messages})
        talk.leave_open(conversations[-1]["summary"])
    memory, projects = None, []
    if year > 2024 and talk.maybe(0.5):
        about, of_project = talk.text(), talk.text()
        memory = {"conversations_memory": about, "project_memories": {talk.uuid(): of_project}, "account_uuid": talk.uuid()}
        talk.say(ANY, [about], ANY, session="memories")
        talk.say(ANY, [of_project], ANY, session="memories")
        if year == 2026:
            memory["memory_files"] = []
    for _ in range(talk.rng.randrange(0, 3)):
        time = stamp(talk.tick(), 6)
        project = {"uuid": talk.uuid(), "name": talk.line(4), "description": "", "is_private": True, "is_starter_project": False,
                   "prompt_template": "", "created_at": time, "updated_at": time, "creator": {"uuid": talk.uuid(), "full_name": "Ada"}, "docs": []}
        if talk.maybe(0.5):
            project["prompt_template"] = talk.text()
            talk.say(ANY, [project["prompt_template"]], ANY, session=project["uuid"])
        for _ in range(talk.rng.randrange(0, 3)):
            content = talk.text()
            project["docs"].append({"uuid": talk.uuid(), "filename": "plan.md", "content": content, "created_at": stamp(talk.tick(), 6)})
            talk.say(ANY, [content], ANY, session=project["uuid"])
        projects.append(project)
    users = [{"uuid": talk.uuid(), "full_name": "Ada", "email_address": "ada@example.com", "verified_phone_number": None}]
    files = {"conversations.json": conversations, "users.json": users}
    if year == 2026:
        files.update({f"memories/{memory['account_uuid']}.json": memory} if memory else {})
        files.update({f"projects/{project['uuid']}.json": project for project in projects})
        files["login_history.json"] = []
    else:
        files.update({"memories.json": [memory]} if memory else {})
        files.update({"projects.json": projects} if projects else {})
    files = {name: json_text(talk, value) for name, value in files.items()}
    if talk.maybe(0.5):
        return {f"/{name}": text for name, text in files.items()}
    if year < 2026:
        return {"-data-batch-0000.zip": zipped(files)}
    kinds = {name.split("/")[0].removesuffix(".json") for name in files}
    return {f"/{kind}-000.zip": zipped({name: text for name, text in files.items() if name.startswith(kind)}) for kind in sorted(kinds)}


def zipped(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        for name, text in files.items():
            file.writestr(name, text)
    return out.getvalue()


def html(talk, pieces):
    """Writes pieces of text as the HTML of an answer: headings, paragraphs, lists, tables and code."""
    parts = []
    for piece in pieces:
        shape = talk.rng.choice([
            "<p>{}</p>", "<h3>{}</h3>", "<ul>\n<li>{}</li>\n</ul>", "<ol start=\"2\"><li><p>{}</p></li></ol>", "<pre><code>{}\n</code></pre>",
            "<p><strong>{}</strong></p><hr>", "<table><tbody><tr><td>{}</td></tr></tbody></table>", "<blockquote><p>{}</p></blockquote>",
        ])
        parts.append(shape.format(escape(piece, quote=talk.maybe())))
    return talk.rng.choice(["", "\n"]).join(parts)


# Of each language: the product, the words before a prompt, how a time is written in HTML, and the offset of its zone in hours.
LANGUAGES = [
    ("German", "Gemini-Apps", "Eingegebener Prompt: ", lambda at: f"{at:%d.%m.%Y, %H:%M:%S} MEZ", 1),
    ("French", "Applications Gemini", "Prompt\u00a0: ", lambda at: f"{at.day} {FRENCH[at.month - 1]} {at:%Y, %H:%M:%S} CET", 1),
    ("Japanese", "Gemini アプリ", "送信したメッセージ: ", lambda at: f"{at:%Y/%m/%d %H:%M:%S} JST", 9),
]
ENGLISH = ("English", "Gemini Apps", "Prompted ", lambda at: f"{at:%b} {at.day}, {at:%Y}, {at.hour % 12 or 12}:{at:%M:%S}\u202f{at:%p} PDT", -7)
FRENCH = "janv. févr. mars avr. mai juin juil. août sept. oct. nov. déc.".split()


def card(record, product, time):
    """Writes a record as the HTML of Takeout has it."""
    lines = [escape(line, quote=False).replace(" ", "&nbsp;", 1) for line in record["title"].split("\n")]
    for subtitle in record.get("subtitles", []):
        if "Attached" in subtitle["name"]:
            lines.append(escape(subtitle["name"]))
        elif subtitle["name"].startswith("- "):
            lines.append(f'-&nbsp;<a href="{subtitle["url"]}">{subtitle["url"]}</a>')
    answers = "".join(item["html"] for item in record.get("safeHtmlItem", []))
    details = "".join(f'<b>Details:</b><br>From: <a href="{one["url"]}">{one["url"]}</a><br>' for one in record.get("details", []))
    cell = '<div class="content-cell mdl-cell mdl-cell--{}-col mdl-typography--{}">{}</div>'.format
    return (
        '<div class="outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp"><div class="mdl-grid"><div class="header-cell mdl-cell mdl-cell--12-col">'
        f'<p class="mdl-typography--title">{product}<br></p></div>' + cell(6, "body-1", "<br>".join([*lines, time, answers]))
        + cell(6, "body-1 mdl-typography--text-right", "") + cell(12, "caption", f"<b>Products:</b><br>&emsp;{product}<br>{details}") + "</div></div>"
    )


def gemini_takeout(talk):
    """`MyActivity.json` or `.html`: newest first; prompts with answers, drafts, files and Gems, and records that are no prompts, in some languages."""
    language, product, start, written, hours = talk.rng.choice(LANGUAGES) if talk.maybe(0.4) else ENGLISH
    english, named, is_html = language == "English", talk.maybe(0.3), talk.maybe(0.4)
    talk.version = f"{language}, HTML" if is_html else language
    # The oldest are last, and are stored last if they were cut off before.
    talk.keeps_order = False
    records, group, last = [], 0, None
    for _ in range(talk.rng.randrange(1, 15)):
        talk.clock += timedelta(minutes=talk.rng.choice([0, 1, 10, 59, 61, 600]))
        talk.tick(30)
        if is_html:
            talk.clock = talk.clock.replace(microsecond=0)
        time = stamp(talk.clock)
        record = {"header": product, "title": "", "time": time, "products": [product], "activityControls": [f"{product} Activity"]}
        records.insert(0, record)
        kind = talk.rng.randrange(10)
        if kind == 0 and english:
            record["title"] = talk.rng.choice(["Used an Assistant feature", "Selected preferred draft", "Gave feedback: Good response"])
            continue
        if kind == 1 and english:
            canvas = talk.text()
            record.update(title="Created Gemini Canvas titled Boats", subtitles=[{"name": canvas}])
            talk.leave_open(canvas)
            continue
        if named:
            # Newer exports name the conversation.
            group = group if last and talk.maybe(0.7) else f"{talk.session}x{talk.count}".replace("-", "")
            record["details"] = [{"name": "From", "url": f"https://gemini.google.com/app/{group}"}]
        elif last and talk.clock - last > timedelta(hours=1):
            group += 1
        last = talk.clock
        prompt = talk.text()
        record["title"] = start + prompt
        session = group if named else f"?{group}"
        talk.say("user", prompt, time, session=session)
        if kind == 2:
            name = f"{talk.mark()}.png"
            record.update(subtitles=[{"name": "Attached 1 file."}, {"name": f"-  {name}", "url": name}], imageFile=name)
            talk.said[-1]["text"] = [prompt]
        elif kind == 3:
            record["subtitles"] = [{"name": "Berta was used in this chat. Manage your Gems.", "url": "https://gemini.google.com/gems/1"}]
        if kind != 4:
            pieces = [talk.line() for _ in range(talk.rng.randrange(1, 4))]
            record["safeHtmlItem"] = [{"html": html(talk, pieces)}]
            if kind == 5:
                draft = talk.line()
                record["safeHtmlItem"].append({"html": html(talk, [draft])})
                talk.leave_open(draft)
            talk.say("assistant", pieces, time, session=session)
    if is_html:
        at = lambda record: datetime.fromisoformat(record["time"].replace("Z", "+00:00")) + timedelta(hours=hours)
        cards = "".join(card(record, product, written(at(record))) for record in records)
        return {"/MyActivity.html": f"<html><head><title>My Activity History</title></head><body><div class=\"mdl-grid\">{cards}</div></body></html>"}
    return {"/MyActivity.json": json_text(talk, records)}


def opencode(talk):
    """`opencode export`: answers in several messages, inserted texts, compaction, undone prompts, sessions of subagents."""
    session, folder = f"ses_{talk.id(20)}", "/home/ada/boat"
    info = {"id": session, "version": talk.rng.choice(["0.5.1", "1.0.110", "1.18.33"]), "projectID": talk.id(40), "directory": folder,
            "title": "A boat", "time": {"created": 1, "updated": 2}}
    talk.version = info["version"]
    subagent = talk.maybe(0.1)
    if subagent:
        info["parentID"] = f"ses_{talk.id(20)}"
    messages, number = [], 0

    def add(role, parts, **fields):
        nonlocal number
        number += 1
        one = {"id": f"msg_{number:05}{talk.id(12)}", "sessionID": session, "role": role, "time": {"created": int(talk.tick().timestamp() * 1000)}, **fields}
        parts = [{"id": f"prt_{number:05}{place:03}{talk.id(6)}", "sessionID": session, "messageID": one["id"], **part} for place, part in enumerate(parts)]
        messages.append({"info": one, "parts": parts})
        return one, talk.clock.replace(microsecond=talk.clock.microsecond // 1000 * 1000)

    def prompt():
        text = talk.text()
        parts = [{"type": "text", "text": text}]
        if talk.maybe():
            parts += [{"type": "text", "text": "Called the Read tool", "synthetic": True}, {"type": "file", "mime": "text/plain", "filename": "x.rs", "url": "file:///x.rs"}]
        if talk.maybe(0.1):
            parts.append({"type": "text", "text": "Ignored", "ignored": True})
        one, time = add("user", parts, agent="build", model={"providerID": "x", "modelID": "y"})
        talk.say("user", text, time, session=session)
        for _ in range(talk.rng.randrange(1, 4)):
            answer(one)

    def answer(parent, **fields):
        parts, pieces = [{"type": "step-start"}, {"type": "reasoning", "text": "A thought.", "time": {"start": 1, "end": 2}}], []
        for _ in range(talk.rng.randrange(0, 3)):
            pieces.append(talk.text())
            parts.append({"type": "text", "text": pieces[-1]})
            if talk.maybe():
                state = {"status": "completed", "input": {"command": "ls"}, "output": "x", "title": "ls", "metadata": {}, "time": {"start": 1, "end": 2}}
                parts.append({"type": "tool", "callID": "c", "tool": "bash", "state": state})
        parts.append({"type": "step-finish", "cost": 0, "tokens": {"input": 1, "output": 1}})
        _, time = add("assistant", parts, parentID=parent["id"], modelID="y", providerID="x", mode="build", path={"cwd": folder, "root": folder}, **fields)
        if pieces and not fields:
            talk.say("assistant", pieces, time, session=session)

    def compaction():
        one, _ = add("user", [{"type": "compaction", "auto": True}], agent="build")
        answer(one, summary=True)

    for _ in range(talk.rng.randrange(1, 5)):
        prompt()
        if talk.maybe(0.1):
            compaction()
    if talk.maybe(0.2):
        kept = len(talk.said)
        place = len(messages)
        prompt()
        info["revert"] = {"messageID": messages[place]["info"]["id"], "snapshot": "x"}
        del talk.said[kept:]
    if subagent:
        talk.said.clear()
    return {"-session.json": json_text(talk, {"info": info, "messages": messages})}


def gemini_cli(talk):
    """Sessions of 2025 (one JSON value), and of 2026 (JSON Lines, with `$set`, `$rewindTo` and messages that grow); a resumed session is both."""
    session, records = talk.uuid(), []
    form = talk.version = talk.rng.choice(["json", "parts", "lines", "both"])
    kind = {"kind": "subagent"} if form == "lines" and talk.maybe(0.1) else {"kind": "main"} if talk.maybe() else {}
    start = {"sessionId": session, "projectHash": talk.id(64), "startTime": talk.time(), "lastUpdated": talk.time(), **kind}

    def message(type, content, **fields):
        if form != "json" and isinstance(content, str):
            content = [{"text": content}]
        return {"id": talk.uuid(), "timestamp": stamp(talk.tick()), "type": type, "content": content, **fields}

    def put(record, role=None, text=None):
        records.append(record)
        if role:
            talk.say(role, text, record["timestamp"], session=session)
            talk.said[-1]["id"] = record["id"]

    def prompt():
        text = talk.text()
        if form in ("lines", "both") and talk.maybe(0.2):
            shown = [{"text": text}]
            put(message("user", [{"text": text}, {"text": "\n--- Content from referenced files ---\nx"}], displayContent=shown), "user", text)
        else:
            put(message("user", text), "user", text)

    def answer():
        text = talk.text()
        calls = [{"id": "c", "name": "read_file", "args": {}, "result": [{"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "x"}}}],
                  "status": "success", "timestamp": talk.time()}] if talk.maybe() else []
        record = message("gemini", text, thoughts=[{"subject": "A", "description": "thought", "timestamp": talk.time()}], tokens=None, model="gemini-3-pro")
        if form == "lines" and talk.maybe():
            records.append({**record, "content": ""})
        if form == "lines" and talk.maybe():
            records.append(record)
        put({**record, "toolCalls": calls} if calls else record, "assistant", text)
        if calls and form != "json":
            records.append(message("user", [{"functionResponse": {"id": "c", "name": "read_file", "response": {"output": "x"}}}]))

    def noise():
        records.append(message(talk.rng.choice(["info", "error", "warning"]), "Request cancelled."))

    def rewind():
        # Goes back to before a message, so that it and all after it no longer count.
        seen = [one["id"] for one in talk.said]
        if form == "lines" and seen:
            place = talk.rng.randrange(len(seen))
            records.append({"$rewindTo": seen[place]})
            del talk.said[place:]

    if form != "json" and talk.maybe(0.7):
        records.append(message("user", "<session_context>\nThis is the Gemini CLI.\n</session_context>"))
    for _ in range(talk.rng.randrange(1, 6)):
        prompt()
        for _ in range(talk.rng.randrange(1, 3)):
            answer()
        if talk.maybe(0.2):
            talk.rng.choice([noise, rewind])()
        if form == "lines":
            records.append({"$set": {"lastUpdated": talk.time()}})
    if form == "lines" and talk.maybe(0.2):
        records.append({"$set": {"summary": "A boat"}})
    if kind.get("kind") == "subagent":
        talk.said.clear()
    name = f"-session-2026-08-01T10-00-{session[:8]}"
    lines = json_lines([start, *records])
    value = json.dumps({**start, "messages": records}, indent=2)
    if form == "both":
        # The old file stays beside the one to which it was copied when the session was resumed.
        text, grown = talk.text(), [message("user", "x")]
        grown[0]["content"] = [{"text": text}]
        talk.say("user", text, grown[0]["timestamp"], session=session)
        return {f"{name}.json": value, f"{name}.jsonl": lines + json_lines(grown)}
    return {f"{name}.jsonl": lines} if form == "lines" else {f"{name}.json": value}


def aider(talk):
    """`.aider.chat.history.md`, as aider's io.py appends it. A time for each start only, in the time of the machine."""
    out = []
    for _ in range(talk.rng.randrange(1, 4)):
        group = f"?{talk.clock:%Y-%m-%d %H:%M:%S}"
        out.append(f"\n# aider chat started at {talk.clock:%Y-%m-%d %H:%M:%S}\n\n")
        out.append("> /home/ada/.venv/bin/aider --model x  \n> Aider v0.86.2  \n> Main model: x with diff edit format  \n> Repo-map: disabled  \n")

        def person(text):
            out.append("\n#### " + "  \n#### ".join(text.splitlines()) + "  \n")

        for _ in range(talk.rng.randrange(0, 6)):
            kind, text = talk.rng.randrange(8), talk.text()
            if kind == 0:
                person("/add keel.py")
                out.append("> Added keel.py to the chat  \n")
                continue
            if kind == 1:
                person(f"/ask {text}")
                person(text)
                text = [text]
            elif kind == 2:
                person("<blank>")
                continue
            else:
                person(text)
            talk.say("user", text, ANY, session=group)
            if kind != 3:
                said = talk.text() + talk.rng.choice(["", "\n\n# A heading\n\nand more", "\n\nkeel.py\n```python\nprint(1)\n```"])
                out.append(f"\n{said}\n\n")
                talk.say("assistant", said, ANY, session=group)
            out.append("> Tokens: 2.3k sent, 12 received. Cost: $0.01 message, $0.02 session.  \n")
            if talk.maybe():
                out.append("> Applied edit to keel.py  \n> Commit abc1234 feat: paint  \n")
        talk.tick(90_000)
    return {"/.aider.chat.history.md": "".join(out)}


KINDS = {"claude-ai": claude_ai, "gemini-takeout": gemini_takeout, "opencode": opencode, "gemini-cli": gemini_cli, "aider": aider}
