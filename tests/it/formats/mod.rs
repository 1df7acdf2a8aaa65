//! Files of other programs, read by the library: of each format, what real files hold.

mod chats;
mod claude_code;
mod codex;
mod databases;
mod documented;
mod generated;
mod imported;
mod people;
mod takeout;

use std::path::Path;

use mnemon::{
    Message,
    format::{FileReader, Format, ReadOptions, Source},
};

/// What was read from a text in a format that is found out.
#[derive(Default)]
pub(super) struct Read {
    messages: Vec<(Option<String>, Message)>,
    removed: Vec<String>,
    notes: Vec<String>,
    errors: Vec<String>,
    /// The names of files of no known format.
    unknown: Vec<String>,
}

impl Read {
    /// Who said what.
    fn said(&self) -> Vec<(&str, String)> {
        self.messages.iter().map(|(_, message)| (message.role.as_str(), message.text())).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.messages.iter().map(|(_, message)| message.text()).collect()
    }

    fn namespaces(&self) -> Vec<&str> {
        let mut namespaces: Vec<&str> = self.messages.iter().filter_map(|(name, _)| name.as_deref()).collect();
        namespaces.dedup();
        namespaces
    }
}

fn read(text: &str) -> Read {
    read_with(text, ReadOptions::default())
}

fn read_with(text: &str, options: ReadOptions) -> Read {
    let format = Format::detect(text.as_bytes()).expect("a known format");
    read_as(format.name, text, options)
}

fn read_as(format: &str, text: &str, options: ReadOptions) -> Read {
    read_file(format, "file", text, options)
}

fn read_file(format: &str, name: &str, text: &str, options: ReadOptions) -> Read {
    read_source(Source::stream(name, text.as_bytes()).unwrap(), Format::named(format), options)
}

fn read_path(path: &Path) -> Read {
    read_source(Source::open(path).unwrap(), None, ReadOptions::default())
}

/// Reads all files of a source, in a format or each in that which is found out.
fn read_source(mut source: Source<'_>, format: Option<&'static Format>, options: ReadOptions) -> Read {
    let mut files = FileReader::new(options);
    let mut read = Read::default();
    while let Some(mut file) = source.next_file().unwrap() {
        let Some(format) = format.map_or_else(|| file.format().unwrap(), Some) else {
            read.unknown.push(file.name);
            continue;
        };
        for found in files.read(format, file) {
            let found = match found {
                Ok(found) => found,
                Err(error) => {
                    read.errors.push(error.to_string());
                    break;
                }
            };
            read.notes.extend(found.notes);
            read.removed.extend(found.removed.into_iter().map(|line| line.message.id));
            for message in found.messages {
                match message {
                    Ok(line) => read.messages.push((line.namespace.map(String::from), line.message)),
                    Err(error) => read.errors.push(error.to_string()),
                }
            }
        }
    }
    read
}

/// The text of lines of JSON.
fn lines(values: &[serde_json::Value]) -> String {
    values.iter().map(|value| format!("{value}\n")).collect()
}

/// Adds fields to an object.
fn with(mut value: serde_json::Value, fields: serde_json::Value) -> serde_json::Value {
    value.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    value
}
