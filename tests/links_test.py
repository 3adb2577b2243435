"""What the documentation points at is there. Plain Python, no network.

links_test.py SOURCE_DIR

In README.md, CONTRIBUTING.md, docs/ and the other pages that git tracks (a copy without git: all of them):
- the file of every relative link and picture exists, and the heading of its #anchor;
- every path of the repository that stands as code (`tools/test.sh`, `docs/x.md`) exists; with * at least one file matches;
- a page of docs/ links only inside docs/, since the site (`make docs`) has nothing else, and stands in the site's navigation
  (tools/docs/mkdocs.yml), which names nothing else.
Addresses with a scheme (https://...) are not followed.
"""
import functools
import pathlib
import re
import subprocess
import sys
import urllib.parse

FENCE = re.compile(r"^\s*(```|~~~)")
CODE = re.compile(r"(`+)(.+?)\1")
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)|^\s*\[[^\]]+\]:\s*(\S+)")
SCHEME = re.compile(r"^[a-z][a-z0-9+.-]*:", re.I)
HEADING = re.compile(r"^(#{1,6})\s+(.*?)\s*#*\s*$")
# What may be meant where code begins with one of these; angle brackets, braces and dots stand for something.
FOLDERS = ("docs", "src", "apps", "tests", "tools", "bench", "web", "deploy", "examples", "include", "python", "cmake")
PATH = re.compile(r"(?:%s)/[\w./*+-]*" % "|".join(FOLDERS))
PAGE = re.compile(r"[\w./-]+\.md")


def plain_lines(text):
    """(number, line) of what is not in a block of code."""
    inside, before_blank = False, True
    for number, line in enumerate(text.splitlines(), 1):
        if FENCE.match(line):
            inside = not inside
        elif not inside and not (before_blank and line.startswith("    ") and not re.match(r"\s*([-*]|\d+\.) ", line)):
            yield number, line
            before_blank = not line.strip()


def slug(heading):
    """A heading's anchor, as GitHub makes it."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-")


@functools.cache
def anchors(path):
    found, count = set(), {}
    for _, line in plain_lines(path.read_text()):
        if heading := HEADING.match(line):
            name = slug(heading[2])
            found.add(f"{name}-{count[name]}" if name in count else name)
            count[name] = count.get(name, 0) + 1
    return found


def links_of(line):
    without_code = CODE.sub(lambda code: "x" * len(code[0]), line)
    return [found[1] or found[2] for found in LINK.finditer(without_code)]


def dead_link(root, page, target):
    """Why the link is dead, or None."""
    if SCHEME.match(target) or target.startswith("//"):
        return None
    name, _, anchor = urllib.parse.unquote(target).partition("#")
    path = (page.parent / name).resolve() if name else page
    docs = root / "docs"
    if not path.exists() or not path.is_relative_to(root):
        return f"there is no {name}"
    if page.is_relative_to(docs) and not path.is_relative_to(docs):
        return f"{name} is outside docs/, and so not on the site; name it as code instead"
    if page.is_relative_to(docs) and path.is_dir():
        return f"{name} is a folder; link a page"
    if anchor and anchor not in anchors(path):
        return f"{path.relative_to(root)} has no heading for #{anchor}"
    return None


def dead_paths(root, line):
    """Paths of the repository that stand as code and are not there."""
    for _, code in CODE.findall(line):
        for word in code.split():
            word = word.rstrip(",.;:")
            if PATH.fullmatch(word) and "..." not in word and not next(root.glob(word.rstrip("/")), None):
                yield f"there is no {word}"


def problems_of(root, page):
    for number, line in plain_lines(page.read_text()):
        reasons = [dead_link(root, page, target) for target in links_of(line)] + list(dead_paths(root, line))
        for reason in filter(None, reasons):
            yield f"{page.relative_to(root)}:{number}: {reason}"


def problems_of_navigation(root):
    """Pages that the site's navigation leaves out, or has twice; README.md and CONTRIBUTING.md are pages of it too (tools/docs/hook.py)."""
    listed = PAGE.findall((root / "tools/docs/mkdocs.yml").read_text().partition("\nnav:\n")[2])
    there = {"index.md", "contributing.md"} | {str(page.relative_to(root / "docs")) for page in (root / "docs").rglob("*.md")}
    yield from (f"tools/docs/mkdocs.yml: {name} is listed and not there" for name in sorted(set(listed) - there))
    yield from (f"tools/docs/mkdocs.yml: {name} is not listed" for name in sorted(there - set(listed)))
    yield from (f"tools/docs/mkdocs.yml: {name} is listed twice" for name in sorted({name for name in listed if listed.count(name) > 1}))


def pages_of(root):
    tracked = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard", "*.md"], capture_output=True, text=True)
    names = tracked.stdout.split("\n") if tracked.returncode == 0 else [str(path.relative_to(root)) for path in root.rglob("*.md")]
    return [root / name for name in sorted(set(names)) if name and "node_modules" not in name and not name.startswith("build/") and (root / name).exists()]


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = pages_of(root)
    problems = [problem for page in pages for problem in problems_of(root, page)] + list(problems_of_navigation(root))
    print("\n".join(problems) or f"{len(pages)} pages point at nothing that is not there")
    return 1 if problems or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
