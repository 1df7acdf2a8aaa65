//! The second example of the README, on the database of the first. `cargo run --features openai --example session`. Without a chat
//! model at that address it ends with an error, the facts wait for one, and everything else works.

use mnemon::{Engine, FactBlock, Message, Namespace, OpenAiChat, Result, StaticBlock, Tiktoken, VectorBlock};

fn main() -> Result<()> {
    let engine = Engine::open("memory.redb")?;
    let user: Namespace = "acme/user-42".parse()?;
    let model = OpenAiChat::new("http://localhost:11434/v1", "llama3.2"); // any OpenAI-compatible server
    let memory = engine
        .memory(&user, "tuesday") // get or create; a restart finds the buffer as it was
        .token_counter(Tiktoken::o200k_base())
        .block(StaticBlock::new("about", "You are Atlas, Ada's assistant."))
        .block(VectorBlock::new("memories").with_priority(1)) // recalled from all her sessions
        .block(FactBlock::new("facts", model).with_priority(2)) // extracted in the background
        .open()?;

    let question = Message::user("When is my rowing lesson?");
    let prompt = memory.blocking().assemble(question.clone())?; // with what she said on Monday
    for message in &prompt.messages {
        println!("{}: {}", message.role.as_str(), message.text());
    }
    let answer = Message::assistant("On Thursday morning."); // your model's answer to the prompt's messages
    memory.blocking().put(vec![question, answer])?; // durable; old turns are flushed when the budget is full
    memory.blocking().flush()?; // the conversation is over: to long-term memory; ten idle minutes do the same
    if let Err(error) = memory.blocking().settle() {
        println!("{error}"); // the model's server is down: the facts are extracted when it answers
    }
    Ok(())
}
