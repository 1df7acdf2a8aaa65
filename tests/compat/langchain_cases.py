"""trim.jsonl: what langchain_core.messages.trim_messages does, in every combination of its options."""

import copy
import itertools
import re

from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage, trim_messages

from conversations import conversation, count, dice, marked, results_without_call

TYPES = {"user": "human", "assistant": "ai", "system": "system", "tool": "tool"}
ROLES = {name: role for role, name in TYPES.items()}
CLASSES = {"user": HumanMessage, "assistant": AIMessage, "system": SystemMessage}

OTHER_STARTS = (["assistant"], ["tool"], ["system"], ["user", "assistant"], ["user", "system"], ["user", "tool"])
OTHER_ENDS = (["assistant"], ["user"], ["tool"], ["system"], ["assistant", "tool"])

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = ("partial-measured-backwards", "partial-empty", "tool-pair-split")


def to_langchain(message):
    content = message["content"]
    if isinstance(content, str):
        return CLASSES[message["role"]](content, id=message["id"])
    if message["role"] == "tool":
        [result] = content
        return ToolMessage(result["content"], tool_call_id=result["id"], id=message["id"])
    texts = [dict(part) for part in content if part["type"] == "text"]
    calls = [part for part in content if part["type"] == "tool_call"]
    if not calls:
        return CLASSES[message["role"]](texts, id=message["id"])
    # Beside calls, no text or one text is a string, as the chat models give it; more are a list.
    body = texts if len(texts) > 1 else "".join(part["text"] for part in texts)
    asked = [{"id": call["id"], "name": call["name"], "args": call["arguments"]} for call in calls]
    return AIMessage(body, tool_calls=asked, id=message["id"])


def from_langchain(message):
    if isinstance(message, RemoveMessage):
        return {"remove": message.id}
    content = message.content
    if message.type == "tool":
        content = [{"type": "tool_result", "id": message.tool_call_id, "content": content}]
    elif message.type == "ai" and message.tool_calls:
        if isinstance(content, str):
            content = [{"type": "text", "text": content}] if content else []
        content = content + [
            {"type": "tool_call", "id": call["id"], "name": call["name"], "arguments": call["args"]}
            for call in message.tool_calls
        ]
    return {"id": message.id, "role": ROLES[message.type], "content": content}


def counter(messages):
    return sum(count(from_langchain(message)) for message in messages)


def split_words(text):
    return re.findall(r"\S+\s*|\s+", text)


def budget(rng, messages):
    """From nothing to more than everything, often next to where something just fits."""
    sizes = [count(message) for message in messages]
    total = sum(sizes)
    draw = rng.random()
    if draw < 0.1:
        return rng.randint(0, 2)
    if draw < 0.2:
        return max(0, total + rng.choice((-1, 0, 1)))
    if draw < 0.25:
        return total * 3 + 10
    if draw < 0.5 and sizes:
        cut = rng.randint(0, len(sizes))
        return max(0, sum(rng.choice((sizes[cut:], sizes[:cut]))) + rng.choice((-1, 0, 1)))
    return rng.randint(0, total)


def combinations(rng):
    """Every combination of options; the two that differ only in the list of roles vary from round to round."""
    for strategy, start, end, system, partial, splitter in itertools.product(
        ("first", "last"), (0, 1, 2), (0, 1, 2), (False, True), (False, True), (None, "words")
    ):
        yield {
            "strategy": strategy,
            "start_on": (None, ["user"], rng.choice(OTHER_STARTS))[start],
            "end_on": (None, ["user", "tool"], rng.choice(OTHER_ENDS))[end],
            "include_system": system,
            "allow_partial": partial,
            "splitter": splitter,
        }


def marks(messages, options, output):
    before = {message["id"]: message for message in messages}
    cut = [message for message in output if message != before[message["id"]]]
    found = []
    if len(results_without_call(output)) > len(results_without_call(messages)) or (
        calls_unanswered(output) > calls_unanswered(messages)
    ):
        found.append("tool-pair-split")
    for message in cut:
        if count(message) == 1:
            found.append("partial-empty")
        if isinstance(message["content"], list) and any(part["type"] != "text" for part in message["content"]):
            found.append("partial-cuts-tool-message")
    if sum(map(count, output)) > options["max_tokens"]:
        # By a system message that stands alone, or because the pieces of a text were measured in reverse.
        alone = options["include_system"] and len(output) == 1 and output[0]["role"] == "system"
        found.append("over-budget-system" if alone else "partial-measured-backwards")
    if messages and not output and options["end_on"] and options["include_system"]:
        if messages[0]["role"] == "system" and not any(m["role"] in options["end_on"] for m in messages):
            found.append("end-on-drops-system")
    if options["start_on"] and sum(map(count, messages)) <= options["max_tokens"] and len(output) < len(messages):
        found.append("start-on-though-all-fits")
    return found


def calls_unanswered(messages):
    parts = [part for message in messages if isinstance(message["content"], list) for part in message["content"]]
    answered = {part["id"] for part in parts if part["type"] == "tool_result"}
    return sum(part["type"] == "tool_call" and part["id"] not in answered for part in parts)


def run(messages, options):
    given = [to_langchain(message) for message in messages]
    untouched = copy.deepcopy(given)
    roles = {key: [TYPES[role] for role in options[key]] if options[key] else None for key in ("start_on", "end_on")}
    try:
        output = trim_messages(
            given,
            max_tokens=options["max_tokens"],
            token_counter=counter,
            strategy=options["strategy"],
            allow_partial=options["allow_partial"],
            include_system=options["include_system"],
            text_splitter=split_words if options["splitter"] else None,
            **roles,
        )
    except ValueError:
        return {"error": "ValueError"}
    assert given == untouched, "trim_messages changed its input"
    return {"output": [from_langchain(message) for message in output]}


def small_histories():
    """Short enough to try with every budget: several parts, lines, a tool turn."""

    def one(number, role, content):
        return {"id": f"m{number}", "role": role, "content": content}

    parts = [{"type": "text", "text": text} for text in ("a b", "c d e", "", "f\n")]
    call = {"type": "tool_call", "id": "c1", "name": "search", "arguments": {"q": "tea"}}
    result = [{"type": "tool_result", "id": "c1", "content": "one two\nthree"}]
    yield [one(1, "user", parts)]
    yield [one(1, "user", "  lead in\n\nthe middle \nthe end\n")]
    yield [one(1, "user", "hi"), one(2, "assistant", [parts[0], call]), one(3, "tool", result), one(4, "assistant", "")]
    yield [one(1, "user", "hi"), one(2, "assistant", [*parts[:2], call]), one(3, "tool", result)]


def trim_row(seed, case, messages, options):
    for message in messages:
        assert from_langchain(to_langchain(message)) == message
    row = {"case": case, "seed": seed, "messages": messages, "options": options, **run(messages, options)}
    return marked(row, marks(messages, options, row["output"]) if "output" in row else [], DEFECTS)


def trim_cases(seed):
    case = 0
    for turn in range(10):
        for options in combinations(dice(seed, "trim-options", turn)):
            refused = options["strategy"] == "first" and (options["start_on"] or options["include_system"])
            if turn >= (1 if refused else 10 if options["strategy"] == "first" else 8):
                continue
            case += 1
            rng = dice(seed, "trim", case)
            messages = conversation(rng, most=2 if refused else 40, parts=True)
            yield trim_row(seed, case, messages, {**options, "max_tokens": budget(rng, messages)})
    plain = {"start_on": None, "end_on": None, "include_system": False, "allow_partial": True}
    for messages in small_histories():
        for strategy, splitter in itertools.product(("first", "last"), (None, "words")):
            for most in range(sum(map(count, messages)) + 1):
                case += 1
                options = {"strategy": strategy, **plain, "splitter": splitter, "max_tokens": most}
                yield trim_row(seed, case, messages, options)
