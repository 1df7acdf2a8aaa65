"""What share of the first ten hits is what people and models said, and not what programs write beside it.

    python3 machinery.py MNEMON [COUNT]

The conversations of `datasets/` are written as a coding history (transcripts of Claude Code, rollouts of Codex) and as a personal archive (exports of
ChatGPT, Claude.ai, Gemini and WhatsApp). Between their messages stands what these programs write: outputs of tools, reminders, summaries,
subagents, thoughts, hidden messages, notices. Most of it quotes the words of the conversation, so that a search finds it. The first COUNT questions
of the datasets are asked (default: all). Fails if less than .99 of the hits are messages of the conversations, or if one has machinery in it.
"""

import json
import subprocess
import sys
import tempfile
import zipfile
from datetime import datetime, timedelta
from pathlib import Path

MNEMON = sys.argv[1]
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else None
SETS = Path(__file__).parents[2] / "datasets"
# A word of all machinery, and of no message.
MARK = "Zmachinery"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def conversations():
    """Returns the messages of each session of the datasets."""
    sessions = {}
    for path in sorted(SETS.glob("*/messages.jsonl")):
        for message in rows(path):
            if message["role"] in ("user", "assistant") and isinstance(message["content"], str):
                sessions.setdefault((path.parent.name, message["namespace"], message["session"]), []).append(message)
    return sessions


def clock(number):
    return datetime(2026, 1, 1) + timedelta(seconds=20 * number)


def iso(number):
    return clock(number).isoformat() + ".000Z"


def quoted(texts):
    """Returns machinery with the words of messages."""
    return f"{MARK}: " + " | ".join(texts[-3:])


def claude_code(session, talk):
    lines, last, said = [], None, []

    def add(kind, fields):
        nonlocal last
        line = {"type": kind, "uuid": f"{session}-{len(lines)}", "parentUuid": last, "sessionId": session, "cwd": "/home/ada/boat",
                "timestamp": iso(len(lines)), "isSidechain": False, **fields}
        lines.append(line)
        if not line["isSidechain"]:
            last = line["uuid"]

    def message(role, content, **fields):
        add(role, {"message": {"role": role, "content": content}, **fields})

    for number, (role, text) in enumerate(talk):
        said.append(text)
        if role == "user":
            message("user", text + f"\n<system-reminder>\n{quoted(said)}\n</system-reminder>")
            lines.append({"type": "api-request-blob", "sessionId": session, "message": {"role": "user", "content": text + MARK}})
            add("attachment", {"attachment": {"type": "environment"}, "rendered": [{"content": quoted(said)}]})
        else:
            message("assistant", [{"type": "thinking", "thinking": quoted(said)}])
            message("assistant", [{"type": "tool_use", "id": f"c{number}", "name": "Grep", "input": {"pattern": quoted(said)}}])
            message("user", [{"type": "tool_result", "tool_use_id": f"c{number}", "content": quoted(said)}])
            message("user", quoted(said), isSidechain=True)
            message("assistant", [{"type": "text", "text": text}])
        if number % 7 == 6:
            message("user", f"This session is being continued: {quoted(said)}", isCompactSummary=True)
            message("user", f"<command-name>/compact</command-name><command-args></command-args>{quoted(said)}")
    return "claude-code.jsonl", "".join(json.dumps(line) + "\n" for line in lines)


def codex(session, talk):
    lines, said = [], []
    add = lambda kind, payload: lines.append({"timestamp": iso(len(lines)), "type": kind, "payload": payload})
    item = lambda role, text: add("response_item", {"type": "message", "role": role, "content": [{"type": "input_text", "text": text}]})
    add("session_meta", {"id": session, "cwd": "/home/ada/boat", "source": "cli"})
    item("developer", MARK)
    item("user", f"# AGENTS.md instructions for /home/ada/boat\n<INSTRUCTIONS>{MARK}</INSTRUCTIONS>")
    for number, (role, text) in enumerate(talk):
        said.append(text)
        if role == "user":
            item("user", f"<environment_context>{quoted(said)}</environment_context>")
            add("event_msg", {"type": "user_message", "message": text + MARK})
        else:
            add("response_item", {"type": "reasoning", "summary": [{"type": "summary_text", "text": quoted(said)}]})
            add("response_item", {"type": "function_call", "call_id": f"c{number}", "name": "shell", "arguments": json.dumps({"command": quoted(said)})})
            add("response_item", {"type": "function_call_output", "call_id": f"c{number}", "output": quoted(said)})
        item(role, text)
    return "codex.jsonl", "".join(json.dumps(line) + "\n" for line in lines)


def chatgpt(session, talk):
    nodes, said = [], []
    hidden = {"is_visually_hidden_from_conversation": True}

    def add(role, text, kind="text", name=None, **fields):
        content = {"content_type": kind, **({"parts": [text]} if kind == "text" else {"text": text})}
        message = {"id": f"{session}-{len(nodes)}", "author": {"role": role, "name": name}, "create_time": clock(len(nodes)).timestamp(),
                   "content": content, "metadata": {}, "recipient": "all", "weight": 1, **fields}
        nodes.append({"id": str(len(nodes)), "parent": str(len(nodes) - 1) if nodes else None, "message": message})

    for role, text in talk:
        said.append(text)
        if role == "user":
            add("system", quoted(said), metadata=hidden)
        else:
            add("assistant", quoted(said), "code", recipient="python")
            add("tool", quoted(said), "execution_output", "python")
            add("tool", quoted(said), name="a8km123")
            add("assistant", quoted(said), weight=0)
        add(role, text)
    mapping = {node["id"]: node for node in nodes}
    return "chatgpt.json", {"conversation_id": session, "title": MARK, "current_node": nodes[-1]["id"], "mapping": mapping}


def claude_ai(session, talk):
    messages = [
        {"uuid": f"{session}-{number}", "sender": "human" if role == "user" else "assistant", "created_at": iso(number),
         "text": text + f"\n```\nThis block is not supported on your current device yet.\n``` {MARK}", "attachments": [], "files": [],
         "content": [{"type": "thinking", "thinking": quoted([text])}, {"type": "tool_use", "name": "search", "input": {"query": quoted([text])}},
                     {"type": "text", "text": text}]}
        for number, (role, text) in enumerate(talk)
    ]
    return "claude-ai.json", {"uuid": session, "name": MARK, "summary": MARK, "created_at": iso(0), "chat_messages": messages}


def gemini(session, talk):
    """A prompt without an answer is a record, too. An answer without a prompt is none."""
    records, number = [], 0
    while number < len(talk):
        role, text = talk[number]
        answered = number + 1 < len(talk) and role == "user" and talk[number + 1][0] != "user"
        if role == "user":
            record = {"header": "Gemini Apps", "title": f"Prompted {text}", "time": iso(number), "products": ["Gemini Apps"]}
            if answered:
                record["safeHtmlItem"] = [{"html": f"<p>{talk[number + 1][1].replace('&', '&amp;').replace('<', '&lt;')}</p>"}]
            records.append(record)
        records.append({"header": "Gemini Apps", "title": f"Used {quoted([text])}", "time": iso(number), "products": ["Gemini Apps"]})
        number += 2 if answered else 1
    return "gemini.json", records[::-1]


def whatsapp(session, talk):
    lines = []
    for number, (role, text) in enumerate(talk):
        stamp = f"[{clock(number):%d.%m.%y, %H:%M:%S}]"
        lines.append(f"{stamp} {'Ada' if role == 'user' else 'Berta'}: {text}")
        lines.append(f"\u200e{stamp} Boats: \u200e{quoted([text])}")
    return f"{session}.txt", "\n".join(lines) + "\n"


KINDS = {"coding history": (claude_code, codex), "personal archive": (chatgpt, claude_ai, gemini, whatsapp)}


def write(folder, writers):
    """Writes each conversation in one of the formats, and returns the texts of all."""
    texts, exports = set(), {}
    for number, (key, messages) in enumerate(conversations().items()):
        talk = [(message["role"], message["content"].strip()) for message in messages]
        writer = writers[number % len(writers)]
        if writer is gemini:
            talk = [turn for at, turn in enumerate(talk) if turn[0] == "user" or at and talk[at - 1][0] == "user"]
        if not talk:
            continue
        name, content = writer(f"s{number}", talk)
        texts.update(text for _, text in talk)
        if isinstance(content, str):
            (folder / f"{number:04}-{name}").write_text(content)
        else:
            exports.setdefault(name, []).extend(content if isinstance(content, list) else [content])
    for name, values in exports.items():
        if name == "chatgpt.json":
            with zipfile.ZipFile(folder / "chatgpt.zip", "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("conversations-000.json", json.dumps(values))
        else:
            (folder / name).write_text(json.dumps(values))
    return texts


def text_of(content):
    return content if isinstance(content, str) else "\n".join(str(list(part.values())) if part["type"] != "text" else part["text"] for part in content)


def run(*args):
    done = subprocess.run([MNEMON, "--quiet", "--format", "json", *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def main():
    failed = False
    questions = [row["query"] for path in sorted(SETS.glob("*/queries.jsonl")) for row in rows(path)][:COUNT]
    for kind, writers in KINDS.items():
        with tempfile.TemporaryDirectory() as root:
            folder = Path(root) / "files"
            folder.mkdir()
            words = lambda text: " ".join(text.split())
            said = {words(text) for text in write(folder, writers)}
            asked = Path(root) / "queries.jsonl"
            asked.write_text("".join(json.dumps({"query": question}) + "\n" for question in questions))
            for tool_output in (0, 2000):
                database = Path(root) / f"{tool_output}.redb"
                run("ingest", "--db", database, "--namespace", "a", "--tool-output", tool_output, folder)
                answers = run("recall", "--db", database, "--namespace", "a", "-k", 10, "--queries", asked)
                hits = [words(text_of(hit["content"])) for answer in answers for hit in answer["hits"]]
                own = sum(hit in said for hit in hits)
                machinery = sum(MARK in hit for hit in hits)
                print(f"{kind}, --tool-output {tool_output}: {len(questions)} questions, {len(hits)} hits; said {own / len(hits):.4f}, machinery {machinery / len(hits):.4f}")
                failed |= tool_output == 0 and (own < 0.99 * len(hits) or machinery > 0)
    sys.exit(failed)


main()
