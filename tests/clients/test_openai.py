"""OpenAI's Python client: chat, completions, tools, log-probabilities and errors, whole and streamed."""
import asyncio
import json
import re
import unittest
from typing import Literal

import openai
import pydantic

from served import ASK, FORECAST, KEY, NAME, TOOLS, ClientCase, OnSmolLM2, ThinkingCase, check_call

CHAT = [{"role": "user", "content": ASK}]


def folded(stream):
    """What a stream of chat chunks says of its only choice, as a dict."""
    said = {"content": "", "thinking": "", "calls": [], "logprobs": [], "finish": None, "usage": None, "ids": set()}
    for chunk in stream:
        said["ids"].add(chunk.id)
        said["usage"] = chunk.usage or said["usage"]
        for choice in chunk.choices:
            delta = choice.delta
            said["content"] += delta.content or ""
            said["thinking"] += getattr(delta, "reasoning_content", None) or ""
            for piece in delta.tool_calls or []:
                if piece.index == len(said["calls"]):
                    assert piece.id and piece.type == "function"
                    said["calls"].append([piece.function.name, ""])
                said["calls"][piece.index][1] += piece.function.arguments or ""
            if choice.logprobs:
                said["logprobs"] += [entry.model_dump() for entry in choice.logprobs.content]
            said["finish"] = choice.finish_reason or said["finish"]
    return said


class Asking:
    """How both models are asked."""

    def setUp(self):
        self.client = openai.OpenAI(base_url=self.url + "/v1", api_key=KEY, max_retries=0)
        self.addCleanup(self.client.close)

    def chat(self, **more):
        return self.client.chat.completions.create(**{"model": NAME, "messages": CHAT, "temperature": 0, "max_tokens": 40, **more})

    def same_whole_and_streamed(self, **asked):
        """Asks both ways, compares, and returns the whole reply's choice."""
        whole = self.chat(**asked)
        streamed = folded(self.chat(stream=True, stream_options={"include_usage": True}, **asked))
        choice = whole.choices[0]
        message = choice.message
        self.assertEqual(len(streamed["ids"]), 1)
        self.assertEqual(streamed["content"], message.content or "")
        self.assertEqual(streamed["thinking"], getattr(message, "reasoning_content", None) or "")
        self.assertEqual([tuple(call) for call in streamed["calls"]],
                         [(call.function.name, call.function.arguments) for call in message.tool_calls or []])
        self.assertEqual(streamed["finish"], choice.finish_reason)
        self.assertEqual(streamed["logprobs"], [entry.model_dump() for entry in choice.logprobs.content] if choice.logprobs else [])
        self.assertEqual((streamed["usage"].prompt_tokens, streamed["usage"].completion_tokens),
                         (whole.usage.prompt_tokens, whole.usage.completion_tokens))
        return choice


class OpenAI(Asking, ClientCase):
    def test_text_streams_as_it_is_told_whole(self):
        self.assertTrue(self.same_whole_and_streamed().message.content)
        self.same_whole_and_streamed(temperature=0.8, seed=7, top_p=0.9)
        self.same_whole_and_streamed(stop=["e", "a"])

    def test_log_probabilities_stream_as_they_are_told_whole(self):
        choice = self.same_whole_and_streamed(logprobs=True, top_logprobs=3, max_tokens=12)
        self.assertGreater(len(choice.logprobs.content), 0)
        for entry in choice.logprobs.content:
            self.assertEqual(len(entry.top_logprobs), 3)
            self.assertAlmostEqual(entry.logprob, entry.top_logprobs[0].logprob)  # temperature 0: the likeliest was taken

    def test_a_schema_is_parsed_into_its_type(self):
        class Place(pydantic.BaseModel):
            lit: bool
            kind: Literal["house", "tower"]

        parsed = self.client.chat.completions.parse(model=NAME, messages=CHAT, temperature=0, max_tokens=200, response_format=Place,
                                                    extra_body={"logit_bias": {}})
        if parsed.choices[0].finish_reason == "stop":
            self.assertIsInstance(parsed.choices[0].message.parsed, Place)
        with self.client.chat.completions.stream(model=NAME, messages=CHAT, temperature=0, max_tokens=200, response_format=Place) as stream:
            for _ in stream:
                pass
            self.assertEqual(stream.get_final_completion().choices[0].message.content, parsed.choices[0].message.content)

    def test_tools_are_called_told_their_results_and_answered(self):
        messages = list(CHAT)
        for turn in range(3):
            choice = self.same_whole_and_streamed(messages=messages, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
                                                  max_tokens=300)
            self.assertEqual(choice.finish_reason, "tool_calls")
            call, = choice.message.tool_calls
            check_call(self, call.function.name, call.function.arguments)
            messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": FORECAST}]  # the SDK's own object goes back
        answer = self.same_whole_and_streamed(messages=messages, tools=TOOLS, tool_choice="none")
        self.assertTrue(answer.message.content)
        self.assertIsNone(answer.message.tool_calls)

    def test_parallel_calls_have_indices_and_ids(self):
        call = '<tool_call>\n{"name": "weather", "arguments": {"city": "%s", "days": 2}}\n</tool_call>'
        said = "(" + re.escape(call % "Rome") + "\n" + re.escape(call % "Oslo") + ")"
        choice = self.same_whole_and_streamed(tools=TOOLS, extra_body={"regex": said}, max_tokens=300)
        self.assertEqual([json.loads(one.function.arguments)["city"] for one in choice.message.tool_calls], ["Rome", "Oslo"])
        self.assertEqual(len({one.id for one in choice.message.tool_calls}), 2)
        for seed in range(1, 5):
            choice = self.same_whole_and_streamed(tools=TOOLS, tool_choice="required", max_tokens=300, temperature=1, seed=seed)
            if choice.finish_reason == "tool_calls":
                for one in choice.message.tool_calls:
                    check_call(self, one.function.name, one.function.arguments)

    def test_completions_stream_as_they_are_told_whole(self):
        asked = {"model": NAME, "prompt": ["Once upon a time", "The sea"], "temperature": 0, "max_tokens": 12, "logprobs": 2}
        whole = self.client.completions.create(**asked)
        texts, values = {0: "", 1: ""}, {0: [], 1: []}
        for chunk in self.client.completions.create(stream=True, **asked):
            for choice in chunk.choices:
                texts[choice.index] += choice.text
                if choice.logprobs:
                    values[choice.index] += choice.logprobs.token_logprobs
        self.assertEqual(texts, {choice.index: choice.text for choice in whole.choices})
        self.assertEqual(values, {choice.index: choice.logprobs.token_logprobs for choice in whole.choices})

    def test_the_asynchronous_client_holds_many_streams(self):
        async def ask(client, seed):
            stream = await client.chat.completions.create(model=NAME, messages=CHAT, temperature=1, seed=seed, max_tokens=20, stream=True)
            return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

        async def all_of_them():
            async with openai.AsyncOpenAI(base_url=self.url + "/v1", api_key=KEY, max_retries=0) as client:
                return await asyncio.gather(*(ask(client, seed) for seed in range(1, 13)))

        for seed, text in enumerate(asyncio.run(all_of_them()), 1):
            self.assertEqual(text, self.chat(temperature=1, seed=seed, max_tokens=20).choices[0].message.content or "")

    def test_a_stream_that_is_closed_early_leaves_a_server_that_answers(self):
        with self.chat(stream=True, max_tokens=2000) as stream:
            next(iter(stream))
        self.assertTrue(self.chat().choices[0].message.content)

    def test_refusals_are_typed_exceptions(self):
        with self.assertRaises(openai.NotFoundError) as missing:
            self.chat(model="no-such-model")
        self.assertEqual(missing.exception.code, "model_not_found")
        with self.assertRaises(openai.BadRequestError) as wrong:
            self.chat(temperature=-1)
        self.assertEqual(wrong.exception.param, "temperature")
        with self.assertRaises(openai.BadRequestError):
            self.chat(stream=True, extra_body={"regex": "("})
        with self.assertRaises(openai.AuthenticationError):
            self.chat_with("another key")

    def chat_with(self, key):
        with openai.OpenAI(base_url=self.url + "/v1", api_key=key, max_retries=0) as client:
            client.chat.completions.create(model=NAME, messages=CHAT, max_tokens=1)

    def test_models_are_listed(self):
        self.assertEqual([model.id for model in self.client.models.list()], [NAME])
        self.assertEqual(self.client.models.retrieve(NAME).id, NAME)

    def test_responses_stream_as_they_are_told_whole(self):
        if self.server.post("/v1/responses", {}, headers={"Authorization": f"Bearer {KEY}"}).status == 404:
            self.skipTest("this server has no /v1/responses")
        asked = {"model": NAME, "input": ASK, "temperature": 0, "max_output_tokens": 30}
        whole = self.client.responses.create(**asked)
        text, last = "", None
        for event in self.client.responses.create(stream=True, **asked):
            text += event.delta if event.type == "response.output_text.delta" else ""
            last = event
        self.assertIn(last.type, ("response.completed", "response.incomplete"))
        self.assertEqual((text, last.response.output_text), (whole.output_text, whole.output_text))
        tools = [{"type": "function", **tool["function"]} for tool in TOOLS]
        called = self.client.responses.create(model=NAME, input=ASK, tools=tools, tool_choice="required", parallel_tool_calls=False,
                                              max_output_tokens=300, temperature=0)
        call, = [item for item in called.output if item.type == "function_call"]
        check_call(self, call.name, call.arguments)
        answer = self.client.responses.create(model=NAME, previous_response_id=called.id, temperature=0, max_output_tokens=30,
                                              input=[{"type": "function_call_output", "call_id": call.call_id, "output": FORECAST}])
        self.assertTrue(answer.output_text)


class ThinkingOpenAI(Asking, ThinkingCase):
    def test_thinking_is_apart_and_streams_as_it_is_told_whole(self):
        choice = self.same_whole_and_streamed(extra_body={"max_reasoning_tokens": 9})
        self.assertTrue(choice.message.reasoning_content)
        self.assertNotIn("think>", choice.message.content + choice.message.reasoning_content)


class OpenAIOnSmolLM2(OnSmolLM2, OpenAI):
    def test_the_answer_uses_what_the_tool_said(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": json.dumps({"city": "Rome", "days": 1})}}
        answer = self.chat(messages=CHAT + [{"role": "assistant", "content": None, "tool_calls": [call]},
                                            {"role": "tool", "tool_call_id": "call_1", "content": FORECAST}],
                           tools=TOOLS, tool_choice="none", max_tokens=60).choices[0].message.content
        print("smollm2-135m, told the forecast:", answer.replace("\n", " "))
        self.assertTrue(answer.strip())


if __name__ == "__main__":
    unittest.main()
