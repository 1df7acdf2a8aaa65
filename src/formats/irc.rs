//! Logs of IRC clients. The date is in the name of the file, and times have no zone.

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

pub(super) fn is_file(sample: &Sample) -> bool {
    let text = String::from_utf8_lossy(sample.head);
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).take(LINES).collect();
    !lines.is_empty()
        && lines.iter().all(|line| stamped(line).is_some_and(|(_, rest)| rest.starts_with(['<', '*', '-'])))
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Irc { options: options.clone() })
}

struct Irc {
    options: ReadOptions,
}

impl Reader for Irc {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let (date, channel) = place_of(&file.name);
        let options = &self.options;
        Box::new(Lines::new(file).map(move |line| {
            let line = line?;
            let mut found = Found { line: line.number, bytes_read: line.bytes_read, ..Found::default() };
            // Old logs are in the encodings of their times: what is no UTF-8 is replaced, and the rest is kept.
            let text = line.text.unwrap_or_else(|reason| {
                found.notes.push(format!("line {} was left out: {reason}", line.number));
                String::new()
            });
            let said = stamped(text.trim_end()).and_then(|(time, rest)| {
                let (name, text) = spoken(rest)?;
                let time = date.and_then(|date| options.zone().moment(date.to_datetime(time)));
                Some(Said { name: Some(name), time, ..Said::by_user(channel.as_str(), text) })
            });
            found.messages.extend(said.and_then(|said| said.into_line(options)).map(Ok));
            Ok(found)
        }))
    }
}

/// Returns the time at the beginning of a line, such as `[10:15]`, `10:15:30` or `[10:15:30]`, and the rest.
fn stamped(line: &str) -> Option<(Time, &str)> {
    let (stamp, rest) = match line.strip_prefix('[') {
        Some(line) => line.split_once("] ")?,
        None => line.split_once(' ')?,
    };
    let mut numbers = stamp.split(':').map(|number| number.parse::<i8>().ok());
    let (hour, minute, second) = (numbers.next()??, numbers.next()??, numbers.next());
    let second = second.map_or(Some(0), |second| second)?;
    Some((Time::new(hour, minute, second, 0).ok()?, rest))
}

/// Returns who said what in a line: `<ann> hello`, or the action `* ann waves`. Joins and notices are neither.
fn spoken(rest: &str) -> Option<(String, String)> {
    if let Some(said) = rest.strip_prefix('<') {
        let (name, text) = said.split_once("> ")?;
        // The sign of an operator stands before the name.
        return Some((name.trim_start_matches(['@', '+', '%', '&', '~', ' ']).to_owned(), text.to_owned()));
    }
    let action = rest.strip_prefix("* ")?;
    let (name, _) = action.split_once(' ')?;
    Some((name.to_owned(), action.to_owned()))
}

/// Returns the date in the name of a file, and the rest of the name, which is the channel's.
fn place_of(path: &str) -> (Option<Date>, String) {
    let name = path.rsplit(['/', '\\', '!']).next().unwrap_or(path);
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let dates =
        (0..stem.len()).filter(|at| stem.is_char_boundary(*at)).flat_map(|at| [10, 8].map(|length| (at, length)));
    for (at, length) in dates {
        let Some(text) = stem.get(at..at + length) else { continue };
        let format = if length == 10 { "%Y-%m-%d" } else { "%Y%m%d" };
        if let Ok(date) = Date::strptime(format, text) {
            let channel = format!("{}{}", &stem[..at], &stem[at + length..]);
            let channel = channel.trim_matches(['-', '_', '.', ' ']);
            return (Some(date), if channel.is_empty() { "irc".to_owned() } else { channel.to_owned() });
        }
    }
    (None, stem.to_owned())
}
