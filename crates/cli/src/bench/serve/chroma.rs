//! Chroma's server with the same messages, for comparison. It gets the vectors of messages and questions, so that it
//! need not embed, and it searches by vectors alone.

use std::{
    collections::HashMap,
    net::{TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use mnemon::{Embedder, Message, Namespace};
use serde_json::{Value, json};

use super::wrk::Requests;

const DATABASE: &str = "/api/v2/tenants/default_tenant/databases/default_database/collections";
/// Number of messages in a request that fills a collection.
const BATCH: usize = 500;
/// Number of vectors that are put in turn.
const PUTS: usize = 200;
const STARTED: Duration = Duration::from_secs(60);

/// A running server, ended when this is dropped.
pub(super) struct Chroma {
    child: Child,
    pub(super) url: String,
}

impl Chroma {
    pub(super) fn start(program: &Path, folder: &Path) -> anyhow::Result<Self> {
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let mut command = Command::new(program);
        command.args(["run", "--host", "127.0.0.1", "--port", &address.port().to_string(), "--path"]).arg(folder);
        let child = command.env("ANONYMIZED_TELEMETRY", "False").stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let child = child.with_context(|| format!("starting {}", program.display()))?;
        let (chroma, started) = (Chroma { child, url: format!("http://{address}") }, Instant::now());
        while TcpStream::connect(address).is_err() {
            ensure!(started.elapsed() < STARTED, "{} does not listen", program.display());
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(chroma)
    }

    /// Stores the messages, a collection for each namespace, and returns the requests for the queries.
    pub(super) fn fill(
        &self,
        embedder: &dyn Embedder,
        messages: &[(Namespace, Message)],
        queries: &[(Namespace, String)],
    ) -> anyhow::Result<Requests> {
        let mut collections: HashMap<&Namespace, String> = HashMap::new();
        let mut by_namespace: HashMap<&Namespace, Vec<&Message>> = HashMap::new();
        for (namespace, message) in messages {
            by_namespace.entry(namespace).or_default().push(message);
        }
        for (namespace, messages) in by_namespace {
            let path = self.create(&format!("namespace-{}", collections.len()))?;
            for batch in messages.chunks(BATCH) {
                let texts: Vec<String> = batch.iter().map(|message| message.text()).collect();
                let vectors = embed(embedder, &texts)?;
                let ids: Vec<&str> = batch.iter().map(|message| &*message.id).collect();
                let metadata: Vec<Value> = batch
                    .iter()
                    .map(|message| json!({ "role": message.role.as_str(), "session": message.session }))
                    .collect();
                let body = json!({ "ids": ids, "documents": texts, "embeddings": vectors, "metadatas": metadata });
                self.post(&format!("{path}/add"), &body)?;
            }
            collections.insert(namespace, path);
        }
        let mut recalls = Vec::new();
        for (namespace, text) in queries {
            let vector = embedder.embed_query(text)?;
            let include = ["documents", "metadatas", "distances"];
            let body = json!({ "query_embeddings": [vector], "n_results": 10, "include": include });
            let path = collections.get(namespace).with_context(|| format!("{namespace} has no messages"))?;
            recalls.push((format!("{path}/query"), body.to_string()));
        }
        let texts: Vec<String> = messages.iter().take(PUTS).map(|(_, message)| message.text()).collect();
        let ends = texts.iter().zip(embed(embedder, &texts)?).map(|(text, vector)| {
            format!("\"], \"documents\": [{}], \"embeddings\": [{}]}}", json!(text), json!(vector))
        });
        Ok(Requests {
            recalls,
            put_path: format!("{}/add", self.create("puts")?),
            put_begin: "{\"ids\": [\"n".to_owned(),
            put_ends: ends.collect(),
        })
    }

    /// Creates a collection and returns its path.
    fn create(&self, name: &str) -> anyhow::Result<String> {
        let made = self.post(DATABASE, &json!({ "name": name, "configuration": { "hnsw": { "space": "cosine" } } }))?;
        Ok(format!("{DATABASE}/{}", made["id"].as_str().context("Chroma names no id")?))
    }

    fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let mut response = ureq::post(format!("{}{path}", self.url))
            .config()
            .http_status_as_error(false)
            .build()
            .header("content-type", "application/json")
            .send(body.to_string())?;
        let text = response.body_mut().read_to_string()?;
        ensure!(response.status().is_success(), "Chroma answers {} to {path}: {text}", response.status());
        Ok(serde_json::from_str(&text)?)
    }
}

fn embed(embedder: &dyn Embedder, texts: &[String]) -> mnemon::Result<Vec<Vec<f32>>> {
    embedder.embed_documents(&texts.iter().map(String::as_str).collect::<Vec<_>>())
}

impl Drop for Chroma {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
