//! aider's `.aider.chat.history.md`: Markdown in which two spaces at the end of a line tell what the person typed (`#### `) and
//! what the program printed (`> `) from headings and quotations of the model.
//!
//! A session begins with its local time, the only one in the file.

use jiff::civil::DateTime;
use sha2::{Digest, Sha256};

use super::{
    json::Lines,
    reader::{Found, ReadOptions, Reader},
    said::{Said, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::{
    error::Result,
    ids::hex,
    message::{Role, Timestamp},
};

const START: &str = "# aider chat started at ";
const TYPED: &str = "#### ";
const PRINTED: &str = "> ";
/// Ends a line that was typed or printed.
const END: &str = "  ";
/// Stands for a prompt without words.
const BLANK: &str = "<blank>";
/// The element with the model's thoughts has this beginning of its name.
const THOUGHTS: [&str; 2] = ["<thinking-content-", "</thinking-content-"];

pub(super) fn is_file(sample: &Sample) -> bool {
    sample.first_line().starts_with(START)
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Aider { options: options.clone() })
}

struct Aider {
    options: ReadOptions,
}

/// A file that is being read.
struct Chat<'f> {
    lines: Option<Lines<'f>>,
    options: &'f ReadOptions,
    session: String,
    time: Option<Timestamp>,
    /// The lines of the message that is being read, and whose they are.
    role: Role,
    text: Vec<String>,
    /// A hash of the session up to now, and up to the first line of the message that is being read. It is the message's id, so
    /// that one of which a torn file had half is replaced by the whole.
    hash: Sha256,
    id: Sha256,
    /// Whether the lines are the model's thoughts.
    is_thought: bool,
    /// Whether the last line has no end.
    is_torn: bool,
}

impl Reader for Aider {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let lines = Some(Lines::with_blank_ones(file));
        Box::new(Chat {
            lines,
            options: &self.options,
            session: String::new(),
            time: None,
            role: Role::User,
            text: Vec::new(),
            hash: Sha256::new(),
            id: Sha256::new(),
            is_thought: false,
            is_torn: false,
        })
    }
}

impl Iterator for Chat<'_> {
    type Item = Result<Found>;

    fn next(&mut self) -> Option<Self::Item> {
        let Some(line) = self.lines.as_mut()?.next() else {
            self.lines = None;
            let mut found = Found::default();
            self.end(&mut found);
            return Some(Ok(found));
        };
        Some(line.map(|line| {
            let mut found = Found { line: line.number, bytes_read: line.bytes_read, ..Found::default() };
            match line.text {
                Ok(text) => self.read(&text, &mut found),
                Err(reason) => found.notes.push(format!("line {} was left out: {reason}", line.number)),
            }
            found
        }))
    }
}

impl Chat<'_> {
    /// Reads a line. A prompt ends at a blank one.
    fn read(&mut self, text: &str, found: &mut Found) {
        let line = text.trim_end_matches(['\r', '\n']);
        if let Some(time) = line.strip_prefix(START) {
            self.end(found);
            let local: Option<DateTime> = time.trim().replace(' ', "T").parse().ok();
            self.time = local.and_then(|local| self.options.zone().moment(local));
            self.session = format!("aider {}", time.trim());
            self.is_thought = false;
            self.hash = Sha256::new();
            return;
        }
        // The last line of a torn file has no end, and may have half of a mark alone.
        let is_torn = line.len() == text.len();
        if is_torn && [START, TYPED, PRINTED].iter().any(|mark| mark.starts_with(line)) {
            return;
        }
        self.is_torn = is_torn;
        let own = if is_torn { Some(line) } else { line.strip_suffix(END) };
        if let Some(typed) = own.and_then(|line| line.strip_prefix(TYPED)) {
            if self.role != Role::User {
                self.end(found);
                self.role = Role::User;
            }
            self.push(typed);
        } else if own.is_some_and(|line| line.starts_with(PRINTED)) || line.is_empty() && self.role == Role::User {
            self.end(found);
        } else {
            if self.role == Role::User {
                self.end(found);
                self.role = Role::Assistant;
            }
            self.is_thought |= line.starts_with(THOUGHTS[0]);
            if !self.is_thought {
                self.push(line);
            }
            self.is_thought &= !line.starts_with(THOUGHTS[1]);
        }
        self.hash.update(line);
        self.hash.update("\n");
    }

    /// Adds a line to the message that is being read.
    fn push(&mut self, line: &str) {
        if self.text.is_empty() {
            // Blank lines are no part of it.
            if line.is_empty() {
                return;
            }
            self.id = self.hash.clone();
        }
        self.text.push(line.to_owned());
    }

    /// Ends the message that is being read.
    fn end(&mut self, found: &mut Found) {
        let text = std::mem::take(&mut self.text).join("\n");
        let text = text.trim();
        let role = std::mem::replace(&mut self.role, Role::Assistant);
        // A command with a question, such as `/ask`, is followed by the question alone.
        let is_blank = text == BLANK || self.is_torn && BLANK.starts_with(text);
        let is_command = role == Role::User && (text.starts_with(['/', '!']) || is_blank);
        let (time, parts) = (self.time, vec![text_part(if is_command { "" } else { text })]);
        let id = Some(hex(&self.id.clone().finalize()[..16]));
        let said = Said { role, parts, time, id, ..Said::by_user(self.session.as_str(), "") };
        found.messages.extend(said.into_line(self.options).map(Ok));
    }
}
