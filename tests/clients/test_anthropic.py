"""Anthropic's Python client: messages, thinking, tools, counts and errors, whole and streamed."""
import asyncio
import unittest

import anthropic

from served import ASK, FORECAST, KEY, NAME, TOOLS, ClientCase, OnSmolLM2, ThinkingCase, check_call

USER = [{"role": "user", "content": ASK}]
GREEDY = {"temperature": 0}  # which this client has no argument for
CUSTOM = [{"name": tool["function"]["name"], "description": tool["function"]["description"],
           "input_schema": tool["function"]["parameters"]} for tool in TOOLS]


def told(message):
    """What a message says, without what differs from one answer to the next."""
    blocks = [block.model_dump(exclude={"id", "signature", "parsed_output"}, exclude_none=True) for block in message.content]
    return blocks, message.stop_reason, message.stop_sequence, message.usage.output_tokens


def prompt_tokens(usage):
    return usage.input_tokens + (usage.cache_read_input_tokens or 0) + (usage.cache_creation_input_tokens or 0)


class Asking:
    """How both models are asked."""

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.url, api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)

    def same_whole_and_streamed(self, **more):
        asked = {"model": NAME, "max_tokens": 40, "messages": USER, "extra_body": GREEDY, **more}
        whole = self.client.messages.create(**asked)
        with self.client.messages.stream(**asked) as stream:
            text = "".join(stream.text_stream)
            streamed = stream.get_final_message()
        self.assertEqual(told(streamed), told(whole))
        self.assertEqual(text, "".join(block.text for block in whole.content if block.type == "text"))
        return whole


class Anthropic(Asking, ClientCase):
    def test_text_streams_as_it_is_told_whole(self):
        self.assertEqual([block.type for block in self.same_whole_and_streamed().content], ["text"])
        self.same_whole_and_streamed(stop_sequences=["e", "a"], system="Be brief.")

    def test_tools_are_called_told_their_results_and_answered(self):
        messages = list(USER)
        for turn in range(3):
            message = self.same_whole_and_streamed(messages=messages, tools=CUSTOM, max_tokens=300,
                                                   tool_choice={"type": "any", "disable_parallel_tool_use": True})
            self.assertEqual(message.stop_reason, "tool_use")
            call, = message.content
            check_call(self, call.name, call.input)
            messages += [{"role": "assistant", "content": message.content},  # the SDK's own objects go back
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": FORECAST}]}]
        answer = self.same_whole_and_streamed(messages=messages, tools=CUSTOM, tool_choice={"type": "none"})
        self.assertTrue(answer.content[0].text)

    def test_a_failed_tool_and_results_in_blocks_go_back(self):
        messages = USER + [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rome", "days": 1}},
                                              {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": {"city": "Oslo", "days": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_2", "is_error": True, "content": "no such city"},
                                         {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": FORECAST}]},
                                         {"type": "text", "text": "Well?"}]}]
        self.assertTrue(self.same_whole_and_streamed(messages=messages, tools=CUSTOM, tool_choice={"type": "none"}).content)

    def test_parallel_calls_are_blocks_of_their_own(self):
        message = self.same_whole_and_streamed(tools=CUSTOM, tool_choice={"type": "any"}, max_tokens=300)
        self.assertEqual({block.type for block in message.content}, {"tool_use"})
        self.assertEqual(len({block.id for block in message.content}), len(message.content))

    def test_tokens_are_counted_as_they_are_used(self):
        for more in ({}, {"system": "Be brief."}, {"tools": CUSTOM}):
            count = self.client.messages.count_tokens(model=NAME, messages=USER, **more).input_tokens
            message = self.client.messages.create(model=NAME, messages=USER, max_tokens=1, **more)
            self.assertEqual(count, prompt_tokens(message.usage))

    def test_refusals_are_typed_exceptions(self):
        asked = {"model": NAME, "max_tokens": 5, "messages": USER}
        with self.assertRaises(anthropic.NotFoundError):
            self.client.messages.create(**{**asked, "model": "no-such-model"})
        with self.assertRaises(anthropic.BadRequestError) as wrong:
            self.client.messages.create(**asked, extra_body={"temperature": 7})
        self.assertEqual(wrong.exception.body["error"]["type"], "invalid_request_error")
        with self.assertRaises(anthropic.BadRequestError):
            with self.client.messages.stream(**{**asked, "tools": [{"type": "web_search_20250305", "name": "web_search"}]}):
                pass
        with anthropic.Anthropic(base_url=self.url, api_key="another key", max_retries=0) as stranger:
            with self.assertRaises(anthropic.AuthenticationError):
                stranger.messages.create(**asked)
        with anthropic.Anthropic(base_url=self.url, auth_token=KEY, api_key=None, max_retries=0) as bearer:  # ANTHROPIC_AUTH_TOKEN
            self.assertEqual(bearer.messages.create(**asked).role, "assistant")

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], [NAME])
        self.assertEqual(self.client.models.retrieve(NAME).id, NAME)

    def test_the_asynchronous_client_holds_many_streams(self):
        async def ask(client, words):
            async with client.messages.stream(model=NAME, max_tokens=20, extra_body=GREEDY, messages=[{"role": "user", "content": words}]) as stream:
                return told(await stream.get_final_message())

        async def all_of(words):
            async with anthropic.AsyncAnthropic(base_url=self.url, api_key=KEY, max_retries=0) as client:
                return await asyncio.gather(*(ask(client, some) for some in words))

        words = [f"{ASK} {i}" for i in range(8)]
        for some, streamed in zip(words, asyncio.run(all_of(words))):
            self.assertEqual(streamed, told(self.client.messages.create(model=NAME, max_tokens=20, extra_body=GREEDY,
                                                                        messages=[{"role": "user", "content": some}])))


class ThinkingAnthropic(Asking, ThinkingCase):
    def test_thinking_is_apart_and_streams_as_it_is_told_whole(self):
        message = self.same_whole_and_streamed(thinking={"type": "enabled", "budget_tokens": 9})
        self.assertEqual(message.content[0].type, "thinking")
        self.assertTrue(message.content[0].thinking)
        again = USER + [{"role": "assistant", "content": message.content}, {"role": "user", "content": "And Oslo?"}]
        self.same_whole_and_streamed(messages=again)


class AnthropicOnSmolLM2(OnSmolLM2, Anthropic):
    pass


if __name__ == "__main__":
    unittest.main()
