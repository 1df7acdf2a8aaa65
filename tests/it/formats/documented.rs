//! The table of formats in `docs/import.md`, which is made from that of the library.

use mnemon::format::FORMATS;

#[test]
fn the_table_of_formats_is_that_of_the_library() {
    let text = std::fs::read_to_string(crate::support::root("docs/import.md")).unwrap();
    let rows = text.split("| --- | --- | --- | --- |\n").nth(1).expect("a table of four columns");
    let found: String = rows.lines().take_while(|line| line.starts_with('|')).map(|line| format!("{line}\n")).collect();
    let row = |format: &mnemon::format::Format| {
        let written = if format.write.is_some() { "yes" } else { "" };
        let row = format!(
            "| `{}` | {} ({}) | {} | {written} |",
            format.name,
            format.title,
            format.endings.join(", "),
            format.session
        );
        row.replace("|  |", "| |") + "\n"
    };
    let made: String = FORMATS.iter().map(row).collect();
    assert!(
        found == made,
        "the table in docs/import.md is not that of the library. Replace its rows by these:\n{made}"
    );
}
