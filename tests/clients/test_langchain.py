"""LangChain's OpenAI model: messages, tools, structured output, log-probabilities and errors, whole and streamed."""
import unittest
from typing import Literal

import openai
import pydantic
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI, OpenAI

from served import ASK, FORECAST, KEY, NAME, ClientCase, OnSmolLM2


@tool
def weather(city: Literal["Rome", "Oslo"], days: Literal[1, 2, 3]) -> str:
    """The weather of a city."""
    return f"{city}: {FORECAST}"


@tool
def stop_all(why: Literal["rain", "snow"]) -> str:
    """Stop everything."""
    return f"stopped for {why}"


class Place(pydantic.BaseModel):
    """A place."""
    city: Literal["Rome", "Oslo"]
    large: bool


class LangChain(ClientCase):
    def model(self, **more):
        return ChatOpenAI(base_url=self.url + "/v1", max_retries=0,
                          **{"model": NAME, "api_key": KEY, "temperature": 0, "max_tokens": 40, "stream_usage": True, **more})

    def same_whole_and_streamed(self, model, asked):
        whole, streamed = model.invoke(asked), None
        for piece in model.stream(asked):
            streamed = piece if streamed is None else streamed + piece
        self.assertEqual(streamed.content, whole.content)
        self.assertEqual([(call["name"], call["args"]) for call in streamed.tool_calls], [(call["name"], call["args"]) for call in whole.tool_calls])
        self.assertEqual(streamed.usage_metadata["output_tokens"], whole.usage_metadata["output_tokens"])
        self.assertEqual(streamed.response_metadata["finish_reason"], whole.response_metadata["finish_reason"])
        self.assertEqual((streamed.response_metadata.get("logprobs") or {}).get("content"),
                         (whole.response_metadata.get("logprobs") or {}).get("content"))
        return whole

    def test_text_and_log_probabilities_stream_as_they_are_told_whole(self):
        self.assertTrue(self.same_whole_and_streamed(self.model(), ASK).content)
        whole = self.same_whole_and_streamed(self.model(logprobs=True, top_logprobs=2, max_tokens=10), ASK)
        self.assertGreater(len(whole.response_metadata["logprobs"]["content"]), 0)

    def test_tools_are_called_told_their_results_and_answered(self):
        tools = {"weather": weather, "stop_all": stop_all}
        model = self.model(max_tokens=300).bind_tools(tools.values(), tool_choice="required", strict=True, parallel_tool_calls=False)
        messages = [HumanMessage(ASK)]
        for turn in range(3):
            said = self.same_whole_and_streamed(model, messages)
            call, = said.tool_calls
            messages += [said, tools[call["name"]].invoke(call)]
            self.assertIsInstance(messages[-1], ToolMessage)
        answer = self.same_whole_and_streamed(self.model().bind_tools(tools.values(), tool_choice="none"), messages)
        self.assertTrue(answer.content)
        self.assertEqual(answer.tool_calls, [])

    def test_output_has_the_form_of_a_type_in_every_way(self):
        for method in ("json_schema", "function_calling"):
            for model in (self.model(max_tokens=200),):
                place = model.with_structured_output(Place, method=method, strict=True).invoke(ASK)
                self.assertIsInstance(place, Place, method)

    def test_a_batch_is_answered_in_order(self):
        asked = [f"{ASK} {i}" for i in range(6)]
        together = [message.content for message in self.model().batch(asked)]
        self.assertEqual(together, [self.model().invoke(one).content for one in asked])

    def test_completions_stream_as_they_are_told_whole(self):
        model = OpenAI(base_url=self.url + "/v1", api_key=KEY, model=NAME, temperature=0, max_tokens=20, max_retries=0)
        self.assertEqual("".join(model.stream("Once upon a time")), model.invoke("Once upon a time"))

    def test_refusals_are_typed_exceptions(self):
        with self.assertRaises(openai.NotFoundError):
            self.model(model="no-such-model").invoke(ASK)
        with self.assertRaises(openai.BadRequestError):
            self.model(temperature=-1).invoke(ASK)
        with self.assertRaises(openai.AuthenticationError):
            self.model(api_key="another key").invoke(ASK)


class LangChainOnSmolLM2(OnSmolLM2, LangChain):
    pass


if __name__ == "__main__":
    unittest.main()
