"""What mkdocs does with the pages: the attributes of Rust's examples are rustdoc's, the site has no
folder of programs, and every public name of the package and of its classes has a place."""

import inspect
import re
from pathlib import Path

import mnemon


def on_page_markdown(markdown, **_):
    markdown = re.sub(r"^```rust,\w+$", "```rust", markdown, flags=re.MULTILINE)
    return markdown.replace("[`examples/`](examples)", "`examples/`")


def on_post_build(config, **_):
    pages = "".join(page.read_text() for page in Path(config.site_dir, "reference").glob("*.html"))
    shown = set(re.findall(r'id="mnemon\.(?:_errors\.|_reports\.)?(\w+(?:\.\w+)?)"', pages))
    things = {name: thing for name, thing in vars(mnemon).items() if not name.startswith("_") and not inspect.ismodule(thing)}
    members = {f"{name}.{member}" for name, thing in things.items() if inspect.isclass(thing) for member in vars(thing)}
    public = things.keys() | {member for member in members if "._" not in member}
    if missing := sorted(public - shown):
        raise SystemExit(f"no page of bindings/packaging/site/reference has {', '.join(missing)}: add `::: mnemon.NAME`")
