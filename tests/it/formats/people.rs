//! Chats between people, and histories without ids: what the counters in `tests/formats` found.

use mnemon::format::ReadOptions;
use serde_json::{Value, json};

use super::{lines, read, read_as, read_file};

/// Who said what, and when.
fn said(format: &str, text: &str) -> Vec<(String, String, String)> {
    let read = read_as(format, text, ReadOptions::default());
    assert!(read.errors.is_empty(), "{:?}", read.errors);
    let messages = read.messages.iter().map(|(_, message)| message);
    let time = |time: Option<mnemon::Timestamp>| time.map(|time| time.to_string()).unwrap_or_default();
    messages.map(|one| (one.name.clone().unwrap_or_default(), one.text(), time(one.created_at))).collect()
}

fn row(name: &str, text: &str, time: &str) -> (String, String, String) {
    (name.to_owned(), text.to_owned(), time.to_owned())
}

#[test]
fn whatsapp_writes_dates_in_the_form_of_each_region() {
    for stamp in [
        "[25/01/2023 à 15:45:00]",
        "[25.1.2023 klo 15.45.00]",
        "[2023. 1. 25. 오후 3:45:00]",
        "[2023/1/25 下午3:45:00]",
        "[1/25/23, 3:45:00\u{202f}PM]",
        "[25/1/23, 3:45:00 p.\u{a0}m.]",
        "25.01.2023 15.45 -",
        "2023/01/25, 15:45 -",
        "2023. 1. 25. 오후 3:45 -",
    ] {
        let text = format!("{stamp} Ada: Is the keel oiled?\n{stamp} Charles: At 5, 3 of 4 - yes: it is.\n");
        let time = "2023-01-25T15:45:00Z";
        let expected = [row("Ada", "Is the keel oiled?", time), row("Charles", "At 5, 3 of 4 - yes: it is.", time)];
        assert_eq!(said("whatsapp", &text), expected, "{stamp}");
    }
    // The line of the program tells the order of day and month.
    let text = "6/7/25, 23:42 - Ada: Late.\n8/20/25, 10:00 - Ada left\n";
    assert_eq!(said("whatsapp", text), [row("Ada", "Late.", "2025-06-07T23:42:00Z")]);
    // Of a chat in which nothing tells, the day is first, but in the United States. Two days tell by their order.
    let note = "no date tells whether day or month is first";
    for (text, time, is_noted) in [
        ("6/7/25, 23:42 - Ada: Late.\n", "2025-07-06T23:42:00Z", true),
        ("06/07/25, 11:42 pm - Ada: Late.\n", "2025-07-06T23:42:00Z", true),
        ("6/7/25, 11:42\u{202f}PM - Ada: Late.\n", "2025-06-07T23:42:00Z", false),
        ("[6/7/25, 11:42:00 PM] Ada: Late.\n", "2025-06-07T23:42:00Z", false),
        ("7/7/25, 23:42 - Ada: Late.\n", "2025-07-07T23:42:00Z", false),
        ("6/7/25, 23:42 - Ada: Late.\n7/1/25, 10:00 - Ada left\n", "2025-06-07T23:42:00Z", false),
    ] {
        let read = read_as("whatsapp", text, ReadOptions::default());
        assert_eq!(read.messages[0].1.created_at.unwrap().to_string(), time, "{text}");
        assert_eq!(read.notes.iter().any(|told| told.contains(note)), is_noted, "{text}: {:?}", read.notes);
    }
}

/// Chats whose messages are read one by one, so that a limit of memory is that of one message.
#[test]
fn chats_of_any_length_are_read_within_little_memory() {
    let options = || ReadOptions { max_memory: Some(64 << 10), ..ReadOptions::default() };
    let telegram = |at: usize| json!({"id": at, "type": "message", "date": "2025-01-05T15:45:00", "from": "Ada", "text": ["Is ", {"type": "bold", "text": at.to_string()}]});
    let discord = |at: usize| json!({"id": at.to_string(), "type": "Default", "timestamp": "2025-01-05T15:45:00Z", "content": at.to_string(), "author": {"name": "Ada"}});
    let zulip = |at: usize| json!({"id": at, "sender_full_name": "Ada", "content": at.to_string(), "timestamp": 1_736_091_900, "subject": "deck", "display_recipient": "boats"});
    let all =
        |message: &dyn Fn(usize) -> Value| (0..5000).map(|at| message(at).to_string()).collect::<Vec<_>>().join(",\n");
    for (format, text, session) in [
        (
            "telegram",
            format!(
                r#"{{"name": "Boats", "type": "private_group", "id": 7, "messages": [{}], "more": [1, {{}}]}}"#,
                all(&telegram)
            ),
            "Boats (7)",
        ),
        (
            "discord",
            format!(
                r#"{{"guild": {{"name": "Boats"}}, "channel": {{"name": "deck", "id": "2"}}, "exportedAt": "x", "messages": [{}], "messageCount": 5000}}"#,
                all(&discord)
            ),
            "Boats/deck (2)",
        ),
        (
            "zulip",
            format!(r#"{{"result": "success", "found_newest": true, "anchor": 1.5e3, "messages": [{}]}}"#, all(&zulip)),
            "boats/deck",
        ),
    ] {
        let read = read_as(format, &text, options());
        assert_eq!((read.errors.as_slice(), read.messages.len()), (&[] as &[String], 5000), "{format}");
        assert!(read.messages.iter().all(|(_, message)| message.session == session), "{format}");
        assert!(read.texts()[4999].ends_with("4999"), "{format}");
        // What comes before the end of a torn file is read.
        let torn = read_as(format, &text[..text.len() / 2], options());
        assert!(torn.errors.len() == 1 && (2000..3000).contains(&torn.messages.len()), "{format}: {:?}", torn.errors);
    }
}

/// A file says the same in whatever order its fields are, if a value may take enough memory.
#[test]
fn telegrams_chats_are_read_in_any_order_of_their_fields() {
    let messages = r#""messages": [{"type": "service", "id": 1, "date": "2025-01-05T15:45:00"}, {"type": "message", "id": -2, "date": "2025-01-05T15:46:00", "from": null, "text": "Oak?"}]"#;
    let chat = |name: &str| {
        format!(r#"{{ "name" : "{name}" , "type":"private_group","id":7,"photo":null,"n":[-1.5e3,true], {messages} }}"#)
    };
    let empty = r#"{"name": "Empty", "type": "private_group", "id": 8, "messages": []}"#;
    let long = "x".repeat(100_000);
    for (text, sessions) in [
        (chat("Boats"), vec!["Boats (7)"]),
        (format!(r#"{{{messages}, "name": "Boats", "id": 7, "type": "private_group"}}"#), vec!["Boats (7)"]),
        (
            format!(r#"{{"about": "{long}", "name": "Boats", "id": 7, "type": "private_group", {messages}}}"#),
            vec!["Boats (7)"],
        ),
        (
            format!(
                r#"{{"about": "x", "contacts": {{"list": [{{"type": "message"}}]}}, "chats": {{"about": "y", "list": [{empty}, {}, {}]}}, "left_chats": {{"list": [{}]}}, "z": 1}}"#,
                chat("A"),
                chat("B"),
                chat("C")
            ),
            vec!["A (7)", "B (7)", "C (7)"],
        ),
        (format!("[{},\n{}]", chat("A"), chat("B")), vec!["A (7)", "B (7)"]),
    ] {
        let read = read_as("telegram", &text, ReadOptions::default());
        assert_eq!(read.errors, Vec::<String>::new(), "{text:.200}");
        let found: Vec<(&str, String)> =
            read.messages.iter().map(|(_, message)| (&*message.session, message.text())).collect();
        let expected: Vec<(&str, String)> = sessions.into_iter().map(|session| (session, "Oak?".to_owned())).collect();
        assert_eq!(found, expected, "{text:.200}");
    }
    for (text, error) in [
        (empty.to_owned(), "telegram"),
        (r#"{"type" 1}"#.to_owned(), "expected `:`"),
        (format!(r#"{{"type": {}}}"#, "1".repeat(2000)), "too many digits"),
        (r#"{"type": "a", "messages": [1x]}"#.to_owned(), "trailing characters"),
        (format!("{}1", r#"{"chats":"#.repeat(200)), "recursion limit"),
    ] {
        let read = read_as("telegram", &text, ReadOptions::default());
        assert!(read.errors.len() == 1 && read.errors[0].contains(error), "{text:.100}: {:?}", read.errors);
    }
}

/// A file that was cut within a message, and the whole one, give the message the same id.
#[test]
fn half_a_message_of_a_torn_file_is_replaced_by_the_whole() {
    for (format, name, whole) in [
        ("whatsapp", "chat.txt", "25.01.23, 15:45 - Ada: Is the keel\noiled?\n25.01.23, 15:45 - Ada: Or painted?\n"),
        ("irc", "#boats.2025-01-25.log", "[15:45:00] <ada> Is the keel oiled?\n[15:45:00] <ada> Or painted?\n"),
        ("aider", "a.md", "# aider chat started at 2025-01-25 15:45:00\n\n#### Is the keel oiled?  \n\nOr painted?\n"),
    ] {
        let ids = |text: &str| -> Vec<String> {
            let read = read_file(format, name, text, ReadOptions::default());
            read.messages.iter().map(|(_, message)| message.id.clone()).collect()
        };
        let all = ids(whole);
        assert_eq!(all.len(), 2, "{format}");
        assert_ne!(all[0], all[1], "{format}");
        let half = whole.find("painted").unwrap() + 3;
        assert_eq!(ids(&whole[..half]), all, "{format}");
    }
    let torn = "25.01.23, 15:45 - Ada: Is the keel oiled?\n25.01.23, 15";
    assert_eq!(said("whatsapp", torn), [row("Ada", "Is the keel oiled?", "2023-01-25T15:45:00Z")]);
    let torn = "# aider chat started at 2025-01-25 15:45:00\n\n#### Is the keel oi";
    assert_eq!(read_as("aider", torn, ReadOptions::default()).said(), [("user", "Is the keel oi".to_owned())]);
    // Half of a line without words, and of what stands for a prompt without any.
    for torn in ["#### Oil it.  \n####  ", "#### Oil it.  \n\n#### <bla", "#### Oil it.  \n\n#### /ru"] {
        let torn = format!("# aider chat started at 2025-01-25 15:45:00\n\n{torn}");
        assert_eq!(read_as("aider", &torn, ReadOptions::default()).texts(), ["Oil it."], "{torn}");
    }
    let torn = "# aider chat started at 2025-01-25 15:45:00\n\n#### Oil it.  \n\nDone.\n\n# aider chat st";
    assert_eq!(read_as("aider", torn, ReadOptions::default()).texts(), ["Oil it.", "Done."]);
    let torn = "From ada@x Sat Jan 25 15:45:00 2025\nFrom: ada@x.test\nSubject: The keel\nDate: Sat, 25 Jan";
    assert_eq!(said("mbox", torn), []);
}

#[test]
fn logs_of_irssi_hexchat_and_mirc_tell_their_days() {
    let irssi = "--- Log opened Sat Jan 25 10:00:00 2025\n10:00 -!- ada [~a@x] has joined #boats\n10:01 <@ada> Ahoy\n\
                 --- Day changed Sun Jan 26 2025\n00:05  * ada waves\n00:06 -ChanServ:#boats- a notice\n";
    let expected = [row("ada", "Ahoy", "2025-01-25T10:01:00Z"), row("ada", "ada waves", "2025-01-26T00:05:00Z")];
    assert_eq!(said("irc", irssi), expected);
    let hexchat = "**** BEGIN LOGGING AT Wed Dec 31 23:00:00 2025\n\nDec 31 23:00:01 *\tada (~a@x) has joined\n\
                   Dec 31 23:59:59 <ada>\tAhoy\nJan 01 00:00:01 <ada>\tA new year\n";
    let expected = [row("ada", "Ahoy", "2025-12-31T23:59:59Z"), row("ada", "A new year", "2026-01-01T00:00:01Z")];
    assert_eq!(said("irc", hexchat), expected);
    let mirc = "Session Start: Sat Jan 25 10:00:00 2025\n[10:00] * ada (~a@x) has joined #boats\n[10:01] <ada> Ahoy\n\
                [10:02] * ada waves\n[10:03] * ada is now known as eva\n";
    let expected = [row("ada", "Ahoy", "2025-01-25T10:01:00Z"), row("ada", "ada waves", "2025-01-25T10:02:00Z")];
    assert_eq!(said("irc", mirc), expected);
}

#[test]
fn a_log_that_is_named_by_its_day_alone_is_of_its_folder() {
    let session = |name: &str| {
        let read = read_file("irc", name, "[10:00:00] <ada> Ahoy\n", ReadOptions::default());
        read.messages[0].1.session.clone()
    };
    assert_eq!(session("libera/#boats/2025-01-25.log"), "#boats");
    assert_eq!(session("libera/#oaks/2025-01-25.log"), "#oaks");
}

#[test]
fn telegram_is_read_without_the_fields_of_2022_and_with_chats_that_were_left() {
    let chat = |id: u64, text: &str| {
        json!({"name": "Boats", "type": "private_group", "id": id, "messages": [
            {"id": 1, "type": "message", "date": "2019-05-04T10:00:00", "from": "Ada", "from_id": 7, "text": text},
        ]})
    };
    let time = "2019-05-04T10:00:00Z";
    assert_eq!(said("telegram", &chat(1, "Ahoy").to_string()), [row("Ada", "Ahoy", time)]);
    let whole = json!({"about": "", "chats": {"list": [chat(1, "Ahoy")]}, "left_chats": {"list": [chat(2, "Bye")]}});
    let detected = read(&whole.to_string());
    assert_eq!(detected.texts(), ["Ahoy", "Bye"]);
}

#[test]
fn discord_has_kinds_of_messages_without_a_name_and_forwards() {
    let message = |id: u64, kind: &str, text: &str| {
        json!({"id": id.to_string(), "type": kind, "timestamp": "2025-01-25T10:00:00.5+02:00", "content": text,
            "author": {"id": "1", "name": "ada", "nickname": "Ada", "isBot": false}})
    };
    let mut forward = message(4, "Default", "");
    forward["forwardedMessage"] = json!({"content": "The keel is oiled."});
    let messages =
        [message(1, "8", "Boosted."), message(2, "GuildMemberJoin", "Joined."), message(3, "20", "It rains."), forward];
    let export = json!({"guild": {"name": "Boats"}, "channel": {"id": "1", "name": "general"}, "exportedAt": "", "messages": messages});
    let time = "2025-01-25T08:00:00.5Z";
    let expected = [row("Ada", "It rains.", time), row("Ada", "The keel is oiled.", time)];
    assert_eq!(said("discord", &export.to_string()), expected);
}

#[test]
fn a_picture_in_matrix_may_have_words_and_what_was_not_decrypted_has_none() {
    let event = |id: u64, content: serde_json::Value| json!({"type": "m.room.message", "event_id": format!("${id}"), "sender": "@ada:x", "origin_server_ts": 1_000, "content": content});
    let events = [
        event(1, json!({"msgtype": "m.image", "body": "My boat", "filename": "boat.png"})),
        event(2, json!({"msgtype": "m.image", "body": "boat.png", "filename": "boat.png"})),
        event(3, json!({"msgtype": "m.bad.encrypted", "body": "** Unable to decrypt **"})),
    ];
    let export = json!({"room_name": "Boats", "messages": events}).to_string();
    let texts = read_as("matrix", &export, ReadOptions::default()).texts();
    assert_eq!(texts, ["My boat", ""]);
}

#[test]
fn lists_of_zulip_batches_of_anthropic_and_roles_of_langchain_are_read() {
    let zulip = json!([{"id": 1, "sender_full_name": "Ada", "timestamp": 0, "content": "<p>Ahoy</p>", "content_type": "text/html"}]);
    assert_eq!(read(&zulip.to_string()).texts(), ["Ahoy"]);
    let request = json!({"custom_id": "r1", "params": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Ahoy"}]}});
    let answer = json!({"custom_id": "r1", "result": {"type": "succeeded", "message": {
        "id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Ahoy!"}], "stop_reason": "end_turn"}}});
    let failed = json!({"custom_id": "r2", "result": {"type": "errored", "error": {"type": "invalid_request"}}});
    let batch = read(&lines(&[request, answer, failed]));
    assert_eq!((batch.texts(), batch.notes.len()), (vec!["Ahoy".to_owned(), "Ahoy!".to_owned()], 1));
    assert!(batch.messages.iter().all(|(_, message)| message.session == "r1"));
    let direct = |name: &str| {
        let people = [json!({"full_name": "Ada"}), json!({"full_name": name})];
        json!({"id": 1, "sender_full_name": "Ada", "timestamp": 0, "content": "Ahoy", "type": "private", "display_recipient": people})
    };
    let direct = read(&json!({"messages": [direct("Charles"), direct("Grace")]}).to_string());
    assert_ne!(direct.messages[0].1.session, direct.messages[1].1.session);
    // Only a later message tells whose format it is.
    let plain = json!({"role": "user", "content": "Ahoy"});
    let thinking = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "x", "signature": "s"}, {"type": "text", "text": "Aye"}]});
    for text in [lines(&[plain.clone(), thinking.clone()]), json!([plain, thinking]).to_string()] {
        let read = read(&text);
        assert_eq!((read.texts(), read.errors), (vec!["Ahoy".to_owned(), "Aye".to_owned()], vec![]), "{text}");
    }
    let chat = json!([{"type": "chat", "role": "Charles", "content": "Ahoy", "additional_kwargs": {}}]).to_string();
    assert_eq!(read(&chat).texts(), ["Ahoy"]);
    let chat = json!([{"type": "chat", "data": {"role": "Charles", "content": "Ahoy"}}]).to_string();
    assert_eq!(said("langchain", &chat), [row("Charles", "Ahoy", "")]);
}

#[test]
fn a_first_prompt_of_claude_ai_that_was_edited_counts_once_and_accounts_have_memories_of_their_own() {
    let prompt = |id: &str, text: &str| {
        json!({"uuid": id, "sender": "human", "content": [{"type": "text", "text": text}], "created_at": "2026-01-25T10:00:00Z",
            "parent_message_uuid": "00000000-0000-4000-8000-000000000000"})
    };
    let conversation =
        json!([{"uuid": "c", "chat_messages": [prompt("a", "Oil the kel."), prompt("b", "Oil the keel.")]}]);
    assert_eq!(read(&conversation.to_string()).texts(), ["Oil the keel."]);
    let memory =
        |account: &str| json!({"conversations_memory": "Keeps bees.", "project_memories": {}, "account_uuid": account});
    let read = read(&json!([memory("a"), memory("b")]).to_string());
    assert_ne!(read.messages[0].1.id, read.messages[1].1.id);
}

#[test]
fn what_was_taken_back_in_gemini_cli_is_removed() {
    let message = |id: &str, kind: &str| json!({"id": id, "timestamp": "2026-08-01T10:00:00Z", "type": kind, "content": [{"text": id}]});
    let start = json!({"sessionId": "s", "projectHash": "p"});
    let rows = [start, message("a", "user"), message("b", "gemini"), message("c", "user"), json!({"$rewindTo": "b"})];
    let read = read(&lines(&rows));
    assert_eq!((read.texts(), read.removed), (vec!["a".to_owned()], vec!["s/b".to_owned(), "s/c".to_owned()]));
}
