"""Lists of messages: LangChain's, and the bodies of requests to Anthropic's Messages API and to Gemini."""

import json

from talk import ANY, json_lines, json_text

ROLES = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant", "system": "system", "chat": ANY}
CLASSES = {"human": "HumanMessage", "ai": "AIMessage", "AIMessageChunk": "AIMessageChunk", "system": "SystemMessage", "chat": "ChatMessage", "tool": "ToolMessage",
           "remove": "RemoveMessage"}


def langchain(talk):
    """`messages_to_dict`, `dumps`, `model_dump` and the flat messages of LangGraph's API; a RemoveMessage takes one back, or all before it."""
    shape, messages, is_list = talk.rng.choice(["dict", "dumps", "dump", "flat"]), [], False
    talk.version = shape

    def add(kind, content, **fields):
        fields = {"content": content, "type": kind, "id": talk.uuid(), **fields}
        if shape in ("dict", "dump"):
            fields = {"additional_kwargs": {}, "response_metadata": {}, "name": None, **fields}
        if shape == "dict":
            messages.append({"type": kind, "data": fields})
        elif shape == "dumps":
            messages.append({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "messages", CLASSES[kind]], "kwargs": fields})
        else:
            messages.append(fields)
        return fields["id"]

    for _ in range(talk.rng.randrange(1, 12)):
        kind, text = talk.rng.choice(["human", "human", "ai", "ai", "AIMessageChunk", "system", "chat", "tool", "remove"]), talk.text()
        if kind == "tool":
            add("ai", "", tool_calls=[{"name": "search", "args": {}, "id": "c", "type": "tool_call"}], invalid_tool_calls=[])
            add("tool", text, tool_call_id="c", status="success")
            talk.leave_open(text)
        elif kind == "remove":
            is_list = True
            if talk.said and talk.maybe(0.8):
                add("remove", "", id=talk.said.pop(talk.rng.randrange(len(talk.said)))["id"])
            elif talk.maybe(0.3):
                add("remove", "", id="__remove_all__")
                talk.said.clear()
        else:
            content, name = text, None
            if talk.maybe():
                content = [{"type": "text", "text": text}]
                if kind == "human":
                    content.append({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}})
                if kind == "ai":
                    content = [{"type": "thinking", "thinking": "A thought.", "signature": "s"}, *content, {"type": "tool_use", "id": "c", "name": "f", "input": {}}]
            fields = {"role": "Charles"} if kind == "chat" else {}
            if kind == "human" and talk.maybe():
                name = fields["name"] = "Ada"
            if kind == "ai" and talk.maybe():
                fields["tool_calls"] = [{"name": "search", "args": {}, "id": "c", "type": "tool_call"}]
            number = add(kind, content, **fields)
            talk.say(ROLES[kind], text, session="default", name={"Charles", None} if kind == "chat" else name)
            talk.said[-1]["id"] = number
    if not messages:
        return {".json": "[]"}
    return {".jsonl": json_lines(messages)} if shape != "dumps" and not is_list and talk.maybe() else {".json": json_text(talk, messages)}


def anthropic(talk):
    """Requests, answers, lists of messages, and lines of a batch and of its results."""
    form = talk.version = talk.rng.choice(["request", "answer", "list", "lines", "batch", "result"])

    def message(role):
        text = talk.text()
        content, pieces = text, text
        if role == "assistant" and talk.maybe(0.5) or form in ("answer", "result"):
            more = talk.text()
            content = [{"type": "thinking", "thinking": "A thought.", "signature": "s"}, {"type": "redacted_thinking", "data": "x"}, {"type": "text", "text": text, "citations": None},
                       {"type": "tool_use", "id": "t", "name": "f", "input": {}}, {"type": "text", "text": more}]
            pieces = [text, more]
        elif talk.maybe():
            image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}
            content = [image, {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]
        return {"role": role, "content": content}, pieces

    session = {"list": "default", "lines": "default", "answer": "default"}.get(form, "?")
    messages, said = [], []
    for _ in range(1 if form in ("answer", "result") else talk.rng.randrange(1, 8)):
        role = "assistant" if form in ("answer", "result") or len(messages) % 2 else "user"
        value, pieces = message(role)
        messages.append(value)
        said.append((role, pieces))
        if role == "assistant" and talk.maybe(0.2) and form not in ("answer", "result"):
            output = talk.text()
            messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": output}]}]})
            talk.leave_open(output)
    system = talk.text() if form in ("request", "batch") and talk.maybe() else None
    body = {"model": "claude-x", "max_tokens": 1024, "messages": messages}
    if system:
        body["system"] = system if talk.maybe(0.5) else [{"type": "text", "text": system, "cache_control": {"type": "ephemeral"}}]
        talk.say("system", [system], session=session)
    answer = {"id": f"msg_{talk.id()}", "type": "message", "model": "claude-x", **messages[0], "stop_reason": "end_turn", "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1}}
    value = {
        "request": body, "answer": answer, "list": messages, "batch": {"custom_id": talk.session, "params": body},
        "result": {"custom_id": talk.session, "result": {"type": "succeeded", "message": answer}},
    }
    for role, pieces in said:
        talk.say(role, pieces, session=talk.session if form in ("batch", "result") else session)
    if system and form == "batch":
        talk.said[0]["session"] = talk.session
    if form in ("batch", "result"):
        return {".jsonl": json_lines([value[form]])}
    return {".jsonl": json_lines(messages)} if form == "lines" else {".json": json_text(talk, value[form])}


def gemini(talk):
    """Requests, answers and `contents`, in the names of JSON and of Python."""
    form = talk.version = talk.rng.choice(["request", "python", "answer", "list", "lines"])
    contents, session = [], "?" if form in ("request", "python") else "default"
    system = talk.text() if session == "?" and talk.maybe() else None
    if system:
        talk.say("system", [system], session=session)
    for number in range(1 if form == "answer" else talk.rng.randrange(1, 8)):
        role = "model" if form == "answer" or number % 2 else "user"
        text = talk.text()
        parts, pieces = [{"text": text}], text
        if role == "model" and talk.maybe():
            more = talk.text()
            parts = [{"text": "A thought.", "thought": True}, {"text": text, "thoughtSignature": "x"}, {"functionCall": {"name": "f", "args": {}}}, {"text": more}]
            pieces = [text, more]
        elif talk.maybe():
            parts.append({"inlineData": {"mimeType": "image/png", "data": "AA"}})
        contents.append({"role": role, "parts": parts})
        talk.say("assistant" if role == "model" else "user", pieces, session=session)
        if role == "model" and form != "answer" and talk.maybe(0.2):
            output = talk.text()
            contents.append({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": output}}}]})
            talk.leave_open(output)
    if form == "answer":
        other = {"content": {"role": "model", "parts": [{"text": talk.text()}]}, "finishReason": "STOP", "index": 1}
        talk.leave_open(other["content"]["parts"][0]["text"])
        value = {"candidates": [{"content": contents[0], "finishReason": "STOP", "index": 0}, *([other] if talk.maybe() else [])], "modelVersion": "gemini-x", "usageMetadata": {}}
    else:
        value = {"contents": contents, **({"systemInstruction" if form == "request" else "system_instruction": {"parts": [{"text": system}]}} if system else {})}
    if form == "lines":
        return {".jsonl": json_lines(contents)}
    return {".json": json_text(talk, contents if form == "list" else value)}


KINDS = {"langchain": langchain, "anthropic": anthropic, "gemini": gemini}
