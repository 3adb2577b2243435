"""No class has more member functions than somebody can keep in mind.

class_size_test.py SOURCE_DIR [--list N]: counts, for every class of src/ and include/, wherever it is defined, the functions that it
declares: overloads each for themselves; not what is deleted or defaulted, no types, no friends, none that it inherits.
"""

import pathlib
import re
import sys

MOST = 40  # functions of one class
# Those that are larger still, with their number: they may only become smaller. (Simd is an instruction set, a line for each
# instruction; nobody reads it from end to end.)
LARGER = {"Simd": 69, "Builder": 54}

SKIPPED = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![\w])'(?:\\.|[^'\\\n])+'|^[ \t]*\#(?:\\\n|[^\n])*""", re.S | re.M)
TYPE = re.compile(r"^(?:template\s*<.*>\s*)?(?:class|struct|union)\s+(?:alignas\s*\([^)]*\)\s*|\[\[.*?\]\]\s*|[A-Z_]+\s+(?=[A-Z]))*(\w[\w:<>, ]*?)\s*(?:final\s*)?(?::(?!:).*)?$", re.S)
NO_FUNCTION = re.compile(r"^(?:using|typedef|friend|static_assert|enum|extern|namespace)\b")
NAME = re.compile(r"(?:operator\s*(?:\(\)|\[\]|[^\w\s(]+|[\w:<>*& ]+)|~?\b[A-Za-z_]\w*)\s*$")


def without_comments(text):
    return SKIPPED.sub(lambda found: '""' if found[0][0] in "R\"" else " " if found[0][0] != "'" else "0", text)


def is_function(statement):
    """Whether a member's declaration, without its body, is one of a function."""
    head = re.sub(r"^(?:(?:public|private|protected)\s*:\s*)+", "", statement.strip())
    head = re.sub(r"\[\[.*?\]\]", "", head).strip()
    if not head or NO_FUNCTION.match(head) or re.search(r"=\s*(?:default|delete)\s*$", head):
        return False
    angles = 0
    if "operator" in head:
        return True
    for place, letter in enumerate(head):
        if letter == "<":
            angles += 1
        elif letter == ">" and head[place - 1] != "-":
            angles -= 1
        elif angles == 0 and letter in "=[":
            return False
        elif angles == 0 and letter == "(":
            if head[place + 1:].lstrip().startswith("*"):
                return False  # a pointer to a function
            name = NAME.search(head[:place])
            if not name or name[0].strip() in {"alignas", "decltype", "requires", "noexcept", "explicit", "sizeof"}:
                continue
            return True
    return False


def classes(text, path):
    """Pairs of a class's name and the number of its functions."""
    text = without_comments(text)
    scopes = [{"name": None, "functions": 0, "statement": ""}]  # a name: a class; None: a namespace; "": a body
    place, round_brackets = 0, 0
    while place < len(text):
        letter, scope = text[place], scopes[-1]
        place += 1
        if letter == "(":
            round_brackets += 1
        elif letter == ")":
            round_brackets -= 1
        if letter == "{":
            head = re.sub(r"^\s*(?:(?:public|private|protected)\s*:\s*)+", "", scope["statement"]).strip()
            kind = TYPE.match(head) if round_brackets == 0 else None
            if scope["name"] != "" and kind and "(" not in re.sub(r"alignas\s*\([^)]*\)", "", kind[0].split(":")[0]):
                name = (scope["name"] + "::" if scope["name"] else "") + kind[1]
                scopes.append({"name": name, "functions": 0, "statement": ""})
            elif scope["name"] is None and re.match(r"^(?:inline\s+)?namespace\b|^extern\b", head):
                scopes.append({"name": None, "functions": 0, "statement": ""})
            else:
                scopes.append({"name": "", "functions": 0, "statement": "", "round": round_brackets})
        elif letter == "}" and len(scopes) > 1:
            done = scopes.pop()
            outer = scopes[-1]
            if done["name"]:
                yield done["name"], done["functions"]
                outer["statement"] = ""
            elif done["name"] is None:
                outer["statement"] = ""
            elif outer["name"] != "" and done.get("round", 0) == 0:
                rest = text[place:].lstrip()
                if is_function(outer["statement"]) and rest[:1] not in {",", "{"} and not re.search(r"[:,]\s*\w+$", outer["statement"]):
                    outer["functions"] += 1
                    outer["statement"] = ""
                    if rest[:1] == ";":
                        place = text.index(";", place) + 1
                else:
                    outer["statement"] += " 0"
        elif letter == ";" and round_brackets == 0:
            if scope["name"] and is_function(scope["statement"]):
                scope["functions"] += 1
            scope["statement"] = ""
        elif scope["name"] != "":
            scope["statement"] += letter


def main():
    root = pathlib.Path(sys.argv[1])
    paths = [path for folder in ("src", "include") for path in sorted((root / folder).rglob("*"))
             if path.suffix in {".h", ".cpp", ".inc"}]
    found = sorted(((count, name, path.relative_to(root)) for path in paths
                    for name, count in classes(path.read_text(), path)), key=lambda row: (-row[0], row[1]))
    if "--list" in sys.argv:
        for count, name, path in found[:int(sys.argv[sys.argv.index("--list") + 1])]:
            print(f"{count:4}  {name}  {path}")
    problems = [f"{path}: {name} has {count} functions, more than {LARGER.get(name, MOST)}: which part of it is a thing of its own?"
                for count, name, path in found if count > LARGER.get(name, MOST)]
    largest = {name: max((count for count, other, _ in found if other == name), default=0) for name in LARGER}
    problems += [f"class_size_test.py: {name} has {largest[name]} functions by now, not {most}"
                 for name, most in LARGER.items() if largest[name] < most]
    print("\n".join(problems) or f"none of {len(found)} classes has more than {MOST} functions, but for {len(LARGER)} that are known")
    return 1 if problems or not found else 0


if __name__ == "__main__":
    sys.exit(main())
