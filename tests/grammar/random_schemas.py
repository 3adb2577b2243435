"""Random JSON Schemas and instances that are valid or nearly so; random regexes, with a matcher of their own.

Every pattern has two spellings: that of the schema (ECMA 262) or of the engine, and that of Python's `re` for the same language.
"""
import dataclasses
from decimal import Decimal

NAMES = ("a", "b", "c", "d", "aa", "ab", "key", "")
STRINGS = ("", "a", "b", "ab", "aab", "ba", "abc", "xyz", "1", "12", "a1", "é", "日本", "😀", 'a"b', "a\\b", "a\nb", "\t", "\x1f", "a b", "/")
NUMBERS = (0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 12, 15, 99, 100, -1, -2, -5, -10, Decimal("0.5"), Decimal("1.5"), Decimal("2.5"), Decimal("-0.5"),
           Decimal("0.1"), Decimal("0.3"), Decimal("3.14"), Decimal("-1.25"), Decimal("99.99"),
           1_000_000, -604_800, 4_294_967_296, Decimal("35650346.6886"), Decimal("-7513010.6642"), Decimal("86400.0007"))  # a double's text may be longer
FACTORS = (1, 2, 3, 5, 7, 10, 360, 1_000, Decimal("0.5"), Decimal("0.1"), Decimal("0.25"), Decimal("1.5"), Decimal("0.01"), Decimal("0.0007"))
TYPES = ("null", "boolean", "integer", "number", "string", "array", "object")
PATTERNS = {  # as ECMA has them: as Python has them
    "^a": r"\Aa", "b$": r"b\Z", "^[a-c]+$": r"\A[a-c]+\Z", "^.$": r"\A[^\n\r\u2028\u2029]\Z", "a|b": "a|b", r"\d": "[0-9]", r"^\D*$": r"\A[^0-9]*\Z",
    "^(a|b)*c?$": r"\A(a|b)*c?\Z", "": "(?:)", "^$": r"\A\Z", "^[^a]": r"\A[^a]", r"^\w{1,2}$": r"\A[A-Za-z0-9_]{1,2}\Z", "^x|1$": r"\Ax|1\Z", r"\.": r"\.",
    "^(?!a)": r"\A(?!a)", "^(?=.b)": r"\A(?=[^\n\r\u2028\u2029]b)", "é|日": "é|日", r"\\": r"\\", '"': '"',
    r"^[\x1e\x1f]$": r"\A[\x1e\x1f]\Z"}
# Keywords for which the engine takes members in any order; also oneOf, when several of its schemas may be objects.
OF_DOCUMENTS = {"not", "if", "dependentRequired", "dependentSchemas", "propertyNames", "contains", "unevaluatedProperties",
                "unevaluatedItems"}
ONE_SCHEMA = ("additionalProperties", "propertyNames", "items", "contains", "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems")
SCHEMA_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
SCHEMAS_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "$defs")


def children(schema):
    """The schemas directly inside one, without those that are only defined."""
    if not isinstance(schema, dict):
        return
    for keyword, value in schema.items():
        if keyword in ONE_SCHEMA:
            yield value
        elif keyword in SCHEMA_LISTS:
            yield from value
        elif keyword in SCHEMAS_BY_NAME and keyword != "$defs":
            yield from value.values()


def reached(root):
    """All schemas that a reader meets."""
    pending, seen = [root], {}
    while pending:
        schema = pending.pop()
        if id(schema) in seen or not isinstance(schema, dict):
            continue
        seen[id(schema)] = schema
        pending += children(schema)
        if "$ref" in schema:
            pending.append(target(root, schema["$ref"]))
    return list(seen.values())


def target(root, reference):
    return root if reference == "#" else root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), True)


def may_be_object(root, schema):
    """As far as its own words say."""
    for _ in range(20):
        if not isinstance(schema, dict):
            return schema
        if "$ref" not in schema:
            break
        schema = target(root, schema["$ref"])
    if "type" in schema:
        return "object" in ([schema["type"]] if isinstance(schema["type"], str) else schema["type"])
    listed = schema.get("enum", [schema["const"]] if "const" in schema else [{}])
    return any(isinstance(value, dict) for value in listed)


def in_any_order(root):
    def describes(schema):
        return bool(OF_DOCUMENTS & set(schema)) or sum(may_be_object(root, way) for way in schema.get("oneOf", ())) > 1

    def keeps_an_order(schema):
        """It is written twice."""
        return any(name in schema.get("required", ()) for name in schema.get("properties", ()))
    schemas = reached(root)
    return any(map(describes, schemas)) and not any(map(keeps_an_order, schemas))


def for_python(value):
    """The schema with its patterns as Python spells them."""
    if isinstance(value, list):
        return [for_python(part) for part in value]
    if not isinstance(value, dict):
        return value
    result = {}
    for key, part in value.items():
        if key == "pattern" and isinstance(part, str):
            result[key] = PATTERNS[part]
        elif key == "patternProperties":
            result[key] = {PATTERNS[name]: for_python(schema) for name, schema in part.items()}
        else:
            result[key] = for_python(part)
    return result


class Schemas:
    """Draws schemas and instances."""

    def __init__(self, random):
        self.random = random

    def one_in(self, n):
        return self.random.randrange(n) == 0

    def pick(self, values):
        return self.random.choice(values)

    def some(self, values, most=3):
        return self.random.sample(values, self.random.randint(0, min(most, len(values))))

    def count(self):
        return self.pick((0, 0, 1, 1, 1, 2, 2, 3, 4))

    def root(self):
        self.defined = ["n", "m"][:self.random.randrange(3)]
        schema = self.schema(3, refers=True)
        if self.defined and isinstance(schema, dict):
            schema["$defs"] = {name: self.schema(2, refers=False) for name in self.defined}
        return schema

    def schema(self, depth, refers):
        """`refers`: a $ref may stand here, because one that leads back here has read something before."""
        if self.one_in(12):
            return self.pick((True, True, {}, False))
        if refers and self.defined and self.one_in(5):
            return {"$ref": self.pick(["#/$defs/" + name for name in self.defined] + ["#"] * (depth < 3))}
        schema = {}
        kind = self.pick(("type", "type", "type", "object", "object", "array", "combined", "value"))
        if depth == 0:
            kind = self.pick(("type", "value"))
        if kind == "value":
            return self.pick(({"const": self.value(1)}, {"enum": [self.value(1) for _ in range(self.random.randint(1, 4))]}))
        types = [kind] if kind in ("object", "array") else self.random.sample(TYPES, self.pick((1, 1, 1, 2, 3)))
        if kind == "combined" and self.one_in(2):
            types = []
        elif not self.one_in(6):
            schema["type"] = types[0] if len(types) == 1 else types
        for name in types:
            if (add := getattr(self, "add_" + name.replace("integer", "number"), None)) and depth > 0:
                add(schema, depth)
        if kind == "combined" or self.one_in(6):
            self.add_combination(schema, depth, refers)
        if depth > 0 and self.one_in(4 if kind == "combined" else 12):
            keyword = self.pick([f"unevaluated{what}" for what, name in (("Properties", "object"), ("Items", "array")) if not types or name in types]
                                or ["unevaluatedProperties"])
            schema[keyword] = self.pick((False, False, self.schema(depth - 1, True)))
        if self.one_in(12):
            schema["enum"] = [self.value(1) for _ in range(self.random.randint(1, 4))]
        items = list(schema.items())
        self.random.shuffle(items)
        return dict(items)

    def add_number(self, schema, depth):
        for keyword in self.some(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), 2):
            schema[keyword] = self.pick(NUMBERS)
        if self.one_in(4):
            schema["multipleOf"] = self.pick(FACTORS)

    def add_string(self, schema, depth):
        if self.one_in(3):
            schema["minLength"] = self.count()
        if self.one_in(3):
            schema["maxLength"] = self.count() + 1
        if self.one_in(3):
            schema["pattern"] = self.pick(tuple(PATTERNS))

    def add_array(self, schema, depth):
        if self.one_in(3):
            schema["prefixItems"] = [self.schema(depth - 1, True) for _ in range(self.random.randint(1, 3))]
        if not self.one_in(3):
            schema["items"] = self.schema(depth - 1, True)
        if self.one_in(3):
            schema["contains"] = self.schema(depth - 1, True)
            if self.one_in(3):
                schema["minContains"] = self.count()
            if self.one_in(3):
                schema["maxContains"] = self.count()
        if self.one_in(3):
            schema["minItems"] = self.count()
        if self.one_in(3):
            schema["maxItems"] = self.count()
        if self.one_in(4):
            schema["uniqueItems"] = not self.one_in(8)

    def add_object(self, schema, depth):
        names = self.some(NAMES, 4)
        if names or self.one_in(4):
            schema["properties"] = {name: self.schema(depth - 1, True) for name in names}
        if self.one_in(2):
            schema["required"] = self.some(names if not self.one_in(4) else NAMES, 3)
        if self.one_in(4):
            schema["patternProperties"] = {pattern: self.schema(depth - 1, True) for pattern in self.random.sample(tuple(PATTERNS), self.pick((1, 1, 2)))}
        if self.one_in(3):
            schema["additionalProperties"] = self.pick((False, self.schema(depth - 1, True)))
        if self.one_in(8):
            schema["propertyNames"] = self.pick(({"maxLength": self.count()}, {"pattern": self.pick(tuple(PATTERNS))}, {"enum": self.some(NAMES, 4) + ["a"]},
                                                 self.schema(1, False)))
        if self.one_in(6):
            schema["minProperties"] = self.count()
        if self.one_in(6):
            schema["maxProperties"] = self.count()
        if self.one_in(8):
            schema["dependentRequired"] = {self.pick(NAMES): self.some(NAMES, 2)}
        if self.one_in(8):
            schema["dependentSchemas"] = {self.pick(NAMES): self.schema(depth - 1, False)}

    def add_combination(self, schema, depth, refers):
        keyword = self.pick(("allOf", "anyOf", "oneOf", "not", "if"))
        if keyword in SCHEMA_LISTS:
            schema[keyword] = [self.schema(depth - 1, False) for _ in range(self.random.randint(1, 3))]
        else:
            schema[keyword] = self.schema(depth - 1, False)
        if keyword == "if":
            for branch in self.some(("then", "else"), 2):
                schema[branch] = self.schema(depth - 1, False)

    def value(self, depth):
        kind = self.pick(("scalar", "number", "string", "array", "object") if depth > 0 else ("scalar", "number", "string"))
        if kind == "scalar":
            return self.pick((None, True, False))
        if kind == "number":
            return self.pick(NUMBERS)
        if kind == "string":
            return self.pick(STRINGS)
        if kind == "array":
            return [self.value(depth - 1) for _ in range(self.count())]
        return {name: self.value(depth - 1) for name in self.some(NAMES)}

    def instance(self, schema, root, depth=4):
        """A value that may well be valid."""
        if not isinstance(schema, dict) or not schema or depth == 0:
            return self.value(1)
        if "$ref" in schema:
            return self.instance(target(root, schema["$ref"]), root, depth - 1)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self.pick(schema["enum"])
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword in schema:
                rest = {k: v for k, v in schema.items() if k != keyword}
                chosen = [s for s in (schema[keyword] if keyword == "allOf" else [self.pick(schema[keyword])]) if isinstance(s, dict)]
                for part in chosen:
                    part = target(root, part["$ref"]) if "$ref" in part else part
                    for key, value in part.items() if isinstance(part, dict) else ():
                        rest[key] = {**rest[key], **value} if key == "properties" and key in rest else value
                return self.instance(rest, root, depth - 1)
        if "if" in schema and self.one_in(2):
            branch = schema.get(self.pick(("then", "else")), True)
            rest = {key: part for key, part in schema.items() if key != "if"}
            return self.instance({**rest, **branch} if isinstance(branch, dict) else rest, root, depth - 1)
        return self.typed(schema, root, depth)

    def typed(self, schema, root, depth):
        types = schema.get("type")
        if types is None:
            types = [t for t, words in (("object", ("properties", "required")), ("array", ("items", "prefixItems", "contains")),
                                        ("string", ("pattern", "minLength")), ("number", ("minimum", "multipleOf"))) if any(w in schema for w in words)]
        kind = self.pick([types] if isinstance(types, str) else types or TYPES)
        if kind in ("null", "boolean"):
            return None if kind == "null" else self.one_in(2)
        if kind == "string":
            least, most = schema.get("minLength", 0), schema.get("maxLength", 99)
            return self.pick([s for s in STRINGS if least <= len(s) <= most] or STRINGS)
        if kind in ("integer", "number"):
            factor = schema.get("multipleOf", 1 if kind == "integer" else Decimal("0.01"))
            fitting = [n for n in NUMBERS if schema.get("minimum", n) <= n <= schema.get("maximum", n) and n % factor == 0]
            return self.pick(fitting or NUMBERS)
        if kind == "array":
            first = schema.get("prefixItems", [])
            size = max(schema.get("minItems", 0), min(self.pick((0, 1, 2, 3, len(first))), schema.get("maxItems", 9)))
            items = [self.instance(first[i] if i < len(first) else schema.get("items", True), root, depth - 1) for i in range(size)]
            if "contains" in schema and (items or "prefixItems" not in schema):
                items[-1:] = [self.instance(schema["contains"], root, depth - 1)]
            return items
        properties = schema.get("properties", {})
        names = [name for name in properties if name in schema.get("required", ()) or self.one_in(2)]
        names += [name for name in schema.get("required", ()) if name not in names]
        if self.one_in(3) or len(names) < schema.get("minProperties", 0):
            names += [name for name in self.some(NAMES) if name not in names]
        return {name: self.instance(properties.get(name, schema.get("additionalProperties", True)), root, depth - 1) for name in names}

    def changed(self, value):
        """A near miss: one thing is different."""
        if isinstance(value, list) and value and not self.one_in(4):
            place = self.random.randrange(len(value))
            return self.pick((value[:place] + value[place + 1:], value + [self.value(1)], value + value[:1], value[::-1],
                              value[:place] + [self.changed(value[place])] + value[place + 1:]))
        if isinstance(value, dict) and value and not self.one_in(4):
            name = self.pick(list(value))
            without = {key: part for key, part in value.items() if key != name}
            return self.pick((without, {**value, self.pick(NAMES): self.value(1)}, {**value, name: self.changed(value[name])}))
        if isinstance(value, (int, Decimal)) and not isinstance(value, bool) and not self.one_in(4):
            return value + self.pick((1, -1, Decimal("0.5"), Decimal("0.01"), 10))
        if isinstance(value, str) and not self.one_in(4):
            return self.pick((value + "a", value[1:], value + "1", value[:-1], "a" + value))
        return self.value(1)


@dataclasses.dataclass
class Regex:
    """A regex as Python spells it; `ends(text, starts)` are the places where a match from one of the places may end."""
    text: str
    ends: object


class Regexes:
    LETTERS = "abcABk12_- .é日😀\n"
    CLASSES = {r"\d": str.isdecimal, r"\D": lambda c: not c.isdecimal(), r"\w": lambda c: c.isalnum() or c == "_",
               r"\W": lambda c: not (c.isalnum() or c == "_"), r"\s": str.isspace, r"\S": lambda c: not c.isspace()}

    def __init__(self, random):
        self.random = random

    def one_of(self, text, fits):
        return Regex(text, lambda data, starts: {i + 1 for i in starts if i < len(data) and fits(data[i])})

    def letter(self):
        letter = self.random.choice(self.LETTERS)
        return (("\\" + letter) if letter in ".-" else letter), letter

    def single(self, fold, dot_all):
        kind = self.random.randrange(8)
        if kind == 0:
            return self.one_of(".", lambda c: dot_all or c != "\n")
        if kind == 1:
            return self.one_of(*self.random.choice(list(self.CLASSES.items())))
        if kind > 3:
            text, letter = self.letter()
            return self.one_of(text, lambda c: c == letter or (fold and c.lower() == letter.lower()))
        parts, tests = [], []
        for _ in range(self.random.randint(1, 3)):
            if self.random.random() < 0.3:
                low, high = self.random.choice((("a", "c"), ("A", "B"), ("0", "9"), (" ", "~"), ("é", "日"), ("b", "b")))
                parts.append(f"{low}-{high}")
                tests.append(lambda c, low=low, high=high: low <= c <= high or (fold and (low <= c.lower() <= high or low <= c.upper() <= high)))
            elif self.random.random() < 0.3:
                text, fits = self.random.choice(list(self.CLASSES.items()))
                parts.append(text)
                tests.append(fits)
            else:
                text, letter = self.letter()
                parts.append(text)
                tests.append(lambda c, letter=letter: c == letter or (fold and c.lower() == letter.lower()))
        negated = self.random.random() < 0.3
        return self.one_of(f"[{'^' * negated}{''.join(parts)}]", lambda c: any(fits(c) for fits in tests) != negated)

    def regex(self, depth, fold=False, dot_all=False):
        kind = self.random.randrange(9) if depth > 0 else 0
        if kind < 2:
            return self.single(fold, dot_all)
        if kind < 4:
            parts = [self.regex(depth - 1, fold, dot_all) for _ in range(self.random.randint(1, 3))]

            def in_turn(data, starts):
                for part in parts:
                    starts = part.ends(data, starts)
                return starts
            return Regex("".join(part.text for part in parts), in_turn)
        if kind < 6:
            parts = [self.regex(depth - 1, fold, dot_all) for _ in range(self.random.randint(1, 3))]
            parts += [Regex("", lambda data, starts: starts)] * (self.random.random() < 0.2)
            head = self.random.choice(("(", "(?:"))
            return Regex(f"{head}{'|'.join(part.text for part in parts)})", lambda data, starts: set().union(*(part.ends(data, starts) for part in parts)))
        if kind == 6:
            flag = self.random.choice("is")
            inner = self.regex(depth - 1, fold or flag == "i", dot_all or flag == "s")
            return Regex(f"(?{flag}:{inner.text})", inner.ends)
        return self.repeated(self.regex(depth - 1, fold, dot_all))

    def repeated(self, inner):
        low = self.random.choice((0, 0, 1, 1, 2, 3))
        high = self.random.choice((None, None, low, low + 1, low + 2)) if low or self.random.random() < 0.7 else 1
        text = {(0, None): "*", (1, None): "+", (0, 1): "?"}.get((low, high), f"{{{low},{'' if high is None else high}}}")
        text += "?" * (self.random.random() < 0.2)

        def again(data, starts):
            for _ in range(low):
                starts = inner.ends(data, starts)
            found, new = set(starts), starts
            for _ in range(len(data) + 1 if high is None else high - low):
                new = inner.ends(data, new) - found
                found |= new
            return found
        return Regex(f"(?:{inner.text}){text}", again)

    def matches(self, regex, text):
        return len(text) in regex.ends(text, {0})

    def texts(self, regex, count):
        """Random texts, grown letter by letter along what the regex can read."""
        for _ in range(count):
            text = ""
            for _ in range(self.random.randrange(9)):
                tries = [text + self.random.choice(self.LETTERS + "BcK3ſKß٣\t") for _ in range(4)]
                text = next((t for t in tries if self.matches(regex, t)), tries[0])
            yield text
