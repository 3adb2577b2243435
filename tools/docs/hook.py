"""The site's first page is README.md, and CONTRIBUTING.md is a page of it: their links as they are inside docs/."""
import pathlib
import re

from mkdocs.structure.files import File

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}


def inside_docs(target):
    name, mark, anchor = target.partition("#")
    return (PAGES.get(name) or name.removeprefix("docs/")) + mark + anchor


def on_files(files, config):
    for source, name in PAGES.items():
        text = re.sub(r"\]\(([^)\s:]+)\)", lambda found: f"]({inside_docs(found[1])})", (ROOT / source).read_text())
        files.append(File.generated(config, name, content=text))
    files.append(File.generated(config, "site.css", content=(pathlib.Path(__file__).parent / "site.css").read_text()))
    return files
