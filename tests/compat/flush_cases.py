"""flush.jsonl: which messages llama_index's Memory hands to its blocks after each put, and which stay active."""

from llama_index.core.storage.chat_store.base_db import MessageStatus

from conversations import conversation, dice, marked, results_without_call
from llamaindex_cases import RecordingBlock, ids, to_llama, tokens

# The cases come in this order: usual options and one message a put; options at the edge; several messages a put.
CONVERSATIONS, EDGES, GROUPED = 380, 32, 60
# The edge case whose messages are chosen too.
EXACT = 9
RATIOS = (0.3, 0.5, 0.7, 0.7, 0.9, 1.0)

# Marks whose cases the engine is meant to settle otherwise.
DEFECTS = (
    "failing-block-loses-batch",
    "flush-size-over-limit",
    "flush-size-zero",
    "ratio-out-of-range",
    "no-user-message-empties",
    "system-prompt-flushed",
    "tool-pair-split",
)


def special(rng, case):
    """Options at the edge of what is allowed or beyond it, and a block that fails."""
    limit = rng.randint(20, 60)
    usual = {"token_limit": limit, "chat_history_token_ratio": 0.7, "token_flush_size": rng.randint(1, limit)}
    small = {**usual, "token_limit": 12, "token_flush_size": 6}
    return (
        {**usual, "token_limit": 0},
        {**usual, "token_limit": -5},
        {**usual, "token_flush_size": limit + rng.randint(1, 50)},
        {**usual, "token_flush_size": 0},
        {**usual, "token_limit": 9, "token_flush_size": 0},
        {**usual, "token_flush_size": -3},
        {**usual, "chat_history_token_ratio": 0.0},
        {**usual, "chat_history_token_ratio": -0.5},
        {**usual, "chat_history_token_ratio": 1.5},
        {**usual, "token_limit": 90, "token_flush_size": 9},
        {**usual, "token_flush_size": limit},
        {**usual, "token_limit": 1, "token_flush_size": 1},
        {**small, "failing_put": 1},
        {**small, "failing_put": 2},
        {**small, "failing_put": 3},
        {**small, "token_flush_size": 1, "failing_put": 1},
    )[case % 16]


def exactly_at_the_limit():
    """63 tokens, and 90 * 0.7 is 62.99999999999999: a flush where 63 was meant to be allowed."""
    roles = ("user", "assistant", "user", "assistant")
    sizes = (21, 21, 20, 1)
    return [
        {"id": f"m{number}", "role": role, "content": " ".join(["word"] * size)}
        for number, (role, size) in enumerate(zip(roles, sizes, strict=True), 1)
    ]


def options_for(rng, total):
    limit = max(2, int(total * rng.uniform(0.03, 1.3)))
    size = rng.choice((1, rng.randint(1, limit), rng.randint(1, max(1, limit // 4)), limit // 10 or 1))
    return {"token_limit": limit, "chat_history_token_ratio": rng.choice(RATIOS), "token_flush_size": size}


def groups(rng, size):
    """How many messages each put brings, all together `size`."""
    sizes = []
    while size:
        sizes.append(rng.choice((size, rng.randint(1, size), rng.randint(1, min(size, 6)))))
        size -= sizes[-1]
    return sizes


def marks(messages, row):
    options, steps = row["options"], row["steps"]
    by_id = {message["id"]: message for message in messages}
    flushed = [name for step in steps for batch in step["flushed"] for name in batch]
    found = []
    if any("error" in step for step in steps):
        found.append("failing-block-loses-batch")
    given = row.get("given", options)["token_flush_size"]
    if given > options["token_limit"]:
        found.append("flush-size-over-limit")
    if given < 1:
        found.append("flush-size-zero")
    if not 0 < options["chat_history_token_ratio"] <= 1:
        found.append("ratio-out-of-range")
    if any(not step["active"] for step in steps):
        found.append("no-user-message-empties")
    if flushed and messages[0]["role"] == "system":
        found.append("system-prompt-flushed")
    if any(by_id[name]["role"] == "system" for name in flushed if name != messages[0]["id"]):
        found.append("later-system-flushed")
    orphaned = set(results_without_call(messages))
    actives = [[by_id[name] for name in step["active"]] for step in steps]
    if any(set(results_without_call(active)) - orphaned for active in actives):
        found.append("tool-pair-split")
    if any(results_without_call(active) for active in actives) and orphaned:
        found.append("orphan-tool-result")
    heads = [next((m["role"] for m in active if m["role"] != "system"), "user") for active in actives]
    if any(role != "user" for role in heads):
        found.append("begins-mid-turn")
    if any(step["flushed"] and over(step, row) for step in steps):
        found.append("last-turn-over-budget")
    if any(len(step["flushed"]) > 1 for step in steps):
        found.append("several-batches")
    return found


def over(step, row):
    limit = row["options"]["token_limit"] * row["options"]["chat_history_token_ratio"]
    return sum(row["tokens"][name] for name in step["active"]) > limit


def setting(bench, seed, case):
    """The messages of a case, their tokens, the options, how many messages each put brings, and which put fails."""
    rng = dice(seed, "flush", case)
    edge = case - CONVERSATIONS - 1
    messages = conversation(rng, least=8 if edge >= 0 else 3, most=40)
    if case % 2:
        messages = [message for message in messages if message["role"] != "system"]
    if edge == EXACT:
        messages = exactly_at_the_limit()
    counts = tokens(bench, messages)
    options = special(rng, edge) if 0 <= edge < EDGES else options_for(rng, sum(counts.values()))
    fails = options.pop("failing_put", None)
    puts = groups(rng, len(messages)) if edge >= EDGES else [1] * len(messages)
    return messages, counts, options, puts, fails


async def steps(memory, block, messages, puts):
    done = 0
    for size in puts:
        step = {}
        batch = [to_llama(message) for message in messages[done : done + size]]
        done += size
        try:
            await (memory.aput(batch[0]) if size == 1 else memory.aput_messages(batch))
        except RuntimeError:
            step["error"] = "RuntimeError"
        step["active"] = ids(await memory.aget_all(status=MessageStatus.ACTIVE))
        step["flushed"] = block.take()
        yield step


def assert_nothing_lost(row):
    known = [message["id"] for message in row["messages"]]
    gone, done = [], 0
    for size, step in zip(row.get("puts") or [1] * len(known), row["steps"], strict=True):
        done += size
        gone += [name for batch in step["flushed"] for name in batch]
        assert gone + step["active"] == known[:done], "a message is lost or out of order"


async def flush_case(bench, seed, case):
    messages, counts, options, puts, fails = setting(bench, seed, case)
    row = {"case": case, "seed": seed, "options": options, "messages": messages}
    block = RecordingBlock(name="recorder", fails=fails)
    try:
        memory = bench.memory([block], **options)
    except ValueError:
        return {**row, "error": "ValueError"}
    used = {**options, "token_flush_size": memory.token_flush_size}
    if used != options:
        row.update(options=used, given=options)
    if fails:
        row["failing_put"] = fails
    if puts != [1] * len(messages):
        row["puts"] = puts
    row["tokens"] = counts
    row["steps"] = [step async for step in steps(memory, block, messages, puts)]
    if not fails:
        assert_nothing_lost(row)
    return marked(row, marks(messages, row), DEFECTS)


async def flush_cases(bench, seed):
    return [await flush_case(bench, seed, case) for case in range(1, CONVERSATIONS + EDGES + GROUPED + 1)]
