"""What a state does beyond what programs.py shows: waiting, errors, meta info, pictures."""

import base64
import time

import pytest

import espalier as sgl

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def test_appending_does_not_wait_and_reading_does(backend):
    @sgl.function
    def look(s):
        s += "Count: " + sgl.gen("x", max_tokens=3900, ignore_eos=True)
        return "x" in s

    state = look.run(temperature=0)
    assert state.ret_value is False
    assert len(state["x"]) > 0 and "x" in state


def test_none_cannot_be_appended(backend):
    @sgl.function
    def wrong(s):
        s += None

    with pytest.raises(ValueError, match="None"):
        wrong.run()


def test_what_is_no_text_cannot_be_appended(backend):
    @sgl.function
    def wrong(s):
        s += 5

    with pytest.raises(TypeError, match="int"):
        wrong.run()


def test_a_variable_that_was_never_set_is_a_key_error(backend):
    @sgl.function
    def nothing(s):
        s += "text"

    state = nothing.run()
    with pytest.raises(KeyError):
        state["x"]
    with pytest.raises(KeyError):
        state.get_var("x")


def test_what_no_call_gave_has_no_meta_info(backend):
    @sgl.function
    def by_hand(s):
        s["x"] = "mine"
        with s.var_scope("y"):
            s += "text"

    state = by_hand.run()
    assert [state.get_meta_info(name) for name in ("x", "y", "never set")] == [None] * 3


def test_meta_info_has_a_time_limit(backend):
    @sgl.function
    def slow(s):
        s += "Count: " + sgl.gen("x", max_tokens=3900, ignore_eos=True)

    state = slow.run(temperature=0)
    with pytest.raises(TimeoutError):
        state.get_meta_info("x", timeout=0.0)
    assert state.stream_executor.get_meta_info("x", timeout=60)["completion_tokens"] == 3900


def test_a_dropped_state_cancels_what_it_queued(local):
    @sgl.function
    def slow(s):
        for i in range(50):
            s += sgl.gen(f"x{i}", max_tokens=60, ignore_eos=True)

    began = time.monotonic()
    slow.run(temperature=0).sync()
    whole = time.monotonic() - began
    state = slow.run(temperature=0)
    del state
    began = time.monotonic()
    while local.get_server_info()["internal_states"][0]["num_running_reqs"] > 0:
        assert time.monotonic() - began < whole, "the dropped state went on to its end"
        time.sleep(0.001)


def test_cancel_ends_a_state_and_its_reads(backend):
    @sgl.function
    def slow(s):
        s += "Count: " + sgl.gen("x", max_tokens=3900, ignore_eos=True)

    state = slow.run(temperature=0)
    state.cancel()
    with pytest.raises(sgl.ProgramError) as failure:
        state["x"]
    assert failure.value.kind == "cancelled"


def test_roles_do_not_nest(backend):
    @sgl.function
    def nested(s):
        with s.user():
            s += sgl.user("inner")

    state = nested.run()
    assert "nest" in str(state.error())


def test_pictures_travel_in_messages_with_their_own_type(backend, tmp_path):
    file = tmp_path / "dot.png"
    file.write_bytes(PNG)

    class Drawn:
        def save(self, out, format):
            assert format == "PNG"
            out.write(PNG)

    @sgl.function
    def look(s):
        s += sgl.user(sgl.image(str(file)) + "What is this? " + sgl.image(PNG) + sgl.image(file) + sgl.image(Drawn()))

    content = look.run().messages()[-1]["content"]
    pictures = [part for part in content if part["type"] == "image_url"]
    assert len(pictures) == 4
    for part in pictures:
        head, data = part["image_url"]["url"].split(",")
        assert head == "data:image/png;base64" and base64.b64decode(data) == PNG


def test_a_picture_that_is_none_is_refused_at_once(backend, tmp_path):
    with pytest.raises(sgl.ProgramError):
        sgl.image(str(tmp_path / "absent.png"))
    with pytest.raises(sgl.ProgramError):
        sgl.image(b"no picture")
    with pytest.raises(TypeError):
        sgl.image(7)


def test_a_model_that_sees_nothing_says_so(local):
    @sgl.function
    def look(s):
        s += sgl.user(sgl.image(PNG) + "What is this?")
        s += sgl.assistant(sgl.gen("x", max_tokens=2))

    state = look.run()
    with pytest.raises(KeyError, match="picture|image"):
        state["x"]
    assert state.error() is not None


def test_scopes_of_one_name_nest(backend):
    @sgl.function
    def nested(s):
        with s.var_scope("v"):
            s += "a"
            with s.var_scope("v"):
                s += "b"
            s += "c"

    assert nested.run()["v"] == "abc"
    assert nested.compile().run()["v"] == "abc"


def test_forks_of_a_fork_know_what_came_before(backend):
    @sgl.function
    def deep(s):
        s += "a"
        with s.copy() as t:
            t += "b"
            with t.copy() as u:
                u += "c" + sgl.gen("x", max_tokens=1)
                return u.text()

    assert deep.run(temperature=0).ret_value.startswith("abc")


def test_children_of_a_fork_cannot_be_replaced(backend):
    @sgl.function
    def swap(s):
        forks = s.fork(2)
        forks[0] = forks[1]

    with pytest.raises(ValueError):
        swap.run()


def test_a_state_fails_that_a_branch_which_failed_is_appended_to(backend):
    @sgl.function
    def gather(s):
        s += "Start." + sgl.gen("early", max_tokens=1)
        forks = s.fork(2)
        forks += lambda i: sgl.gen("v", max_tokens=1, temperature=-i)
        forks.join("concate_and_append")
        s += sgl.gen("late", max_tokens=1)

    for state in (gather.run(temperature=0), gather.compile(temperature=0).run()):
        assert state["early"] is not None and "temperature" in str(state.error())
        with pytest.raises(KeyError, match="temperature"):
            state["late"]


def test_pieces_of_a_variable_that_never_comes_are_a_key_error(backend):
    @sgl.function
    def short(s):
        s += "One" + sgl.gen("x", max_tokens=1)

    for stream in (False, True):
        with pytest.raises(KeyError, match="zzz"):
            list(short.run(temperature=0, stream=stream).text_iter("zzz"))


def test_join_refuses_other_modes(backend):
    @sgl.function
    def odd(s):
        s.fork(2).join("sideways")

    with pytest.raises(ValueError, match="gather_variable"):
        odd.run()


def test_reasoning_is_separated(backend):
    @sgl.function
    def think(s):
        s += sgl.user("Why?")
        s += sgl.assistant(
            sgl.separate_reasoning(
                sgl.gen("answer", regex="<think>because</think>yes", max_tokens=64), model_type="deepseek-r1"
            )
        )

    state = think.run(temperature=0)
    assert state["answer"] == "yes"
    assert state["answer_reasoning_content"] == "because"
    assert state.messages()[-1]["content"] == "yes"
