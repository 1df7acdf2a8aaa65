//! Compounds: names and identifiers of several parts, such as "QX-99", "getUserById", "AT&T", "ada@example.com", paths
//! and URLs.
//!
//! A compound is cut into *pieces* where a connector such as "-" or "/", a change from small letters to capitals, or one
//! between letters and digits divides it. Pieces without a connector between them make a word, words with tight
//! connectors a group, groups with loose connectors a whole. Each piece has a term, and each word, group and whole of
//! several pieces one more, of its pieces joined: so "QX-99", "QX99" and "qx 99" find one another, and the one that is
//! spelled like the query outranks those that have only its parts. `numbers` knows how numbers are joined.

use super::{
    characters::{is_apostrophe, is_joint},
    pieces::{
        Gap, MAX_WORD_PIECES, Piece, SHORT_HASH_BYTES, connection, drop_version_letters, is_hash, split_word,
        starts_with_digit, without_possessive,
    },
    stems::{STOP_WORD, term},
    terms::{Case, TermWriter},
};

/// Maximum number of pieces that are joined. A longer compound is cut, so that its terms take linear time.
const MAX_PIECES: usize = 32;
/// Maximum length of a joined form in bytes.
const MAX_JOINED_BYTES: usize = 192;
/// Length of a name that a sign may follow, as in "Notepad++", in bytes.
const MAX_SIGNED_BYTES: usize = 16;
/// Characters before a word with which a sentence begins.
const OPENING: [char; 12] = ['"', '(', '[', '{', '“', '”', '„', '‘', '«', '»', '‹', '¿'];
/// Characters after a word with which a sentence ends.
const CLOSING: [char; 18] =
    ['.', '!', '?', ':', ';', '"', ')', ']', '}', '…', '“', '”', '»', '«', '—', '。', '！', '？'];

impl TermWriter<'_> {
    /// Appends the terms of a text without white space, in a script with spaces. In languages other than English an
    /// apostrophe separates words, or a word and its suffix: "l'homme", "Ankara'da".
    pub(super) fn compound(&mut self, text: &str) {
        if self.uuid(text) {
            return;
        }
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.clear();
        let mut count = 0;
        let mut has_numbers_only = true;
        let separates = |c| is_joint(c) || (!self.stems.is_english() && is_apostrophe(c));
        let mut last = 0;
        let mut read = 0;
        while let Some(begin) = text[read..].find(|c| !separates(c)).map(|at| read + at) {
            read = text[begin..].find(separates).map_or(text.len(), |at| begin + at);
            let word = text[begin..read].trim_start_matches(is_apostrophe);
            let begin = read - word.len();
            let word = word.trim_end_matches(is_apostrophe);
            let word = if self.stems.is_english() { without_possessive(word) } else { word };
            if !word.contains(char::is_alphanumeric) {
                continue;
            }
            if count == 0 && text[..begin].contains(OPENING) {
                self.capitals.end_sentence(self.terms);
            }
            if pieces.len() + MAX_WORD_PIECES > MAX_PIECES {
                self.write(text, &mut pieces);
                pieces.clear();
            }
            let (gap, connector) = match pieces.last() {
                None => (Gap::Break, ' '),
                Some(before) => connection(&text[last..begin], before.is_number, starts_with_digit(word)),
            };
            split_word(text, begin..begin + word.len(), (gap, connector), !self.words_only(), &mut pieces);
            count += 1;
            has_numbers_only &= word.bytes().all(|byte| byte.is_ascii_digit());
            last = read;
        }
        if let [piece] = pieces[..]
            && count == 1
            && !piece.is_number
        {
            let word = &text[piece.begin..piece.end];
            self.word(word, Case::of(word));
            self.name_forms(text, &pieces, 0);
        } else if count > 0 {
            self.capitals.word(Case::Small, STOP_WORD, self.terms);
            let is_one_number = self.write(text, &mut pieces) || self.words_only();
            if has_numbers_only && !is_one_number && self.phone.add(text) {
                pieces.clear();
                self.pieces = pieces;
                return;
            }
        }
        self.phone_end();
        if count == 0 || text[last..].contains(CLOSING) {
            self.capitals.end_sentence(self.terms);
        }
        self.pieces = pieces;
    }

    /// Appends the terms of pieces. Returns true if they are a date or an amount.
    fn write(&mut self, text: &str, pieces: &mut Vec<Piece>) -> bool {
        drop_version_letters(text, pieces);
        let mut at = 0;
        let mut is_one_number = false;
        while at < pieces.len() {
            if pieces[at].is_number && !self.words_only() {
                let (count, is_special) = self.number(text, &mut pieces[at..]);
                is_one_number = is_special && count == pieces.len();
                at += count;
            } else {
                self.piece(text, pieces, at);
                at += 1;
            }
        }
        if !self.words_only() {
            for level in [Gap::Inside, Gap::Tight, Gap::Loose] {
                self.joined(text, pieces, level);
            }
        }
        is_one_number
    }

    fn piece(&mut self, text: &str, pieces: &[Piece], at: usize) {
        let word = &text[pieces[at].begin..pieces[at].end];
        let is_version = pieces.get(at + 1).is_some_and(|next| next.gap == Gap::Inside && next.is_number);
        let is_version_letter = is_version && word.eq_ignore_ascii_case("v");
        let has_term = is_version_letter || self.push_word(word);
        if !has_term && word.len() > 1 && Case::of(word) == Case::Capitals {
            self.terms.push(term(word));
        }
        self.name_forms(text, pieces, at);
    }

    /// Appends the term of a name with its sign, "C++", "C#", "A+" or ".NET", and that of the short form of a hash.
    fn name_forms(&mut self, text: &str, pieces: &[Piece], at: usize) {
        let Piece { begin, end, gap, .. } = pieces[at];
        let (word, after) = (&text[begin..end], &text[end..]);
        if self.words_only() {
            return;
        }
        if word.len() > SHORT_HASH_BYTES && is_hash(word) {
            self.push_word(&word[..SHORT_HASH_BYTES]);
        }
        if word.len() > MAX_SIGNED_BYTES || !word.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return;
        }
        let sign = match after.as_bytes() {
            [b'+', b'+', ..] => "++",
            [b'+', next, ..] | [b'#', next, ..] if next.is_ascii_alphanumeric() => "",
            [b'+', ..] => "+",
            [b'#', ..] => "#",
            _ => "",
        };
        let before = &text[..begin];
        let has_dot = gap == Gap::Break && before.ends_with('.') && !before.ends_with("..");
        for (prefix, sign) in [("", sign), (if has_dot { "." } else { "" }, "")] {
            if !prefix.is_empty() || !sign.is_empty() {
                self.folded.clear();
                self.folded.push_str(prefix);
                self.folded.push_str(word);
                self.folded.push_str(sign);
                self.folded.make_ascii_lowercase();
                self.terms.push(term(&self.folded));
            }
        }
    }

    /// Appends the terms of the pieces that connectors of a level join, at most.
    fn joined(&mut self, text: &str, pieces: &[Piece], level: Gap) {
        let mut begin = 0;
        for end in 1..=pieces.len() {
            if end < pieces.len() && pieces[end].gap <= level {
                continue;
            }
            let run = &pieces[begin..end];
            // "30pm" is no word in "9:30pm".
            let goes_on = level == Gap::Inside && run[0].is_number && run[0].gap <= Gap::Loose && begin > 0;
            let is_new =
                run[1..].iter().any(|piece| piece.gap == level) && run[1..].iter().any(|piece| !piece.is_joined);
            if is_new && !(goes_on && pieces[begin - 1].is_number) {
                self.join(text, run);
            }
            begin = end;
        }
    }

    fn join(&mut self, text: &str, mut run: &[Piece]) {
        let part = |piece: &Piece| &text[piece.begin..piece.end];
        // Of a URL, what is in all of its spellings.
        while let [first, rest @ ..] = run
            && ["http", "https", "www", "mailto"].iter().any(|scheme| part(first).eq_ignore_ascii_case(scheme))
            && !rest.is_empty()
        {
            run = rest;
        }
        let is_number = run.iter().all(|piece| piece.is_number);
        self.folded.clear();
        for (at, piece) in run.iter().enumerate() {
            let is_between_digits = at > 0 && piece.is_number && run[at - 1].is_number;
            if is_between_digits && (is_number || piece.connector == '.') && piece.connector != ',' {
                self.folded.push(piece.connector);
            }
            if self.folded.len() > MAX_JOINED_BYTES {
                break;
            }
            self.stems.fold(part(piece), &mut self.folded);
        }
        if run.len() > 1 && !self.push_folded() {
            // "I.T." is "IT".
            self.folded.make_ascii_uppercase();
            self.terms.push(term(&self.folded));
        }
    }

    /// Appends the term of a UUID, and returns true, if the text is one.
    fn uuid(&mut self, text: &str) -> bool {
        let text = text.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut parts =
            text.split('-').map(|part| part.len() * usize::from(part.bytes().all(|b| b.is_ascii_hexdigit())));
        let is_uuid = text.len() == 36 && [8, 4, 4, 4, 12].iter().all(|&length| parts.next() == Some(length));
        if is_uuid {
            self.phone_end();
            self.capitals.word(Case::Small, STOP_WORD, self.terms);
            self.push_word(text);
        }
        is_uuid
    }
}
