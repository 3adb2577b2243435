"""The views that show the server at work, against the real server: tree, load, form, program, completion."""
import json
import pathlib
import tempfile
import threading
import unittest

from browser import BrowserCase, expect
from harness import Server
from page_models import model_with, slow_model


class Forms(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        cls.server = cls.stack.enter_context(Server(model=model_with(folder)))

    def test_a_form_is_checked_drawn_and_tried_as_it_is_written(self):
        page = self.open(self.server, "form", expected=("400",))
        expect(page.locator(".verdict")).to_have_text("Valid")
        self.assertGreater(page.locator(".state").count(), 5)
        page.get_by_label("A text to try").fill('{"name":"Cox","kind":"plum"')
        expect(page.locator(".tried .good")).to_have_text('{"name":"Cox","kind":"p')
        expect(page.locator(".tried .bad")).to_have_text("lum\"")
        self.shot(page, "form")
        page.get_by_label("Regex").check()
        page.get_by_label("The form, as regex").fill("(yes|no)!?")
        expect(page.locator(".way text").filter(has_text="yes")).to_have_count(1)
        self.assertGreater(page.locator(".state.end").count(), 0)
        page.get_by_label("A text to try").fill("yes")
        expect(page.locator(".tried")).to_contain_text("complete")
        page.get_by_label("The form, as regex").fill("(yes|no")
        expect(page.locator(".verdict.problem")).to_contain_text("regex")
        expect(page.locator(".drawing.stale")).to_have_count(1)
        expect(page.get_by_role("button", name="Use it for answers")).to_be_disabled()

    def test_a_schema_that_cannot_be_honoured_is_told_with_its_place(self):
        page = self.open(self.server, "form", expected=("422", "400"))
        page.get_by_label("The form, as json_schema").fill('{"type": "object", "properties": {"a": {"type": "strin"}}}')
        expect(page.locator(".verdict.problem")).to_contain_text("/properties/a")

    def test_a_completion_goes_on_in_place_and_is_taken_back(self):
        page = self.open(self.server, "complete")
        self.set_knob(page, temperature=0, max_tokens=10)
        page.get_by_label("Text", exact=True).fill("The quick")
        page.get_by_role("button", name="Go on").click()
        expect(page.get_by_role("button", name="Go on")).to_be_visible()
        expect(page.locator(".complete .figures")).to_contain_text("10 tokens")
        told = self.server.post("/v1/completions", {"prompt": "The quick", "temperature": 0, "max_tokens": 10}).json
        self.assertEqual(page.get_by_label("Text", exact=True).input_value(), "The quick" + told["choices"][0]["text"])
        self.assertEqual(page.locator(".strip").evaluate("e => e.textContent"), told["choices"][0]["text"])
        page.get_by_role("button", name="Take back").click()
        self.assertEqual(page.get_by_label("Text", exact=True).input_value(), "The quick")

    def test_a_program_fills_its_graph_with_what_it_gives(self):
        page = self.open(self.server, "program")
        self.set_knob(page, temperature=0)
        expect(page.locator(".box.call")).to_have_count(5)
        page.get_by_role("button", name="Run it").click()
        expect(page.locator(".box.call.done")).to_have_count(5)
        expect(page.locator(".wall .note")).to_contain_text("prompt tokens came from the tree")
        body = page.asked[-1][1]
        told = self.server.post("/v1/programs", {**body, "stream": False}).json["results"][0]["variables"]
        for name in ("sum", "verdict"):
            shown = page.locator(f".box.call:has(b:text-is('{name}'))").or_(page.locator(".box.call", has=page.locator("b", has_text=name))).first
            self.assertEqual(shown.get_attribute("title").strip(), told[name].strip() or name)
        self.shot(page, "program")
        page.get_by_label("Begin with").select_option(index=1)
        page.get_by_role("button", name="Run it").click()
        expect(page.locator(".wall .note")).to_contain_text("calls")
        expect(page.locator("select", has_text="1, ended").locator("option")).to_have_count(3)
        page.get_by_label("The graph, as JSON").fill('{"nodes": [')
        expect(page.locator(".notes .problem")).to_contain_text("no JSON yet")


class Live(BrowserCase):
    """A slow model and a pool of tokens so small that the tree has to let go."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        cls.server = cls.stack.enter_context(Server("--load-format", "dummy", "--max-total-tokens", "600", "--context-length", "512",
                                                    model=slow_model(pathlib.Path(folder) / "model")))

    def ask(self, text, tokens=2):
        reply = self.server.post("/generate", {"text": text, "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}})
        self.assertEqual(reply.status, 200, reply.body)

    def test_the_tree_grows_is_searched_and_lets_go_before_ones_eyes(self):
        self.server.post("/flush_cache", None)
        page = self.open(self.server, "tree")
        expect(page.locator(".wall")).to_contain_text("bare")
        for fruit in ("apple", "pear"):
            self.ask(f"A long beginning that both share, and then the {fruit}")
        expect(page.locator(".arm:not(.gone)")).to_have_count(3)
        expect(page.locator(".news")).to_contain_text("grew by")
        texts = page.locator(".arm:not(.gone)").evaluate_all("all => all.map(one => one.getAttribute('aria-label'))")
        self.assertTrue(any("A long" in text for text in texts), texts)
        page.get_by_role("searchbox").fill("THE PEAR")
        expect(page.locator(".search li")).to_have_count(1)
        expect(page.locator(".arm.found")).to_have_count(1)
        page.locator(".search li button").click()
        expect(page.locator(".picked")).to_contain_text("pear")
        page.get_by_role("searchbox").fill("no such words")
        expect(page.locator(".search")).to_contain_text("No prefix has it")
        self.shot(page, "tree")
        running = threading.Thread(target=self.ask, args=("Something else that takes a while", 200))
        running.start()
        expect(page.locator(".arm.pinned").first).to_be_visible()
        running.join()
        expect(page.locator(".arm.pinned")).to_have_count(0)
        for i in range(4):
            self.ask(f"{i} " + "quite another text of some length " * 8)
        expect(page.locator(".news .evicted").first).to_contain_text("let go of")
        self.shot(page, "tree-evicted")

    def test_the_trees_nodes_are_walked_along_with_the_keyboard(self):
        self.server.post("/flush_cache", None)
        for fruit in ("apple", "pear"):
            self.ask(f"Shared words, then {fruit}")
        page = self.open(self.server, "tree")
        expect(page.locator(".arm")).to_have_count(3)
        page.locator(".arm[tabindex='0']").focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        focused = page.evaluate("document.activeElement.getAttribute('aria-level')")
        self.assertEqual(focused, "2")
        expect(page.locator(".picked")).to_be_visible()
        page.keyboard.press("ArrowLeft")
        page.wait_for_function("document.activeElement.getAttribute('aria-level') === '1'")

    def test_the_load_view_tells_what_the_server_tells(self):
        page = self.open(self.server, "load")
        expect(page.locator(".chart")).to_have_count(11)
        threads = [threading.Thread(target=self.ask, args=(f"{i} question", 250)) for i in range(3)]
        for thread in threads:
            thread.start()
        expect(page.locator(".buds .open")).to_have_count(3)
        self.shot(page, "load")
        for thread in threads:
            thread.join()
        expect(page.locator(".buds .open")).to_have_count(0)
        self.server.wait_metric("espalier_requests_running", 0)
        state = self.server.get("/v1/state").json["models"][0]
        expect(page.locator(".facts")).to_contain_text(f"{state['counters']['generated_tokens']:,}")
        first = state["histograms"]["time_to_first_token"]
        expect(page.locator(".chart.bars").first).to_contain_text(f"{sum(first['counts'])} seen")


if __name__ == "__main__":
    unittest.main()
