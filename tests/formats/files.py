"""Files of Claude Code, Codex, ChatGPT and the OpenAI API in each of their versions, with what was said in each.

The other programs' files are made in `assistants.py`, `group_chats.py` and `lists.py`.
"""

import json
import random
import zipfile
from datetime import datetime, timezone

import assistants
import group_chats
import lists
from talk import Talk, json_lines

class Tree:
    """The lines of a transcript of Claude Code, of which each names the one before."""

    def __init__(self, talk, version):
        self.talk, self.version = talk, version
        self.lines, self.last = [], None
        self.folder = "/home/ada/" + talk.rng.choice(["boat", "deck", "a b"])

    def add(self, kind, fields, parent=..., chain=True):
        line = {
            "parentUuid": self.last if parent is ... else parent, "isSidechain": False, "userType": "external", "cwd": self.folder,
            "sessionId": self.talk.session, "version": self.version, "type": kind, "uuid": f"{self.talk.rng.getrandbits(64):016x}",
            "timestamp": self.talk.time(), **fields,
        }
        self.lines.append(line)
        if chain:
            self.last = line["uuid"]
        return line

    def user(self, content, **fields):
        return self.add("user", {"message": {"role": "user", "content": content}, **fields})

    def assistant(self, block, model="claude-x", **fields):
        return self.add("assistant", {"message": {"model": model, "role": "assistant", "content": [block]}, **fields})


def claude_code(talk):
    version = talk.version = talk.rng.choice(["1.0.89", "2.0.22", "2.0.76", "2.1.63", "2.1.96", "2.1.207", "2.1.232"])
    tree = Tree(talk, version)
    newest = version in ("2.1.207", "2.1.232")
    human = {"origin": {"kind": "human"}, "promptSource": "typed", "session_id": talk.session} if newest else {}
    if talk.rng.random() < 0.5:
        tree.lines.append({"type": "summary", "summary": "A boat", "leafUuid": "00"})
    tree.lines.append({"type": "file-history-snapshot", "messageId": "x", "snapshot": {}})

    def prompt():
        text = talk.text()
        content = text if talk.rng.random() < 0.7 else [{"type": "text", "text": text}]
        if talk.rng.random() < 0.2:
            content = [{"type": "text", "text": "<ide_opened_file>The user opened x.rs.</ide_opened_file>"}, {"type": "text", "text": text}]
        line = tree.user(content, **human)
        talk.say("user", text, line["timestamp"])

    def answer():
        if talk.rng.random() < 0.5:
            tree.assistant({"type": "thinking", "thinking": "hm", "signature": "s"})
        text = talk.text()
        line = tree.assistant({"type": "text", "text": text})
        talk.say("assistant", text, line["timestamp"])

    def call(name="Bash", arguments=None):
        number = f"toolu_{talk.rng.getrandbits(40):010x}"
        tree.assistant({"type": "tool_use", "id": number, "name": name, "input": arguments or {"command": "ls"}})
        return number

    def result(number, content, is_error=False, **fields):
        block = {"type": "tool_result", "tool_use_id": number, "content": content, **({"is_error": True} if is_error else {})}
        return tree.user([block], **fields)

    def work():
        number = call()
        result(number, talk.text(), talk.rng.random() < 0.1, toolUseResult={"stdout": "x"})

    def question():
        asked, chosen, notes = f"Which, {talk.line(3)}?", talk.rng.choice(["Oak", "Pine"]), talk.rng.choice(["", "it floats"])
        number = call("AskUserQuestion", {"questions": [{"question": asked, "options": [{"label": "Oak"}, {"label": "Pine"}]}]})
        text = f'User has answered your questions: "{asked}"="{chosen}"' + (f" user notes: {notes}" if notes else "")
        more = {}
        if talk.rng.random() < 0.5:
            annotations = {asked: {"notes": notes}} if notes else {}
            more = {"toolUseResult": {"questions": [{"question": asked}], "answers": {asked: chosen}, "annotations": annotations}}
        line = result(number, text + ". You can now continue with the user's answers in mind.", **more)
        talk.say("assistant", asked, line["timestamp"])
        talk.say("user", f"{chosen}\n{notes}".strip(), line["timestamp"])

    def refusal():
        number, words = call(), talk.text(8)
        text = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file edit, the new_string was NOT "
        text += "written to the file). To tell you how to proceed, the user said:\n" + words
        line = result(number, text, True, toolUseResult="User rejected tool use")
        talk.say("user", words, line["timestamp"])

    def command():
        words = talk.text(8)
        text = f"<command-message>paint is running</command-message>\n<command-name>/paint</command-name>\n<command-args>{words}</command-args>"
        line = tree.user(text)
        tree.user("The body of the command", isMeta=True)
        talk.say("user", f"/paint {words}", line["timestamp"])

    def queued():
        text = talk.text(8)
        operation = {"type": "queue-operation", "sessionId": talk.session}
        enqueued = {**operation, "operation": "enqueue", "content": text, "timestamp": talk.time()}
        if newest:
            tree.lines.append(enqueued)
            attachment = {"type": "queued_command", "prompt": text, "commandMode": "prompt", "origin": {"kind": "human"}}
            talk.say("user", text, tree.add("attachment", {"attachment": attachment})["timestamp"])
        elif version in ("2.0.76", "2.1.63", "2.1.96"):
            tree.lines.append(enqueued)
            tree.lines.append({**operation, "operation": talk.rng.choice(["remove", "dequeue"]), "timestamp": talk.time()})
            if tree.lines[-1]["operation"] == "dequeue":
                talk.say("user", text, tree.user(text)["timestamp"])
            else:
                talk.say("user", text, enqueued["timestamp"])

    def rewind():
        # What was typed at this place, and all that followed it, was taken back.
        parent, kept = tree.last, len(talk.said)
        prompt()
        answer()
        if talk.rng.random() < 0.5:
            work()
        del talk.said[kept:]
        tree.last = parent
        prompt()

    def noise():
        kind = talk.rng.randrange(8)
        if kind == 0:
            tree.assistant({"type": "text", "text": "No response requested."}, model="<synthetic>")
        elif kind == 1:
            tree.user("Unknown skill: remoote") if not newest else tree.user("Run it", origin={"kind": "coordinator"})
        elif kind == 2:
            tree.add("system", {"subtype": "turn_duration", "durationMs": 5})
        elif kind == 3:
            tree.user([{"type": "text", "text": "[Request interrupted by user]"}])
        elif kind == 4:
            tree.add("user", {"isSidechain": True, "message": {"role": "user", "content": "Work for me"}}, None, chain=False)
        elif kind == 5:
            data = {"type": "agent_progress", "message": {"type": "user", "message": {"role": "user", "content": "Work"}}}
            tree.add("progress", {"data": data})
        elif kind == 6:
            boundary = tree.add("system", {"subtype": "compact_boundary", "logicalParentUuid": tree.last}, None)
            more = {"isVisibleInTranscriptOnly": True} if version > "2.1" else {}
            tree.user("This session is being continued from a previous conversation.", isCompactSummary=True, **more)
            assert boundary
        else:
            tree.user("<local-command-stdout>done</local-command-stdout>")

    prompt()
    for _ in range(talk.rng.randrange(2, 12)):
        talk.rng.choice([answer, answer, prompt, work, question, refusal, command, queued, rewind, noise, noise])()
    return {".jsonl": json_lines(tree.lines)}


def codex(talk):
    version = talk.version = talk.rng.choice(["0.25", "0.34", "0.47", "0.77", "0.98", "0.126"])
    old = version == "0.25"
    rows = []

    def add(kind, payload):
        rows.append(payload if old else {"timestamp": talk.time(), "type": kind, "payload": payload})
        return None if old else rows[-1]["timestamp"]

    def message(role, *parts):
        parts = [part if isinstance(part, dict) else {"type": "input_text" if role == "user" else "output_text", "text": part} for part in parts]
        time = add("response_item", {"type": "message", **({"id": None} if old else {}), "role": role, "content": parts})
        if not old and role == "user" and len(parts) == 1:
            rows.append({"timestamp": talk.time(), "type": "event_msg", "payload": {"type": "user_message", "message": parts[0]["text"]}})
        return time

    aside = talk.rng.random() < 0.15 and not old
    source = {"subagent": talk.rng.choice(["review", {"other": "guardian"}, {"thread_spawn": {"depth": 1}}])} if aside else "cli"
    if old:
        rows += [{"id": talk.session, "timestamp": talk.time(), "instructions": None, "git": {}}, {"record_type": "state"}]
    else:
        add("session_meta", {"id": talk.session, "cwd": "/home/ada/boat", "source": source, "cli_version": version})
    if version in ("0.98", "0.126"):
        message("developer", "<permissions instructions>Ask.</permissions instructions>")
    message("user", "<environment_context>\n  <cwd>/home/ada/boat</cwd>\n</environment_context>")
    for _ in range(talk.rng.randrange(2, 12)):
        kind = talk.rng.randrange(9)
        if kind < 3:
            text, wrapped = talk.text(), talk.rng.random() < 0.3 and not old
            shown = f"# Context from my IDE setup:\n\n## Open tabs:\n- x\n\n## My request for Codex:\n{text}" if wrapped else text
            talk.say("user", text, message("user", shown))
        elif kind < 6:
            text = talk.text()
            cited = text + ("<oai-mem-citation>MEMORY.md:1</oai-mem-citation>" if version == "0.126" else "")
            talk.say("assistant", text, message("assistant", cited))
        elif kind == 6:
            number = f"call_{talk.rng.getrandbits(40):010x}"
            add("response_item", {"type": "function_call", "name": "shell", "arguments": "{}", "call_id": number})
            add("response_item", {"type": "function_call_output", "call_id": number, "output": talk.text()})
        elif kind == 7:
            image = {"type": "input_image", "image_url": "data:image/png;base64,AA"}
            text = talk.text(8)
            talk.say("user", text, message("user", text, "<image>", image, "</image>"))
        else:
            message("user", talk.rng.choice(["<turn_aborted>\nx\n</turn_aborted>", "<user_action>x</user_action>", "<environment_context>x</environment_context>"]))
    if aside:
        talk.said.clear()
    return {".jsonl": json_lines(rows)}


def chatgpt(talk):
    year = talk.version = talk.rng.choice([2023, 2024, 2026])
    nodes, last = {"root": {"id": "root", "message": None, "parent": None, "children": []}}, "root"

    def add(role, content, say=None, parent=None, **fields):
        nonlocal last
        node = f"{talk.rng.getrandbits(48):012x}"
        time = talk.clock.timestamp() + talk.rng.randrange(1, 60)
        metadata = fields.pop("metadata", {})
        message = {"id": node, "author": {"role": role, "name": fields.pop("name", None)}, "create_time": time, "content": content,
                   "metadata": metadata, "recipient": fields.pop("recipient", "all"), "weight": 1}
        nodes[node] = {"id": node, "message": message, "parent": parent or last, "children": []}
        nodes[parent or last]["children"].append(node)
        talk.time()
        last = node
        if say is not None:
            talk.say(role, say, datetime.fromtimestamp(time, timezone.utc))

    def text(value):
        return {"content_type": "text", "parts": [value]}

    hidden = {} if year == 2023 else {"metadata": {"is_visually_hidden_from_conversation": True}}
    add("system", text(""), **hidden)
    for _ in range(talk.rng.randrange(2, 12)):
        kind = talk.rng.randrange(10)
        said = talk.text()
        if kind < 3:
            add("user", text(said), said)
        elif kind < 6:
            add("assistant", text(said), said)
        elif kind == 6:
            branch = last
            add("assistant", text("Not shown"))
            add("assistant", text(said), said, parent=branch)
        elif kind == 7:
            add("assistant", {"content_type": "code", "language": "python", "text": "print(1)"}, recipient="python")
            add("tool", {"content_type": "execution_output", "text": "1"}, name="python")
        elif kind == 8:
            parts = [{"content_type": "audio_transcription", "text": said, "direction": "in"}, {"content_type": "audio_asset_pointer", "asset_pointer": "sediment://f"}]
            add("user", {"content_type": "multimodal_text", "parts": parts}, said)
        else:
            unknown = talk.rng.choice([
                {"content_type": "computer_output", "screenshot": {}}, {"content_type": "app_pairing_content", "workspaces": []},
                {"content_type": "thoughts", "thoughts": []}, {"content_type": "new_kind", "anything": 1},
            ])
            add("assistant", unknown)
    conversation = {"title": "A boat", "create_time": 1.0, "mapping": nodes, "current_node": last, "conversation_id": talk.session, "id": talk.session}
    return {".json": json.dumps([conversation])}


def openai(talk):
    form = talk.version = talk.rng.choice(["tuning", "batch", "wildchat", "sharegpt", "responses"])
    turns = [(talk.rng.choice(["user", "assistant"]), talk.text()) for _ in range(talk.rng.randrange(1, 9))]
    messages = [{"role": role, "content": text} for role, text in turns]
    session = None
    if form == "tuning":
        value = {"messages": messages}
    elif form == "batch":
        session = talk.session
        value = {"custom_id": session, "method": "POST", "url": "/v1/chat/completions", "body": {"model": "m", "messages": messages}}
    elif form == "wildchat":
        session = talk.session
        value = {"conversation_hash": session, "model": "m", "conversation": [{**message, "language": "English"} for message in messages]}
    elif form == "sharegpt":
        session = talk.session
        names = {"user": "human", "assistant": "gpt"}
        value = {"id": session, "conversations": [{"from": names[role], "value": text} for role, text in turns]}
    else:
        kinds = {"user": "input_text", "assistant": "output_text"}
        output = [{"type": "message", "role": role, "content": [{"type": kinds[role], "text": text}]} for role, text in turns]
        output.insert(talk.rng.randrange(len(output) + 1), {"type": "reasoning", "id": "r", "summary": []})
        value = {"model": "m", "input": output}
    for role, text in turns:
        talk.say(role, text, session=session or "?")
    return {".jsonl": json_lines([value])}


KINDS = {
    "claude-code": claude_code,
    "codex": codex,
    "chatgpt": chatgpt,
    "openai": openai,
    **assistants.KINDS,
    **group_chats.KINDS,
    **lists.KINDS,
}


def make(folder, kind, seed, count):
    """Writes the files of `count` conversations of a kind, and returns the conversations."""
    folder.mkdir(parents=True)
    talks = []
    for number in range(count):
        talk = Talk(random.Random(f"{kind}/{seed}/{number}"), number)
        for name, content in KINDS[kind](talk).items():
            path = folder / f"{number:05}{name}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())
        talks.append(talk)
    return talks


def archive(folder, path):
    """Puts the files of a folder into a zip archive. What is in zip archives already is put there unpacked."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for entry in sorted(folder.rglob("*")):
            name = str(entry.relative_to(folder))
            if entry.suffix == ".zip":
                inner = zipfile.ZipFile(entry)
                for member in inner.namelist():
                    file.writestr(f"{name.removesuffix('.zip')}/{member}", inner.read(member))
            elif entry.is_file():
                file.write(entry, name)
