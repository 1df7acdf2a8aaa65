"""get.jsonl: what llama_index's Memory gives back with blocks: truncated over the limit, rendered, inserted."""

from llama_index.core.memory import StaticMemoryBlock

from conversations import conversation, dice, marked, text
from llamaindex_cases import FixedBlock, block_content, rendered, to_llama, tokens

CASES = 320

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = (
    "truncation-order-reversed",
    "over-by-history",
    "over-by-priority-0",
    "over-by-tags",
    "not-escaped",
    "message-input-ignored",
    "second-get-differs",
)

SIGNS = "<>&\"'"


def content_for(rng):
    """Text mostly; sometimes several texts, messages, or nothing."""
    hostile = rng.random() < 0.05

    def words(long=0.05):
        out = text(rng, long)
        return out if hostile else out.translate({ord(sign): None for sign in SIGNS})

    draw = rng.random()
    if draw < 0.75:
        return words(long=0.1)
    if draw < 0.87:
        return [{"type": "text", "text": words()} for _ in range(rng.randint(1, 3))]
    if draw < 0.96:
        roles = ("user", "assistant", "system")
        return [{"role": rng.choice(roles), "content": words()} for _ in range(rng.randint(1, 2))]
    return rng.choice(("", []))


def blocks_for(rng):
    blocks = []
    for number in range(rng.choice((0, 1, 2, 2, 3, 3, 4, 5))):
        name = rng.choice(("core", "facts", "profile", "notes")) + str(number + 1)
        block = {"name": name, "priority": rng.choice((0, 0, 1, 1, 2, 2, 3, 4, 5)), "content": content_for(rng)}
        if isinstance(block["content"], str) and rng.random() < 0.2:
            block["truncate"] = rng.choice(("words", "words", "one"))
        elif rng.random() < 0.5 and block["content"] and not has_role(block["content"]):
            block["kind"] = "static"
        blocks.append(block)
    return blocks


def has_role(content):
    return isinstance(content, list) and bool(content) and "role" in content[0]


def build(block):
    content = block_content(block["content"])
    common = {"name": block["name"], "priority": block["priority"]}
    if block.get("kind") == "static":
        return StaticMemoryBlock(static_content=content, **common)
    return FixedBlock(content=content, shortens=block.get("truncate"), **common)


def left_by_priority(blocks, history, limit):
    """The names of the blocks that the documented order would drop: the highest number first, whole blocks."""
    excess = history + sum(block["tokens"] for block in blocks) - limit
    dropped = []
    for block in sorted(blocks, key=lambda block: -block["priority"]):
        if block["priority"] and excess > 0:
            excess -= block["tokens"]
            dropped.append(block["name"])
    return dropped


def signs_rendered(row):
    """Whether a block that is written into the template holds a sign with a meaning in XML."""
    gone = row.get("dropped", ())
    kept = (block for block in row["blocks"] if block["name"] not in gone and not has_role(block["content"]))
    return any(sign in piece for block in kept for piece in pieces(block["content"]) for sign in SIGNS)


def pieces(content):
    return [content] if isinstance(content, str) else [part.get("text", "") for part in content]


def marks(row, total):
    blocks, limit = row["blocks"], row["options"]["token_limit"]
    history = sum(row["tokens"].values())
    size = {block["name"]: block["tokens"] for block in blocks}
    found = []
    whole = not any("truncate" in block for block in blocks)
    if whole and row["dropped"]:
        wanted = left_by_priority(blocks, history, limit)
        if sorted(name for name in wanted if size[name]) != sorted(name for name in row["dropped"] if size[name]):
            found.append("truncation-order-reversed")
    if total > limit:
        always = sum(block["tokens"] for block in blocks if block["priority"] == 0)
        if history > limit:
            found.append("over-by-history")
        elif history + always > limit:
            found.append("over-by-priority-0")
        else:
            found.append("over-by-tags")
    if signs_rendered(row):
        found.append("not-escaped")
    if isinstance(row.get("input"), dict) and "asked" in row:
        found.append("message-input-ignored")
    if "again" in row:
        found.append("second-get-differs")
    return found


async def get_case(bench, seed, case):
    rng = dice(seed, "get", case)
    messages = conversation(rng, most=12)
    blocks = blocks_for(rng)
    if case > CASES - 4:
        blocks = [{"name": "twice", "priority": 0, "content": "a"}, {"name": "twice", "priority": 1, "content": "b"}]
    for block in blocks:
        block["tokens"] = bench.count(block_content(block["content"]))
    row = {"case": case, "seed": seed, "options": {}, "messages": messages, "tokens": tokens(bench, messages)}
    history, extra = sum(row["tokens"].values()), sum(block["tokens"] for block in blocks)
    limit = rng.choice(
        (
            rng.randint(1, 30),
            history + rng.randint(1, extra + 1),
            history + rng.randint(1, extra + 1),
            history + extra + rng.randint(1, 15),
            1000,
        )
    )
    options = {"token_limit": limit, "insert_method": rng.choice(("system", "user"))}
    row.update(options=options, blocks=blocks)
    draw = rng.random()
    asked = None
    if draw < 0.15:
        row["input"] = asked = text(rng, long=0)
    elif draw < 0.2:
        row["input"] = {"role": "user", "content": text(rng, long=0)}
        asked = to_llama(row["input"])
    try:
        memory = bench.memory([build(block) for block in blocks], **options)
    except ValueError:
        return marked({**row, "error": "ValueError"}, ["duplicate-block-names"], DEFECTS)
    if messages:
        await memory.aset([to_llama(message) for message in messages])
    kept = []
    truncate = memory._truncate_memory_blocks

    async def watched(*arguments):
        kept.append(await truncate(*arguments))
        return kept[-1]

    object.__setattr__(memory, "_truncate_memory_blocks", watched)
    output = await memory.aget(input=asked)
    row["dropped"] = [block["name"] for block in blocks if block["content"] and not kept[0].get(block["name"])]
    row["output"] = rendered(output)
    queries = [block._asked[0] for block in memory.memory_blocks if isinstance(block, FixedBlock)]
    if queries and asked is not None:
        row["asked"] = queries[0]
    row["output_tokens"] = sum(bench.count(message) for message in output)
    again = rendered(await memory.aget(input=asked))
    if again != row["output"]:
        row["again"] = again
    return marked(row, marks(row, row["output_tokens"]), DEFECTS)


async def get_cases(bench, seed):
    return [await get_case(bench, seed, case) for case in range(1, CASES + 1)]
