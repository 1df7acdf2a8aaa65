//! Messages: their JSON form, OpenAI's chat format, lists of them.

mod line;
mod lists;
mod openai;
