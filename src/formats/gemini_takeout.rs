//! Gemini's activity in Google Takeout: prompts and answers, newest first, without conversations.
//!
//! Prompts that follow each other within [`PAUSE`] are a session.

use std::{collections::VecDeque, time::Duration};

use jiff::SignedDuration;
use mail_parser::decoders::html::html_to_text;
use serde_json::Value;

use super::{
    reader::{Found, ReadOptions, ValueReader},
    said::{Said, filled, moment, text_part},
};
use crate::message::{Role, Timestamp};

/// The time without a prompt after which a session begins.
const PAUSE: Duration = Duration::from_secs(60 * 60);
/// What stands before the prompt in an account in English.
const PROMPTED: &str = "Prompted ";
/// The number of answers from which on the words before the prompts are found out in other languages.
const ENOUGH: usize = 10;

pub(super) fn is_value(value: &Value) -> bool {
    let products = value["products"].as_array().into_iter().flatten();
    value["title"].is_string()
        && (value["header"] == "Gemini Apps" || products.into_iter().any(|product| product == "Gemini Apps"))
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    Box::new(Activity { options: options.clone(), records: Vec::new() })
}

/// The records of a file, which are kept until its end, because the first of a session comes last.
struct Activity {
    options: ReadOptions,
    records: Vec<Record>,
}

struct Record {
    title: String,
    answer: String,
    canvas: Option<String>,
    time: Option<Timestamp>,
}

impl ValueReader for Activity {
    fn read(&mut self, value: Value, _: &mut Found) {
        let html = value["safeHtmlItem"].as_array().into_iter().flatten().filter_map(|item| item["html"].as_str());
        let canvas = value["subtitles"].as_array().into_iter().flatten().find_map(|subtitle| filled(&subtitle["name"]));
        self.records.push(Record {
            title: value["title"].as_str().unwrap_or_default().to_owned(),
            answer: html.map(html_to_text).collect::<Vec<_>>().join("\n").trim().to_owned(),
            canvas: canvas.map(str::to_owned),
            time: moment(&value["time"]),
        });
    }

    fn end(&mut self) -> VecDeque<Found> {
        let mut records = std::mem::take(&mut self.records);
        records.reverse();
        records.sort_by_key(|record| record.time);
        let prefix = prefix(&records);
        let (mut session, mut last) = (String::new(), None);
        let mut found = Found::default();
        for record in records {
            let prompt = record.title.strip_prefix(&prefix).filter(|prompt| !prompt.trim().is_empty());
            let time = record.time;
            if prompt.is_none() && record.answer.is_empty() && record.canvas.is_none() {
                found.notes.push(format!("{:?} is no prompt and was left out", record.title));
                continue;
            }
            if session.is_empty() || !is_soon(last, time) {
                session = time.map_or_else(|| "gemini".to_owned(), |time| format!("gemini {time}"));
            }
            last = time;
            let said = |role, text: String| Said { role, time, ..Said::by_user(session.clone(), text) };
            let prompt = prompt.map(|prompt| said(Role::User, prompt.to_owned()));
            let answer = said(Role::Assistant, record.answer);
            let canvas = record.canvas.filter(|_| prompt.is_none()).map(text_part);
            let answer = Said { parts: answer.parts.into_iter().chain(canvas).collect(), ..answer };
            let lines = prompt.into_iter().chain([answer]).filter_map(|said| said.into_line(&self.options));
            found.messages.extend(lines.map(Ok));
        }
        VecDeque::from([found])
    }
}

/// Whether a time follows another without a pause.
fn is_soon(last: Option<Timestamp>, time: Option<Timestamp>) -> bool {
    let (Some(last), Some(time)) = (last, time) else { return last.is_none() && time.is_none() };
    SignedDuration::from_micros(time.as_micros() - last.as_micros()).unsigned_abs() <= PAUSE
}

/// Returns what stands before each prompt: the words of the account's language with which all titles of answers begin.
fn prefix(records: &[Record]) -> String {
    let mut titles = records.iter().filter(|record| !record.answer.is_empty()).map(|record| record.title.as_str());
    let Some(first) = titles.next() else { return PROMPTED.to_owned() };
    let (mut common, mut count) = (first, 1);
    for title in titles {
        let same = common.char_indices().zip(title.chars()).take_while(|((_, a), b)| a == b);
        let end = same.last().map_or(0, |((at, a), _)| at + a.len_utf8());
        common = &common[..end];
        count += 1;
    }
    let words = common.rfind(' ').map_or("", |end| &common[..=end]);
    if first.starts_with(PROMPTED) || count < ENOUGH || words.is_empty() {
        PROMPTED.to_owned()
    } else {
        words.to_owned()
    }
}
