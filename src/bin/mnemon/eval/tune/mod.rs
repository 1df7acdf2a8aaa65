//! `mnemon tune`

mod fit;
mod folds;
mod terms;

use std::collections::BTreeMap;

use anyhow::ensure;
use mnemon::{IndexKind, MAX_K, Precision};
use serde::Serialize;

use self::{
    fit::Example,
    folds::Unit,
    terms::{BUILT_IN, Candidate, PerTerm, TERMS},
};
use super::{
    bootstrap::{Interval, interval},
    ingested::IngestedSet,
    read::{LAYOUT_HELP, SetArgs},
    table,
};
use crate::{
    metrics::RelevantRanks,
    output::{self, Format},
    progress::Progress,
    status::Status,
    usage,
};

/// Fit the weights of the hybrid score's terms to labelled questions, and say whether that is better than the built-in
/// weights.
///
/// Recalls the hits of each question in a temporary database, and fits a factor for each term of their scores by listwise
/// logistic regression, with equal weights of the sets. Cross-validation says what such factors are worth on questions
/// that they were not fitted to: each fold is ranked with factors fitted on the others. Folds are made of namespaces if
/// there are 5 or more, or else of questions. Changes no database and no setting.
#[derive(clap::Args)]
#[command(after_long_help = LAYOUT_HELP, after_help = "Use --help to see how a layout is described.")]
pub(crate) struct Args {
    #[command(flatten)]
    sets: SetArgs,
    /// A model folder or name.
    #[arg(long, value_name = "DIR|NAME")]
    model: Option<String>,
    /// Number of hits of a question that are ranked again. Relevant messages beyond them count as not found.
    #[arg(long, value_name = "HITS", default_value_t = 200, value_parser = usage::within(10..=MAX_K))]
    depth: usize,
    /// Number of folds.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = usage::within(2..=1_000))]
    folds: usize,
}

/// A labelled question with its hits.
struct Question {
    /// The set and the namespace.
    group: String,
    /// Weight in the fit: 1 for the questions of a single set; those of several sets together weigh the same.
    weight: f64,
    relevant: Vec<String>,
    grades: Vec<u32>,
    candidates: Vec<Candidate>,
}

/// The result.
#[derive(Debug, Serialize)]
struct Tuned {
    sets: Vec<String>,
    model: String,
    questions: usize,
    /// Questions none of whose relevant messages is among the hits: no factors can help.
    not_found: usize,
    folds: usize,
    folds_of: &'static str,
    /// Fitted to all questions.
    factors: BTreeMap<&'static str, f64>,
    /// Lowest and highest factor of the folds.
    factors_of_folds: BTreeMap<&'static str, (f64, f64)>,
    built_in: Scores,
    fitted: Scores,
    cross_validated: Scores,
    /// Cross-validated less built-in, paired.
    difference: Scores,
    verdict: Verdict,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Scores {
    recall_at_10: Interval,
    ndcg_at_10: Interval,
}

/// Whether the fitted factors are better than the built-in weights, on questions that they were not fitted to.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    BuiltInIsAsGood,
    FittedIsBetter,
    FittedIsWorse,
    /// One figure rises and the other falls.
    Mixed,
}

pub(crate) fn run(args: Args, format: Format) -> anyhow::Result<Status> {
    let sets = args.sets.read()?;
    let (mut questions, mut model) = (Vec::new(), String::new());
    for set in &sets {
        let ingested = IngestedSet::new(set, args.model.as_deref(), IndexKind::default(), Precision::default())?;
        model = ingested.engine.model().to_string();
        questions.extend(recall(&ingested, args.depth)?);
    }
    let names: Vec<String> = sets.iter().map(|set| set.name.clone()).collect();
    ensure!(
        questions.len() >= 2,
        "{}: {} questions have labels and are not adversarial; label at least 2",
        names.join(", "),
        questions.len()
    );
    weigh(&mut questions);
    let tuned = tune(&questions, args.folds, names, model);
    match format {
        Format::Json => output::json(&tuned)?,
        Format::Text => tuned.print()?,
    }
    Ok(Status::SUCCESS)
}

/// Recalls the hits of the answerable questions of a set.
fn recall(ingested: &IngestedSet, depth: usize) -> anyhow::Result<Vec<Question>> {
    let set = ingested.set;
    let progress = Progress::new();
    progress.begin(&set.name, "questions", set.questions.len() as u64);
    let mut questions = Vec::new();
    for question in set.questions.iter().filter(|question| question.is_answerable()) {
        // A near duplicate of a hit may be relevant with other factors.
        let hits = ingested.recall(&question.namespace, set.ask(question).k(depth).keep_duplicates())?;
        questions.push(Question {
            group: format!("{}\n{}", set.name, question.namespace),
            weight: 1.0,
            candidates: hits.iter().map(|hit| Candidate::new(hit, &question.relevant)).collect(),
            relevant: question.relevant.clone(),
            grades: question.grades.clone(),
        });
        progress.inc(1);
    }
    Ok(questions)
}

/// Gives every set the same weight, so that the mean weight of a question is 1.
fn weigh(questions: &mut [Question]) {
    let set_of = |question: &Question| question.group.split('\n').next().unwrap_or_default().to_owned();
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    questions.iter().for_each(|question| *sizes.entry(set_of(question)).or_default() += 1);
    let (total, count) = (questions.len() as f64, sizes.len() as f64);
    for question in questions {
        let size = sizes.get(&set_of(question)).copied().unwrap_or(1) as f64;
        question.weight = total / (count * size);
    }
}

fn tune(questions: &[Question], folds: usize, sets: Vec<String>, model: String) -> Tuned {
    let groups: Vec<&str> = questions.iter().map(|question| &*question.group).collect();
    let (fold_of, unit) = folds::split(&groups, folds.min(questions.len()));
    let count = fold_of.iter().max().map_or(0, |last| last + 1);
    let fit_without = |fold: Option<usize>| {
        let others = questions.iter().zip(&fold_of).filter(|(_, own)| Some(**own) != fold);
        let examples =
            others.map(|(question, _)| Example { candidates: &question.candidates, weight: question.weight });
        fit::fit(&examples.collect::<Vec<_>>())
    };
    let progress = Progress::new();
    progress.begin("fitting", "folds", count as u64 + 1);
    let mut fitted: Vec<PerTerm> = (0..=count)
        .map(|fold| {
            let factors = fit_without((fold < count).then_some(fold));
            progress.inc(1);
            factors
        })
        .collect();
    drop(progress);
    let all = fitted.pop().unwrap_or(BUILT_IN);

    let ranks = |factors: &dyn Fn(usize) -> PerTerm| -> Vec<RelevantRanks> {
        questions.iter().enumerate().map(|(at, question)| question.ranks(&factors(at))).collect()
    };
    let built_in = ranks(&|_| BUILT_IN);
    let cross_validated = ranks(&|at| fitted[fold_of[at]]);
    let difference = Scores::difference(&cross_validated, &built_in);
    let extent = |at: usize| {
        fitted
            .iter()
            .map(|factors| factors[at])
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), factor| (low.min(factor), high.max(factor)))
    };
    Tuned {
        sets,
        model,
        questions: questions.len(),
        not_found: built_in.iter().filter(|ranks| ranks.ranks.is_empty()).count(),
        folds: count,
        folds_of: match unit {
            Unit::Namespaces => "namespaces",
            Unit::Questions => "questions",
        },
        factors: used(questions).map(|at| (TERMS[at].name, all[at])).collect(),
        factors_of_folds: used(questions).map(|at| (TERMS[at].name, extent(at))).collect(),
        fitted: Scores::of(&ranks(&|_| all)),
        built_in: Scores::of(&built_in),
        cross_validated: Scores::of(&cross_validated),
        verdict: Verdict::of(&difference),
        difference,
    }
}

/// Iterates over the terms that are not 0 everywhere.
fn used(questions: &[Question]) -> impl Iterator<Item = usize> + '_ {
    let is_used = |at: &usize| {
        questions.iter().any(|question| question.candidates.iter().any(|candidate| candidate.terms[*at] != 0.0))
    };
    (0..TERMS.len()).filter(is_used)
}

impl Question {
    /// Ranks the candidates with these factors. Of equal scores the one that recall ranked higher comes first.
    fn ranks(&self, factors: &PerTerm) -> RelevantRanks {
        let mut order: Vec<(f64, &Candidate)> =
            self.candidates.iter().map(|candidate| (candidate.score(factors), candidate)).collect();
        order.sort_by(|(a, _), (b, _)| b.total_cmp(a));
        RelevantRanks::graded(order.iter().map(|(_, candidate)| candidate.id.as_str()), &self.relevant, &self.grades)
    }
}

impl Scores {
    fn of(ranks: &[RelevantRanks]) -> Self {
        let of = |metric: fn(&RelevantRanks) -> f64| interval(&ranks.iter().map(metric).collect::<Vec<_>>());
        Scores { recall_at_10: of(recall_at_10), ndcg_at_10: of(ndcg_at_10) }
    }

    fn difference(ranks: &[RelevantRanks], base: &[RelevantRanks]) -> Self {
        let of = |metric: fn(&RelevantRanks) -> f64| {
            interval(&ranks.iter().zip(base).map(|(one, base)| metric(one) - metric(base)).collect::<Vec<_>>())
        };
        Scores { recall_at_10: of(recall_at_10), ndcg_at_10: of(ndcg_at_10) }
    }

    fn row(&self, name: &str, format: fn(Interval) -> String) -> Vec<String> {
        vec![name.to_owned(), format(self.recall_at_10), format(self.ndcg_at_10)]
    }
}

fn recall_at_10(ranks: &RelevantRanks) -> f64 {
    ranks.recall_at(10)
}

fn ndcg_at_10(ranks: &RelevantRanks) -> f64 {
    ranks.ndcg_at(10)
}

impl Verdict {
    /// Decides by the intervals that do not include 0.
    fn of(difference: &Scores) -> Self {
        let both = [difference.recall_at_10, difference.ndcg_at_10];
        let (rises, falls) = (both.iter().any(|one| one.low > 0.0), both.iter().any(|one| one.high < 0.0));
        match (rises, falls) {
            (true, false) => Verdict::FittedIsBetter,
            (false, true) => Verdict::FittedIsWorse,
            (false, false) => Verdict::BuiltInIsAsGood,
            (true, true) => Verdict::Mixed,
        }
    }

    fn text(self) -> &'static str {
        match self {
            Verdict::BuiltInIsAsGood => {
                "The built-in weights are as good as weights fitted to these questions: the interval of the cross-validated \
                 difference includes 0. Keep them."
            }
            Verdict::FittedIsBetter => {
                "Weights fitted to such questions are better than the built-in ones: the interval of a cross-validated \
                 difference is above 0."
            }
            Verdict::FittedIsWorse => {
                "Weights fitted to these questions are worse than the built-in ones on others: the interval of a \
                 cross-validated difference is below 0. Keep the built-in weights, and label more questions."
            }
            Verdict::Mixed => {
                "Weights fitted to these questions are better by one figure and worse by the other, cross-validated. Keep the \
                 built-in weights."
            }
        }
    }
}

impl Tuned {
    fn print(&self) -> anyhow::Result<()> {
        let Tuned { questions, not_found, folds, folds_of, .. } = self;
        output::line(&format!("{}: model {}", self.sets.join(", "), self.model))?;
        output::line(&format!(
            "{questions} labelled questions, of which {not_found} have no relevant message among their hits; \
             {folds} folds of {folds_of}"
        ))?;
        let heads = ["term", "factor", "lowest to highest of the folds"].map(str::to_owned).to_vec();
        let factors = self.factors.iter().zip(self.factors_of_folds.values()).map(|((name, factor), (low, high))| {
            vec![(*name).to_owned(), format!("{factor:.2}"), format!("{low:.2} to {high:.2}")]
        });
        table::print(&std::iter::once(heads).chain(factors).collect::<Vec<_>>())?;
        let heads = ["weights", "R@10", "nDCG@10"].map(str::to_owned).to_vec();
        table::print(&[
            heads,
            self.built_in.row("built-in", table::with_interval),
            self.fitted.row("fitted to all, ranked with the same", table::with_interval),
            self.cross_validated.row("cross-validated", table::with_interval),
            self.difference.row("cross-validated less built-in", table::difference),
        ])?;
        table::define(&[
            ("factor", "times the built-in weight of the term"),
            ("R@10", "share of a question's relevant messages among the first 10 hits"),
            ("nDCG@10", "sum of grade / log2(rank + 1) over the first 10 hits, divided by that of the best ranking"),
            ("[low, high]", "95 % of 1,000 bootstrap resamples of the questions; of differences, paired"),
        ])?;
        output::text(&format!(
            "\n{}\nThe factors are for information: no setting of an engine or a query takes them.",
            self.verdict.text()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Questions whose relevant candidate has the higher lexical term; its dense term is lower by `handicap`.
    fn questions(handicap: f64) -> Vec<Question> {
        let candidate = |id: usize, dense: f64, lexical: f64, is_relevant| {
            let mut terms = [0.0; TERMS.len()];
            (terms[0], terms[1]) = (dense, lexical);
            Candidate { terms, rest: 0.0, id: id.to_string(), is_relevant }
        };
        let question = |at: usize| Question {
            group: format!("set\nn{}", at % 6),
            weight: 1.0,
            relevant: vec!["0".into()],
            grades: Vec::new(),
            candidates: (1..30)
                .map(|id| candidate(id, handicap + ((id * 7 + at) % 10) as f64 / 50.0, 0.0, false))
                .chain([candidate(0, 0.0, 1.0, true)])
                .collect(),
        };
        (0..60).map(question).collect()
    }

    #[test]
    fn the_verdict_is_about_questions_that_were_not_fitted() {
        // With the built-in weights the relevant message is last: 2 beats 1.
        let tuned = tune(&questions(2.0), 10, vec!["set".into()], "m".into());
        assert_eq!((tuned.verdict, tuned.folds, tuned.folds_of), (Verdict::FittedIsBetter, 6, "namespaces"));
        assert_eq!((tuned.built_in.recall_at_10.mean, tuned.cross_validated.recall_at_10.mean), (0.0, 1.0));
        assert!(tuned.factors["lexical"] > 1.0 && tuned.factors["dense"] < 1.0, "{:?}", tuned.factors);
        assert_eq!(tuned.factors.keys().collect::<Vec<_>>(), [&"dense", &"lexical"]);
        // With none it is first anyway.
        let tuned = tune(&questions(0.0), 10, vec!["set".into()], "m".into());
        assert_eq!((tuned.verdict, tuned.difference.ndcg_at_10.mean), (Verdict::BuiltInIsAsGood, 0.0));
    }

    #[test]
    fn sets_weigh_the_same() {
        let mut both = questions(0.0);
        both.truncate(10);
        both.iter_mut().take(2).for_each(|question| question.group = "other\nn".into());
        weigh(&mut both);
        let sum = |range: std::ops::Range<usize>| both[range].iter().map(|question| question.weight).sum::<f64>();
        assert!((sum(0..2) - 5.0).abs() < 1e-9 && (sum(2..10) - 5.0).abs() < 1e-9);
    }

    #[test]
    fn verdicts_depend_on_the_intervals() {
        let scores = |recall: (f64, f64), ndcg: (f64, f64)| {
            let [recall_at_10, ndcg_at_10] =
                [recall, ndcg].map(|(low, high)| Interval { mean: (low + high) / 2.0, low, high });
            Verdict::of(&Scores { recall_at_10, ndcg_at_10 })
        };
        assert_eq!(scores((-0.1, 0.2), (-0.01, 0.02)), Verdict::BuiltInIsAsGood);
        assert_eq!(scores((-0.1, 0.2), (0.01, 0.02)), Verdict::FittedIsBetter);
        assert_eq!(scores((-0.2, -0.1), (-0.01, 0.02)), Verdict::FittedIsWorse);
        assert_eq!(scores((-0.2, -0.1), (0.01, 0.02)), Verdict::Mixed);
    }
}
