"""For each [defect] that the reference (sglang-language.md) marks: the better behaviour."""

import base64
import http.server
import json
import shutil
import threading

import pytest

import espalier as sgl
from test_state import PNG


def test_several_samples_work_over_http(backend):
    @sgl.function
    def samples(s):
        s += "List: " + sgl.gen("x", n=2, max_tokens=3, temperature=1, seed=1)

    state = samples.run()
    assert len(state["x"]) == 2 and state.text() == "List: " + state["x"][0]


@pytest.mark.parametrize(
    "method", [sgl.token_length_normalized, sgl.greedy_token_selection, sgl.unconditional_likelihood_normalized], ids=repr
)
def test_select_scores_only_the_choices_tokens(backend, method):
    choices = ["day", "the quick brown fox jumps over the lazy other"]

    @sgl.function
    def choose(s):
        s += "The best of all is "
        s += sgl.select("x", choices, choices_method=method)

    meta = choose.run().get_meta_info("x")
    for choice, tokens in zip(choices, meta["input_token_logprobs"]):
        assert all(isinstance(entry[0], float) for entry in tokens), "a null among the values"
        assert "".join(entry[2] for entry in tokens).strip() in ("is " + choice, choice)
    means = [sum(e[0] for e in tokens) / len(tokens) for tokens in meta["input_token_logprobs"]]
    assert meta["normalized_prompt_logprobs"] == pytest.approx(means)


def test_a_renamed_model_folder_changes_no_prompt(model, tmp_path):
    if "load_format" not in model:
        pytest.skip("needs a model in a folder of its own")

    @sgl.function
    def chat(s):
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("x", max_tokens=1))

    texts = []
    for name in ("vicuna-v1.1-chat", "llama-2-chat"):
        shutil.copytree(model["model_path"], tmp_path / name)
        with sgl.Engine(**{**model, "model_path": str(tmp_path / name)}) as engine:
            texts.append(chat.run(backend=engine, temperature=0).text())
    assert texts[0] == texts[1] and texts[0].startswith("<|bos|><|user|>Hello<|end|><|assistant|>")


def test_a_fork_right_behind_a_long_text_computes_it_once(backend):
    @sgl.function
    def branches(s, text):
        s += text
        forks = s.fork(6)
        forks += lambda i: f"{i}" + sgl.gen("x", max_tokens=1)
        return [f.get_meta_info("x") for f in forks]

    text = "the quick brown fox jumps over the lazy other " * 12
    told = branches.run(text, temperature=0).ret_value
    computed = [meta["prompt_tokens"] - meta["cached_tokens"] for meta in told]
    assert sum(computed) <= told[0]["prompt_tokens"] + 4 * len(told), computed


def test_children_are_joined_by_appending_over_http(backend):
    @sgl.function
    def gather(s):
        s += "Start."
        forks = s.fork(2)
        forks += lambda i: f" Part {i}."
        forks.join("concate_and_append")

    assert gather.run().text() == "Start. Part 0. Part 1."


def test_a_state_holds_many_pictures_of_their_own_types(backend):
    gif = base64.b64decode("R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7")

    @sgl.function
    def look(s):
        s += sgl.user("One: " + sgl.image(PNG) + " two: " + sgl.image(gif))

    parts = look.run().messages()[-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    assert [url.split(";")[0] for url in urls] == ["data:image/png", "data:image/gif"]


def test_stops_do_not_accumulate(backend):
    @sgl.function
    def chat(s):
        for i in range(3):
            s += sgl.user("Hello")
            s += sgl.assistant(sgl.gen(f"x{i}", stop="z", max_tokens=2))

    defaults = ["q"]
    first = chat.run(stop=defaults, temperature=0).text()
    assert defaults == ["q"] and chat.run(stop=defaults, temperature=0).text() == first


def test_a_failed_call_tells_why_where_its_variable_is_read(backend):
    @sgl.function
    def wrong(s):
        s += "Hello" + sgl.gen("x", max_tokens=2, temperature=-1.0)
        s += sgl.gen("y", max_tokens=2)

    state = wrong.run()
    for name in ("x", "y"):
        with pytest.raises(KeyError, match="temperature") as failure:
            state[name]
        assert failure.value.kind == "bad_request"
    assert "temperature" in str(state.error())


def test_other_states_go_on_when_one_fails(backend):
    @sgl.function
    def mixed(s, i):
        s += "Hello" + sgl.gen("x", max_tokens=2, temperature=-1.0 if i == 1 else 0)

    states = mixed.run_batch([{"i": i} for i in range(3)])
    assert [s.error() is None for s in states] == [True, False, True]
    assert states[0]["x"] == states[2]["x"]


class _Anthropic(http.server.BaseHTTPRequestHandler):
    """Answers /v1/messages and keeps what it was asked."""

    asked: list = []

    def do_POST(self):
        self.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        reply = {
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "stop_sequence": None, "content": [{"type": "text", "text": "Fine."}],
            "usage": {"input_tokens": 3, "output_tokens": 2},
        }  # fmt: skip
        data = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


def test_anthropic_leaves_the_system_message_in_the_state():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Anthropic)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    backend = sgl.Anthropic("m", api_key="k", base_url=f"http://127.0.0.1:{server.server_port}")

    @sgl.function
    def chat(s):
        s += sgl.system("Be brief.")
        s += sgl.user("How are you?")
        s += sgl.assistant(sgl.gen("x", max_tokens=5))
        s += sgl.user("And now?")
        s += sgl.assistant(sgl.gen("y", max_tokens=5))

    try:
        state = chat.run(backend=backend)
        assert state["x"] == state["y"] == "Fine."
        assert state.messages()[0] == {"role": "system", "content": "Be brief."}
        assert all(asked["system"] for asked in _Anthropic.asked) and len(_Anthropic.asked) == 2
    finally:
        server.shutdown()


@pytest.fixture
def completions(runtime):
    return sgl.OpenAI("default", is_chat_model=False, base_url=runtime.url + "/v1", api_key="unused", timeout=60)


def test_speculation_is_safe_in_a_batch(completions):
    @sgl.function(num_api_spec_tokens=24)
    def sheet(s, name):
        s += f"Name: {name}\nFirst:" + sgl.gen("first", stop=" ", max_tokens=6)
        s += "\nSecond:" + sgl.gen("second", stop=" ", max_tokens=6)

    items = [{"name": name} for name in ("Ada", "Bob", "Cyd", "Dan")]
    together = sheet.run_batch(items, backend=completions, temperature=0)
    alone = [sheet.run(**item, backend=completions, temperature=0) for item in items]
    assert [s.text() for s in together] == [s.text() for s in alone]
