//! Words that say that something changed, and words with which questions ask about the past: English, German, French and
//! Chinese.
//!
//! They are looked for in every text, whatever its language: a word that means something else in another language costs a
//! place in the order of two hits at most.

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

impl Change {
    /// `None`: the text does not say that something changed.
    pub(super) fn of(text: &str) -> Option<Self> {
        let lower = text.to_lowercase();
        let has = |changes: &[&str]| lower.split(|c: char| !c.is_alphanumeric()).any(|word| changes.contains(&word));
        let is_chinese = || lower.contains(is_unspaced) && CHINESE_CHANGES.iter().any(|part| lower.contains(part));
        match () {
            () if has(CHANGES) || is_chinese() => Some(Change::Certain),
            () if has(PERHAPS_CHANGES) => Some(Change::Perhaps),
            () => None,
        }
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

/// Returns true if a question is about the past. `lower` is its text in lower case.
pub(super) fn asks_about_past(lower: &str) -> bool {
    let mut words = lower.split(|c: char| !c.is_alphanumeric());
    words.any(|word| {
        PAST.contains(&word)
            || word.len() == 4
                && matches!(word.as_bytes(), [b'1', b'9', ..] | [b'2', b'0', ..])
                && word.bytes().all(|b| b.is_ascii_digit())
    }) || CHINESE_PAST.iter().any(|part| lower.contains(part))
}
