//! Gemini's activity in Google Takeout, as JSON or HTML: prompts and answers, newest first.
//!
//! A record names its conversation in newer exports alone. Else prompts that follow each other within [`PAUSE`] are a session. It is
//! named after the first, which a later export may lack: so ids are made of the times, which all differ, and not of the session.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    io::{self, BufRead, Read},
    time::Duration,
};

use jiff::{SignedDuration, civil::DateTime, tz::Offset};
use mail_parser::decoders::html::html_to_text;
use serde_json::Value;

use super::{
    reader::{EarlierFiles, Found, ReadOptions, Reader, Rows, ValueReader},
    said::{Said, filled, moment, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::{
    error::{Error, Result},
    message::{Role, Timestamp},
};

/// The time without a prompt after which a session begins.
const PAUSE: Duration = Duration::from_secs(60 * 60);
/// The words before a prompt, in the languages in which they are known: English, German, French, Japanese, Spanish (two) and Greek.
const PROMPTED: [&str; 7] = [
    "Prompted ",
    "Eingegebener Prompt: ",
    "Prompt : ",
    "送信したメッセージ: ",
    "Has dicho: ",
    "Hiciste la petición ",
    "Υποβλήθηκε το ερώτημα ",
];
/// The number of answers from which the words before the prompts are found out in other languages.
const ENOUGH: usize = 10;
/// The records from which they are found out.
const FIRST: usize = 100;
/// A word in the name of the product in all languages: `Gemini Apps`, `Gemini-Apps`, `Applications Gemini`.
const PRODUCT: &str = "Gemini";
/// What stands before the id of a conversation in its address.
const ADDRESS: &str = "gemini.google.com/app/";
/// How a record begins in HTML, and a part of one.
const CARD: &str = "<div class=\"outer-cell";
const CELL: &str = "<div class=\"content-cell";
/// The most bytes of a record.
const MAX_CARD_BYTES: usize = 32 << 20;

pub(super) fn is_value(value: &Value) -> bool {
    let is_product = |name: &Value| name.as_str().is_some_and(|name| name.contains(PRODUCT));
    let mut products = value["products"].as_array().into_iter().flatten();
    value["title"].is_string() && (is_product(&value["header"]) || products.any(is_product))
}

pub(super) fn is_html(sample: &Sample<'_>) -> bool {
    let text = String::from_utf8_lossy(sample.head);
    text.trim_start().starts_with('<') && text.split(CARD).skip(1).any(is_of_product)
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn ValueReader> {
    Box::new(Activity { options: options.clone(), ..Activity::default() })
}

pub(super) fn html(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Html(options.clone()))
}

/// The records of a file that wait for others: the first until the words before the prompts are known, and those of a session
/// until it has ended. A conversation may be continued much later, so those that are named end with the file.
#[derive(Default)]
struct Activity {
    options: ReadOptions,
    first: Vec<Record>,
    words: Option<Words>,
    session: Vec<Record>,
    named: BTreeMap<String, Vec<Record>>,
    /// How many records there were of each time.
    counts: HashMap<Option<Timestamp>, usize>,
}

/// The words that the titles of a file have before each prompt, such as "Prompted".
enum Words {
    /// Words of a language that is known. Those of another one are recognised too, because the language of an account may change.
    Known,
    /// Those with which the titles of all answers begin.
    Learned(String),
    /// Words that are not known: the title of each answer is a prompt with them.
    Unknown,
}

struct Record {
    title: String,
    answer: String,
    canvas: Option<String>,
    time: Option<Timestamp>,
    conversation: Option<String>,
    /// How many records of the same time come before it in the file.
    before: usize,
}

impl ValueReader for Activity {
    fn read(&mut self, value: Value, found: &mut Found) {
        let html = value["safeHtmlItem"].as_array().into_iter().flatten().filter_map(|item| item["html"].as_str());
        let canvas = value["subtitles"].as_array().into_iter().flatten().find_map(|subtitle| filled(&subtitle["name"]));
        let details = value["details"].as_array().into_iter().flatten().map(|detail| &detail["url"]);
        let addresses = [&value["titleUrl"]].into_iter().chain(details);
        let record = Record {
            title: value["title"].as_str().unwrap_or_default().to_owned(),
            answer: html.map(html_to_text).collect::<Vec<_>>().join("\n").trim().to_owned(),
            canvas: canvas.map(str::to_owned),
            time: moment(&value["time"]),
            conversation: addresses.filter_map(Value::as_str).find_map(conversation),
            before: 0,
        };
        self.take(record, found);
    }

    fn end(&mut self, _: &mut EarlierFiles) -> VecDeque<Found> {
        let mut found = Found::default();
        self.begin(&mut found);
        self.end_session(&mut found);
        let named = std::mem::take(&mut self.named).into_iter().map(|(name, records)| {
            let mut found = Found::default();
            self.put(name, records, &mut found);
            found
        });
        [found].into_iter().chain(named).collect()
    }
}

impl Activity {
    fn take(&mut self, record: Record, found: &mut Found) {
        if self.words.is_some() {
            return self.place(record, found);
        }
        self.first.push(record);
        if self.first.len() == FIRST {
            self.begin(found);
        }
    }

    /// Takes the first records, which say what stands before a prompt.
    fn begin(&mut self, found: &mut Found) {
        let first = std::mem::take(&mut self.first);
        if self.words.is_none() {
            let words = Words::of(&first);
            if let (Words::Unknown, Some(record)) = (&words, first.iter().find(|record| !record.answer.is_empty())) {
                let title: String = record.title.chars().take(40).collect();
                found.notes.push(format!(
                    "the words before the prompts are of a language that is not known, so that the prompts were stored with them: {title:?}"
                ));
            }
            self.words = Some(words);
        }
        for record in first {
            self.place(record, found);
        }
    }

    /// Adds a record to the session, which ends before it if there was a pause.
    fn place(&mut self, mut record: Record, found: &mut Found) {
        if self.prompt(&record).is_none() && record.answer.is_empty() && record.canvas.is_none() {
            found.notes.push(format!("{:?} is no prompt and was left out", record.title));
            return;
        }
        let count = self.counts.entry(record.time).or_default();
        record.before = *count;
        *count += 1;
        if let Some(name) = record.conversation.take() {
            self.named.entry(name).or_default().push(record);
            return;
        }
        // What the model made without a prompt shortens no pause.
        let last = self.session.iter().rfind(|record| self.prompt(record).is_some()).or(self.session.last());
        if last.is_some_and(|last| !is_soon(last.time, record.time)) {
            self.end_session(found);
        }
        self.session.push(record);
    }

    /// Returns what the person asked.
    fn prompt<'r>(&self, record: &'r Record) -> Option<&'r str> {
        let prompt = known(&record.title).or_else(|| match self.words.as_ref()? {
            Words::Known => None,
            Words::Learned(words) => record.title.strip_prefix(words.as_str()),
            Words::Unknown => Some(&*record.title).filter(|_| !record.answer.is_empty()),
        });
        prompt.filter(|prompt| !prompt.trim().is_empty())
    }

    fn end_session(&mut self, found: &mut Found) {
        let records = std::mem::take(&mut self.session);
        let began = records.iter().filter_map(|record| record.time).min();
        let session = began.map_or_else(|| "gemini".to_owned(), |time| format!("gemini {time}"));
        self.put(session, records, found);
    }

    fn put(&self, session: String, mut records: Vec<Record>, found: &mut Found) {
        records.reverse();
        records.sort_by_key(|record| record.time);
        for record in records {
            let said = |role, text: &str| Said { role, time: record.time, ..Said::by_user(session.clone(), text) };
            let prompt = self.prompt(&record).map(|prompt| said(Role::User, prompt));
            let answer = said(Role::Assistant, &record.answer);
            let canvas = record.canvas.clone().filter(|_| prompt.is_none()).map(text_part);
            let answer = Said { parts: answer.parts.into_iter().chain(canvas).collect(), ..answer };
            for mut line in prompt.into_iter().chain([answer]).filter_map(|said| said.into_line(&self.options)) {
                if let Some(time) = record.time {
                    line.message.id = format!("gemini/{time}/{}/{}", record.before, line.message.role.as_str());
                    line.has_id = true;
                }
                found.messages.push(Ok(line));
            }
        }
    }
}

/// Whether two times are without a pause between them.
fn is_soon(last: Option<Timestamp>, time: Option<Timestamp>) -> bool {
    let (Some(last), Some(time)) = (last, time) else { return last.is_none() && time.is_none() };
    SignedDuration::from_micros(time.as_micros() - last.as_micros()).unsigned_abs() <= PAUSE
}

impl Words {
    /// Finds out the words before the prompts from the titles of answers.
    fn of(records: &[Record]) -> Self {
        let titles: Vec<&str> =
            records.iter().filter(|record| !record.answer.is_empty()).map(|record| &*record.title).collect();
        let Some(first) = titles.first() else { return Words::Known };
        if titles.iter().any(|title| known(title).is_some()) {
            return Words::Known;
        }
        let common = titles.iter().fold(*first, |common, title| {
            let same = common.char_indices().zip(title.chars()).take_while(|((_, a), b)| a == b);
            let end = same.last().map_or(0, |((at, a), _)| at + a.len_utf8());
            &common[..end]
        });
        // A language may have no spaces, but then it has a colon.
        match common.char_indices().rfind(|(_, letter)| !letter.is_alphanumeric()) {
            Some((at, end)) if titles.len() >= ENOUGH => Words::Learned(common[..at + end.len_utf8()].to_owned()),
            _ => Words::Unknown,
        }
    }
}

/// Returns the prompt in a title that begins with words which are known.
fn known(title: &str) -> Option<&str> {
    PROMPTED.iter().find_map(|words| {
        let mut rest = title.chars();
        // Before a colon, French has a space at which no line ends.
        let is_same = words
            .chars()
            .all(|word| rest.next().is_some_and(|letter| letter == word || word == ' ' && letter.is_whitespace()));
        is_same.then_some(rest.as_str())
    })
}

/// Returns the id of a conversation in its address.
fn conversation(text: &str) -> Option<String> {
    let (_, id) = text.split_once(ADDRESS)?;
    let end = id.find(|letter: char| !letter.is_ascii_alphanumeric()).unwrap_or(id.len());
    (end > 0).then(|| id[..end].to_owned())
}

/// Reads the activity as HTML: a card for each record, without line breaks.
struct Html(ReadOptions);

impl Reader for Html {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Rows<'f> {
        let name = file.name.clone();
        let mut cards = Cards { bytes: file.into_bytes(), rest: String::new(), bytes_read: 0 };
        let mut activity = Activity { options: self.0.clone(), ..Activity::default() };
        let mut number = 0;
        let (mut has_ended, mut ended) = (false, VecDeque::new());
        Box::new(std::iter::from_fn(move || {
            if has_ended {
                return ended.pop_front().map(Ok);
            }
            let card = match cards.next_card() {
                Ok(card) => card,
                Err(error) => {
                    has_ended = true;
                    ended = activity.end(&mut EarlierFiles::new());
                    return Some(Err(Error::file(&name, 1, error.to_string())));
                }
            };
            let Some(card) = card else {
                has_ended = true;
                ended = activity.end(&mut EarlierFiles::new());
                return ended.pop_front().map(Ok);
            };
            number += 1;
            let mut found = Found { line: 1, bytes_read: cards.bytes_read, value: Some(number), ..Found::default() };
            match is_of_product(&card).then(|| record(&card, &activity.options)) {
                Some(Ok(record)) => activity.take(record, &mut found),
                Some(Err(error)) => found.messages.push(Err(error)),
                None => found.notes.push(format!("record {number} is of another product and was left out")),
            }
            Some(Ok(found))
        }))
    }
}

/// The cards of a file.
struct Cards<'f> {
    bytes: Box<dyn BufRead + 'f>,
    /// The beginning of the next card.
    rest: String,
    bytes_read: u64,
}

impl Cards<'_> {
    fn next_card(&mut self) -> io::Result<Option<String>> {
        loop {
            let mut tag = Vec::new();
            self.bytes_read += self.bytes.by_ref().take(MAX_CARD_BYTES as u64).read_until(b'>', &mut tag)? as u64;
            let tag = String::from_utf8_lossy(&tag);
            let is_card = self.rest.starts_with(CARD);
            if let Some(at) = tag.rfind(CARD) {
                let card = std::mem::replace(&mut self.rest, tag[at..].to_owned());
                if is_card {
                    return Ok(Some(card + &tag[..at]));
                }
            } else if tag.is_empty() {
                return Ok(Some(std::mem::take(&mut self.rest)).filter(|_| is_card));
            } else if is_card {
                self.rest.push_str(&tag);
            }
            if self.rest.len() > MAX_CARD_BYTES {
                return Err(io::Error::other(format!("a record of more than {MAX_CARD_BYTES} bytes")));
            }
        }
    }
}

/// Whether the header of a card, or the list of products below it, names Gemini.
fn is_of_product(card: &str) -> bool {
    let (header, _) = card.split_once(CELL).unwrap_or((card, ""));
    header
        .split_once("<p")
        .and_then(|(_, title)| title.split_once('>'))
        .is_some_and(|(_, title)| title.split("<br>").next().is_some_and(|name| name.contains(PRODUCT)))
}

/// Reads a card: the title, which may have several lines, the time, and the answer.
fn record(card: &str, options: &ReadOptions) -> Result<Record> {
    // Other cells follow the content.
    let is_whole = card.split(CELL).count() > 2 && card.rsplit(CELL).next().is_some_and(|last| last.contains("</div>"));
    if !is_whole {
        return Err(Error::message("the record is cut off"));
    }
    let mut cells = card.split(CELL).skip(1).filter_map(|cell| cell.split_once('>')).map(|(_, cell)| cell);
    let content = cells.next().unwrap_or_default();
    let content = content.trim_end().strip_suffix("</div>").unwrap_or(content);
    let lines: Vec<&str> = content.split("<br>").collect();
    let plain = |line: &&str| html_to_text(line).replace(['\u{a0}', '\u{202f}'], " ").trim().to_owned();
    let dates = lines.iter().map(|line| if line.len() > 200 { None } else { LocalTime::of(&plain(line)) });
    let Some((at, local)) = dates.enumerate().skip(1).find_map(|(at, date)| Some((at, date?))) else {
        let shown = lines.get(1).map(plain).unwrap_or_default();
        return Err(Error::message(format!(
            "{:?} is no time in a language that is known; choose JSON instead of HTML for the export",
            shown.chars().take(60).collect::<String>()
        )));
    };
    let title: Vec<String> = without_attachments(&lines[..at]).iter().map(plain).collect();
    let details = cells.find_map(conversation);
    Ok(Record {
        title: title.join("\n"),
        answer: html_to_text(&lines[at + 1..].join("<br>")).trim().to_owned(),
        canvas: None,
        time: Some(local.moment(options)?),
        conversation: details,
        before: 0,
    })
}

/// Returns the lines of a title without the names of attached files, each with a link, and their number before them.
fn without_attachments<'l>(lines: &'l [&'l str]) -> &'l [&'l str] {
    let is_file = |line: &&&str| line.trim_start().starts_with('-') && line.contains("<a ");
    let files = lines.iter().skip(1).rev().take_while(is_file).count();
    let end = lines.len() - files - usize::from(files > 0 && lines.len() - files > 1);
    &lines[..end]
}

/// How the names of months begin in the languages of Western Europe.
const MONTHS: [&[&str]; 12] = [
    &["jan", "ene", "gen"],
    &["feb", "fev", "fév"],
    &["mar", "mär", "mrz", "maa", "mrt"],
    &["apr", "avr", "abr"],
    &["may", "mai", "mag", "maj", "mei"],
    &["jun", "juin", "giu"],
    &["jul", "juil", "lug"],
    &["aug", "ago", "aoû"],
    &["sep", "set"],
    &["oct", "okt", "ott", "out"],
    &["nov"],
    &["dec", "dez", "dic", "déc"],
];
/// Abbreviations of time zones that mean one offset, in minutes.
const ZONES: [(&[&str], i32); 22] = [
    (&["UTC", "GMT", "WET", "Z"], 0),
    (&["WEST", "BST", "CET", "MEZ", "HNEC"], 60),
    (&["CEST", "MESZ", "HAEC", "EET", "OEZ", "SAST"], 120),
    (&["EEST", "OESZ", "MSK", "TRT"], 180),
    (&["GST"], 240),
    (&["PKT"], 300),
    (&["WIB"], 420),
    (&["HKT", "SGT"], 480),
    (&["JST", "KST"], 540),
    (&["AEST"], 600),
    (&["AEDT"], 660),
    (&["NZST"], 720),
    (&["NZDT"], 780),
    (&["HST"], -600),
    (&["AKST"], -540),
    (&["AKDT", "PST"], -480),
    (&["PDT", "MST"], -420),
    (&["MDT", "CST"], -360),
    (&["CDT", "EST", "COT", "PET"], -300),
    (&["EDT", "AST"], -240),
    (&["ADT", "BRT", "ART"], -180),
    (&["NDT"], -150),
];

/// A time with the name of its zone.
struct LocalTime {
    local: DateTime,
    zone: String,
}

impl LocalTime {
    /// Reads a time such as `Jul 25, 2026, 11:07:57 PM PDT` or `25.07.2026, 23:07:57 MESZ`.
    fn of(text: &str) -> Option<Self> {
        let colon = text.find(':')?;
        let begin = text[..colon].trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
        let clock = text[begin..].split([' ', ',']).next()?;
        let numbers: Option<Vec<i8>> = clock.split(':').map(|number| number.parse().ok()).collect();
        let &[hour, minute, second] = &numbers?[..] else { return None };
        let rest = text[begin + clock.len()..].trim();
        let half =
            ["AM", "PM", "am", "pm", "a.m.", "p.m.", "a. m.", "p. m."].into_iter().find(|half| rest.starts_with(half));
        let hour = match half.map(|half| half.as_bytes()[0].to_ascii_lowercase()) {
            Some(b'a') if hour == 12 => 0,
            Some(b'p') if hour < 12 => hour + 12,
            _ => hour,
        };
        let (year, month, day) = date(&text[..begin])?;
        let local = DateTime::new(year, month, day, hour, minute, second, 0).ok()?;
        Some(LocalTime { local, zone: rest[half.map_or(0, str::len)..].trim().to_owned() })
    }

    /// Returns the moment, in the zone that is given or else in that of the text.
    fn moment(&self, options: &ReadOptions) -> Result<Timestamp> {
        let moment = match &options.time_zone {
            Some(zone) => zone.moment(self.local),
            None => {
                let offset = offset(&self.zone).ok_or_else(|| {
                    Error::message(format!(
                        "the time zone {:?} has several meanings; give the time zone of the file",
                        self.zone
                    ))
                })?;
                let moment = offset.to_timestamp(self.local).ok();
                moment.and_then(|moment| Timestamp::from_micros(moment.as_microsecond()))
            }
        };
        moment.ok_or_else(|| Error::message(format!("{} is out of range", self.local)))
    }
}

/// Returns the year, the month and the day of a date: three numbers, or two and the name of a month.
fn date(text: &str) -> Option<(i16, i8, i8)> {
    let mut words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    let (mut numbers, mut month) = (Vec::new(), None);
    // Spanish and Portuguese have a "de" between the words.
    for word in words.by_ref().take(8) {
        match word.parse::<i16>() {
            Ok(number) => numbers.push(number),
            Err(_) => month = month.or_else(|| month_of(&word.to_lowercase())),
        }
    }
    match (&numbers[..], month) {
        (&[day, year], Some(month)) if year > 31 => Some((year, month, day.try_into().ok()?)),
        (&[year, month, day], None) if year > 31 => Some((year, month.try_into().ok()?, day.try_into().ok()?)),
        // With numbers alone, only American English has the month first, and that has its name.
        (&[day, month, year], None) if year > 31 => Some((year, month.try_into().ok()?, day.try_into().ok()?)),
        _ => None,
    }
}

fn month_of(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|names| names.iter().any(|name| word.starts_with(name)))?;
    i8::try_from(at + 1).ok()
}

/// Returns the offset of a zone: none for UTC, an abbreviation, or `GMT+5:30`.
fn offset(zone: &str) -> Option<Offset> {
    let minutes = match zone.strip_prefix("GMT").or_else(|| zone.strip_prefix("UTC")).filter(|rest| !rest.is_empty()) {
        Some(rest) => {
            let (sign, rest) = match rest.replace('\u{2212}', "-") {
                rest if rest.starts_with('-') => (-1, rest[1..].to_owned()),
                rest => (1, rest.strip_prefix('+')?.to_owned()),
            };
            let (hours, minutes) = rest.split_once(':').unwrap_or((&rest, "0"));
            sign * (hours.parse::<i32>().ok()? * 60 + minutes.parse::<i32>().ok()?)
        }
        None => ZONES.iter().find(|(names, _)| names.contains(&zone)).or(ZONES.first().filter(|_| zone.is_empty()))?.1,
    };
    Offset::from_seconds(minutes.checked_mul(60)?).ok()
}
