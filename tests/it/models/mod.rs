//! Folders of models: imported and checked.

mod external;
mod folders;
mod import;
mod tokenizer;
