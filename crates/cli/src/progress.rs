//! Shows the progress of long work on stderr: the phase that runs, its rate and the time left.
//!
//! A terminal shows one line that is drawn again. Elsewhere, such as in a log, a line is printed every 10 seconds, or
//! every [`SECONDS_ENV`] seconds. A quiet command shows nothing.

use std::{
    io::{IsTerminal, stderr},
    sync::{Mutex, MutexGuard, mpsc},
    thread,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mnemon::{Engine, Namespace};
use serde_json::json;

use crate::output;

/// The environment variable with the seconds between two lines where stderr is not a terminal; 0 prints every step.
const SECONDS_ENV: &str = "MNEMON_PROGRESS_SECONDS";
const SECONDS: f64 = 10.0;
/// Time between two measurements of work that does not report its progress itself.
const MEASURED_EVERY: Duration = Duration::from_millis(250);

/// The progress of a command. Dropping it removes its line from the terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Time between two lines; `None`: no lines are printed.
    every: Option<Duration>,
    phase: Mutex<Phase>,
}

/// The number of units in a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Total {
    #[default]
    Unknown,
    Known(u64),
    /// Computed from the share that is done.
    Estimated(u64),
}

impl From<u64> for Total {
    fn from(total: u64) -> Self {
        Total::Known(total)
    }
}

/// The phase that runs.
struct Phase {
    name: String,
    /// The unit that is counted, such as messages. Bytes are shown in MB.
    unit: &'static str,
    done: u64,
    total: Total,
    /// Units that were done when the phase began, which do not count for the rate.
    first: u64,
    started: Instant,
    printed: Instant,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let is_drawn = stderr().is_terminal() && !output::is_quiet();
        let target = if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let seconds = std::env::var(SECONDS_ENV).ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
        let every = Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let now = Instant::now();
        let name = String::new();
        let phase = Phase { name, unit: "", done: 0, total: Total::Unknown, first: 0, started: now, printed: now };
        Progress {
            bar: ProgressBar::with_draw_target(None, target),
            every: (!is_drawn && !output::is_quiet()).then_some(every),
            phase: Mutex::new(phase),
        }
    }

    pub(crate) fn begin(&self, name: &str, unit: &'static str, total: impl Into<Total>) {
        let mut phase = self.lock();
        phase.name = name.to_owned();
        (phase.unit, phase.done, phase.first, phase.total) = (unit, 0, 0, total.into());
        phase.started = Instant::now();
        self.draw(&phase);
    }

    /// Reports how much of a phase is done. Begins the phase unless it is the one that runs.
    pub(crate) fn report(&self, name: &str, unit: &'static str, done: u64, total: u64) {
        if self.lock().name != name {
            self.begin(name, unit, total);
            self.lock().first = done;
        }
        self.set(done, total);
    }

    pub(crate) fn set(&self, done: u64, total: impl Into<Total>) {
        let mut phase = self.lock();
        (phase.done, phase.total) = (done, total.into());
        self.show(&mut phase);
    }

    pub(crate) fn inc(&self, more: u64) {
        let mut phase = self.lock();
        phase.done += more;
        self.show(&mut phase);
    }

    /// Prints a note above the line.
    pub(crate) fn note(&self, text: &str) {
        self.bar.suspend(|| output::note(text));
    }

    /// Embeds all pending messages, as a phase.
    pub(crate) fn embed(&self, engine: &Engine) -> mnemon::Result<()> {
        let blocking = engine.blocking();
        let pending = blocking.pending()?;
        self.begin("embedding", "messages", pending);
        self.set(0, pending);
        let embedded = self.watch(
            || blocking.flush(),
            || {
                if let Ok(left) = blocking.pending() {
                    self.set(pending.saturating_sub(left), pending);
                }
            },
        );
        embedded.map(drop)
    }

    /// Links the vectors of all namespaces that are large enough for a graph, as a phase. Returns how many are linked.
    pub(crate) fn link_all(&self, engine: &Engine) -> mnemon::Result<u64> {
        let report = engine.blocking().link_with(|report| {
            if report.vectors > 0 {
                self.report("linking", "vectors", report.linked, report.vectors);
            }
        })?;
        Ok(report.linked)
    }

    /// Links the vectors of a namespace in its graph, as a phase, if the namespace is large enough to have a graph.
    pub(crate) fn link(&self, engine: &Engine, namespace: &Namespace) -> mnemon::Result<()> {
        let blocking = engine.blocking();
        self.watch(
            || blocking.optimize(namespace),
            || match blocking.index_stats(namespace) {
                Ok(stats) if stats.linked > 0 => {
                    self.report("linking", "vectors", stats.linked as u64, stats.vectors as u64);
                }
                _ => {}
            },
        )
    }

    /// Runs `work`, and calls `measure`, which reports the progress, every [`MEASURED_EVERY`] until the work ends.
    fn watch<T: Send>(&self, work: impl FnOnce() -> T + Send, mut measure: impl FnMut()) -> T {
        thread::scope(|scope| {
            let (running, ended) = mpsc::channel::<()>();
            let worker = scope.spawn(move || {
                let _running = running;
                work()
            });
            while ended.recv_timeout(MEASURED_EVERY) == Err(mpsc::RecvTimeoutError::Timeout) {
                measure();
            }
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    fn lock(&self) -> MutexGuard<'_, Phase> {
        self.phase.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn show(&self, phase: &mut Phase) {
        self.draw(phase);
        if self.every.is_some_and(|every| phase.printed.elapsed() >= every) {
            phase.printed = Instant::now();
            let seconds = phase.started.elapsed().as_secs_f64();
            let (rate, left) = (phase.rate(seconds), phase.left(seconds));
            output::on_stderr(&format!("{}: {}", phase.name, phase.figures(seconds)), || {
                let Phase { name, unit, done, .. } = phase;
                json!({ "progress": {
                    "phase": name, "unit": unit, "done": done, "total": phase.total.number(), "per_second": rate,
                    "seconds_left": left,
                } })
            });
        }
    }

    fn draw(&self, phase: &Phase) {
        if self.bar.is_hidden() {
            return;
        }
        let template =
            if phase.total == Total::Unknown { "{prefix}: {wide_msg}" } else { "{prefix} [{bar:20}] {wide_msg}" };
        let style = ProgressStyle::with_template(template).expect("the templates are constants");
        self.bar.set_style(style.progress_chars("=> "));
        self.bar.set_prefix(output::escaped_line(&phase.name).into_owned());
        self.bar.set_length(phase.total.number().unwrap_or(0));
        self.bar.set_position(phase.done);
        self.bar.set_message(phase.figures(phase.started.elapsed().as_secs_f64()));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Total {
    fn number(self) -> Option<u64> {
        match self {
            Total::Unknown => None,
            Total::Known(total) | Total::Estimated(total) => Some(total),
        }
    }
}

impl Phase {
    /// Returns the units done per second since the phase began.
    fn rate(&self, seconds: f64) -> f64 {
        self.done.saturating_sub(self.first) as f64 / seconds.max(1e-6)
    }

    /// Returns the seconds left at the phase's rate.
    fn left(&self, seconds: f64) -> Option<u64> {
        let rate = self.rate(seconds);
        let left = self.total.number()?.saturating_sub(self.done);
        (rate > 0.0).then(|| (left as f64 / rate).ceil() as u64)
    }

    /// Describes how far the phase is, such as "1,200 of 5,000 messages, 340/s, 12 s left".
    fn figures(&self, seconds: f64) -> String {
        let count = |count: u64| match self.unit {
            "bytes" => format!("{:.1}", count as f64 / 1e6),
            _ => grouped(count),
        };
        let total = match self.total {
            Total::Unknown => String::new(),
            Total::Known(total) => format!(" of {}", count(total)),
            Total::Estimated(total) => format!(" of about {}", count(total)),
        };
        let rate = match self.unit {
            "bytes" => format!("{:.1} MB/s", self.rate(seconds) / 1e6),
            _ => format!("{}/s", grouped(self.rate(seconds).round() as u64)),
        };
        let unit = if self.unit == "bytes" { "MB" } else { self.unit };
        let left = self.left(seconds).map_or(String::new(), |left| format!(", {} left", duration(left)));
        format!("{}{total} {unit}, {rate}{left}", count(self.done))
    }
}

/// Formats a number with a comma between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| str::from_utf8(group).ok()).collect();
    groups.join(",")
}

/// Formats a number of seconds, such as "45 s", "3 min 20 s" or "2 h 5 min".
fn duration(seconds: u64) -> String {
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (hours, minutes, _) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_states_its_rate_and_the_time_left() {
        let check = |unit, (first, done), total, seconds, wanted: &str| {
            let now = Instant::now();
            let name = String::new();
            let phase = Phase { name, unit, done, total, first, started: now, printed: now };
            assert_eq!(phase.figures(seconds), wanted);
        };
        check("messages", (0, 1200), Total::Known(5000), 4.0, "1,200 of 5,000 messages, 300/s, 13 s left");
        // Units that an earlier run did are no part of the rate.
        check("messages", (1000, 1200), Total::Known(5000), 2.0, "1,200 of 5,000 messages, 100/s, 38 s left");
        check(
            "messages",
            (0, 10),
            Total::Estimated(1_234_567),
            1.0,
            "10 of about 1,234,567 messages, 10/s, 34 h 17 min left",
        );
        check("lines", (0, 7), Total::Unknown, 2.0, "7 lines, 4/s");
        check("messages", (0, 0), Total::Known(5), 2.0, "0 of 5 messages, 0/s");
        check("bytes", (0, 2_500_000), Total::Known(90_400_000), 1.0, "2.5 of 90.4 MB, 2.5 MB/s, 36 s left");
    }

    #[test]
    fn work_is_measured_until_it_ends() {
        let progress = Progress::new();
        let (measured, wait) = mpsc::channel();
        let answer = progress.watch(move || wait.recv().map(|()| 42), || measured.send(()).unwrap_or_default());
        assert_eq!(answer, Ok(42));
    }
}
