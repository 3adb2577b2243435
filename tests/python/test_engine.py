"""The offline engine and the server in a process of its own."""

import asyncio
import json
import os
import select
import signal
import subprocess
import sys

import pytest

import espalier as sgl
from small_model import ARGUMENTS, GOLDEN

GREEDY = {"max_new_tokens": 8, "temperature": 0}


def test_a_prompt_gives_a_reply_of_sglangs_shape(engine):
    reply = engine.generate("Hello", GREEDY)
    assert set(reply) >= {"text", "output_ids", "meta_info"}
    meta = reply["meta_info"]
    assert meta["completion_tokens"] == len(reply["output_ids"]) and meta["finish_reason"]["type"] in ("stop", "length")
    assert meta["prompt_tokens"] > 0 and meta["id"]


def test_a_list_gives_a_list_in_order(engine):
    prompts = [f"Prompt {i}" for i in range(9)]
    together = engine.generate(prompts, GREEDY)
    assert [r["text"] for r in together] == [engine.generate(p, GREEDY)["text"] for p in prompts]


def test_each_prompt_has_its_own_parameters(engine):
    replies = engine.generate(["a", "b"], [{**GREEDY, "max_new_tokens": 2, "ignore_eos": True},
                                           {**GREEDY, "max_new_tokens": 3, "ignore_eos": True}])  # fmt: skip
    assert [len(r["output_ids"]) for r in replies] == [2, 3]


def test_ids_take_the_place_of_text(engine):
    tokenizer = engine.get_tokenizer()
    ids = tokenizer.encode("Hello there")
    assert tokenizer.decode(ids) == "Hello there"
    assert engine.generate(input_ids=ids, sampling_params=GREEDY)["text"] == engine.generate("Hello there", GREEDY)["text"]


def test_a_stream_gives_all_text_so_far(engine):
    texts = [chunk["text"] for chunk in engine.generate("Hello", {**GREEDY, "ignore_eos": True}, stream=True)]
    assert len(texts) > 1 and all(later.startswith(earlier) for earlier, later in zip(texts, texts[1:]))
    assert texts[-1] == engine.generate("Hello", {**GREEDY, "ignore_eos": True})["text"]


def test_a_stream_that_is_left_is_cancelled(engine):
    stream = engine.generate("Hello", {"max_new_tokens": 4000, "ignore_eos": True}, stream=True)
    next(stream)
    stream.close()
    del stream
    for _ in range(1000):
        if engine.get_server_info()["internal_states"][0]["num_running_reqs"] == 0:
            return
    raise AssertionError("it went on")


def test_log_probabilities_are_in_the_meta_info(engine):
    reply = engine.generate("Hello", GREEDY, return_logprob=True, logprob_start_len=0, top_logprobs_num=2)
    meta = reply["meta_info"]
    assert len(meta["output_token_logprobs"]) == len(reply["output_ids"])
    assert len(meta["input_token_logprobs"]) == meta["prompt_tokens"]


def test_a_refusal_is_a_value_error_that_names_the_field(engine):
    with pytest.raises(ValueError, match="temperature") as failure:
        engine.generate("x", {"temperature": -1})
    assert failure.value.kind == "bad_request" and "temperature" in failure.value.field
    with pytest.raises(ValueError):
        engine.generate("x", {"temperature": -1}, stream=True).__next__()


def test_an_engine_is_as_a_server_answers(engine, runtime):
    ours, theirs = engine.generate("Same?", GREEDY), json.loads(runtime.generate("Same?", GREEDY))
    assert ours["text"] == theirs["text"] and ours["output_ids"] == theirs["output_ids"]


def test_a_generating_model_makes_no_embeddings_and_says_so(engine, runtime):
    for one in (engine, runtime):
        with pytest.raises(NotImplementedError, match="--is-embedding"):
            one.encode("text")


def test_an_embedding_engine_gives_vectors_and_ranks(model):
    with sgl.Engine(**model, is_embedding=True) as one:
        first, second = one.embed(["the quick brown fox", "another text"])
        assert one.encode("the quick brown fox")["embedding"] == first != second
        assert one.embed("the quick brown fox", dimensions=8)[0] == pytest.approx(
            [x / sum(y * y for y in first[:8]) ** 0.5 for x in first[:8]], abs=1e-6)
        ranked = one.rerank("the quick brown fox", ["another text", "the quick brown fox"], top_n=1)
        assert ranked[0]["index"] == 1 and ranked[0]["relevance_score"] == pytest.approx(1, abs=1e-6)
        with pytest.raises(ValueError, match="input\\[1\\]"):
            one.embed(["a", " "])
        with pytest.raises(ValueError, match="generates no text"):
            one.generate("x", GREEDY)


def test_an_embedding_engine_takes_adapters():
    adapter = GOLDEN.parents[1] / "lora" / "lora-one-layer"
    with sgl.Engine(model_path=str(GOLDEN), **ARGUMENTS, is_embedding=True, lora_paths={"mine": str(adapter)}) as one:
        texts = ["the quick brown fox"] * 2
        plain, adapted = (reply["embedding"] for reply in one.encode(texts, lora_path=[None, "mine"]))
        assert plain == one.encode(texts[0])["embedding"] != adapted
        assert one.embed(texts, lora_path="mine") == [adapted] * 2
        with pytest.raises(sgl.ProgramError, match="nobody"):
            one.encode("a", lora_path="nobody")


def test_an_engine_that_was_shut_down_refuses(model):
    engine = sgl.Engine(**model)
    backend = engine.endpoint
    state = sgl.function(lambda s: s.__iadd__("x" + sgl.gen("y", max_tokens=1))).run(backend=backend, temperature=0)
    assert "y" in state or state["y"] is not None
    engine.shutdown()
    engine.shutdown()
    with pytest.raises(sgl.ProgramError, match="shut down"):
        engine.generate("x")


def test_flags_that_cannot_be_honoured_say_why(model):
    with pytest.raises(NotImplementedError, match="one process"):
        sgl.Engine(**model, tp_size=2)
    with pytest.raises(ValueError):
        sgl.Engine(**model, no_such_flag=1)
    with pytest.raises(sgl.ProgramError):
        sgl.Engine(model_path="/nowhere/at/all")


def test_flags_of_other_engines_are_accepted(model):
    with sgl.Engine(**model, tp_size=1, mem_fraction_static=0.2, disable_cuda_graph=True, trust_remote_code=True) as one:
        assert one.generate("x", GREEDY)["output_ids"]


def test_a_chat_template_may_be_named(model):
    @sgl.function
    def chat(s):
        s += sgl.user("Hi")

    with sgl.Engine(**model, chat_template="chatml") as engine:
        assert "<|im_start|>user\nHi<|im_end|>" in chat.run(backend=engine).text()


def test_a_chat_template_may_be_set_later(model):
    from espalier.lang.chat_template import get_chat_template

    @sgl.function
    def chat(s):
        s += sgl.user("Hi")

    with sgl.Engine(**model) as engine, sgl.Runtime(**model) as runtime:
        for endpoint in (engine.endpoint, runtime.endpoint):
            own = chat.run(backend=endpoint).text()
            endpoint.chat_template = get_chat_template("chatml")
            assert endpoint.get_chat_template().name == "chatml"
            assert "<|im_start|>user\nHi<|im_end|>" in chat.run(backend=endpoint).text() != own
    with pytest.raises(ValueError, match="when it is opened"):
        sgl.OpenAI("m", api_key="k").chat_template = "chatml"
    with pytest.raises(ValueError, match="zzz"):
        get_chat_template("zzz")


def test_a_runtime_is_a_server_of_its_own(runtime):
    assert runtime.url.startswith("http://127.0.0.1:") and runtime.endpoint.base_url == runtime.url
    assert runtime.endpoint.get_model_name()
    runtime.cache_prefix("the quick brown fox jumps over the lazy other day")
    reply = json.loads(runtime.generate("the quick brown fox jumps over the lazy other day", GREEDY))
    assert reply["meta_info"]["cached_tokens"] > 0
    assert runtime.get_tokenizer().encode("Hello")


def test_a_runtime_that_cannot_start_tells_what_the_server_said():
    with pytest.raises(sgl.ProgramError, match="nowhere"):
        sgl.Runtime(model_path="/nowhere/at/all")


def test_a_runtime_that_is_not_ready_in_time_is_a_timeout(model):
    with pytest.raises(TimeoutError, match="not ready within"):
        sgl.Runtime("error", 0.0, **model)


def test_a_runtime_tells_of_itself_in_the_loop(runtime):
    assert asyncio.run(runtime.get_server_info())["model_path"]


def test_a_runtime_ends_with_its_block(model):
    with sgl.Runtime(**model) as runtime:
        pid = runtime.pid
        assert runtime.generate("x", GREEDY)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_runtime_ends_with_a_python_that_is_killed_and_not_with_the_thread_that_made_it(model):
    script = f"""
import espalier as sgl, sys, threading
made = []
starter = threading.Thread(target=lambda: made.append(sgl.Runtime(**{model!r})))
starter.start()
starter.join()
assert made[0].generate("x", {GREEDY!r})
print(made[0].pid, flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as python:
        server = os.pidfd_open(int(python.stdout.readline()))
        assert not select.select([server], [], [], 0)[0]
        python.kill()
    ended, _, _ = select.select([server], [], [], 60)
    if not ended:
        signal.pidfd_send_signal(server, signal.SIGKILL)
    os.close(server)
    assert ended, "the server outlived the Python that had started it"


def test_an_endpoint_that_is_not_there_is_an_error_of_the_network():
    with pytest.raises(sgl.ProgramError) as failure:
        sgl.RuntimeEndpoint("http://127.0.0.1:1", max_retries=0)
    assert failure.value.kind == "network"


def test_certificates_are_verified_where_there_are_any(runtime):
    assert sgl.RuntimeEndpoint(runtime.url, verify=False).get_model_name()
    with pytest.raises(NotImplementedError, match="SSL_CERT_FILE"):
        sgl.RuntimeEndpoint("https://127.0.0.1:1", verify=False)


def test_a_key_is_sent_and_asked_for(model):
    with sgl.Runtime(**model, api_key="secret") as runtime:
        assert sgl.RuntimeEndpoint(runtime.url, "secret").get_model_name()
        with pytest.raises(sgl.ProgramError) as failure:
            sgl.RuntimeEndpoint(runtime.url, "wrong")
        assert failure.value.kind == "unauthorized"


@pytest.mark.parametrize("module, words", [("launch_server", ["--max-total-tokens"]), ("bench_serving", ["--dataset-name", "--num-prompts"])])
def test_the_programs_of_sglang_are_there(module, words):
    told = subprocess.run([sys.executable, "-m", f"espalier.{module}", "--help"], capture_output=True, text=True, timeout=60)
    assert told.returncode == 0 and all(word in told.stdout for word in words), told
