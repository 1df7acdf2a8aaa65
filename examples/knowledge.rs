//! Knowledge that a language model keeps up to date: a profile, facts, episodes as examples, and instructions.
//! `cargo run --example knowledge` keeps nothing. Scripted answers replace the model; for a real one see `OpenAiChat`
//! (feature `openai`).

use mnemon::{
    Collection, Engine, Message, Namespace, Profile, Result,
    chat_model::ChatRequest,
    compat::FewShotExample,
    document::DocumentSearch,
    knowledge::{CollectionBlock, ProfileBlock},
    memory::InstructionBlock,
};
use serde::Deserialize;
use serde_json::json;

/// A profile may have these fields and no others.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[allow(dead_code)]
struct Person {
    name: Option<String>,
    city: Option<String>,
}

/// A turn that went well.
#[derive(Deserialize)]
struct Episode {
    input: String,
    output: String,
    why: String,
}

/// Patches the profile.
fn profile_model(_: &ChatRequest) -> Result<Message> {
    Ok(Message::assistant(r#"{"city": "Lyon"}"#))
}

/// Changes the facts. The known ones have the ids 1 and 2, the last put first.
fn fact_model(request: &ChatRequest) -> Result<Message> {
    assert!(request.messages[1].text().contains("<item id='1'>{\"text\":\"Ada rows on Tuesdays.\"}</item>"));
    let answer = json!({
        "insert": [{"text": "Ada has moved to Lyon."}],
        "update": [{"id": 1, "item": {"text": "Ada rows on Thursday mornings."}}],
        "delete": [2],
    });
    Ok(Message::assistant(answer.to_string()))
}

/// Rewrites the instructions.
fn instruction_model(_: &ChatRequest) -> Result<Message> {
    Ok(Message::assistant("Help with the calendar. Answer in one sentence."))
}

fn main() -> Result<()> {
    let engine = Engine::in_memory()?;
    let user: Namespace = "acme/user-42".parse()?;

    // A profile: one document, patched by the program and by a model.
    let profile = Profile::new(&engine, &user, "profile").describe("name and city of the user").of::<Person>();
    profile.blocking().patch(json!({"name": "Ada"}))?;

    // A collection: facts, in a namespace of their own.
    let facts = Collection::new(&engine, &"acme/user-42/facts".parse()?);
    facts.blocking().add(json!({"text": "Ada lives in Paris."}))?;
    facts.blocking().add(json!({"text": "Ada rows on Tuesdays."}))?;

    // Both are updated in the background from what a session flushes, and shown in its prompts.
    let instructions = InstructionBlock::new("instructions", "Help with the calendar.", instruction_model);
    let memory = engine
        .memory(&user, "monday")
        .block(instructions.clone())
        .block(ProfileBlock::new("profile", &profile, profile_model))
        .block(CollectionBlock::new("facts", &facts, fact_model).with_k(2).with_priority(1))
        .open()?;
    let turn = vec![
        Message::user("I have moved to Lyon, and row on Thursday mornings now.").by("Ada"),
        Message::assistant("Noted: Lyon, and rowing on Thursday mornings."),
    ];
    memory.blocking().put(turn)?;
    memory.blocking().flush()?;
    memory.blocking().settle()?;

    // Instructions: rewritten from feedback; each version is kept and can be restored.
    memory.blocking().refine(&instructions, "Too long: one sentence is enough.", 20)?;

    let prompt = memory.blocking().assemble(Message::user("When do I go rowing?"))?;
    println!("{}\n", prompt.messages[0].text());

    // Episodes: a collection of another form. A model can update it, too; these are added by hand.
    let episodes = Collection::new(&engine, &"acme/episodes".parse()?).index(["input"]).of::<Episode>();
    for (input, output, why) in [
        ("Book a table for two.", "reserve(2)", "asked no question that the request answers"),
        ("What is the weather in Lyon?", "weather(Lyon)", "one call for one place"),
    ] {
        episodes.blocking().add(json!({"input": input, "output": output, "why": why}))?;
    }
    engine.blocking().flush()?;
    let similar = DocumentSearch::default().query("Will the weather be fine in Paris?").limit(1);
    for found in episodes.blocking().search(similar)? {
        let Episode { input, output, why } = serde_json::from_value(found.value).expect("items have this form");
        println!("{}\nBecause: {why}", FewShotExample::new(input, output));
    }
    Ok(())
}
