"""add_messages.jsonl: what langgraph.graph.message.add_messages makes of an update."""

from langchain_core.messages import RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES, add_messages

from conversations import conversation, dice, marked, text
from langchain_cases import from_langchain, to_langchain

ALL = {"remove_all": True}

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = ("removal-in-output", "duplicate-ids-in-output", "duplicate-ids-in-left")


class Update:
    """The right side of one case, against a left side."""

    def __init__(self, rng, left):
        self.rng = rng
        self.left = left
        self.right = []
        self.fresh = 0

    def known(self):
        ids = [message["id"] for message in self.left if message["id"]]
        return self.rng.choice(ids) if ids else self.new_id()

    def new_id(self):
        self.fresh += 1
        return f"n{self.fresh}"

    def message(self, name):
        role = self.rng.choice(("user", "assistant", "assistant", "tool", "system"))
        body = text(self.rng, long=0)
        if role == "tool":
            body = [{"type": "tool_result", "id": f"call-{self.rng.randint(1, 9)}", "content": body}]
        self.right.append({"id": name, "role": role, "content": body})

    def remove(self, name):
        self.right.append({"remove": name})

    # The scenarios: each is one idea; `some` is what surrounds it.

    def append(self):
        for _ in range(self.rng.randint(0, 4)):
            self.message(self.new_id())

    def replace(self):
        for _ in range(self.rng.randint(1, 3)):
            self.message(self.known())

    def duplicates(self):
        name = self.rng.choice((self.known(), self.new_id()))
        for _ in range(self.rng.randint(2, 3)):
            self.message(name)
            self.some()

    def removal(self):
        for _ in range(self.rng.randint(1, 3)):
            self.remove(self.known())

    def unknown(self):
        self.some()
        self.remove("nobody")
        self.some()

    def remove_add(self):
        name = self.known()
        self.remove(name)
        self.some()
        self.message(name)
        if self.rng.random() < 0.25:
            self.remove(name)

    def add_remove(self):
        name = self.rng.choice((self.known(), self.new_id()))
        self.message(name)
        self.some()
        self.remove(name)
        if self.rng.random() < 0.25:
            self.message(name)

    def remove_all(self):
        self.some()
        self.right.append(ALL)
        self.some()

    def remove_alls(self):
        for _ in range(self.rng.randint(2, 3)):
            self.remove_all()

    def after_remove_all(self):
        """What comes after the last remove-all is not merged: removals and doubles in it stay."""
        self.right.append(ALL)
        name = self.rng.choice((self.known(), self.new_id()))
        for _ in range(self.rng.randint(1, 3)):
            self.rng.choice((self.message, self.message, self.remove))(name)

    def unknown_before_remove_all(self):
        self.remove("nobody")
        self.remove_all()

    def null_ids(self):
        for message in self.left:
            if self.rng.random() < 0.3:
                message["id"] = None
        for _ in range(self.rng.randint(1, 3)):
            self.message(None)
            self.some()

    def left_doubles(self):
        if len(self.left) > 1:
            self.left[-1]["id"] = self.left[0]["id"]
        self.rng.choice((self.replace, self.removal, self.append))()

    def mixed(self):
        for _ in range(self.rng.randint(2, 6)):
            self.some(1)

    def some(self, chance=0.4):
        if self.rng.random() < chance:
            name = self.rng.choice((self.known(), self.new_id(), "x1", "x2"))
            self.rng.choice((self.message, self.message, self.remove))(name)


SCENARIOS = (
    "append",
    "replace",
    "duplicates",
    "removal",
    "unknown",
    "remove_add",
    "add_remove",
    "remove_all",
    "remove_alls",
    "after_remove_all",
    "unknown_before_remove_all",
    "null_ids",
    "left_doubles",
    "mixed",
    "mixed",
    "mixed",
)


def operation(item):
    if "remove_all" in item:
        return RemoveMessage(REMOVE_ALL_MESSAGES)
    return RemoveMessage(item["remove"]) if "remove" in item else to_langchain(item)


def run(left, right):
    known = {item.get("id", item.get("remove")) for item in left + right}
    try:
        merged = add_messages([to_langchain(message) for message in left], [operation(item) for item in right])
    except ValueError:
        return {"error": "ValueError"}
    output = [from_langchain(message) for message in merged]
    for item in output:
        if "id" in item and item["id"] not in known:
            item["id"] = "generated"
    return {"output": output}


def marks(left, right, row):
    if "error" in row:
        return ["unknown-removal"]
    output = row["output"]
    ids = [item["id"] for item in output if "id" in item and item["id"] != "generated"]
    given = [message["id"] for message in left if message["id"]]
    found = []
    if any("remove" in item for item in output):
        found.append("removal-in-output")
    if len(ids) != len(set(ids)):
        found.append("duplicate-ids-in-output" if len(given) == len(set(given)) else "duplicate-ids-in-left")
    if ALL in right:
        found.append("remove-all")
    return found


def add_messages_cases(seed):
    for case in range(1, 353):
        rng = dice(seed, "add_messages", case)
        update = Update(rng, conversation(rng, most=8))
        scenario = SCENARIOS[(case - 1) % len(SCENARIOS)]
        getattr(update, scenario)()
        left, right = update.left, update.right
        row = {"case": case, "seed": seed, "scenario": scenario, "left": left, "right": right, **run(left, right)}
        yield marked(row, marks(left, right, row), DEFECTS)
