//! WhatsApp's export of a chat, `_chat.txt` (iOS) or `WhatsApp Chat with NAME.txt` (Android).
//!
//! A line with a date begins a message, and lines without one continue it. The order of day and month is that of the phone:
//! messages wait until a date is of one order alone, or for the end of the file. Times have no zone.

use std::collections::VecDeque;

use jiff::civil::DateTime;

use super::{
    json::{Line, Lines},
    reader::{Found, ReadOptions, Reader},
    said::{Said, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::error::Result;

/// Marks what the program wrote: on iOS a line of its own, and the mark of a picture or of an edit within a message.
const MARK: char = '\u{200e}';
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
    rest: &'l str,
}

/// A message of which the order of day and month is not known yet.
struct Entry {
    date: [u16; 3],
    time: [i8; 3],
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
            notes: Vec::new(),
            is_of_person: false,
            has_ended: false,
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
    notes: Vec<String>,
    /// Whether the last message is of a person.
    is_of_person: bool,
    has_ended: bool,
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
            if self.has_ended {
                let notes = std::mem::take(&mut self.notes);
                return (!notes.is_empty()).then(|| Ok(Found { notes, ..Found::default() }));
            }
            match self.lines.next() {
                Some(Ok(line)) => self.take(line),
                Some(Err(error)) => {
                    self.has_ended = true;
                    self.order.get_or_insert(Order::DayMonthYear);
                    self.waiting.clear();
                    return Some(Err(error));
                }
                None => {
                    self.has_ended = true;
                    self.order.get_or_insert_with(|| Order::of(self.waiting.make_contiguous()));
                }
            }
        }
    }
}

impl Chat<'_> {
    fn take(&mut self, line: Line) {
        let text = match &line.text {
            Ok(text) => text.trim_end_matches(['\r', '\n']).trim_start_matches('\u{feff}'),
            Err(reason) => return self.notes.push(format!("line {} was left out: {reason}", line.number)),
        };
        match Head::of(text) {
            Some(head) => {
                let said = head.rest.split_once(": ").filter(|(name, _)| !name.starts_with(MARK));
                self.is_of_person = said.is_some();
                self.order = self.order.or_else(|| Order::certain(&head.date));
                self.waiting.extend(said.map(|(name, text)| Entry {
                    date: head.date,
                    time: head.time,
                    name: name_of(name),
                    text: text.to_owned(),
                    line: line.number,
                    bytes_read: line.bytes_read,
                }));
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

    fn found(&mut self, entry: Entry, order: Order) -> Found {
        let local = order.local(&entry.date, &entry.time);
        let time = local.and_then(|local| self.options.zone().moment(local));
        let said = Said {
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
        let (date, time) = stamp.split_once(", ").or_else(|| stamp.split_once(' '))?;
        let mut numbers = date.split(['.', '/', '-']).filter(|number| !number.trim().is_empty());
        let mut number = || numbers.next()?.trim().parse().ok();
        let date = [number()?, number()?, number()?];
        if numbers.next().is_some() {
            return None;
        }
        let end =
            time.find(|letter: char| !letter.is_ascii_digit() && letter != ':' && letter != '.').unwrap_or(time.len());
        let (clock, half) = time.split_at(end);
        let mut numbers = clock.split([':', '.']);
        let mut number = || numbers.next().map_or(Some(0), |number| number.parse().ok());
        let mut time: [i8; 3] = [number()?, number()?, number()?];
        let half: String = half.chars().filter(|letter| letter.is_alphabetic()).collect::<String>().to_lowercase();
        match half.as_str() {
            "" => {}
            "am" if time[0] == 12 => time[0] = 0,
            "pm" if time[0] < 12 => time[0] += 12,
            "am" | "pm" => {}
            _ => return None,
        }
        Some(Head { date, time, rest })
    }
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

    /// Finds the order of a file in which each date exists in both: the one in which the fewest messages are older than the one
    /// before them.
    fn of(entries: &[Entry]) -> Self {
        let steps_back = |order: Order| {
            let times: Option<Vec<DateTime>> =
                entries.iter().map(|entry| order.local(&entry.date, &entry.time)).collect();
            times.map_or(usize::MAX, |times| times.windows(2).filter(|pair| pair[1] < pair[0]).count())
        };
        let is_month_first = steps_back(Order::MonthDayYear) < steps_back(Order::DayMonthYear);
        if is_month_first { Order::MonthDayYear } else { Order::DayMonthYear }
    }

    fn local(self, date: &[u16; 3], time: &[i8; 3]) -> Option<DateTime> {
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
