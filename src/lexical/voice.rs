//! Who wrote a text, as far as a query can name them, and whether the text asks something.

use super::Analyzer;

/// Maximum number of terms of a speaker's name. A query that has one of them names the speaker.
pub(super) const MAX_NAME_TERMS: usize = 4;

/// The ends of a question, in the scripts that have one. A Greek question mark is a semicolon, which says nothing.
const QUESTION_MARKS: [char; 4] = ['?', '？', '؟', '⁈'];

/// The speaker of a message, and whether it asks: stored with each of its documents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Voice {
    /// The terms of the speaker's name, at most [`MAX_NAME_TERMS`]; none if the message has no name.
    pub(crate) speaker: Vec<u64>,
    /// Whether the message ends with a question mark.
    pub(crate) is_question: bool,
}

impl Voice {
    /// Analyzes the name of a message's author, and the message's text.
    pub(crate) fn of(analyzer: &Analyzer, name: Option<&str>, text: &str) -> Self {
        let mut speaker = Vec::new();
        analyzer.terms(name.unwrap_or_default(), &mut speaker);
        speaker.truncate(MAX_NAME_TERMS);
        Voice { speaker, is_question: text.trim_end().ends_with(QUESTION_MARKS) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lexical::Language;

    #[test]
    fn names_have_the_terms_of_queries_and_questions_end_with_a_mark() {
        let analyzer = Analyzer::of(Language::English);
        let check = |name: Option<&str>, text: &str, named_by: &[&str], is_question: bool| {
            let voice = Voice::of(analyzer, name, text);
            assert_eq!(voice.is_question, is_question, "{text}");
            for query in ["What did Ada's sister say?", "Does Müller row?", "when?"] {
                let mut terms = Vec::new();
                analyzer.terms(query, &mut terms);
                let is_named = voice.speaker.iter().any(|term| terms.contains(term));
                assert_eq!(is_named, named_by.contains(&query), "{name:?}: {query}");
            }
        };
        check(Some("Ada"), "Rowing.", &["What did Ada's sister say?"], false);
        check(Some("Dr. Ada Muller"), "Why? \n", &["What did Ada's sister say?", "Does Müller row?"], true);
        check(Some("the"), "何？", &[], true);
        check(None, "?!", &[], false);
        check(Some("A B C D E F Ada"), "", &[], false);
    }
}
