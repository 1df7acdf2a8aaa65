//! Words that say that something changed, and words with which questions ask about the past or for the newest of several:
//! English, German, French and Chinese.
//!
//! They are looked for in every text, whatever its language: a word that means something else in another language costs a
//! place in the order of two hits at most.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use crate::lexical::is_unspaced;

/// Words that say nothing but that something changed.
const CHANGED: &[&str] =
    &["actually", "already", "anymore", "currently", "instead", "just", "longer", "now", "still", "today"];

/// Words that say that something changed.
const CHANGES: &[&str] = &[
    // English
    "anymore",
    "became",
    "cancelled",
    "changed",
    "correction",
    "corrected",
    "decreased",
    "escalated",
    "extended",
    "increased",
    "instead",
    "longer",
    "lowered",
    "migrated",
    "moved",
    "nowadays",
    "postponed",
    "promoted",
    "pushed",
    "quit",
    "raised",
    "reduced",
    "relocated",
    "renamed",
    "replaced",
    "replaces",
    "rescheduled",
    "resigned",
    "rewrote",
    "settled",
    "shipped",
    "sold",
    "stopped",
    "succeeded",
    "succeeds",
    "swapped",
    "switched",
    "transferred",
    "update",
    "updated",
    "upgraded",
    // German
    "abgelöst",
    "änderung",
    "aufgelöst",
    "erhöht",
    "ersetzt",
    "geändert",
    "gesenkt",
    "gewechselt",
    "inzwischen",
    "künftig",
    "korrektur",
    "mittlerweile",
    "neuerdings",
    "planänderung",
    "stattdessen",
    "übergeben",
    "übernimmt",
    "übernommen",
    "umbenannt",
    "umgestellt",
    "umgestiegen",
    "umgezogen",
    "umgeräumt",
    "verlegt",
    "verschoben",
    "wechselt",
    "bewilligt",
    // French
    "abandonné",
    "augmenté",
    "changé",
    "changement",
    "correction",
    "corrigé",
    "déménagé",
    "démissionné",
    "déplacé",
    "déplacée",
    "désormais",
    "devenu",
    "devenue",
    "dorénavant",
    "finalement",
    "migré",
    "modifié",
    "quitté",
    "réduit",
    "remplacé",
    "remplace",
    "remplacée",
    "renommé",
    "repoussé",
    "repoussée",
    "reporté",
    "reportée",
    "repris",
    "succède",
    "succédé",
    "transféré",
    "transférée",
];

/// Words that say so in many statements, and something else in others.
const PERHAPS_CHANGES: &[&str] = &[
    "actually",
    "again",
    "changes",
    "cut",
    "dropped",
    "finally",
    "from",
    "goes",
    "gone",
    "left",
    "moves",
    "new",
    "now",
    "rose",
    "since",
    "takes",
    "these",
    "took",
    "turned",
    "went",
    "ab",
    "doch",
    "endlich",
    "jetzt",
    "mehr",
    "neu",
    "neue",
    "neuen",
    "neuer",
    "neues",
    "nun",
    "seit",
    "seitdem",
    "statt",
    "wurde",
    "gezogen",
    "arrêté",
    "baissé",
    "depuis",
    "enfin",
    "lieu",
    "maintenant",
    "nouveau",
    "nouvel",
    "nouvelle",
    "passé",
    "passée",
    "passer",
    "place",
    "plus",
    "vient",
];

/// Parts of Chinese statements that say that something changed.
const CHINESE_CHANGES: &[&str] = &[
    "现在",
    "如今",
    "改为",
    "改成",
    "改由",
    "改到",
    "改在",
    "改用",
    "换成",
    "换了",
    "换到",
    "更换",
    "更正",
    "更新",
    "变成",
    "变为",
    "不再",
    "接手",
    "接替",
    "取代",
    "代替",
    "搬到",
    "搬去",
    "迁到",
    "迁至",
    "推迟",
    "提前到",
    "涨到",
    "降到",
    "减到",
    "增加到",
    "升级",
    "已经",
    "从今",
    "新的",
    "从这周",
    "辞掉",
    "辞去",
    "新队",
    "新任",
];

/// Words of questions about the past.
const PAST: &[&str] = &[
    // English
    "ago",
    "back",
    "before",
    "began",
    "did",
    "earlier",
    "first",
    "former",
    "formerly",
    "had",
    "initially",
    "once",
    "original",
    "originally",
    "past",
    "previous",
    "previously",
    "then",
    "until",
    "used",
    "was",
    "were",
    // German
    "anfangs",
    "bevor",
    "damals",
    "ehemals",
    "erste",
    "ersten",
    "früher",
    "frühere",
    "früheren",
    "hatte",
    "hatten",
    "ursprünglich",
    "ursprüngliche",
    "vorher",
    "vorherige",
    "war",
    "waren",
    "wohnte",
    "zuerst",
    "zuvor",
    "wurde",
    "bisher",
    // French
    "ancien",
    "ancienne",
    "antérieur",
    "auparavant",
    "autrefois",
    "avait",
    "avant",
    "était",
    "étaient",
    "habitait",
    "initialement",
    "jadis",
    "précédent",
    "précédente",
    "premier",
    "première",
    "travaillait",
    "originalement",
];
const CHINESE_PAST: &[&str] =
    &["以前", "之前", "原来", "原先", "曾经", "过去", "最初", "起初", "从前", "当时", "本来", "当初"];

/// Words with which questions ask for the newest of several.
const NEWEST: &[&str] = &[
    "last",
    "latest",
    "newest",
    "recent",
    "recently",
    "letzte",
    "letzten",
    "letzter",
    "letztes",
    "neueste",
    "neuesten",
    "neuester",
    "neuestes",
    "jüngste",
    "jüngsten",
    "zuletzt",
    "dernier",
    "derniers",
    "dernière",
    "dernières",
    "récent",
    "récente",
    "récemment",
];
const CHINESE_NEWEST: &[&str] = &["最新", "最近一次", "最后一次", "上一次", "上次", "最近的"];
/// Words beside these with which a question means another one than the newest.
const NOT_NEWEST: &[&str] = &[
    "before",
    "earlier",
    "first",
    "name",
    "original",
    "originally",
    "previous",
    "previously",
    "until",
    "ersten",
    "erste",
    "früher",
    "vorher",
    "vorherige",
    "vorletzte",
    "vorletzten",
    "bevor",
    "avant",
    "auparavant",
    "premier",
    "première",
    "précédent",
    "précédente",
];
/// With one of these beside it, "last" says when.
const TIMES: &[&str] = &[
    "night",
    "day",
    "days",
    "week",
    "weeks",
    "weekend",
    "month",
    "months",
    "year",
    "years",
    "hour",
    "hours",
    "minute",
    "minutes",
    "time",
    "spring",
    "summer",
    "autumn",
    "fall",
    "winter",
    "christmas",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "nacht",
    "tag",
    "tage",
    "tagen",
    "woche",
    "wochen",
    "wochenende",
    "monat",
    "monate",
    "monaten",
    "jahr",
    "jahre",
    "jahren",
    "mal",
    "frühling",
    "frühjahr",
    "sommer",
    "herbst",
    "winter",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "nuit",
    "jour",
    "jours",
    "semaine",
    "semaines",
    "mois",
    "an",
    "ans",
    "année",
    "années",
    "printemps",
    "été",
    "automne",
    "hiver",
    "lundi",
    "mardi",
    "mercredi",
    "jeudi",
    "vendredi",
    "samedi",
    "dimanche",
    "fois",
];

/// Returns true if a word, in lower case, says nothing but that something changed.
pub(super) fn is_change_word(word: &str) -> bool {
    CHANGED.contains(&word)
}

/// A statement that something changed, by how clearly it says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Change {
    Certain,
    Perhaps,
}

/// These words as sets: a list would be read through for each word of each text.
struct Sets {
    past: HashSet<&'static str>,
    newest: HashSet<&'static str>,
    not_newest: HashSet<&'static str>,
    times: HashSet<&'static str>,
}

static SETS: LazyLock<Sets> = LazyLock::new(|| {
    let set = |words: &[&'static str]| words.iter().copied().collect();
    Sets { past: set(PAST), newest: set(NEWEST), not_newest: set(NOT_NEWEST), times: set(TIMES) }
});

/// All words that say so.
static WORDS: LazyLock<HashMap<&str, Change>> = LazyLock::new(|| {
    let perhaps = PERHAPS_CHANGES.iter().map(|&word| (word, Change::Perhaps));
    perhaps.chain(CHANGES.iter().map(|&word| (word, Change::Certain))).collect()
});

impl Change {
    /// `None`: the text does not say that something changed.
    pub(super) fn of(text: &str) -> Option<Self> {
        let lower = text.to_lowercase();
        let mut found = None;
        for word in lower.split(|c: char| !c.is_alphanumeric()) {
            match WORDS.get(word) {
                Some(Change::Certain) => return Some(Change::Certain),
                Some(Change::Perhaps) => found = Some(Change::Perhaps),
                None => {}
            }
        }
        if has_any(&lower, CHINESE_CHANGES) { Some(Change::Certain) } else { found }
    }

    /// The least share of the question's words that the earlier message has, by their rarity.
    pub(super) fn least_coverage(self) -> f32 {
        match self {
            Change::Certain => 0.3,
            Change::Perhaps => 0.4,
        }
    }

    /// The least share of these words that the later message has too.
    pub(super) fn least_share(self) -> f32 {
        match self {
            Change::Certain => 0.3,
            Change::Perhaps => 0.4,
        }
    }
}

/// Returns true if a question asks for the newest of several, as "the last deployment" does and "last week" does not.
/// `lower` is its text in lower case.
pub(super) fn asks_for_newest(lower: &str) -> bool {
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let is_time = |at: Option<usize>| at.and_then(|at| words.get(at)).is_some_and(|word| SETS.times.contains(*word));
    let asks = |at: usize| is_newest_word(words[at]) && !is_time(Some(at + 1)) && !is_time(at.checked_sub(1));
    let is_other = || words.iter().any(|word| SETS.not_newest.contains(*word)) || has_any(lower, CHINESE_PAST);
    (has_any(lower, CHINESE_NEWEST) || (0..words.len()).any(asks)) && !is_other()
}

/// Returns true if a word, in lower case, asks for the newest of several.
pub(super) fn is_newest_word(word: &str) -> bool {
    SETS.newest.contains(word)
}

/// Returns true if a question is about the past. `lower` is its text in lower case.
pub(super) fn asks_about_past(lower: &str) -> bool {
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        SETS.past.contains(word)
            || word.len() == 4
                && matches!(word.as_bytes(), [b'1', b'9', ..] | [b'2', b'0', ..])
                && word.bytes().all(|b| b.is_ascii_digit())
    }) || has_any(lower, CHINESE_PAST)
}

/// Returns true if a text has one of these Chinese parts.
fn has_any(text: &str, parts: &[&str]) -> bool {
    !text.is_ascii() && text.contains(is_unspaced) && parts.iter().any(|part| text.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_told_from_a_time() {
        let check =
            |question: &str, wanted| assert_eq!(asks_for_newest(&question.to_lowercase()), wanted, "{question}");
        check("When was the last deployment?", true);
        check("What is the latest release?", true);
        check("Wann war das letzte Deployment?", true);
        check("Quelle est la dernière version ?", true);
        check("上次部署是什么时候？", true);
        check("What did we deploy last week?", false);
        check("When did I last see the dentist?", true);
        check("Was war letzte Woche?", false);
        check("Qu'avons-nous fait la semaine dernière ?", false);
        check("What is her last name?", false);
        check("What was the last release before 2.0?", false);
        check("Which release was the first?", false);
    }
}
