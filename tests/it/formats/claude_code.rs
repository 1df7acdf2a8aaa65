//! Transcripts of Claude Code, as versions 1.0.89 to 2.1.232 write them.

use serde_json::{Value, json};

use super::{lines, read, with};

/// A line of a type, with its id and that of its parent.
fn line(kind: &str, id: &str, parent: Option<&str>, fields: Value) -> Value {
    let line = json!({
        "type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s1", "cwd": "/home/ada/boat",
        "timestamp": "2026-08-06T05:00:00.000Z", "isSidechain": false,
    });
    with(line, fields)
}

fn user(id: &str, parent: Option<&str>, content: impl Into<Value>) -> Value {
    line("user", id, parent, json!({"message": {"role": "user", "content": content.into()}}))
}

fn assistant(id: &str, parent: Option<&str>, content: Value) -> Value {
    line("assistant", id, parent, json!({"message": {"role": "assistant", "content": content}}))
}

fn text(text: &str) -> Value {
    json!([{"type": "text", "text": text}])
}

fn result(id: &str, call: &str, is_error: bool, content: &str) -> Value {
    let result = json!({"type": "tool_result", "tool_use_id": call, "is_error": is_error, "content": content});
    user(id, None, json!([result]))
}

#[test]
fn a_prompt_that_was_typed_while_the_agent_worked_is_read_once() {
    let queue = |operation: &str, content: Option<&str>| {
        let line = json!({"type": "queue-operation", "operation": operation, "sessionId": "s1", "timestamp": "2026-01-06T05:00:06.000Z"});
        content.map_or(line.clone(), |content| with(line, json!({ "content": content })))
    };
    let attachment = |id: &str, prompt: Value, more: Value| {
        let attachment = json!({"type": "queued_command", "prompt": prompt, "commandMode": "prompt"});
        line("attachment", id, Some("a1"), json!({ "attachment": with(attachment, more) }))
    };
    let begin = [user("u1", None, "Repair the rudder."), assistant("a1", Some("u1"), text("I am looking."))];
    let human = json!({"origin": {"kind": "human"}});
    let order = "Never touch the sail, it is Bob's.";
    for (end, expected) in [
        // 2.1.207 and newer.
        (vec![queue("enqueue", Some(order)), attachment("q1", order.into(), human.clone())], vec![order]),
        (vec![attachment("q1", text(order), json!({}))], vec![order]),
        (
            vec![queue("enqueue", Some(order)), queue("remove", None), attachment("q1", order.into(), human)],
            vec![order],
        ),
        // 2.0.70 to 2.1.96.
        (vec![queue("enqueue", Some(order)), queue("remove", None)], vec![order]),
        (vec![queue("enqueue", Some("a")), queue("enqueue", Some(order)), queue("remove", Some(order))], vec![order]),
        (vec![queue("enqueue", Some(order)), queue("dequeue", None), user("u2", Some("a1"), order)], vec![order]),
        (vec![queue("enqueue", Some(order)), queue("popAll", None), queue("remove", None)], vec![]),
        (vec![queue("enqueue", Some("<task-notification>done</task-notification>")), queue("remove", None)], vec![]),
        (vec![attachment("q1", order.into(), json!({"origin": {"kind": "peer"}}))], vec![]),
        (vec![attachment("q1", order.into(), json!({"commandMode": "task-notification"}))], vec![]),
    ] {
        let text = lines(&[&begin[..], &end].concat());
        let said = read(&text);
        assert_eq!(said.texts()[2..], expected, "{text}");
        assert!(said.messages.iter().all(|(_, message)| message.session == "s1"), "{text}");
    }
}

#[test]
fn answers_refusals_commands_and_agreed_plans_are_read_with_the_question() {
    let call = |id: &str, name: &str, input: Value| {
        assistant(&format!("a-{id}"), None, json!([{"type": "tool_use", "id": id, "name": name, "input": input}]))
    };
    let questions = json!({"questions": [
        {"question": "Which colour?", "options": [{"label": "Red"}, {"label": "Blue"}]}, {"question": "Which \"wood\"?"},
    ]});
    let answer = "User has answered your questions: \"Which colour?\"=\"Blue\" user notes: because the harbour is grey, \
                  \"Which \"wood\"?\"=\"Oak, or pine\". You can now continue with the user's answers in mind.";
    let structured = json!({"toolUseResult": {
        "questions": questions["questions"], "answers": {"Which \"wood\"?": ["Oak", "Elm"], "Which colour?": "Red"},
        "annotations": {"Which colour?": {"notes": "it must be seen"}},
    }});
    let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user \
                   said:\nUse oak, not pine.\n\nNote: The user's next message may contain a correction or preference.";
    let command = "<command-message>paint</command-message>\n<command-name>/paint</command-name>\n<command-args>the mast\nin white\
                   </command-args>";
    let bare = "<command-name>/clear</command-name>\n<command-args></command-args>";
    let text = lines(&[
        call("t1", "AskUserQuestion", questions.clone()),
        result("r1", "t1", false, answer),
        call("t2", "AskUserQuestion", questions.clone()),
        with(result("r2", "t2", false, "User has answered your questions: ..."), structured),
        call("t3", "Edit", json!({"path": "deck.rs"})),
        result("r3", "t3", true, refused),
        call("t4", "ExitPlanMode", json!({"plan": "# Plan\n1. Saw"})),
        result("r4", "t4", true, "The user said no. the user said:\nGlue it instead."),
        call("t5", "ExitPlanMode", json!({"plan": "# Plan\n1. Glue"})),
        result("r5", "t5", false, "User has approved your plan."),
        user("u6", None, command),
        user("u7", None, bare),
        call("t7", "AskUserQuestion", questions.clone()),
        result(
            "r7",
            "t7",
            true,
            "The user doesn't want to proceed. the user said:\nThe user wants to clarify these questions.\n    This means they may have more.",
        ),
        call("t8", "Bash", json!({"command": "ls"})),
        result("r8", "t8", true, "ls: no such file"),
    ]);
    let expected = [
        ("assistant", "Which colour?"),
        ("user", "Blue\nbecause the harbour is grey"),
        ("assistant", "Which \"wood\"?"),
        ("user", "Oak, or pine"),
        ("assistant", "Which colour?"),
        ("user", "Red\nit must be seen"),
        ("assistant", "Which \"wood\"?"),
        ("user", "Oak, Elm"),
        ("user", "Use oak, not pine."),
        ("assistant", "# Plan\n1. Saw"),
        ("user", "Glue it instead."),
        ("assistant", "# Plan\n1. Glue"),
        ("user", "/paint the mast\nin white"),
    ];
    assert_eq!(read(&text).said(), expected.map(|(role, text)| (role, text.to_owned())));
}

#[test]
fn what_the_agent_writes_in_the_names_of_others_is_not_read() {
    let human = json!({"origin": {"kind": "human"}});
    let synthetic =
        json!({"message": {"role": "assistant", "model": "<synthetic>", "content": "No response requested."}});
    for (line, expected) in [
        (
            user(
                "u",
                None,
                json!([
                    {"type": "text", "text": "<ide_opened_file>The user opened keel.rs.</ide_opened_file>"},
                    {"type": "text", "text": "What does this do? [Image #1]"}, {"type": "image", "source": {}},
                ]),
            ),
            vec![("user", "What does this do?")],
        ),
        (user("u", None, "Unknown skill: remoote"), vec![]),
        (
            with(user("u", None, "Unknown skill: is that a fault of mine?"), human.clone()),
            vec![("user", "Unknown skill: is that a fault of mine?")],
        ),
        (with(user("u", None, "Run the tests"), json!({"origin": {"kind": "coordinator"}})), vec![]),
        (with(user("u", None, "Run the tests"), json!({"promptSource": "system"})), vec![]),
        (
            with(user("u", None, "Run the tests"), json!({"promptSource": "suggestion_accepted"})),
            vec![("user", "Run the tests")],
        ),
        (with(user("u", None, "<local-command-stdout>x</local-command-stdout>"), human), vec![]),
        (
            with(user("u", None, "Implement the following plan:\n\n# Plan"), json!({"planContent": "# Plan"})),
            vec![("assistant", "# Plan")],
        ),
        (line("assistant", "a", None, synthetic), vec![]),
        (assistant("a", None, text("(no content)")), vec![]),
        (with(user("u", None, "summary"), json!({"isCompactSummary": true})), vec![]),
        (with(user("u", None, "skill"), json!({"isMeta": true})), vec![]),
        (with(user("u", None, "task"), json!({"isSidechain": true})), vec![]),
        (line("progress", "p", None, json!({"data": {"type": "agent_progress", "message": {"type": "user"}}})), vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|(role, text)| (role, text.to_owned())).collect();
        assert_eq!(read(&lines(std::slice::from_ref(&line))).said(), expected, "{line}");
    }
}

#[test]
fn a_prompt_that_was_edited_and_what_followed_it_is_left_out() {
    let boundary =
        with(line("system", "b", None, json!({"subtype": "compact_boundary"})), json!({"logicalParentUuid": "a1"}));
    let text = lines(&[
        user("u1", None, "Build a boat."),
        assistant("a1", Some("u1"), text("Of which wood?")),
        user("u2", Some("a1"), "Pine."),
        assistant("a2", Some("u2"), text("Pine it is.")),
        line("attachment", "q", Some("a2"), json!({"attachment": {"type": "queued_command", "prompt": "Quickly."}})),
        user("u3", Some("a1"), "Oak."),
        assistant("a3", Some("u3"), text("Oak it is.")),
        // Results of two calls at a time are siblings, too.
        assistant("c1", Some("a3"), json!([{"type": "tool_use", "id": "t1", "name": "Bash", "input": {}}])),
        with(result("r1", "t1", true, "the user said:\nNot so."), json!({"parentUuid": "a3"})),
        user("u4", Some("a3"), "Name it Berta."),
    ]);
    let said = read(&text);
    assert_eq!(said.texts(), ["Build a boat.", "Of which wood?", "Oak.", "Oak it is.", "Not so.", "Name it Berta."]);
    assert_eq!(said.removed, ["s1/u2", "s1/a2", "s1/q"]);
    // A compaction breaks the chain of parents.
    let compacted = lines(&[
        user("u1", None, "Build a boat."),
        assistant("a1", Some("u1"), self::text("Of which wood?")),
        user("u2", Some("a1"), "Pine."),
        user("u3", Some("a1"), "Oak."),
        with(boundary, json!({"logicalParentUuid": "u3"})),
        user("u4", Some("b"), "Name it Berta."),
    ]);
    assert_eq!(read(&compacted).texts(), ["Build a boat.", "Of which wood?", "Oak.", "Name it Berta."]);
    // Chains that are broken take nothing back.
    let broken = lines(&[user("u1", None, "One."), user("u2", None, "Two."), user("u3", Some("gone"), "Three.")]);
    assert_eq!(read(&broken).texts(), ["One.", "Two.", "Three."]);
}

#[test]
fn a_conversation_that_was_branched_off_is_another_one() {
    let original = [user("u1", None, "Build a boat."), assistant("a1", Some("u1"), text("Of which wood?"))];
    let branch: Vec<Value> = original.iter().map(|line| with(line.clone(), json!({"sessionId": "s2"}))).collect();
    let ids = |text: &str| read(text).messages.into_iter().map(|(_, message)| message.id).collect::<Vec<_>>();
    assert_eq!(ids(&lines(&original)), ["s1/u1", "s1/a1"]);
    assert_eq!(ids(&lines(&branch)), ["s2/u1", "s2/a1"]);
}

#[test]
fn a_session_stays_in_the_folder_where_it_began() {
    let text = lines(&[
        with(line("mode", "m", None, json!({})), json!({"cwd": "/home/ada"})),
        user("u1", None, "Go to the boat."),
        with(user("u2", None, "Paint it."), json!({"cwd": "/home/ada/boat"})),
    ]);
    assert_eq!(read(&text).namespaces(), ["code/home/ada"]);
}

#[test]
fn torn_lines_blank_lines_and_marks_at_the_beginning_cost_no_other_line() {
    let whole = lines(&[user("u1", None, "One."), user("u2", Some("u1"), "Two.")]);
    let half = " half of a line that two processes wrote\"}]},\"uuid\":\"x\"}\n";
    for (text, notes) in [
        (whole.replace('\n', "\r\n"), 0),
        (format!("\n{whole}"), 0),
        (whole.trim_end().to_owned(), 0),
        (whole.replacen('\n', &format!("\n{half}"), 1), 1),
        (format!("{half}{whole}"), 1),
        (format!("{whole}{}", &lines(&[user("u3", None, "Three.")])[..90]), 1),
        (format!("{whole}\0\0\0\n[1]\n"), 1),
    ] {
        let said = read(&text);
        assert_eq!((said.texts(), said.notes.len()), (vec!["One.".to_owned(), "Two.".to_owned()], notes), "{text}");
        assert!(said.errors.is_empty(), "{:?}", said.errors);
    }
    assert!(read(&format!("{half}{whole}")).notes[0].contains("line 1 is torn"));
}

#[test]
fn lines_of_2_1_332_have_the_words_of_a_refusal_and_repeat_no_prompt() {
    let call = assistant(
        "a1",
        Some("u1"),
        json!([{"type": "tool_use", "id": "c1", "name": "Bash", "input": {"command": "rm mast"}}]),
    );
    let prompt = |id: &str, text: &str| {
        with(user(id, None, text), json!({"promptSource": "sdk", "turnOrigin": "sdk", "rowSource": "local"}))
    };
    let refused =
        result("c1", "c1", true, "The user doesn't want to proceed with this tool use. The tool use was rejected.");
    let refused = with(
        refused,
        json!({
            "uuid": "u2", "parentUuid": "a1", "userFeedback": "Keep the mast, sell the sail.", "toolDenialKind": "user-rejected",
            "permissionDecision": {"decision": "reject", "source": "user_reject"},
        }),
    );
    let approved = json!([
        {"type": "tool_result", "tool_use_id": "c2", "content": "done"},
        {"type": "text", "text": "Yes, and oil the winch, too."},
    ]);
    let blob = json!({"type": "api-request-blob", "sessionId": "s1", "hash": "b5", "message": {"role": "user", "content": [{"type": "text", "text": "Sell the boat."}]}});
    let shape = json!({"type": "api-request-shape", "sessionId": "s1", "shape": {"system": [{"type": "text", "text": "You are an agent."}]}});
    let attachment = line(
        "attachment",
        "x1",
        Some("u1"),
        json!({
            "attachment": {"type": "environment", "snapshot": {}}, "rendered": [{"content": "<system-reminder>\nIt is late.\n</system-reminder>"}],
        }),
    );
    let text = lines(&[
        json!({"type": "queue-operation", "operation": "enqueue", "sessionId": "s1", "content": "Sell the boat."}),
        json!({"type": "queue-operation", "operation": "dequeue", "sessionId": "s1"}),
        prompt("u1", "Sell the boat."),
        attachment,
        shape,
        blob,
        call,
        refused,
        user("u3", Some("u2"), approved),
        json!({"type": "last-prompt", "lastPrompt": "Sell the boat.", "leafUuid": "u3", "sessionId": "s1"}),
        json!({"type": "cost-state", "sessionId": "s1", "totalCostUSD": 0.1}),
    ]);
    assert_eq!(
        read(&text).texts(),
        ["Sell the boat.", "Keep the mast, sell the sail.", "Yes, and oil the winch, too."]
    );
}
