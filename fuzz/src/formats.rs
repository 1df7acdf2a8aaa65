//! Files of other programs, as the table of formats reads them.

use mnemon::format::{FORMATS, FileReader, Format, ReadOptions, Source};

/// Who said what in which session.
type Said = Vec<(String, String, String)>;

/// The first byte chooses a format, or none, and whether calls of tools are kept. The rest is a file, which is read in the format
/// that it is found to have, too. What is read can be stored, and is the same each time.
pub(crate) fn files(data: &[u8]) {
    let Some((choice, file)) = data.split_first() else { return };
    let options = ReadOptions { tool_output: usize::from(choice >> 7) * 16, ..ReadOptions::default() };
    let chosen = FORMATS.get(usize::from(choice & 0x7f));
    let found = Format::detect(file);
    let databases =
        FORMATS.iter().filter(|format| file.starts_with(b"SQLite format 3\0") && format.endings.contains(&".db"));
    for format in chosen.into_iter().chain(found).chain(databases) {
        assert_eq!(read(format, file, &options), read(format, file, &options), "{format:?}");
    }
}

fn read(format: &'static Format, file: &[u8], options: &ReadOptions) -> (Said, usize) {
    let mut files = FileReader::new(options.clone());
    let mut source = Source::stream("file.txt", file).expect("a stream in memory");
    let (mut said, mut faults) = (Said::new(), 0);
    // The second of two damaged files in an archive is no worse for the first.
    while let Some(file) = source.next_file().transpose() {
        let Ok(mut file) = file else {
            faults += 1;
            continue;
        };
        let _ = file.format();
        for found in files.read(format, file) {
            let Ok(found) = found else {
                faults += 1;
                continue;
            };
            for line in found.messages {
                match line {
                    Ok(line) => {
                        line.message.check().expect("a message that was read can be stored");
                        let message = line.message;
                        said.push((message.session.clone(), message.role.as_str().to_owned(), message.text()));
                    }
                    Err(_) => faults += 1,
                }
            }
        }
    }
    (said, faults)
}
