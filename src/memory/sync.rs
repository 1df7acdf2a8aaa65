//! Synchronizes a session with a client's whole chat.
//!
//! The chat is aligned with the session ([`align`]), first the leading system messages and then the others. The
//! alignment gives an [`Item`] for each message of both, in the order that the session will have, and the items give
//! one change of the session. The store only appends messages, so a message that is kept after a new one is removed and
//! put again.

use std::{
    collections::{HashMap, HashSet},
    hash::{DefaultHasher, Hash, Hasher},
};

use super::{
    echo::{content_hash, content_hashes, has_made_id},
    open_memory::OpenMemory,
    put::MemoryReport,
};
use crate::{
    engine::block_on,
    error::Result,
    message::{Message, Role, unfit_for_prompt},
    store::SessionChange,
};

/// A message of the session.
struct SessionMessage {
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
struct ChatMessage {
    message: Message,
    /// A prompt had the message with this content: the client did not edit it.
    is_as_given: bool,
}

/// The outcome for a message. The indexes are positions in the session.
enum Item {
    /// The chat has the message too.
    Keep(usize),
    /// The chat does not have the message, which stays nevertheless.
    Stay(usize),
    Replace(usize, Message),
    New(Message),
    Remove(usize),
}

impl OpenMemory {
    /// Changes the session to match the chat, in one commit. Blocks the calling thread.
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
        let mut builder = ChangeBuilder::new(&ids, &mut report);
        // Chats whose system prompt the program adds later have none.
        if !chat_system.is_empty() {
            items(&system, chat_system, true).into_iter().for_each(|item| builder.apply(&system, item));
        }
        // A new system message comes before the buffer, where it stays at the beginning of prompts.
        builder.shifts_buffer = std::mem::take(&mut builder.shifts);
        items(&others, chat.collect(), false).into_iter().for_each(|item| builder.apply(&others, item));
        let ChangeBuilder { put, removed, .. } = builder;
        if !(put.is_empty() && removed.is_empty()) {
            let change = SessionChange { remove: removed.into_iter().collect(), put, ..SessionChange::default() };
            block_on(self.stored.update(change, self.settings.checkpoint_of_put()))?;
        }
        Ok(report)
    }

    /// Checks the messages of a chat. Of several with one id, the last counts, in the place of the first. Drops the
    /// messages of other sessions, which a block placed in a prompt.
    fn checked_chat(&self, chat: Vec<(Message, bool)>, echoes: &mut Vec<String>) -> Result<Vec<ChatMessage>> {
        let mut checked: Vec<ChatMessage> = Vec::with_capacity(chat.len());
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (message, is_as_given) in chat {
            message.check()?;
            if self.stored.is_message_elsewhere(&message, content_hash)? {
                echoes.push(message.id);
                continue;
            }
            let position = *positions.entry(message.id.clone()).or_insert(checked.len());
            let given = ChatMessage { message, is_as_given };
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
    fn session_parts(&self) -> Result<(Vec<SessionMessage>, Vec<SessionMessage>)> {
        let history = self.stored.history()?;
        let buffer = self.buffer()?;
        let leading = buffer.iter().take_while(|(_, message)| message.role == Role::System);
        let leading: HashSet<&str> = leading.map(|(_, message)| message.id.as_str()).collect();
        let buffered: HashSet<&str> = buffer.iter().map(|(_, message)| message.id.as_str()).collect();
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
            let is_leading = at < first_other || leading.contains(&*message.id);
            let (is_buffered, is_hidden) = (buffered.contains(&*message.id), hidden.contains(&message.id));
            let (is_recent, is_shown) = (recent.contains(&message.id), shown.contains(&message.id));
            let part = if is_leading { &mut system } else { &mut others };
            part.push(SessionMessage { message, is_buffered, is_recent, is_hidden, is_shown });
        }
        Ok((system, others))
    }
}

/// Returns the items of a part of the session and the same part of the chat. With `is_complete`, the chat's part is
/// complete; otherwise it may begin in the middle of the session.
fn items(session: &[SessionMessage], chat: Vec<ChatMessage>, is_complete: bool) -> Vec<Item> {
    let session_ids: HashSet<&str> = session.iter().map(|known| known.message.id.as_str()).collect();
    let chat_keys: Vec<u64> = chat
        .iter()
        .map(|ChatMessage { message, .. }| match session_ids.contains(&*message.id) {
            true => id_key(&message.id),
            false => content_hash(message),
        })
        .collect();
    let chat_ids: HashSet<&str> = chat.iter().map(|given| given.message.id.as_str()).collect();
    let keys: Vec<[u64; 2]> = session
        .iter()
        .map(|SessionMessage { message, .. }| match chat_ids.contains(&*message.id) {
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
    let mut gap: Vec<ChatMessage> = Vec::new();
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

/// Adds the items of the messages between two common messages of the session and the chat, or after the last common
/// one.
fn between(
    session: &[SessionMessage],
    is_hidden: &[bool],
    range: std::ops::Range<usize>,
    chat: Vec<ChatMessage>,
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
        .map(|ChatMessage { message, .. }| {
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
    for (ChatMessage { message, .. }, replaced) in chat.into_iter().zip(replaced) {
        items.push(match replaced {
            Some(at) if content_hashes(&session[at].message).contains(&content_hash(&message)) => Item::Keep(at),
            Some(at) => replacement(session, at, message),
            None => Item::New(message),
        });
    }
}

/// Returns the item of a message of the session that is replaced. Its id stays, and its times if the new message has
/// none.
fn replacement(session: &[SessionMessage], at: usize, message: Message) -> Item {
    let Message { id, created_at, expires_at, .. } = &session[at].message;
    let (created_at, expires_at) = (message.created_at.or(*created_at), message.expires_at.or(*expires_at));
    Item::Replace(at, Message { id: id.clone(), created_at, expires_at, ..message })
}

/// Returns true if the chat's message is the unchanged message of the session. Chat formats keep only the content.
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
struct ChangeBuilder<'a> {
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

impl<'a> ChangeBuilder<'a> {
    fn new(ids: &'a HashSet<String>, report: &'a mut MemoryReport) -> Self {
        ChangeBuilder { ids, report, put: Vec::new(), removed: HashSet::new(), shifts: false, shifts_buffer: false }
    }

    fn apply(&mut self, session: &[SessionMessage], item: Item) {
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
    fn must_move(&mut self, known: &SessionMessage) -> bool {
        self.shifts |= self.shifts_buffer && known.is_buffered;
        self.shifts
    }
}

/// The most pairs of messages that are compared. Beyond that, the beginnings and ends that are equal are matched first.
const MAX_PAIRS: usize = 1 << 20;

/// Aligns a chat with a session: returns, for each message of the chat, the index of the same message of the session,
/// if the session has it. The indexes ascend.
///
/// Messages are the same if the chat's key is among the session's keys. As many as possible are matched; among equally
/// many, those that begin as late in the session as possible; among these, those that come early in the chat.
fn align(session: &[[u64; 2]], chat: &[u64]) -> Vec<Option<usize>> {
    let is_same = |ours: usize, theirs: usize| session[ours].contains(&chat[theirs]);
    let mut matched = vec![None; chat.len()];
    let (in_session, in_chat): (HashSet<u64>, HashSet<u64>) =
        (session.iter().flatten().copied().collect(), chat.iter().copied().collect());
    // The other messages match nothing.
    let mut ours: Vec<usize> =
        (0..session.len()).filter(|&at| session[at].iter().any(|key| in_chat.contains(key))).collect();
    let mut theirs: Vec<usize> = (0..chat.len()).filter(|&at| in_session.contains(&chat[at])).collect();
    // Nearly always, the known part of the chat is the end of the session, or the chat begins with all of the session.
    let end = &ours[ours.len().saturating_sub(theirs.len())..];
    if end.iter().zip(&theirs).all(|(&ours, &theirs)| is_same(ours, theirs)) {
        theirs.iter().zip(end).for_each(|(&theirs, &ours)| matched[theirs] = Some(ours));
        return matched;
    }
    if ours.len().saturating_mul(theirs.len()) > MAX_PAIRS {
        let begin = ours.iter().zip(&theirs).take_while(|&(&ours, &theirs)| is_same(ours, theirs)).count();
        let pairs: Vec<_> = ours.drain(..begin).zip(theirs.drain(..begin)).collect();
        let end = ours.iter().rev().zip(theirs.iter().rev()).take_while(|&(&ours, &theirs)| is_same(ours, theirs));
        let end = end.count();
        let ends = ours.split_off(ours.len() - end).into_iter().zip(theirs.split_off(theirs.len() - end));
        pairs.into_iter().chain(ends).for_each(|(ours, theirs)| matched[theirs] = Some(ours));
        // Only the newest of the remaining messages are compared.
        theirs.drain(..theirs.len().saturating_sub(MAX_PAIRS));
        ours.drain(..ours.len().saturating_sub(MAX_PAIRS / theirs.len().max(1)));
    }
    let width = theirs.len() + 1;
    // For the rests of both lists from each pair on: the number of matches, and the first matched index of ours plus 1.
    let mut best = vec![(0_u32, 0_u32); (ours.len() + 1) * width];
    for i in (0..ours.len()).rev() {
        for j in (0..theirs.len()).rev() {
            let mut value = best[(i + 1) * width + j].max(best[i * width + j + 1]);
            if is_same(ours[i], theirs[j]) {
                value = value.max((best[(i + 1) * width + j + 1].0 + 1, i as u32 + 1));
            }
            best[i * width + j] = value;
        }
    }
    let (mut i, mut j) = (0, 0);
    while i < ours.len() && j < theirs.len() {
        let here = best[i * width + j];
        if here == best[(i + 1) * width + j] {
            i += 1;
        } else if is_same(ours[i], theirs[j]) && here.0 == best[(i + 1) * width + j + 1].0 + 1 {
            matched[theirs[j]] = Some(ours[i]);
            (i, j) = (i + 1, j + 1);
        } else {
            j += 1;
        }
    }
    matched
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Aligns texts of one letter; in the result, `-` is a message of the chat that the session does not have.
    fn aligned(session: &str, chat: &str) -> String {
        let keys: Vec<[u64; 2]> = session.bytes().map(|letter| [letter.into(); 2]).collect();
        let chat: Vec<u64> = chat.bytes().map(u64::from).collect();
        align(&keys, &chat).into_iter().map(|at| at.map_or("-".to_owned(), |at| at.to_string())).collect()
    }

    #[test]
    fn as_many_as_possible_are_matched_as_late_as_possible() {
        assert_eq!(aligned("abcd", "abcdef"), "0123--");
        assert_eq!(aligned("abcd", "cdef"), "23--", "a chat may begin in the middle");
        assert_eq!(aligned("abcd", "abXd"), "01-3");
        assert_eq!(aligned("abcd", "abX"), "01-");
        assert_eq!(aligned("yoyo", "yo"), "23");
        assert_eq!(aligned("yoyo", "yoz"), "23-");
        assert_eq!(aligned("yo", "yoyo"), "01--", "what is said again is new");
        assert_eq!(aligned("xyo", "xyoyo"), "012--");
        assert_eq!(aligned("yoyo", "yoy"), "012", "the last answer is gone");
        assert_eq!(aligned("abcd", "wxyz"), "----");
        assert_eq!((aligned("", "ab"), aligned("ab", "")), ("--".into(), "".into()));
    }

    #[test]
    fn long_chats_are_aligned_in_bounded_time() {
        let session: Vec<[u64; 2]> = (0..20_000).map(|at| [at % 9000; 2]).collect();
        let whole: Vec<u64> = (0..20_000).map(|at| at % 9000).collect();
        let (mut longer, mut edited) = (whole.clone(), whole);
        longer.push(2);
        edited[10_000] = 1;
        for (chat, new) in [(longer, 20_000), (edited, 10_000)] {
            let matched = align(&session, &chat);
            assert!(matched.iter().enumerate().all(|(at, found)| *found == (at != new).then_some(at)));
        }
    }
}
