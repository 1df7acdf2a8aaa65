"""Random conversations, as the plain message dictionaries that all fixtures use, and the one way to count their tokens.

A message is {"id", "role", "content"}; its content is a string, or a list of parts: {"type": "text", "text"},
{"type": "tool_call", "id", "name", "arguments"}, {"type": "tool_result", "id", "content"}.
"""

import random

WORDS = (
    "tea green likes Ada the a is at noon train Oslo book red door 42 7.5 maybe not then we you I sent it again "
    'café über 東京 привет 🙂 cost=12 a/b "quoted" <b> & it\'s end. well, why? ok'
).split()
GAPS = (" ",) * 30 + ("  ", "\n", "\n", "\n", "\n\n", "\t", "\u00a0", "\r\n")
TOOLS = ("search", "weather", "add")

# How a conversation is built, and how often each way is taken.
SHAPES = {"turns": 60, "single_role": 8, "no_user": 10, "assistant_first": 10, "any_role": 12}


def dice(seed, fixture, case):
    """The random source of one case. It depends on nothing but its arguments."""
    return random.Random(f"{seed}/{fixture}/{case}")


def words(text):
    return len(text.split())


def count(message):
    """1 + the words of its text (a tool result's content is text) + 2 for each tool call."""
    content = message["content"]
    if isinstance(content, str):
        return 1 + words(content)
    texts = [part.get("text", part.get("content", "")) for part in content]
    return 1 + sum(words(text) for text in texts) + 2 * sum(part["type"] == "tool_call" for part in content)


def text(rng, long=0.05, empty=0.05):
    draw = rng.random()
    if draw < empty:
        return ""
    if draw < empty + long:
        size = rng.randint(25, 60)
    elif draw < 0.4:
        size = rng.randint(1, 3)
    else:
        size = rng.randint(3, 11)
    pieces = [rng.choice(WORDS)]
    for _ in range(size - 1):
        pieces += [rng.choice(GAPS), rng.choice(WORDS)]
    out = "".join(pieces)
    if rng.random() < 0.06:
        out = rng.choice(("\n", " ", "  \n")) + out
    if rng.random() < 0.08:
        out += rng.choice(("\n", " ", "\n\n"))
    return out


def length(rng, most):
    """Mostly short, sometimes up to `most`."""
    draw = rng.random()
    if draw < 0.03:
        size = 0
    elif draw < 0.25:
        size = rng.randint(1, 3)
    elif draw < 0.82:
        size = rng.randint(4, 9)
    elif draw < 0.97:
        size = rng.randint(10, 18)
    else:
        size = rng.randint(19, 40)
    return min(size, most)


class Writer:
    """Appends messages with running ids to a conversation."""

    def __init__(self, rng, parts):
        self.rng = rng
        self.parts = parts
        self.messages = []
        self.calls = 0

    def add(self, role, content):
        self.messages.append({"id": f"m{len(self.messages) + 1}", "role": role, "content": content})

    def say(self, role):
        if role == "tool":
            return self.result(self.call_id())
        if self.parts and role in ("user", "assistant") and self.rng.random() < 0.12:
            return self.add(role, [self.part() for _ in range(self.rng.randint(1, 4))])
        self.add(role, text(self.rng))

    def part(self):
        return {"type": "text", "text": text(self.rng, long=0.02)}

    def call_id(self):
        self.calls += 1
        return f"c{self.calls}"

    def result(self, call):
        self.add("tool", [{"type": "tool_result", "id": call, "content": text(self.rng)}])

    def call(self):
        """An assistant message with one call or several, then their results, now and then not all or in disorder."""
        rng = self.rng
        ids = [self.call_id() for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        parts = []
        if rng.random() < 0.5:
            many = self.parts and rng.random() < 0.15
            parts = [part for part in (self.part() for _ in range(2 if many else 1)) if many or part["text"]]
        for call in ids:
            arguments = {"q": rng.choice(WORDS)} if rng.random() < 0.8 else {}
            parts.append({"type": "tool_call", "id": call, "name": rng.choice(TOOLS), "arguments": arguments})
        self.add("assistant", parts)
        if len(ids) > 1 and rng.random() < 0.2:
            rng.shuffle(ids)
        if rng.random() < 0.08:
            ids.pop()
        for call in ids:
            self.result(call)

    def turn(self):
        self.say("user")
        if self.rng.random() < 0.05:
            self.say("user")
        while self.rng.random() < 0.3:
            self.call()
        if self.rng.random() < 0.93:
            self.say("assistant")
        if self.rng.random() < 0.05:
            self.result(self.call_id())


def conversation(rng, least=0, most=40, parts=False):
    """A conversation of at most `most` messages. With `parts`, some contents are lists of several texts."""
    size = max(least, length(rng, most))
    writer = Writer(rng, parts)
    if size and rng.random() < 0.45:
        writer.add("system", text(rng, empty=0.03))
    shape = rng.choices(list(SHAPES), list(SHAPES.values()))[0]
    if shape == "assistant_first":
        rng.choice((lambda: writer.say("assistant"), writer.call, lambda: writer.say("tool")))()
    role = rng.choice(("user", "assistant", "tool", "system"))
    while len(writer.messages) < size:
        if shape == "single_role":
            writer.say(role)
        elif shape == "no_user":
            rng.choice((lambda: writer.say("assistant"), writer.call, lambda: writer.say("tool")))()
        elif shape == "any_role":
            writer.say(rng.choice(("user", "assistant", "tool", "system", "user", "assistant")))
        else:
            writer.turn()
        if rng.random() < 0.03:
            writer.add("system", text(rng))
    return writer.messages[:size]


def results_without_call(messages):
    """Ids of the tool results that no earlier message asked for."""
    called, orphans = set(), []
    for message in messages:
        for part in message["content"] if isinstance(message["content"], list) else ():
            if part["type"] == "tool_call":
                called.add(part["id"])
            elif part["type"] == "tool_result" and part["id"] not in called:
                orphans.append(part["id"])
    return orphans


def marked(row, marks, defects):
    """The row with its marks, and with the weightiest that is a defect as its `known_defect`; `defects` is in order."""
    if marks:
        row["marks"] = marks
    defect = next((mark for mark in defects if mark in marks), None)
    if defect:
        row["known_defect"] = defect
    return row
