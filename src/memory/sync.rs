//! Makes a session what a client's chat is.
//!
//! The chat is aligned with the session ([`align`]), first the leading system messages and then the others. From this
//! follows an [`Item`] for each message of both, in the order that the session will have, and from the items one change
//! of the session. The store appends new messages; so a message that is kept after a new one is removed and put again.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    align::align,
    echo::content_hash,
    inner::Inner,
    reports::MemoryReport,
    resent::{content_hashes, has_made_id},
};
use crate::{
    engine::block_on,
    error::Result,
    message::{Message, Role, unfit_for_prompt},
    store::SessionChange,
};

/// A message of the session.
struct Known {
    message: Message,
    is_buffered: bool,
    /// Prompts show it: it is in the buffer, or among the last turns.
    is_recent: bool,
    /// A prompt did not contain the message, so that a chat made of prompts lacks it.
    is_hidden: bool,
    /// One of the last prompts contained the message.
    is_shown: bool,
}

/// A message of the chat.
struct Given {
    message: Message,
    /// A prompt had the message with this content: the client did not edit it.
    is_as_given: bool,
}

/// The fate of a message. The indexes are those of the session's messages.
enum Item {
    /// The chat has the message too.
    Keep(usize),
    /// The chat does not have the message, which stays nevertheless.
    Stay(usize),
    Replace(usize, Message),
    New(Message),
    Remove(usize),
}

impl Inner {
    /// Makes the session what the chat is, in one commit. Blocks the calling thread.
    pub(super) fn sync(&self, chat: Vec<Message>) -> Result<MemoryReport> {
        // Two clients that send the same chat at once must not both add its new messages.
        let _one_at_a_time = self.live.syncing.lock();
        let chat = chat.into_iter().map(|message| message.in_session(&self.stored.session)).collect();
        let (chat, echoes) = self.returned_chat(chat);
        let mut report = MemoryReport { echoes, ..MemoryReport::default() };
        let chat = self.checked_chat(chat, &mut report.echoes)?;
        let (system, others) = self.session_parts()?;
        let ids: HashSet<String> = system.iter().chain(&others).map(|known| known.message.id.clone()).collect();
        let mut chat = chat.into_iter().peekable();
        let mut chat_system = Vec::new();
        while let Some(given) = chat.next_if(|given| given.message.role == Role::System) {
            chat_system.push(given);
        }
        let mut changing = Changing::new(&ids, &mut report);
        // Chats whose system prompt the program adds later have none.
        if !chat_system.is_empty() {
            items(&system, chat_system, true).into_iter().for_each(|item| changing.apply(&system, item));
        }
        // A new system message comes before the buffer, where it stays at the beginning of prompts.
        changing.shifts_buffer = std::mem::take(&mut changing.shifts);
        items(&others, chat.collect(), false).into_iter().for_each(|item| changing.apply(&others, item));
        let Changing { put, removed, .. } = changing;
        if !(put.is_empty() && removed.is_empty()) {
            let change = SessionChange { remove: removed.into_iter().collect(), put, ..SessionChange::default() };
            block_on(self.stored.update(change, self.settings.checkpoint_each_put))?;
        }
        Ok(report)
    }

    /// Checks the messages of a chat. Of several with one id, the last counts, in the place of the first. Drops the
    /// messages of other sessions, which a block placed in a prompt.
    fn checked_chat(&self, chat: Vec<(Message, bool)>, echoes: &mut Vec<String>) -> Result<Vec<Given>> {
        let mut checked: Vec<Given> = Vec::with_capacity(chat.len());
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (message, is_as_given) in chat {
            message.check()?;
            if self.stored.is_message_elsewhere(&message, content_hash)? {
                echoes.push(message.id);
                continue;
            }
            let position = *positions.entry(message.id.clone()).or_insert(checked.len());
            let given = Given { message, is_as_given };
            match checked.get_mut(position) {
                Some(before) => *before = given,
                None => checked.push(given),
            }
        }
        Ok(checked)
    }

    /// Returns the session's leading system messages and its other messages, oldest first. Leading system messages are
    /// those with which the session begins, and those with which its buffer begins: they stay there when others are
    /// flushed.
    fn session_parts(&self) -> Result<(Vec<Known>, Vec<Known>)> {
        let history = self.stored.history()?;
        let (buffered, leading) = self.live.buffer(&self.stored, |buffer| {
            let leading = buffer.values().take_while(|message| message.role == Role::System);
            let leading: HashSet<String> = leading.map(|message| message.id.clone()).collect();
            (buffer.values().map(|message| message.id.clone()).collect::<HashSet<_>>(), leading)
        })?;
        let (mut hidden, shown): (HashSet<String>, HashSet<String>) = {
            let turn = self.live.turn.lock();
            let shown = turn.given.iter().flat_map(|prompt| prompt.iter().map(|given| given.id.clone()));
            (turn.left_out.iter().flatten().cloned().collect(), shown.collect())
        };
        let recent: HashSet<String> = self.recent()?.into_iter().map(|recent| recent.message.id.clone()).collect();
        hidden.extend(unfit_for_prompt(&history, true).into_iter().map(|at| history[at].id.clone()));
        let first_other = history.iter().take_while(|message| message.role == Role::System).count();
        let (mut system, mut others) = (Vec::new(), Vec::new());
        for (at, message) in history.into_iter().enumerate() {
            let is_leading = at < first_other || leading.contains(&message.id);
            let (is_buffered, is_hidden) = (buffered.contains(&message.id), hidden.contains(&message.id));
            let (is_recent, is_shown) = (recent.contains(&message.id), shown.contains(&message.id));
            let part = if is_leading { &mut system } else { &mut others };
            part.push(Known { message, is_buffered, is_recent, is_hidden, is_shown });
        }
        Ok((system, others))
    }
}

/// Returns the items of a part of the session and the same part of the chat. With `is_complete`, the chat's part is
/// complete; otherwise it may begin in the middle of the session.
fn items(session: &[Known], chat: Vec<Given>, is_complete: bool) -> Vec<Item> {
    let session_ids: HashSet<&str> = session.iter().map(|known| known.message.id.as_str()).collect();
    let chat_keys: Vec<u64> = chat
        .iter()
        .map(|Given { message, .. }| match session_ids.contains(&*message.id) {
            true => id_key(&message.id),
            false => content_hash(message),
        })
        .collect();
    let chat_ids: HashSet<&str> = chat.iter().map(|given| given.message.id.as_str()).collect();
    let keys: Vec<[u64; 2]> = session
        .iter()
        .map(|Known { message, .. }| match chat_ids.contains(&*message.id) {
            true => [id_key(&message.id); 2],
            false => content_hashes(message),
        })
        .collect();
    let matched = align(&keys, &chat_keys);
    // A chat that has what no prompt contained is not made of prompts: it lacks what its client deleted.
    let has_hidden = matched.iter().flatten().any(|&at| session[at].is_hidden && !session[at].is_shown);
    let is_hidden: Vec<bool> = session.iter().map(|known| known.is_hidden && !has_hidden).collect();

    let mut items = Vec::new();
    let Some(first) = matched.iter().position(Option::is_some).or(is_complete.then_some(chat.len())) else {
        items.extend((0..session.len()).map(Item::Stay));
        items.extend(chat.into_iter().map(|given| Item::New(given.message)));
        return items;
    };
    let mut next = 0;
    if let Some(&Some(known)) = matched.get(first)
        && !is_complete
        && known > first
    {
        // The chat begins in the middle: what it has before the first known message is new.
        items.extend((0..known).map(Item::Stay));
        next = known;
    }
    let mut gap: Vec<Given> = Vec::new();
    for (given, matched) in chat.into_iter().zip(matched) {
        let Some(at) = matched else {
            gap.push(given);
            continue;
        };
        between(session, &is_hidden, next..at, std::mem::take(&mut gap), false, &mut items);
        items.push(match given.is_as_given || is_same(&session[at].message, &given.message) {
            true => Item::Keep(at),
            false => replacement(session, at, given.message),
        });
        next = at + 1;
    }
    between(session, &is_hidden, next..session.len(), gap, true, &mut items);
    items
}

/// Adds the items of the messages between two that the session and the chat have in common, or after the last of these.
fn between(
    session: &[Known],
    is_hidden: &[bool],
    range: std::ops::Range<usize>,
    chat: Vec<Given>,
    is_end: bool,
    items: &mut Vec<Item>,
) {
    if chat.is_empty() && !is_end {
        // The chat may be shortened in the middle.
        items.extend(range.map(|at| match is_hidden[at] || !session[at].is_recent {
            true => Item::Stay(at),
            false => Item::Remove(at),
        }));
        return;
    }
    // A message replaces the next one of its role, unless it has an id of its own.
    let mut left = range.clone();
    let replaced: Vec<Option<usize>> = chat
        .iter()
        .map(|Given { message, .. }| {
            let mut after = if has_made_id(message) { left.clone() } else { 0..0 };
            let found = after.find(|&at| session[at].message.role == message.role && !is_hidden[at]);
            if found.is_some() {
                left = after;
            }
            found
        })
        .collect();
    let mut is_edited = false;
    let mut next = replaced.iter().flatten().copied().peekable();
    for at in range {
        let message = &session[at].message;
        if next.next_if_eq(&at).is_some() {
            is_edited |= message.role == Role::User;
        } else if is_hidden[at] && !is_edited {
            items.push(Item::Stay(at));
        } else {
            items.push(Item::Remove(at));
        }
    }
    for (Given { message, .. }, replaced) in chat.into_iter().zip(replaced) {
        items.push(match replaced {
            Some(at) if content_hashes(&session[at].message).contains(&content_hash(&message)) => Item::Keep(at),
            Some(at) => replacement(session, at, message),
            None => Item::New(message),
        });
    }
}

/// Returns the item of a message of the session that is replaced. Its id stays, and its time if the new message has
/// none.
fn replacement(session: &[Known], at: usize, message: Message) -> Item {
    let Message { id, created_at, .. } = &session[at].message;
    Item::Replace(at, Message { id: id.clone(), created_at: message.created_at.or(*created_at), ..message })
}

/// Returns true if the chat's message is the session's, unchanged. Chat formats lose all but the content.
fn is_same(stored: &Message, given: &Message) -> bool {
    content_hashes(stored).contains(&content_hash(given))
        && (given.id != stored.id || given.metadata == stored.metadata && given.name == stored.name)
}

/// Returns the key of a message that is known by its id.
fn id_key(id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    ("id", id).hash(&mut hasher);
    hasher.finish()
}

/// A change of the session, made from items.
struct Changing<'a> {
    /// Ids of the session's messages.
    ids: &'a HashSet<String>,
    report: &'a mut MemoryReport,
    put: Vec<Message>,
    removed: HashSet<String>,
    /// A new message came before: those that follow it must be put again.
    shifts: bool,
    /// Messages must be put again from the first buffered one on.
    shifts_buffer: bool,
}

impl<'a> Changing<'a> {
    fn new(ids: &'a HashSet<String>, report: &'a mut MemoryReport) -> Self {
        Changing { ids, report, put: Vec::new(), removed: HashSet::new(), shifts: false, shifts_buffer: false }
    }

    fn apply(&mut self, session: &[Known], item: Item) {
        let is_kept = matches!(item, Item::Keep(_));
        match item {
            Item::Keep(at) | Item::Stay(at) => {
                self.report.unchanged += u64::from(is_kept);
                if self.must_move(&session[at]) && self.removed.insert(session[at].message.id.clone()) {
                    self.put.push(session[at].message.clone());
                }
            }
            Item::Replace(at, message) => {
                self.report.replaced += 1;
                if self.must_move(&session[at]) {
                    self.removed.insert(message.id.clone());
                }
                self.put.push(message);
            }
            Item::New(message) => {
                self.report.new += 1;
                self.shifts = true;
                // The session may have the message at another place.
                if self.ids.contains(&message.id) {
                    self.removed.insert(message.id.clone());
                }
                self.put.push(message);
            }
            Item::Remove(at) => {
                self.report.removed += 1;
                self.removed.insert(session[at].message.id.clone());
            }
        }
    }

    /// Returns true if a new message comes before this one.
    fn must_move(&mut self, known: &Known) -> bool {
        self.shifts |= self.shifts_buffer && known.is_buffered;
        self.shifts
    }
}
