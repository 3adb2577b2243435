"""The constraint engine against other implementations: random schemas and instances against jsonschema, random regexes against
Python's `re`, and random walks through the masks, whose texts must be valid.

What the engine accepts must be valid, also when a name comes twice (the last member counts). What is valid and in written form (numbers without exponent, no fraction that is zero,
members in the order that the schema declares or, for schemas that describe documents, in any) must be accepted.
ESPALIER_OPERATIONS: the number of cases (100,000 with ESPALIER_LONG_TESTS); ESPALIER_SEED repeats a run.
"""
import collections
import itertools
import json
import os
import random
import re
import signal
import unittest
from decimal import Context, Decimal, InvalidOperation, setcontext

try:
    import jsonschema
except ImportError:
    jsonschema = None

from engine import SEED, SLOWER, EngineCase
from random_schemas import Regexes, Schemas, for_python, in_any_order

OPERATIONS = int(os.environ.get("ESPALIER_OPERATIONS") or (100_000 if "ESPALIER_LONG_TESTS" in os.environ else 4_000)) // SLOWER
SHOWN = 5            # failures, each made smaller
MOST_ORDERS = 60     # in which the members of an instance are written before it counts as refused
setcontext(Context(prec=400))


def dumped(value, compact=False):
    """JSON as the engine writes it: no superfluous escapes, numbers as they are."""
    if isinstance(value, Decimal):
        return format(value, "f")
    comma, colon = (",", ":") if compact else (", ", ": ")
    if isinstance(value, list):
        return "[" + comma.join(dumped(part, compact) for part in value) + "]"
    if isinstance(value, dict):
        return "{" + comma.join(dumped(name) + colon + dumped(part, compact) for name, part in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def respelled(value, random):
    """JSON for the same value in another way: exponents, zeros, escapes, whitespace."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, (int, Decimal)):
        text, shift = dumped(value), random.randint(-2, 2)
        zeros = "0" * random.randint(1, 2)
        return random.choice((text, text + ("" if "." in text else ".") + zeros, f"{format(value * Decimal(10) ** shift, 'f')}{random.choice('eE')}{-shift}",
                              text if text != "0" else "-0", f"{text}e+0{zeros}"))
    if isinstance(value, str):
        return '"' + "".join(random.choice((dumped(c), json.dumps(c), f'"\\u{ord(c):04X}"' if c < "\uffff" else dumped(c)))[1:-1] for c in value) + '"'
    space = [random.choice(("", "", " ", "\n", "\t")) for _ in range(3)]
    comma = space[0] + "," + space[1]
    if isinstance(value, list):
        return f"[{space[2]}{comma.join(respelled(part, random) for part in value)}{space[0]}]"
    return f"{{{space[2]}" + comma.join(f"{respelled(name, random)}{space[1]}:{respelled(part, random)}" for name, part in value.items()) + "}"


def with_repetition(value, schemas):
    """JSON for the same value in which one object has a member that a later one of its name replaces; None without objects."""
    objects = [part for part in parts_of(value) if isinstance(part, dict) and part]
    if not objects:
        return None
    chosen = schemas.pick(objects)
    replaced = schemas.pick(list(chosen))

    def written(part):
        if isinstance(part, list):
            return "[" + ", ".join(map(written, part)) + "]"
        if not isinstance(part, dict):
            return dumped(part)
        members = [f"{dumped(name)}: {written(member)}" for name, member in part.items()]
        if part is chosen:
            members.insert(schemas.random.randint(0, list(part).index(replaced)), f"{dumped(replaced)}: {dumped(schemas.value(1))}")
        return "{" + ", ".join(members) + "}"
    return written(value)


def parts_of(value):
    yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from parts_of(part)


def numbers_in(value):
    if isinstance(value, (list, dict)):
        for part in value.values() if isinstance(value, dict) else value:
            yield from numbers_in(part)
    elif isinstance(value, Decimal):
        yield value


def has_plain_numbers(value):
    """No fraction that is zero, or ends with one."""
    return all(number != number.to_integral_value() and number == number.normalize() and str(number)[-1] != "0" for number in numbers_in(value))


def orders(value):
    """The value with the members of its objects in every order."""
    if isinstance(value, list):
        for parts in itertools.product(*(list(itertools.islice(orders(part), MOST_ORDERS)) for part in value)):
            yield list(parts)
    elif isinstance(value, dict):
        for names in itertools.permutations(value):
            for parts in itertools.product(*(list(itertools.islice(orders(value[name]), MOST_ORDERS)) for name in names)):
                yield dict(zip(names, parts))
    else:
        yield value


def oracle(schema):
    checker = jsonschema.Draft202012Validator.TYPE_CHECKER.redefine(
        "integer", lambda _, value: not isinstance(value, bool) and (
        isinstance(value, int) or isinstance(value, Decimal) and value == value.to_integral_value()))
    kind = jsonschema.validators.extend(jsonschema.Draft202012Validator, type_checker=checker)
    return kind(for_python(schema))


def matches_in_python(pattern, text, seconds=1):
    """None when Python's `re`, which tries one way after the other, has not found out in so many seconds of processor time."""
    def give_up(*_):
        raise TimeoutError
    before = signal.signal(signal.SIGVTALRM, give_up)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return re.fullmatch(pattern, text) is not None
    except TimeoutError:
        return None
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def read(text):
    """Of members of one name the last one."""
    return json.loads(text, parse_float=Decimal)


def smaller(schema):
    """Schemas with one thing less."""
    if isinstance(schema, dict):
        for key in schema:
            yield {k: v for k, v in schema.items() if k != key}
        for key, value in schema.items():
            for less in smaller(value):
                yield {**schema, key: less}
    elif isinstance(schema, list):
        for i in range(len(schema)):
            yield schema[:i] + schema[i + 1:]
            for less in smaller(schema[i]):
                yield schema[:i] + [less] + schema[i + 1:]


class Differential(EngineCase):
    def setUp(self):
        self.counts, self.failures = collections.Counter(), []
        self.random.seed(SEED)
        self.schemas = Schemas(self.random)

    def tearDown(self):
        print(f"{self.id().rpartition('.')[2]}: {dict(self.counts)}", flush=True)

    def compiled(self, schema):
        """The grammar's number, or why there is none."""
        reply, = self.engine.ask_all([f'{{"op":"compile","kind":"json_schema","spec":{dumped(schema)}}}'])
        return (reply["id"], None) if reply["ok"] else (None, reply["error"])

    def answer(self, grammar, text):
        reply = self.engine.ask(op="match", id=grammar, text=text)
        return reply["complete"] if reply["ok"] else reply["error"]

    def judge(self, schema, grammar, why_not, value, compact):
        """What is wrong with the engine's answer on this value: nothing, or a sentence and the text."""
        valid = oracle(schema).is_valid(value)
        if why_not:
            return (f"valid, but the schema is refused: {why_not}", dumped(value)) if valid and "no value satisfies" in why_not else None
        text = dumped(value, compact)
        got = self.answer(grammar, text)
        if isinstance(got, str):
            return f"no answer: {got}", text
        self.counts["valid" if valid else "invalid"] += 1
        if got and not valid:
            return "accepted, but not valid", text
        if not valid and not compact and (twice := with_repetition(value, self.schemas)):
            self.counts["invalid, a name twice"] += 1
            if self.answer(grammar, twice) is True:
                return "accepted with a name twice, but not valid", twice
        if not valid:
            for _ in range(2):
                other = respelled(value, self.random)
                if self.answer(grammar, other) is True:
                    return "accepted in another spelling, but not valid", other
        if got == valid:
            return None
        if not has_plain_numbers(value):
            self.counts["valid, numbers otherwise"] += 1
            return None
        if not in_any_order(schema):
            tried = list(itertools.islice(orders(value), MOST_ORDERS + 1))
            if len(tried) > MOST_ORDERS:
                self.counts["valid, orders not tried"] += 1
                return None
            if any(self.answer(grammar, dumped(other, compact)) is True for other in tried):
                self.counts["valid, in another order"] += 1
                return None
        return "valid, but refused", text

    def fails_alike(self, schema, value, compact, sentence):
        try:
            grammar, why_not = self.compiled(schema)
            found = self.judge(schema, grammar, why_not, value, compact)
        except Exception:  # not a schema any more
            return False
        if grammar:
            self.engine.free(grammar)
        return found is not None and found[0].split(":")[0] == sentence.split(":")[0]

    def report(self, schema, value, compact, sentence):
        counts, tries = collections.Counter(self.counts), 0
        shrinking = True
        while shrinking and tries < 2000:
            shrinking = False
            for less, fewer in itertools.chain(((s, value) for s in smaller(schema)), ((schema, v) for v in smaller(value))):
                tries += 1
                if self.fails_alike(less, fewer, compact, sentence):
                    schema, value, shrinking = less, fewer, True
                    break
        self.counts = counts
        self.failures.append(f"{sentence}\n    {dumped(schema)}\n    {dumped(value, compact)}")
        print(self.failures[-1], flush=True)

    def finish(self):
        if self.failures:
            self.fail(f"ESPALIER_SEED={SEED}: {len(self.failures)} failures:\n" + "\n".join(self.failures))

    @unittest.skipUnless(jsonschema, "left out: jsonschema is not installed")
    def test_schemas_are_understood_as_jsonschema_does(self):
        cases = 0
        while cases < OPERATIONS and len(self.failures) < SHOWN:
            schema, compact = self.schemas.root(), self.random.random() < 0.5
            self.engine.ask(op="options", ws="compact" if compact else "flex")
            grammar, why_not = self.compiled(schema)
            self.counts["schemas"] += 1
            if why_not:
                self.counts["refused: " + re.sub(r" at #.*|\d.*", "", why_not)[:50]] += 1
            for _ in range(12):
                value = self.schemas.instance(schema, schema)
                for _ in range(self.random.choice((0, 0, 1, 2))):
                    value = self.schemas.changed(value)
                cases += 1
                if found := self.judge(schema, grammar, why_not, value, compact):
                    self.report(schema, value, compact, found[0])
                    break
            if grammar:
                self.engine.free(grammar)
        self.engine.ask(op="options", ws="flex")
        self.finish()

    def test_regexes_mean_what_they_mean_to_python(self):
        regexes, cases = Regexes(self.random), 0
        while cases < OPERATIONS and len(self.failures) < SHOWN:
            regex = regexes.regex(4)
            reply = self.engine.compile("regex", regex.text)
            self.counts["regexes"] += 1
            if not reply["ok"]:
                self.counts["refused"] += 1
                matching = [text for text in regexes.texts(regex, 12) if regexes.matches(regex, text)]
                if matching or "no text at all" not in reply["error"]:
                    self.failures.append(f"{regex.text!r} (which matches {matching}) is refused: {reply['error']}")
                continue
            for text in regexes.texts(regex, 12):
                cases += 1
                got, expected = self.answer(reply["id"], text), matches_in_python(regex.text, text)
                if expected is None:
                    self.counts["too long for Python's re"] += 1
                    expected = regexes.matches(regex, text)
                self.counts["matches" if expected else "no match"] += 1
                if got != expected:
                    if got == regexes.matches(regex, text):
                        self.counts["Python's re by itself"] += 1  # loops over what may be empty
                    else:
                        self.failures.append(f"{regex.text!r} on {text!r}: {got}, but to Python {expected}")
                        break
            self.engine.free(reply["id"])
        self.finish()

    def goes_alone(self, schema, tokens):
        grammar, _ = self.compiled(schema)
        reply = self.engine.ask(op="walk", id=grammar, tokens=tokens)
        self.engine.free(grammar)
        return reply["ok"] and 0 not in reply["allowed"]

    def follow(self, schema, grammar, steps=90):
        """A random text that the masks allow, or None when it grew too long."""
        tokens, ordinary = [], [i for i, piece in enumerate(self.vocabulary) if piece is not None]
        closing = [i for i in ordinary if self.vocabulary[i][-1:] in b'"}]' and self.vocabulary[i][:1] in b'"}]']
        for step in range(steps):
            self.random.shuffle(ordinary)
            tries = [[token] for token in ordinary]
            if self.random.random() < (0.3 if step < 25 else 0.9):
                tries = [[token] for token in self.random.sample(closing, len(closing))] + tries
            tries.insert(0 if self.random.random() < (0.3 if step < 12 else 1) else len(tries), [self.eos])
            chosen = None
            for start in range(0, len(tries), 16):
                replies = self.engine.ask_all([{"op": "walk", "id": grammar, "tokens": tokens + more} for more in tries[start:start + 16]])
                for more, reply in zip(tries[start:], replies):
                    if not reply["ok"]:
                        # Of all that was tried on the way the grammar remembers some: a new one must do without.
                        if self.goes_alone(schema, tokens):
                            self.counts["limit met by trying"] += 1
                            return None, None
                        return reply["error"], b"".join(self.vocabulary[i] or b"" for i in tokens + more)
                    if 0 not in reply["allowed"]:
                        chosen = more
                        break
                if chosen:
                    break
            if chosen is None:
                return "no token may come", b"".join(self.vocabulary[i] for i in tokens)
            if chosen == [self.eos]:
                return None, b"".join(self.vocabulary[i] for i in tokens)
            tokens += chosen
        self.counts["too long"] += 1
        return None, None

    @unittest.skipUnless(jsonschema, "left out: jsonschema is not installed")
    def test_texts_that_the_masks_lead_to_are_valid(self):
        texts = 0
        while texts < OPERATIONS // 40 and len(self.failures) < SHOWN:
            schema = self.schemas.root()
            grammar, why_not = self.compiled(schema)
            if why_not:
                continue
            for _ in range(2):
                texts += 1
                wrong, data = self.follow(schema, grammar)
                if data is None and not wrong:
                    continue
                if not wrong:
                    try:
                        value = read(data.decode())
                        wrong = None if oracle(schema).is_valid(value) else "is not valid"
                        self.counts["texts"] += 1
                    except InvalidOperation:  # an exponent of twenty digits: JSON, but the oracle cannot hold it
                        self.counts["texts with a number beyond decimals"] += 1
                    except ValueError as error:
                        wrong = f"is no JSON: {error}"
                if wrong:
                    self.failures.append(f"{dumped(schema)}\n    {data!r} {wrong}")
                    print(self.failures[-1], flush=True)
                    break
            self.engine.free(grammar)
        self.finish()


if __name__ == "__main__":
    unittest.main()
