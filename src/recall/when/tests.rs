//! Texts that are read as times, and texts that are not.

use proptest::prelude::*;

use super::*;
use crate::message::LocalTime;

/// A Wednesday.
const NOW: &str = "2023-05-17T12:00:00Z";

/// Formats midnight as "2023-05-17", another time as "2023-05-17T12:00", and no beginning or end as an empty string.
fn shown(time: Timestamp) -> String {
    let is_open = [jiff::Timestamp::MIN, jiff::Timestamp::MAX].iter().any(|open| micros(*open) == time.as_micros());
    let text = time.to_string();
    let text = text.strip_suffix(":00Z").unwrap_or(&text);
    if is_open { String::new() } else { text.strip_suffix("T00:00").unwrap_or(text).to_owned() }
}

/// Compares the expressions found, each formatted as "the words = since..until".
#[track_caller]
fn check(now: &str, text: &str, expected: &[&str]) {
    let found: Vec<String> = time_expressions(text, now.parse().unwrap())
        .into_iter()
        .map(|TimeExpression { span, range }| {
            format!("{} = {}..{}", &text[range], shown(span.since), shown(span.until))
        })
        .collect();
    assert_eq!(found, expected, "{text:?}");
}

#[test]
fn absolute_times() {
    for (text, expected) in [
        ("2023-05-07", "2023-05-07 = 2023-05-07..2023-05-08"),
        ("What did I say on 2023-05-07?", "on 2023-05-07 = 2023-05-07..2023-05-08"),
        ("The log of 2023-05-07T10:00:00Z says", "of 2023-05-07T10 = 2023-05-07..2023-05-08"),
        ("2023/05/07", "2023/05/07 = 2023-05-07..2023-05-08"),
        ("On 13/05/2023 or", "On 13/05/2023 = 2023-05-13..2023-05-14"),
        ("On 05/13/2023 or", "On 05/13/2023 = 2023-05-13..2023-05-14"),
        ("05/05/2023", "05/05/2023 = 2023-05-05..2023-05-06"),
        ("invoices of 05/2023", "of 05/2023 = 2023-05-01..2023-06-01"),
        ("since 2023-04", "since 2023-04 = 2023-04-01.."),
        ("What did Nate cook on 7 May 2023?", "on 7 May 2023 = 2023-05-07..2023-05-08"),
        ("What did Nate cook on 9 November, 2022?", "on 9 November, 2022 = 2022-11-09..2022-11-10"),
        ("MAY 7TH, 2023", "MAY 7TH, 2023 = 2023-05-07..2023-05-08"),
        ("the 7th of May 2021", "the 7th of May 2021 = 2021-05-07..2021-05-08"),
        ("taken on December 1,2022 in", "on December 1,2022 = 2022-12-01..2022-12-02"),
        ("on Tuesday, May 7th", "on Tuesday, May 7th = 2023-05-07..2023-05-08"),
        ("Friday 28 Oct. 2022", "Friday 28 Oct. 2022 = 2022-10-28..2022-10-29"),
        ("may the 4th", "may the 4th = 2023-05-04..2023-05-05"),
        ("May 7", "May 7 = 2023-05-07..2023-05-08"),
        ("on 17 May", "on 17 May = 2023-05-17..2023-05-18"),
        ("on 18 May", "on 18 May = 2022-05-18..2022-05-19"),
        ("on 29 February", "on 29 February = 2020-02-29..2020-03-01"),
        ("on May 7 last year", "on May 7 last year = 2022-05-07..2022-05-08"),
        ("Where was I in May 2022?", "in May 2022 = 2022-05-01..2022-06-01"),
        ("in Sept. 2022", "in Sept. 2022 = 2022-09-01..2022-10-01"),
        ("in May '22", "in May '22 = 2022-05-01..2022-06-01"),
        ("in May of 1999", "in May of 1999 = 1999-05-01..1999-06-01"),
        ("in may last year", "in may last year = 2022-05-01..2022-06-01"),
        ("in May", "in May = 2023-05-01..2023-06-01"),
        ("in June", "in June = 2022-06-01..2022-07-01"),
        ("in 2021", "in 2021 = 2021-01-01..2022-01-01"),
        ("the events of 2021", "of 2021 = 2021-01-01..2022-01-01"),
        ("the year 2021 was", "the year 2021 = 2021-01-01..2022-01-01"),
        ("in\n the year 2021", "in\n the year 2021 = 2021-01-01..2022-01-01"),
        ("summer 2022", "summer 2022 = 2022-06-01..2022-09-01"),
        ("in the fall of 2022", "in the fall of 2022 = 2022-09-01..2022-12-01"),
        ("winter 2021", "winter 2021 = 2021-12-01..2022-03-01"),
        ("in the summer of last year", "in the summer of last year = 2022-06-01..2022-09-01"),
        ("over the summer", "over the summer = 2022-06-01..2022-09-01"),
        ("Q3 2024", "Q3 2024 = 2024-07-01..2024-10-01"),
        ("in Q1", "in Q1 = 2023-01-01..2023-04-01"),
        ("What did we eat at Christmas?", "at Christmas = 2022-12-24..2022-12-27"),
        ("Christmas", "Christmas = 2022-12-24..2022-12-27"),
        ("on Christmas Eve 2020", "on Christmas Eve 2020 = 2020-12-24..2020-12-25"),
        ("on New Year’s Eve", "on New Year’s Eve = 2022-12-31..2023-01-01"),
        ("around New Year's", "around New Year's = 2022-12-30..2023-01-03"),
        ("on Thanksgiving", "on Thanksgiving = 2022-11-24..2022-11-25"),
        ("in the 90s", "in the 90s = 1990-01-01..2000-01-01"),
        ("songs of the '80s", "of the '80s = 1980-01-01..1990-01-01"),
        ("the 90's", "the 90's = 1990-01-01..2000-01-01"),
        ("1990s music", "1990s = 1990-01-01..2000-01-01"),
        ("early May 2023", "early May 2023 = 2023-05-01..2023-05-11"),
        ("mid-May 2023", "mid-May 2023 = 2023-05-11..2023-05-21"),
        ("in late May 2023", "in late May 2023 = 2023-05-21..2023-06-01"),
        ("in early 2022", "in early 2022 = 2022-01-01..2022-05-01"),
        ("at the end of last year", "at the end of last year = 2022-09-01..2023-01-01"),
        ("the early 90s", "the early 90s = 1990-01-01..1993-05-01"),
        ("the first week of March 2023", "the first week of March 2023 = 2023-03-01..2023-03-08"),
        ("during the last week of August 2022", "during the last week of August 2022 = 2022-08-25..2022-09-01"),
        ("the first weekend of April 2023", "the first weekend of April 2023 = 2023-04-01..2023-04-03"),
        ("on the last Friday of 2022", "on the last Friday of 2022 = 2022-12-30..2022-12-31"),
        ("the second half of 2022", "the second half of 2022 = 2022-07-01..2023-01-01"),
        ("in the last two weeks of August 2022", "in the last two weeks of August 2022 = 2022-08-18..2022-09-01"),
        ("the week of May 3", "the week of May 3 = 2023-05-01..2023-05-08"),
    ] {
        check(NOW, text, &[expected]);
    }
}

#[test]
fn times_relative_to_now() {
    for (text, expected) in [
        ("What is today's plan?", "today = 2023-05-17..2023-05-18"),
        ("YESTERDAY", "YESTERDAY = 2023-05-16..2023-05-17"),
        ("tonight", "tonight = 2023-05-17..2023-05-18"),
        ("last night", "last night = 2023-05-16..2023-05-17"),
        ("the day before yesterday", "the day before yesterday = 2023-05-15..2023-05-16"),
        ("the day after tomorrow", "the day after tomorrow = 2023-05-19..2023-05-20"),
        ("tomorrow", "tomorrow = 2023-05-18..2023-05-19"),
        ("this week", "this week = 2023-05-15..2023-05-22"),
        ("in last week's call", "in last week = 2023-05-08..2023-05-15"),
        ("next week", "next week = 2023-05-22..2023-05-29"),
        ("the week before last", "the week before last = 2023-05-01..2023-05-08"),
        ("the week after next we", "the week after next = 2023-05-29..2023-06-05"),
        ("last month", "last month = 2023-04-01..2023-05-01"),
        ("this year", "this year = 2023-01-01..2024-01-01"),
        ("for next year", "for next year = 2024-01-01..2025-01-01"),
        ("last quarter", "last quarter = 2023-01-01..2023-04-01"),
        ("this weekend", "this weekend = 2023-05-20..2023-05-22"),
        ("last weekend", "last weekend = 2023-05-13..2023-05-15"),
        ("over the weekend", "over the weekend = 2023-05-13..2023-05-15"),
        ("last Tuesday", "last Tuesday = 2023-05-16..2023-05-17"),
        ("last wednesday", "last wednesday = 2023-05-10..2023-05-11"),
        ("on Thursday", "on Thursday = 2023-05-11..2023-05-12"),
        ("on Fri", "on Fri = 2023-05-12..2023-05-13"),
        ("this Friday", "this Friday = 2023-05-19..2023-05-20"),
        ("next Wednesday", "next Wednesday = 2023-05-24..2023-05-25"),
        ("last May", "last May = 2022-05-01..2022-06-01"),
        ("this May we met", "this May = 2023-05-01..2023-06-01"),
        ("did we meet this may?", "this may = 2023-05-01..2023-06-01"),
        ("for next summer", "for next summer = 2023-06-01..2023-09-01"),
        ("last winter", "last winter = 2022-12-01..2023-03-01"),
        ("this past summer", "this past summer = 2022-06-01..2022-09-01"),
        ("5 minutes ago", "5 minutes ago = 2023-05-17T11:50..2023-05-17T12:00"),
        ("two hours ago", "two hours ago = 2023-05-17T09:00..2023-05-17T11:00"),
        ("3 days ago", "3 days ago = 2023-05-14..2023-05-15"),
        ("a week ago", "a week ago = 2023-05-07..2023-05-14"),
        ("two weeks ago", "two weeks ago = 2023-04-30..2023-05-07"),
        ("a month ago", "a month ago = 2023-04-02..2023-05-03"),
        ("three years ago", "three years ago = 2020-01-01..2021-01-01"),
        ("a decade ago", "a decade ago = 2008-01-01..2018-01-01"),
        ("a couple of days ago", "a couple of days ago = 2023-05-14..2023-05-16"),
        ("a few days ago", "a few days ago = 2023-05-12..2023-05-16"),
        ("2-3 days ago", "2-3 days ago = 2023-05-14..2023-05-16"),
        ("two or three years ago", "two or three years ago = 2020-01-01..2022-01-01"),
        ("several years back", "several years back = 2015-01-01..2021-01-01"),
        ("two weeks from now", "two weeks from now = 2023-05-28..2023-06-04"),
        ("three days after Christmas", "three days after Christmas = 2022-12-29..2022-12-30"),
        ("the week before 16 November 2022", "the week before 16 November 2022 = 2022-11-09..2022-11-16"),
        ("on the Sunday before October 25, 2022", "on the Sunday before October 25, 2022 = 2022-10-23..2022-10-24"),
        ("the weekend before 4th October, 2022", "the weekend before 4th October, 2022 = 2022-10-01..2022-10-03"),
        ("the day after Christmas Eve.", "the day after Christmas Eve = 2022-12-25..2022-12-26"),
        ("the week before last Christmas", "the week before last Christmas = 2022-12-17..2022-12-24"),
        ("in the last 3 days", "in the last 3 days = 2023-05-14..2023-05-18"),
        ("over the past few weeks", "over the past few weeks = 2023-04-12..2023-05-18"),
        ("in the last 24 hours", "in the last 24 hours = 2023-05-16T12:00..2023-05-18"),
        ("the past month", "the past month = 2023-04-17..2023-05-18"),
        ("in the last year", "in the last year = 2022-05-17..2023-05-18"),
        ("the next 2 weeks", "the next 2 weeks = 2023-05-17..2023-06-01"),
        ("What have I read recently?", "recently = 2023-05-03..2023-05-18"),
        ("What was she up to lately?", "lately = 2023-05-03..2023-05-18"),
        ("lately", "lately = 2023-05-03..2023-05-18"),
    ] {
        check(NOW, text, &[expected]);
    }
}

#[test]
fn bounded_times() {
    for (text, expected) in [
        ("since May", "since May = 2023-05-01.."),
        ("since 2022", "since 2022 = 2022-01-01.."),
        ("since yesterday", "since yesterday = 2023-05-16.."),
        ("from 2021 onwards", "from 2021 onwards = 2021-01-01.."),
        ("before June 2023", "before June 2023 = ..2023-06-01"),
        ("before Christmas", "before Christmas = ..2022-12-24"),
        ("until last week", "until last week = ..2023-05-15"),
        ("after 7 May 2023", "after 7 May 2023 = 2023-05-08.."),
        ("after last year", "after last year = 2023-01-01.."),
        ("How many by July 10, 2022?", "by July 10, 2022 = ..2022-07-11"),
        ("around 2020", "around 2020 = 2019-07-02..2021-07-03"),
        ("between March and May 2023", "between March and May 2023 = 2023-03-01..2023-06-01"),
        ("between November and February", "between November and February = 2022-11-01..2023-03-01"),
        ("between 2019 and 2021", "between 2019 and 2021 = 2019-01-01..2022-01-01"),
        ("between August 11 and August 15 2022", "between August 11 and August 15 2022 = 2022-08-11..2022-08-16"),
        ("between last week and today", "between last week and today = 2023-05-08..2023-05-18"),
        ("from 3 to 9 May", "from 3 to 9 May = 2023-05-03..2023-05-10"),
        ("from the 3rd to the 9th of May", "from the 3rd to the 9th of May = 2023-05-03..2023-05-10"),
        ("May 3-9, 2022", "May 3-9, 2022 = 2022-05-03..2022-05-10"),
        ("on 3–9 May 2022", "on 3–9 May 2022 = 2022-05-03..2022-05-10"),
        ("from May 2022 to August", "from May 2022 to August = 2022-05-01..2022-09-01"),
        ("May to July 2022", "May to July 2022 = 2022-05-01..2022-08-01"),
        ("from May until today", "from May until today = 2023-05-01..2023-05-18"),
        ("since 2020 until last month", "since 2020 until last month = 2020-01-01..2023-05-01"),
        ("2022-01-01 - 2022-02-01", "2022-01-01 - 2022-02-01 = 2022-01-01..2022-02-02"),
        ("between Monday and Friday", "between Monday and Friday = 2023-05-15..2023-05-20"),
        ("in 2019-2021", "in 2019-2021 = 2019-01-01..2022-01-01"),
        ("May–June 2022", "May–June 2022 = 2022-05-01..2022-07-01"),
    ] {
        check(NOW, text, &[expected]);
    }
}

#[test]
fn no_times() {
    for text in [
        "",
        "May I ask something?",
        "She may come.",
        "this may be wrong",
        "only 2 may enter",
        "they march 10 miles",
        "We march tomorrowland style",
        "April's birthday",
        "in April's room",
        "When did June move?",
        "Did August and April marry?",
        "a book by June",
        "a letter from May to Bob",
        "the mother of April",
        "wait a second",
        "a second ago",
        "the second time",
        "I have 2000 dollars",
        "in 2000 words",
        "from 2000 to 3000 dollars",
        "of 2000 people",
        "in 2000% of cases",
        "in 2023.5 units",
        "room 2023",
        "Cyberpunk 2077",
        "in 1492",
        "in 2101",
        "file_2023-05-07x",
        "05/06/2023",
        "2010-12",
        "1-2023-05-07-3",
        "in his thirties",
        "a one-year-old child",
        "years ago",
        "more than two years ago",
        "half a year ago",
        "my last week there",
        "the last week of school",
        "the last 3 games",
        "every Monday, on Mondays",
        "Which one more recently?",
        "until recently",
        "at the last minute",
        "over the past years",
        "a Christmas card",
        "Merry Christmas!",
        "in a minute",
        "before she left, after the party, since then",
        "may the 4 of us come?",
        "in 2010-12",
        "in 2023-13-45",
        "fall down, the spring water",
        "between June and May 2023",
        "from 9 to 3 May 2023",
        "since 2024 until 2022",
        "on February 30, 2023",
        "in 五月",
    ] {
        check(NOW, text, &[]);
    }
}

#[test]
fn several_in_one_text() {
    check(
        NOW,
        "Did I go in May 2022 or in June 2022, or was it three years ago?",
        &[
            "in May 2022 = 2022-05-01..2022-06-01",
            "in June 2022 = 2022-06-01..2022-07-01",
            "three years ago = 2020-01-01..2021-01-01",
        ],
    );
    check(
        NOW,
        "last week - yesterday I mean",
        &["last week = 2023-05-08..2023-05-15", "yesterday = 2023-05-16..2023-05-17"],
    );
    check(
        NOW,
        "May I ask in May what she said 2 days ago? 2023.",
        &["in May = 2023-05-01..2023-06-01", "2 days ago = 2023-05-15..2023-05-16"],
    );
}

#[test]
fn the_ends_of_the_calendar() {
    // There is no such day, or it is out of range.
    check("9999-12-30T00:00:00Z", "next year, next decade, in 200 years from now, tomorrow, the next 3 weeks", &[]);
    check("-009999-01-03T00:00:00Z", "last year, 2 days ago, 9999 decades ago, the last 4 weeks", &[]);
    check("9999-12-30T00:00:00Z", "since 2022", &["since 2022 = 2022-01-01.."]);
    check("2020-02-29T00:00:00Z", "a year ago", &["a year ago = 2019-01-01..2020-01-01"]);
}

/// The zone that is so many minutes east of UTC.
fn zone(minutes: i16) -> TimeZone {
    LocalTime::new(NOW.parse().unwrap(), 60 * i32::from(minutes)).unwrap().zone()
}

#[test]
fn days_of_an_offset() {
    let now = "2023-05-17T23:00:00Z".parse().unwrap();
    let found = time_expressions_in("today", now, &zone(120));
    assert_eq!(found[0].span.since.to_string(), "2023-05-17T22:00:00Z");
    let found = time_expressions_in("yesterday", now, &zone(-300));
    assert_eq!(found[0].span.since.to_string(), "2023-05-16T05:00:00Z");
    assert_eq!(found[0].span.until.to_string(), "2023-05-17T05:00:00Z");
}

#[test]
fn long_texts_are_read_in_linear_time() {
    let texts =
        ["in May 2023 ", "the week before ", "from 3 to ", "between ", "the last 3 ", "May-", "2023-", "a", " ", "é’"];
    for text in texts {
        let long = text.repeat(100_000 / text.len());
        // Quadratic time would be minutes.
        let found = time_expressions(&long, NOW.parse().unwrap()).len();
        assert_eq!(found, if text == "in May 2023 " { 8333 } else { 0 }, "{text:?}");
    }
}

/// Texts of words that the grammar knows, so that its rules are combined.
fn phrases() -> impl Strategy<Value = String> {
    let words = "the of in on since until before after between and from to by around early mid-May end last this next past \
        week weekend year months day Tuesday Fri may May February Sept. summer Q4 Christmas New Year's Eve 90s 2023 2024, 7 \
        31st 29 9999 0 ago back now a few couple 2023-05-07 12/2022 – - / ' today recently second first half";
    let words: Vec<&str> = words.split_whitespace().collect();
    proptest::collection::vec(proptest::sample::select(words), 0..12).prop_map(|words| words.join(" "))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// Most words are skipped, because no name begins near them.
    #[test]
    fn no_name_begins_where_none_is_read(text in phrases(), other in phrases()) {
        let now = TimeZone::utc().local(NOW.parse().unwrap()).unwrap();
        let text = format!("{text} she said that we all were there with him and nobody else of them knew it {other}");
        let reader = Reader::new(Words::of(&text), now);
        for at in 0..reader.words.len() {
            let (read, anywhere) = (reader.named(at), reader.named_anywhere(at));
            prop_assert_eq!(read.map(|named| named.next), anywhere.map(|named| named.next), "{} of {:?}", at, text);
        }
    }

    #[test]
    fn any_text_at_any_time_gives_spans_in_order(
        text in prop_oneof![any::<String>(), phrases(), phrases(), "\\PC{0,40}"],
        micros in prop_oneof![any::<i64>(), -377_705_023_201_000_000i64..253_402_207_200_000_000, Just(1_684_324_800_000_000)],
        offset in prop_oneof![Just(0), -1559i16..1560],
    ) {
        let Some(now) = Timestamp::from_micros(micros) else { return Ok(()) };
        let mut end = 0;
        for TimeExpression { span, range } in time_expressions_in(&text, now, &zone(offset)) {
            prop_assert!(span.since < span.until);
            prop_assert!(end <= range.start && !text[range.clone()].trim().is_empty());
            end = range.end;
        }
    }
}
