"""What a front end does with a server beside the programs of tests/python/programs.py: one function for each, run as those
are (play.py) with upstream's front ends and with ours. What is returned is compared; what must hold anyway is asserted.
"""

import asyncio
import contextlib
import io
import warnings

import espalier as sgl

URL = GUARDED_URL = ""  # of the servers; play.py sets them
KEY = "letmein"  # of GUARDED_URL
CALLS = []

# Upstream's iterators look whether all is done after they took the text, so what came between is lost; and the one over
# the whole text is woken the last time before the end is marked, so it may wait for ever.
RACES = {
    "streamed", "pieces_of_one_variable", "pieces_of_all", "pieces_of_many_calls", "pieces_for_asyncio",
    "pieces_with_meta_data", "a_key_is_sent", "openai_completion_streamed", "openai_chat_streamed",
}  # fmt: skip

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944415408d763f8cfc0000003010100c9fe92ef"
    "0000000049454e44ae426082"
)
TEXT = "the quick brown fox jumps over the lazy other day, and then it rests. " * 4


def call(run):
    CALLS.append(run)
    return run


@sgl.function
def story(s, start):
    s += start + sgl.gen("story", max_tokens=12, ignore_eos=True)


def told_in_meta(state, name):
    meta = state.get_meta_info(name)
    return {key: meta[key] for key in ("prompt_tokens", "completion_tokens", "finish_reason")}


# -- the server's own routes ---------------------------------------------------------------------------------------------


@call
def the_server_names_its_model():
    return sgl.RuntimeEndpoint(URL).get_model_name()


@call
def the_server_tells_of_itself():
    info = sgl.get_server_info()
    assert sgl.get_server_info(sgl.RuntimeEndpoint(URL)).keys() == info.keys()
    return {key: info[key] for key in ("model_path", "version", "max_total_num_tokens")}


@call
def a_flush_empties_the_cache():
    text = "A text of its own: " + TEXT

    def cached():
        return story.run(text, temperature=0).get_meta_info("story")["cached_tokens"]

    sgl.flush_cache()
    assert cached() == 0
    assert cached() > 40
    sgl.flush_cache()
    assert cached() == 0


@call
def a_prefix_is_cached():
    prefix = "Another text of its own: " + TEXT
    sgl.flush_cache()
    sgl.RuntimeEndpoint(URL).cache_prefix(prefix)
    meta = story.run(prefix + "And so", temperature=0).get_meta_info("story")
    assert meta["cached_tokens"] > 40
    return meta["cached_tokens"]


@call
def a_function_s_constant_beginning_is_cached():
    @sgl.function
    def constant(s, word):
        s += "The beginning of all of them: " + TEXT
        s += word + sgl.gen("x", max_tokens=2)

    sgl.flush_cache()
    constant.cache()
    assert constant.run("now", temperature=0).get_meta_info("x")["cached_tokens"] > 40


@call
def a_key_is_sent():
    with_key = sgl.RuntimeEndpoint(GUARDED_URL, api_key=KEY, chat_template_name="chatml")
    state = story.run("Once", temperature=0, backend=with_key)
    chosen = state["story"]
    streamed = story.run("Once", temperature=0, backend=with_key, stream=True)
    assert "".join(streamed.text_iter()) == "Once" + chosen
    for key in (None, "wrong"):
        try:
            sgl.RuntimeEndpoint(GUARDED_URL, api_key=key)
        except RuntimeError as refusal:
            assert "API key" in str(refusal), refusal
        else:
            raise AssertionError("a wrong key was taken")
    return chosen


@call
def its_own_choice_of_a_chat_format_works():
    @sgl.function
    def chat(s):
        s += sgl.system("Be brief.")
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("x", max_tokens=4, ignore_eos=True))

    state = chat.run(temperature=0, backend=sgl.RuntimeEndpoint(URL))
    assert state.get_meta_info("x")["completion_tokens"] == 4
    assert [m["role"] for m in state.messages()] == ["system", "user", "assistant"]


# -- gen -----------------------------------------------------------------------------------------------------------------


@call
def meta_info_of_each_way_to_end():
    @sgl.function
    def ends(s):
        s += "One" + sgl.gen("length", max_tokens=3, ignore_eos=True)
        s += "Two" + sgl.gen("stop", regex="[a-m]{1,4}!", stop="!", max_tokens=30)
        s += "Three" + sgl.gen("constraint", regex="yes|no", max_tokens=30)

    state = ends.run(temperature=0)
    assert state.get_meta_info("length")["finish_reason"]["type"] == "length"
    assert state.get_meta_info("stop")["finish_reason"] == {"type": "stop", "matched": "!"}
    return [told_in_meta(state, name) for name in ("length", "stop", "constraint")] + [state.text()]


@call
def log_probabilities_of_the_prompt():
    @sgl.function
    def scored(s):
        s += "Once upon a time" + sgl.gen(
            "x", max_tokens=3, ignore_eos=True, return_logprob=True, top_logprobs_num=3, return_text_in_logprobs=True,
            logprob_start_len=0,
        )  # fmt: skip

    meta = scored.run(temperature=0).get_meta_info("x")
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"] and meta["input_token_logprobs"][0][0] is None
    names = ("input_token_logprobs", "output_token_logprobs", "input_top_logprobs", "output_top_logprobs")
    return {name: meta[name] for name in names}


@call
def log_probabilities_of_a_score_only():
    @sgl.function
    def scored(s):
        s += "Once upon a time" + sgl.gen("x", max_tokens=0, return_logprob=True, logprob_start_len=0)

    meta = scored.run(temperature=0).get_meta_info("x")
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]
    return meta["input_token_logprobs"]


@call
def a_run_s_settings_are_defaults():
    @sgl.function
    def chain(s):
        s += "One" + sgl.gen("a") + "Two" + sgl.gen("b", max_tokens=2)

    settings = {
        "max_new_tokens": 5, "temperature": 0, "top_p": 0.9, "top_k": 10, "min_p": 0.01, "frequency_penalty": 0.5,
        "presence_penalty": 0.5, "ignore_eos": True, "stop": ["\x00"], "return_logprob": True,
    }  # fmt: skip
    state = chain.run(**settings)
    return [told_in_meta(state, name) for name in ("a", "b")]


@call
def a_stop_expression():
    @sgl.function
    def stops(s):
        s += "One" + sgl.gen("x", regex="[a-z]{3}[0-9]{3}", stop_regex="[0-9]{2}", max_tokens=30)

    state = stops.run(temperature=0)
    assert state.error() is None, state.error()
    return [state["x"], told_in_meta(state, "x")]


@call
def without_a_thread():
    return story.run("Once", temperature=0, use_thread=False).text()


@call
def reasoning_apart():
    @sgl.function
    def think(s):
        s += sgl.user("Why?")
        s += sgl.assistant(
            sgl.separate_reasoning(
                sgl.gen("x", regex="<think>[a-m]{4}</think>[n-z]{4}", max_tokens=60), model_type="deepseek-r1"
            )
        )

    state = think.run(temperature=0)
    assert state.error() is None, state.error()
    assert len(state["x"]) == len(state["x_reasoning_content"]) == 4
    return [state["x"], state["x_reasoning_content"], state.messages()]


@call
def a_refusal_is_told():
    @sgl.function
    def refused(s):
        s += "Hello" + sgl.gen("x", max_tokens=2, temperature=-1.0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        state = refused.run()
        error = state.error()
    assert "temperature" in str(error)
    try:
        state["x"]
    except KeyError:
        return
    raise AssertionError("a failed variable has a value")


@call
def a_picture_is_refused_clearly():
    @sgl.function
    def look(s):
        s += sgl.user("What is this? " + sgl.image(PNG))
        s += sgl.assistant(sgl.gen("x", max_tokens=2))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        error = look.run(temperature=0).error()
    assert "picture" in str(error) or "image_data" in str(error), error


# -- select --------------------------------------------------------------------------------------------------------------

CHOICES = ["day", "the quick brown fox", "lazy other", "day and night"]


def chosen_by(method, behind):
    @sgl.function
    def choose(s):
        s += behind + sgl.select("word", CHOICES, choices_method=method)

    state = choose.run(temperature=0)
    meta = state.get_meta_info("word")
    names = {"normalized_prompt_logprobs", "input_token_logprobs", "greedy_logprob_matrix",
             "normalized_unconditional_prompt_logprobs"}  # fmt: skip
    assert all(isinstance(entry[0], float) for tokens in meta["input_token_logprobs"] for entry in tokens)
    return {"word": state["word"], "text": state.text(), **{name: meta[name] for name in sorted(names & set(meta))}}


@call
def scores_by_mean():
    return chosen_by(sgl.token_length_normalized, "The best is ")


@call
def scores_greedily():
    return chosen_by(sgl.greedy_token_selection, "The best is ")


@call
def scores_against_no_prompt():
    return chosen_by(sgl.unconditional_likelihood_normalized, "The best is ")


@call
def scores_of_choices_that_join_the_prompt_s_last_token():
    return [
        chosen_by(method, "The best is t")
        for method in (sgl.token_length_normalized, sgl.greedy_token_selection)
    ]


@call
def scores_behind_a_role():
    @sgl.function
    def choose(s):
        s += sgl.user("Which?")
        s += sgl.assistant(sgl.select("word", CHOICES))
        s += sgl.user("And now?")
        s += sgl.assistant("It is " + sgl.gen("again", choices=CHOICES))

    state = choose.run(temperature=0)
    return [state["word"], state["again"], state.text()]


@call
def scores_with_nothing_before():
    @sgl.function
    def choose(s):
        s += sgl.select("word", CHOICES)

    state = choose.run(temperature=0)
    assert state.error() is None, state.error()
    return state["word"]


# -- fork and join -------------------------------------------------------------------------------------------------------


@call
def children_share_what_was_before_the_fork():
    @sgl.function
    def branches(s):
        s += "Before the fork: " + TEXT
        s.sync()
        forks = s.fork(4)
        forks += lambda i: f" {i}:" + sgl.gen("x", max_tokens=2)
        return [f.get_meta_info("x")["cached_tokens"] for f in forks]

    sgl.flush_cache()
    assert min(branches.run(temperature=0).ret_value) > 40


@call
def a_fork_of_nothing():
    @sgl.function
    def branches(s):
        forks = s.fork(3)
        forks += lambda i: f"{i}:" + sgl.gen("x", max_tokens=3)
        forks.join()

    state = branches.run(temperature=0)
    assert state.error() is None, state.error()
    return state["x"]


@call
def parts_are_appended_in_a_chat():
    @sgl.function
    def gather(s):
        s += sgl.user("Two parts.")
        with s.assistant():
            s += "Parts:"
            forks = s.fork(2)
            forks += lambda i: f" {i}:" + sgl.gen(f"x{i}", max_tokens=3)
            forks.join("concate_and_append")
            s += " That is all:" + sgl.gen("end", max_tokens=3)

    state = gather.run(temperature=0)
    assert state.error() is None, state.error()
    return [state.text(), state.messages(), state["end"]]


# -- streams -------------------------------------------------------------------------------------------------------------


@call
def pieces_of_one_variable():
    state = story.run("Once", stream=True, temperature=0)
    pieces = list(state.text_iter("story"))
    assert "".join(pieces) == state["story"]
    return state["story"]


@call
def pieces_of_all():
    @sgl.function
    def long(s):
        s += "Once" + sgl.gen("story", max_tokens=400, regex="[a-z ]{400}")

    state = long.run(stream=True, temperature=0)
    pieces = list(state.text_iter())
    assert "".join(pieces) == state.text() and len(pieces) > 1
    return [state.text(), told_in_meta(state, "story")]


@call
def pieces_of_many_calls():
    @sgl.function
    def parts(s):
        s += "One" + sgl.gen("a", max_tokens=4, ignore_eos=True) + "Two" + sgl.select("b", ["x", "yz"])
        s += sgl.gen("c", max_tokens=4, regex="[é-ö]{4}")

    state = parts.run(stream=True, temperature=0)
    assert "".join(state.text_iter()) == state.text()
    assert state.error() is None, state.error()
    return state.text()


@call
def pieces_for_asyncio():
    async def read():
        state = story.run("Once", stream=True, temperature=0)
        pieces = [piece async for piece in state.text_async_iter("story")]
        assert "".join(pieces) == state["story"]
        state = story.run("Once", stream=True, temperature=0)
        pieces = [piece async for piece in state.text_async_iter()]
        assert "".join(pieces) == state.text()
        return state.text()

    return asyncio.run(read())


@call
def pieces_with_meta_data():
    async def read():
        state = story.run("Once", stream=True, temperature=0, return_logprob=True)
        pieces = [piece async for piece in state.text_async_iter("story", return_meta_data=True)]
        assert "".join(text for text, _ in pieces) == state["story"]
        assert all(meta["completion_tokens"] > 0 for _, meta in pieces)
        return [state.text(), len(state.get_meta_info("story")["output_token_logprobs"])]

    return asyncio.run(read())


# -- batches -------------------------------------------------------------------------------------------------------------


@call
def a_batch_with_a_progress_bar():
    shown = io.StringIO()
    items = [{"start": f"{i}. The beginning is long enough to be shared by all, and this is number {i}:"} for i in range(40)]
    with contextlib.redirect_stderr(shown):
        states = story.run_batch(items, temperature=0, progress_bar=True)
    assert "40/40" in shown.getvalue(), shown.getvalue()
    return [state.text() for state in states]


@call
def a_batch_one_by_one():
    states = story.run_batch([("a",), ("b",), ("c",)], temperature=0, num_threads=1)
    return [state["story"] for state in states]


@call
def a_batch_of_forks():
    @sgl.function
    def branches(s, i):
        s += f"Number {i}. "
        forks = s.fork(3)
        forks += lambda j: f" {j}:" + sgl.gen("x", max_tokens=3)
        forks.join()
        s += sgl.select("best", ["0", "1", "2"])

    states = branches.run_batch([{"i": i} for i in range(12)], temperature=0, num_threads=6)
    return [[state["x"], state["best"]] for state in states]


@call
def one_of_a_batch_fails():
    @sgl.function
    def mixed(s, i):
        s += "Hello" + sgl.gen("x", max_tokens=2, temperature=-1.0 if i == 1 else 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = mixed.run_batch([{"i": i} for i in range(3)], num_threads=3)
        assert [state.error() is None for state in states] == [True, False, True]
    return states[2]["x"]


@call
def a_compiled_program():
    @sgl.function
    def chain(s, word):
        s += "The word is " + word + ":" + sgl.gen("a", max_tokens=3) + " and " + sgl.select("b", ["x", "yz"])

    compiled = chain.compile(backend=sgl.RuntimeEndpoint(URL, chat_template_name="chatml"))
    state = compiled.run(word="tree", temperature=0)
    assert state.text() == chain.run(word="tree", temperature=0).text()
    return state.text()


# -- OpenAI's routes -----------------------------------------------------------------------------------------------------


def completions():
    return sgl.OpenAI("default", is_chat_model=False, base_url=URL + "/v1", api_key="none")


def conversations():
    return sgl.OpenAI("default", is_chat_model=True, base_url=URL + "/v1", api_key="none")


LETTERS = "the quick brown fox jumps over the lazy other and "


@sgl.function
def two_turns(s):
    s += sgl.system("Be brief.")
    s += sgl.user("Hello")
    s += sgl.assistant(sgl.gen("a", max_tokens=6))
    s += sgl.user("And now?")
    s += sgl.assistant(sgl.gen("b", max_tokens=6, stop=["z", "q"]))


@call
def openai_completion():
    @sgl.function
    def chain(s):
        s += LETTERS + sgl.gen("a", max_tokens=6) + " so " + sgl.gen("b", max_tokens=6, stop="e")

    backend = completions()
    state = chain.run(temperature=0, backend=backend)
    assert state.error() is None, state.error()
    assert state.text() == chain.run(temperature=0).text()  # the native route says the same
    assert backend.token_usage.prompt_tokens > 0 and backend.token_usage.completion_tokens > 0
    return [state.text(), state["a"], state["b"]]


@call
def openai_completion_streamed():
    @sgl.function
    def chain(s):
        s += LETTERS + sgl.gen("a", max_tokens=8)

    state = chain.run(temperature=0, backend=completions(), stream=True)
    assert "".join(state.text_iter()) == state.text()
    assert state.error() is None, state.error()
    assert state.text() == chain.run(temperature=0, backend=completions()).text()
    return state.text()


@call
def openai_several_completions():
    @sgl.function
    def samples(s):
        s += LETTERS + sgl.gen("a", n=3, max_tokens=4)

    state = samples.run(temperature=0, backend=completions())
    assert len(state["a"]) == 3
    return [state["a"], state.text()]


@call
def openai_types():
    @sgl.function
    def typed(s):
        s += "A string: " + sgl.gen("t", dtype=str, max_tokens=6)
        s += " A number: " + sgl.gen("i", dtype=int, max_tokens=4)

    state = typed.run(temperature=0, backend=completions())
    assert state.error() is None, state.error()
    assert state["t"][0] == '"' == state["t"][-1]
    assert all(letter in "0123456789 " for letter in state["i"]), state["i"]


@call
def openai_select():
    @sgl.function
    def choose(s):
        s += "The best is " + sgl.select("x", ["day", "lazy", "night"])

    state = choose.run(temperature=0, backend=completions())
    assert state.error() is None, state.error()
    assert state["x"] in ("day", "lazy", "night")  # by its first token with upstream's, so not compared


@call
def openai_speculation():
    @sgl.function(num_api_spec_tokens=32)
    def sheet(s):
        s += "Name:" + sgl.gen("name", stop=" ") + " House:" + sgl.gen("house", stop=" ") + " End"

    state = sheet.run(temperature=0, backend=completions())
    assert state.error() is None, state.error()
    return [state["name"], state["house"], state.text()]


@call
def openai_chat():
    backend = conversations()
    state = two_turns.run(temperature=0, backend=backend)
    assert state.error() is None, state.error()
    assert backend.token_usage.prompt_tokens > 0 and backend.token_usage.completion_tokens > 0
    return [state["a"], state["b"], state.messages()]


@call
def openai_chat_streamed():
    state = two_turns.run(temperature=0, backend=conversations(), stream=True)
    assert "".join(state.text_iter()) == state.text()
    assert state.error() is None, state.error()
    assert state.text() == two_turns.run(temperature=0, backend=conversations()).text()


@call
def openai_several_answers():
    @sgl.function
    def samples(s):
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("a", n=2, max_tokens=4))

    state = samples.run(temperature=0, backend=conversations())
    assert len(state["a"]) == 2
    return state["a"]


@call
def openai_chat_in_a_batch():
    @sgl.function
    def chat(s, i):
        s += sgl.user(f"Number {i}?")
        s += sgl.assistant(sgl.gen("a", max_tokens=4))

    states = chat.run_batch([{"i": i} for i in range(8)], temperature=0, backend=conversations(), num_threads=4)
    return [state["a"] for state in states]


@call
def openai_chat_speculation():
    @sgl.function(num_api_spec_tokens=16)
    def sheet(s):
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("all", stop="\x00"))

    state = sheet.run(temperature=0, backend=conversations())
    assert state.error() is None, state.error()
    return state["all"]


@call
def openai_chat_selects():
    @sgl.function
    def choose(s):
        s += sgl.user("Which?")
        s += sgl.assistant(sgl.select("x", ["a", "b"]))

    state = choose.run(temperature=0, backend=conversations())
    assert state.error() is None, state.error()
    assert state["x"] in ("a", "b")
