//! The table of formats, and the reader that chooses among them.

use std::fmt;

use serde_json::Value;

#[cfg(doc)]
use super::source::Source;
use super::{
    aider, chats, claude_ai, claude_code, codex,
    database::Database,
    gemini_cli, gemini_takeout, group_chats, irc,
    json::{JsonReader, JsonShape},
    langgraph, mail, opencode, own,
    reader::{DerivedIds, EarlierFiles, Found, ReadOptions, Reader, Rows, ValueReader},
    sample::Sample,
    slack,
    source::{LINE_MEMORY, SourceFile},
    whatsapp,
};
use crate::{
    error::{Error, Result},
    message::{
        Message,
        format::{to_anthropic, to_gemini, to_openai},
    },
};

/// A format of files with messages.
pub struct Format {
    /// The name by which a program chooses the format, such as `claude-code`.
    pub name: &'static str,
    /// What its files are, for people, such as "transcripts of Claude Code".
    pub title: &'static str,
    /// The endings of the names of its files, such as `.jsonl`.
    pub endings: &'static [&'static str],
    /// The session of its messages, for people.
    pub session: &'static str,
    /// Writes messages in this format.
    pub write: Option<fn(&[Message]) -> Value>,
    kinds: &'static [Kind],
}

/// How files of a format are recognized and read.
enum Kind {
    /// Lines of JSON, values of JSON, or lists of them.
    Json {
        /// Whether a value is of this format.
        is: fn(&Value) -> bool,
        reader: fn(&ReadOptions) -> Box<dyn ValueReader>,
        shape: JsonShape,
    },
    /// Other files, and those for which one value is not enough.
    File {
        /// Whether a file with this beginning is of the format.
        is: fn(&Sample) -> bool,
        reader: fn(&ReadOptions) -> Box<dyn Reader>,
    },
    /// A SQLite database.
    Database {
        /// The tables by which it is recognized.
        tables: &'static [&'static str],
        read: ReadDatabase,
    },
}

type ReadDatabase = fn(Database, &ReadOptions) -> Result<Rows<'static>>;

/// All formats, in the order in which they are tried on a file whose format is unknown.
pub static FORMATS: &[Format] = &[
    Format {
        name: "mnemon",
        title: "messages, one object a line",
        endings: &[".jsonl"],
        session: "the line's, or `default`",
        write: None,
        kinds: &[Kind::File { is: own::is_file, reader: own::reader }],
    },
    Format {
        name: "claude-code",
        title: "transcripts of Claude Code, `~/.claude/projects/*/*.jsonl`",
        endings: &[".jsonl"],
        session: "the transcript's",
        write: None,
        kinds: &[Kind::Json { is: claude_code::is_line, reader: claude_code::reader, shape: JsonShape::Log }],
    },
    Format {
        name: "codex",
        title: "rollouts of Codex, `~/.codex/sessions/*/*/*/*.jsonl`",
        endings: &[".jsonl"],
        session: "the rollout's",
        write: None,
        kinds: &[Kind::Json { is: codex::is_line, reader: codex::reader, shape: JsonShape::Log }],
    },
    Format {
        name: "chatgpt",
        title: "`conversations.json` of ChatGPT's data export: of each conversation, the branch that ChatGPT shows",
        endings: &[".json", ".zip"],
        session: "the conversation's id",
        write: None,
        kinds: &[Kind::Json { is: chats::is_chatgpt, reader: chats::chatgpt, shape: JsonShape::Elements }],
    },
    Format {
        name: "claude-ai",
        title: "Claude.ai's data export: conversations with their attachments, `memories.json` and `projects.json`",
        endings: &[".json", ".zip"],
        session: "the conversation's id, `memories`, or the project's id",
        write: None,
        kinds: &[Kind::Json { is: claude_ai::is_value, reader: claude_ai::reader, shape: JsonShape::Elements }],
    },
    Format {
        name: "gemini-takeout",
        title: "`MyActivity.json` or `MyActivity.html` of Gemini Apps in Google Takeout",
        endings: &[".json", ".html"],
        session: "the conversation's id, or prompts within an hour of each other",
        write: None,
        kinds: &[
            Kind::File { is: gemini_takeout::is_html, reader: gemini_takeout::html },
            Kind::Json { is: gemini_takeout::is_value, reader: gemini_takeout::reader, shape: JsonShape::Elements },
        ],
    },
    Format {
        name: "whatsapp",
        title: "WhatsApp's export of a chat, from iOS or Android",
        endings: &[".txt", ".zip"],
        session: "the chat's name",
        write: None,
        kinds: &[Kind::File { is: whatsapp::is_file, reader: whatsapp::reader }],
    },
    Format {
        name: "slack",
        title: "Slack's export: a folder for each channel and a file for each day",
        endings: &[".json", ".zip"],
        session: "the channel's name, and a thread's first time",
        write: None,
        kinds: &[Kind::File { is: slack::is_file, reader: slack::reader }],
    },
    Format {
        name: "telegram",
        title: "`result.json` of Telegram Desktop, of one chat or of all",
        endings: &[".json"],
        session: "the chat's name and id",
        write: None,
        kinds: &[Kind::Json {
            is: group_chats::is_telegram,
            reader: group_chats::telegram,
            shape: JsonShape::Messages(&["type"]),
        }],
    },
    Format {
        name: "discord",
        title: "JSON of DiscordChatExporter",
        endings: &[".json"],
        session: "the server's and the channel's name",
        write: None,
        kinds: &[Kind::Json {
            is: group_chats::is_discord,
            reader: group_chats::discord,
            shape: JsonShape::Messages(&["channel", "exportedAt"]),
        }],
    },
    Format {
        name: "opencode",
        title: "opencode's database, `~/.local/share/opencode/opencode.db`, and `opencode export`",
        endings: &[".db", ".json"],
        session: "the session's id",
        write: None,
        kinds: &[
            Kind::Database { tables: &["session", "message", "part"], read: opencode::read_database },
            Kind::Json { is: opencode::is_value, reader: opencode::reader, shape: JsonShape::Elements },
        ],
    },
    Format {
        name: "gemini-cli",
        title: "sessions of Gemini CLI, `~/.gemini/tmp/*/chats/session-*`",
        endings: &[".json", ".jsonl"],
        session: "the session's id",
        write: None,
        kinds: &[Kind::Json { is: gemini_cli::is_value, reader: gemini_cli::reader, shape: JsonShape::Elements }],
    },
    Format {
        name: "aider",
        title: "aider's `.aider.chat.history.md`",
        endings: &[".md"],
        session: "the time at which the session began",
        write: None,
        kinds: &[Kind::File { is: aider::is_file, reader: aider::reader }],
    },
    Format {
        name: "zulip",
        title: "messages of Zulip's API, of one topic",
        endings: &[".json"],
        session: "the stream and the topic",
        write: None,
        kinds: &[Kind::Json { is: group_chats::is_zulip, reader: group_chats::zulip, shape: JsonShape::Messages(&[]) }],
    },
    Format {
        name: "matrix",
        title: "Element's JSON export of a Matrix room",
        endings: &[".json"],
        session: "the room's name",
        write: None,
        kinds: &[Kind::Json { is: group_chats::is_matrix, reader: group_chats::matrix, shape: JsonShape::Elements }],
    },
    Format {
        name: "irc",
        title: "logs of IRC clients, with the date in the file's name or in the log",
        endings: &[".log", ".txt"],
        session: "the rest of the file's name, or the folder's",
        write: None,
        kinds: &[Kind::File { is: irc::is_file, reader: irc::reader }],
    },
    Format {
        name: "mbox",
        title: "mail in an mbox file",
        endings: &[".mbox"],
        session: "the subject",
        write: None,
        kinds: &[Kind::File { is: mail::is_file, reader: mail::reader }],
    },
    Format {
        name: "langchain",
        title: "`messages_to_dict` of LangChain",
        endings: &[".json", ".jsonl"],
        session: "`default`",
        write: None,
        kinds: &[Kind::Json { is: chats::is_langchain, reader: chats::langchain, shape: JsonShape::Lists }],
    },
    Format {
        name: "langgraph",
        title: "checkpoints of LangGraph in SQLite, by `SqliteSaver` or `AsyncSqliteSaver`",
        endings: &[".sqlite", ".db"],
        session: "the thread's id",
        write: None,
        kinds: &[Kind::Database { tables: &["checkpoints", "writes"], read: langgraph::read }],
    },
    Format {
        name: "llamaindex",
        title: "`ChatMessage` of LlamaIndex as JSON, or a `SimpleChatStore`",
        endings: &[".json", ".jsonl"],
        session: "`default`, or the store's key",
        write: None,
        kinds: &[Kind::Json { is: chats::is_llamaindex, reader: chats::llamaindex, shape: JsonShape::Elements }],
    },
    Format {
        name: "mem0",
        title: "the list of mem0's `get_all`; relations of its graph are left out",
        endings: &[".json", ".jsonl"],
        session: "`run_id`, or `mem0`",
        write: None,
        kinds: &[Kind::Json { is: chats::is_mem0, reader: chats::mem0, shape: JsonShape::Elements }],
    },
    Format {
        name: "gemini",
        title: "requests, answers and `contents` of Gemini's `generateContent`",
        endings: &[".json", ".jsonl"],
        session: "`default`",
        write: Some(to_gemini),
        kinds: &[Kind::Json { is: chats::is_gemini, reader: chats::gemini, shape: JsonShape::Lists }],
    },
    Format {
        name: "anthropic",
        title: "requests, answers, batches and `messages` of Anthropic's Messages API",
        endings: &[".json", ".jsonl"],
        session: "`default`",
        write: Some(to_anthropic),
        kinds: &[Kind::Json { is: chats::is_anthropic, reader: chats::anthropic, shape: JsonShape::Lists }],
    },
    Format {
        name: "openai",
        title: "messages of OpenAI's chat completions and items of its Responses API, as a list or one a line; requests and \
                answers; lines for fine-tuning and batches; rows of WildChat and ShareGPT",
        endings: &[".json", ".jsonl"],
        session: "`default`; of a conversation in one value its id, `custom_id`, or a hash",
        write: Some(|messages| to_openai(messages).into()),
        kinds: &[Kind::Json { is: chats::is_openai, reader: chats::openai, shape: JsonShape::Lists }],
    },
];

impl Format {
    /// Returns the format of a name.
    pub fn named(name: &str) -> Option<&'static Format> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// Finds the format of a file by its first bytes. Returns `None` if it has that of none. A database is known by its
    /// tables, which may be anywhere in it: [`SourceFile::format`] finds its format.
    pub fn detect(head: &[u8]) -> Option<&'static Format> {
        let sample = Sample::new(head);
        let is_file = |format: &&Format| format.kinds.iter().any(|kind| kind.is_file(&sample));
        let has_value = |value: &Value| FORMATS.iter().find(|format| format.is_value(value));
        FORMATS.iter().find(is_file).or_else(|| sample.values.iter().find_map(has_value))
    }

    /// Returns true if a coding agent writes the files while it works. Their messages have the namespace of its folder.
    pub fn is_log(&self) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::Json { shape: JsonShape::Log, .. }))
    }

    /// Whether a JSON value is of this format.
    fn is_value(&self, value: &Value) -> bool {
        self.kinds.iter().any(|kind| matches!(kind, Kind::Json { is, .. } if is(value)))
    }

    /// Returns the format that a file has in the place of this one, if it is known.
    fn other_of(&self, sample: &Sample<'_>, head: &[u8]) -> Option<&'static Format> {
        let is_json = self.kinds.iter().any(|kind| matches!(kind, Kind::Json { .. }));
        let has_own = self.kinds.iter().any(|kind| kind.is_file(sample))
            || sample.values.iter().any(|value| self.is_value(value));
        // A plain message may be of any of these.
        let is_broad = |format: &Format| ["mnemon", "openai", "anthropic"].contains(&format.name);
        // Other files than JSON are of no format for sure.
        Format::detect(head).filter(|other| is_json && !(has_own || is_broad(self) && is_broad(other)))
    }

    /// Returns which of the kinds of files of this format one is that is no database.
    fn kind_of(&self, sample: &Sample<'_>) -> Option<usize> {
        let find = |is: &dyn Fn(&Kind) -> bool| self.kinds.iter().position(is);
        find(&|kind| kind.is_file(sample))
            .or_else(|| find(&|kind| matches!(kind, Kind::Json { .. })))
            .or_else(|| find(&|kind| matches!(kind, Kind::File { .. })))
    }

    /// Returns how a database of this format is read, if it is one.
    fn database(&self, database: &Database) -> Result<Option<ReadDatabase>> {
        for kind in self.kinds {
            if let Kind::Database { tables, read } = kind
                && database.has_tables(tables)?
            {
                return Ok(Some(*read));
            }
        }
        Ok(None)
    }

    /// The error of a file that is not of this format.
    fn unlike(&self, file: &str, fitting: Option<&Format>) -> Error {
        Error::OtherFormat { file: file.to_owned(), given: self.name, fitting: fitting.map(|format| format.name) }
    }

    /// Reads a file that is a database.
    fn read_database(&self, file: SourceFile<'_>, options: &ReadOptions) -> Result<Rows<'static>> {
        let name = file.name.clone();
        let database = file.into_database()?.expect("it was opened");
        match self.database(&database)? {
            Some(read) => read(database, options),
            None => Err(self.unlike(&name, database.format()?)),
        }
    }
}

impl Kind {
    /// Whether a file with this beginning is of the kind, for what is neither JSON nor a database.
    fn is_file(&self, sample: &Sample<'_>) -> bool {
        matches!(self, Kind::File { is, .. } if is(sample))
    }

    /// Creates a reader for the files of one folder or archive, or for one file.
    fn reader(&self, format: &'static str, options: &ReadOptions) -> Option<Box<dyn Reader>> {
        match *self {
            Kind::Json { is, reader, shape } => {
                let (options, earlier) = (options.clone(), EarlierFiles::new());
                Some(Box::new(JsonReader { format, is, shape, values: reader, options, earlier }))
            }
            Kind::File { reader, .. } => Some(reader(options)),
            Kind::Database { .. } => None,
        }
    }
}

impl Database {
    /// Finds out the format of the database. Returns `None` if it has that of none.
    fn format(&self) -> Result<Option<&'static Format>> {
        for format in FORMATS {
            if format.database(self)?.is_some() {
                return Ok(Some(format));
            }
        }
        Ok(None)
    }
}

impl SourceFile<'_> {
    /// Finds out the format of the file. Returns `None` if it has that of none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn format(&mut self) -> Result<Option<&'static Format>> {
        match self.database()? {
            Some(database) => database.format(),
            None => self.head().map(Format::detect),
        }
    }
}

impl fmt::Debug for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The name of a format, and which of its kinds a file is of.
type FileKind = (&'static str, usize);

/// Reads the files of one [`Source`], each in its format.
pub struct FileReader {
    options: ReadOptions,
    /// The format of the files. `None`: the one that each is found to have.
    given: Option<&'static Format>,
    /// The readers of the formats that were met, and of the kinds of their files.
    readers: Vec<(FileKind, Box<dyn Reader>)>,
}

impl FileReader {
    /// Creates a reader.
    pub fn new(options: ReadOptions) -> Self {
        FileReader { options, given: None, readers: Vec::new() }
    }

    /// Names the format of the files. `None`: the one that each is found to have.
    pub fn format(self, given: Option<&'static Format>) -> Self {
        FileReader { given, ..self }
    }

    /// Returns the format in which a file is to be read. A file that is alone is read in the one that was asked for, and as
    /// mnemon's own if it has that of none, because its errors say so. `None`: a file among others that has another format.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn format_of(&self, file: &mut SourceFile<'_>, is_single: bool) -> Result<Option<&'static Format>> {
        let given = self.given;
        if let Some(given) = given.filter(|_| is_single) {
            return Ok(Some(given));
        }
        let found = file.format()?.or_else(|| FORMATS.first().filter(|_| is_single));
        Ok(found.filter(|found| given.is_none_or(|given| given.name == found.name)))
    }

    /// Reads a file in a format. Messages that cannot be read or stored are errors within [`Found`], and an error of the
    /// iterator ends the file. All messages have ids: one that comes without gets one computed from its content, so that
    /// reading a file again gives the same messages.
    pub fn read<'f>(
        &'f mut self,
        format: &'static Format,
        file: SourceFile<'f>,
    ) -> impl Iterator<Item = Result<Found>> + use<'f> {
        let (name, mut ids, options) = (file.name.clone(), DerivedIds::default(), self.options.clone());
        let found = self.found(format, file).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))));
        found.map(move |found| Ok(found?.placed(&name, &options, &mut ids)))
    }

    fn found<'f>(&'f mut self, format: &'static Format, mut file: SourceFile<'f>) -> Result<Rows<'f>> {
        let FileReader { options, readers, .. } = self;
        if file.database()?.is_some() {
            return format.read_database(file, options);
        }
        let name = file.name.clone();
        let head = file.head()?;
        let sample = Sample::new(head);
        if let Some(other) = format.other_of(&sample, head) {
            return Err(format.unlike(&name, Some(other)));
        }
        let kind = format.kind_of(&sample).ok_or_else(|| format.unlike(&name, Format::detect(head)))?;
        let key = (format.name, kind);
        let at = readers.iter().position(|(known, _)| *known == key).unwrap_or_else(|| {
            let reader = format.kinds[kind].reader(format.name, options).expect("it is no database");
            readers.push((key, reader));
            readers.len() - 1
        });
        let Some(max) = options.max_memory else { return Ok(readers[at].1.read(file)) };
        // Values of JSON are counted by themselves, however many lines they have.
        let is_of_values = matches!(&format.kinds[kind], Kind::Json { shape, .. } if *shape != JsonShape::Log);
        let held = file.bound(max, if is_of_values { 0 } else { LINE_MEMORY });
        Ok(Box::new(readers[at].1.read(file).inspect(move |found| {
            if found.as_ref().is_ok_and(|found| !found.messages.is_empty()) {
                held.set(0);
            }
        })))
    }
}

impl fmt::Debug for FileReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileReader").field("options", &self.options).finish_non_exhaustive()
    }
}
