"""Programs and engines inside an event loop: nothing blocks it."""

import asyncio

import pytest

import espalier as sgl


@sgl.function
def story(s, length=40):
    s += "Once" + sgl.gen("story", max_tokens=length, ignore_eos=True)


async def ticks(stop):
    count = 0
    while not stop.is_set():
        count += 1
        await asyncio.sleep(0)
    return count


def test_the_loop_goes_on_while_pieces_are_waited_for(backend):
    async def main():
        stop = asyncio.Event()
        ticking = asyncio.create_task(ticks(stop))
        state = story.run(stream=True, temperature=0)
        pieces = [piece async for piece in state.text_async_iter("story")]
        stop.set()
        return pieces, await ticking, state

    pieces, count, state = asyncio.run(main())
    assert "".join(pieces) == state["story"]
    assert count > len(pieces)


def test_many_states_are_read_at_once(backend):
    async def read(state):
        return "".join([piece async for piece in state.text_async_iter()])

    async def main():
        states = [story.run(stream=True, temperature=0) for _ in range(20)]
        return states, await asyncio.gather(*map(read, states))

    states, texts = asyncio.run(main())
    assert texts == [state.text() for state in states]


def test_pieces_come_with_meta_data_of_all_so_far(backend):
    @sgl.function
    def scored(s):
        s += "Once" + sgl.gen("x", max_tokens=12, ignore_eos=True, return_logprob=True)

    async def main():
        state = scored.run(stream=True, temperature=0)
        return state, [item async for item in state.text_async_iter("x", return_meta_data=True)]

    state, items = asyncio.run(main())
    assert "".join(text for text, _ in items) == state["x"]
    lists = [meta["output_token_logprobs"] for _, meta in items]
    assert all(later[: len(earlier)] == earlier for earlier, later in zip(lists, lists[1:]))
    assert lists[-1] == state.get_meta_info("x")["output_token_logprobs"], "some were lost"


def test_a_run_without_stream_gives_the_value_once(backend):
    async def main():
        state = story.run(temperature=0)
        return state, [piece async for piece in state.text_async_iter("story")]

    state, pieces = asyncio.run(main())
    assert pieces == [state["story"]]


def test_a_reader_that_is_cancelled_leaves_the_state_alone(backend):
    async def read(state, first):
        async for _ in state.text_async_iter("story"):
            first.set()

    async def main():
        first = asyncio.Event()
        state = story.run(length=3000, stream=True, temperature=0)
        task = asyncio.create_task(read(state, first))
        await first.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return state

    assert len(asyncio.run(main())["story"]) > 0


def test_an_engine_answers_in_the_loop(engine):
    async def main():
        stop = asyncio.Event()
        ticking = asyncio.create_task(ticks(stop))
        whole = await asyncio.gather(
            *(engine.async_generate(f"Prompt {i}", {"max_new_tokens": 8, "temperature": 0}) for i in range(5))
        )
        pieces = []
        stream = await engine.async_generate("Prompt 0", {"max_new_tokens": 8, "temperature": 0}, stream=True)
        async for chunk in stream:
            pieces.append(chunk)
        stop.set()
        return whole, pieces, await ticking

    whole, pieces, count = asyncio.run(main())
    assert pieces[-1]["text"] == whole[0]["text"] and count > 0
    assert len(pieces) > 1


def test_a_refusal_is_raised_in_the_loop(engine):
    with pytest.raises(ValueError, match="temperature"):
        asyncio.run(engine.async_generate("x", {"temperature": -1}))


def test_a_runtime_streams_in_the_loop(runtime):
    async def main():
        return [piece async for piece in runtime.async_generate("Once", {"max_new_tokens": 8, "temperature": 0})]

    pieces = asyncio.run(main())
    assert len(pieces) > 1


def test_each_loop_has_its_own_waker(backend):
    async def main():
        state = story.run(length=4, stream=True, temperature=0)
        return "".join([piece async for piece in state.text_async_iter("story")])

    assert len({asyncio.run(main()) for _ in range(5)}) == 1
