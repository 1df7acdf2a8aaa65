//! Reads LoCoMo as it is published: `locomo10.json` (Maharana et al. 2024), a list of conversations with questions.
//!
//! A conversation becomes the namespace `locomo/SAMPLE_ID`, and a turn a message with the `dia_id` as id and the speaker
//! as name. The role of `speaker_a` is user, that of `speaker_b` assistant. A session has one time, without a zone: its
//! first turn gets that time in UTC, and each turn 20 seconds more than the one before. The caption of a photo is
//! appended to the text.

use std::{
    collections::{BTreeMap, HashSet},
    fmt,
    path::Path,
};

use anyhow::{Context, bail, ensure};
use mnemon::{Message, Namespace, Role, Timestamp};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, Visitor},
};

use super::{
    super::set::{ADVERSARIAL, Benchmark, Question, Set},
    elements::{self, parse_time},
};
use crate::output::{self, counted};

const TIME_FORMAT: &str = "%I:%M %p on %d %B, %Y";
const TURN_MICROS: i64 = 20_000_000;
/// Number of ignored pieces of evidence that are listed.
const SHOWN: usize = 10;
const CATEGORIES: [&str; 5] = ["multi-hop", "temporal", "open-domain", "single-hop", ADVERSARIAL];

#[derive(Deserialize)]
struct Sample {
    sample_id: String,
    conversation: Conversation,
    qa: Vec<Labelled>,
}

#[derive(Deserialize)]
struct Labelled {
    question: String,
    #[serde(default)]
    evidence: Vec<String>,
    category: usize,
}

#[derive(Deserialize)]
struct Turn {
    speaker: String,
    dia_id: String,
    #[serde(default)]
    text: String,
    blip_caption: Option<String>,
}

/// A conversation, whose sessions are fields with numbered names.
#[derive(Default)]
struct Conversation {
    speaker_a: String,
    speaker_b: String,
    sessions: BTreeMap<usize, Vec<Turn>>,
    times: BTreeMap<usize, String>,
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;

        impl<'de> Visitor<'de> for Fields {
            type Value = Conversation;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object with speaker_a, speaker_b, session_1 and so on")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Conversation, A::Error> {
                let mut conversation = Conversation::default();
                while let Some(name) = fields.next_key::<String>()? {
                    let numbered = |name: &str| name.strip_prefix("session_")?.parse::<usize>().ok();
                    let dated = name.strip_suffix("_date_time").and_then(numbered);
                    if name == "speaker_a" {
                        conversation.speaker_a = fields.next_value()?;
                    } else if name == "speaker_b" {
                        conversation.speaker_b = fields.next_value()?;
                    } else if let Some(number) = dated {
                        conversation.times.insert(number, fields.next_value()?);
                    } else if let Some(number) = numbered(&name) {
                        conversation.sessions.insert(number, fields.next_value()?);
                    } else {
                        fields.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(conversation)
            }
        }

        deserializer.deserialize_map(Fields)
    }
}

/// A data set that was read, and counts of what was unusual in it.
#[derive(Default)]
struct Reader {
    messages: Vec<(Namespace, Message)>,
    questions: Vec<Question>,
    /// Number of turns without text.
    empty: usize,
    /// Number of pieces of evidence that are not written as ids, and name a message all the same.
    repaired: usize,
    /// The pieces of evidence that name no message.
    ignored: Vec<String>,
}

/// Reads a file in LoCoMo's layout.
pub(super) fn read(path: &Path, name: String) -> anyhow::Result<Set> {
    let mut reader = Reader::default();
    elements::each(path, |sample| reader.take(sample))?;
    let Reader { messages, questions, empty, repaired, ignored } = reader;
    if empty > 0 {
        output::note(format!("{name}: left out {} without text", counted(empty, "turn")));
    }
    if repaired > 0 {
        output::note(format!("{name}: {} of evidence read as ids, though not written so", counted(repaired, "piece")));
    }
    if !ignored.is_empty() {
        let (count, shown) = (ignored.len(), ignored.iter().take(SHOWN));
        let shown = shown.map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if count > SHOWN { format!(" and {} more", count - SHOWN) } else { String::new() };
        output::note(format!(
            "{name}: ignored {} of evidence without a message: {shown}{more}",
            counted(count, "piece")
        ));
    }
    Ok(Set::new(name, messages, questions, Benchmark::None))
}

impl Reader {
    fn take(&mut self, sample: Sample) -> anyhow::Result<()> {
        let id = sample.sample_id.clone();
        self.take_sample(sample).with_context(|| format!("sample {id:?}"))
    }

    fn take_sample(&mut self, Sample { sample_id, conversation, qa }: Sample) -> anyhow::Result<()> {
        let namespace = Namespace::from_labels(["locomo", sample_id.as_str()])?;
        let Conversation { speaker_a, speaker_b, sessions, times } = conversation;
        let mut ids = HashSet::new();
        for (number, turns) in sessions {
            let text = times.get(&number).map_or("", String::as_str);
            let context = || format!("session_{number}_date_time");
            let start = parse_time(text, TIME_FORMAT).with_context(context)?;
            for (at, Turn { speaker, dia_id, text, blip_caption }) in turns.into_iter().enumerate() {
                let role = match &speaker {
                    name if *name == speaker_a => Role::User,
                    name if *name == speaker_b => Role::Assistant,
                    _ => bail!("{dia_id}: the speaker {speaker:?} is neither {speaker_a:?} nor {speaker_b:?}"),
                };
                let content = match blip_caption {
                    Some(caption) => format!("{text} [shares a photo: {caption}]"),
                    None => text,
                };
                if content.trim().is_empty() {
                    self.empty += 1;
                    continue;
                }
                let mut message = Message::new(role, content).with_id(&dia_id).in_session(format!("s{number}"));
                message.name = Some(speaker);
                message.created_at = Timestamp::from_micros(start.as_micros() + at as i64 * TURN_MICROS);
                message.check().with_context(|| dia_id.clone())?;
                ensure!(ids.insert(dia_id), "two turns have the dia_id {:?}; make each unique", message.id);
                self.messages.push((namespace.clone(), message));
            }
        }
        for (at, Labelled { question, evidence, category }) in qa.into_iter().enumerate() {
            let name = CATEGORIES.get(category.wrapping_sub(1));
            let name = name.with_context(|| format!("qa {at}: category {category} is not one of 1 to 5"))?;
            let mut labelled = Question::new(format!("{sample_id}/q{at}"), namespace.clone(), question);
            labelled.category = (*name).to_owned();
            for written in evidence.iter().flat_map(|text| pieces(text)) {
                match dia_id(written).filter(|id| ids.contains(id)) {
                    Some(id) => {
                        self.repaired += usize::from(id != written);
                        if !labelled.relevant.contains(&id) {
                            labelled.relevant.push(id);
                        }
                    }
                    None => self.ignored.push(format!("{written:?} of {}", labelled.id)),
                }
            }
            self.questions.push(labelled);
        }
        Ok(())
    }
}

/// Splits evidence such as `D8:6; D9:17`: it should be one id, and sometimes is several.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| c.is_whitespace() || ";,()[]".contains(c)).filter(|piece| !piece.is_empty())
}

/// Reads an id such as `D8:6`, also if it is written as `D:8:6` or `D08:06`.
fn dia_id(text: &str) -> Option<String> {
    let mut numbers = text.strip_prefix('D')?.split(':').filter(|part| !part.is_empty());
    let mut number = || numbers.next()?.parse::<usize>().ok();
    let (session, turn) = (number()?, number()?);
    numbers.next().is_none().then(|| format!("D{session}:{turn}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_split_and_repaired() {
        let check = |text: &str, wanted: &[Option<&str>]| {
            let ids: Vec<Option<String>> = pieces(text).map(dia_id).collect();
            assert_eq!(ids.iter().map(Option::as_deref).collect::<Vec<_>>(), wanted, "{text}");
        };
        check("D1:3", &[Some("D1:3")]);
        check("D8:6; D9:17", &[Some("D8:6"), Some("D9:17")]);
        check("D9:1 D4:4,D4:6", &[Some("D9:1"), Some("D4:4"), Some("D4:6")]);
        check("D:11:26", &[Some("D11:26")]);
        check("D30:05", &[Some("D30:5")]);
        check("", &[]);
        check("D x D1 D1:2:3 D1:", &[None; 5]);
    }

    #[test]
    fn a_sample_becomes_messages_and_questions() {
        let sample = serde_json::json!({
            "sample_id": "conv-1",
            "conversation": {
                "speaker_a": "Ann", "speaker_b": "Bo", "other": [1, {"x": 2}],
                "session_2_date_time": "12:05 am on 1 January, 2024", "session_1_date_time": "1:56 pm on 8 May, 2023",
                "session_10_date_time": "9:00 am on 2 January, 2024",
                "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "Look!", "blip_caption": "a red boat"}],
                "session_1": [
                    {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi."},
                    {"speaker": "Bo", "dia_id": "D1:2", "text": "Hello."},
                    {"speaker": "Bo", "dia_id": "D1:3", "text": " "},
                ],
            },
            "qa": [
                {"question": "Who?", "answer": 7, "evidence": ["D1:1", "D1:01; D9:9"], "category": 1},
                {"question": "What?", "evidence": [], "category": 5, "adversarial_answer": "x"},
            ],
        });
        let mut reader = Reader::default();
        reader.take(serde_json::from_value(sample).unwrap()).unwrap();
        let lines: Vec<String> = reader
            .messages
            .iter()
            .map(|(namespace, message)| {
                let Message { id, session, role, name, created_at, .. } = message;
                let role = role.as_str();
                format!("{namespace} {session} {id} {role} {name:?} {} {}", created_at.unwrap(), message.text())
            })
            .collect();
        assert_eq!(
            lines,
            [
                "locomo/conv-1 s1 D1:1 user Some(\"Ann\") 2023-05-08T13:56:00Z Hi.",
                "locomo/conv-1 s1 D1:2 assistant Some(\"Bo\") 2023-05-08T13:56:20Z Hello.",
                "locomo/conv-1 s2 D2:1 user Some(\"Ann\") 2024-01-01T00:05:00Z Look! [shares a photo: a red boat]",
            ]
        );
        assert_eq!((reader.empty, reader.repaired, reader.ignored), (1, 1, vec!["\"D9:9\" of conv-1/q0".to_owned()]));
        let [one, two] = reader.questions.as_slice() else { panic!() };
        assert_eq!((&*one.id, &*one.category, &one.relevant[..]), ("conv-1/q0", "multi-hop", &["D1:1".to_owned()][..]));
        assert!(two.is_adversarial() && two.relevant.is_empty());
    }
}
