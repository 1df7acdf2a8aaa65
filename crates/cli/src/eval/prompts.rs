//! Measures what an assembled prompt has of the evidence for a question that comes after general sentences, as in real
//! prompts.

use std::collections::HashSet;

use mnemon::{AssembleRequest, Message, Prompt};
use serde::Serialize;

use super::{
    answers::IngestedSet,
    figures::{self, Interval, figure, interval},
    set::Question,
};
use crate::{
    metrics::mean,
    output::{self, counted},
    progress::Progress,
};

/// The numbers of general sentences before the question.
const BEFORE: [usize; 3] = [0, 2, 5];
/// A session that no set has.
const SESSION: &str = "mnemon eval";

/// Sentences of prompts that say nothing about what is stored.
const GENERAL: [&str; 40] = [
    "Please keep the answer short.",
    "Thank you for your help earlier.",
    "I am writing this on my phone, so excuse the typos.",
    "Answer in one or two sentences.",
    "No need to apologise if you are not sure.",
    "I hope you are doing well.",
    "Let me ask you something.",
    "Do not use bullet points.",
    "I have been meaning to ask about this for a while.",
    "If something is unclear, ask me first.",
    "Be honest with me.",
    "Use plain words, no jargon.",
    "There is no hurry.",
    "I need this for a note that I am writing.",
    "You can skip the introduction.",
    "Just the facts, please.",
    "I may have told you this before.",
    "Take your time and think it through.",
    "My memory is not what it used to be.",
    "One more thing before I go.",
    "Sorry to bother you again.",
    "Please do not make anything up.",
    "I would like a clear answer this time.",
    "Explain it as you would to a friend.",
    "I am a little tired, so bear with me.",
    "That last answer was great.",
    "Please double-check before you reply.",
    "We can come back to the other topic later.",
    "I am asking out of curiosity.",
    "Write it so that I can forward it.",
    "Feel free to say that you do not know.",
    "I only have a minute.",
    "Back to what I wanted to know.",
    "Let us start with something simple.",
    "Please be polite in your wording.",
    "Good morning!",
    "It is okay if the answer is incomplete.",
    "Keep the tone friendly.",
    "I would rather have a precise answer than a long one.",
    "Here is my question for today.",
];

/// The prompts of a set's questions, for each number of general sentences before them.
#[derive(Serialize)]
pub(super) struct Prompts(Vec<AfterSentences>);

/// Means over the prompts of all but the adversarial questions, which come after some general sentences.
#[derive(Serialize)]
struct AfterSentences {
    sentences: usize,
    /// Number of questions with relevant messages.
    questions: usize,
    /// Share of these questions with a relevant message in the prompt.
    found: Interval,
    /// Share of a question's relevant messages that are in the prompt.
    evidence: f64,
    /// Share of relevant messages among those in the prompts.
    precision: f64,
    /// Number of questions without relevant messages.
    unanswerable: usize,
    /// Share of these whose prompt has no recalled message.
    empty: f64,
}

impl Prompts {
    pub(super) fn new(ingested: &IngestedSet) -> anyhow::Result<Self> {
        let set = ingested.set;
        let progress = Progress::new();
        progress.begin(&format!("{}, prompts", set.name), "questions", (BEFORE.len() * set.questions.len()) as u64);
        let mut measured = Vec::new();
        for sentences in BEFORE {
            let (mut found, mut evidence, mut empty) = (Vec::new(), Vec::new(), Vec::new());
            let (mut recalled, mut relevant) = (0, 0);
            for (at, question) in set.questions.iter().enumerate() {
                let prompt = assemble(ingested, question, after_general(&question.text, sentences, at))?;
                let ids: HashSet<&str> = prompt.recalled.iter().map(|recalled| recalled.id.as_str()).collect();
                if question.is_answerable() {
                    let hits = question.relevant.iter().filter(|id| ids.contains(id.as_str())).count();
                    found.push(f64::from(u8::from(hits > 0)));
                    evidence.push(hits as f64 / question.relevant.len() as f64);
                    recalled += ids.len();
                    relevant += hits;
                } else if question.relevant.is_empty() {
                    empty.push(f64::from(u8::from(ids.is_empty())));
                }
                progress.inc(1);
            }
            measured.push(AfterSentences {
                sentences,
                questions: found.len(),
                found: interval(&found),
                evidence: mean(&evidence),
                precision: relevant as f64 / (recalled as f64).max(1.0),
                unanswerable: empty.len(),
                empty: mean(&empty),
            });
        }
        Ok(Prompts(measured))
    }

    pub(super) fn print(&self) -> anyhow::Result<()> {
        let questions = self.0.first().map_or(0, |first| first.questions);
        output::text(&format!("\nprompts of {}", counted(questions, "answerable question")))?;
        let heads = ["general sentences before", "found", "evidence", "precision", "unanswerable", "empty"];
        let mut rows = vec![heads.map(str::to_owned).to_vec()];
        for after in &self.0 {
            let AfterSentences { sentences, found, evidence, precision, unanswerable, empty, .. } = after;
            let empty = if *unanswerable > 0 { figure(*empty) } else { "-".to_owned() };
            rows.push(vec![
                sentences.to_string(),
                figures::with_interval(*found),
                figure(*evidence),
                figure(*precision),
                unanswerable.to_string(),
                empty,
            ]);
        }
        figures::print(&rows)?;
        figures::define(&[
            ("found", "share of the questions with a relevant message in the assembled prompt"),
            ("evidence", "share of a question's relevant messages in its prompt"),
            ("precision", "share of relevant messages among those recalled into the prompts"),
            ("empty", "share of the unanswerable questions into whose prompts nothing is recalled"),
        ])
    }
}

/// Assembles the prompt of a question in a new session, at the time of the question.
fn assemble(ingested: &IngestedSet, question: &Question, text: String) -> anyhow::Result<Prompt> {
    let mut message = Message::user(text);
    message.created_at = ingested.set.asked_at(question);
    let memory = ingested.engine.memory(&question.namespace, SESSION).open()?;
    Ok(memory.blocking().assemble(AssembleRequest::new(message))?)
}

/// Puts general sentences before a question. Which ones depends on the number of the question.
fn after_general(question: &str, sentences: usize, number: usize) -> String {
    let general = (0..sentences).map(|at| GENERAL[(number * 7 + at * 11) % GENERAL.len()]);
    general.chain([question]).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn general_sentences_differ_and_come_first() {
        assert_eq!(after_general("Why?", 0, 3), "Why?");
        for number in 0..40 {
            let text = after_general("Why?", 5, number);
            assert!(text.ends_with(" Why?"), "{text}");
            let used: HashSet<_> = GENERAL.iter().filter(|sentence| text.contains(**sentence)).collect();
            assert_eq!(used.len(), 5, "{text}");
        }
    }
}
