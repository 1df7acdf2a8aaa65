//! Clients that are waited for: connections whose next request has not come, and bodies that are being read.
//!
//! A slow client costs a place, and nothing else. Where all places are taken, the client that was waited for the longest
//! loses its own to the newest: one that sends what it has to say at once is never the oldest.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

pub(super) struct Crowd {
    most: usize,
    waiting: Mutex<Waiting>,
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// In the order in which the wait for them began.
    clients: BTreeMap<u64, CancellationToken>,
}

/// A place in a crowd, until it is dropped.
pub(super) struct Place {
    crowd: Arc<Crowd>,
    number: u64,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Arc<Self> {
        Arc::new(Crowd { most, waiting: Mutex::default() })
    }

    /// Begins to wait for a client. The token is cancelled when its place is given to another.
    pub(super) fn enter(self: &Arc<Self>, ousted: CancellationToken) -> Place {
        let mut waiting = self.lock();
        if waiting.clients.len() >= self.most {
            waiting.oust_oldest();
        }
        let number = waiting.next;
        waiting.next += 1;
        waiting.clients.insert(number, ousted);
        Place { crowd: Arc::clone(self), number }
    }

    /// Takes the place of the client that was waited for the longest, if there is one.
    pub(super) fn oust_oldest(&self) {
        self.lock().oust_oldest();
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn oust_oldest(&mut self) {
        if let Some((_, ousted)) = self.clients.pop_first() {
            ousted.cancel();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.crowd.lock().clients.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_makes_room() {
        let crowd = Crowd::new(2);
        let tokens: Vec<CancellationToken> = (0..4).map(|_| CancellationToken::new()).collect();
        let ousted = || tokens.iter().map(CancellationToken::is_cancelled).collect::<Vec<_>>();
        let mut places: Vec<Place> = tokens[..2].iter().map(|token| crowd.enter(token.clone())).collect();
        assert_eq!(ousted(), [false; 4]);
        places.push(crowd.enter(tokens[2].clone()));
        assert_eq!(ousted(), [true, false, false, false]);
        // One that is not waited for any more has its place no longer.
        drop(places.remove(1));
        places.push(crowd.enter(tokens[3].clone()));
        assert_eq!(ousted(), [true, false, false, false]);
        crowd.oust_oldest();
        assert_eq!(ousted(), [true, false, true, false]);
    }
}
