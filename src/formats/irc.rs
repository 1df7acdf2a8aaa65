//! Logs of IRC clients. The date is in the name of the file or in lines of the client's own, and times have no zone.

use std::collections::HashMap;

use jiff::civil::{Date, Time};

use super::{
    json::Lines,
    reader::{Found, ReadOptions, Reader},
    said::Said,
    sample::Sample,
    source::SourceFile,
};
use crate::error::Result;

/// The number of lines from which a log is recognized.
const LINES: usize = 5;
/// How irssi, HexChat and mIRC begin lines of their own.
const OWN: [&str; 3] = ["--- ", "**** ", "Session "];
/// Those of them that tell the day, such as `--- Day changed Mon Jan 06 2025`.
const DAYS: [&str; 4] = ["--- Log opened ", "--- Day changed ", "**** BEGIN LOGGING AT ", "Session Start: "];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// What HexChat and mIRC write like an action.
const EVENTS: [&str; 7] =
    ["has joined", "has left", "has quit", "is now known as", "sets mode", "was kicked by", "changes topic"];

pub(super) fn is_file(sample: &Sample) -> bool {
    let text = String::from_utf8_lossy(sample.head);
    let is_said = |line: &&str| !line.trim().is_empty() && !OWN.iter().any(|own| line.starts_with(own));
    let lines: Vec<&str> = text.lines().filter(is_said).take(LINES).collect();
    let is_stamped = |line: &&str| Stamped::of(line).is_some_and(|line| line.rest.starts_with(['<', '*', '-']));
    !lines.is_empty() && lines.iter().all(is_stamped)
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Irc { options: options.clone() })
}

struct Irc {
    options: ReadOptions,
}

impl Reader for Irc {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let (mut date, channel) = place_of(&file.name);
        let mut counts: HashMap<(Date, Time, String), usize> = HashMap::new();
        let options = &self.options;
        Box::new(Lines::new(file).map(move |line| {
            let line = line?;
            let mut found = Found { line: line.number, bytes_read: line.bytes_read, ..Found::default() };
            // Old logs are in the encodings of their times: what is no UTF-8 is replaced, and the rest is kept.
            let text = line.text.unwrap_or_else(|reason| {
                found.notes.push(format!("line {} was left out: {reason}", line.number));
                String::new()
            });
            // Of half a line, nobody can tell an action from who joined.
            let is_torn = !text.ends_with('\n');
            let text = text.trim_end();
            date = day_of(text).or(date);
            let said = Stamped::of(text).and_then(|line| {
                date = line.date(date);
                let (name, text) = spoken(line.rest).filter(|_| !(is_torn && line.rest.starts_with('*')))?;
                // The text is no part of the id, so that a line of which a torn file had half is replaced by the whole.
                let id = date.map(|date| {
                    let before = counts.entry((date, line.time, name.clone())).or_default();
                    *before += 1;
                    format!("{date} {} {name} {before}", line.time)
                });
                let time = date.and_then(|date| options.zone().moment(date.to_datetime(line.time)));
                Some(Said { name: Some(name), time, id, ..Said::by_user(channel.as_str(), text) })
            });
            found.messages.extend(said.and_then(|said| said.into_line(options)).map(Ok));
            Ok(found)
        }))
    }
}

/// A line with the time at its beginning: `[10:15]`, `10:15:30`, `[10:15:30]` or `Jan 05 10:15:30`.
struct Stamped<'l> {
    /// The month and the day, from 1.
    day: Option<(i8, i8)>,
    time: Time,
    rest: &'l str,
}

impl<'l> Stamped<'l> {
    fn of(line: &'l str) -> Option<Self> {
        let month = line.get(..3).and_then(|month| MONTHS.iter().position(|name| *name == month));
        let day = month.and_then(|month| Some((month as i8 + 1, line.get(4..6)?.trim().parse().ok()?)));
        let line = if day.is_some() { line.get(7..)? } else { line };
        let (stamp, rest) = match line.strip_prefix('[') {
            Some(line) => line.split_once("] ")?,
            None => line.split_once(' ')?,
        };
        let mut numbers = stamp.split(':').map(|number| number.parse::<i8>().ok());
        let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next());
        let second = second.map_or(Some(0), |second| second)?;
        Some(Stamped { day, time: Time::new(hour, minute, second, 0).ok()?, rest: rest.trim_start() })
    }

    /// Returns the date of the line, which is not before `last`, that of the line before.
    fn date(&self, last: Option<Date>) -> Option<Date> {
        let (Some((month, day)), Some(last)) = (self.day, last) else { return last };
        let dates = [last.year(), last.year() + 1].map(|year| Date::new(year, month, day).ok());
        dates.into_iter().flatten().find(|date| *date >= last).or(Some(last))
    }
}

/// Returns the day that a line of the client's own tells.
fn day_of(line: &str) -> Option<Date> {
    let told = DAYS.iter().find_map(|beginning| line.strip_prefix(beginning))?;
    let words: Vec<&str> = told.split_whitespace().collect();
    let (month, day, year) = (words.get(1)?, words.get(2)?, words.last()?);
    Date::strptime("%b %d %Y", format!("{month} {day} {year}")).ok()
}

/// Returns who said what in a line: `<ann> hello`, or the action `* ann waves`. Joins and notices are neither.
fn spoken(rest: &str) -> Option<(String, String)> {
    if let Some(said) = rest.strip_prefix('<') {
        let (name, text) = said.split_once('>')?;
        let text = text.strip_prefix([' ', '\t'])?;
        // The sign of an operator stands before the name.
        return Some((name.trim_start_matches(['@', '+', '%', '&', '~', ' ']).to_owned(), text.to_owned()));
    }
    let action = rest.strip_prefix('*')?.strip_prefix([' ', '\t'])?;
    let (name, done) = action.split_once(' ')?;
    // Of who joins, the address stands between.
    let done = done.strip_prefix('(').and_then(|done| done.split_once(") ")).map_or(done, |(_, done)| done);
    let is_event = EVENTS.iter().any(|event| done.starts_with(event));
    (!is_event).then(|| (name.to_owned(), action.to_owned()))
}

/// Returns the date in the name of a file, and the rest of the name, which is the channel's. If the name is a date, the
/// folder's is the channel's.
fn place_of(path: &str) -> (Option<Date>, String) {
    let mut names = path.rsplit(['/', '\\', '!']);
    let name = names.next().unwrap_or(path);
    let folder = names.next().filter(|name| !name.is_empty()).unwrap_or("irc");
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let dates =
        (0..stem.len()).filter(|at| stem.is_char_boundary(*at)).flat_map(|at| [10, 8].map(|length| (at, length)));
    for (at, length) in dates {
        let Some(text) = stem.get(at..at + length) else { continue };
        let format = if length == 10 { "%Y-%m-%d" } else { "%Y%m%d" };
        if let Ok(date) = Date::strptime(format, text) {
            let channel = format!("{}{}", &stem[..at], &stem[at + length..]);
            let channel = channel.trim_matches(['-', '_', '.', ' ']);
            return (Some(date), if channel.is_empty() { folder.to_owned() } else { channel.to_owned() });
        }
    }
    (None, stem.to_owned())
}
