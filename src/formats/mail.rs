//! Mail in an mbox file, as Gmail's Takeout, Thunderbird and others write it. A session is the mails with one subject.

use mail_parser::{Address, MessageParser, mailbox::mbox::MessageIterator};

use super::{
    reader::{Found, ReadOptions, Reader},
    said::{Said, file_part, text_part},
    sample::Sample,
    source::SourceFile,
};
use crate::{
    error::{Error, Result},
    message::{ContentPart, Timestamp},
};

/// The most bytes of one mail that are read: attachments are left out, but stand within it.
const MAX_MAIL_BYTES: usize = 256 << 20;

pub(super) fn is_file(sample: &Sample) -> bool {
    sample.head.starts_with(b"From ")
        && String::from_utf8_lossy(sample.head).lines().skip(1).take(60).any(|line| {
            let line = line.to_ascii_lowercase();
            ["from:", "date:", "received:", "message-id:"].iter().any(|header| line.starts_with(header))
        })
}

pub(super) fn reader(options: &ReadOptions) -> Box<dyn Reader> {
    Box::new(Mail { options: options.clone() })
}

struct Mail {
    options: ReadOptions,
}

impl Reader for Mail {
    fn read<'f>(&'f mut self, file: SourceFile<'f>) -> Box<dyn Iterator<Item = Result<Found>> + 'f> {
        let name = file.name.clone();
        let options = &self.options;
        let mails = MessageIterator::new(file.into_bytes()).enumerate();
        let mut bytes_read = 0;
        Box::new(mails.map(move |(index, mail)| {
            let number = index as u64 + 1;
            // What cannot be read is the file, not one mail.
            let mail = mail.map_err(|error| Error::file(&name, number, format!("mail {number}: {error:?}")))?;
            let contents = mail.contents();
            bytes_read += contents.len() as u64;
            let mut found = Found { bytes_read, value: Some(number), ..Found::default() };
            if contents.len() > MAX_MAIL_BYTES {
                found.notes.push(format!("mail {number} has more than {MAX_MAIL_BYTES} bytes and was left out"));
                return Ok(found);
            }
            match said(contents).filter(|_| has_body(contents)) {
                Some(said) => found.messages.extend(said.into_line(options).map(Ok)),
                None => {
                    found.notes.push(format!("mail {number} has no headers, or ends within them, and was left out"))
                }
            }
            Ok(found)
        }))
    }
}

/// Whether the blank line behind the headers is there.
fn has_body(contents: &[u8]) -> bool {
    contents.windows(2).any(|pair| pair == b"\n\n") || contents.windows(3).any(|bytes| bytes == b"\n\r\n")
}

fn said(contents: &[u8]) -> Option<Said> {
    let mail = MessageParser::default().parse(contents)?;
    let sender = mail.from().and_then(Address::first);
    let name = sender.and_then(|sender| sender.name().or(sender.address())).map(|name| name.trim().to_owned());
    let subject = mail.subject().unwrap_or_default().trim();
    let body = mail.body_text(0).unwrap_or_default();
    // Lines that begin with "From " were marked when the mail was appended to the file.
    let body = body.replace("\r\n", "\n").replace("\n>From ", "\nFrom ");
    let body = body.strip_prefix(">From ").map_or(body.clone(), |rest| format!("From {rest}"));
    let text = [subject, body.trim()].iter().filter(|text| !text.is_empty()).copied().collect::<Vec<_>>().join("\n\n");
    let mut parts: Vec<ContentPart> = vec![text_part(text)];
    parts.extend(mail.attachments().filter_map(mail_parser::MimeHeaders::attachment_name).map(file_part));
    let time = mail.date().and_then(|date| Timestamp::from_micros(date.to_timestamp().checked_mul(1_000_000)?));
    let id = mail.message_id().map(str::to_owned);
    Some(Said { name, parts, time, id, ..Said::by_user(thread_of(subject), "") })
}

/// Returns the subject of a thread: without the marks of replies and of forwarded mails.
fn thread_of(subject: &str) -> String {
    let mut subject = subject;
    while let Some((mark, rest)) = subject.split_once(':') {
        if !matches!(mark.trim().to_lowercase().as_str(), "re" | "aw" | "fw" | "fwd" | "wg" | "sv" | "tr" | "antw") {
            break;
        }
        subject = rest.trim_start();
    }
    if subject.is_empty() { "mail".to_owned() } else { subject.chars().take(120).collect() }
}
