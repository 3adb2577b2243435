"""Somebody who has read nothing: opens the page, asks, drops a schema, looks at the tree. What the page says at each step."""
import json
import unittest

from browser import expect
from test_chat import Answers, ChatCase

CITY = {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}, "sunny": {"type": "boolean"}, "tags": {"type": "array", "maxItems": 0}},
        "required": ["city", "sunny", "tags"], "additionalProperties": False}


class FirstVisit(ChatCase):
    drop = Answers.drop

    def test_open_ask_drop_a_schema_and_see_the_tree(self):
        page = self.open(self.server)
        expect(page.get_by_label("Message", exact=True)).to_be_focused()
        expect(page.locator(".empty")).to_contain_text("Drop a JSON schema")
        page.get_by_role("button", name="All keys").click()
        expect(page.get_by_role("dialog")).to_contain_text("edit the last question")
        page.keyboard.press("Escape")
        self.set_knob(page, max_tokens=80)
        expect(page.locator(".settings-button")).to_be_focused()
        page.get_by_label("Message", exact=True).click()
        page.keyboard.type("Where is it warm?")
        page.keyboard.press("Enter")
        self.settled(page)
        self.shot(page, "first-answer")
        page.goto(page.url.split("#")[0] + "#tree")
        expect(page.locator(".arm").first).to_be_visible()
        expect(page.locator(".news")).to_contain_text("Nothing since you came here")
        self.drop(page, "city.json", "application/json", json.dumps(CITY).encode())
        expect(page.locator(".composer .note")).to_have_text("Answers now have the form of city.json. The view Form shows it.")
        self.say(page, "And today?")
        shown = page.locator(".said pre").inner_text()
        self.assertEqual(len(shown.splitlines()), 5, "a line for each member")
        self.assertIn(json.loads(shown)["city"], ("Rome", "Oslo"))
        self.assertIn('"tags": []', shown)
        self.shot(page, "first-schema")
        page.get_by_role("button", name="JSON schema").click()
        expect(page.locator(".verdict")).to_have_text("Valid")
        written = page.get_by_label("The form, as json_schema").input_value()
        self.assertEqual(json.loads(written), CITY)
        self.assertGreater(len(written.splitlines()), 10, "a schema in one line is opened up")
        self.shot(page, "first-form")

    def test_where_the_model_proposes_nothing_answers_do_not_ramble(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=4)
        self.say(page, "x")
        body = self.bodies(page)[0]
        self.assertEqual((body["temperature"], body["top_p"]), (0.7, 0.9))
        self.open_settings(page)
        self.assertEqual(page.locator(".drawer [name=temperature]").get_attribute("placeholder"), "0.7")
        page.locator(".drawer [name=top_k]").fill("5")
        self.assertEqual(page.locator(".drawer [name=temperature]").get_attribute("placeholder"), "1")
        page.get_by_role("button", name="Close").click()
        self.say(page, "y")
        self.assertNotIn("temperature", self.bodies(page)[1], "who has set something has set all of it")

    def test_what_is_no_schema_is_refused_by_name(self):
        page = self.open(self.server)
        for name, data in (("package.json", b'{"name": "a", "version": "1"}'), ("null.json", b"null"), ("list.json", b"[1]")):
            self.drop(page, name, "application/json", data)
            expect(page.get_by_role("alert")).to_contain_text(f"{name} is no JSON schema")
        self.drop(page, "half.json", "application/json", b"{")
        expect(page.get_by_role("alert")).to_contain_text("half.json is no JSON")
        expect(page.locator(".in-force")).to_have_count(0)

    def test_a_dropped_program_opens_in_its_view(self):
        page = self.open(self.server)
        program = {"name": "dropped", "streams": 1, "nodes": [{"kind": "text", "stream": 0, "text": "Hello"}]}
        self.drop(page, "p.json", "application/json", json.dumps(program).encode())
        expect(page.get_by_role("heading", name="Program", exact=True)).to_be_visible()
        expect(page.locator(".program .bar")).to_contain_text("dropped: 1 stream, 1 nodes")

    def test_text_that_only_looks_like_json_is_text(self):
        page = self.open(self.server)
        self.set_form(page, r"\[1\] a \{b\}")
        self.say(page, "x")
        expect(page.locator(".said")).to_have_text("[1] a {b}")
        expect(page.locator(".said pre")).to_have_count(0)

    def test_json_that_was_cut_off_is_shown_as_it_came(self):
        page = self.open(self.server)
        self.set_form(page, r'\{"a": "b{60}"\}')
        self.set_knob(page, max_tokens=12)
        self.say(page, "x")
        self.assertTrue(page.locator(".said pre").inner_text().startswith('{"a": "bb'))

    def test_numbers_and_texts_of_json_stay_as_they_were_written(self):
        page = self.open(self.server)
        written = '{"a":12345678901234567890,"b":"x: {\\"y\\", [1,2]}","c":[1.0,{}],"d":{"e":null}}'
        self.set_form(page, "".join(c if c.isalnum() or c in ' :,"' else "\\" + c for c in written))
        self.set_knob(page, max_tokens=200)
        self.say(page, "x")
        self.assertEqual(page.locator(".said pre").inner_text(), "\n".join((
            "{", '  "a": 12345678901234567890,', '  "b": "x: {\\"y\\", [1,2]}",', '  "c": [', "    1.0,", "    {}", "  ],",
            '  "d": {', '    "e": null', "  }", "}")))


del ChatCase, Answers  # not tested once more here

if __name__ == "__main__":
    unittest.main()
