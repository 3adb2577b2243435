"""Ollama's Python client: chat, generate, tools, thinking, the list of models and errors, whole and streamed."""
import unittest

import ollama

from served import ASK, FORECAST, KEY, NAME, TOOLS, ClientCase, OnSmolLM2, ThinkingCase, check_call

USER = [{"role": "user", "content": ASK}]
GREEDY = {"temperature": 0, "num_predict": 40}


class Asking:
    """How both models are asked."""

    def setUp(self):
        self.skip_unless_route("/api/version", "this server has no Ollama routes (/api/version is 404)")
        self.client = ollama.Client(host=self.url, headers={"Authorization": f"Bearer {KEY}"})
        self.addCleanup(self.client._client.close)

    def same_whole_and_streamed(self, **more):
        asked = {"model": NAME, "messages": USER, "options": GREEDY, **more}
        whole = self.client.chat(**asked)
        text, thinking, calls, last = "", "", [], None
        for piece in self.client.chat(stream=True, **asked):
            text += piece.message.content or ""
            thinking += piece.message.thinking or ""
            calls += piece.message.tool_calls or []
            last = piece
        self.assertEqual((text, thinking), (whole.message.content or "", whole.message.thinking or ""))
        self.assertEqual([(call.function.name, call.function.arguments) for call in calls],
                         [(call.function.name, call.function.arguments) for call in whole.message.tool_calls or []])
        self.assertTrue(last.done)
        self.assertEqual((last.done_reason, last.eval_count), (whole.done_reason, whole.eval_count))
        return whole


class Ollama(Asking, ClientCase):
    def test_text_streams_as_it_is_told_whole(self):
        self.assertTrue(self.same_whole_and_streamed().message.content)
        self.same_whole_and_streamed(options={"temperature": 0.8, "seed": 3, "num_predict": 30})

    def test_generate_streams_as_it_is_told_whole(self):
        asked = {"model": NAME, "prompt": "Once upon a time", "options": GREEDY}
        whole = self.client.generate(**asked)
        self.assertEqual("".join(piece.response for piece in self.client.generate(stream=True, **asked)), whole.response)
        self.assertTrue(whole.response)

    def test_a_schema_is_kept(self):
        schema = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"]}
        whole = self.same_whole_and_streamed(format=schema, options={"temperature": 0, "num_predict": 100})
        self.assertRegex(whole.message.content, r'"city"\s*:\s*"(Rome|Oslo)"')

    def test_results_of_tools_go_back(self):
        messages = USER + [{"role": "assistant", "content": "", "tool_calls": [
            {"function": {"name": "weather", "arguments": {"city": "Rome", "days": 1}}}]},
            {"role": "tool", "tool_name": "weather", "content": FORECAST}]
        whole = self.same_whole_and_streamed(messages=messages, tools=TOOLS)
        for call in whole.message.tool_calls or []:
            check_call(self, call.function.name, dict(call.function.arguments))

    def test_models_are_listed_and_shown(self):
        # NAME:latest or NAME, as Ollama tells names.
        self.assertIn(NAME, [model.model.split(":")[0] for model in self.client.list().models])
        self.assertTrue(self.client.show(NAME).details is not None)
        self.assertIn(NAME, [model.model.split(":")[0] for model in self.client.ps().models])

    def test_refusals_are_typed_exceptions(self):
        with self.assertRaises(ollama.ResponseError) as missing:
            self.client.chat(model="no-such-model", messages=USER)
        self.assertEqual(missing.exception.status_code, 404)
        with self.assertRaises(ollama.ResponseError) as wrong:
            self.client.chat(model=NAME, messages=USER, options={"temperature": "warm"})
        self.assertEqual(wrong.exception.status_code, 400)
        with self.assertRaises(ollama.ResponseError) as stranger:
            ollama.Client(host=self.url, headers={"Authorization": "Bearer another"}).chat(model=NAME, messages=USER)
        self.assertEqual(stranger.exception.status_code, 401)


class ThinkingOllama(Asking, ThinkingCase):
    def test_thinking_is_apart_and_streams_as_it_is_told_whole(self):
        whole = self.same_whole_and_streamed(think=True)
        self.assertTrue(whole.message.thinking)


class OllamaOnSmolLM2(OnSmolLM2, Ollama):
    pass


if __name__ == "__main__":
    unittest.main()
