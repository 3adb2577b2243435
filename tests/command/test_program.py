"""`espalier program`: a graph from a file or stdin, run in process and on servers; what is printed and how it ends."""
import json
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

from program import MODEL, espalier  # first: it puts the server's folder into the path
from graphs import argument, fork, gen, graph, join, text
from harness import Server

GREEDY = ("--temperature", "0", "--max-tokens", "8")
ONE = graph(text("The quick"), gen("a"), text(" and then"), gen("b"))
BRANCHES = graph(text("One "), argument("word"), fork(1, 2), text(" l", 1), gen("side", 1), text(" r", 2), gen("side", 2), join(1, 2),
                 gen("end"), parameters=["word"], streams=3)
FAILING = graph(text("x"), gen("a", json_schema='{"type": "nonsense"}'))


HERE = ("--model", MODEL, "--threads", "1", "--activations", "f32")  # as the harness's server has them


def run(program, *flags, model=True):
    return espalier("program", "-", *(HERE if model else ()), *GREEDY, *flags, text=json.dumps(program))


class InProcess(unittest.TestCase):
    def answer(self, program, *flags):
        ended = run(program, "--json", *flags)
        self.assertEqual(ended.code, 0, ended)
        return json.loads(ended.out)

    def test_variables_are_printed_by_name(self):
        values = self.answer(ONE)["results"][0]["variables"]
        ended = run(ONE)
        self.assertEqual(ended.code, 0, ended)
        self.assertEqual(ended.out, "".join(f"{name}:{chr(10) if chr(10) in value else ' '}{value}\n" for name, value in values.items()))

    def test_a_file_and_stdin_are_the_same(self):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "program.json"
            file.write_text(json.dumps(ONE))
            ended = espalier("program", file, *HERE, *GREEDY)
        self.assertEqual((ended.code, ended.out), (0, run(ONE).out))

    def test_arguments_come_from_the_command_line_a_file_and_a_batch(self):
        words = ({"word": "two"}, {"word": "three"})
        alone = [self.answer(BRANCHES, "--args", json.dumps(one))["results"][0]["variables"] for one in words]
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "one.json").write_text(json.dumps(words[0]))
            (Path(folder) / "all.jsonl").write_text("".join(json.dumps(one) + "\n" for one in words))
            self.assertEqual(self.answer(BRANCHES, "--args", f"@{folder}/one.json")["results"][0]["variables"], alone[0])
            batch = self.answer(BRANCHES, "--batch", f"{folder}/all.jsonl")["results"]
            readable = run(BRANCHES, "--batch", f"{folder}/all.jsonl")
        self.assertEqual([one["variables"] for one in batch], alone)
        self.assertIn("--- run 1\n", readable.out)
        self.assertIn("side[1]:", readable.out)

    def test_only_wanted_outputs_are_printed(self):
        self.assertEqual(list(self.answer(ONE, "--outputs", "a")["results"][0]["variables"]), ["a"])

    def test_passes_are_switched_and_reported(self):
        report = {p["pass"]: p["on"] for p in self.answer(ONE, "--no-pass", "drop_dead", "--pass", "move_pieces")["report"]}
        self.assertEqual((report["drop_dead"], report["move_pieces"]), (False, True))
        self.assertIn("drop_dead: off\n", run(ONE, "--no-pass", "drop_dead", "--report").err)

    def test_a_stream_tells_what_comes(self):
        value = self.answer(ONE)["results"][0]["variables"]["a"]
        self.assertIn(f"[run 0, a] {value}\n[run 0, b] ", run(ONE, "--stream").out)
        events = [json.loads(line) for line in run(ONE, "--stream", "--json").out.split("\n") if line]
        self.assertEqual((events[0]["type"], events[-1]["type"]), ("program", "end"))
        self.assertEqual("".join(e["delta"] for e in events if e["type"] == "node" and e["name"] == "a"), value)

    def test_a_graph_is_drawn_without_a_model(self):
        drawn = run(BRANCHES, "--draw", "text", model=False)
        self.assertEqual(drawn.code, 0, drawn)
        self.assertIn("gen side", drawn.out)
        self.assertTrue(run(BRANCHES, "--draw", "dot", model=False).out.startswith("digraph"))
        self.assertIn("<svg", run(BRANCHES, "--draw", "svg", model=False).out)

    def test_a_variable_that_fails_is_told_and_the_code_is_1(self):
        for flags in ((), ("--stream",), ("--json",)):
            ended = run(FAILING, *flags)
            self.assertEqual(ended.code, 1, ended)
        self.assertIn("espalier: JSON schema: type", run(FAILING).err)

    def test_what_cannot_be_run_is_refused_with_2(self):
        for program, flags, sentence in ((3, (), "a program is an object"), (graph(gen("a", bogus=1)), (), "bogus is not known"),
                                         (BRANCHES, (), "arguments.word is missing"), (ONE, ("--args", "{"), "--args: "),
                                         (ONE, ("--no-pass", "magic"), "no pass magic"), (ONE, ("--outputs", "z"), "outputs[0]"),
                                         (ONE, ("--draw", "oil"), "--draw")):
            ended = run(program, *flags)
            self.assertEqual(ended.code, 2, ended)
            self.assertIn(sentence, ended.err)
        self.assertEqual(espalier("program", "/nowhere.json", "--model", MODEL).code, 3)


class OnServers(unittest.TestCase):
    def test_an_espalier_server_gets_one_request(self):
        here = json.loads(run(BRANCHES, "--json", "--args", '{"word": "two"}').out)["results"]
        with Server() as server:
            there = run(BRANCHES, "--json", "--args", '{"word": "two"}', "--base-url", f"http://127.0.0.1:{server.port}/v1", model=False)
            self.assertEqual(there.code, 0, there)
            self.assertEqual([one["variables"] for one in json.loads(there.out)["results"]], [one["variables"] for one in here])
            streamed = run(ONE, "--stream", "--base-url", f"http://127.0.0.1:{server.port}", model=False)
            self.assertIn("[run 0, b] ", streamed.out)
            log = server.text()
            self.assertEqual(log.count(" /v1/programs 200 "), 2)
            self.assertNotIn(" /generate ", log)

    def test_a_server_without_the_route_is_called_call_by_call(self):
        class WithoutPrograms(BaseHTTPRequestHandler):
            """Passes everything on but /v1/programs."""
            paths = []

            def answer(self):
                self.paths.append(self.path)
                body = self.rfile.read(int(self.headers.get("content-length", 0))) or None
                if self.path == "/v1/programs":
                    status, data = 404, b'{"detail": "Not Found"}'
                else:
                    reply = server.request(self.command, self.path, body, {"Content-Type": "application/json"})
                    status, data = reply.status, reply.body
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(data)

            do_GET = do_POST = answer

            def log_message(self, *_):
                pass

        with Server() as server, HTTPServer(("127.0.0.1", 0), WithoutPrograms) as proxy:
            thread = threading.Thread(target=proxy.serve_forever)
            thread.start()
            try:
                url = f"http://127.0.0.1:{proxy.server_port}"
                there = run(ONE, "--json", "--base-url", url, model=False)
                streamed = run(ONE, "--stream", "--base-url", url, model=False)
            finally:
                proxy.shutdown()
                thread.join()
        self.assertEqual(there.code, 0, there)
        self.assertEqual(json.loads(there.out)["results"][0]["variables"], json.loads(run(ONE, "--json").out)["results"][0]["variables"])
        self.assertIn("/generate", WithoutPrograms.paths)
        self.assertEqual(streamed.code, 2, streamed)
        self.assertIn("leave --stream out", streamed.err)

    def test_nobody_there_is_a_failure_of_the_network(self):
        ended = run(ONE, "--base-url", "http://127.0.0.1:9", model=False)
        self.assertEqual(ended.code, 6, ended)

    def test_a_server_that_wants_a_key_says_so(self):
        with Server("--api-key", "sesame") as server:
            url = f"http://127.0.0.1:{server.port}"
            self.assertNotEqual(run(ONE, "--base-url", url, model=False).code, 0)
            self.assertEqual(run(ONE, "--base-url", url, "--api-key", "sesame", model=False).code, 0)


if __name__ == "__main__":
    unittest.main()
