"""Tracing, caching and compiling programs from Python: against the engine in this process and over HTTP."""

import json
import threading
import time
import urllib.request

import pytest
import programs

import espalier as sgl


@sgl.function
def judge(s, essay, sides=2):
    s += sgl.system("You judge.") + sgl.user("Essay: " + essay)
    forks = s.fork(sides)
    forks += lambda i: sgl.user(f"side {i}")
    forks += sgl.assistant(sgl.gen("view", max_tokens=6))
    forks.join()
    s += sgl.assistant("So " + sgl.gen("end", max_tokens=4) + forks[1]["view"])


@sgl.function
def looks(s, word):
    s += word + sgl.gen("a", max_tokens=4)
    if len(s["a"]) > 0:
        forks = s.fork(2)
        forks += lambda i: f" {i}" + sgl.gen("b", max_tokens=3)
        forks.join()
        s += " then " + sgl.gen("c", max_tokens=3)
    return s["a"].upper()


def test_a_run_may_have_other_defaults_than_the_compilation(runtime):
    """As upstream's compiled functions take them."""
    compiled = judge.compile(backend=runtime, max_new_tokens=3)
    state = compiled.run(essay="A tree.", temperature=0)
    assert state.text() == judge.run(essay="A tree.", temperature=0, backend=runtime).text()
    (again,) = compiled.run_batch([{"essay": "A tree."}], temperature=0)
    assert again.text() == state.text() and len(compiled._others) == 1
    of_graph = judge.trace().compile(backend=runtime).run(essay="A tree.", temperature=0, max_new_tokens=128)
    assert of_graph.text() == state.text()
    with pytest.raises(TypeError, match="has no parameter tempreature"):
        compiled.run(essay="A tree.", tempreature=0)
    with pytest.raises(TypeError, match="has no argument essay"):
        compiled.run_batch([{"essay": "A tree."}], essay="B")


def test_a_trace_is_a_graph_that_is_written_and_read(tmp_path):
    graph = judge.trace()
    assert graph.parameters == ["essay"] and graph.ends_because == ""
    assert [node["kind"] for node in graph.nodes][:4] == ["role_begin", "text", "role_end", "role_begin"]
    assert set(graph.variables) == {"end"} and graph.child_states == [1, 2]
    graph.save(tmp_path / "judge.json")
    assert sgl.ProgramGraph.load(tmp_path / "judge.json").to_json() == graph.to_json()
    assert "fork of 2" in str(graph) and graph.dot().startswith("digraph") and graph.svg().startswith("<svg")
    assert '"Essay: mine"' in str(judge.trace(essay="mine"))
    assert judge.trace(sides=3).child_states == [1, 2, 3]


def test_a_trace_ends_where_the_function_needs_a_value():
    assert "argument word" in sgl.function(_asks_length).trace().ends_because
    assert "variable a" in looks.trace().ends_because
    assert judge.trace().ends_because == ""  # a variable that is appended is no value that is looked at
    with pytest.raises(ZeroDivisionError):
        sgl.function(_fails).trace()


def _asks_length(s, word):
    s += str(len(word))


def _formats(s, word):
    s += f"{word}!" + sgl.gen("a", max_tokens=2)


def _fails(s):
    s += str(1 // 0)


def test_an_argument_in_an_f_string_is_a_type_error_of_the_trace(backend):
    formats = sgl.function(_formats)
    with pytest.raises(TypeError, match="f-string"):
        formats.trace()
    assert '"me!"' in str(formats.trace(word="me"))
    assert formats.compile(temperature=0).run("me").text() == formats.run("me", temperature=0).text()


@sgl.function
def expands(s, tip):
    s += "Expand " + tip + ":" + sgl.gen("detail", stop="\n")


@sgl.function
def suggests(s, topic):
    s += "Tips for " + topic + ". 1." + sgl.gen("tip_1", max_tokens=3) + " 2." + sgl.gen("tip_2", max_tokens=3)
    details = [expands(tip=s[name], max_new_tokens=5, temperature=0) for name in ("tip_1", "tip_2")]
    s += " 1: " + details[0]["detail"] + " 2: " + details[1]["detail"] + " In all" + sgl.gen("all", max_tokens=4)


def test_programs_that_a_program_runs_are_traced_with_it(backend):
    graph = suggests.trace()
    assert graph.ends_because == "" and graph.child_states == [2, 1]
    compiled = suggests.compile(temperature=0)
    assert compiled.whole
    own = suggests.run(topic="health", temperature=0)
    for state in (compiled.run("health"), compiled.run_batch([("health",), ("bread",)])[0]):
        assert _said(state) == _said(own) and state["all"] == own["all"]


def test_a_graph_is_printed_and_given_as_text(capsys):
    assert judge.trace().print_graph_dfs() == str(judge.trace()) == capsys.readouterr().out


@pytest.mark.parametrize("program, item", [(judge, {"essay": "A."}), (looks, {"word": "A"})], ids=["whole", "followed"])
def test_a_program_may_be_compiled_before_there_is_a_back_end(engine, runtime, program, item):
    sgl.set_default_backend(None)
    compiled = program.compile(temperature=0)
    assert compiled.whole == (program is judge) and compiled.graph.nodes
    with pytest.raises(ValueError, match="set_default_backend"):
        compiled.run(**item)
    for backend in (engine, runtime):  # the default one of each run
        sgl.set_default_backend(backend)
        before = backend.endpoint.token_usage.calls
        own = program.run(**item, temperature=0)
        assert _said(compiled.run(**item)) == _said(compiled.run_batch([item])[0]) == _said(own)
        assert backend.endpoint.token_usage.calls > before
    assert compiled.report()
    sgl.set_default_backend(None)
    from_graph = judge.trace().compile(temperature=0)
    assert from_graph.run("A.", backend=engine).text() == judge.run("A.", backend=engine, temperature=0).text()


def test_wrong_graphs_are_refused_with_their_place():
    with pytest.raises(sgl.ProgramError, match=r"nodes\[0\]"):
        sgl.ProgramGraph.from_json(json.dumps({"version": 1, "streams": 1, "nodes": [{"stream": 0, "kind": "jump"}]}))
    with pytest.raises(sgl.ProgramError, match="object"):
        sgl.ProgramGraph.from_json("[]")


def _said(state):
    return state.text(), state.messages()


def test_a_compiled_program_says_what_the_program_says(backend):
    compiled = judge.compile(backend=backend, temperature=0)
    assert compiled.whole and "drop_dead" in compiled.report()
    own, state = (f(essay="A short one.") for f in (lambda essay: judge.run(essay=essay, backend=backend, temperature=0), compiled.run))
    assert _said(state) == _said(own)
    assert state["view"] == own["view"] and state["end"] == own["end"]
    with pytest.raises(TypeError, match="sides was compiled in as 2"):
        compiled.run(essay="x", sides=3)
    with pytest.raises(TypeError, match="needs essay"):
        compiled.run()
    with pytest.raises(TypeError, match="no parameter"):
        compiled.run(essay="x", colour="red")


def test_a_function_that_looks_at_values_is_followed(backend):
    compiled = looks.compile(backend=backend, temperature=0)
    assert not compiled.whole
    own, state = looks.run("One", backend=backend, temperature=0), compiled.run("One")
    assert _said(state) == _said(own)
    assert state["b"] == own["b"] and state.ret_value == own.ret_value
    batch = compiled.run_batch([{"word": "One"}, ("Two",)])
    assert [s["c"] for s in batch] == [looks.run(w, backend=backend, temperature=0)["c"] for w in ("One", "Two")]


def test_a_graph_that_was_read_runs(backend, tmp_path):
    judge.trace().save(tmp_path / "judge.json")
    program = sgl.ProgramGraph.load(tmp_path / "judge.json").compile(backend=backend, temperature=0)
    own = judge.run(essay="Mine.", backend=backend, temperature=0)
    assert program.run("Mine.").text() == own.text()
    assert program.run_batch([("Mine.",), {"essay": "Mine."}])[1]["end"] == own["end"]


def test_a_compiled_batch_is_in_order(backend):
    essays = [f"Essay number {i}." for i in range(12)]
    compiled = judge.compile(backend=backend, temperature=0)
    states = compiled.run_batch([{"essay": essay} for essay in essays])
    for essay, state in zip(essays, states):
        assert state["end"] == judge.run(essay=essay, backend=backend, temperature=0)["end"]


def _run_compiled(self, *args, stream=False, backend=None, use_thread=True, submit_runs=False, **given):
    """In place of SglFunction.run: the same, by way of compile()."""
    del use_thread
    arguments = {**dict(zip(self.arg_names, args)), **{name: given.pop(name) for name in list(given) if name in self.arg_names}}
    constants = {name: value for name, value in arguments.items() if not isinstance(value, str)}
    compiled = self.compile(backend=backend, submit_runs=submit_runs, **given, **constants)
    return compiled.run(stream=stream, **arguments)


@pytest.mark.parametrize("run", programs.PROGRAMS, ids=lambda run: run.__name__)
def test_program_says_the_same_compiled(run, backend, monkeypatch):
    here = run()
    monkeypatch.setattr(type(judge), "run", _run_compiled)
    assert run() == here


def _run_submitted(self, *args, **given):
    return _run_compiled(self, *args, submit_runs=True, **given)


def _batch_compiled(self, batch_kwargs, *, num_threads="auto", progress_bar=False, generator_style=False, backend=None, **given):
    """In place of SglFunction.run_batch."""
    compiled = self.compile(backend=backend, **given)
    if not compiled.whole or not all(isinstance(value, str) for item in batch_kwargs for value in compiled._program.named(item).values()):
        return BATCH(self, batch_kwargs, generator_style=generator_style, backend=backend, **given)
    return compiled.run_batch(batch_kwargs, num_threads=num_threads, progress_bar=progress_bar, generator_style=generator_style)


BATCH = type(judge).run_batch


@pytest.mark.parametrize("run", programs.PROGRAMS, ids=lambda run: run.__name__)
def test_program_says_the_same_as_one_request(run, runtime, monkeypatch):
    sgl.set_default_backend(runtime)
    here = run()
    monkeypatch.setattr(type(judge), "run", _run_submitted)
    monkeypatch.setattr(type(judge), "run_batch", _batch_compiled)
    assert run() == here
    sgl.set_default_backend(None)


def _programs_served(runtime):
    """How many requests for programs the server has answered."""
    with urllib.request.urlopen(f"{runtime.url}/metrics") as reply:
        text = reply.read().decode()
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith("espalier_") and "/v1/programs" in line and "_total{" in line)


def _settled_programs_served(runtime):
    """The same once requests of earlier tests are counted, too."""
    served = _programs_served(runtime)
    while True:
        time.sleep(0.3)
        if served == (served := _programs_served(runtime)):
            return served


def test_a_batch_is_one_request_to_a_server_that_runs_programs(runtime):
    compiled = judge.compile(backend=runtime, temperature=0)
    assert "one request" in compiled.report()
    calls = judge.compile(backend=runtime, temperature=0, passes={"submit_batches": False})
    items = [{"essay": f"Essay number {i}."} for i in range(30)]
    before = _settled_programs_served(runtime)
    states = compiled.run_batch(items)
    for _ in range(200):  # it is counted when its last byte has gone
        if _programs_served(runtime) > before:
            break
        time.sleep(0.05)
    own = calls.run_batch(items)
    assert _programs_served(runtime) == before + 1
    for state, said in zip(states, own):
        assert _said(state) == _said(said) and state["view"] == said["view"] and state["end"] == said["end"]
        assert state.get_meta_info("end")["completion_tokens"] == said.get_meta_info("end")["completion_tokens"]
    one = next(iter(compiled.run_batch(items, generator_style=True)))
    assert one.text() == own[0].text()
    one += sgl.user("And?") + sgl.assistant(sgl.gen("more", max_tokens=3))  # the state goes on call by call
    own[0] += sgl.user("And?") + sgl.assistant(sgl.gen("more", max_tokens=3))
    assert one["more"] == own[0]["more"]


def test_an_item_of_a_submitted_batch_that_fails_disturbs_no_other(runtime):
    @sgl.function
    def ask(s, q):
        s += q + sgl.gen("a", max_tokens=3)

    states = ask.compile(backend=runtime, temperature=0).run_batch([("One",), ("x" * 100_000,), ("Two",)])
    assert [type(state.error()).__name__ for state in states][::2] == ["NoneType"] * 2
    with pytest.raises(KeyError, match="context"):
        states[1]["a"]
    assert states[2]["a"] == ask.run("Two", backend=runtime, temperature=0)["a"]


def test_a_batch_that_a_server_refuses_as_a_whole_is_made_call_by_call(runtime):
    @sgl.function
    def ask(s, q):
        s += q + sgl.gen("a", max_tokens=3, n=3)

    batch = ask.compile(backend=runtime, temperature=0, return_logprob=True, top_logprobs_num=100_000).run_batch([("One",), ("Two",)])
    with pytest.raises(KeyError, match="top_logprobs_num"):
        batch[0]["a"]


def test_equal_branches_are_made_once(backend):
    @sgl.function
    def same(s):
        forks = s.fork(3)
        forks += "Tip:" + sgl.gen("tip", max_tokens=4)
        forks.join()

    compiled = same.compile(backend=backend, temperature=0)
    assert sum(one["calls_saved"] for one in compiled.passes) == 2
    assert compiled.run()["tip"] == same.run(backend=backend, temperature=0)["tip"]
    off = same.compile(backend=backend, temperature=0, passes={"merge_equal": False, "share_samples": False})
    assert sum(one["calls_saved"] for one in off.passes) == 0
    with pytest.raises(sgl.ProgramError, match="no pass"):
        same.compile(backend=backend, passes={"merge": False})


def test_outputs_name_what_is_read(backend):
    compiled = judge.compile(backend=backend, temperature=0, outputs=["view"])
    assert "nobody can read gen end" in compiled.report()
    assert compiled.run(essay="x")["view"] == judge.run(essay="x", backend=backend, temperature=0)["view"]


def test_movable_pieces_move_only_when_asked(backend):
    @sgl.function
    def asks(s, q):
        s += sgl.movable("Question: " + q + "\n") + sgl.movable("Be brief.\n")
        s += sgl.gen("a", max_tokens=2)

    assert asks.run(q="Why?", backend=backend).text().startswith("Question: Why?\nBe brief.")
    assert asks.compile(backend=backend).run(q="Why?").text().startswith("Question: Why?\nBe brief.")
    moving = asks.compile(backend=backend, passes={"move_pieces": True})
    assert moving.run(q="Why?").text().startswith("Be brief.\nQuestion: Why?")
    with pytest.raises(sgl.ProgramError):
        sgl.movable(sgl.gen("x"))


def test_streams_of_a_compiled_program_tell_its_text(backend):
    state = judge.compile(backend=backend, temperature=0).run(essay="x", stream=True)
    assert "".join(state.text_iter()) == state.text()


def test_what_a_followed_function_says_comes_piece_by_piece(backend):
    looked = threading.Event()

    @sgl.function
    def asks(s, word):
        s += word + sgl.gen("a", max_tokens=6, ignore_eos=True)
        s += " " + str(len(s["a"])) + sgl.gen("b", max_tokens=3)
        assert looked.wait(60)
        s += " end"

    state = asks.compile(backend=backend, temperature=0).run("One", stream=True)
    pieces = state.text_iter("a")
    told = [next(pieces)]  # the function waits until it was read
    looked.set()
    told += list(pieces)
    own = asks.run("One", backend=backend, temperature=0)
    assert "".join(told) == own["a"]
    assert "".join(state.text_iter()) == state.text() == own.text()


def test_the_text_of_a_stream_is_all_that_its_function_says(backend):
    for _ in range(20):
        state = judge.run(essay="x", stream=True, backend=backend, temperature=0)
        text = state.text()
        assert text == judge.run(essay="x", backend=backend, temperature=0).text()
        assert judge.run(essay="x", stream=True, backend=backend, temperature=0)["end"] == state["end"]


def test_a_prefix_is_computed_by_cache(backend):
    @sgl.function
    def long(s, q):
        s += "A long beginning that all runs share, longer than sixty-four characters. " + q + sgl.gen("a", max_tokens=2)

    sgl.flush_cache(backend)
    long.cache(backend)
    assert long.run(q="x", backend=backend, temperature=0).get_meta_info("a")["cached_tokens"] > 8


def test_what_tuning_found_is_kept(backend, tmp_path):
    compiled = judge.compile(backend=backend, temperature=0, tuning_folder=tmp_path)
    assert compiled.settings == {"runs": 256, "group": 1, "scored": False}
    measured = compiled.tune([{"essay": "a"}, {"essay": "b"}], runs=(1, 2), groups=(1,), rounds=1)
    assert [one["runs"] for one in measured] == [1, 2]
    again = judge.compile(backend=backend, temperature=0, tuning_folder=tmp_path)
    assert again.settings == compiled.settings
    assert again.settings["runs"] in (1, 2)


def test_a_function_that_looks_at_values_is_not_tuned(backend):
    with pytest.raises(ValueError, match="num_threads"):
        looks.compile(backend=backend).tune([{"word": "a"}])


def test_a_file_of_the_tuning_folder_that_is_none_is_refused(backend, tmp_path):
    (tmp_path / "judge.json").write_text('{"version": 2, "entries": [{"model": 7}]}')
    with pytest.raises(sgl.ProgramError, match="entries\\[0\\].model"):
        judge.compile(backend=backend, tuning_folder=tmp_path)


def test_a_choice_whose_scores_nobody_reads_is_found_by_its_path(backend):
    @sgl.function
    def pick(s, q):
        s += q + sgl.select("c", ["red wine", "red tea", "blue sky"], choices_method=sgl.greedy_token_selection)

    own = pick.run(q="The colour is ", backend=backend)
    for read in (True, False):
        compiled = pick.compile(backend=backend, meta_read=read)
        ways = [node.get("way") for node in compiled.graph.nodes if node["kind"] == "select"]
        assert ways == [None if read or not isinstance(backend, sgl.Engine) else "path"]
        assert compiled.run(q="The colour is ")["c"] == own["c"]


def test_choices_are_generated_when_that_is_asked_for(backend):
    @sgl.function
    def pick(s):
        s += "Yes or no? " + sgl.select("c", ["yes", "no"])

    compiled = pick.compile(backend=backend, passes={"choice_grammar": True})
    assert [node["way"] for node in compiled.graph.nodes if node["kind"] == "select"] == ["grammar"]
    assert compiled.run()["c"] in ("yes", "no")
