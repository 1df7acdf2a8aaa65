//! The tokens of pictures and PDFs whose bytes are in the message, by the rules that providers publish.
//!
//! A message does not know its model, so a picture counts what the dearer of Anthropic's and OpenAI's rules says, and a prompt
//! within its budget is within it for both. What is only referred to has no known size.

use std::io::Read;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use flate2::read::ZlibDecoder;

use super::chat_message::MediaReference;

/// The most tokens of a page of a PDF, which is its text and a picture of it: <https://platform.claude.com/docs/en/build-with-claude/pdf-support>.
const PAGE: usize = 3000;
/// The most bytes of an object stream of a PDF that are looked at.
const MAX_STREAM: u64 = 8 << 20;

/// Returns the tokens of a picture or a PDF. `None` if its size is not known.
pub(super) fn media_tokens(reference: &MediaReference) -> Option<usize> {
    let (media_type, data) = reference.data()?;
    let bytes = STANDARD.decode(data).ok()?;
    if media_type == "application/pdf" {
        return pdf_pages(&bytes).map(|pages| pages * PAGE);
    }
    let size = imagesize::blob_size(&bytes).ok().filter(|_| media_type.starts_with("image/"))?;
    let size = [size.width as f64, size.height as f64];
    Some(anthropic_tokens(size).max(openai_tokens(size)))
}

/// Returns how many squares of this many pixels cover a picture.
fn squares([width, height]: [f64; 2], side: f64) -> usize {
    ((width / side).ceil() * (height / side).ceil()) as usize
}

/// Scales a picture down by a factor of at most 1.
fn scaled([width, height]: [f64; 2], factor: f64) -> [f64; 2] {
    let factor = factor.min(1.0);
    [width * factor, height * factor]
}

/// A token for each 28 x 28 pixels, after the picture is scaled to at most 2,576 pixels a side and 4,784 tokens:
/// <https://platform.claude.com/docs/en/build-with-claude/vision>.
fn anthropic_tokens(size: [f64; 2]) -> usize {
    squares(scaled(size, 2576.0 / size[0].max(size[1])), 28.0).min(4784)
}

/// 85 tokens and 170 for each 512 x 512 pixels, after the picture is scaled into a square of 2,048 pixels and to a shorter side
/// of 768: <https://platform.openai.com/docs/guides/images-vision>.
fn openai_tokens(size: [f64; 2]) -> usize {
    let size = scaled(size, 2048.0 / size[0].max(size[1]));
    let size = scaled(size, 768.0 / size[0].min(size[1]));
    85 + 170 * squares(size, 512.0)
}

/// Returns the number of pages of a PDF: of the objects of that type, also in compressed object streams. `None` if there is
/// none to be seen, as in an encrypted file.
fn pdf_pages(pdf: &[u8]) -> Option<usize> {
    let mut pages = page_objects(pdf);
    for (at, _) in found(pdf, b"/ObjStm") {
        let Some((begin, _)) = found(&pdf[at..], b"stream").next() else { continue };
        let rest = &pdf[at + begin + b"stream".len()..];
        let body = rest.strip_prefix(b"\r\n").or_else(|| rest.strip_prefix(b"\n")).unwrap_or(rest);
        let mut objects = Vec::new();
        // A stream that is cut or of another compression has the pages that could be read.
        let _ = ZlibDecoder::new(body).take(MAX_STREAM).read_to_end(&mut objects);
        pages += page_objects(&objects);
    }
    (pages > 0).then_some(pages)
}

/// Counts the dictionaries with `/Type /Page`.
fn page_objects(bytes: &[u8]) -> usize {
    let is_page = |(_, rest): &(usize, &[u8])| {
        let name = rest.trim_ascii_start().strip_prefix(b"/Page");
        name.is_some_and(|end| !end.first().is_some_and(u8::is_ascii_alphanumeric))
    };
    found(bytes, b"/Type").filter(is_page).count()
}

/// Returns where a word is, and what follows it.
fn found<'b>(bytes: &'b [u8], word: &'static [u8]) -> impl Iterator<Item = (usize, &'b [u8])> {
    let is_there = move |at: &usize| bytes[*at..].starts_with(word);
    (0..bytes.len()).filter(is_there).map(move |at| (at, &bytes[at + word.len()..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_count_as_the_published_examples() {
        // The examples of both pages.
        for (size, anthropic, openai) in [
            ([200.0, 200.0], 64, 255),
            ([1000.0, 1000.0], 1296, 765),
            ([1024.0, 1024.0], 1369, 765),
            ([2048.0, 4096.0], 4232, 1105),
            ([8000.0, 8000.0], 4784, 765),
        ] {
            assert_eq!((anthropic_tokens(size), openai_tokens(size)), (anthropic, openai), "{size:?}");
        }
    }
}
