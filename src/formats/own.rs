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

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Own { max_memory: options.max_memory })
}

struct Own {
    max_memory: Option<usize>,
}

impl Reader for Own {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let (name, max_memory) = (file.name.clone(), self.max_memory);
        Box::new(Lines::new(file).map(move |line| {
            let line = line?;
            let (number, bytes_read) = (line.number, line.bytes_read);
            let text = line.within(max_memory).map_err(|reason| Error::file(&name, number, reason));
            let messages = vec![text.and_then(|text| MessageLine::parse(&text))];
            Ok(Found { line: number, bytes_read, messages, ..Found::default() })
        }))
    }
}
