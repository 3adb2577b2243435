"""The page at /docs in a browser: every route with its fields, found by what one types."""
import json
import unittest

from browser import BrowserCase, PHONE, SHOTS, expect
from harness import Server


class DocsPage(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.server = cls.stack.enter_context(Server())
        cls.document = cls.server.get("/openapi.json").json
        cls.operations = [(method, path) for path, ops in cls.document["paths"].items() for method in ops]

    def docs(self, **more):
        page = self.open(self.server, **more)
        page.goto(f"http://127.0.0.1:{self.server.port}/docs")
        expect(page.locator("section")).to_have_count(len(self.operations))
        return page

    def test_every_operation_stands_there_with_a_call_to_copy(self):
        page = self.docs()
        expect(page.locator("#state")).to_contain_text(f"{len(self.document['paths'])} paths, version ")
        page.screenshot(path=str(SHOTS / "docs.png"))
        self.assertEqual(page.locator("section pre").count(), len(self.operations))
        chat = page.locator("#post_v1_chat_completions")
        call = chat.locator("pre").inner_text()
        body = json.loads(call[call.index("{"):call.rindex("}") + 1])
        self.assertEqual(self.server.post("/v1/chat/completions", body | {"max_tokens": 1}).status, 200)
        fields = self.document["components"]["schemas"]["ChatCompletion"]["properties"]
        expect(chat.locator("tr")).to_have_count(1 + len(fields) + sum(len(f.get("properties", ())) for f in fields.values()))

    def test_what_one_types_leaves_what_has_it(self):
        page = self.docs(look="dark")
        page.get_by_label("Find a route or a field").fill("label_token_ids")
        expect(page.locator("section:visible")).to_have_count(2)
        page.get_by_label("Find a route or a field").fill("")
        expect(page.locator("section:visible")).to_have_count(len(self.operations))

    def test_it_fits_a_phone(self):
        page = self.docs(viewport=PHONE)
        self.assertLessEqual(page.evaluate("document.documentElement.scrollWidth"), PHONE["width"])


if __name__ == "__main__":
    unittest.main()
