//! A proxy between the machines and Postgres that drops, delays, holds and cuts connections.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use crate::support::tally::tally;

/// The statement that every change of the truth has a part in, or is.
const CHANGE: &[u8] = b"UPDATE mnemon.nodes SET last_write";

#[derive(Default)]
struct State {
    /// The port of the server.
    server: AtomicU16,
    connections: Mutex<Vec<(TcpStream, TcpStream)>>,
    /// How long each piece of data waits, in microseconds.
    delay: AtomicU64,
    /// How many of the next changes lose their answer: they take place, and the connection breaks.
    cut_after: AtomicU32,
    /// How many of the next changes never arrive: the connection breaks before.
    cut_before: AtomicU32,
    /// New connections are refused.
    is_shut: AtomicBool,
    /// Nothing is passed on, and no connection ends.
    hangs: AtomicBool,
}

#[derive(Clone)]
pub(crate) struct Proxy {
    port: u16,
    state: Arc<State>,
}

impl Proxy {
    pub(crate) fn start(server: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let state = Arc::<State>::default();
        state.server.store(server, Ordering::SeqCst);
        let shared = Arc::clone(&state);
        thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                let server = TcpStream::connect(("127.0.0.1", shared.server.load(Ordering::SeqCst)));
                let (Ok(server), false) = (server, shared.is_shut.load(Ordering::SeqCst)) else { continue };
                let (_, _) = (client.set_nodelay(true), server.set_nodelay(true));
                shared.connections.lock().push((client.try_clone().unwrap(), server.try_clone().unwrap()));
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let state = Arc::clone(&shared);
                thread::spawn(move || requests(&state, from, to));
                let state = Arc::clone(&shared);
                thread::spawn(move || answers(&state, server, client));
            }
        });
        Proxy { port, state }
    }

    pub(crate) fn address(&self, database: &str) -> String {
        format!("postgres://owner@127.0.0.1:{}/{database}", self.port)
    }

    /// Breaks all connections.
    pub(crate) fn drop_all(&self) {
        for (client, server) in self.state.connections.lock().drain(..) {
            let (_, _) = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }

    /// Leads new connections to another server.
    pub(crate) fn turn_to(&self, server: u16) {
        self.state.server.store(server, Ordering::SeqCst);
    }

    pub(crate) fn delay(&self, delay: Duration) {
        self.state.delay.store(delay.as_micros() as u64, Ordering::SeqCst);
    }

    pub(crate) fn cut_after(&self, commits: u32) {
        self.state.cut_after.store(commits, Ordering::SeqCst);
    }

    pub(crate) fn cut_before(&self, commits: u32) {
        self.state.cut_before.store(commits, Ordering::SeqCst);
    }

    pub(crate) fn shut(&self, is_shut: bool) {
        self.state.is_shut.store(is_shut, Ordering::SeqCst);
    }

    /// Passes nothing on, as a network that lost its way, or goes on.
    pub(crate) fn hang(&self, hangs: bool) {
        self.state.hangs.store(hangs, Ordering::SeqCst);
    }

    /// Ends all faults.
    pub(crate) fn heal(&self) {
        self.hang(false);
        self.delay(Duration::ZERO);
        self.cut_after(0);
        self.cut_before(0);
        self.shut(false);
    }
}

/// Takes one of a number of faults.
fn take(faults: &AtomicU32) -> bool {
    faults.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

fn requests(state: &State, mut client: TcpStream, mut server: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    let mut names = Vec::new();
    while let Ok(read @ 1..) = client.read(&mut bytes) {
        wait(state);
        let data = &bytes[..read];
        names.extend(prepared(data));
        match names.iter().find_map(|name| executed(data, name)) {
            Some(at) if take(&state.cut_before) => {
                let _ = server.write_all(&data[..at]);
                let (_, _) = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
                return;
            }
            Some(_) if take(&state.cut_after) => {
                tally("shared: answers cut off", 1);
                // The client hears nothing more, and the server gets the time to do what it was told.
                let _ = client.shutdown(Shutdown::Both);
                let _ = server.write_all(data);
                thread::sleep(Duration::from_millis(300));
                let _ = server.shutdown(Shutdown::Both);
                return;
            }
            _ => {}
        }
        if server.write_all(data).is_err() {
            break;
        }
    }
    let (_, _) = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

/// The name of the prepared statement that changes the truth, if it is prepared here: a message of type P, its length, the
/// name, the statement.
fn prepared(data: &[u8]) -> Option<Vec<u8>> {
    let at = data.windows(CHANGE.len()).position(|window| window == CHANGE)?;
    let start = data[..at].windows(2).rposition(|window| window[0] == b'P' && window[1] == 0)?;
    let name = data.get(start + 5..)?;
    Some(name[..name.iter().position(|byte| *byte == 0)?].to_vec())
}

/// Where a prepared statement is given its parameters: a message of type B, its length, an empty name, the statement's.
fn executed(data: &[u8], name: &[u8]) -> Option<usize> {
    let end = [&[0], name, &[0]].concat();
    let found = |at: usize| data[at] == b'B' && data.get(at + 5..).is_some_and(|rest| rest.starts_with(&end));
    (0..data.len()).find(|at| found(*at))
}

fn answers(state: &State, mut server: TcpStream, mut client: TcpStream) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = server.read(&mut bytes) {
        wait(state);
        if client.write_all(&bytes[..read]).is_err() {
            // Read on: the server must not wait for room.
            continue;
        }
    }
    let (_, _) = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
}

fn wait(state: &State) {
    let delay = state.delay.load(Ordering::SeqCst);
    if delay > 0 {
        thread::sleep(Duration::from_micros(delay));
    }
    while state.hangs.load(Ordering::SeqCst) {
        thread::sleep(Duration::from_millis(5));
    }
}
