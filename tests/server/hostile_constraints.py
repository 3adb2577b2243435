"""Constraints that try to hold a server up or to fill its memory: a test sends them (test_constraints.py), bench/hostile.py measures them."""


def deep(depth):
    schema = {"type": "null"}
    for _ in range(depth):
        schema = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
    return schema


def nested_one_of(depth):
    schema = {"type": "integer"}
    for _ in range(depth):
        schema = {"oneOf": [{"type": "object", "properties": {"a": schema, f"b{i}": {}}} for i in range(6)]}
    return schema


def ring(count):
    rules = "\n".join(f'r{i} ::= "a"? r{(i + 1) % count}? "b"' for i in range(count))
    return "root ::= " + " ".join(f"r{i}" for i in range(count)) + "\n" + rules


def large(size):
    """A schema of about so many bytes that is no list of the same."""
    properties = {f"member{i}": {"type": ["string", "null"], "description": f"the member with number {i} " + "x" * 60, "maxLength": i + 1}
                  for i in range(size // 160)}
    return {"type": "object", "properties": properties}


SCHEMAS = [{"$ref": "#"},
           {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
           {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]},
                                           "b": {"type": "array", "items": {"$ref": "#/$defs/a"}, "minItems": 1}}},
           deep(300), '{"items":' * 5000 + "{}" + "}" * 5000, nested_one_of(6),
           {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(20000)}},
           {"enum": ["x" * 100 + str(i) for i in range(30000)]},
           {"type": "string", "pattern": "^(([a-z]+)+)+$", "maxLength": 100000000},
           {"type": "array", "items": {"type": "array"}, "minItems": 1000000},
           {"type": "array", "allOf": [{"contains": {"type": "object", "required": [f"n{i}"]}} for i in range(20)]},
           {"type": "object", "patternProperties": {f"^{c}.*{c}.*{c}$": {"maxLength": i} for i, c in enumerate("abcdefghijklmnop")}},
           large(10_000_000)]
REGEXES = ["(a*)*b", "a{1,100000000}", "((a{1,1000}){1,1000}){1,1000}", "(" * 50000 + "a" + ")" * 50000, "[ab]*a[ab]{200}",
           "(.*a.*b.*c.*d){30}", "(x+x+)+y", ".{0,5000}.{0,5000}a.{5000}"]
RULES = [ring(5000), 'root ::= root root | root root root | "a"', "root ::= " + "(" * 60000, 'root ::= (("a"* )*)*']

CONSTRAINTS = [*({"regex": regex} for regex in REGEXES), *({"json_schema": schema} for schema in SCHEMAS),
               *({"ebnf": rules} for rules in RULES), {"choices": ["x" * 1000 + str(i) for i in range(3000)]}]
