//! Exact names and identifiers are found among the sample's messages, whichever of their usual spellings asks.

use std::sync::Arc;

use mnemon::{Engine, Message, Model, OnnxEmbedder, Query};

use super::{SPACE, recall};
use crate::support::{Db, namespace, root};

/// A query, the message it is for, and messages like it that must not push it away. All kinds are put together.
type Pair = (&'static str, &'static str, &'static [&'static str]);

/// Queries whose messages come first by words, and not by the hybrid score: vectors prefer messages that have another part
/// of the name.
const BY_WORDS: &[&str] = &["on-line", "u-turn", "version 7"];

const HYPHENS: &[Pair] = &[
    ("QX99", "The part to order is the QX-99.", &["The part to order was the QX-98.", "He ordered the QX-990."]),
    ("ZT-41", "Our oven is a ZT41 with two trays.", &["Our oven was a ZT42 with a tray.", "The old oven was a ZT4."]),
    ("wellbeing", "Her talk on well-being filled the hall.", &["She means well, being so young."]),
    ("tshirt", "I left my grey T-shirt in the locker.", &["I left my grey shirt in the car."]),
    ("u-turn", "He made a uturn at the lights.", &["He made a turn at the lights."]),
    ("email", "Send me an e-mail when the kiln is free.", &["Send me a postcard when the kiln is free."]),
    ("coop", "We buy our flour at the co-op.", &["We buy our flour at the mill."]),
    ("checkin", "Online check-in opens a day before.", &["Check the tyres before you go in."]),
    ("todo", "The to-do for Monday is on the fridge.", &["What to do on Monday is up to you."]),
    ("signup", "The sign-up sheet hangs in the hall.", &["The sign hangs in the hall."]),
    ("xray", "The dentist took an X-ray of the molar.", &["The dentist took a cast of the molar."]),
    ("wifi", "The Wi-Fi password is under the router.", &["The door password is under the mat."]),
    ("covid19", "Grandpa had COVID-19 over Easter.", &["Grandpa had the flu over Easter, on the 19th."]),
    ("startup", "His start-up rents out beehives.", &["He rents out beehives at the start."]),
    ("on-line", "The course is online and costs nothing.", &["The course is on a line of its own."]),
    ("setup", "The set\u{2011}up of the loom took an hour.", &["We set the loom in an hour."]),
    ("followup", "The follow-up with Dr. Hahn is in June.", &["They follow Dr. Hahn up the hill in June."]),
    ("rollout", "The roll-out of the badges begins in May.", &["The badges roll out of the box."]),
];

const DIGITS: &[Pair] = &[
    ("12B", "She moved into flat 12-B.", &["She moved out of flat 12-C.", "She moved out of flat 13-B."]),
    ("12-D", "The key to 12D is with the porter.", &["The key to 12E is with him.", "The key to 14D is lost."]),
    ("B12", "My vitamin B-12 was low again.", &["My vitamin B-6 was low again.", "My vitamin C was low."]),
    ("5 kg", "I need 5kg of clay.", &["I need 7kg of clay.", "I need 5 bags of clay."]),
    ("A-320", "We flew home in an A320.", &["We flew out in an A321.", "We flew out in an A350."]),
    ("F16", "An F-16 crossed the valley.", &["An F-15 crossed the valley.", "A G-16 crossed it."]),
    ("mp3", "The interview is an MP-3 of an hour.", &["The interview is an MP-4 of an hour."]),
    ("gate C14", "The flight leaves from gate C-14.", &["It leaves from gate C-15.", "It leaves from gate D-14."]),
    ("row 7F", "Our seats are in row 7-F.", &["Our seats were in row 7-E.", "Our seats were in row 8-F."]),
    ("INV-2024-0173", "I paid INV2024-0173 at last.", &["I paid INV2024-0174 too.", "I paid INV2023-0173."]),
];

const CODE: &[Pair] = &[
    (
        "get user by id",
        "The test calls getUserById twice.",
        &["The test calls getUserByName.", "It calls getOrderById."],
    ),
    ("getUserByEmail", "The slow one is get_user_by_email.", &["The slow one is get_user_by_phone."]),
    ("parse_json_file", "parseJsonFile drops the last line.", &["parseXmlFile drops the last line."]),
    ("max connections", "maxConnections is 40 on staging.", &["maxRetries is 40 on staging.", "minConnections is 4."]),
    ("XMLHttpRequest", "We still use xml_http_request there.", &["We still use http there.", "It is an XML request."]),
    ("http request", "XMLHttpRequest fails behind the proxy.", &["XMLParser fails behind the proxy."]),
    ("std::mem::take", "Use std::mem::take for the buffer.", &["Use std::mem::swap for the buffer."]),
    ("numpy.linalg.norm", "numpy.linalg.norm gives the length.", &["numpy.linalg.inv gives the inverse."]),
    ("toString", "Override to_string in that class.", &["Override the string in that class."]),
    ("ECONNRESET", "The job died with ECONNRESET.", &["The job died with ECONNREFUSED."]),
    ("PaymentService", "payment-service restarts at night.", &["mail-service restarts at night."]),
    ("user_count", "userCount is wrong by one.", &["userLimit is wrong by one.", "orderCount is right."]),
];

const VERSIONS: &[Pair] = &[
    ("1.2.3", "We run v1.2.3 in production.", &["We ran v1.2.4 before.", "We ran v1.3.2.", "We ran v2.1.3."]),
    ("v4.0.1", "The fix is in 4.0.1.", &["The bug is in 4.1.0.", "The bug is in 4.0.10.", "The bug is in 1.4.0."]),
    ("0.9.4", "Install loomctl-v0.9.4 first.", &["Install loomctl-v0.9.5 later.", "It was loomctl-v0.4.9."]),
    ("Python 3.11", "The wheel is for python3.11.", &["The wheel was for python3.10.", "It was for python3.9."]),
    ("version 7", "The manual describes v7.", &["The manual described v6.", "The manual will describe v8."]),
    ("10.0.19045", "Her laptop has build 10.0.19045.", &["His laptop has build 10.0.19044."]),
];

const NAMES: &[Pair] = &[
    ("AT&T", "AT&T raised the price of the landline.", &["At the bank they raised the price."]),
    ("att", "My aunt worked for AT&T in Dallas.", &["My aunt worked at a bank in Dallas."]),
    ("R&D", "Mona leads R&D now.", &["Mona leads sales now.", "Mona leads the D team now."]),
    ("H&M", "The coat is from H&M.", &["The coat is from M&S.", "The coat is from him."]),
    ("Q&A", "After the film there is a Q&A.", &["After the film there is a party."]),
    ("IT", "IT has to reset my badge.", &["It has to be reset.", "She said it was the badge."]),
    ("IT department", "The IT department moved to floor 3.", &["The art department moved to floor 2."]),
    ("WHO", "The WHO published new advice on salt.", &["Who published the advice on salt?"]),
    ("The Who", "In Leeds we saw The Who.", &["In Leeds we saw the man who sang."]),
    ("A+", "Nora got an A+ for her essay.", &["Nora got a B for her essay.", "Nora got a C+ for it."]),
    ("C++", "He writes the firmware in C++.", &["He wrote the firmware in C.", "He wrote it in C#."]),
    ("C#", "The game is written in C#.", &["The game was written in C.", "The tune is in F#."]),
    ("F#", "The parser is in F#.", &["The parser was in F.", "The parser was in C#."]),
    (".NET", "We moved the billing to .NET.", &["We moved the goal net.", "We moved the fishing net."]),
    ("Notepad++", "Open the log in Notepad++.", &["Open the log in Notepad."]),
    ("Disney+", "The series is on Disney+.", &["The Disney film is at the cinema."]),
    (".env", "The token is in .env.", &["The token is in the safe."]),
    ("U.S.A.", "They ship to Canada and the USA.", &["They ship to Canada and Mexico."]),
    ("OR", "The plates say OR, so he is from Oregon.", &["He is from here or from Ohio."]),
    ("YouTube", "The lesson is on youtube.", &["The lesson is in the tube, you know."]),
];

const ADDRESSES: &[Pair] = &[
    (
        "ada.king@mail.example",
        "Write to ada.king@mail.example.",
        &["Write to ada.knight@mail.example.", "ada@mail.example is old."],
    ),
    (
        "tom@quay.example",
        "The invoice goes to <tom@quay.example>.",
        &["The receipt goes to tim@quay.example.", "tom@key.example is old."],
    ),
    ("j_ruiz99@post.example", "Her address is J_Ruiz99@post.example.", &["His address is j_ruiz98@post.example."]),
    ("quay.example", "Mail tom@quay.example about the berth.", &["Mail tom@port.example about the berth."]),
    (
        "https://docs.quay.example/install",
        "The steps are at docs.quay.example/install.",
        &["The prices are at docs.quay.example/buy."],
    ),
    (
        "docs.loom.example/warp?lang=en",
        "See https://docs.loom.example/warp?lang=en.",
        &["See https://docs.loom.example/warp?lang=de."],
    ),
    ("www.kiln.example", "Book at https://kiln.example.", &["Book at https://clay.example."]),
    ("http://10.0.0.7:8080/health", "Ping 10.0.0.7:8080/health first.", &["Ping 10.0.0.8:8080/health later."]),
    (
        "kiln.example/slots#june",
        "I sent http://www.kiln.example/slots#june.",
        &["I sent http://www.kiln.example/slots#july."],
    ),
    ("192.168.1.17", "The printer is 192.168.1.17.", &["The scanner is 192.168.1.18.", "The camera is 192.168.17.1."]),
];

const PATHS: &[Pair] = &[
    (
        "/etc/nginx/nginx.conf",
        "I changed /etc/nginx/nginx.conf.",
        &["I changed /etc/nginx/mime.types.", "I read /etc/nginx."],
    ),
    ("src/recall/when.rs", "The bug is in src/recall/when.rs:40.", &["The fix is in src/recall/what.rs."]),
    ("when.rs", "Look at crates/loom/when.rs.", &["Look at crates/loom/then.rs."]),
    (r"C:\Users\ada\notes.txt", r"It is in C:\Users\ada\notes.txt.", &[r"It was in C:\Users\ada\todo.txt."]),
    (
        "docker-compose.yml",
        "The port is in docker-compose.yml.",
        &["The port was in docker-compose.dev.", "compose.yml is old."],
    ),
    (
        "report_final_v2.pdf",
        "I mailed report_final_v2.pdf.",
        &["I mailed report_final_v1.pdf.", "I mailed report_draft_v2.pdf."],
    ),
    ("IMG_4711", "The best one is IMG_4711.jpg.", &["The worst one is IMG_4712.jpg."]),
    ("~/.ssh/config", "Put the host into ~/.ssh/config.", &["Put the key into ~/.ssh/keys."]),
];

const HASHES: &[Pair] = &[
    ("3f2a9bc", "Revert 3f2a9bc.", &["Revert 3f2a9bd.", "Keep 4f2a9bc."]),
    (
        "9e107d9",
        "It broke at 9e107d9d372bb6826bd81d3542a419d6e1f2a3b4.",
        &["It worked at 9e107d8d372bb6826bd81d3542a419d6e1f2a3b4."],
    ),
    ("c0ffee254729296a45a3885639ac7e10f9d54979", "Tag c0ffee2 as stable.", &["Tag c0ffee3 as broken."]),
    (
        "550e8400-e29b-41d4-a716-446655440000",
        "Order 550e8400-e29b-41d4-a716-446655440000 is late.",
        &["Order 550e8400-e29b-41d4-a716-446655440001 is here."],
    ),
    ("4XK9-22LM-7PQ0", "The licence is 4XK9-22LM-7PQ0.", &["The old licence was 4XK9-22LM-7PQ1."]),
    ("TICKET-4821", "TICKET-4821 is about the lift.", &["TICKET-4822 is about the door.", "TICKET-4812 is closed."]),
    ("#5173", "Issue 5173 is about the lamp.", &["Issue 5174 is about the fan."]),
    ("0x7fff5fbff8a0", "It crashed at 0x7FFF5FBFF8A0.", &["It crashed at 0x7FFF5FBFF8B0."]),
];

const PHONES: &[Pair] = &[
    (
        "030123456",
        "The clinic has +49 (30) 123-456.",
        &["The school has +49 (30) 123-457.", "The bakery has +49 (40) 123-456."],
    ),
    ("+49 40 9988776", "The ferry office is 040/9988776.", &["The fish market is 040/9988775."]),
    ("(212) 555-0147", "Call Rosa at 212-555-0147.", &["Call Rick at 212-555-0148."]),
    ("+1 415 555 0162", "The gym is 415.555.0162.", &["The pool is 415.555.0163."]),
    ("5550181", "The plumber is 555-0181.", &["The roofer is 555-0182."]),
    ("0171 2345678", "My mobile is +49 171 2345678.", &["My old mobile was +49 171 2345679."]),
    ("+44 20 7946 0958", "London has 020 7946 0958.", &["Leeds has 020 7946 0959."]),
    ("6505550133", "The vet is (650) 555-0133.", &["The zoo is (650) 555-0134."]),
];

const DATES: &[Pair] = &[
    ("2023-05-07", "The lease was signed on 2023-05-07.", &["It was read on 2023-07-05.", "It ended on 2025-05-07."]),
    (
        "2021/11/3",
        "The roof was fixed on 2021-11-03.",
        &["The roof leaked on 2021-03-11.", "The wall was fixed on 2021-11-04."],
    ),
    ("14.02.2022", "We met on 2022-02-14.", &["We met again on 2022-02-15.", "We left on 2022-12-14."]),
    (
        "2020-08-19",
        "The kiln arrived on 19.8.2020.",
        &["The clay arrived on 18.8.2020.", "The glaze arrived on 19.9.2020."],
    ),
    ("2019-03-28", "The report is of 2019-03-28T16:20:00Z.", &["The next is of 2019-03-29T16:20:00Z."]),
    ("3/25/2018", "The deed is of 2018-03-25.", &["The will is of 2018-05-23.", "The deed was of 2018-03-26."]),
    ("16:45", "The ferry leaves at 16:45.", &["The bus leaves at 16:15.", "The tram leaves at 15:45."]),
];

const AMOUNTS: &[Pair] = &[
    (
        "1200.50",
        "The boiler cost $1,200.50.",
        &["The pump cost $1,200.55.", "The tank cost $2,100.50.", "The tap cost $120.50."],
    ),
    ("$3,450.75", "The deposit is 3450.75 dollars.", &["The rent is 3540.75 dollars."]),
    ("1.830,20 EUR", "The bill was 1830.20 euros.", &["The bill was 1803.20 euros."]),
    ("87500", "They offered $87,500 for the barn.", &["They offered $78,500.", "They offered $87,050."]),
    ("€23.900", "The van was 23,900 euros.", &["The car was 29,300 euros.", "The bike was 239 euros."]),
    ("1,250,000", "The bridge cost 1.250.000 crowns.", &["The tunnel cost 1.520.000 crowns."]),
    ("2 600 000", "The town has 2,600,000 people.", &["The city has 6,200,000 people."]),
    ("12,50", "The ticket was 12.50.", &["The ticket is 15.20 now.", "The ticket was 12.05."]),
    ("$640.00", "My share is 640 dollars.", &["His share is 460 dollars.", "Her share is 604 dollars."]),
    ("14,99 €", "The cap was EUR 14.99.", &["The cap was EUR 19.49.", "The scarf was EUR 14.19."]),
    ("4,800", "The new pump draws 4800 watts.", &["The old pump drew 8400 watts.", "The fan draws 480 watts."]),
    ("36.6", "Her temperature is 36,6.", &["His temperature is 38,6.", "Her temperature was 36,9."]),
    ("-18", "The freezer is at -18 degrees.", &["The fridge is at 4 degrees.", "The freezer was at -8 degrees."]),
];

const KINDS: &[(&str, &[Pair])] = &[
    ("hyphens", HYPHENS),
    ("letters and digits", DIGITS),
    ("code", CODE),
    ("versions", VERSIONS),
    ("names", NAMES),
    ("addresses", ADDRESSES),
    ("paths", PATHS),
    ("hashes", HASHES),
    ("phone numbers", PHONES),
    ("dates and times", DATES),
    ("amounts", AMOUNTS),
];

/// An engine with the bundled model, which a user gets who names none, and the sample's messages in one namespace.
fn sample(db: &Db) -> Engine {
    let engine = db.open_with(Arc::new(OnnxEmbedder::new(Model::bundled()).unwrap()));
    let lines = std::fs::read_to_string(root("datasets/sample/messages.jsonl")).unwrap();
    let messages = lines.lines().map(|line| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = |key: &str| line[key].as_str().unwrap().to_owned();
        let message = Message::user(text("content")).with_id(text("id")).in_session(text("session"));
        Message { role: text("role").parse().unwrap(), name: line["name"].as_str().map(str::to_owned), ..message }
            .at(text("created_at").parse().unwrap())
    });
    engine.blocking().put(&namespace(SPACE), messages.collect()).unwrap();
    engine
}

#[test]
fn names_are_among_the_first_three_in_any_spelling() {
    let db = Db::new();
    let engine = sample(&db);
    let mut messages = Vec::new();
    for (kind, pairs) in KINDS {
        for (at, (_, text, others)) in pairs.iter().enumerate() {
            // Each in a session of its own, so that none is found as a neighbor.
            let new = |id: String, text: &str| Message::user(text).in_session(id.clone()).with_id(id);
            messages.push(new(format!("{kind} {at}"), text));
            messages.extend((0..).zip(*others).map(|(other, text)| new(format!("{kind} {at} {other}"), text)));
        }
    }
    engine.blocking().put(&namespace(SPACE), messages).unwrap();
    engine.blocking().flush().unwrap();
    let mut failures = Vec::new();
    let mut count = 0;
    for (kind, pairs) in KINDS {
        for (at, (query, text, _)) in pairs.iter().enumerate() {
            let rank = |question: Query| {
                let hits = recall(&engine, question.k(50));
                hits.iter().position(|hit| hit.message.id == format!("{kind} {at}")).map(|at| at + 1)
            };
            let is_found = |rank: Option<usize>| rank.is_some_and(|rank| rank <= 3);
            let (hybrid, by_words) = (rank(Query::new(*query)), rank(super::lexical(*query)));
            count += 1;
            if !is_found(if BY_WORDS.contains(query) { by_words } else { hybrid }) {
                failures.push(format!("{kind}: {query:?} of {text:?}: rank {hybrid:?}, {by_words:?} by words"));
            }
        }
    }
    assert_eq!(count, 120);
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
