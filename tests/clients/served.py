"""The servers that the clients' tests drive, and what they ask: tools whose arguments are short whatever the model says.

Two models: the small golden one, always, with a template that shows tools and opens thinking; and smollm2-135m, which
speaks, where it can be had (`espalier pull`). Both stand behind a key, as a server that others reach would.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "server"))  # behind this folder: names are alike
from harness import BINARY, MODEL, SOURCE, Reply, Server, eventually  # noqa: E402, F401

KEY = "a-key"
NAME = "house-model"
PARAMETERS = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo", "D\u00fcsseldorf \"Mitte\""]},
                                               "days": {"type": "integer", "minimum": 1, "maximum": 9}},
              "required": ["city", "days"], "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": "weather", "description": "The weather of a city.", "strict": True,
                                      "parameters": PARAMETERS}},
    {"type": "function", "function": {"name": "stop_all", "description": "Stop everything.", "strict": True, "parameters": {
        "type": "object", "properties": {"why": {"enum": ["a \"b\"\n", "\u00fc{}"]}}, "required": ["why"],
        "additionalProperties": False}}},
]
ASK = "What is the weather in Rome?"
FORECAST = "Sunny, 24 degrees, no wind."

CALLS = ("{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": "
         "{{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}")
SHORT = ("{% for t in tools or [] %}{{ t.function.name }}: {{ t.function.description }} {{ t.function.parameters | tojson }};{% endfor %}"
         "{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}" + CALLS + "{% endfor %}"
         "{% if add_generation_prompt %}[assistant]{% endif %}")
THINKING = SHORT + "{% if add_generation_prompt %}<think>{% endif %}"
CHATML = ("{% if tools %}<|im_start|>system\nYou may call one of these functions:\n{% for t in tools %}{{ t.function | tojson }}\n{% endfor %}"
          "Write <tool_call>\n{\"name\": ..., \"arguments\": {...}}\n</tool_call> to call one.<|im_end|>\n{% endif %}"
          "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content or '' }}" + CALLS + "<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def check_call(test, name, arguments):
    """A call of one of TOOLS, its arguments as their schema wants them; they are returned."""
    arguments = json.loads(arguments) if isinstance(arguments, str) else arguments
    if name == "weather":
        test.assertEqual(set(arguments), {"city", "days"})
        test.assertIn(arguments["city"], PARAMETERS["properties"]["city"]["enum"])
        test.assertIn(arguments["days"], range(1, 10))
    else:
        test.assertEqual(name, "stop_all")
        test.assertIn(arguments["why"], ("a \"b\"\n", "\u00fc{}"))
    return arguments


def thinking_golden(folder):
    """The golden model with two of its special tokens as the marks of thinking."""
    for file in MODEL.iterdir():
        shutil.copy(file, folder)
    path = pathlib.Path(folder, "tokenizer.json")
    words = json.loads(path.read_text().replace("<|image|>", "<think>").replace("<|system|>", "</think>"))
    for token in words["added_tokens"]:
        token["special"] = token["content"] not in ("<think>", "</think>")
    path.write_text(json.dumps(words))
    return pathlib.Path(folder)


def smollm2():
    """The path of smollm2-135m; the tests that need it are left out, and say so, where it cannot be had."""
    pull = subprocess.run([BINARY, "pull", "smollm2-135m"], capture_output=True, text=True, timeout=600)
    if pull.returncode != 0:
        print(f"left out: smollm2-135m cannot be had here: {pull.stderr.strip()[-300:]}")
        raise unittest.SkipTest("smollm2-135m cannot be had here")
    return pull.stdout.strip().splitlines()[-1]


class ClientCase(unittest.TestCase):
    """Tests that share one server with the golden model behind KEY."""
    FLAGS = ("--api-key", KEY, "--served-model-name", NAME)
    SPEAKS = False  # its model writes words

    @classmethod
    def serve(cls):
        return Server(*cls.FLAGS, "--chat-template", SHORT, "--context-length", "8192", "--allow-longer-context")

    @classmethod
    def setUpClass(cls):
        cls.server = cls.serve()
        cls.addClassCleanup(cls.server.kill)
        cls.url = f"http://127.0.0.1:{cls.server.port}"

    def skip_unless_route(self, path, why):
        if self.server.get(path, headers={"Authorization": f"Bearer {KEY}"}).status == 404:
            self.skipTest(why)


class ThinkingCase(ClientCase):
    """The same with a model whose template opens its thinking."""

    @classmethod
    def serve(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        return Server(*cls.FLAGS, "--chat-template", THINKING, "--reasoning-parser", "deepseek-r1", "--context-length", "8192", "--allow-longer-context",
                      model=thinking_golden(folder.name))


class OnSmolLM2:
    """Mixed in before a ClientCase: the same tests with a model that speaks."""
    SPEAKS = True

    @classmethod
    def serve(cls):
        return Server(*cls.FLAGS, "--chat-template", CHATML, "--threads", "2", model=smollm2())
