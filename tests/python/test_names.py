"""The names, arguments and defaults of the reference (sglang-language.md sections 1, 2, 3, 7)."""

import copy
import inspect
import pickle
import re
import subprocess
import sys

import pytest

import espalier as sgl

NAMES = """function gen gen_int gen_string select system user assistant system_begin system_end user_begin user_end
assistant_begin assistant_end image video separate_reasoning set_default_backend flush_cache get_server_info RuntimeEndpoint
Runtime Engine OpenAI Anthropic VertexAI LiteLLM Crusoe token_length_normalized greedy_token_selection
unconditional_likelihood_normalized global_config""".split()


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_there_and_documented(name):
    value = getattr(sgl, name)
    assert name in sgl.__all__ and name in dir(sgl)
    if inspect.isfunction(value) or inspect.isclass(value):
        assert inspect.getdoc(value)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        sgl.no_such_name


def test_back_ends_are_imported_when_they_are_asked_for():
    script = "import sys, espalier; assert not any('backend.openai' in m or m == 'espalier.runtime' for m in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)


def test_gen_takes_its_arguments_in_sglangs_order():
    names = list(inspect.signature(sgl.gen).parameters)
    assert names[:23] == """name max_tokens min_tokens n stop stop_token_ids stop_regex temperature top_p top_k min_p
        frequency_penalty presence_penalty ignore_eos return_logprob logprob_start_len top_logprobs_num
        return_text_in_logprobs dtype choices choices_method regex json_schema""".split()
    assert all(p.default is None for p in inspect.signature(sgl.gen).parameters.values())


def test_run_has_sglangs_defaults():
    defaults = {n: p.default for n, p in inspect.signature(sgl.function(lambda s: None).run).parameters.items()}
    expected = dict(max_new_tokens=128, n=1, temperature=1.0, top_p=1.0, top_k=-1, min_p=0.0, frequency_penalty=0.0,
                    presence_penalty=0.0, ignore_eos=False, stream=False, backend=None, use_thread=True)  # fmt: skip
    assert expected.items() <= defaults.items()


def test_built_in_patterns_are_sglangs():
    from espalier.lang import ir

    assert ir.REGEX_INT == r"[-+]?[0-9]+[ \n]*" and ir.REGEX_FLOAT == r"[-+]?[0-9]*\.?[0-9]+[ \n]*"
    assert ir.REGEX_BOOL == r"(True|False)" and ir.REGEX_STR == r'"[\w\d\s]*"'


@pytest.mark.parametrize("dtype", [list, "integer", 3])
def test_other_types_are_a_runtime_error(dtype):
    with pytest.raises(RuntimeError, match="dtype"):
        sgl.gen("x", dtype=dtype)


def test_a_type_wins_over_a_pattern_with_a_warning():
    with pytest.warns(UserWarning, match="dtype"):
        sgl.gen("x", dtype=int, regex="a")


@pytest.mark.parametrize("wrong", [{"regex": "("}, {"regex": "a", "json_schema": "{}"}, {"choices": []}])
def test_wrong_options_are_refused_when_the_node_is_made(wrong):
    with pytest.raises(ValueError):
        sgl.gen("x", **wrong)


def test_a_pattern_that_is_none_is_the_error_of_pythons_patterns():
    with pytest.raises(re.error) as failure:
        sgl.gen("x", regex="(")
    assert isinstance(failure.value, sgl.ProgramError) and failure.value.field == "regex"
    assert str(pickle.loads(pickle.dumps(failure.value))) == str(failure.value)
    with pytest.raises(ValueError) as failure:
        sgl.gen("x", regex="a", ebnf="b")
    assert not isinstance(failure.value, re.error)


def test_select_needs_choices():
    with pytest.raises(ValueError):
        sgl.select("x")


@pytest.mark.parametrize("wrong", ["abc", [1, 2]])
def test_choices_are_several_texts(wrong):
    for make in (lambda: sgl.select("x", wrong), lambda: sgl.gen("x", choices=wrong)):
        with pytest.raises(TypeError, match="choices"):
            make()


def test_nodes_can_be_copied():
    both = sgl.user("a" + sgl.gen("x"))
    assert len(copy.copy(both)) == len(copy.deepcopy(both)) == len(both)


def test_nodes_and_texts_add_up():
    both = "a" + sgl.gen("x") + "b" + sgl.user("c")
    assert len(both) > 4
    with pytest.raises(TypeError):
        sgl.gen("x") + 5


LOGPROBS = {
    "choices": ["a", "bc"],
    "normalized_prompt_logprobs": [-1.0, -1.5],
    "input_token_logprobs": [[(-1.0, 1, "a")], [(-0.5, 2, "b"), (-2.5, 3, "c")]],
    "output_token_logprobs": [[], []],
    "unconditional_token_logprobs": [[(None, 1, "a")], [(None, 2, "b"), (-4.0, 3, "c")]],
}


@pytest.mark.parametrize("method, decision", [
    (sgl.token_length_normalized, "a"), (sgl.greedy_token_selection, "bc"), (sgl.unconditional_likelihood_normalized, "bc"),
], ids=repr)  # fmt: skip
def test_choice_methods_can_be_called(method, decision):
    assert method(**LOGPROBS).decision == decision
    assert method.requires_unconditional_logprobs == (method is sgl.unconditional_likelihood_normalized)


def test_errors_are_the_ones_that_programs_expect_and_can_be_sent():
    from espalier.errors import make_error

    assert isinstance(make_error("bad_request", "x"), ValueError)
    assert isinstance(make_error("timeout", "x"), TimeoutError)
    assert isinstance(make_error("unsupported", "x"), NotImplementedError)
    assert isinstance(make_error("network", "x", variable=True), KeyError)
    again = pickle.loads(pickle.dumps(make_error("bad_request", "a sentence", "top_p", "code")))
    assert (again.message, again.kind, again.field, str(again)) == ("a sentence", "bad_request", "top_p", "a sentence")


def test_a_key_is_asked_for(monkeypatch):
    for name in ("CRUSOE_API_KEY", "ANTHROPIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for open_it in (lambda: sgl.Crusoe("m"), lambda: sgl.Anthropic("m")):
        with pytest.raises(sgl.ProgramError) as failure:
            open_it()
        assert failure.value.kind == "unauthorized"


def test_safety_settings_are_taken_as_googles_clients_have_them():
    from espalier.lang.backend.vertexai import _safety

    class Member:
        name = "BLOCK_NONE"

    assert _safety(None) == {} and _safety({"A": Member}) == {"A": "BLOCK_NONE"}
    assert _safety([{"category": "A", "threshold": "B"}]) == {"A": "B"}
    assert sgl.VertexAI("m", {"A": "B"}, api_key="k").model_name == "m"


@pytest.mark.parametrize("open_it", [sgl.OpenAI, sgl.Anthropic, sgl.VertexAI])
def test_a_model_behind_an_interface_has_its_name_and_the_template_that_is_named(open_it):
    for backend in (open_it("m", api_key="k"), open_it(model="m", api_key="k", chat_template="chatml")):
        assert backend.get_model_name() == backend.model_name == "m"
    assert backend.chat_template.name == "chatml"
    with pytest.raises(TypeError, match="model_name"):
        open_it(api_key="k")


def test_crusoe_takes_its_arguments_in_sglangs_order(runtime):
    backend = sgl.Crusoe("m", "key", runtime.url + "/v1", "chatml")
    assert backend.chat_template.name == "chatml"


def test_litellm_without_the_package_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(NotImplementedError, match="pip install litellm"):
        sgl.LiteLLM("openai/gpt-4o-mini")


def test_litellm_says_where_a_model_is(monkeypatch, runtime):
    import types

    known = types.SimpleNamespace(
        get_llm_provider=lambda model, api_base, api_key: (model.split("/", 1)[1], "openai", "key", runtime.url + "/v1")
    )
    monkeypatch.setitem(sys.modules, "litellm", known)
    backend = sgl.LiteLLM("openai/default")
    assert backend.get_model_name() == "openai/default"

    @sgl.function
    def chat(s):
        s += sgl.user("Hello")
        s += sgl.assistant(sgl.gen("x", max_tokens=2))

    @sgl.function
    def plain(s):
        s += "Hello" + sgl.gen("x", max_tokens=2)

    for program in (chat, plain):
        assert program.run(backend=backend, temperature=0).error() is None
