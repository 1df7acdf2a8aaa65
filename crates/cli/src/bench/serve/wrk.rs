//! Puts load on a server, with wrk.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, bail};
use serde_json::Value;

/// The rate of [`Kind::Paced`], in requests a second.
const RATE: usize = 1000;

/// The requests for a server, all of them POST with JSON.
pub(super) struct Requests {
    /// The paths and bodies of recalls.
    pub(super) recalls: Vec<(String, String)>,
    pub(super) put_path: String,
    /// The body of a put is this text, the number of the put, and one of the ends, which are used in turn.
    pub(super) put_begin: String,
    pub(super) put_ends: Vec<String>,
}

#[derive(Clone, Copy)]
pub(super) enum Kind {
    Recall,
    /// Recalls at a constant rate.
    Paced,
    Put,
}

/// The rate, the latencies and the failures of a load.
pub(super) struct Load {
    pub(super) per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) failed: u64,
}

/// A server under load.
pub(super) struct Target<'a> {
    url: &'a str,
    script: PathBuf,
    seconds: usize,
}

impl<'a> Target<'a> {
    pub(super) fn new(url: &'a str, requests: &Requests, folder: &Path, seconds: usize) -> anyhow::Result<Self> {
        let script = folder.join("load.lua");
        fs::write(&script, requests.script())?;
        Ok(Target { url, script, seconds })
    }

    /// Puts load on the server for some seconds, from one thread: the other core is the server's.
    pub(super) fn load(&self, kind: Kind, connections: usize) -> anyhow::Result<Load> {
        let kind = match kind {
            Kind::Recall => "recall",
            Kind::Paced => "paced",
            Kind::Put => "put",
        };
        let mut wrk = Command::new("wrk");
        wrk.args(["--threads", "1", "--connections", &connections.to_string()]);
        wrk.args(["--duration", &format!("{}s", self.seconds), "--script"]).arg(&self.script).args([
            self.url,
            kind,
            &connections.to_string(),
        ]);
        let output = wrk.output().context("running wrk, the load generator; install it (`apt-get install wrk`)")?;
        let text = String::from_utf8_lossy(&output.stdout);
        let Some(result) = text.lines().find(|line| line.starts_with('{')) else {
            bail!("wrk: {text}{}", String::from_utf8_lossy(&output.stderr));
        };
        let result: Value = serde_json::from_str(result)?;
        let number = |name: &str| result[name].as_f64().with_context(|| format!("wrk reports no {name}"));
        Ok(Load {
            per_second: number("requests")? / number("elapsed_us")? * 1e6,
            p50_us: number("p50_us")?,
            p99_us: number("p99_us")?,
            failed: number("failed")? as u64,
        })
    }
}

impl Requests {
    /// Returns wrk's script: it sends the requests in turn, and reports as JSON.
    fn script(&self) -> String {
        let recalls: String =
            self.recalls.iter().map(|(path, body)| format!("  {{{}, {}}},\n", lua(path), lua(body))).collect();
        let ends: String = self.put_ends.iter().map(|end| format!("  {},\n", lua(end))).collect();
        let (put_path, put_begin) = (lua(&self.put_path), lua(&self.put_begin));
        format!(
            r#"local recalls = {{
{recalls}}}
local ends = {{
{ends}}}
local headers = {{["Content-Type"] = "application/json"}}
local kind, at = "recall", 0
function init(args)
  kind = args[1]
  if kind == "paced" then
    function delay() return args[2] * 1000 / {RATE} end
  end
end
function request()
  at = at + 1
  if kind == "put" then
    return wrk.format("POST", {put_path}, headers, {put_begin} .. at .. ends[at % #ends + 1])
  end
  local recall = recalls[at % #recalls + 1]
  return wrk.format("POST", recall[1], headers, recall[2])
end
function done(summary, latency, requests)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('\n{{"requests": %d, "elapsed_us": %d, "p50_us": %d, "p99_us": %d, "failed": %d}}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failed))
end
"#
        )
    }
}

/// Quotes a text for Lua. JSON's escapes are Lua's too, but for \/ and \u, which serde_json does not write for
/// printable text.
fn lua(text: &str) -> String {
    Value::from(text).to_string()
}
