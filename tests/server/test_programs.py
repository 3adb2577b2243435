"""POST /v1/programs: what a graph comes to beside the engine, streamed and whole, and how it ends when something goes wrong."""
import signal
import time
import unittest

from graphs import argument, fork, gen, graph, join, scope, select, text, variable
from harness import Server, ServerCase, in_parallel

GREEDY = {"temperature": 0, "max_tokens": 8}
LONG = {"temperature": 0, "max_tokens": 400, "ignore_eos": True}
NO_SCHEMA = '{"type": "nonsense"}'
OFF = {"drop_dead": False, "merge_equal": False, "fold_constants": False}

TWO_STEPS = graph(text("The quick"), gen("a"), text(" and then"), gen("b"))
BRANCHES = graph(text("One "), argument("word"), fork(1, 2), text(" left", 1), gen("side", 1), text(" right", 2), gen("side", 2),
                 join(1, 2), text(". So"), gen("end"), select("verdict", " yes", " no"), parameters=["word"], streams=3)


class Programs(ServerCase):
    def run_program(self, program, **more):
        reply = self.server.post("/v1/programs", {"program": program, "sampling_params": GREEDY, **more})
        self.assertEqual(reply.status, 200, reply.body)
        return reply.json

    def one(self, program, **more):
        results = self.run_program(program, **more)["results"]
        self.assertEqual(len(results), 1)
        return results[0]

    def interpreted(self, *parts):
        """The same generations, asked for by a client: literals, and names of holes."""
        holes = [part if i % 2 == 0 else {"name": part, "sampling_params": {"temperature": 0, "max_new_tokens": 8}}
                 for i, part in enumerate(parts)]
        return self.server.generate(segments=holes)["variables"]


class Results(Programs):
    def test_a_program_gives_what_its_interpreter_gives(self):
        run = self.one(TWO_STEPS)
        self.assertEqual(run["variables"], self.interpreted("The quick", "a", " and then", "b"))
        self.assertEqual(run["text"], "The quick" + run["variables"]["a"] + " and then" + run["variables"]["b"])
        self.assertEqual(run["meta"]["b"]["completion_tokens"], 8)

    def test_branches_give_what_they_give_alone(self):
        run = self.one(BRANCHES, arguments={"word": "two"})["variables"]
        alone = [self.interpreted("One two" + side, "x")["x"] for side in (" left", " right")]
        self.assertEqual(run["side"], alone)
        self.assertEqual(run["end"], self.interpreted("One two. So", "x")["x"])
        self.assertIn(run["verdict"], (" yes", " no"))

    def test_turns_are_told_as_messages(self):
        def role(name, *inside):
            return ({"stream": 0, "kind": "role_begin", "role": name}, *inside, {"stream": 0, "kind": "role_end", "role": name})
        run = self.one(graph(*role("user", text("Hi")), *role("assistant", gen("a"))))
        self.assertEqual([m["role"] for m in run["messages"]], ["user", "assistant"])
        self.assertEqual(run["messages"][0]["content"], "Hi")

    def test_the_runs_of_a_batch_come_in_order_and_share_what_they_begin_with(self):
        program = graph(text("a shared beginning, " * 4), argument("word"), gen("a"), parameters=["word"])
        words = [f"word {i}" for i in range(40)]
        whole = self.run_program(program, arguments=[{"word": word} for word in words])
        self.assertEqual([run["variables"]["a"] for run in whole["results"]],
                         [self.one(program, arguments={"word": word})["variables"]["a"] for word in words])
        self.assertEqual(whole["usage"]["calls"], 40)
        self.assertGreater(whole["usage"]["cached_tokens"], whole["usage"]["prompt_tokens"] // 2)

    def test_passes_are_reported_and_can_be_switched_off(self):
        program = graph(text("x"), fork(1, 2), text("a", 1), gen("dead", 1), text("b", 2), gen("other", 2), gen("a"), streams=3)
        on, off = self.run_program(program), self.run_program(program, passes=OFF)
        self.assertEqual(on["results"][0]["variables"], off["results"][0]["variables"])
        changes = {p["pass"]: p for p in on["report"]}
        self.assertTrue(changes["drop_dead"]["changes"])
        self.assertEqual([p["on"] for p in off["report"] if p["pass"] == "drop_dead"], [False])
        self.assertEqual(on["usage"]["calls"], 1)

    def test_only_the_wanted_outputs_are_told_and_made(self):
        whole = self.run_program(TWO_STEPS, outputs=["a"])
        self.assertEqual(list(whole["results"][0]["variables"]), ["a"])
        self.assertNotIn("text", whole["results"][0])
        self.assertEqual(whole["usage"]["calls"], 1)

    def test_several_samples_are_a_list(self):
        run = self.one(graph(text("x"), gen("a", n=3)))
        self.assertEqual(len(run["variables"]["a"]), 3)

    def test_name_spaces_of_different_salts_share_nothing(self):
        program = graph(text("something that nobody has said before, said twice"), gen("a"))
        for salt in ("one", "two"):
            self.assertEqual(self.run_program(program, cache_salt=salt)["usage"]["cached_tokens"], 0)
        self.assertGreater(self.run_program(program, cache_salt="two")["usage"]["cached_tokens"], 0)


class Streams(Programs):
    def events(self, program, **more):
        reply = self.server.post("/v1/programs", {"program": program, "sampling_params": GREEDY, "stream": True, **more})
        self.assertEqual(reply.status, 200, reply.body)
        self.assertEqual(reply.events[-1], "[DONE]")
        return reply.events[:-1]

    def test_pieces_add_up_to_the_values_of_their_nodes(self):
        arguments = [{"word": "two"}, {"word": "three"}]
        events = self.events(BRANCHES, arguments=arguments)
        nodes = events[0]["graph"]["nodes"]
        said, ended = {}, {}
        for event in events[1:]:
            if event["type"] in ("node", "node_end"):
                self.assertEqual(nodes[event["node"]]["name"], event["name"])
                key = event["run"], event["node"]
                self.assertNotIn(key, ended, "nothing comes behind a node's end")
                if event["type"] == "node":
                    said[key] = said.get(key, "") + event["delta"]
                else:
                    ended[key] = event
        for key, event in ended.items():
            if nodes[event["node"]]["kind"] == "gen":
                self.assertEqual(said[key], event["value"])
                self.assertEqual(event["meta"]["completion_tokens"], 8)
        self.assertEqual(len(ended), 8)

    def test_a_stream_ends_with_the_results_of_the_same_request_without(self):
        arguments = [{"word": "two"}, {"word": "three"}]
        whole = self.run_program(BRANCHES, arguments=arguments)
        events = self.events(BRANCHES, arguments=arguments)
        told = {event["run"]: event for event in events if event["type"] == "run_end"}
        for run, result in enumerate(whole["results"]):
            for field in ("variables", "text", "messages"):
                self.assertEqual(told[run][field], result[field])
        self.assertEqual(events[-1]["type"], "end")
        self.assertEqual(events[-1]["usage"]["calls"], whole["usage"]["calls"])


    def test_a_stream_without_nodes_tells_runs_as_they_end(self):
        arguments = [{"word": "two"}, {"word": "three"}]
        events = self.events(BRANCHES, arguments=arguments, nodes=False)
        self.assertEqual([event["type"] for event in events], ["program", "run_end", "run_end", "end"])
        whole = self.run_program(BRANCHES, arguments=arguments)
        for event in events[1:3]:
            self.assertEqual(event["text"], whole["results"][event["run"]]["text"])


class Refusals(Programs):
    def test_what_cannot_be_run_is_refused_by_the_name_of_its_field(self):
        one = graph(gen("a"))
        wrong = {
            "program": [{}, {"program": 1}, {"program": []}],
            "program.version": [{"program": {**one, "version": 2}}],
            "program.nodes[0].stream": [{"program": graph(text("x", 3))}],
            "program.nodes[0].kind": [{"program": graph({"stream": 0, "kind": "magic"})}],
            "program.nodes[1]": [{"program": graph(text("x"), join(0))}, {"program": graph(text("x"), argument("w"))}],
            "program.nodes[0].options.bogus": [{"program": graph(gen("a", bogus=1))}],
            "program.nodes[0].options.temperature": [{"program": graph(gen("a", temperature=-1))}],
            "program.nodes[0].options.max_tokens": [{"program": graph(gen("a", max_tokens=-1))}],
            "program.nodes[0].options.n": [{"program": graph(gen("a", n=100_000))}],
            "program.nodes[0].options.regex": [{"program": graph(gen("a", regex="("))}],
            "program.nodes[0].options.stop_token_ids": [{"program": graph(gen("a", stop_token_ids=[99_999]))}],
            "program.nodes[3]": [{"program": graph(fork(1, 2), gen("g", 1), *scope("x", variable("y", 2, of=1), of=1), gen("g", 2),
                                                   *scope("y", variable("x", 1, of=2), of=2), join(1, 2), streams=3)}],
            "program.nodes[2].temperature": [{"program": graph(text("a"), text("b"), {**select("c", "x"), "temperature": 0.7})}],
            "program.nodes[0].choices_method": [{"program": graph({**select("a", "x"), "choices_method": "dice"})}],
            "program.ends_because": [{"program": {**one, "ends_because": "it looked at x"}}],
            "sampling_params": [{"program": one, "sampling_params": 3}],
            "sampling_params.max_tokens": [{"program": one, "sampling_params": {"max_tokens": -3}}],
            "sampling_params.regex": [{"program": one, "sampling_params": {"regex": "("}}],
            "arguments": [{"program": one, "arguments": []}, {"program": one, "arguments": "x"}],
            "arguments.word": [{"program": BRANCHES}, {"program": one, "arguments": {"word": 1}}],
            "arguments[1].word": [{"program": BRANCHES, "arguments": [{"word": 1}, {}]}],
            "arguments[1]": [{"program": BRANCHES, "arguments": [{"word": 1}, 2]}],
            "passes": [{"program": one, "passes": True}],
            "passes.magic": [{"program": one, "passes": {"magic": True}}],
            "outputs": [{"program": one, "outputs": "a"}],
            "outputs[1]": [{"program": one, "outputs": ["a", "b"]}],
            "stream": [{"program": one, "stream": 1}],
            "nodes": [{"program": one, "nodes": "no"}],
        }
        for field, bodies in wrong.items():
            for body in bodies:
                reply = self.server.post("/v1/programs", body)
                self.assertEqual((reply.status, reply.json["error"]["param"]), (400, field), reply.body)

    def test_another_model_is_not_found(self):
        self.assertEqual(self.server.post("/v1/programs", {"program": TWO_STEPS, "model": "other"}).status, 404)

    def test_too_much_at_once_is_refused(self):
        many = self.server.post("/v1/programs", {"program": graph(text("x"), gen("a", n=64)), "arguments": [{}] * 100})
        self.assertEqual((many.status, many.json["error"]["code"]), (400, "program_too_large"))
        long = self.server.post("/v1/programs", {"program": graph(text("a" * 100_000)), "arguments": [{}] * 1000})
        self.assertEqual((long.status, long.json["error"]["code"]), (413, "program_too_large"))

    def test_a_program_that_doubles_its_text_ends_with_an_error(self):
        nodes = [*scope("v0", text("xx"))]
        for i in range(1, 60):
            nodes += scope(f"v{i}", variable(f"v{i - 1}", 0), variable(f"v{i - 1}", 0))
        run = self.one(graph(*nodes), outputs=["v59"])
        self.assertEqual((run["errors"]["v59"]["kind"], run["error"]["code"]), ("too_large", "program_too_large"))

    def test_a_long_chain_of_states_that_wait_for_each_other_goes_on(self):
        nodes = [fork(*range(1, 4000)), *scope("v1", text("q", 1), gen("g", 1), of=1)]
        for i in range(2, 4000):
            nodes += scope(f"v{i}", variable(f"v{i - 1}", i - 1, of=i), of=i)
        run = self.one(graph(*nodes, variable("v3999", 3999), streams=4000), passes=OFF)
        self.assertEqual(run["text"], "q" + self.interpreted("q", "x")["x"])


class Failures(Programs):
    def test_a_variable_that_fails_is_told_by_name_and_the_others_go_on(self):
        program = graph(text("x"), fork(1, 2), text("l", 1), gen("good", 1), text("r", 2), gen("bad", 2, json_schema=NO_SCHEMA),
                        join(1, 2), text(" go"), gen("after"), streams=3)
        run = self.one(program)
        self.assertEqual(run["variables"]["good"], [self.interpreted("xl", "x")["x"]])
        self.assertEqual(run["variables"]["after"], self.interpreted("x go", "x")["x"])
        self.assertEqual((run["errors"]["bad"]["kind"], run["errors"]["bad"]["code"]), ("bad_request", "grammar_invalid"))
        self.assertIn("type", run["errors"]["bad"]["message"])
        self.assertNotIn("error", run)

    def test_a_run_that_fails_disturbs_no_other(self):
        program = graph(argument("word"), gen("a"), gen("b"), parameters=["word"])
        runs = self.run_program(program, arguments=[{"word": "one"}, {"word": ""}, {"word": "x" * 5000}, {"word": "two"}])["results"]
        self.assertEqual([sorted(run["variables"]) for run in runs], [["a", "b"], [], [], ["a", "b"]])
        self.assertEqual(runs[1]["errors"]["b"], runs[1]["error"])
        self.assertEqual(runs[1]["error"]["field"], "text")
        self.assertEqual(runs[2]["error"]["code"], "context_length_exceeded")
        self.assertEqual(runs[3]["variables"]["a"], self.interpreted("two", "x")["x"])

    def test_a_client_that_leaves_frees_the_engine(self):
        program = graph(text("x"), fork(1, 2), gen("a", 1), gen("b", 1), gen("a", 2), gen("b", 2), join(1, 2), gen("c"), streams=3)
        for stream in (False, True):
            raw = self.server.open_stream("/v1/programs", {"program": program, "sampling_params": LONG, "stream": stream,
                                                           "arguments": [{}] * 20})
            if stream:
                raw.recv(1)
            else:
                while not self.server.metric("espalier_requests_running"):
                    pass
            raw.close()
            self.server.wait_metric("espalier_requests_running", 0)
            self.server.wait_metric("espalier_requests_waiting", 0)

    def test_an_abort_ends_the_whole_program(self):
        steps = graph(text("x"), *[gen(f"s{i}", max_tokens=1, ignore_eos=True) for i in range(400)])
        body = {"program": steps, "rid": "mine", "stream": True, "arguments": [{}] * 10}
        with self.server.open_stream("/v1/programs", body) as raw:
            came = b""
            while b'"type":"node_end"' not in came:
                came += raw.recv(1024)
            self.assertEqual(self.server.post("/v1/programs", {"program": TWO_STEPS, "rid": "mine"}).json["error"]["param"], "rid")
            self.server.post("/abort_request", {"rid": "mi"})
            while b"[DONE]" not in came:
                came += raw.recv(65536)
        self.assertEqual(came.count(b'"error":{"kind":"cancelled"'), 10)

    def test_a_deadline_ends_it(self):
        body = {"program": graph(text("x"), gen("g", **LONG)), "sampling_params": GREEDY, "arguments": [{}] * 4000}
        reply = self.server.post("/v1/programs", body,
                                 headers={"x-deadline-ms": "300"})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (408, "deadline_exceeded"))
        self.server.wait_metric("espalier_requests_running", 0)


class SmallMemory(Programs):
    FLAGS = ("--max-program-memory", "2", "--max-running-requests", "2")

    def test_what_all_programs_hold_together_is_bounded(self):
        branches = range(2, 42)
        big = graph(fork(1), text("x" * 800_000, 1), text("y"), fork(*branches), *[gen(f"s{i}", i, **LONG) for i in branches],
                    join(*branches), streams=42)
        body = {"program": big, "sampling_params": GREEDY, "passes": OFF}
        with self.server.open_stream("/v1/programs", {**body, "stream": True}) as raw:  # holds 800,000 bytes twice
            came = b""
            while b'"type":"node_end"' not in came:
                came += raw.recv(1024)
            full = self.server.post("/v1/programs", body)
            self.assertEqual((full.status, full.json["error"]["code"]), (503, "programs_full"))
            self.assertIn("try again", full.json["error"]["message"])
            # One that grows while it runs ends, and the other goes on.
            # Its pieces are large: what is left over when one finds no room is enough for the other's outputs.
            grown = self.one(graph(*scope("a", text("z" * 200_000)), *[variable("a", 0)] * 8), passes=OFF)
            self.assertEqual((grown["error"]["kind"], grown["error"]["code"]), ("unavailable", "programs_full"))
            while b"[DONE]" not in came and (piece := raw.recv(65536)):
                came += piece
        self.assertEqual(came.count(b'"type":"node_end"'), 40)
        self.assertNotIn(b"programs_full", came)
        for _ in range(100):  # what it held is given back when its states are gone
            if self.server.post("/v1/programs", body).status == 200:
                return
            time.sleep(0.05)
        self.fail("the memory was not given back")


class SmallQueue(Programs):
    FLAGS = ("--max-running-requests", "2", "--max-queued-requests", "4")

    def test_calls_that_the_queue_has_no_room_for_wait(self):
        words = [{"word": str(i)} for i in range(30)]
        runs = self.run_program(BRANCHES, arguments=words)["results"]
        self.assertEqual([run.get("error") for run in runs], [None] * 30)
        self.assertEqual(runs[17]["variables"], self.one(BRANCHES, arguments=words[17])["variables"])

    def test_programs_beside_each_other_all_end(self):
        program = graph(argument("word"), gen("a"), gen("b"), parameters=["word"])
        runs = in_parallel(8, lambda i: self.run_program(program, arguments=[{"word": f"{i} {j}"} for j in range(10)])["results"])
        self.assertTrue(all("error" not in run for results in runs for run in results))

    def test_more_choices_than_ever_fit_are_refused(self):
        run = self.one(graph(text("x"), select("a", *"abcdefghij")))
        self.assertEqual(run["errors"]["a"]["kind"], "bad_request")


class Life(unittest.TestCase):
    def told_until_the_end(self, server, program, **more):
        """What a program streams whose server is told to end when the first of it has come."""
        body = {"program": program, "stream": True, "sampling_params": {"temperature": 0, "max_tokens": 1, "ignore_eos": True}, **more}
        with server.open_stream("/v1/programs", body) as raw:
            came = raw.recv(65536)
            server.process.send_signal(signal.SIGTERM)
            while piece := raw.recv(65536):
                came += piece
        return came

    def test_a_program_that_runs_is_finished_while_draining(self):
        steps = [gen(f"s{i}") for i in range(1000)]
        with Server() as server:
            came = self.told_until_the_end(server, graph(text("x"), *steps))
            self.assertIn(b"[DONE]", came)
            end = came[came.index(b'"type":"run_end"'):]
            self.assertNotIn(b"draining", came)
            self.assertIn(b'"s499"', end)
            self.assertEqual(server.process.wait(40), 0)

    def test_a_program_that_is_cut_off_says_so(self):
        with Server("--shutdown-timeout", "0") as server:
            came = self.told_until_the_end(server, graph(text("x"), *[gen(f"s{i}") for i in range(400)]), arguments=[{}] * 10)
            self.assertIn(b'"code":"draining"', came)
            self.assertEqual(server.process.wait(40), 143)

    def test_a_key_is_asked_for(self):
        with Server("--api-key", "sesame") as server:
            body = {"program": TWO_STEPS, "sampling_params": GREEDY}
            self.assertEqual(server.post("/v1/programs", body).status, 401)
            self.assertEqual(server.post("/v1/programs", body, headers={"Authorization": "Bearer sesame"}).status, 200)

    def test_without_a_tokenizer_programs_are_refused(self):
        with Server("--skip-tokenizer-init") as server:
            reply = server.post("/v1/programs", {"program": TWO_STEPS})
            self.assertEqual((reply.status, reply.json["error"]["param"]), (400, "program"))


if __name__ == "__main__":
    unittest.main()
