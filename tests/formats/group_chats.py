"""Files of chats between people: WhatsApp, Slack, Telegram, Discord, Zulip, Matrix, IRC and mail."""

import json
import mailbox
import re
import tempfile
from datetime import datetime, timedelta, timezone
from email.message import EmailMessage
from email.utils import format_datetime
from html import escape
from pathlib import Path

from talk import ANY, json_text

# The day and time of a message as a phone writes them, by its system and region; `{h}` is the hour of 24, `{H}` that of 12.
IOS = [
    "{dd}.{mm}.{yy}, {hh}:{min}:{ss}", "{dd}/{mm}/{yyyy}, {hh}:{min}:{ss}", "{m}/{d}/{yy}, {H}:{min}:{ss}\u202f{AM}", "{m}/{d}/{yy}, {H}:{min}:{ss} {AM}",
    "{yyyy}-{mm}-{dd}, {H}:{min}:{ss} {AM}", "{yyyy}-{mm}-{dd} {hh}:{min}:{ss}", "{dd}-{mm}-{yyyy} {hh}:{min}:{ss}", "{yyyy}/{mm}/{dd} {h}:{min}:{ss}",
    "{d}/{m}/{yy} {h}:{min}:{ss}", "{dd}/{mm}/{yy}, {H}:{min}:{ss} {am}", "{d}/{m}/{yy}, {H}:{min}:{ss} {a.m.}", "{d}.{m}.{yyyy} klo {h}.{min}.{ss}",
    "{yyyy}. {m}. {d}. {오후} {H}:{min}:{ss}", "{yyyy}/{m}/{d} {下午}{H}:{min}:{ss}", "{dd}/{mm}/{yyyy} à {hh}:{min}:{ss}",
]
ANDROID = [
    "{dd}.{mm}.{yy}, {hh}:{min}", "{dd}/{mm}/{yyyy}, {hh}:{min}", "{m}/{d}/{yy}, {H}:{min}\u202f{AM}", "{m}/{d}/{yy}, {H}:{min} {AM}", "{m}/{d}/{yy}, {hh}:{min}",
    "{dd}/{mm}/{yy}, {H}:{min} {am}", "{dd}/{mm}/{yyyy}, {H}:{min}\u202f{am}", "{dd}/{mm}/{yyyy} {hh}:{min}", "{dd}-{mm}-{yyyy} {hh}:{min}",
    "{yyyy}-{mm}-{dd} {hh}:{min}", "{yyyy}/{mm}/{dd}, {hh}:{min}", "{yyyy}/{mm}/{dd} {hh}:{min}", "{d}.{m}.{yyyy} klo {h}.{min}", "{dd}.{mm}.{yyyy} {hh}.{min}",
    "{d}/{m}/{yyyy}, {H}:{min} {a.m.}", "{dd}/{mm}/{yyyy} à {hh}:{min}", "{yyyy}/{m}/{d} {下午}{H}:{min}", "{yyyy}. {m}. {d}. {오후} {H}:{min}", "{d}.{mm}.{yyyy} {h}:{min}",
]


def written(time, shape):
    late = time.hour >= 12
    values = {
        "dd": f"{time.day:02}", "d": time.day, "mm": f"{time.month:02}", "m": time.month, "yy": f"{time.year % 100:02}", "yyyy": time.year,
        "hh": f"{time.hour:02}", "h": time.hour, "H": (time.hour + 11) % 12 + 1, "min": f"{time.minute:02}", "ss": f"{time.second:02}",
        "AM": "PM" if late else "AM", "am": "pm" if late else "am", "a.m.": "p.\u00a0m." if late else "a.\u00a0m.", "오후": "오후" if late else "오전",
        "下午": "下午" if late else "上午",
    }
    return re.sub(r"\{([^}]+)\}", lambda found: str(values[found[1]]), shape)


def whatsapp(talk):
    """Exports of iOS and Android in the forms of many regions: continued lines, system lines, media, edits. The zone is UTC."""
    ios = talk.maybe(0.5)
    shape = talk.version = talk.rng.choice(IOS if ios else ANDROID)
    group = f"Boats {talk.session}"
    people = ["Ada Lovelace", "~\u202fCharles", "\u202a+49\u00a0171\u00a05550100\u202c", "Grace (work)"]
    names = {person: re.sub("[\u202a\u202c~]", "", person.replace("\u202f", " ").replace("\u00a0", " ")).strip() for person in people}
    # Some day after the 12th tells the order of day and month, be it the first of the chat or a later one.
    early = talk.maybe()
    talk.clock = talk.clock.replace(day=talk.rng.randrange(1, 13) if early else talk.rng.randrange(13, 27), microsecond=0)
    rows = []

    def add(who, text, mark=""):
        when = written(talk.clock, shape)
        rows.append(f"{mark}[{when}] {who}: {text}" if ios else f"{when} - {who}: {text}" if who else f"{when} - {text}")

    def system(text):
        add(group if ios else "", ("\u200e" if ios else "") + text)

    def now():
        return talk.clock.replace(second=talk.clock.second if ios else 0)

    system("Messages and calls are end-to-end encrypted. Only people in this chat can read, listen to, or share them.")
    for _ in range(talk.rng.randrange(1, 25)):
        talk.clock = talk.tick(talk.rng.choice([50, 50, 20_000, 200_000])).replace(microsecond=0)
        who, kind, text = talk.rng.choice(people), talk.rng.randrange(14), talk.text()
        name = {names[who], who}
        if kind == 0:
            system(talk.rng.choice(["Ada Lovelace added Charles", "Ada Lovelace created this group", "\u200eAda Lovelace left"]))
        elif kind == 1:
            add(who, "\u200eimage omitted" if ios else "<Media omitted>")
            talk.leave_open(time=now())
        elif kind == 2:
            add(who, "\u200eThis message was deleted." if ios else "This message was deleted")
            talk.leave_open(time=now())
        elif kind == 3:
            text = f"{text} https://example.com/a?b=1: see 12:30, {written(talk.clock, shape)}"
            add(who, text)
            talk.say("user", text, now(), session="?", name=name)
        elif kind == 4:
            file = f"{len(rows):08}-PHOTO-2025-01-05-15-45-12.jpg"
            add(who, f"{text} \u200e<attached: {file}>" if ios else f"IMG-20250105-WA0001.jpg (file attached)\n{text}", mark="\u200e" if ios else "")
            talk.say("user", [text], now(), session="?", name=name)
        elif kind == 5 and ios:
            add(who, f"{text} \u200e<This message was edited>")
            talk.say("user", text, now(), session="?", name=name)
        elif kind == 6 and ios:
            add(who, f"{text} \u200eimage omitted")
            talk.say("user", [text], now(), session="?", name=name)
        else:
            add(who, text)
            talk.say("user", text, now(), session="?", name=name)
    # In the United States, the form of the time tells, too.
    if early and not re.fullmatch(r"\{m\}/\{d\}/\{yy\}, .*\{AM\}", shape):
        talk.may_be_cut = False
        talk.clock = talk.clock.replace(day=talk.rng.randrange(13, 27)) + timedelta(days=62)
        system("Ada Lovelace left")
    end = "\r\n" if ios else "\n"
    start = "\ufeff" if talk.maybe(0.2) else ""
    name = f"/WhatsApp Chat - {group}/_chat.txt" if ios else talk.rng.choice(["/WhatsApp Chat with {}.txt", "/WhatsApp-Chat mit {}.txt"]).format(group)
    return {name: start + end.join(rows) + end}


def slack(talk):
    """A workspace's export: channels and direct messages, a file for each day; threads, edits, bots, blocks without text."""
    shown = {}
    users = []
    for real, display in [("Ada Lovelace", "Ada"), ("Charles Babbage", ""), ("Grace Hopper", "amazing")]:
        user = f"U{talk.id(8).upper()}"
        shown[user] = display or real
        users.append({"id": user, "team_id": "T1", "name": real.split()[0].lower(), "deleted": False, "profile": {"real_name": real, "display_name": display}})
    guest = f"U{talk.id(8).upper()}"
    shown[guest] = "Guest"
    general, direct = f"general-{talk.session}", f"D{talk.id(8).upper()}"
    files = {"users.json": users, "channels.json": [{"id": "C1", "name": general, "members": [user["id"] for user in users]}],
             "dms.json": [{"id": direct, "members": [user["id"] for user in users[:2]]}], "groups.json": [], "mpims.json": [], "integration_logs.json": []}
    threads = []

    def raw(text):
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")

    for _ in range(talk.rng.randrange(1, 30)):
        time = talk.tick(talk.rng.choice([600, 40_000]))
        who, place, text = talk.rng.choice(list(shown)), talk.rng.choice([general, general, direct]), talk.text()
        ts = f"{int(time.timestamp())}.{time.microsecond:06}"
        message = {"client_msg_id": talk.uuid(), "type": "message", "user": who, "text": raw(text), "ts": ts, "team": "T1"}
        if who == guest or talk.maybe(0.5):
            message["user_profile"] = {"real_name": shown[who], "display_name": shown[who], "name": "x"}
        role, session, name, kind = "user", f"?{place}", shown[who], talk.rng.randrange(14)
        if kind < 4 and any(one["place"] == place for one in threads) and talk.maybe(0.7):
            thread = talk.rng.choice([one for one in threads if one["place"] == place])
            thread["parent"].update(thread_ts=thread["parent"]["ts"], reply_count=1, replies=[{"user": who, "ts": ts}])
            thread["said"]["session"] = session = f"?{place}/{thread['parent']['ts']}"
            message.update(thread_ts=thread["parent"]["ts"], parent_user_id=thread["parent"]["user"])
            if kind == 0:
                message.update(subtype="thread_broadcast", root={"text": "x"})
        elif kind == 4:
            message["text"] += f" &amp; <@{users[0]['id']}> <#C1|general> <!here> <https://example.com/a?b=1&amp;c=2|the plan> <https://example.com>"
            text = [text, " & ", f"@{shown[users[0]['id']]}", "#general", "@here", "the plan", "https://example.com"]
        elif kind == 5:
            message.update(subtype=talk.rng.choice(["channel_join", "channel_leave", "channel_topic", "channel_name"]), text=f"<@{who}> has joined the channel")
            text = None
        elif kind == 6:
            message.update(subtype="bot_message", bot_id="B1", username="deploys")
            del message["user"]
            message.pop("user_profile", None)
            name, role = "deploys", ANY
        elif kind == 7:
            elements = [{"type": "text", "text": text}, {"type": "emoji", "name": "boat"}, {"type": "user", "user_id": users[0]["id"]}]
            message["blocks"] = [{"type": "rich_text", "block_id": "b", "elements": [{"type": "rich_text_section", "elements": elements}]}]
            del message["text"]
            text = [text]
        elif kind == 8:
            message.update(text="", files=[{"id": "F1", "name": f"{talk.mark()}.png", "mimetype": "image/png"}], upload=True)
            talk.leave_open(time=time)
            talk.leave_open(message["files"][0]["name"].removesuffix(".png"))
            text = None
        elif kind == 9:
            message["edited"] = {"user": who, "ts": ts}
        elif kind == 10:
            message["subtype"] = "me_message"
            text = [text]
        elif kind == 11:
            message.update(subtype="tombstone", text="This message was deleted.", user="USLACKBOT", hidden=True)
            message.pop("user_profile", None)
            text = None
        if text is not None:
            talk.say(role, text, time, session=session, name=name)
            if "thread_ts" not in message and "user" in message and "subtype" not in message:
                threads.append({"place": place, "parent": message, "said": talk.said[-1]})
        # The export's day is that of the exporter's zone.
        day = (time + timedelta(hours=2)).strftime("%Y-%m-%d")
        files.setdefault(f"{place}/{day}.json", []).append(message)
    return {f"/{name}": json_text(talk, value) for name, value in files.items()}


def telegram(talk):
    """`result.json` of one chat or of all, of 2019 (no `_unixtime`, no entities) and since; deleted accounts, service messages, media."""
    old = talk.maybe(0.2)
    talk.version = "2019" if old else "2021"
    zone = timedelta(0) if old else timedelta(hours=2)

    def date(key, time):
        local = {key: (time + zone).strftime("%Y-%m-%dT%H:%M:%S")}
        return local if old else {**local, f"{key}_unixtime": str(int(time.timestamp()))}

    def chat(number):
        messages, people = [], [("Ada", "user1"), ("Charles", "user2"), (None, "user3")]
        channel = talk.maybe(0.2)
        for count in range(1, talk.rng.randrange(2, 20)):
            time, text, (name, user) = talk.tick(9_000).replace(microsecond=0), talk.text(), talk.rng.choice(people)
            message = {"id": count, "type": "message", **date("date", time), "from": f"Boats {number}" if channel else name, "from_id": int(user[4:]) if old else user}
            name, kind = {message["from"]} if message["from"] else {None, user, user[4:], "Deleted Account"}, talk.rng.randrange(12)
            parts = [text]
            if kind == 0:
                parts = [text + " ", {"type": "bold", "text": "bold"}, " and ", {"type": "text_link", "text": "a link", "href": "https://example.com"}]
            elif kind == 1:
                parts = [{"type": "mention", "text": "@ada"}, " " + text, {"type": "custom_emoji", "text": "⛵", "document_id": "x"}]
            elif kind == 2:
                parts = [{"type": "pre", "text": text, "language": "rust"}]
            elif kind == 3:
                messages.append({"id": count, "type": "service", **date("date", time), "actor": "Ada", "actor_id": "user1", "action": "pin_message", "text": ""})
                continue
            elif kind == 4:
                message.update(file="stickers/sticker.webp", media_type="sticker", sticker_emoji="⛵")
                parts = []
                talk.leave_open(time=time)
            elif kind == 5:
                message.update(photo="(File not included. Change data exporting settings to download.)", width=1, height=1)
            elif kind == 6:
                message.update(date("edited", time))
            elif kind == 7:
                message.update(forwarded_from="Grace", reply_to_message_id=1)
            elif kind == 8 and not old:
                messages.append({"id": count, "type": "unsupported"})
                continue
            elif kind == 9:
                question = talk.text()
                message["poll"] = {"question": question, "closed": False, "total_voters": 0, "answers": [{"text": "Oak", "voters": 0, "chosen": False}]}
                parts = []
                talk.leave_open(question)
                talk.leave_open(time=time)
            whole = "".join(part if isinstance(part, str) else part["text"] for part in parts)
            message["text"] = "" if not parts else parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts
            if not old:
                message["text_entities"] = [{"type": "plain", "text": part} if isinstance(part, str) else part for part in parts]
            messages.append(message)
            if parts:
                talk.say("user", whole if kind != 5 else [whole], time, session=f"?{number}", name=name)
        kind = "public_channel" if channel else talk.rng.choice(["personal_chat", "private_group", "private_supergroup", "saved_messages", "bot_chat"])
        value = {"name": f"Boats {number}", "type": kind, "id": int(talk.id(8), 16), "messages": messages}
        if kind == "saved_messages" or kind == "personal_chat" and talk.maybe(0.2):
            value["name"] = None
        if kind == "saved_messages":
            del value["name"]
        return value

    if talk.maybe(0.5):
        return {"/result.json": json.dumps(chat(0), ensure_ascii=False, indent=1)}
    whole = {"about": "Here is the data you requested.", "personal_information": {"user_id": 1, "first_name": "Ada", "bio": "x"}, "profile_pictures": [],
             "contacts": {"about": "x", "list": [{"user_id": 2, "first_name": "Charles", "date": "2020-01-01T00:00:00"}]},
             "chats": {"about": "x", "list": [chat(number) for number in range(talk.rng.randrange(1, 4))]},
             "left_chats": {"about": "x", "list": [chat(9)] if talk.maybe() else []}}
    return {"/result.json": json.dumps(whole, ensure_ascii=False, indent=1)}


def discord(talk):
    """DiscordChatExporter: joins, slash commands (type 20), forwarded messages, empty contents; parts of one channel in several files."""
    zone = timezone(timedelta(hours=talk.rng.randrange(-8, 10), minutes=talk.rng.choice([0, 30])))
    direct = talk.maybe(0.2)
    talk.version = "direct" if direct else "server"
    guild = {"id": "0", "name": "Direct Messages"} if direct else {"id": talk.id(6), "name": f"Boats {talk.session}"}
    channel = {"id": str(int(talk.id(14), 16)), "type": "DirectTextChat" if direct else "GuildTextChat", "categoryId": None, "category": "Text", "name": "general", "topic": None}
    if direct:
        channel["name"] = f"charles-{talk.session}"
    files, messages = {}, []

    def iso(time):
        return time.astimezone(zone).isoformat(timespec=talk.rng.choice(["milliseconds", "seconds"]) if time.microsecond == 0 else "milliseconds")

    def save():
        name = f"/{guild['name']} - {channel['name']} [{channel['id']}] [part {len(files) + 1}].json"
        files[name] = json_text(talk, {"guild": guild, "channel": channel, "dateRange": {"after": None, "before": None}, "exportedAt": iso(talk.clock),
                                       "messages": list(messages), "messageCount": len(messages)})
        messages.clear()
        # What an earlier part lacked because it was cut is stored after a later one.
        talk.keeps_order = len(files) == 1

    for count in range(talk.rng.randrange(1, 25)):
        time, text, who = talk.tick(9_000), talk.text(), talk.rng.choice(["ada", "charles", "helper"])
        time = time.replace(microsecond=time.microsecond // 1000 * 1000)
        author = {"id": who, "name": who, "discriminator": "0000", "nickname": who.title(), "color": None, "isBot": who == "helper", "roles": [], "avatarUrl": "x"}
        message = {"id": f"{int(time.timestamp() * 1000) << 4}{count:03}", "type": "Default", "timestamp": iso(time), "timestampEdited": None, "callEndedTimestamp": None, "isPinned": False,
                   "content": text, "author": author, "attachments": [], "embeds": [], "stickers": [], "reactions": [], "mentions": [], "inlineEmojis": []}
        kind = talk.rng.randrange(14)
        if kind == 0:
            message.update(type=talk.rng.choice(["GuildMemberJoin", "ChannelPinnedMessage", "RecipientAdd", "ThreadCreated", "8"]), content="Did something.")
            text = None
        elif kind == 1:
            message.update(type="Reply", reference={"messageId": "1", "channelId": "1", "guildId": "1"})
        elif kind == 2:
            message.update(type="20", interaction={"id": "1", "name": "weather", "user": author})
        elif kind == 3:
            message.update(content="", reference={"type": "Forward", "messageId": "1"}, forwardedMessage={"timestamp": iso(time), "content": text, "attachments": [], "embeds": [], "stickers": []})
            text = [text]
        elif kind == 4:
            message.update(content="", stickers=[{"id": "1", "name": "wave", "format": "Png", "sourceUrl": "x"}])
            text = None
        elif kind == 5:
            embed = talk.text()
            message.update(content="", embeds=[{"title": "A page", "url": "x", "description": embed, "images": [], "fields": []}])
            talk.leave_open(embed)
            text = None
        elif kind == 6:
            message.update(attachments=[{"id": "1", "url": "https://cdn.example.com/boat.png", "fileName": "boat.png", "fileSizeBytes": 1}], timestampEdited=iso(time))
            text = [text]
        if text is None:
            talk.leave_open(time=time)
        else:
            talk.say(ANY if author["isBot"] else "user", text, time, session="?", name=who.title())
        messages.append(message)
        if talk.maybe(0.05):
            save()
    save()
    return files


def zulip(talk):
    """Messages of Zulip's API: of one topic or between people, as HTML or as Markdown, in an answer or as a bare list."""
    direct, markdown = talk.maybe(0.2), talk.maybe(0.2)
    stream, topic = f"boats {talk.session}", "the <new> keel & mast"
    messages = []
    for _ in range(talk.rng.randrange(1, 15)):
        time, who, kind = talk.tick(9_000).replace(microsecond=0), talk.rng.choice(["Ada Lovelace (she)", "Charles"]), talk.rng.randrange(6)
        pieces, text = [talk.line()], None
        content = f"<p>{escape(pieces[0])}</p>"
        if markdown:
            text = content = talk.text()
        elif kind == 0:
            content += ' <p><span class="user-mention" data-user-id="1">@Grace</span> <span aria-label="boat" class="emoji emoji-26f5" role="img" title="boat">:boat:</span></p>'
            pieces.append("@Grace")
        elif kind == 1:
            pieces.append(talk.line())
            content += f'\n<div class="codehilite" data-code-language="Python"><pre><span></span><code><span class="k">{escape(pieces[1])}</span>\n</code></pre></div>'
        elif kind == 2:
            pieces.append(talk.line())
            content += f"\n<ul>\n<li>{escape(pieces[1])}</li>\n</ul>"
        elif kind == 3:
            content = f'<p>{escape(pieces[0])}<br>\nand <a href="https://example.com/?a=1&amp;b=2">a link</a></p>'
            pieces.append("a link")
        message = {"id": len(messages) + int(talk.id(6), 16) * 100, "sender_full_name": who, "sender_email": "user1@example.com", "sender_id": 1, "timestamp": int(time.timestamp()),
                   "content": content, "content_type": "text/x-markdown" if markdown else "text/html", "client": "website", "is_me_message": False, "reactions": [],
                   "subject": "" if direct else topic, "flags": ["read"]}
        if direct:
            message.update(type="private", display_recipient=[{"id": 1, "full_name": "Ada", "email": "a"}, {"id": 2, "full_name": talk.session, "email": talk.session}])
        else:
            message.update(type="stream", stream_id=1, display_recipient=stream)
        messages.append(message)
        talk.say("user", text or pieces, time, session="?", name=who)
    base = messages[0]["id"]
    for number, message in enumerate(messages):
        message["id"] = base + number
    talk.version = f"{'Markdown' if markdown else 'HTML'}{' direct' if direct else ''}"
    answer = {"result": "success", "msg": "", "anchor": 0, "found_anchor": False, "found_newest": True, "found_oldest": True, "history_limited": False, "messages": messages}
    if talk.maybe(0.2):
        talk.version += " list"
        answer = messages
    return {"-topic.json": json_text(talk, answer)}


def matrix(talk):
    """Element's export of a room: edits, reactions and redactions as events of their own, quotes in replies, encrypted events."""
    people = {"@ada:example.com": "Ada", "@charles:example.com": "Charles"}
    room, events, kept = f"Boats {talk.session}", [], []

    def event(kind, who, content, **fields):
        time = talk.tick(9_000)
        time = time.replace(microsecond=time.microsecond // 1000 * 1000)
        events.append({"type": kind, "event_id": f"${talk.id(32)}", "sender": who, "origin_server_ts": int(time.timestamp() * 1000), "room_id": "!r:example.com",
                       "content": content, "unsigned": {"age": 1}, **fields})
        return events[-1], time

    for who, name in people.items():
        event("m.room.member", who, {"membership": "join", "displayname": name}, state_key=who)
    for _ in range(talk.rng.randrange(1, 20)):
        who, text, kind = talk.rng.choice(list(people)), talk.text(), talk.rng.randrange(12)
        if kind == 0 and kept:
            old = talk.rng.choice(kept)
            relation = {"rel_type": "m.replace", "event_id": old["event"]["event_id"]}
            edit, _ = event("m.room.message", old["event"]["sender"],
                            {"msgtype": "m.text", "body": f"* {text}", "m.new_content": {"msgtype": "m.text", "body": text}, "m.relates_to": relation})
            if talk.maybe(0.2):
                # The edit is taken back: what was there before counts again.
                event("m.room.redaction", old["event"]["sender"], {}, redacts=edit["event_id"])
                edit.update(content={}, unsigned={"redacted_because": {}})
            else:
                old["text"] = text
        elif kind == 1 and kept:
            old = kept.pop(talk.rng.randrange(len(kept)))
            if talk.maybe(0.5):
                event("m.room.redaction", who, {}, redacts=old["event"]["event_id"])
            else:
                event("m.room.redaction", who, {"redacts": old["event"]["event_id"]})
            old["event"].update(content={}, unsigned={"redacted_because": {}})
        elif kind == 2 and kept:
            event("m.reaction", who, {"m.relates_to": {"rel_type": "m.annotation", "event_id": kept[0]["event"]["event_id"], "key": "👍"}})
        elif kind == 3:
            event("m.room.encrypted", who, {"algorithm": "m.megolm.v1.aes-sha2", "ciphertext": "x"})
        elif kind == 4:
            event("m.room.topic", who, {"topic": "A boat"}, state_key="")
        elif kind == 5:
            one, time = event("m.room.message", who, {"msgtype": "m.image", "body": "boat.png", "filename": "boat.png", "url": "mxc://x", "info": {}})
            if talk.maybe(0.5):
                one["content"]["body"] = text
                kept.append({"event": one, "text": text, "time": time})
        elif kind == 8:
            event("m.room.message", who, {"msgtype": "m.bad.encrypted", "body": "** Unable to decrypt: The sender's device has not sent us the keys for this message. **"})
        else:
            content = {"msgtype": talk.rng.choice(["m.text", "m.text", "m.notice"]), "body": text}
            if kind == 6 and kept:
                quoted = kept[-1]["text"].split("\n")
                quote = f"> <{kept[-1]['event']['sender']}> {quoted[0]}" + "".join(f"\n> {line}" for line in quoted[1:])
                content.update(body=f"{quote}\n\n{text}", **{"m.relates_to": {"m.in_reply_to": {"event_id": kept[-1]["event"]["event_id"]}}})
            if kind == 7:
                content.update(format="org.matrix.custom.html", formatted_body=f"<p>{escape(text)}</p>")
            one, time = event("m.room.message", who, content)
            kept.append({"event": one, "text": text, "time": time})
    for one in kept:
        who = one["event"]["sender"]
        talk.say("user", one["text"], one["time"], session="?", name={who, people[who]})
    value = {"room_name": room, "room_creator": "Ada", "topic": "", "export_date": "1/5/2025", "exported_by": "Ada", "messages": events}
    return {"/export.json": json_text(talk, value)}


def irc(talk):
    """Logs with the date in the file's name: of ZNC (old and new folders), irssi, HexChat and mIRC."""
    client = talk.version = talk.rng.choice(["znc", "znc old", "irssi", "hexchat", "mirc"])
    day = talk.clock = talk.clock.replace(hour=0, minute=0, second=0, microsecond=0)
    seconds = client not in ("irssi", "mirc")
    rows = []

    def add(rest):
        time = talk.clock.strftime("%H:%M:%S" if seconds else "%H:%M")
        rows.append(talk.clock.strftime("%b %d ") + f"{time} {rest}" if client == "hexchat" else f"{time} {rest}" if client == "irssi" else f"[{time}] {rest}")

    begin = {"irssi": f"--- Log opened {day:%a %b %d %H:%M:%S %Y}", "hexchat": f"**** BEGIN LOGGING AT {day:%a %b %d %H:%M:%S %Y}", "mirc": f"Session Start: {day:%a %b %d %H:%M:%S %Y}"}
    end = {"irssi": f"--- Log closed {day:%a %b %d} 23:59:59 {day:%Y}", "hexchat": f"**** ENDING LOGGING AT {day:%a %b %d %H:%M:%S %Y}", "mirc": f"Session Close: {day:%a %b %d %H:%M:%S %Y}"}
    rows += [begin[client]] if client in begin else []
    for _ in range(talk.rng.randrange(1, 30)):
        talk.clock += timedelta(seconds=talk.rng.randrange(0, 2_000))
        if talk.clock.date() != day.date():
            break
        time = talk.clock.replace(second=talk.clock.second if seconds else 0)
        who, kind, text = talk.rng.choice(["ada", "charles_b", "[grace]", "ада^"]), talk.rng.randrange(10), talk.line()
        if kind == 0:
            add({"irssi": f"-!- {who} [~a@example.com] has joined #boats", "hexchat": f"*\t{who} (~a@example.com) has joined", "mirc": f"* {who} (~a@example.com) has joined #boats"}.get(
                client, f"*** Joins: {who} (~a@example.com)"))
        elif kind == 1:
            add({"irssi": f"-!- {who} is now known as other", "hexchat": f"*\t{who} is now known as other", "mirc": f"* {who} is now known as other"}.get(client, f"*** {who} is now known as other"))
        elif kind == 2:
            add({"irssi": "-ChanServ:#boats- a notice", "hexchat": "-ChanServ-\ta notice"}.get(client, "-ChanServ- a notice"))
        elif kind == 3 and client not in ("mirc", "hexchat"):
            add(f" * {who} {text}" if client == "irssi" else f"* {who} {text}")
            talk.say("user", [text], time, session="?", name=who)
        else:
            mode = talk.rng.choice(["@", "+", " "]) if client == "irssi" else ""
            add(f"<{mode}{who}>{'	' if client == 'hexchat' else ' '}{text}")
            talk.say("user", text, time, session="?", name=who)
    rows += [end[client]] if client in end else []
    channel = f"#boats{talk.session[:8]}"
    name = {
        "znc": f"/{channel}/{day:%Y-%m-%d}.log", "znc old": f"/ada_libera_{channel}_{day:%Y%m%d}.log", "irssi": f"/{channel}.{day:%Y-%m-%d}.log",
        "hexchat": f"/libera-{channel}-{day:%Y-%m-%d}.log", "mirc": f"/{channel}.{day:%Y%m%d}.log",
    }[client]
    return {name: "\n".join(rows) + "\n"}


def mbox(talk):
    """Mail of any charset and encoding, with alternatives in HTML, attachments, HTML alone, and separators as Gmail's Takeout writes them."""
    subject = f"{talk.session} keel & mast Straße"
    mails, last = [], None
    for number in range(talk.rng.randrange(1, 9)):
        mail, text, time = EmailMessage(), talk.text(), talk.tick(90_000).replace(microsecond=0)
        if talk.maybe():
            text += "\nFrom here on it is plain."
        who = talk.rng.choice(["Ada Lovelace", "Jürgen Straße", "Lovelace, Ada", ""])
        mail["From"] = f'"{who}" <a@example.com>' if who else "a@example.com"
        mail["To"], mail["Subject"] = "b@example.com", subject
        mail["Date"], mail["Message-ID"] = format_datetime(time.astimezone(timezone(timedelta(hours=talk.rng.randrange(-9, 10))))), f"<{number}.{talk.id()}@example.com>"
        if last:
            mail["In-Reply-To"] = last
        last = mail["Message-ID"]
        kind = talk.rng.randrange(6)
        if kind == 0:
            text = talk.line()
            mail.set_content(f"<html><head><style>p {{}}</style></head><body><p>{escape(text)}</p><p>Bye</p></body></html>", subtype="html")
            said = [text, "Bye"]
        else:
            if kind == 1:
                text = f"{talk.mark()}: Grüße aus Köln, naïve café" + (" wird sehr lang" * 20 if talk.maybe() else "")
                mail.set_content(text, charset=talk.rng.choice(["iso-8859-1", "windows-1252", "utf-8"]), cte=talk.rng.choice(["quoted-printable", "base64", "8bit"]))
            else:
                mail.set_content(text, cte=talk.rng.choice(["quoted-printable", "base64", "8bit"]))
            said = text
            if kind == 2:
                mail.add_alternative(f"<html><body><p>{escape(text)}</p></body></html>", subtype="html")
            if kind == 3:
                mail.add_attachment("What the attached file says.", filename="notes.txt")
                said = [text]
            if kind == 4:
                mail.add_attachment(b"\x00\x01", maintype="image", subtype="png", filename="boat.png")
                said = [text]
        mails.append(mail)
        said = [said] if isinstance(said, str) else said
        talk.say("user", said, time, session="?", name={who} if who else {None, "a@example.com"})
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "all.mbox"
        box = mailbox.mbox(path)
        for mail in mails:
            box.add(mail)
        box.close()
        content = path.read_bytes()
    if talk.maybe():
        content = re.sub(rb"(?m)^From MAILER-DAEMON .*$", rb"From 1783456789012345678@xxx Sun Jan 05 10:00:00 +0000 2025", content)
    if talk.maybe():
        content = content.replace(b"\n", b"\r\n")
    return {"-All mail.mbox": content}


KINDS = {"whatsapp": whatsapp, "slack": slack, "telegram": telegram, "discord": discord, "zulip": zulip, "matrix": matrix, "irc": irc, "mbox": mbox}
