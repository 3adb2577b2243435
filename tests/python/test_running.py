"""run, run_batch, and what surrounds them."""

import contextvars
import pathlib
import re
import threading

import pytest

import espalier as sgl


@sgl.function
def short(s, i=0):
    s += f"{i}: " + sgl.gen("x", max_tokens=2)
    return i


def test_without_a_back_end_the_sentence_says_what_to_do():
    sgl.set_default_backend(None)
    with pytest.raises(ValueError, match="set_default_backend"):
        short.run()
    assert sgl.flush_cache() is False
    assert sgl.get_server_info() is None


def test_the_first_parameter_must_be_s():
    with pytest.raises(TypeError, match="named s"):

        @sgl.function
        def wrong(state):
            pass


def test_an_async_function_is_no_program():
    with pytest.raises(TypeError, match="async"):

        @sgl.function
        async def wrong(s):
            s += "never said"


def test_the_decorator_takes_arguments():
    @sgl.function(num_api_spec_tokens=64)
    def template(s):
        s += "x"

    assert template.num_api_spec_tokens == 64


def test_the_back_end_of_a_call_counts_more_than_the_default(engine):
    sgl.set_default_backend(None)
    assert short.run(backend=engine, temperature=0).ret_value == 0


def test_a_back_end_that_is_none_is_refused():
    with pytest.raises(TypeError, match="no back end"):
        sgl.set_default_backend("http://127.0.0.1")


def test_calling_a_program_runs_it(backend):
    assert short(3, temperature=0).text().startswith("3: ")


def test_an_exception_of_the_function_reaches_the_caller(backend):
    @sgl.function
    def wrong(s):
        s += "text"
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        wrong.run()
    with pytest.raises(LookupError, match="mine"):
        wrong.run_batch([{}, {}])


def test_a_generator_gives_what_comes_before_the_item_that_fails(local):
    late = threading.Event()

    @sgl.function
    def fails(s, i):
        if i == 3:
            late.wait(30)  # item 4 has failed by then
        if i == 4:
            late.set()
            raise LookupError("four")
        s += f"{i}:" + sgl.gen("x", max_tokens=1)
        return i

    had = []
    with pytest.raises(LookupError, match="four"):
        for state in fails.run_batch([{"i": i} for i in range(9)], generator_style=True, num_threads=9, temperature=0):
            had.append(state.ret_value)
    assert had == [0, 1, 2, 3]


def test_items_of_a_batch_must_fit_the_function(backend):
    with pytest.raises(TypeError, match="0 to 1"):
        short.run_batch([(1, 2)])
    with pytest.raises(TypeError):
        short.run_batch([7])


def test_bind_knows_the_parameters():
    with pytest.raises(TypeError, match="colour"):
        short.bind(colour="red")


def test_no_more_functions_run_at_once_than_threads(local):
    running, most, lock = 0, 0, threading.Lock()

    @sgl.function
    def counted(s, i):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        s += "x" + sgl.gen("x", max_tokens=2)
        s["x"]
        with lock:
            running -= 1

    counted.run_batch([{"i": i} for i in range(24)], num_threads=3, temperature=0)
    assert most <= 3


def test_a_generator_can_be_left_early(local):
    results = short.run_batch([{"i": i} for i in range(500)], generator_style=True, temperature=0, num_threads=2)
    assert next(results).ret_value == 0
    results.close()
    assert short.run(7, temperature=0).ret_value == 7


def test_a_batch_of_many_forks_needs_no_thread_for_each(local):
    @sgl.function
    def wide(s, i):
        s += f"{i}"
        forks = s.fork(8)
        forks += sgl.gen("x", max_tokens=1)
        forks.join()

    seen = []

    def threads():
        return int(re.search(r"Threads:\s*(\d+)", pathlib.Path("/proc/self/status").read_text()).group(1))

    before = threads()

    @sgl.function
    def watched(s, i):
        wide.func(s, i)
        seen.append(threads())

    watched.run_batch([{"i": i} for i in range(40)], num_threads=4, temperature=0)
    assert max(seen) - before <= 4 + 4, (before, max(seen))


def test_verbosity_prints_the_text(backend, capsys):
    sgl.global_config.verbosity = 2
    try:
        short.run(5, temperature=0)
    finally:
        sgl.global_config.verbosity = 0
    assert capsys.readouterr().out.startswith("5: ")


def test_verbosity_prints_each_of_a_batch_and_a_stream(backend, capsys):
    sgl.global_config.verbosity = 2
    try:
        short.run_batch([{"i": 5}, {"i": 6}], temperature=0)
        short.run(7, temperature=0, stream=True).sync()
    finally:
        sgl.global_config.verbosity = 0
    out = capsys.readouterr().out
    assert all(f"{i}: " in out for i in (5, 6, 7))


def test_functions_in_other_threads_see_the_context_variables_of_the_call(backend):
    @sgl.function
    def asks(s):
        s += variable.get() + "? " + sgl.select("c", ["yes", "no"], choices_method=Told())

    class Told:
        def __call__(self, *, choices, **_):
            return choices[0], {"told": variable.get()}

    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set")
    state = asks.run(stream=True)
    for one in (state, *asks.run_batch([{}, {}])):
        assert one.text() == "set? yes" and one.get_meta_info("c")["told"] == "set"


def test_a_progress_bar_ends_with_all(backend, capsys):
    short.run_batch([{"i": i} for i in range(5)], progress_bar=True, temperature=0)
    assert "5/5" in capsys.readouterr().err


def test_flush_cache_and_server_info_reach_the_back_end(backend):
    short.run(1, temperature=0).sync()
    assert sgl.flush_cache() is True
    assert sgl.get_server_info()["internal_states"]


def test_usage_is_counted(backend):
    usage = backend.endpoint.token_usage
    calls, tokens = usage.calls, usage.completion_tokens
    short.run(1, temperature=0).sync()
    assert usage.calls > calls and usage.completion_tokens >= tokens + 1
    usage.reset()
    assert usage.calls == usage.prompt_tokens == 0
    short.run(1, temperature=0).sync()
    assert 0 < usage.completion_tokens <= 2 and "prompt_tokens=" in repr(usage)


def test_a_run_without_threads_carries_out_what_is_appended_at_once(backend):
    @sgl.function
    def steps(s):
        s += "One" + sgl.gen("x", max_tokens=2)
        there = "x" in s
        s += sgl.gen("y", max_tokens=2, temperature=-1)
        return there

    with pytest.raises(sgl.ProgramError, match="temperature"):
        steps.run(temperature=0, use_thread=False)
    assert "x" in short.run(1, temperature=0, use_thread=False)
