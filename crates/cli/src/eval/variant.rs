//! The ranking variants that are compared.

use std::{fmt, str::FromStr};

use anyhow::anyhow;
use mnemon::{Query, RankingStrategy, TimeUse, Unit};

/// A ranking strategy, or the hybrid one without one of its terms.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    strategy: RankingStrategy,
    without: Option<Term>,
    unit: Unit,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Term {
    Neighbors,
    Speakers,
    Questions,
    Vocabulary,
    Prior,
    Time,
    /// A part of the ranking that has no option.
    Part(&'static str),
}

const TERMS: [(&str, Term); 10] = [
    ("neighbors", Term::Neighbors),
    ("speakers", Term::Speakers),
    ("questions", Term::Questions),
    ("vocabulary", Term::Vocabulary),
    ("prior", Term::Prior),
    ("time", Term::Time),
    ("pieces", Term::Part("pieces")),
    ("updates", Term::Part("updates")),
    ("changes", Term::Part("changes")),
    ("echo", Term::Part("echo")),
];

/// All variants, for an error.
const VARIANTS: &str = "hybrid, dense, lexical, rrf, weighted:0.5 (the share of dense, 0 to 1), hybrid-neighbors, \
    hybrid-speakers, hybrid-questions, hybrid-vocabulary, hybrid-prior, hybrid-time, hybrid-pieces, hybrid-updates, \
    hybrid-changes, hybrid-echo, session, turn";

impl Variant {
    /// Returns the query with this variant's ranking.
    pub(super) fn apply(&self, query: Query) -> Query {
        let query = query.strategy(self.strategy).unit(self.unit);
        match self.without {
            None => query,
            Some(Term::Neighbors) => query.neighbors(false),
            Some(Term::Speakers) => query.speakers(false),
            Some(Term::Questions) => query.questions(false),
            Some(Term::Vocabulary) => query.vocabulary(false),
            Some(Term::Prior) => query.length_prior(false),
            Some(Term::Time) => query.time(TimeUse::Ignore),
            Some(Term::Part(part)) => query.without(part).expect("the ranking has this part"),
        }
    }
}

impl FromStr for Variant {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let variant = |strategy, without, unit| Variant { strategy, without, unit };
        let strategy = name.parse().ok().map(|strategy| variant(strategy, None, Unit::Message));
        let found = strategy.or_else(|| match name.split_once('-') {
            None if name == "session" || name == "turn" => {
                name.parse().ok().map(|unit| variant(RankingStrategy::Hybrid, None, unit))
            }
            Some(("hybrid", term)) => {
                let without = TERMS.iter().find(|(known, _)| *known == term);
                without.map(|(_, term)| variant(RankingStrategy::Hybrid, Some(*term), Unit::Message))
            }
            _ => None,
        });
        found.ok_or_else(|| anyhow!("{name:?} is not one of {VARIANTS}"))
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.unit != Unit::Message {
            return write!(f, "{}", self.unit);
        }
        write!(f, "{}", self.strategy)?;
        match TERMS.iter().find(|(_, term)| Some(*term) == self.without) {
            Some((name, _)) => write!(f, "-{name}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_and_printed() {
        for name in
            ["dense", "lexical", "rrf", "weighted:0.5", "hybrid", "hybrid-neighbors", "hybrid-prior", "hybrid-time"]
        {
            assert_eq!(name.parse::<Variant>().unwrap().to_string(), name);
        }
        assert_eq!("reciprocal-rank".parse::<Variant>().unwrap().to_string(), "rrf");
        for name in ["", "best", "weighted:2", "weighted:-1", "hybrid-", "hybrid-length", "dense-time"] {
            assert!(name.parse::<Variant>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_variant_changes_the_query() {
        let check = |name: &str, query: Query| {
            assert_eq!(name.parse::<Variant>().unwrap().apply(Query::new("q")), query, "{name}");
        };
        check("hybrid", Query::new("q"));
        check("rrf", Query::new("q").strategy(RankingStrategy::ReciprocalRank));
        check("hybrid-neighbors", Query::new("q").neighbors(false));
        check("hybrid-speakers", Query::new("q").speakers(false));
        check("session", Query::new("q").unit(Unit::Session));
        check("hybrid-vocabulary", Query::new("q").vocabulary(false));
        check("hybrid-questions", Query::new("q").questions(false));
        check("hybrid-prior", Query::new("q").length_prior(false));
        check("hybrid-echo", Query::new("q").without("echo").unwrap());
        check("hybrid-pieces", Query::new("q").without("pieces").unwrap());
        check("hybrid-time", Query::new("q").time(TimeUse::Ignore));
    }
}
