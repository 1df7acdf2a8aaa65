//! A scripted HTTP server on this machine that speaks OpenAI's protocol.

use std::{
    collections::BTreeMap,
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use serde_json::{Value, json};

/// A request that the server received.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    /// Number in the order of arrival, from 0.
    pub(crate) number: usize,
    /// The HTTP method, such as `POST`.
    pub(crate) method: String,
    pub(crate) path: String,
    /// Headers by their names in lower case.
    pub(crate) headers: BTreeMap<String, String>,
    /// The body; null if it was not JSON.
    pub(crate) body: Value,
}

/// An answer of the server.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
    /// Time before the first byte is sent.
    pub(crate) delay: Duration,
    pub(crate) end: End,
}

/// The part of a reply that is sent before the connection is closed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum End {
    Whole,
    /// Half of the body.
    Half,
    Nothing,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Reply { status, headers: Vec::new(), body: body.into(), delay: Duration::ZERO, end: End::Whole }
    }

    pub(crate) fn json(status: u16, body: Value) -> Self {
        Reply::new(status, body.to_string()).header("content-type", "application/json")
    }

    /// A completion with this message.
    pub(crate) fn message(message: Value) -> Self {
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        Reply::json(200, json!({"id": "chatcmpl-1", "object": "chat.completion", "choices": [choice]}))
    }

    /// A completion with this text.
    pub(crate) fn text(text: &str) -> Self {
        Reply::message(json!({"role": "assistant", "content": text}))
    }

    /// An error in the protocol's form.
    pub(crate) fn error(status: u16, message: &str) -> Self {
        Reply::json(status, json!({"error": {"message": message, "type": "error", "code": null}}))
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn after(self, delay: Duration) -> Self {
        Reply { delay, ..self }
    }

    pub(crate) fn end(self, end: End) -> Self {
        Reply { end, ..self }
    }
}

type Script = dyn Fn(&RecordedRequest) -> Reply + Send + Sync;

/// A server that listens until it is dropped. Each connection has a thread and serves one request.
pub(crate) struct LlmServer {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
    stopped: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl LlmServer {
    pub(crate) fn new(script: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        LlmServer::at("127.0.0.1:0".parse().unwrap(), script)
    }

    /// Listens at an address where another server may have listened before.
    pub(crate) fn at(address: SocketAddr, script: impl Fn(&RecordedRequest) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stopped = Arc::new(AtomicBool::new(false));
        let script: Arc<Script> = Arc::new(script);
        let listening = thread::spawn({
            let (requests, stopped) = (requests.clone(), stopped.clone());
            move || {
                for stream in listener.incoming() {
                    if stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let (requests, script) = (requests.clone(), script.clone());
                    // An error means that the client went away.
                    thread::spawn(move || stream.and_then(|stream| serve(stream, &requests, &*script)));
                }
            }
        });
        LlmServer { address, requests, stopped, listening: Some(listening) }
    }

    /// Answers with these replies in order, and with the last one from then on.
    pub(crate) fn replies(replies: impl Into<Vec<Reply>>) -> Self {
        let replies = replies.into();
        LlmServer::new(move |request| replies[request.number.min(replies.len() - 1)].clone())
    }

    pub(crate) fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns all requests so far.
    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for LlmServer {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        let _ = self.listening.take().unwrap().join();
    }
}

fn serve(mut stream: TcpStream, requests: &Mutex<Vec<RecordedRequest>>, script: &Script) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers.get("content-length").map_or(0, |length| length.parse().unwrap())];
    reader.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let request = {
        let mut requests = requests.lock().unwrap();
        let request = RecordedRequest { number: requests.len(), method, path, headers, body };
        requests.push(request.clone());
        request
    };
    let reply = script(&request);
    thread::sleep(reply.delay);
    let sent = match reply.end {
        End::Whole => reply.body.len(),
        End::Half => reply.body.len() / 2,
        End::Nothing => return Ok(()),
    };
    let mut head = format!("HTTP/1.1 {} Scripted\r\nconnection: close\r\n", reply.status);
    for (name, value) in &reply.headers {
        head += &format!("{name}: {value}\r\n");
    }
    write!(stream, "{head}content-length: {}\r\n\r\n", reply.body.len())?;
    stream.write_all(&reply.body[..sent])?;
    stream.flush()
}
