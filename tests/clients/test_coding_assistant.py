"""What coding assistants ask: Anthropic messages with a long system prompt and many tools, calls and their results turn
by turn, counts, and every turn's prompt out of the cache. The prompt is as long as the model takes: some 15,000 tokens
with the golden model, some 6,000 with smollm2-135m, which holds 8,192."""
import unittest

import anthropic

from served import CHATML, FORECAST, KEY, NAME, SHORT, ClientCase, Server, smollm2

FILES = ["src/main.cpp", "docs/walk.md", "README.md"]


def tool(number):
    """One of many: a sentence or two, and a schema with a few kinds of fields."""
    return {"name": f"tool_{number}", "description": f"Tool {number} reads, searches or edits files of the project. Give paths from its root. "
            "Read a file before you edit it, and never guess what it holds.",
            "input_schema": {"type": "object", "additionalProperties": False, "required": ["path", "limit"], "properties": {
                "path": {"enum": FILES, "description": "The file, from the project's root."},
                "limit": {"type": "integer", "minimum": 1, "maximum": 9, "description": "How many lines are read at most."},
                "exact": {"type": "boolean", "description": "Whether letters' case counts."}}}}


TOOLS = [tool(number) for number in range(24)]
RULE = "Rule {}: keep changes small, name what you changed, run the tests of the module, and say plainly what failed and why. "


class CodingAssistant(ClientCase):
    TOKENS = 15_000

    @classmethod
    def serve(cls):
        return Server(*cls.FLAGS, "--chat-template", SHORT, "--context-length", "32768", "--allow-longer-context", "--max-total-tokens",
                      "65536", "--threads", "2")

    def setUp(self):
        self.client = anthropic.Anthropic(base_url=self.url, api_key=KEY, max_retries=0, timeout=600)
        self.addCleanup(self.client.close)
        self.system = [{"type": "text", "text": "You are a coding assistant."}, {"type": "text", "text": "", "cache_control": {"type": "ephemeral"}}]
        rules = 1
        while True:  # as many rules as make the prompt so long
            self.system[1]["text"] = "".join(RULE.format(i) for i in range(rules))
            tokens = self.count([{"role": "user", "content": "Begin."}])
            if tokens >= self.TOKENS:
                break
            rules = rules + max(1, (self.TOKENS - tokens) // 130)

    def count(self, messages):
        return self.client.messages.count_tokens(model=NAME, messages=messages, system=self.system, tools=TOOLS).input_tokens

    def ask(self, messages, **more):
        asked = {"model": NAME, "messages": messages, "system": self.system, "tools": TOOLS, "max_tokens": 200,
                 "extra_body": {"temperature": 0}, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}, **more}
        with self.client.messages.stream(**asked) as stream:
            return stream.get_final_message()

    def test_turns_with_many_tools_come_out_of_the_cache(self):
        messages = [{"role": "user", "content": "Look for the fault."}]
        for turn in range(4):
            counted = self.count(messages)
            self.assertGreaterEqual(counted, self.TOKENS)
            message = self.ask(messages)
            usage = message.usage
            cached = usage.cache_read_input_tokens
            self.assertEqual(usage.input_tokens + cached + usage.cache_creation_input_tokens, counted)
            print(f"turn {turn + 1}: {counted} tokens, {cached / counted:.1%} out of the cache")
            if turn > 0:
                self.assertGreaterEqual(cached / counted, 0.95)
            self.assertEqual(message.stop_reason, "tool_use")
            call, = message.content
            self.assertIn(call.name, [one["name"] for one in TOOLS])
            self.assertIn(call.input["path"], FILES)
            self.assertIn(call.input["limit"], range(1, 10))
            if turn > 0:
                del messages[-1]["content"][0]["cache_control"]  # the mark moves on with the conversation
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": FORECAST}],
                 "cache_control": {"type": "ephemeral"}}]}]
        self.assertTrue(self.ask(messages, tool_choice={"type": "auto"}, max_tokens=20).content)

    def test_parallel_calls_and_their_results_go_round(self):
        calls = [{"type": "tool_use", "id": f"toolu_{i}", "name": f"tool_{i}", "input": {"path": FILES[i % 3], "limit": i + 1}} for i in range(8)]
        results = [{"type": "tool_result", "tool_use_id": call["id"], "content": f"line {i}"} for i, call in enumerate(calls)]
        messages = [{"role": "user", "content": "Read them all."}, {"role": "assistant", "content": [{"type": "text", "text": "Reading."}, *calls]},
                    {"role": "user", "content": results + [{"type": "text", "text": "Now edit."}]}]
        first = self.ask(messages, tool_choice={"type": "any"})
        self.assertEqual({block.type for block in first.content}, {"tool_use"})
        messages += [{"role": "assistant", "content": first.content}, {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": block.id, "content": "done"} for block in first.content]}]
        second = self.ask(messages, tool_choice={"type": "auto"}, max_tokens=20).usage  # "none" would take the tools out of the prompt
        self.assertGreaterEqual(second.cache_read_input_tokens / self.count(messages), 0.95)


class CodingAssistantOnSmolLM2(CodingAssistant):
    TOKENS = 6_000

    @classmethod
    def serve(cls):
        return Server(*cls.FLAGS, "--chat-template", CHATML, "--threads", "2", "--activations", "int8", model=smollm2())


if __name__ == "__main__":
    unittest.main()
