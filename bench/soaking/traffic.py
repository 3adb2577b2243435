"""What a soaked server is asked: every dialect, ever new constraints, pictures, programs, tools, models and adapters that come and go,
and clients that misbehave. One Client is one thread's; which request comes next is drawn by weight, with the thread's own seed.

Every answer has statuses that may come. Any other, a broken connection, or an event that is an error is a wrong answer.
"""
import base64
import collections
import contextlib
import http.client
import json
import random
import socket
import time

from film_folders import png
from graphs import argument, fork, gen, graph, join, select, text
from random_schemas import Regexes, Schemas
from test_batches import form
from test_tools import TOOLS

ADMIN = {"Authorization": "Bearer boss"}
BUSY = {408, 429, 503}   # may come whenever there is much to do
NO_FORM = {400, 422}     # a constraint that is malformed, or that cannot be enforced
TEXT_MODELS = ("chat", "qwen", "mamba", "gemma", "seeing")
MODELS = (*TEXT_MODELS, "embed")
FASHION_SECONDS = 20
ADAPTERS = ("first", "second", "third")
ONE_PICTURE = [1, 81, 51, 202, 101, 8, 6, 9, 224, 250, 274, 31, 286, 73]  # mm-gemma3: 8, 6, 9 are a picture
WORDS = "the quick brown fox jumps over a lazy dog while seven wizards box with my liquor jug under pale blue moons".split()


class Wrong(Exception):
    pass


class Client:
    def __init__(self, port, seen, seed, timeout=120):
        self.port, self.seen, self.timeout = port, seen, timeout
        self.random = random.Random(seed)
        self.schemas, self.regexes = Schemas(self.random), Regexes(self.random)
        self.connection = None

    # --- what is drawn ---

    def pick(self, weights):
        return self.random.choices(list(weights), list(weights.values()))[0]

    def model(self):
        """One of two: the first, and one that is in fashion for a while, with all clients."""
        return self.random.choice((TEXT_MODELS[0], TEXT_MODELS[int(time.monotonic() / FASHION_SECONDS) % len(TEXT_MODELS)]))

    def words(self, least=2, most=30):
        return " ".join(self.random.choices(WORDS, k=self.random.randint(least, most)))

    def messages(self):
        said = [{"role": "user", "content": self.words()}]
        if self.random.random() < 0.3:
            said += [{"role": "assistant", "content": self.words()}, {"role": "user", "content": self.words()}]
        return said

    def schema(self):
        """As text: Decimals are not for json.dumps."""
        return json.dumps(self.schemas.root(), default=float)

    def simple_schema(self):
        names = self.random.sample("abcdefghijklmnopqrstuvwxyz", self.random.randint(1, 4))
        kinds = ({"type": "integer"}, {"type": "boolean"}, {"enum": [self.random.choice(WORDS), self.random.randrange(1000)]},
                 {"type": "string", "maxLength": self.random.randint(1, 9)})
        return {"type": "object", "properties": {name: self.random.choice(kinds) for name in names}, "required": names}

    def constraint(self):
        kind = self.random.randrange(5)
        if kind == 0:
            return {"regex": self.regexes.regex(4).text}
        if kind == 1:
            return {"ebnf": 'root ::= ("%s" | "%s")+ [a-%s]{%d}' % (self.random.choice(WORDS), self.random.choice(WORDS),
                                                                   self.random.choice("bcdefg"), self.random.randrange(30))}
        if kind == 2:
            return {"choices": [self.words(1, 3) for _ in range(self.random.randint(2, 6))]}
        return {"json_schema": self.schema() if kind == 3 else json.dumps(self.simple_schema())}

    def sampling(self):
        return {"temperature": self.random.choice((0, 0.7, 1)), "seed": self.random.randrange(1 << 30),
                "max_tokens": self.random.randint(1, 40)}

    def native_sampling(self, **more):
        return {"temperature": self.random.choice((0, 1)), "max_new_tokens": self.random.randint(1, 40), **more}

    def picture(self):
        side = self.random.choice((16, 24, 40))
        return "data:image/png;base64," + base64.b64encode(png(side, side, self.random.randbytes(side * side * 3))).decode()

    # --- how it is asked ---

    def send(self, method, path, body=None, headers=None):
        """Status and body; the connection is kept for the next request, mostly."""
        if self.connection is None:
            self.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=self.timeout)
        sent = {"Content-Type": "application/json", **(headers or {})} if body is not None else dict(headers or {})
        data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
        try:
            self.connection.request(method, path, body=data, headers=sent)
            response = self.connection.getresponse()
            said = response.read()
        except (OSError, http.client.HTTPException):
            self.hang_up()
            raise
        if response.will_close or self.random.random() < 0.1:
            self.hang_up()
        return response.status, said

    def hang_up(self):
        if self.connection is not None:
            self.connection.close()
        self.connection = None

    def ask(self, path, body=None, may=(), method="POST", headers=None):
        """The answer's JSON, or None when it was refused in a way that may be."""
        status, said = self.send(method, path, body, headers)
        if status in BUSY or status in may:
            raise Refused(status)
        if not 200 <= status < 300:
            raise Wrong(f"{path} answered {status}: {said[:300]!r}")
        if b'data: {"error"' in said:
            raise Wrong(f"{path} streamed an error: {said[-300:]!r}")
        with contextlib.suppress(ValueError):
            return json.loads(said)
        return None

    def one(self):
        """One request, or a few that belong together."""
        kind = self.pick(KINDS)
        began = time.monotonic()
        try:
            outcome = getattr(self, kind)() or "answered"
            self.seen.note(kind, outcome, None if outcome == "cut" else 1000 * (time.monotonic() - began))
        except Refused as refusal:
            self.seen.note(kind, "refused", status=refusal.args[0])
        except Wrong as wrong:
            self.seen.note(kind, "wrong", fault=str(wrong))
        except (OSError, http.client.HTTPException) as broken:
            self.seen.note(kind, "wrong", fault=f"{type(broken).__name__}: {broken}")

    # --- dialects ---

    def chat(self):
        self.ask("/v1/chat/completions", {"model": self.model(), "messages": self.messages(), **self.sampling(),
                                          "stream": self.random.random() < 0.5, "n": self.random.choice((1, 1, 1, 2))})

    def completions(self):
        self.ask("/v1/completions", {"model": self.model(), "prompt": [self.words() for _ in range(self.random.choice((1, 1, 3)))],
                                     **self.sampling(), "stream": self.random.random() < 0.5, "logprobs": self.random.choice((None, 2))})

    def responses(self):
        """Two turns that are kept, then removed; or one that is not kept."""
        body = {"model": self.model(), "input": self.words(), "max_output_tokens": 12, "store": False}
        if self.random.random() < 0.5:
            self.ask("/v1/responses", {**body, "stream": True})
            return
        first = self.ask("/v1/responses", {**body, "store": True})
        try:
            self.ask("/v1/responses", {**body, "store": False, "previous_response_id": first["id"]})
        finally:
            self.ask("/v1/responses/" + first["id"], method="DELETE")

    def messages_route(self):
        self.ask("/v1/messages", {"model": self.model(), "max_tokens": 20, "messages": self.messages(), "stream": self.random.random() < 0.5})

    def ollama(self):
        options = {"num_predict": 12, "temperature": 1}
        if self.random.random() < 0.5:
            self.ask("/api/chat", {"model": self.model(), "messages": self.messages(), "options": options})
        else:
            self.ask("/api/generate", {"model": self.model(), "prompt": self.words(), "options": options, "stream": False})

    def llamacpp(self):
        self.ask("/completion", {"model": self.model(), "prompt": self.words(), "n_predict": 16, "stream": self.random.random() < 0.5})

    def generate(self):
        self.ask("/generate", {"model": self.model(), "text": [self.words() for _ in range(self.random.randint(1, 4))],
                               "sampling_params": self.native_sampling(), "return_logprob": self.random.random() < 0.2})

    def embeddings(self):
        path, field = self.random.choice((("/v1/embeddings", "input"), ("/api/embed", "input")))
        self.ask(path, {"model": "embed", field: [self.words(1, 12) for _ in range(self.random.randint(1, 8))]})

    def programs(self):
        program = graph(text(self.words() + " "), argument("word"), fork(1, 2), text(" left", 1), gen("side", 1), text(" right", 2),
                        gen("side", 2), join(1, 2), text(". So"), gen("end"), select("verdict", " yes", " no"), parameters=["word"], streams=3)
        self.ask("/v1/programs", {"model": self.model(), "program": program, "arguments": [{"word": self.words(1, 3)} for _ in range(2)],
                                  "sampling_params": {"max_tokens": 6, "temperature": 0}, "stream": self.random.random() < 0.5})

    # --- constraints, tools, pictures ---

    def constrained(self):
        self.ask("/generate", {"model": self.model(), "text": self.words(), "sampling_params": self.native_sampling(**self.constraint())}, NO_FORM)

    def constrained_chat(self):
        form = {"type": "json_schema", "json_schema": {"name": "form", "schema": self.simple_schema()}}
        self.ask("/v1/chat/completions", {"model": self.model(), "messages": self.messages(), **self.sampling(), "response_format": form}, NO_FORM)

    def drawn_constraint(self):
        """As the page asks for it while somebody types."""
        self.ask("/v1/grammar/graph", self.constraint(), NO_FORM)

    def tools(self):
        tools = json.loads(json.dumps(TOOLS))
        tools[0]["function"]["parameters"]["properties"]["city"]["enum"] = self.random.sample(WORDS, 3)
        self.ask("/v1/chat/completions", {"model": self.model(), "messages": self.messages(), "tools": tools, "max_tokens": 60,
                                          "tool_choice": self.random.choice(("auto", "required")), "stream": self.random.random() < 0.5})

    def pictures(self):
        self.ask("/generate", {"model": "seeing", "input_ids": ONE_PICTURE, "image_data": [self.picture()],
                               "sampling_params": self.native_sampling()})

    # --- state that clients keep in the server ---

    def sessions(self):
        model = self.model()
        session = self.ask("/open_session", {"capacity_of_str_len": 2000, "model": model})
        try:
            turn = {"model": model, "sampling_params": self.native_sampling()}
            first = self.ask("/generate", {**turn, "text": self.words(), "session_params": {"id": session}})
            self.ask("/generate", {**turn, "text": self.words(), "session_params": {"id": session, "rid": first["meta_info"]["id"]}})
        finally:
            self.ask("/close_session", {"session_id": session, "model": model})

    def pins(self):
        self.ask("/v1/cache/pin", {"model": "chat", "text": self.words(), "seconds": 2}, headers=ADMIN)

    def conversations(self):
        made = self.ask("/v1/conversations", {"items": [{"type": "message", "role": "user", "content": self.words()}]})
        self.ask("/v1/conversations/" + made["id"], method="DELETE")

    def batches(self):
        lines = [{"custom_id": str(i), "method": "POST", "url": "/v1/completions",
                  "body": {"model": "chat", "prompt": self.words(), "max_tokens": 4}} for i in range(3)]
        content = "\n".join(map(json.dumps, lines)).encode()
        upload = form([("purpose", "", b"batch"), ("file", "in.jsonl", content)])
        files = [self.ask("/v1/files", upload, headers={"Content-Type": "multipart/form-data; boundary=XyZ"})["id"]]
        batch = self.ask("/v1/batches", {"input_file_id": files[0], "endpoint": "/v1/completions", "completion_window": "24h"})
        end = time.monotonic() + self.timeout
        while batch["status"] not in ("completed", "failed", "expired", "cancelled") and time.monotonic() < end:
            time.sleep(0.2)
            batch = self.ask("/v1/batches/" + batch["id"], method="GET")
        if batch["status"] != "completed" or batch["request_counts"]["failed"]:
            raise Wrong(f"a batch became {batch['status']}: {batch}")
        for file in [*files, batch["output_file_id"]]:
            self.ask("/v1/files/" + file, method="DELETE")

    # --- models and adapters ---

    def adapters(self):
        self.ask("/v1/completions", {"model": "chat", "lora_path": self.random.choice(ADAPTERS), "prompt": self.words(), **self.sampling()})

    def other_model(self):
        """Evenly among all, so that models leave and come."""
        name = self.random.choice(MODELS)
        if name == "embed":
            self.embeddings()
        else:
            self.ask("/v1/completions", {"model": name, "prompt": self.words(), **self.sampling()})

    def unload(self):
        self.ask("/models/unload", {"model": self.random.choice(MODELS)}, {409}, headers=ADMIN)

    # --- looking ---

    def looks(self):
        for path in ("/v1/models", "/get_server_info", "/v1/state", "/v1/cache/tree?model=chat", "/slots", "/api/ps", "/openapi.json", "/"):
            self.ask(path, method="GET", headers=ADMIN)

    # --- clients that misbehave ---

    def raw(self, data):
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=self.timeout)
        raw.sendall(data)
        return raw

    def head(self, path, length):
        return (f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n").encode()

    def cut_stream(self):
        """Leaves in the middle of an answer, after the first bytes or at once."""
        path, body = self.random.choice((
            ("/v1/chat/completions", {"messages": self.messages(), "max_tokens": 400, "stream": True, "ignore_eos": True}),
            ("/generate", {"text": self.words(), "stream": True, "sampling_params": {"max_new_tokens": 400, "ignore_eos": True}}),
            ("/v1/messages", {"messages": self.messages(), "max_tokens": 400, "stream": True}),
            ("/v1/responses", {"input": self.words(), "max_output_tokens": 400, "stream": True, "store": False})))
        data = json.dumps({"model": self.model(), **body}).encode()
        with self.raw(self.head(path, len(data)) + data) as raw:
            if self.random.random() < 0.7:
                raw.recv(1024)
        return "cut"

    def half_sent(self):
        """Never sends all of its request."""
        data = json.dumps({"model": "chat", "prompt": self.words(), "max_tokens": 4}).encode()
        whole = self.head("/v1/completions", len(data)) + data
        with self.raw(whole[:self.random.randrange(1, len(whole))]):
            time.sleep(self.random.choice((0, 0, 0.2)))
        return "cut"

    def nonsense(self):
        """What must be refused with a 4xx."""
        body = self.random.choice((b"{", b"[]", b'{"model": "nobody", "prompt": "a"}', b'{"model": "chat", "prompt": 5}',
                                   b'{"model": "chat", "prompt": "a", "temperature": "hot"}', self.random.randbytes(64)))
        path = self.random.choice(("/v1/completions", "/v1/completions", "/nowhere"))
        if self.ask(path, body, {400, 404, 405}) is not None:
            raise Wrong(f"{path} took {body!r}")


class Refused(Exception):
    pass


# What is asked, and how often beside the others.
KINDS = {"chat": 12, "completions": 10, "responses": 6, "messages_route": 6, "ollama": 6, "llamacpp": 4, "generate": 10, "embeddings": 6,
         "programs": 4, "constrained": 16, "constrained_chat": 6, "drawn_constraint": 3, "tools": 6, "pictures": 4, "sessions": 3, "pins": 1,
         "conversations": 1, "batches": 0.3, "adapters": 6, "other_model": 2, "unload": 0.5, "looks": 1, "cut_stream": 10, "half_sent": 6,
         "nonsense": 6}


def told(seen):
    """A line a kind: how many, and what was refused with which status."""
    refused = collections.defaultdict(list)
    for (kind, status), count in sorted(seen.statuses.items(), key=str):
        if status is not None:
            refused[kind].append(f"{count} × {status}")
    return [f"{kind:18} {count:8}  {', '.join(refused[kind])}" for kind, count in sorted(seen.kinds.items())]
