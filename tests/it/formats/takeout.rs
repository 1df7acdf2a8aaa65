//! Gemini's activity in Google Takeout, as JSON and as HTML.

use mnemon::format::ReadOptions;
use serde_json::{Value, json};

use super::{read, read_with};

/// A card, of which Takeout writes all into one line.
fn card(product: &str, content: &str, details: &str) -> String {
    format!(
        "<div class=\"outer-cell mdl-cell mdl-cell--12-col mdl-shadow--2dp\"><div class=\"mdl-grid\"><div class=\"header-cell mdl-cell \
         mdl-cell--12-col\"><p class=\"mdl-typography--title\">{product}<br></p></div><div class=\"content-cell mdl-cell \
         mdl-cell--6-col mdl-typography--body-1\">{content}</div><div class=\"content-cell mdl-cell mdl-cell--6-col \
         mdl-typography--body-1 mdl-typography--text-right\"></div><div class=\"content-cell mdl-cell mdl-cell--12-col \
         mdl-typography--caption\"><b>Products:</b><br>&emsp;{product}<br>{details}<b>Why is this here?</b></div></div></div>"
    )
}

fn page(cards: &[String]) -> String {
    format!(
        "<html><head><title>My Activity History</title><style type=\"text/css\">{}</style></head><body><div class=\"mdl-grid\">{}</div></body></html>",
        ".mdl-grid > div { margin: 0 }".repeat(3000),
        cards.concat()
    )
}

/// A page with one prompt at a time that is written in a language.
fn at(time: &str) -> String {
    page(&[card("Gemini Apps", &format!("Prompted&nbsp;Hello<br>{time}<br><p>Good day.</p>"), "")])
}

#[test]
fn html_has_the_prompts_and_answers_of_all_cards() {
    let cards = [
        card("Gemini Apps", "Used an Assistant feature<br>Jul 25, 2026, 11:40:00\u{202f}PM PDT<br>", ""),
        card(
            "Gemini Apps",
            "Prompted&nbsp;Is 1 &lt; 2 &amp; \"so\"?<br>See <a href=\"https://x.test/\">https://x.test/</a><br>Attached 2 files.<br>-&nbsp;<a href=\"a.png\">a.png</a><br>\
             - <a href=\"b.png\">b.png</a><br>Jul 25, 2026, 11:30:00\u{202f}PM PDT<br><p>Yes,</p><div class=\"code\"><pre>1 &lt; 2</pre></div><ul><li>always</li></ul>",
            "",
        ),
        card("Gemini Apps", "Prompted Which wood?<br>Jul 25, 2026, 11:07:57 PM PDT<br><p>Oak &amp; pine.</p>", ""),
        card(
            "Search",
            "Searched for&nbsp;<a href=\"https://x.test/\">masts</a><br>Jul 25, 2026, 11:00:00 PM PDT<br>",
            "",
        ),
        card(
            "Gemini Apps",
            "Prompted&nbsp;Earlier<br>Jul 24, 2026, 12:00:00 AM PDT<br><p>An answer.</p>",
            "<b>Details:</b><br>From: <a href=\"https://gemini.google.com/app/0ab1\">https://gemini.google.com/app/0ab1</a><br>",
        ),
    ];
    let said = read(&page(&cards));
    assert_eq!(said.errors, Vec::<String>::new());
    let expected =
        [("user", "Which wood?"), ("assistant", "Oak & pine."), ("user", "Is 1 < 2 & \"so\"?\nSee https://x.test/")];
    assert_eq!(said.said()[..3], expected.map(|(role, text)| (role, text.to_owned())));
    let answer = &said.texts()[3];
    assert!(["Yes,", "1 < 2", "always"].iter().all(|part| answer.contains(part)), "{answer}");
    assert_eq!(said.texts()[4..], ["Earlier", "An answer."]);
    let times: Vec<String> = said.messages.iter().map(|(_, message)| message.created_at.unwrap().to_string()).collect();
    assert_eq!(
        (&*times[0], &*times[2], &*times[4]),
        ("2026-07-26T06:07:57Z", "2026-07-26T06:30:00Z", "2026-07-24T07:00:00Z")
    );
    let sessions: Vec<&str> = said.messages.iter().map(|(_, message)| &*message.session).collect();
    let soon = "gemini 2026-07-26T06:07:57Z";
    assert_eq!(sessions, [soon, soon, soon, soon, "0ab1", "0ab1"]);
    let notes = ["record 4 is of another product", "\"Used an Assistant feature\" is no prompt"];
    assert!(notes.iter().all(|note| said.notes.iter().any(|told| told.contains(note))), "{:?}", said.notes);
}

#[test]
fn html_has_times_in_many_languages() {
    for (time, expected) in [
        ("Nov 9, 2025, 6:46:05 PM CET", "2025-11-09T17:46:05Z"),
        ("Nov 9, 2025, 12:46:05\u{202f}AM UTC", "2025-11-09T00:46:05Z"),
        ("9 Nov 2025, 18:46:05 GMT+5:30", "2025-11-09T13:16:05Z"),
        ("18 Sept 2025, 12:02:52 CEST", "2025-09-18T10:02:52Z"),
        ("09.11.2025, 18:46:05 MEZ", "2025-11-09T17:46:05Z"),
        ("9 de mai. de 2026, 03:46:09 BRT", "2026-05-09T06:46:09Z"),
        ("9 déc. 2025, 18:46:05 CET", "2025-12-09T17:46:05Z"),
        ("9 juil. 2025, 18:46:05 UTC+2", "2025-07-09T16:46:05Z"),
        ("9 juin 2025, 18:46:05 UTC\u{2212}3", "2025-06-09T21:46:05Z"),
        ("9 ene 2025, 18:46:05 CET", "2025-01-09T17:46:05Z"),
        ("9 mrt 2025 18:46:05 CET", "2025-03-09T17:46:05Z"),
        ("2025/11/09 18:46:05 JST", "2025-11-09T09:46:05Z"),
    ] {
        let said = read(&at(time));
        assert_eq!(said.errors, Vec::<String>::new(), "{time}");
        let [first, _] = &said.messages[..] else { panic!("{time}: {:?}", said.texts()) };
        assert_eq!(first.1.created_at.unwrap().to_string(), expected, "{time}");
    }
    let berlin = ReadOptions { time_zone: Some("Europe/Berlin".parse().unwrap()), ..ReadOptions::default() };
    let said = read_with(&at("Nov 9, 2025, 6:46:05 PM IST"), berlin);
    assert_eq!(said.messages[0].1.created_at.unwrap().to_string(), "2025-11-09T17:46:05Z");
    for (time, remedy) in [
        ("Nov 9, 2025, 6:46:05 PM IST", "give the time zone"),
        ("2025\u{b144} 11\u{c6d4} 9\u{c77c} \u{c624}\u{d6c4} 6:46", "choose JSON"),
        ("9 \u{43b}\u{438}\u{441}\u{442}. 2025 \u{440}., 18:46:05 EET", "choose JSON"),
        ("Nov 99, 2025, 6:46:05 PM UTC", "choose JSON"),
    ] {
        let said = read(&at(time));
        assert!(
            said.messages.is_empty() && said.errors.len() == 1 && said.errors[0].contains(remedy),
            "{time}: {:?}",
            said.errors
        );
        assert!(said.errors[0].contains("value 1"), "{:?}", said.errors);
    }
}

#[test]
fn sessions_end_with_a_pause_however_long_the_activity_is() {
    // Newest first, three prompts in each session, and more records than are looked at for their language.
    let time = |at: usize| format!("2026-01-{:02}T{:02}:{:02}:00Z", 1 + at / 12 / 3, at / 3 % 12 * 2, at % 3);
    let record = |at: usize| {
        json!({"header": "Gemini", "title": format!("Eingegebener Prompt: {at}"), "time": time(at), "products": ["Gemini"],
            "safeHtmlItem": [{"html": format!("<p>Antwort {at}</p>")}]})
    };
    for is_newest_first in [true, false] {
        let mut records: Vec<Value> = (0..300).map(record).collect();
        if is_newest_first {
            records.reverse();
        }
        let mut said = read(&json!(records).to_string());
        said.messages.sort_by_key(|(_, message)| message.created_at);
        let expected: Vec<String> = (0..300).flat_map(|at| [at.to_string(), format!("Antwort {at}")]).collect();
        assert_eq!(said.texts(), expected);
        for (at, (_, message)) in said.messages.iter().enumerate() {
            assert_eq!(message.session, format!("gemini {}", time(at / 2 / 3 * 3)));
        }
    }
}

#[test]
fn a_small_file_in_any_language_has_its_prompts() {
    let record = |header: &str, title: &str, answer: Option<&str>| {
        let mut record =
            json!({"header": header, "title": title, "time": "2026-01-01T10:00:00Z", "products": [header]});
        if let Some(answer) = answer {
            record["safeHtmlItem"] = json!([{"html": format!("<p>{answer}</p>")}]);
        }
        record
    };
    for (header, words) in [
        ("Gemini Apps", "Prompted "),
        ("Gemini-Apps", "Eingegebener Prompt: "),
        ("Applications Gemini", "Prompt\u{a0}: "),
        ("Gemini アプリ", "送信したメッセージ: "),
        ("Aplicaciones de Gemini", "Has dicho: "),
    ] {
        let records = json!([
            record(header, &format!("{words}Oak?"), None),
            record(header, &format!("{words}Pine?"), Some("Yes."))
        ]);
        assert_eq!(read(&records.to_string()).texts(), ["Pine?", "Yes.", "Oak?"], "{header}");
        let html = page(&[card(header, &format!("{words}Pine?<br>09.11.2025, 18:46:05 MEZ<br><p>Yes.</p>"), "")]);
        assert_eq!(read(&html).texts(), ["Pine?", "Yes."], "{header}");
    }
    // Of two languages in a file, as the account's was changed.
    let both = json!([
        record("Gemini Apps", "Prompted Oak?", None),
        record("Gemini-Apps", "Eingegebener Prompt: Pine?", Some("Yes."))
    ]);
    assert_eq!(read(&both.to_string()).texts(), ["Pine?", "Yes.", "Oak?"]);
    // A language that is not known: the prompt of an answer is stored with the words before it.
    let unknown =
        json!([record("Gemini-apper", "Du skrev: Eik?", None), record("Gemini-apper", "Du skrev: Furu?", Some("Ja."))]);
    let said = read(&unknown.to_string());
    assert_eq!(said.texts(), ["Du skrev: Furu?", "Ja."]);
    let notes = ["of a language that is not known", "\"Du skrev: Eik?\" is no prompt"];
    assert!(notes.iter().all(|note| said.notes.iter().any(|told| told.contains(note))), "{:?}", said.notes);
    // Its words are learned from enough answers, also where it has no spaces.
    for words in ["Du skrev: ", "已提示：", "Du skrev: ¿"] {
        let records: Vec<Value> =
            (0..12).map(|at| record("Gemini", &format!("{words}{at}"), (at > 1).then_some("Ja."))).collect();
        assert_eq!(read(&json!(records).to_string()).texts()[..2], ["11", "Ja."], "{words}");
    }
    // A conversation's address is in `titleUrl`, or among the details.
    let mut named = record("Gemini Apps", "Prompted Oak?", Some("Yes."));
    named["details"] = json!([{"name": "From", "url": "https://gemini.google.com/app/0ab1"}]);
    assert_eq!(read(&json!([named]).to_string()).messages[0].1.session, "0ab1");
}

/// The oldest prompts of an export are missing in a later one, or in one that was cut: the others have the ids that they had.
#[test]
fn a_shorter_export_repeats_the_ids() {
    let record = |minute: usize, name: Option<&str>| {
        json!({"header": "Gemini", "title": format!("Prompted {minute}"), "time": format!("2026-01-01T10:{minute:02}:00Z"),
            "details": name.map(|name| json!([{"url": format!("https://gemini.google.com/app/{name}")}]))})
    };
    let ids = |records: &[Value]| -> Vec<(String, String)> {
        let said = read(&json!(records).to_string());
        said.messages.iter().map(|(_, message)| (message.id.clone(), message.text())).collect()
    };
    // Two of one time.
    let records: Vec<Value> = [40, 30, 30, 20].map(|minute| record(minute, None)).to_vec();
    let (all, fewer) = (ids(&records), ids(&records[..3]));
    assert_eq!(all[1..], fewer);
    assert_eq!(std::collections::HashSet::<_>::from_iter(&all).len(), 4);
    // A canvas between two prompts makes no session of both.
    let canvas = json!({"header": "Gemini", "title": "Created Gemini Canvas titled Boats", "subtitles": [{"name": "A boat"}], "time": "2026-01-01T09:30:00Z"});
    let earlier = json!({"header": "Gemini", "title": "Prompted Oak?", "time": "2026-01-01T08:50:00Z"});
    let said = read(&json!([record(0, None), canvas, earlier]).to_string());
    let sessions: Vec<&str> = said.messages.iter().map(|(_, message)| &*message.session).collect();
    assert_eq!(said.texts(), ["A boat", "0", "Oak?"]);
    assert!(sessions[0] == sessions[1] && sessions[1] != sessions[2], "{sessions:?}");
    // A conversation is in its order, however long its pauses are.
    let records: Vec<Value> =
        [("a", 50), ("b", 40), ("a", 30), ("a", 20)].map(|(name, at)| record(at, Some(name))).to_vec();
    let said = read(&json!(records).to_string());
    assert_eq!(said.texts(), ["20", "30", "50", "40"]);
}

/// The last record of a file that was cut, wherever: its time might be another one.
#[test]
fn a_record_that_was_cut_off_is_left_out() {
    let whole = card("Gemini-Apps", "Eingegebener Prompt: Eiche?<br>09.11.2025, 18:46:05 MEZ<br><p>Ja.</p>", "");
    let first = card("Gemini-Apps", "Eingegebener Prompt: Kiefer？:?<br>09.11.2025, 18:47:05 MEZ<br><p>Nein.</p>", "");
    let content = whole.find("</div><div class=\"content-cell").unwrap();
    for end in (0..=content).filter(|end| whole.is_char_boundary(*end)) {
        let said = read(&format!("<html>{first}{}", &whole[..end]));
        assert_eq!(said.texts(), ["Kiefer？:?", "Nein."], "{end}");
    }
    assert_eq!(read(&format!("<html>{first}{whole}")).texts(), ["Eiche?", "Ja.", "Kiefer？:?", "Nein."]);
}
