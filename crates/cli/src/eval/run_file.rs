//! Reads and writes TREC run files: a line `QUERY Q0 DOCUMENT RANK SCORE NAME` for each hit.

use std::{
    collections::{HashMap, HashSet},
    io::Write,
    path::Path,
};

use anyhow::{Context, bail, ensure};
use mnemon::Role;

use super::{
    answers::{RankedMessage, Ranking},
    published::{PublishedIds, ids_of_questions},
    set::{Question, Set},
};
use crate::{
    input,
    output::{self, counted},
    output_file::OutputFile,
};

/// The name of our runs, in the last column.
const NAME: &str = "mnemon";

/// A run that was read.
pub(super) struct Run {
    /// The name in the last column.
    pub(super) name: String,
    /// The ranking of each question of the set, in the set's order.
    pub(super) rankings: Vec<Ranking>,
}

/// Writes the rankings of a set's questions. `trec_eval` sorts by score: a score that is not below the one before it is
/// written as the next lower number, to keep the order.
pub(super) fn write(mut file: OutputFile, set: &Set, rankings: &[Ranking]) -> anyhow::Result<()> {
    let (ids, questions) = (PublishedIds::new(set)?, ids_of_questions(set)?);
    for ((question, name), ranking) in set.questions.iter().zip(questions).zip(rankings) {
        let mut above = f32::INFINITY;
        for (at, message) in ranking.iter().enumerate() {
            above = if message.score < above { message.score } else { above.next_down() };
            let id = ids.of(&question.namespace, &message.id);
            writeln!(file, "{name} Q0 {id} {} {above} {NAME}", at + 1).with_context(|| file.writing())?;
        }
    }
    file.finish()
}

/// A line of a run.
struct Line {
    query: String,
    document: String,
    score: f32,
    name: String,
}

fn line(text: &str) -> anyhow::Result<Line> {
    let columns: Vec<&str> = text.split_whitespace().collect();
    let [query, _, document, _, score, name] = columns.as_slice() else {
        bail!("it has {} columns, not the 6 of QUERY Q0 DOCUMENT RANK SCORE NAME", columns.len());
    };
    let score: f32 = score.parse().with_context(|| format!("the score {score:?} is not a number"))?;
    ensure!(!score.is_nan(), "the score is not a number");
    Ok(Line { query: (*query).to_owned(), document: (*document).to_owned(), score, name: (*name).to_owned() })
}

/// Reads a run of a set's questions. Ranks it as `trec_eval` does: by score, and with equal scores the greater id
/// first. The column of ranks is not read.
pub(super) fn read(path: &Path, set: &Set) -> anyhow::Result<Run> {
    let (ids, questions) = (PublishedIds::new(set)?, ids_of_questions(set)?);
    let mut at: HashMap<&str, usize> = questions.iter().enumerate().map(|(at, id)| (id.as_str(), at)).collect();
    // Questions are also found by their ids in the set, where these differ.
    set.questions.iter().enumerate().for_each(|(number, question)| _ = at.entry(&question.id).or_insert(number));
    let mut found: Vec<Vec<(String, f32)>> = vec![Vec::new(); set.questions.len()];
    let (mut seen, mut unknown, mut run_name) = (HashSet::new(), HashSet::new(), None);
    let lines: Vec<()> = input::parse_all(input::open(path)?, path, |text| {
        let Line { query, document, score, name } = line(text)?;
        run_name.get_or_insert(name);
        let Some(&number) = at.get(query.as_str()) else {
            unknown.insert(query);
            return Ok(());
        };
        ensure!(seen.insert((number, document.clone())), "the document {document:?} is ranked twice for {query:?}");
        found[number].push((document, score));
        Ok(())
    })?;
    ensure!(!lines.is_empty(), "{}: the run is empty", path.display());
    if !unknown.is_empty() {
        output::note(format!(
            "{}: {} ignored, not in the set {}",
            path.display(),
            counted(unknown.len(), "query"),
            set.name
        ));
    }
    let missing = found.iter().filter(|ranking| ranking.is_empty()).count();
    if missing > 0 {
        output::note(format!(
            "{}: {} of the set without a line, counted as found nothing",
            path.display(),
            counted(missing, "question")
        ));
    }
    let rank = |(question, mut documents): (&Question, Vec<(String, f32)>)| -> Ranking {
        documents.sort_by(|(a, x), (b, y)| y.total_cmp(x).then_with(|| b.cmp(a)));
        let ranked = documents.into_iter().map(|(document, score)| match ids.find(&document, &question.namespace) {
            Some((namespace, message)) if *namespace == question.namespace => {
                RankedMessage { id: message.id.clone(), session: message.session.clone(), role: message.role, score }
            }
            // A message of another namespace, or of none, is not relevant. No session has a name with a control
            // character.
            _ => {
                let id = format!("\u{1}{document}");
                RankedMessage { session: id.clone(), id, role: Role::User, score }
            }
        });
        ranked.collect()
    };
    let rankings = set.questions.iter().zip(found).map(rank).collect();
    Ok(Run { name: run_name.unwrap_or_default(), rankings })
}

#[cfg(test)]
mod tests {
    use mnemon::Message;

    use super::{super::set::Benchmark, *};
    use crate::output_file::{self, Force};

    fn set() -> Set {
        let message =
            |namespace: &str, id: &str| (namespace.parse().unwrap(), Message::user("x").with_id(id).in_session("s"));
        let messages = vec![message("a", "1"), message("b", "1"), message("a", "2"), message("a", "3 x")];
        let question = |id: &str| Question::new(id, "a".parse().unwrap(), "?");
        Set::new("set".into(), messages, vec![question("q 1"), question("q2")], Benchmark::None)
    }

    fn ids(run: &Run) -> Vec<Vec<&str>> {
        run.rankings
            .iter()
            .map(|ranking| ranking.iter().map(|one| one.id.trim_start_matches('\u{1}')).collect())
            .collect()
    }

    #[test]
    fn a_written_run_is_read_back_in_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.run");
        let ranked = |id: &str, score| RankedMessage { id: id.into(), session: "s".into(), role: Role::User, score };
        let rankings = vec![vec![ranked("2", 1.5), ranked("3 x", 1.5), ranked("1", 2.0)], vec![]];
        let file = OutputFile::create(&path, output_file::TREC_RUN, Force { force: false }, None).unwrap();
        write(file, &set(), &rankings).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().next(), Some("q%201 Q0 a/2 1 1.5 mnemon"));
        assert!(text.contains(" a/1 3 ") && text.contains(" a/3%20x 2 "), "{text}");
        let set = set();
        let run = read(&path, &set).unwrap();
        assert_eq!((ids(&run), &*run.name), (vec![vec!["2", "3 x", "1"], vec![]], "mnemon"));
    }

    #[test]
    fn runs_of_others_are_ranked_by_score_and_id() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("b.run");
        let check = |text: &str, wanted: &str| {
            std::fs::write(&path, text).unwrap();
            let found = match read(&path, &set()) {
                Ok(run) => format!("{:?}", ids(&run)),
                Err(error) => format!("{error:#}"),
            };
            assert!(found.ends_with(wanted), "{found}");
        };
        check("q2 Q0 2 9 0.5 x\nq2 Q0 1 1 0.5 x\nq2 0 9 1 7 x\nq9 Q0 1 1 1 x", r#"[[], ["9", "2", "1"]]"#);
        // A message of another namespace is not that of the question's namespace.
        check("q2\tQ0\tb/1\t1\t1\tx\n", r#"[[], ["b/1"]]"#);
        check("q2 Q0 2 1 x\n", "b.run:1: it has 5 columns, not the 6 of QUERY Q0 DOCUMENT RANK SCORE NAME");
        check(
            "q2 Q0 2 1 1 x\n\nq2 Q0 2 1 high x\n",
            "b.run:3: the score \"high\" is not a number: invalid float literal",
        );
        check("q2 Q0 2 1 1 x\nq2 Q0 2 2 0 x\n", "b.run:2: the document \"2\" is ranked twice for \"q2\"");
        check("", "b.run: the run is empty");
    }
}
