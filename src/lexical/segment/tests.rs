//! Tests of the bytes of segments.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{
    layout::{CRC_BYTES, MAX_ROWS, MAX_TERMS, read_hash},
    write::merge_plan,
    *,
};
use crate::lexical::{analyzer::SpeakerAndQuestion, stems::TERM_BITS};

/// For each row, the passage, and the frequency of each term.
type Content = BTreeMap<u32, (Option<Range<u32>>, BTreeMap<u64, u32>)>;

/// Returns the content of documents. Of several documents of one row the last counts.
fn content<'a>(documents: impl IntoIterator<Item = &'a Document>) -> Content {
    let mut content = Content::new();
    for document in documents {
        let mut terms = BTreeMap::new();
        document.terms.iter().for_each(|&term| *terms.entry(term).or_default() += 1);
        content.insert(document.row, (document.passage.clone(), terms));
    }
    content
}

fn read_all(segment: &Segment) -> Content {
    let mut content = Content::new();
    for (local, &row) in (0..).zip(segment.rows()) {
        content.insert(row, (segment.passage(local), BTreeMap::new()));
    }
    for term in segment.hashes().iter().map(read_hash) {
        let postings = segment.postings(term).unwrap();
        assert_eq!(postings.len(), postings.clone().count());
        assert!(postings.clone().is_sorted_by(|a, b| a.0 < b.0));
        for (local, frequency) in postings {
            content.get_mut(&segment.rows()[local as usize]).unwrap().1.insert(term, frequency);
        }
    }
    let lengths: Vec<u32> = content.values().map(|(_, terms)| terms.values().sum()).collect();
    assert_eq!(segment.lengths().collect::<Vec<_>>(), lengths);
    content
}

fn build(documents: &[Document]) -> Segment {
    Segment::build(Language::English, documents.to_vec())
}

fn document(row: u32, terms: &[u64]) -> Document {
    Document { row, passage: None, terms: terms.to_vec(), speech: SpeakerAndQuestion::default() }
}

/// Documents of which many share rows and terms; some rows, terms and passages are at the ends of their ranges.
fn any_documents() -> impl Strategy<Value = Vec<Document>> {
    let row = prop_oneof![9 => 0..40u32, 1 => any::<u32>()];
    let term = prop_oneof![8 => 0..20u64, 2 => 0..1u64 << TERM_BITS];
    let passage =
        prop::option::of((0..u32::MAX, 0..500u32).prop_map(|(begin, size)| begin..begin.saturating_add(size)));
    let speech = (prop::collection::vec(0..3u64, 0..6), any::<bool>());
    let speech = speech.prop_map(|(speaker, is_question)| SpeakerAndQuestion { speaker, is_question });
    let document = (row, passage, prop::collection::vec(term, 0..12), speech)
        .prop_map(|(row, passage, terms, speech)| Document { row, passage, terms, speech });
    prop::collection::vec(document, 0..30)
}

/// Corrects the checksum of changed bytes.
fn fix_checksum(bytes: &mut [u8]) {
    if let Some((content, crc)) = bytes.split_last_chunk_mut::<CRC_BYTES>() {
        *crc = crc32fast::hash(content).to_le_bytes();
    }
}

/// Stored segments outlive releases: cases may be added, but these bytes must never change.
#[test]
fn the_bytes_of_a_segment_never_change() {
    let documents = [
        Document {
            row: 300,
            passage: Some(258..515),
            terms: vec![2, 1, 2, 2],
            speech: SpeakerAndQuestion { speaker: vec![0x0201], is_question: true },
        },
        document(5, &[1, 0xABCD_EF01_2345]),
        document(6, &[]),
    ];
    let hex: String = build(&documents).bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        hex,
        "02000200030001000300\
         0000\
         050200 000000 a5020403\
         01 01 010200000000\
         02000201000003020000\
         010000000000 020000000000 452301efcdab\
         00000000 02c00080 00400080\
         020002\
         5a839824"
            .replace(' ', "")
    );
}

#[test]
fn segments_at_the_limits_of_rows_and_terms_are_read_as_they_were_built() {
    let long = build(&[document(1, &vec![7; MAX_TERMS + 1]), document(2, &vec![7; MAX_TERMS])]);
    assert_eq!(long.postings(7).unwrap().collect::<Vec<_>>(), [(0, MAX_TERMS as u32), (1, MAX_TERMS as u32)]);
    let single = build(&[document(1, &vec![7; MAX_TERMS + 1])]);
    assert_eq!(single.postings(7).unwrap().collect::<Vec<_>>(), [(0, MAX_TERMS as u32)]);

    let documents: Vec<Document> = (0..MAX_ROWS as u32).map(|row| document(row * 3, &[row.into(), 1 << 40])).collect();
    let full = build(&documents);
    assert_eq!(read_all(&full), content(&documents));
    assert_eq!(full.postings(u64::from(MAX_ROWS as u32 - 1)).unwrap().collect::<Vec<_>>(), [(MAX_ROWS as u32 - 1, 1)]);
    assert!(full.postings(1 << 41).is_none());
    assert!(build(&[]).rows().is_empty());
    assert!(full.retain(|_| false).is_none());
}

#[test]
fn invalid_bytes_are_refused_with_a_reason() {
    let passage = Some(0..9);
    let bytes = build(&[
        Document { row: 1, passage, terms: vec![1, 2], speech: SpeakerAndQuestion::default() },
        document(2, &[2]),
    ])
    .bytes()
    .to_vec();
    let read = |bytes: &[u8]| Segment::read(bytes.to_vec()).map(|_| ());
    assert_eq!(read(&bytes), Ok(()));
    assert_eq!(read(&[]), Err("it is too short"));
    assert_eq!(read(&bytes[1..]), Err("its checksum is wrong"));
    for (at, value, reason) in [
        (0, 3, "its layout has an unknown version"),
        (1, 99, "its language is unknown"),
        (5, 0xFF, "it has too many rows"),
        (11, 0xFF, "it is too short"),
        (13, 9, "its postings do not add up to the lengths of its rows"),
        (13, 0, "a row has more terms than its length"),
        (14, 2, "a row has a name that is missing"),
        (18, 1, "a name has no terms or too many"),
        (19, 2, "a passage is wrong"),
        (21, 10, "a passage is wrong"),
        (29, 3, "its terms are not in order"),
        (45, 1, "the postings of a term are not where its slot points"),
    ] {
        let mut bytes = bytes.clone();
        bytes[at] = value;
        fix_checksum(&mut bytes);
        assert_eq!(read(&bytes), Err(reason), "byte {at} is {value}");
    }
}

proptest! {
    #[test]
    fn a_segment_is_read_as_it_was_built(documents in any_documents()) {
        let built = build(&documents);
        prop_assert_eq!(read_all(&built), content(&documents));
        let read = Segment::read(built.bytes().to_vec()).unwrap();
        prop_assert_eq!(read_all(&read), content(&documents));
        prop_assert!(read.is_of(Language::English) && !read.is_of(Language::Other));
        for found in read.documents() {
            let SpeakerAndQuestion { speaker, is_question } = &documents.iter().rfind(|other| other.row == found.row).unwrap().speech;
            prop_assert_eq!(&found.speech.speaker[..], &speaker[..speaker.len().min(4)]);
            prop_assert_eq!(found.speech.is_question, *is_question);
        }
    }

    /// A merge gives the same bytes as building all documents at once, so the order of merges does not matter.
    #[test]
    fn a_merge_contains_the_newest_document_of_each_row(
        lists in prop::collection::vec(any_documents(), 1..5),
        kept in any::<u32>(),
    ) {
        let segments: Vec<Segment> = lists.iter().map(|documents| build(documents)).collect();
        let merged = Segment::merge(&segments.iter().collect::<Vec<_>>());
        prop_assert_eq!(&merged.bytes, &build(&lists.concat()).bytes);

        let keep = |row: u32| kept >> (row % 32) & 1 == 1;
        let newest: Vec<Document> = {
            let content = lists.concat().into_iter().map(|document| (document.row, document)).collect::<BTreeMap<_, _>>();
            content.into_values().filter(|document| keep(document.row)).collect()
        };
        let retained = merged.retain(keep);
        prop_assert_eq!(retained.is_none(), newest.is_empty());
        prop_assert_eq!(retained.map(|segment| segment.bytes), (!newest.is_empty()).then(|| build(&newest).bytes));
    }

    /// The checksum is corrected, so that the other checks are reached.
    #[test]
    fn changed_bytes_are_refused_or_can_be_read_completely(
        documents in any_documents(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = build(&documents).bytes().to_vec();
        changes.iter().for_each(|(at, value)| *at.get_mut(&mut bytes) = *value);
        cut.iter().for_each(|at| bytes.truncate(at.index(bytes.len())));
        fix_checksum(&mut bytes);
        if let Ok(segment) = Segment::read(bytes) {
            read_all(&segment);
            segment.retain(|row| row % 2 == 0);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_can_be_read_completely(mut bytes in prop::collection::vec(0..4u8, 0..80)) {
        fix_checksum(&mut bytes);
        if let Ok(segment) = Segment::read(bytes) {
            read_all(&segment);
        }
    }

    #[test]
    fn rows_are_rarely_rewritten_and_segments_are_few(
        news in prop::collection::vec(prop_oneof![8 => 1..4usize, 3 => 1..300usize, 1 => 1..=MAX_ROWS], 1..1500),
    ) {
        // For each segment, the number of rows, and how often the most rewritten of them was written.
        let mut segments: Vec<(usize, u32)> = Vec::new();
        for new in news {
            let sizes: Vec<usize> = segments.iter().map(|segment| segment.0).collect();
            let merged = segments.split_off(segments.len() - merge_plan(&sizes, new));
            let rows = new + merged.iter().map(|segment| segment.0).sum::<usize>();
            prop_assert!(rows <= MAX_ROWS || rows == new);
            let writes = merged.iter().map(|segment| segment.1 + 1).max().unwrap_or(1);
            prop_assert!(merged.iter().all(|segment| 2 * rows > 3 * segment.0), "the segment of a row grows by at least half");
            prop_assert!(writes <= 25 && 1.5f64.powi(writes as i32 - 1) <= rows as f64);
            segments.push((rows, writes));
            prop_assert!(segments.windows(2).all(|pair| pair[0].0 >= 2 * pair[1].0 || pair[0].0 + pair[1].0 > MAX_ROWS));
        }
    }
}
