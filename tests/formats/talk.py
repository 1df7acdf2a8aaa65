"""A conversation that is made up, and what a reader must find of it.

This knows nothing of mnemon's readers: a conversation is made up first, and then written down as a version of a program would. `check.py`
compares what mnemon stores with what was made up.
"""

import json
from datetime import datetime, timedelta, timezone

WORDS = """harbour mast keel winch Berta oak pine rope sail rudder anchor tide Straße naïve 東京 موج μῆκος 🙂 "quoted" back\\slash <b>bold</b>
{braces} 100% a/b --flag e\u0301 caf\u00e9 \u200bzero #1 [Image] `code` user: assistant: AT&T a<b""".split()
ANY = object()


class Talk:
    """What was said in one or more files that belong together, by whom, and when.

    Each text begins with a mark of its own (the conversation and a number), so that it is known again wherever it is found.
    """

    def __init__(self, rng, number):
        self.rng = rng
        self.session = f"{rng.getrandbits(32):08x}-{number}"
        self.clock = datetime(2025, 1, 1, tzinfo=timezone.utc) + timedelta(minutes=rng.randrange(500_000))
        self.said = []
        self.unsaid = []
        self.count = 0
        self.version = ""
        self.may_be_cut = True
        # Whether messages that were cut off come after those that were not.
        self.keeps_order = True

    def maybe(self, share=0.3):
        return self.rng.random() < share

    def mark(self):
        self.count += 1
        return f"{self.session}.{self.count}"

    def text(self, longest=30):
        words = self.rng.choices(WORDS, k=self.rng.randrange(1, longest))
        text = "".join(word + self.rng.choice([" ", " ", " ", "\n", "\n\n"]) for word in words).strip()
        return f"{self.mark()}: {text}"

    def line(self, longest=15):
        return " ".join(self.text(longest).split())

    def id(self, digits=16):
        return f"{self.rng.getrandbits(digits * 4):0{digits}x}"

    def uuid(self):
        digits = self.id(32)
        return "-".join([digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]])

    def tick(self, seconds=90):
        """Lets some time pass and returns the new time."""
        self.clock += timedelta(milliseconds=self.rng.randrange(1_000, seconds * 1_000))
        return self.clock

    def time(self):
        return stamp(self.tick())

    def say(self, role, text, time=None, session=None, name=None):
        """Records a message. `text` may be a list of pieces that must be there in this order; `role`, `time` and `name` may be `ANY`, and `name` a
        set. A `session` that begins with `?` has a name that is not foretold: it must hold these messages and no others."""
        self.said.append({"session": session or self.session, "role": role, "text": text, "time": time, "name": name})

    def leave_open(self, text=None, time=None):
        """Records what may be stored or not: a text with a mark, or a message without one at a time."""
        self.unsaid.append({"text": text, "time": time})


def stamp(time, digits=3):
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond:06}"[:digits] + "Z"


def json_lines(values):
    return "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)


def json_text(talk, value):
    """Writes JSON as programs do: on one line or indented, with or without escapes."""
    return json.dumps(value, ensure_ascii=talk.maybe(0.5), indent=talk.rng.choice([None, 2]))
