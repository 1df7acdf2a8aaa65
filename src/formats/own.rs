//! mnemon's own format: a message in each line.

use super::{
    chats::is_anthropic,
    json::Lines,
    reader::{Found, ReadOptions, Reader},
    sample::Sample,
    source::SourceFile,
};
use crate::{
    error::{Error, Result},
    message::MessageLine,
};

/// Whether the first line of a file is a message, and none of the next is one that only Anthropic's format has.
pub(super) fn is_file(sample: &Sample) -> bool {
    MessageLine::parse(sample.first_line()).is_ok() && !sample.values.iter().any(is_anthropic)
}

pub(super) fn reader(_: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Own)
}

struct Own;

impl Reader for Own {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let name = file.name.clone();
        Box::new(Lines::new(file).map(move |line| {
            let line = line?;
            let text = line.text.map_err(|reason| Error::file(&name, line.number, reason));
            let message = text.and_then(|text| MessageLine::parse(&text));
            let messages = vec![message];
            Ok(Found { line: line.number, bytes_read: line.bytes_read, messages, ..Found::default() })
        }))
    }
}
