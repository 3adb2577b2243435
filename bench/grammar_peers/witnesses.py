"""Is a forced token forced by the schema? A witness says no: another valid document, written alike (as json.dumps writes), that begins
with the same text and goes on otherwise. Found by changing the document where the token stands: a later member comes first, another
member comes between or instead, another value, or none more. None found is no proof that the schema forces the token."""
import itertools
import json
import re

BY_TYPE = {"null": [None], "boolean": [True, False], "integer": [0, 1, -1], "number": [0, 0.5], "array": [[], ["x"], [{}], [1]], "object": [{}],
           "string": ["", "x", "2020-01-01", "2020-01-01T00:00:00Z", "https://a.b", "a@b.cd"]}
VALUES = [value for values in BY_TYPE.values() for value in values]
MOST_TRIES = 300  # documents validated for one token


def containers(value):
    if isinstance(value, (dict, list)):
        yield value
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def each_once(values):
    return list({json.dumps(value): value for value in values}.values())


def samples(part):
    """Values that a schema may allow, by its own words."""
    if not isinstance(part, dict):
        return VALUES
    listed = [*(part["enum"] if isinstance(part.get("enum"), list) else ()), *(part[word] for word in ("const", "default") if word in part)]
    types = [part["type"]] if isinstance(part.get("type"), str) else part.get("type") or ()
    return listed + [value for name in types for value in BY_TYPE.get(name, ())] or VALUES


class Schema:
    """What its documents may have in them, and whether one is valid."""

    def __init__(self, spec, documents):
        import jsonschema
        kind = jsonschema.validators.validator_for(spec, default=jsonschema.Draft202012Validator)
        self.validator = kind(spec, format_checker=kind.FORMAT_CHECKER)
        self.values = {}  # by name: those of the documents come first
        self.beside = {}  # by name: names that the schema lists beside it
        for part in (part for document in documents for part in containers(document) if isinstance(part, dict)):
            for name, value in part.items():
                self.values.setdefault(name, []).append(value)
        parts = [part for part in containers(spec) if isinstance(part, dict)]
        for part in parts:
            properties, required = part.get("properties"), part.get("required")
            for name, value in properties.items() if isinstance(properties, dict) else ():
                self.values.setdefault(name, []).extend(samples(value))
                self.beside.setdefault(name, []).extend(properties)
            for name in required if isinstance(required, list) else ():
                self.values.setdefault(str(name), []).extend(VALUES)
        self.values = {name: each_once(values) for name, values in self.values.items()}
        self.all_values = each_once([value for part in parts if "enum" in part or "const" in part for value in samples(part)] + VALUES)

    def valid(self, document):
        try:
            return self.validator.is_valid(document)
        except Exception:  # a reference that leads nowhere, a pattern that Python does not take
            return False


class Writing:
    """JSON as the run writes it."""

    def __init__(self, compact):
        self.separators = (",", ":") if compact else (", ", ": ")

    def text(self, value):
        return json.dumps(value, ensure_ascii=False, separators=self.separators)

    def entry(self, container, number):
        """What comes at that place: a member or an item with the comma before it, or the end."""
        entries = list(container.items()) if isinstance(container, dict) else container
        if number >= len(entries):
            return "}" if isinstance(container, dict) else "]"
        comma = self.separators[0] if number else ""
        return comma + (self.text(dict([entries[number]]))[1:-1] if isinstance(container, dict) else self.text(entries[number]))

    def place(self, document, at):
        """The innermost container that is open at this place of the text: its path, which of its entries comes, what is written of it."""
        path, value, cursor = [], document, 1
        while True:
            keys = list(value) if isinstance(value, dict) else range(len(value))
            for number, key in enumerate(keys):
                end = cursor + len(self.entry(value, number))
                inner = end - len(self.text(value[key]))
                if at > inner and at < end and isinstance(value[key], (dict, list)):
                    path.append(key)
                    value, cursor = value[key], inner + 1
                    break
                if at < end:
                    return path, number, at - cursor
                cursor = end
            else:
                return path, len(keys), at - cursor


def spans(text, lengths):
    """Where tokens of so many bytes begin and end, in characters."""
    data, ends = text.encode(), [0, *itertools.accumulate(lengths)]
    places = [len(data[:end].decode(errors="ignore")) for end in ends]
    return list(zip(places, places[1:]))


def others(container, number, written, schema):
    """The container otherwise from that entry on, most likely ones first."""
    fresh = re.sub(r'^,? ?"?', "", written) + "~"
    if isinstance(container, list):
        before, rest = container[:number], container[number:]
        yield before
        for value in (*schema.all_values, fresh):
            yield [*before, value, *rest[1:]]
            yield [*before, value]
        return
    members = list(container.items())
    before, rest = members[:number], members[number:]
    for later in rest[1:]:
        yield dict([*before, later, *rest])
    yield dict(before)
    for name, _ in rest[:1]:
        for value in (*schema.values.get(name, ()), *schema.all_values, fresh, written.rpartition('"')[2] + "~"):
            yield dict([*before, (name, value), *rest[1:]])
            yield dict([*before, (name, value)])
    beside = each_once(schema.beside.get(rest[0][0], ())) if rest else ()
    for name in each_once([*beside, fresh, "another", *schema.values]):
        for value in schema.values.get(name, VALUES) if name not in container else ():
            yield dict([*before, (name, value), *rest])
            yield dict([*before, (name, value), *rest[1:]])


def replaced(document, path, container):
    if not path:
        return container
    copy = document.copy()
    copy[path[0]] = replaced(document[path[0]], path[1:], container)
    return copy


def alike(one, other):
    """The same but for the order of members."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def witness(schema, document, writing, begin, end):
    """A valid document whose text begins as this one's up to `begin` and is another one before `end`; None when none is found."""
    text = writing.text(document)
    if begin == 0 or not isinstance(document, (dict, list)):
        return None
    path, number, written = writing.place(document, begin)
    container = document
    for key in path:
        container = container[key]
    prefix = text[begin - written:begin]
    tries = 0
    for other in others(container, number, prefix, schema):
        if not writing.entry(other, number).startswith(prefix):
            continue
        changed = replaced(document, path, other)
        found = writing.text(changed)
        if not found.startswith(text[:begin]) or found.startswith(text[:end]):
            continue
        tries += 1
        if alike(changed, document) or schema.valid(changed):
            return changed
        if tries == MOST_TRIES:
            return None
    return None


def judge(item, texts, writing, refuses):
    """Counts by (who forces the token, whether there is a witness), and the tokens that only one forces, with what the witness has there.
    `texts`: (document, spans of its tokens, forced by us, forced by the peer); `refuses`(who, text): who forces a token refuses every
    witness, or the token is wrongly forced."""
    schema = Schema(item["spec"], [document for document, *_ in texts])
    counts, alone = {}, []
    for document, places, ours, theirs in texts:
        text = writing.text(document)
        for number in sorted(ours | theirs):
            begin, end = places[number]
            who = "both" if number in ours & theirs else "ours" if number in ours else "theirs"
            found = witness(schema, document, writing, begin, end)
            counts[who, found is not None] = counts.get((who, found is not None), 0) + 1
            other = "no witness" if found is None else "a witness has " + writing.text(found)[begin:begin + 40]
            for one in ("ours", "theirs") if found is not None else ():
                if who in ("both", one) and not refuses(one, writing.text(found)):
                    other += f", which {one} accepts"
            if who != "both" or "accepts" in other:
                alone.append((who, other, item["id"], text[max(0, begin - 60):begin], text[begin:end]))
    return counts, alone
