//! WhatsApp's export of a chat, `_chat.txt` (iOS) or `WhatsApp Chat with NAME.txt` (Android).
//!
//! A line with a date begins a message, and lines without one continue it. The order of day and month is that of the phone:
//! messages wait until a date is of one order alone, or for the end of the file. A file that does not tell has the day first,
//! or the month if its times are written as in the United States. Times have no zone.

use std::collections::{HashMap, VecDeque};

use jiff::civil::DateTime;

use super::{
    json::{Line, Lines},
    reader::{Found, ReadOptions, Reader},
    said::{Said, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::error::{Error, Result};

/// Marks what the program wrote: on iOS a line of its own, and the mark of a picture or of an edit within a message.
const MARK: char = '\u{200e}';
/// The words of the program's languages for the halves of the day.
const HALVES: [[&str; 4]; 2] = [["am", "오전", "上午", "午前"], ["pm", "오후", "下午", "午後"]];
/// What stands between day and time in some languages.
const AT: [&str; 5] = ["à", "às", "kl", "klo", "um"];
/// Marks of the direction of writing, around names and numbers.
const DIRECTIONS: [char; 5] = [MARK, '\u{202a}', '\u{202c}', '\u{2068}', '\u{2069}'];

pub(super) fn is_file(sample: &Sample) -> bool {
    let text = String::from_utf8_lossy(sample.head);
    let mut heads = text.lines().filter(|line| !line.trim().is_empty()).take(5).map(Head::of);
    heads.next().flatten().is_some()
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(WhatsApp { options: options.clone() })
}

struct WhatsApp {
    options: ReadOptions,
}

/// The beginning of a message: three numbers of a date in the phone's order, a time, and the rest of the line.
struct Head<'l> {
    date: [u16; 3],
    /// Hour, minute and second.
    time: [i8; 3],
    /// Whether the date and the time are written as in the United States alone: `1/5/23, 3:45 PM`.
    is_american: bool,
    rest: &'l str,
}

/// The numbers of a date in the phone's order, and of a time.
type Stamp = ([u16; 3], [i8; 3]);

/// A message of which the order of day and month is not known yet.
struct Entry {
    stamp: Stamp,
    /// How many messages of the same person and time come before this one.
    before: usize,
    name: String,
    text: String,
    line: u64,
    bytes_read: u64,
}

impl Reader for WhatsApp {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let session = session_of(&file.name);
        let lines = Lines::with_blank_ones(file);
        Box::new(Chat {
            options: &self.options,
            session,
            lines,
            waiting: VecDeque::new(),
            order: None,
            stamps: Vec::new(),
            is_american: false,
            counts: HashMap::new(),
            notes: Vec::new(),
            is_of_person: false,
            has_ended: false,
            failed: None,
        })
    }
}

/// A chat that is being read.
struct Chat<'f> {
    options: &'f ReadOptions,
    session: String,
    lines: Lines<'f>,
    /// Messages of which the order of the date is not known, or which the next line may continue.
    waiting: VecDeque<Entry>,
    order: Option<Order>,
    /// Those of all messages, the program's included, until the order is known.
    stamps: Vec<Stamp>,
    is_american: bool,
    /// How many messages of one person and time there were.
    counts: HashMap<(Stamp, String), usize>,
    notes: Vec<String>,
    /// Whether the last message is of a person.
    is_of_person: bool,
    has_ended: bool,
    /// Why the file ended.
    failed: Option<Error>,
}

impl Iterator for Chat<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            // The last may be continued.
            if let Some(order) = self.order
                && self.waiting.len() > usize::from(!self.has_ended)
            {
                return self.waiting.pop_front().map(|entry| Ok(self.found(entry, order)));
            }
            if let Some(error) = self.failed.take() {
                return Some(Err(error));
            }
            if self.has_ended {
                let notes = std::mem::take(&mut self.notes);
                return (!notes.is_empty()).then(|| Ok(Found { notes, ..Found::default() }));
            }
            match self.lines.next() {
                Some(Ok(line)) => self.take(line),
                read => {
                    self.has_ended = true;
                    self.failed = read.and_then(Result::err);
                    self.order = self.order.or_else(|| Some(self.likely_order()));
                }
            }
        }
    }
}

impl Chat<'_> {
    fn take(&mut self, line: Line) {
        let text = match &line.text {
            Ok(text) => text,
            Err(reason) => return self.notes.push(format!("line {} was left out: {reason}", line.number)),
        };
        let is_torn = !text.ends_with('\n');
        let text = text.trim_end_matches(['\r', '\n']).trim_start_matches('\u{feff}');
        match Head::of(text) {
            Some(head) => {
                let said = head.rest.split_once(": ").filter(|(name, _)| !name.starts_with(MARK));
                self.is_of_person = said.is_some();
                self.is_american |= head.is_american;
                let stamp = (head.date, head.time);
                self.order = self.order.or_else(|| Order::certain(&head.date));
                match self.order {
                    Some(_) => self.stamps = Vec::new(),
                    None => self.stamps.push(stamp),
                }
                if let Some((name, text)) = said {
                    let (name, text) = (name_of(name), text.to_owned());
                    let count = self.counts.entry((stamp, name.clone())).or_default();
                    let before = *count;
                    *count += 1;
                    let (line, bytes_read) = (line.number, line.bytes_read);
                    self.waiting.push_back(Entry { stamp, before, name, text, line, bytes_read });
                }
            }
            None if is_torn && is_part_of_stamp(text) => {
                self.notes.push(format!("line {} is torn and was left out", line.number));
            }
            None if self.is_of_person => {
                let last = self.waiting.back_mut().expect("a person's message was begun");
                last.text.push('\n');
                last.text.push_str(text);
                (last.line, last.bytes_read) = (line.number, line.bytes_read);
            }
            None => {}
        }
    }

    /// Finds the order of a file in which each date exists in both: the one in which fewer messages are older than the one before
    /// them, or else the one of the region.
    fn likely_order(&mut self) -> Order {
        let steps_back = |order: Order| {
            let times: Option<Vec<DateTime>> = self.stamps.iter().map(|stamp| order.local(stamp)).collect();
            times.map_or(usize::MAX, |times| times.windows(2).filter(|pair| pair[1] < pair[0]).count())
        };
        let (day_first, month_first) = (steps_back(Order::DayMonthYear), steps_back(Order::MonthDayYear));
        let differs = |(date, _): &Stamp| date[0] != date[1];
        if day_first == month_first && !self.is_american && self.stamps.iter().any(differs) {
            self.notes.push("no date tells whether day or month is first: the day was taken".to_owned());
        }
        if month_first < day_first || month_first == day_first && self.is_american {
            Order::MonthDayYear
        } else {
            Order::DayMonthYear
        }
    }

    fn found(&mut self, entry: Entry, order: Order) -> Found {
        let time = order.local(&entry.stamp).and_then(|local| self.options.zone().moment(local));
        // The text is no part of the id, so that a message of which a torn file had half is replaced by the whole.
        let (date, clock) = entry.stamp;
        let id = format!("{date:?} {clock:?} {} {}", entry.name, entry.before);
        let said = Said {
            id: Some(id),
            name: Some(entry.name),
            time,
            parts: said_of(&entry.text).map(text_part).into_iter().collect(),
            ..Said::by_user(self.session.as_str(), "")
        };
        let messages = said.into_line(self.options).map(Ok).into_iter().collect();
        let notes = std::mem::take(&mut self.notes);
        Found { line: entry.line, bytes_read: entry.bytes_read, messages, notes, ..Found::default() }
    }
}

impl<'l> Head<'l> {
    /// Reads the date and the time at the beginning of a line.
    fn of(line: &'l str) -> Option<Self> {
        let line = line.trim_start_matches(MARK);
        let (stamp, rest) = match line.strip_prefix('[') {
            Some(line) => line.split_once("] ")?,
            None => line.split_once(" - ")?,
        };
        if stamp.len() > 40 || !stamp.starts_with(|first: char| first.is_ascii_digit()) {
            return None;
        }
        let words = stamp.split(|letter: char| !letter.is_alphabetic()).filter(|word| !word.is_empty());
        let half: String = words.filter(|word| !AT.contains(word)).collect::<String>().to_lowercase();
        let half = match half.as_str() {
            "" => None,
            half => Some(HALVES.iter().position(|halves| halves.contains(&half))?),
        };
        // Marks end the numbers of the date and of the time: `5.1.2023 klo 15.45`, `2023. 1. 5. 오후 3:45`.
        let mut numbers = stamp.split(|letter: char| !letter.is_ascii_digit()).filter(|number| !number.is_empty());
        let mut number = || numbers.next()?.parse::<u16>().ok();
        let date = [number()?, number()?, number()?];
        let (hour, minute) = (number()?, number()?);
        let second = number().unwrap_or(0);
        if number().is_some() || stamp.chars().any(|letter| letter.is_ascii_punctuation() && !"./-,:".contains(letter))
        {
            return None;
        }
        let hour = match half {
            Some(half) => hour % 12 + 12 * half as u16,
            None => hour,
        };
        let time = [hour.try_into().ok()?, minute.try_into().ok()?, second.try_into().ok()?];
        let is_american = (stamp.contains("AM") || stamp.contains("PM"))
            && stamp.contains('/')
            && !stamp.starts_with('0')
            && date[2] < 100;
        Some(Head { date, time, is_american, rest })
    }
}

/// Whether a line may be the beginning of one with a date.
fn is_part_of_stamp(line: &str) -> bool {
    let line = line.trim_start_matches(MARK);
    line.starts_with(|first: char| first == '[' || first.is_ascii_digit())
        && line.chars().filter(|letter| letter.is_alphabetic()).count() <= 3
}

/// The order of the numbers of a date.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    DayMonthYear,
    MonthDayYear,
    YearMonthDay,
}

impl Order {
    /// Returns the order that a date is of, if it exists in one alone.
    fn certain(date: &[u16; 3]) -> Option<Self> {
        match *date {
            [(32..), ..] => Some(Order::YearMonthDay),
            [(13..), ..=12, _] => Some(Order::DayMonthYear),
            [..=12, (13..), _] => Some(Order::MonthDayYear),
            _ => None,
        }
    }

    fn local(self, (date, time): &Stamp) -> Option<DateTime> {
        let [day, month, year] = match (self, *date) {
            (Order::DayMonthYear, date) => date,
            (Order::MonthDayYear, [month, day, year]) | (Order::YearMonthDay, [year, month, day]) => [day, month, year],
        };
        let year = if year < 100 { year + 2000 } else { year };
        let [hour, minute, second] = *time;
        DateTime::new(year.try_into().ok()?, month.try_into().ok()?, day.try_into().ok()?, hour, minute, second, 0).ok()
    }
}

/// Returns a name without the marks around it, and without the one that says that the person is no contact.
fn name_of(name: &str) -> String {
    let name: String = name.chars().filter(|letter| !DIRECTIONS.contains(letter)).collect();
    name.trim_start_matches('~').replace(['\u{a0}', '\u{202f}'], " ").trim().to_owned()
}

/// Returns what a person said: neither the program's mark of a picture, of an edit or of a deletion, nor its notices, which
/// have the name of the group on iOS.
fn said_of(text: &str) -> Option<&str> {
    let said = text.split_once(MARK).map_or(text, |(said, _)| said).trim();
    let is_placeholder = said.starts_with('<') && said.ends_with('>') && !said[1..].contains('<') && said.contains(' ');
    (!said.is_empty() && !is_placeholder).then_some(said)
}

/// Returns the session of a file: the name of the chat, which is that of the file or of its folder.
fn session_of(name: &str) -> String {
    let mut parts = name.rsplit(['/', '\\', '!']);
    let file = parts.next().unwrap_or_default();
    let chat = if file == "_chat.txt" { parts.next().unwrap_or_default() } else { file };
    let chat = chat.trim_end_matches(".txt").trim_end_matches(".zip");
    let chat =
        chat.strip_prefix("WhatsApp Chat with ").or_else(|| chat.strip_prefix("WhatsApp Chat - ")).unwrap_or(chat);
    if chat.is_empty() { "whatsapp".to_owned() } else { chat.to_owned() }
}
