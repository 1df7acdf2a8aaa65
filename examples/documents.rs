//! Keeps documents beside messages: a profile, facts that are searched, and a note that expires.
//! `cargo run --example documents` keeps nothing.

use mnemon::{
    Engine, MetadataFilter, Namespace, Result,
    document::{DocumentOptions, DocumentSearch},
};
use serde_json::json;

fn main() -> Result<()> {
    let engine = Engine::in_memory()?;
    let user: Namespace = "acme/user-42".parse()?;
    let documents = engine.documents(&user);

    // A profile is one document under a known key; nothing searches it.
    let profile = json!({"name": "Ada", "language": "en", "plan": "pro"});
    documents.blocking().put("profile", profile, DocumentOptions::default().not_indexed())?;

    // Facts are indexed by their text and filtered by their other fields.
    for (key, text, topic) in [
        ("f1", "She rows on Thursday mornings.", "sport"),
        ("f2", "Her sister opens a bakery in June.", "family"),
        ("f3", "She swims in the lake when it is warm.", "sport"),
    ] {
        let fact = json!({"text": text, "topic": topic});
        documents.blocking().put(key, fact, DocumentOptions::default().index(["text"]))?;
    }

    // A note for the next hour.
    let note = json!({"text": "Waiting for her call about the boat."});
    documents.blocking().put("note", note, DocumentOptions::default().ttl_minutes(60.0))?;
    engine.blocking().flush()?;

    let plan = documents.blocking().get("profile")?.map(|profile| profile.value["plan"].clone());
    println!("plan: {}", plan.unwrap_or_default());
    let sport = DocumentSearch::default().query("Which sport does she do on the water?").limit(2);
    for fact in documents.blocking().search(sport.filter(MetadataFilter::eq("topic", "sport")?))? {
        println!("{:.2} {}", fact.score.unwrap_or_default(), fact.value["text"]);
    }
    Ok(())
}
