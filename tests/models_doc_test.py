"""docs/models.md has one row for each row of src/model/arch/table.cpp, with the same names."""

import pathlib
import re
import sys


def code_rows(root):
    table = (root / "src/model/arch/table.cpp").read_text()
    for name, classes, gguf in re.findall(r'^    \{"([^"]+)",\s+"([^"]*)",\s+"([^"]*)"', table, re.M):
        yield name, tuple(classes.split("|")) if classes else (), tuple(gguf.split("|")) if gguf else ()


def documented_rows(root):
    for line in (root / "docs/models.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and len(cells) == 4 and re.fullmatch(r"`[\w-]+`", cells[1]) and cells[0] != "Models":
            yield cells[1].strip("`"), *(tuple(re.findall(r"`([^`]+)`", cell)) for cell in cells[2:])


def main(root):
    code, documented = set(code_rows(root)), set(documented_rows(root))
    for row in sorted(code - documented):
        print(f"docs/models.md lacks {row[0]} with classes {'|'.join(row[1])} and GGUF {'|'.join(row[2]) or 'none'}")
    for row in sorted(documented - code):
        print(f"docs/models.md has {row[0]} with classes {'|'.join(row[1])} and GGUF {'|'.join(row[2]) or 'none'}, which arch/table.cpp has not")
    return 0 if code and code == documented else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
