"""run, run_batch, and what surrounds them."""

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


def test_a_progress_bar_ends_with_all(backend, capsys):
    short.run_batch([{"i": i} for i in range(5)], progress_bar=True, temperature=0)
    assert "5/5" in capsys.readouterr().err


def test_flush_cache_and_server_info_reach_the_back_end(backend):
    short.run(1, temperature=0).sync()
    assert sgl.flush_cache() is True
    assert sgl.get_server_info()["internal_states"]


def test_usage_is_counted(backend):
    native = getattr(backend, "endpoint", backend)
    before = native.token_usage
    short.run(1, temperature=0).sync()
    after = native.token_usage
    assert after.calls > before.calls and after.completion_tokens >= before.completion_tokens + 1


def test_run_without_threads_has_ended_when_it_returns(backend):
    state = short.run(1, temperature=0, use_thread=False)
    assert "x" in state
