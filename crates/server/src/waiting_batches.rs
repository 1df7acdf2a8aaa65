//! The batches that no request hands to the memory blocks of their sessions.
//!
//! A request opens the memory of a session, whose blocks then get its batches, and drops it. Three kinds of batches come
//! without: those of sessions that are flushed because they are idle, those of messages that are stored past the buffers of
//! their sessions, and those that were not taken when the server last ended. Their sessions are opened here, one after the
//! other.

use std::{sync::Arc, time::Duration};

use mnemon::{Namespace, Role};

use crate::{app, app::App, problem::Problem};

/// Time between two looks for sessions that are idle.
const TICK: Duration = Duration::from_secs(1);
/// Time after which a session is opened again that could not be.
const AGAIN: Duration = Duration::from_secs(60);
/// Namespaces that are listed at a time when the server starts.
const NAMESPACES: usize = 100;

/// Opens the sessions that no request opens, until the server ends.
pub(crate) async fn run(app: Arc<App>) {
    if !app.formation.asks_a_model() {
        return;
    }
    if let Err(error) = resume(&app).await {
        tracing::error!(%error, "batches that wait for a model were not looked for; they wait until their sessions are used");
    }
    let mut ticks = tokio::time::interval(TICK);
    loop {
        ticks.tick().await;
        for (namespace, session) in app.formation.due() {
            hand_over(&app, namespace, session).await;
        }
    }
}

/// Hands over the batches of all sessions that were not taken when the server last ended.
async fn resume(app: &App) -> mnemon::Result<()> {
    let mut after = None;
    loop {
        let page = app.engine.namespaces(None, after.as_ref(), NAMESPACES).await?;
        for info in page.namespaces {
            if info.sessions == 0 || app.formation.idle_time(&info.namespace).is_none() {
                continue;
            }
            for session in app.engine.sessions(&info.namespace).await? {
                if session.batches > 0 || session.buffered > 0 {
                    hand_over(app, info.namespace.clone(), session.session).await;
                }
            }
        }
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(()),
        }
    }
}

/// Opens a session, whose blocks then get the batches that they have not taken.
async fn hand_over(app: &App, namespace: Namespace, session: String) {
    let opened = async {
        let builder = app.formation.memory(&app.engine, &namespace, &session, None)?;
        let memory = app::blocking(move || builder.open()).await?;
        Ok::<_, Problem>(memory.messages().await?)
    };
    match opened.await {
        // It is not idle, or was not flushed yet.
        Ok(buffer) if buffer.iter().any(|message| message.role != Role::System) => {
            app.formation.put(&namespace, &session)
        }
        Ok(_) => {}
        Err(problem) => {
            tracing::warn!(problem = problem.detail, "a session could not be opened for its blocks; it is tried again");
            app.formation.look_at(namespace, session, AGAIN);
        }
    }
}
