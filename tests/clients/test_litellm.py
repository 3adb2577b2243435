"""LiteLLM over OpenAI's and Anthropic's dialects: text, thinking, tools, log-probabilities and errors, whole and streamed."""
import json
import os
import unittest

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else its import asks the network for prices
import litellm  # noqa: E402

from served import ASK, FORECAST, KEY, NAME, TOOLS, ClientCase, OnSmolLM2, ThinkingCase, check_call  # noqa: E402

litellm.telemetry = False
USER = [{"role": "user", "content": ASK}]


class Asking:
    """How both models are asked."""
    PROVIDER, BASE = "openai", "/v1"

    def ask(self, **more):
        return litellm.completion(**{"model": f"{self.PROVIDER}/{NAME}", "api_base": self.url + self.BASE, "api_key": KEY, "messages": USER,
                                     "temperature": 0, "max_tokens": 40, "num_retries": 0, "max_retries": 0, **more})

    def same_whole_and_streamed(self, **more):
        whole = self.ask(**more)
        streamed = litellm.stream_chunk_builder(list(self.ask(stream=True, **more)), messages=more.get("messages", USER))
        told = []
        for reply in (whole, streamed):
            message = reply.choices[0].message
            told.append((message.content or "", getattr(message, "reasoning_content", None) or "", reply.choices[0].finish_reason,
                         [(call.function.name, json.loads(call.function.arguments)) for call in message.tool_calls or []]))
        self.assertEqual(told[1], told[0])
        return whole.choices[0]


class LiteLLM(Asking, ClientCase):
    def test_text_streams_as_it_is_told_whole(self):
        self.assertTrue(self.same_whole_and_streamed().message.content)

    def test_log_probabilities_stream_as_they_are_told_whole(self):
        if self.PROVIDER != "openai":
            self.skipTest("Anthropic's dialect has no log-probabilities")
        asked = {"logprobs": True, "top_logprobs": 2, "max_tokens": 10}
        whole = [entry.model_dump() for entry in self.ask(**asked).choices[0].logprobs.content]
        streamed = []
        for chunk in self.ask(stream=True, **asked):
            logprobs = getattr(chunk.choices[0], "logprobs", None)
            if logprobs:
                content = logprobs["content"] if isinstance(logprobs, dict) else logprobs.content
                streamed += [entry if isinstance(entry, dict) else entry.model_dump() for entry in content]
        self.assertEqual(streamed, whole)
        self.assertGreater(len(whole), 0)

    def test_tools_are_called_told_their_results_and_answered(self):
        messages = list(USER)
        for turn in range(3):
            choice = self.same_whole_and_streamed(messages=messages, tools=TOOLS, tool_choice="required", parallel_tool_calls=False,
                                                  max_tokens=300)
            self.assertEqual(choice.finish_reason, "tool_calls")
            call, = choice.message.tool_calls
            check_call(self, call.function.name, call.function.arguments)
            messages += [choice.message, {"role": "tool", "tool_call_id": call.id, "content": FORECAST}]
        answer = self.same_whole_and_streamed(messages=messages, tools=TOOLS, tool_choice="none")
        self.assertTrue(answer.message.content)

    def test_refusals_are_typed_exceptions(self):
        with self.assertRaises(litellm.NotFoundError):
            self.ask(model=f"{self.PROVIDER}/no-such-model")
        with self.assertRaises(litellm.BadRequestError):
            self.ask(temperature=-1)
        with self.assertRaises(litellm.AuthenticationError):
            self.ask(api_key="another key")


class LiteLLMOverAnthropic(LiteLLM):
    PROVIDER, BASE = "anthropic", ""


class ThinkingLiteLLM(Asking, ThinkingCase):
    BUDGET = {"extra_body": {"max_reasoning_tokens": 9}}

    def test_thinking_is_apart_and_streams_as_it_is_told_whole(self):
        message = self.same_whole_and_streamed(**self.BUDGET).message
        self.assertTrue(message.reasoning_content)


class ThinkingLiteLLMOverAnthropic(ThinkingLiteLLM):
    PROVIDER, BASE = "anthropic", ""
    BUDGET = {"thinking": {"type": "enabled", "budget_tokens": 9}, "allowed_openai_params": ["thinking"]}


class LiteLLMOnSmolLM2(OnSmolLM2, LiteLLM):
    pass


if __name__ == "__main__":
    unittest.main()
