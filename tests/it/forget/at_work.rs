//! What is removed while a model is asked, and what its answer may still change: each block, each kind of removal, at each
//! moment.
//!
//! A message has a word that says `secret`, another one a word that says `kept`. The model repeats every such word that it is
//! shown, and waits with its answer until the removal has returned.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use mnemon::{
    BufferLimits, ChatRequest, Collection, CollectionBlock, DocumentSearch, Engine, FactBlock, Forget,
    InstructionBlock, Memory, MemoryBlock, Message, MetadataFilter, Namespace, Profile, ProfileBlock, Result,
    SummaryBlock, Timestamp,
};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};

use crate::support::{Db, killing::runs, namespace, random::below};

const SESSION: &str = "monday";

fn user() -> Namespace {
    namespace("acme/user-42")
}

/// The words in a text that a message says.
fn words(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !(c.is_alphanumeric() || c == '-'));
    words.filter(|word| word.starts_with("secret-") || word.starts_with("kept-")).map(str::to_owned).collect()
}

/// Answers with all words of a request, in the form that is asked for.
fn repeat(request: &ChatRequest) -> Message {
    let [asked, shown] = [0, 1].map(|at| request.messages[at].text());
    let words = words(&shown);
    let list = words.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
    let answer = if asked.starts_with("You keep a collection") {
        // Not as they are: an item that exists already is not inserted.
        let is_new = |word: &&String| !shown.contains(&format!("again {word}."));
        let items = words.iter().filter(is_new).map(|word| json!({ "text": format!("again {word}.") }));
        json!({ "insert": items.collect::<Vec<_>>() }).to_string()
    } else if asked.starts_with("You keep a profile") {
        Value::from(words.iter().map(|word| (word.clone(), true.into())).collect::<Map<_, _>>()).to_string()
    } else if asked.starts_with("You extract") {
        json!({ "facts": words }).to_string()
    } else {
        format!("I know {list}.")
    };
    Message::assistant(answer)
}

/// A model that repeats. From [`Model::hold`] on, its next answer waits until [`Model::release`].
#[derive(Clone, Default)]
struct Model(Arc<Mutex<Option<Held>>>);

struct Held {
    begun: mpsc::SyncSender<()>,
    released: mpsc::Receiver<()>,
}

impl Model {
    /// Returns what says that the model is asked, and what lets it answer.
    fn hold(&self) -> (mpsc::Receiver<()>, mpsc::SyncSender<()>) {
        let ((begun, is_asked), (release, released)) = (mpsc::sync_channel(1), mpsc::sync_channel(1));
        *self.0.lock() = Some(Held { begun, released });
        (is_asked, release)
    }

    fn chat(&self) -> impl Fn(&ChatRequest) -> Result<Message> + Send + Sync + 'static {
        let held = Arc::clone(&self.0);
        move |request| {
            let held = held.lock().take();
            if let Some(Held { begun, released }) = held {
                begun.send(()).unwrap();
                released.recv_timeout(Duration::from_secs(60)).unwrap();
            }
            Ok(repeat(request))
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Facts,
    Summary,
    Profile,
    Collection,
    Instructions,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Removal {
    ForgetIds,
    ForgetMatching,
    ForgetSession,
    ForgetNamespace,
    ForgetPrefix,
    Delete,
    DeleteSession,
    DeleteNamespace,
    Clear,
    Replace,
    Expire,
}

use Removal::*;

/// Those after which nothing that was made of a message is there any more.
const FORGETS: [Removal; 5] = [ForgetIds, ForgetMatching, ForgetSession, ForgetNamespace, ForgetPrefix];
const OTHERS: [Removal; 6] = [Delete, DeleteSession, DeleteNamespace, Clear, Replace, Expire];

impl Removal {
    /// Removes the message `m`.
    fn run(self, engine: &Engine) {
        let (engine, user) = (engine.blocking(), user());
        match self {
            ForgetIds => drop(engine.forget(Forget::messages(&user, ["m"])).unwrap()),
            ForgetMatching => {
                drop(engine.forget(Forget::matching(&user, MetadataFilter::eq("$id", "m").unwrap())).unwrap());
            }
            ForgetSession => drop(engine.forget(Forget::session(&user, SESSION)).unwrap()),
            ForgetNamespace => drop(engine.forget(Forget::namespace(&user)).unwrap()),
            ForgetPrefix => drop(engine.forget(Forget::prefix(&user)).unwrap()),
            Delete => assert_eq!(engine.delete(&user, vec!["m".to_owned()]).unwrap(), 1),
            DeleteSession => engine.delete_session(&user, SESSION).unwrap(),
            DeleteNamespace => drop(engine.delete_namespace(&user).unwrap()),
            Clear => panic!("by the memory"),
            Replace => {
                let other = Message::user("kept-other").with_id("m").in_session(SESSION);
                assert_eq!(engine.put(&user, vec![other]).unwrap().replaced, 1);
            }
            Expire => thread::sleep(Duration::from_millis(1500)),
        }
    }

    /// The words that are left in the session, and may be known afterwards.
    fn left(self) -> &'static [&'static str] {
        match self {
            ForgetIds | ForgetMatching | Delete | Expire => &["kept-one"],
            Replace => &["kept-one", "kept-other"],
            _ => &[],
        }
    }

    /// Returns true if the namespace of the user is gone.
    fn takes_the_namespace(self) -> bool {
        // The last session of a namespace goes with it.
        matches!(self, ForgetSession | ForgetNamespace | ForgetPrefix | DeleteNamespace)
    }
}

fn open(engine: &Engine, session: &str, kind: Kind, model: &Model) -> (Memory, InstructionBlock) {
    let instructions = InstructionBlock::new("block", "Be kind.", model.chat());
    let facts = Collection::new(engine, &namespace("acme/user-42/facts"));
    let profile = Profile::new(engine, &user(), "profile");
    let block: Arc<dyn MemoryBlock> = match kind {
        Kind::Facts => Arc::new(FactBlock::new("block", model.chat())),
        Kind::Summary => Arc::new(SummaryBlock::new("block", model.chat())),
        Kind::Profile => Arc::new(ProfileBlock::new("block", &profile, model.chat())),
        Kind::Collection => Arc::new(CollectionBlock::new("block", &facts, model.chat())),
        Kind::Instructions => Arc::new(instructions.clone()),
    };
    let limits = BufferLimits::new(1000, 0.7, 1).unwrap();
    (engine.memory(&user(), session).limits(limits).block(block).open().unwrap(), instructions)
}

fn message(id: &str, word: &str) -> Message {
    Message::user(format!("I like {word}.")).with_id(id)
}

/// The message that is removed.
fn secret(removal: Removal) -> Message {
    let message = message("m", "secret-one");
    match removal {
        Expire => message.expiring_at(Timestamp::from_micros(Timestamp::now().as_micros() + 1_400_000).unwrap()),
        _ => message,
    }
}

/// All words that are in any document, state of a block or message of the database.
fn known(engine: &Engine) -> BTreeSet<String> {
    let mut all = String::new();
    for info in engine.blocking().namespaces(None, None, 100).unwrap().namespaces {
        let documents = engine.documents(&info.namespace).blocking().search(DocumentSearch::default().limit(1000));
        all += &format!("{:?} {:?}", documents.unwrap(), engine.blocking().blocks(&info.namespace).unwrap());
    }
    words(&all)
}

fn settle(memory: &Memory) {
    for _ in 0..500 {
        if memory.blocking().settle().is_ok() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("{:?}", memory.blocking().status());
}

#[track_caller]
fn check(engine: &Engine, case: &str, removal: Removal) {
    let expected: BTreeSet<String> = removal.left().iter().map(|word| (*word).to_owned()).collect();
    assert_eq!(known(engine), expected, "{case}");
    let namespaces = engine.blocking().namespaces(None, None, 100).unwrap().namespaces;
    let user = user();
    assert!(!removal.takes_the_namespace() || namespaces.iter().all(|info| info.namespace != user), "{case}");
}

/// The message is in the batch that the model works on.
#[test]
fn an_answer_about_a_removed_message_is_not_stored() {
    let kinds = [Kind::Facts, Kind::Summary, Kind::Profile, Kind::Collection];
    for (kind, removal) in
        kinds.into_iter().flat_map(|kind| FORGETS.into_iter().chain(OTHERS).map(move |how| (kind, how)))
    {
        let db = Db::new();
        let engine = db.open();
        let model = Model::default();
        let (memory, _) = open(&engine, SESSION, kind, &model);
        let (is_asked, release) = model.hold();
        memory.blocking().put(vec![secret(removal), message("k", "kept-one")]).unwrap();
        memory.blocking().flush().unwrap();
        is_asked.recv_timeout(Duration::from_secs(60)).unwrap();
        match removal {
            Clear => drop(memory.blocking().clear().unwrap()),
            removal => removal.run(&engine),
        }
        release.send(()).unwrap();
        settle(&memory);
        check(&engine, &format!("{kind:?}, {removal:?}"), removal);
        drop((memory, engine));
        db.assert_sound();
    }
}

/// The message is in an earlier batch, and the model was shown what was made of it.
#[test]
fn an_answer_made_of_what_a_forgotten_message_led_to_is_not_stored() {
    for (kind, removal) in [Kind::Facts, Kind::Summary, Kind::Profile, Kind::Collection]
        .into_iter()
        .flat_map(|kind| FORGETS.map(|removal| (kind, removal)))
    {
        let db = Db::new();
        let engine = db.open();
        let model = Model::default();
        let (memory, _) = open(&engine, SESSION, kind, &model);
        memory.blocking().put(vec![secret(removal)]).unwrap();
        memory.blocking().flush().unwrap();
        settle(&memory);
        assert!(known(&engine).contains("secret-one"), "{kind:?}");
        let (is_asked, release) = model.hold();
        memory.blocking().put(vec![message("k", "kept-one")]).unwrap();
        memory.blocking().flush().unwrap();
        is_asked.recv_timeout(Duration::from_secs(60)).unwrap();
        removal.run(&engine);
        release.send(()).unwrap();
        settle(&memory);
        check(&engine, &format!("{kind:?}, {removal:?}"), removal);
        drop((memory, engine));
        db.assert_sound();
    }
}

/// The block has stored what it made of the message, and is asked no more.
#[test]
fn what_was_made_of_a_forgotten_message_goes_with_it() {
    for (kind, removal) in [Kind::Facts, Kind::Summary, Kind::Profile, Kind::Collection, Kind::Instructions]
        .into_iter()
        .flat_map(|kind| FORGETS.map(|removal| (kind, removal)))
    {
        let db = Db::new();
        let engine = db.open();
        let (memory, instructions) = open(&engine, SESSION, kind, &Model::default());
        memory.blocking().put(vec![secret(removal), message("k", "kept-one")]).unwrap();
        memory.blocking().flush().unwrap();
        settle(&memory);
        if kind == Kind::Instructions {
            memory.blocking().refine(&instructions, "Be short.", 20).unwrap();
        }
        let checkpoint = memory.blocking().checkpoint("").unwrap();
        assert!(known(&engine).contains("secret-one"), "{kind:?}");
        removal.run(&engine);
        assert!(!known(&engine).contains("secret-one"), "{kind:?}, {removal:?}");
        settle(&memory);
        if kind != Kind::Instructions {
            check(&engine, &format!("{kind:?}, {removal:?}"), removal);
        }
        // Nor does a checkpoint bring it back.
        let _ = memory.blocking().restore(checkpoint);
        settle(&memory);
        assert!(!known(&engine).contains("secret-one"), "{kind:?}, {removal:?}: restored");
        drop((memory, engine));
        db.assert_sound();
    }
}

#[test]
fn instructions_are_not_made_of_a_message_that_is_removed_meanwhile() {
    for removal in FORGETS.into_iter().chain(OTHERS) {
        let db = Db::new();
        let engine = db.open();
        let model = Model::default();
        let (memory, instructions) = open(&engine, SESSION, Kind::Instructions, &model);
        memory.blocking().put(vec![secret(removal), message("k", "kept-one")]).unwrap();
        let (is_asked, release) = model.hold();
        let refined = thread::scope(|scope| {
            let refining = scope.spawn(|| memory.blocking().refine(&instructions, "Be short.", 20));
            is_asked.recv_timeout(Duration::from_secs(60)).unwrap();
            match removal {
                Clear => drop(memory.blocking().clear().unwrap()),
                removal => removal.run(&engine),
            }
            release.send(()).unwrap();
            refining.join().unwrap()
        });
        let gone = removal.left().is_empty() && removal != Clear;
        assert_eq!(refined.is_err(), gone, "{removal:?}: {refined:?}");
        check(&engine, &format!("{removal:?}"), removal);
        drop((memory, engine));
        db.assert_sound();
    }
}

/// A batch that was set aside, and is handed over again.
#[test]
fn a_batch_that_is_tried_again_is_checked_too() {
    for kind in [Kind::Facts, Kind::Collection] {
        let db = Db::new();
        let engine = db.open();
        let (model, faults) = (Model::default(), Arc::new(AtomicUsize::new(3)));
        let chat = model.chat();
        let faulty = move |request: &ChatRequest| {
            let fails = faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok();
            if fails { Ok(Message::assistant("no JSON")) } else { chat(request) }
        };
        let facts = Collection::new(&engine, &namespace("acme/user-42/facts"));
        let builder = engine.memory(&user(), SESSION);
        let memory = match kind {
            Kind::Facts => builder.block(FactBlock::new("block", faulty)),
            _ => builder.block(CollectionBlock::new("block", &facts, faulty)),
        };
        let memory = memory.open().unwrap();
        memory.blocking().put(vec![message("m", "secret-one"), message("k", "kept-one")]).unwrap();
        memory.blocking().flush().unwrap();
        settle(&memory);
        assert_eq!(memory.blocking().status().unwrap()[0].failed.len(), 1);
        let (is_asked, release) = model.hold();
        thread::scope(|scope| {
            let retrying = scope.spawn(|| memory.blocking().retry_failed("block"));
            is_asked.recv_timeout(Duration::from_secs(60)).unwrap();
            Delete.run(&engine);
            release.send(()).unwrap();
            assert_eq!(retrying.join().unwrap().unwrap(), 1);
        });
        check(&engine, &format!("{kind:?}"), Delete);
    }
}

/// A profile that several sessions made is made again from all of them, and nothing else is taken from it.
#[test]
fn a_profile_is_made_again_of_all_its_sessions() {
    let db = Db::new();
    let engine = db.open();
    let model = Model::default();
    let (one, two) = (open(&engine, "one", Kind::Profile, &model).0, open(&engine, "two", Kind::Profile, &model).0);
    for (memory, messages) in
        [(&one, vec![message("m", "secret-one"), message("k", "kept-one")]), (&two, vec![message("o", "kept-two")])]
    {
        memory.blocking().put(messages).unwrap();
        memory.blocking().flush().unwrap();
        settle(memory);
    }
    let forgotten = engine.blocking().forget(Forget::messages(&user(), ["m"])).unwrap().forgotten();
    assert_eq!((forgotten.documents, forgotten.block_states), (1, 2));
    assert_eq!(known(&engine), BTreeSet::new());
    settle(&one);
    settle(&two);
    let expected = ["kept-one", "kept-two"].map(str::to_owned);
    assert_eq!(known(&engine), BTreeSet::from(expected));
}

/// Messages of some sessions are formed and forgotten at the same time. In the end exactly those words are known that were
/// said and not forgotten, by all blocks that know words.
#[test]
fn forming_and_forgetting_at_the_same_time() {
    let mut state = 11;
    for round in 0..runs().div_ceil(10) {
        let db = Db::new();
        let engine = db.open();
        let delays = Arc::new(AtomicUsize::new(round as usize));
        let slow = || {
            let delays = Arc::clone(&delays);
            move |request: &ChatRequest| {
                let delay = delays.fetch_add(7, Ordering::SeqCst) % 12;
                thread::sleep(Duration::from_millis(delay as u64));
                Ok(repeat(request))
            }
        };
        let facts = Collection::new(&engine, &namespace("acme/user-42/facts"));
        let profile = Profile::new(&engine, &user(), "profile");
        let sessions: Vec<Memory> = (0..3)
            .map(|at| {
                let builder = engine.memory(&user(), at.to_string());
                let builder = builder.block(CollectionBlock::new("facts", &facts, slow()));
                builder.block(ProfileBlock::new("profile", &profile, slow())).open().unwrap()
            })
            .collect();
        let (mut said, mut forgotten) = (Vec::new(), BTreeSet::new());
        for step in 0..30 {
            let id = format!("kept-{round}-{step}");
            let memory = &sessions[below(&mut state, 3)];
            memory.blocking().put(vec![message(&id, &id)]).unwrap();
            said.push(id);
            if below(&mut state, 3) > 0 {
                memory.blocking().flush().unwrap();
            }
            if below(&mut state, 3) == 0 {
                thread::sleep(Duration::from_millis(below(&mut state, 15) as u64));
                let id = &said[below(&mut state, said.len())];
                engine.blocking().forget(Forget::messages(&user(), [id.as_str()])).unwrap();
                forgotten.insert(id.clone());
                assert!(!known(&engine).contains(id), "{id} is known after it was forgotten");
            }
        }
        for memory in &sessions {
            memory.blocking().flush().unwrap();
        }
        sessions.iter().for_each(settle);
        let left: BTreeSet<String> = said.into_iter().filter(|id| !forgotten.contains(id)).collect();
        let items = facts.blocking().search(DocumentSearch::default().limit(1000)).unwrap();
        assert_eq!(words(&format!("{items:?}")), left, "facts, round {round}");
        assert_eq!(words(&profile.blocking().get().unwrap().to_string()), left, "profile, round {round}");
        crate::support::tally::tally("forgets", forgotten.len() as u64);
        drop((sessions, facts, profile, engine));
        db.assert_sound();
    }
}
