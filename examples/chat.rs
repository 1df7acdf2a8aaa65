//! A small agent loop on tokio: each turn is stored as it happens, and each answer begins with a recall.
//!
//! Run it with `cargo run --example chat`.

use mnemon::{Engine, Message, Namespace, Query};

#[tokio::main]
async fn main() -> mnemon::Result<()> {
    let path = std::env::temp_dir().join("mnemon-example-chat.redb");
    let engine = Engine::open(&path)?;
    let user: Namespace = "example/ada".parse()?;

    let turns = [
        ("monday", "I moved my rowing lesson to Thursday morning.", "Noted: rowing on Thursday morning."),
        ("monday", "The blue notebook is in the kitchen drawer.", "I will remember where it is."),
        ("tuesday", "Book a table for two at the harbour, please.", "A table for two, at eight."),
    ];
    for (i, (session, said, answered)) in turns.into_iter().enumerate() {
        // Explicit ids make a put repeatable: running this example again adds nothing.
        let user_turn = Message::user(said).with_id(format!("{i}-user")).in_session(session).by("Ada");
        let agent_turn = Message::assistant(answered).with_id(format!("{i}-agent")).in_session(session);
        engine.put(&user, vec![user_turn, agent_turn]).await?;
    }
    engine.flush().await?;

    for question in ["When does she row?", "Where did she leave her notes?"] {
        println!("{question}");
        for hit in engine.recall(&user, Query::new(question).k(2)).await? {
            println!("  {:.3}  {}  {}", hit.score, hit.message.session, hit.message.text());
        }
    }
    println!("the memory is {}", path.display());
    Ok(())
}
