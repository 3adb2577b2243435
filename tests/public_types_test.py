"""Every class, struct and enum that a header declares at namespace level says in a sentence what it is.

public_types_test.py SOURCE_DIR [MODULE...]: the sentence stands in the comment directly above the type, or on its first line.
"""

import pathlib
import re
import sys

TYPE = re.compile(r"^(?:template <.*> )?(?:class|struct|enum class|enum|union) (?:\[\[\w+\]\] |alignas\(\w+\) )*([A-Za-z]\w*)\b(?![>,])")
DECLARED = re.compile(r"^[^{]*;\s*(?://.*)?$")  # and no more


def without_sentence(path):
    lines = path.read_text().splitlines()
    for number, line in enumerate(lines):
        found = TYPE.match(line)
        if not found or DECLARED.match(line):
            continue
        above = number - 1
        while above >= 0 and lines[above].startswith(("template <", "requires ", "  requires ")):
            above -= 1
        if "// " in line or lines[above].startswith("//"):
            continue
        yield f"{path}:{number + 1}: {found[1]} has no comment that says what it is"


def main():
    root = pathlib.Path(sys.argv[1])
    modules = sys.argv[2:] or sorted(path.name for path in (root / "src").iterdir() if path.is_dir())
    folders = [root / "src" / module for module in modules]
    if not sys.argv[2:]:
        folders.append(root / "include" / "espalier")
    headers = [path for folder in folders for path in sorted(folder.rglob("*.h"))]
    problems = [problem for path in headers for problem in without_sentence(path)]
    print("\n".join(problems) or f"every type of {len(headers)} headers says what it is")
    return 1 if problems or not headers else 0


sys.exit(main())
