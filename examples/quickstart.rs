//! The first example of the README. `cargo run --example quickstart` creates `memory.redb` in this folder.

use mnemon::{Engine, Message, Namespace, Query, Result};

fn main() -> Result<()> {
    let engine = Engine::open("memory.redb")?;
    let user: Namespace = "acme/user-42".parse()?;

    let turns = vec![
        Message::user("I moved my rowing lesson to Thursday morning.").in_session("monday").by("Ada"),
        Message::assistant("Noted: rowing on Thursday morning.").in_session("monday"),
        Message::user("My sister's bakery opens in June.").in_session("monday").by("Ada"),
    ];
    engine.blocking().put(&user, turns)?; // durable, and found by its words from here on
    engine.blocking().flush()?; // found by meaning from here on; otherwise a second later

    for hit in engine.blocking().recall(&user, Query::new("When does she go rowing?").k(2))? {
        println!("{:.2} {} {}", hit.score, hit.message.session, hit.message.text());
    }
    Ok(())
}
