"""/openapi.json and its page: valid, of every route that the server answers, with every field that its bodies may have."""
import html.parser
import json
import re
import unittest

from harness import SOURCE, Server

try:
    import openapi_spec_validator
except ImportError:
    openapi_spec_validator = None

PROMPT = {"prompt": "a", "max_tokens": 1}
TURN = {"messages": [{"role": "user", "content": "a"}]}
# What a wrong value of a field's type is: the refusal names the field.
WRONG = {"string": 5, "integer": "five", "number": "five", "boolean": "yes", "array": 5, "object": 5}
# Bodies that are read one field after the other, as far as a model without a template and a server without a data folder read them.
PLAIN = ("/detokenize", "/abort_request", "/open_session", "/parse_function_call", "/separate_reasoning", "/api/pull", "/v1/cache/unpin",
         "/v1/batches", "/load_lora_adapter", "/v1/grammar/graph", "/close_session", "/unload_lora_adapter")


GOOD = {"/v1/grammar/graph": {"regex": "a"}, "/parse_function_call": {"text": "a", "tool_call_parser": "hermes"}}


def documented_paths():
    """Every `GET /path` and `POST /path` of the documentation, shortened ones left out."""
    for page in ("http.md", "embeddings.md", "lora.md", "several-models.md", "operations.md"):
        for methods, path in re.findall(r"`((?:GET|POST|PUT|DELETE)) (/[\w/{}.-]*)", (SOURCE / "docs" / page).read_text()):
            yield methods.lower(), path


class Fields:
    """A server with its document, and what holds for the fields of its routes whatever it serves."""
    FLAGS = ()
    WORKING = {}  # a body of each route that is answered, and keeps whoever reads its fields busy for as little as possible

    @classmethod
    def setUpClass(cls):
        cls.server = Server("--strict", "--admin-api-key", "k", "--api-prefix", "/x", "--lora-dir", "/tmp", *cls.FLAGS)
        cls.addClassCleanup(cls.server.kill)
        cls.key = {"Authorization": "Bearer k"}
        cls.document = cls.server.get("/x/openapi.json", headers=cls.key).json

    def properties(self, path, method="post"):
        content = self.document["paths"]["/x" + path][method]["requestBody"]["content"]
        (media,) = content.values()
        return self.document["components"]["schemas"][media["schema"]["$ref"].rsplit("/", 1)[1]]["properties"]

    def post(self, path, body):
        return self.server.post("/x" + path, body, headers=self.key)

    def test_every_field_that_is_told_is_known(self):
        for path, body in self.WORKING.items():
            self.assertEqual(self.post(path, body).status, 200, path)
            for name in self.properties(path):
                if name in body or path == "/v1/chat/completions" and name == "input_ids":
                    continue
                reply = self.post(path, body | {name: None})
                self.assertEqual(reply.status, 200, f"{path} {name}: {reply.body}")

    def test_every_field_that_is_known_is_told(self):
        """Under --strict an unknown field is refused by name; what is not refused so has to stand in the document."""
        pages = "".join((SOURCE / "docs" / page).read_text() for page in ("http.md", "lora.md", "embeddings.md"))
        names = set(re.findall(r"`([a-z][a-z0-9_]+)`", pages))
        names |= {name for schema in self.document["components"]["schemas"].values() for name in schema.get("properties", ())}
        self.assertGreater(len(names), 300)
        for path, body in self.WORKING.items():
            told = set(self.properties(path))
            for name in sorted(names - told - set(body)):
                reply = self.post(path, body | {name: None})
                if reply.status == 400 and "has no field" in reply.body.decode():
                    continue
                refused = self.post(path, body | {name: 7})  # a field that is there only to be refused need not stand there
                self.assertEqual(refused.status, 400, f"{path} takes {name}, which is not told")


class OfVectors(Fields, unittest.TestCase):
    FLAGS = ("--is-embedding",)
    WORKING = {
        "/v1/embeddings": {"input": "a"},
        "/pooling": {"input": "a"},
        "/encode": {"text": "a"},
        "/embedding": {"content": "a"},
        "/embed": {"inputs": "a"},
        "/v2/embed": {"texts": ["a"]},
    }


class Document(Fields, unittest.TestCase):
    WORKING = {
        "/v1/completions": PROMPT,
        "/v1/chat/completions": TURN | {"max_tokens": 1},
        "/generate": {"text": "a", "sampling_params": {"max_new_tokens": 1}},
        "/v1/responses": {"input": "a", "max_output_tokens": 1, "store": False},
        "/v1/messages": TURN | {"max_tokens": 1},
        "/completion": {"prompt": "a", "n_predict": 1},
        "/api/chat": TURN | {"options": {"num_predict": 1}},
        "/api/generate": {"prompt": "a", "options": {"num_predict": 1}},
    }

    @unittest.skipUnless(openapi_spec_validator, "openapi-spec-validator is not installed")
    def test_a_validator_finds_nothing_wrong(self):
        openapi_spec_validator.validate(self.document)

    def test_every_operation_has_an_id_of_its_own(self):
        ids = [op["operationId"] for ops in self.document["paths"].values() for op in ops.values()]
        self.assertEqual(len(ids), len(set(ids)))

    def test_every_route_is_answered_and_every_documented_one_is_there(self):
        def taken_by_an_id(path, method):
            """The last part of a route that is an id may have slashes in it, as names of models have."""
            return any(known.endswith("}") and method in ops and re.match(re.sub(r"\\{\w+\\}", ".+", re.escape(known)), path)
                       for known, ops in self.document["paths"].items())

        for path, operations in self.document["paths"].items():
            asked = re.sub(r"\{\w+\}", "none", path)
            for method in ("get", "post", "put", "delete"):
                reply = self.server.request(method.upper(), asked, body=b"{" if method in ("post", "put") else None, headers=self.key)
                if method in operations:
                    self.assertNotIn(reply.status, (405, 501), f"{method} {path}")
                    if reply.status == 404:
                        self.assertNotEqual(reply.json.get("error", {}).get("code") if reply.json.get("error") else None, "route_not_found", path)
                elif not taken_by_an_id(path, method):
                    self.assertEqual(reply.status, 405, f"{method} {path}")
        named = list(documented_paths())
        self.assertGreater(len(named), 40)
        for method, path in named:
            found = [ops for known, ops in self.document["paths"].items()
                     if re.fullmatch(re.sub(r"\\\{\w+\\\}", r"[^/]+", re.escape(known)), "/x" + path)]
            self.assertTrue(any(method in ops for ops in found), f"{method} {path}")

    def test_every_operation_with_a_body_says_what_may_stand_in_it(self):
        without = {path for path, ops in self.document["paths"].items() for method in ("post", "put")
                   if method in ops and "requestBody" not in ops[method]}
        # These have no body, or refuse all of them.
        self.assertEqual({path.removeprefix("/x") for path in without},
                         {"/flush_cache", "/v1/responses/{id}/cancel", "/v1/batches/{id}/cancel", "/props", "/slots/{id}", "/lora-adapters",
                          "/api/create", "/api/copy", "/api/push", "/api/blobs/{digest}"})

    def test_fields_that_are_read_one_by_one_refuse_a_wrong_type_by_name(self):
        for path in PLAIN:
            schema = self.properties(path)
            self.assertTrue(schema, path)
            for name, field in schema.items():
                kind = field.get("type")
                kind = kind[0] if isinstance(kind, list) else kind
                if kind not in WRONG or name in ("regex", "ebnf", "json_schema", "model"):
                    continue
                good = {other: {"string": "a", "array": [], "object": {}, "integer": 1}[type_of(about)]
                        for other, about in schema.items() if other != name and not isinstance(about.get("type", []), list)}
                good = GOOD.get(path, good)
                reply = self.post(path, good | {name: WRONG[kind]})
                self.assertEqual(reply.status, 400, f"{path} {name}: {reply.body}")
                self.assertIn(name, reply.body.decode(), path)

    def test_the_page_browses_the_document_and_nothing_else(self):
        reply = self.server.get("/x/docs", headers=self.key)
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "text/html; charset=utf-8"))
        self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
        page = Page()
        page.feed(reply.body.decode())
        self.assertEqual(page.addresses, {"openapi.json", "data:,"})
        self.assertEqual(page.unnamed, [])

    def test_it_asks_for_the_key_like_any_route(self):
        with Server("--api-key", "k") as server:
            self.assertEqual(server.get("/openapi.json").status, 401)
            self.assertEqual(server.get("/openapi.json", headers=self.key).status, 200)
            document = server.get("/openapi.json", headers=self.key).json
            self.assertEqual(document["paths"]["/livez"]["get"]["security"], [])
            self.assertNotEqual(document["paths"]["/generate"]["post"]["security"], [])


def type_of(field):
    return field["type"]


class Page(html.parser.HTMLParser):
    """What a page refers to, and inputs that have no name for those who do not see it."""

    def __init__(self):
        super().__init__()
        self.addresses, self.unnamed = set(), []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.addresses |= {given[name] for name in ("src", "href") if name in given}
        if tag == "input" and "aria-label" not in given:
            self.unnamed.append(given)


if __name__ == "__main__":
    unittest.main()
