"""JavaScript's clients (js/*.test.mjs: OpenAI's, Anthropic's, Vercel's AI SDK), run by Node.js beside their packages."""
import os
import shutil
import subprocess
import unittest

from served import HERE, KEY, NAME, SOURCE, ClientCase, OnSmolLM2, ThinkingCase

PACKAGES = SOURCE / "build" / "clients"


class JavaScript(ClientCase):
    @classmethod
    def setUpClass(cls):
        if shutil.which("node") is None:
            raise unittest.SkipTest("there is no Node.js here")
        if not (PACKAGES / "package.done").exists():
            raise unittest.SkipTest("the packages of tests/clients/js could not be installed (no package index?)")
        super().setUpClass()
        cls.thinker = ThinkingCase.serve.__func__(cls)
        cls.addClassCleanup(cls.thinker.kill)
        for file in (HERE / "js").glob("*.mjs"):  # packages are found from where a file lies
            shutil.copy(file, PACKAGES)

    def run_file(self, name):
        told = {"ESPALIER_URL": self.url, "ESPALIER_KEY": KEY, "ESPALIER_MODEL": NAME,
                "ESPALIER_THINKING_URL": f"http://127.0.0.1:{self.thinker.port}"}
        done = subprocess.run(["node", "--test", "--test-reporter=tap", name], cwd=PACKAGES, env={**os.environ, **told},
                              capture_output=True, text=True, timeout=600)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"# pass [1-9]")

    def test_openai(self):
        self.run_file("openai.test.mjs")

    def test_anthropic(self):
        self.run_file("anthropic.test.mjs")

    def test_ai_sdk(self):
        self.run_file("ai_sdk.test.mjs")


class JavaScriptOnSmolLM2(OnSmolLM2, JavaScript):
    pass


if __name__ == "__main__":
    unittest.main()
