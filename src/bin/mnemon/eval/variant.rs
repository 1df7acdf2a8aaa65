//! The ways to recall that are measured beside each other.

use std::{fmt, str::FromStr};

use anyhow::{Context, ensure};
use mnemon::{Query, Strategy, TimeUse};

/// A strategy, or hybrid recall without a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Variant {
    strategy: Strategy,
    without: Option<Part>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Part {
    Neighbors,
    Prior,
    Time,
}

const PARTS: [(&str, Part); 3] = [("neighbors", Part::Neighbors), ("prior", Part::Prior), ("time", Part::Time)];

impl Variant {
    /// The query, recalled so.
    pub(super) fn of(&self, query: Query) -> Query {
        let query = query.strategy(self.strategy);
        match self.without {
            None => query,
            Some(Part::Neighbors) => query.neighbors(false),
            Some(Part::Prior) => query.length_prior(false),
            Some(Part::Time) => query.time(TimeUse::Ignore),
        }
    }
}

impl FromStr for Variant {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let Some((strategy, part)) = name.split_once('-') else {
            return Ok(Variant { strategy: name.parse()?, without: None });
        };
        let part = PARTS.iter().find(|(known, _)| *known == part);
        let (_, part) =
            part.with_context(|| format!("{name:?} is not hybrid-neighbors, hybrid-prior or hybrid-time"))?;
        let strategy = strategy.parse()?;
        ensure!(strategy == Strategy::Hybrid, "{name:?}: only hybrid has parts to leave out");
        Ok(Variant { strategy, without: Some(*part) })
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.strategy)?;
        match PARTS.iter().find(|(_, part)| Some(*part) == self.without) {
            Some((part, _)) => write!(f, "-{part}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in
            ["dense", "lexical", "rrf", "weighted:0.5", "hybrid", "hybrid-neighbors", "hybrid-prior", "hybrid-time"]
        {
            assert_eq!(name.parse::<Variant>().unwrap().to_string(), name);
        }
        for name in ["", "best", "weighted:2", "weighted:-1", "hybrid-", "hybrid-length", "dense-time"] {
            assert!(name.parse::<Variant>().is_err(), "{name}");
        }
    }

    #[test]
    fn what_is_asked() {
        let check = |name: &str, query: Query| {
            assert_eq!(name.parse::<Variant>().unwrap().of(Query::new("q")), query, "{name}");
        };
        check("hybrid", Query::new("q"));
        check("rrf", Query::new("q").strategy(Strategy::ReciprocalRank));
        check("hybrid-neighbors", Query::new("q").neighbors(false));
        check("hybrid-prior", Query::new("q").length_prior(false));
        check("hybrid-time", Query::new("q").time(TimeUse::Ignore));
    }
}
