"""curl, as the documentation shows it: bodies by hand, streams as they come, keys and statuses."""
import json
import shutil
import subprocess
import unittest

from served import ASK, KEY, NAME, TOOLS, ClientCase, OnSmolLM2, check_call


@unittest.skipIf(shutil.which("curl") is None, "there is no curl here")
class Curl(ClientCase):
    def curl(self, path, body, *more, key=KEY):
        """Status and text of the answer."""
        command = ["curl", "-sS", "-N", "--max-time", "120", "-w", "\n%{http_code}", self.url + path, "-H", "Content-Type: application/json",
                   "-H", f"Authorization: Bearer {key}", *more, "-d", json.dumps({"model": NAME, **body})]
        text, status = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rsplit("\n", 1)
        return int(status), text

    def data(self, path, body):
        """What the events of a stream say, without the last "[DONE]"."""
        status, text = self.curl(path, {**body, "stream": True})
        self.assertEqual(status, 200)
        lines = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
        if path != "/v1/messages":
            self.assertEqual(lines.pop(), "[DONE]")
        return [json.loads(line) for line in lines]

    def whole(self, path, body):
        status, text = self.curl(path, body)
        self.assertEqual(status, 200, text)
        return json.loads(text)

    def test_chat_streams_as_it_is_told_whole(self):
        body = {"messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 30}
        said = self.whole("/v1/chat/completions", body)["choices"][0]["message"]["content"]
        events = self.data("/v1/chat/completions", body)
        self.assertEqual("".join(c["delta"].get("content") or "" for event in events for c in event["choices"]), said)
        self.assertTrue(said)

    def test_completions_stream_as_they_are_told_whole(self):
        body = {"prompt": "Once upon a time", "temperature": 0, "max_tokens": 20, "logprobs": 1}
        choice = self.whole("/v1/completions", body)["choices"][0]
        choices = [c for event in self.data("/v1/completions", body) for c in event["choices"]]
        self.assertEqual("".join(c["text"] for c in choices), choice["text"])
        self.assertEqual([value for c in choices for value in (c["logprobs"] or {}).get("token_logprobs") or []],
                         choice["logprobs"]["token_logprobs"])

    def test_messages_stream_as_they_are_told_whole(self):
        body = {"messages": [{"role": "user", "content": ASK}], "temperature": 0, "max_tokens": 30}
        said = self.whole("/v1/messages", body)["content"][0]["text"]
        events = self.data("/v1/messages", body)
        self.assertEqual("".join(e["delta"]["text"] for e in events if e["type"] == "content_block_delta"), said)

    def test_generate_streams_as_it_is_told_whole(self):
        body = {"text": "Once upon a time", "sampling_params": {"temperature": 0, "max_new_tokens": 20}}
        self.assertEqual(self.data("/generate", body)[-1]["text"], self.whole("/generate", body)["text"])

    def test_tools_are_called(self):
        body = {"messages": [{"role": "user", "content": ASK}], "tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False,
                "temperature": 0, "max_tokens": 300}
        call, = self.whole("/v1/chat/completions", body)["choices"][0]["message"]["tool_calls"]
        check_call(self, call["function"]["name"], call["function"]["arguments"])

    def test_refusals_have_their_status_and_say_which_field(self):
        chat = {"messages": [{"role": "user", "content": ASK}]}
        status, text = self.curl("/v1/chat/completions", {**chat, "model": "no-such-model"})
        self.assertEqual((status, json.loads(text)["error"]["code"]), (404, "model_not_found"))
        status, text = self.curl("/v1/chat/completions", {**chat, "temperature": "warm"})
        self.assertEqual((status, json.loads(text)["error"]["param"]), (400, "temperature"))
        self.assertEqual(self.curl("/v1/chat/completions", chat, key="another")[0], 401)

    def test_large_bodies_come_whole(self):
        """curl asks first whether a large body is welcome (Expect: 100-continue)."""
        body = {"prompt": "word " * 1000, "max_tokens": 1}
        status, _ = self.curl("/v1/completions", body, "-H", "Expect: 100-continue")
        self.assertEqual(status, 200)
        status, _ = self.curl("/v1/completions", body, "-H", "Transfer-Encoding: chunked")
        self.assertEqual(status, 200)


class CurlOnSmolLM2(OnSmolLM2, Curl):
    pass


if __name__ == "__main__":
    unittest.main()
