//! The pieces of a long query: its sentences, and the blocks of code, logs and quotations in it.
//!
//! A prompt is mostly about how to answer, or about something that is not stored, and a few of its sentences ask for what
//! is. Scored as one text, the others dilute these. So each piece is scored by itself, with a weight: how rare the terms of
//! the piece are, and how many of them a message has, beside the other pieces. What asks weighs more than what states.
//! A question that says less than the sentence before it ("How did that end?") is scored together with it. A question far from
//! both ends of a long text is a part of what the text tells.
//!
//! A text that asks nothing and of which several pieces say as much as the best one, as a page of a diary, is about all of
//! them: the words of the whole text decide then.
//!
//! A query of up to two sentences is one piece.

use std::ops::Range;

/// The most pieces of a query, without those that join a question with the sentence before it. The others count for the
/// words of the whole text alone.
const MAX_PIECES: usize = 8;
/// The most questions that are among them: the last ones.
const MAX_QUESTIONS: usize = 3;
/// The number of first and of last sentences whose questions the text asks.
const ASKING: usize = 6;
/// The number of sentences up to which a query is not cut.
const FEW_SENTENCES: usize = 2;
/// The number of lines from which on lines that are no sentences are one block.
const BLOCK_LINES: usize = 3;

/// The weight of a statement, where others ask, and of one directly before a question, which may be about it.
const STATEMENT: f32 = 0.4;
const BEFORE: f32 = 0.65;
/// How many times as much as the question a statement may say, to count by what it says.
const MOST_INFORMATION: f32 = 2.0;
/// How many times as much as a question the sentence before it must say, for both to be scored together.
const JOINED: f32 = 1.1;
/// The least weight of a piece that is scored.
const LEAST_WEIGHT: f32 = 0.25;

/// The weight of the words of the whole text beside those of its pieces: this times a power of the number of pieces that say
/// as much as the best one, up to a limit. It is the limit for a text that asks nothing, from so many pieces on that say so
/// much.
const WHOLE: f32 = 0.3;
const WHOLE_POWER: i32 = 4;
const MOST_WHOLE: f32 = 100.0;
const PAGE_PIECES: usize = 3;
const PAGE_ALIKE: f32 = 0.2;

/// A piece of a query's text.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Piece {
    /// Its bytes in the text.
    pub(super) range: Range<usize>,
    pub(super) kind: PieceKind,
}

/// A piece of a query's text, embedded.
#[derive(Clone, Debug)]
pub(super) struct QueryPiece {
    pub(super) piece: Piece,
    /// One for each of its chunks.
    pub(super) vectors: Vec<Vec<f32>>,
    /// The share of its letters in words that the model knows.
    pub(super) known_words: f32,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum PieceKind {
    Statement,
    Question,
    /// A question with the sentence before it: the positions of both among the pieces.
    Joined {
        question: usize,
        before: usize,
    },
}

/// Cuts the text of a query into its pieces, the most important ones first. None if it is one piece.
///
/// Cost: linear in the length of the text.
pub(super) fn pieces(text: &str) -> Vec<Piece> {
    let sentences = sentences(text);
    if sentences.len() <= FEW_SENTENCES {
        return Vec::new();
    }
    let is_near_end = |at: usize| at < ASKING || at + ASKING >= sentences.len();
    let is_question = |at: usize| text[sentences[at].clone()].trim_end_matches(is_closing).ends_with(['?', '？', '؟']);
    let asks = |at: usize| is_near_end(at) && is_question(at);
    let questions: Vec<usize> = (0..sentences.len()).rev().filter(|&at| asks(at)).take(MAX_QUESTIONS).collect();
    let before = |at: usize| at.checked_sub(1).filter(|before| !questions.contains(before));
    let mut chosen = questions.clone();
    chosen.extend(questions.iter().filter_map(|&at| before(at)));
    let mut others: Vec<usize> = (0..sentences.len()).filter(|at| !chosen.contains(at)).collect();
    others.sort_by_key(|&at| std::cmp::Reverse(sentences[at].len()));
    chosen.extend(others);
    chosen.truncate(MAX_PIECES);
    let kind = |at: usize| if questions.contains(&at) { PieceKind::Question } else { PieceKind::Statement };
    let mut pieces: Vec<Piece> =
        chosen.iter().map(|&at| Piece { range: sentences[at].clone(), kind: kind(at) }).collect();
    for (question, &at) in questions.iter().enumerate() {
        let position = before(at).and_then(|before| chosen.iter().position(|&other| other == before));
        if let Some(before) = position {
            let range = pieces[before].range.start..pieces[question].range.end;
            pieces.push(Piece { range, kind: PieceKind::Joined { question, before } });
        }
    }
    pieces
}

/// Returns the weight of each piece, 1 for the greatest, and 0 for pieces that are not scored. `information` is how much
/// each piece says that the namespace has something about; that of joined pieces is not read.
pub(super) fn weights(pieces: &[Piece], information: &[f32]) -> Vec<f32> {
    let of_kind = |kind: PieceKind| pieces.iter().zip(information).filter(move |(piece, _)| piece.kind == kind);
    let asked = of_kind(PieceKind::Question).map(|(_, &says)| says).reduce(f32::max);
    let is_before =
        |at: usize| pieces.iter().any(|other| matches!(other.kind, PieceKind::Joined { before, .. } if before == at));
    let weight = |(at, (piece, &says)): (usize, (&Piece, &f32))| match (piece.kind, asked) {
        (PieceKind::Joined { .. }, _) => 0.0,
        (PieceKind::Statement, Some(asked)) => {
            let share = if is_before(at) { BEFORE } else { STATEMENT };
            share * says.min(MOST_INFORMATION * asked)
        }
        _ => says,
    };
    let mut weights: Vec<f32> = pieces.iter().zip(information).enumerate().map(weight).collect();
    let mut are_scored: Vec<bool> =
        pieces.iter().map(|piece| !matches!(piece.kind, PieceKind::Joined { .. })).collect();
    for (at, piece) in pieces.iter().enumerate() {
        if let PieceKind::Joined { question, before } = piece.kind
            && information[before] >= JOINED * information[question]
        {
            weights[at] = information[before];
            (weights[question], weights[before]) = (0.0, 0.0);
            are_scored[at] = true;
            (are_scored[question], are_scored[before]) = (false, false);
        }
    }
    let greatest = weights.iter().copied().fold(0.0, f32::max);
    let scaled = |(weight, is_scored): (f32, bool)| match greatest > 0.0 {
        true => weight / greatest,
        false => f32::from(u8::from(is_scored)),
    };
    let weights = weights.into_iter().zip(are_scored).map(scaled);
    weights.map(|weight| if weight < LEAST_WEIGHT { 0.0 } else { weight }).collect()
}

/// Returns the weight of the words of the whole text beside those of its pieces, which have these weights.
pub(super) fn whole_weight(pieces: &[Piece], weights: &[f32]) -> f32 {
    let alike = weights.iter().map(|weight| weight * weight).sum::<f32>() - 1.0;
    let asks = pieces.iter().any(|piece| piece.kind != PieceKind::Statement);
    match !asks && pieces.len() >= PAGE_PIECES && alike >= PAGE_ALIKE {
        true => MOST_WHOLE,
        false => (WHOLE * alike.powi(WHOLE_POWER)).min(MOST_WHOLE),
    }
}

/// Returns the bytes of each sentence and block, without white space around them.
fn sentences(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    for paragraph in paragraphs(text) {
        if is_block(&text[paragraph.clone()]) {
            push(text, paragraph, &mut found);
            continue;
        }
        let begin = paragraph.start;
        let part = &text[paragraph.clone()];
        let mut from = 0;
        let mut chars = part.char_indices().peekable();
        while let Some((at, c)) = chars.next() {
            let mut end = at + c.len_utf8();
            let ends = match c {
                '\n' | '。' | '！' | '？' | '؟' => true,
                '.' | '!' | '?' | '…' => {
                    while let Some(&(_, next)) = chars.peek()
                        && (is_closing(next) || matches!(next, '.' | '!' | '?' | '…'))
                    {
                        end += next.len_utf8();
                        chars.next();
                    }
                    let rest = &part[end..];
                    let next = rest.trim_start().chars().next();
                    rest.starts_with(char::is_whitespace)
                        && next.is_some_and(|next| !next.is_lowercase())
                        && !(c == '.' && is_abbreviation(&part[from..at]))
                }
                _ => false,
            };
            if ends {
                push(text, begin + from..begin + end, &mut found);
                from = end;
            }
        }
        push(text, begin + from..paragraph.end, &mut found);
    }
    found
}

/// Returns the bytes of fenced blocks of code, and of what is between empty lines elsewhere.
fn paragraphs(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let (mut begin, mut at, mut is_fenced) = (0, 0, false);
    for line in text.split_inclusive('\n') {
        let end = at + line.len();
        let is_fence = line.trim_start().starts_with("```");
        if is_fence && is_fenced {
            found.push(begin..end);
            begin = end;
        } else if is_fence || line.trim().is_empty() && !is_fenced {
            found.push(begin..at);
            begin = at;
        }
        is_fenced ^= is_fence;
        at = end;
    }
    found.push(begin..text.len());
    found.retain(|paragraph| !text[paragraph.clone()].trim().is_empty());
    found
}

/// Returns true for code, logs and quotations: lines that are fenced or quoted, or that mostly do not end as sentences do.
fn is_block(paragraph: &str) -> bool {
    let lines = || paragraph.lines().filter(|line| !line.trim().is_empty());
    let is_sentence = |line: &str| line.trim_end().ends_with(['.', '!', '?', ':', '…', '。', '！', '？', '"', '”']);
    let is_quoted = |line: &str| line.trim_start().starts_with('>');
    let count = lines().count();
    paragraph.trim_start().starts_with("```")
        || lines().all(is_quoted)
        || count >= BLOCK_LINES && 2 * lines().filter(|line| is_sentence(line)).count() < count
}

fn push(text: &str, range: Range<usize>, found: &mut Vec<Range<usize>>) {
    let part = &text[range.clone()];
    let start = range.start + (part.len() - part.trim_start().len());
    let trimmed = start..start + part.trim().len();
    if text[trimmed.clone()].contains(char::is_alphanumeric) {
        found.push(trimmed);
    }
}

fn is_closing(c: char) -> bool {
    matches!(c, '"' | '\'' | ')' | ']' | '”' | '’' | '»' | '“')
}

/// Returns true if the full stop after a text is that of "Dr.", "J. K." or "3. Mai".
fn is_abbreviation(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let word = word.trim_start_matches(|c: char| !c.is_alphanumeric());
    let letters = word.chars().count();
    let is_title = letters <= 3 && word.starts_with(char::is_uppercase) && word.chars().all(char::is_alphabetic);
    is_title || letters == 1 || word.contains('.') || letters <= 2 && word.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_the_ends_of_sentences() {
        let check = |text: &str, wanted: &[&str]| {
            let found: Vec<&str> = sentences(text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, wanted);
        };
        check("First. Two! Three?", &["First.", "Two!", "Three?"]);
        check(
            "What did Dr. Okafor say to J. K. Brown on the 3. Mai, e.g. about me?",
            &["What did Dr. Okafor say to J. K. Brown on the 3. Mai, e.g. about me?"],
        );
        check(
            "She asked \"Why?\" and left. \"Never.\" He sat down...",
            &["She asked \"Why?\" and left.", "\"Never.\"", "He sat down..."],
        );
        check("我住在哪里？请简短回答。谢谢", &["我住在哪里？", "请简短回答。", "谢谢"]);
        check("It is 3.5 km to example.com today", &["It is 3.5 km to example.com today"]);
        check("a line\nanother line", &["a line", "another line"]);
        check(" . \n\n ... ", &[]);
        check("", &[]);
    }

    #[test]
    fn code_logs_and_quotations_are_one_piece_each() {
        let check = |block: &str| {
            let text = format!("Look at this.\n\n{block}\n\nWhat is wrong? I am lost.");
            let found: Vec<&str> = sentences(&text).into_iter().map(|range| &text[range]).collect();
            assert_eq!(found, ["Look at this.", block, "What is wrong?", "I am lost."]);
        };
        check("```\nlet a = 1. + 2.;\n\nlet b = a? ;\n```");
        check("> Hi. How are you?\n> Fine. Thanks.");
        check("12:01 INFO started\n12:02 WARN no route. Retry\n12:03 ERROR gone");
    }

    #[test]
    fn questions_come_first_and_pieces_are_few() {
        let check = |text: &str, wanted: &[(&str, PieceKind)]| {
            let found = pieces(text);
            let found: Vec<_> = found.iter().map(|piece| (&text[piece.range.clone()], piece.kind)).collect();
            assert_eq!(found, wanted);
        };
        let (statement, question) = (PieceKind::Statement, PieceKind::Question);
        check("I sold it. For how much?", &[]);
        check(
            "Be brief. I sold the old boat. For how much?",
            &[
                ("For how much?", question),
                ("I sold the old boat.", statement),
                ("Be brief.", statement),
                ("I sold the old boat. For how much?", PieceKind::Joined { question: 0, before: 1 }),
            ],
        );
        let many = "Is this one of many? And so on it goes. ".repeat(10_000);
        assert_eq!(pieces(&many).len(), MAX_PIECES + MAX_QUESTIONS);
    }

    #[test]
    fn what_asks_weighs_more_unless_it_says_less_than_the_sentence_before_it() {
        let pieces = pieces("Be brief. I sold the old boat. For how much?");
        let rounded = |information: [f32; 3]| -> Vec<f32> {
            let all = information.into_iter().chain([0.0]).collect::<Vec<_>>();
            weights(&pieces, &all).into_iter().map(|weight| (weight * 100.0).round() / 100.0).collect()
        };
        assert_eq!(rounded([4.0, 4.0, 1.0]), [1.0, 0.65, 0.0, 0.0]);
        assert_eq!(rounded([1.0, 4.0, 1.0]), [0.0, 0.0, 0.0, 1.0]);
        assert_eq!(rounded([0.0, 0.0, 0.0]), [0.0, 0.0, 1.0, 1.0]);
    }
}
