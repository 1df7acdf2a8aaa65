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

/// Each option of each surface is in `docs/import.md`, by its name there.
#[test]
fn the_options_of_all_surfaces_are_documented() {
    let read = |path: &str| std::fs::read_to_string(crate::support::root(path)).unwrap();
    let documented = read("docs/import.md");
    let description: serde_json::Value = serde_json::from_str(&read("docs/openapi.json")).unwrap();
    let parameters = description["paths"]["/v1/import"]["post"]["parameters"].as_array().unwrap();
    let mut names: Vec<String> =
        parameters.iter().map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect();
    let stubs = read("bindings/python/python/mnemon/_mnemon.pyi");
    let (_, call) = stubs.split_once("def import_files(").unwrap();
    let keywords = call.split_once("*,").unwrap().1.split_once(')').unwrap().0.lines();
    names.extend(keywords.filter_map(|line| Some(line.trim().split_once(':')?.0.to_owned())));
    assert!(names.len() > 12, "{names:?}");
    for name in names {
        assert!(documented.contains(&format!("`{name}`")), "docs/import.md does not name {name}");
    }
    for surface in ["mnemon ingest", "POST /v1/import", "import_files", "read_files", "importFile", "FileImport"] {
        assert!(documented.contains(surface), "docs/import.md does not name {surface}");
    }
}
