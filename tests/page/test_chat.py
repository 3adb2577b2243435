"""Conversations in the page, against the real server."""
import json
import pathlib
import tempfile
import unittest

from browser import BrowserCase, expect
from harness import SOURCE, Server
from page_models import VISION, model_with, slow_model, thinking_model

SCHEMA = {"type": "object", "properties": {"fruit": {"enum": ["apple", "pear"]}, "kilos": {"type": "integer", "minimum": 1, "maximum": 99}},
          "required": ["fruit", "kilos"], "additionalProperties": False}
MARKDOWN = "# Head\nA **bold** word, `a<b>`, <img src=x onerror=alert(1)>.\n\n- one\n- two\n\n```html\n<script>alert(1)</script>\n```\n[x](javascript:alert(1)) [y](https://example.org/)"


def as_regex(text):
    return "".join(c if c.isalnum() or c in " \n<>=:-" else "\\" + c for c in text)


class ChatCase(BrowserCase):
    make, FLAGS = staticmethod(model_with), ()

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.stack.enter_context(tempfile.TemporaryDirectory()))
        cls.server = cls.stack.enter_context(Server(*cls.FLAGS, model=cls.make(cls.folder / "model")))

    def set_form(self, page, regex):
        """Answers with letters that Markdown has no use for."""
        kept = {"kind": "regex", "tried": "", "texts": {"regex": regex, "json_schema": "{}", "choices": "a", "ebnf": 'root ::= "a"'}}
        page.evaluate("kept => localStorage.setItem('espalier.shape', JSON.stringify(kept))", kept)
        page.reload()


class Answers(ChatCase):
    def test_an_answer_is_shown_with_its_figures_and_goes_on(self):
        page = self.open(self.server)
        self.set_knob(page, temperature=0, max_tokens=12)
        self.say(page, "The quick")
        expect(page.locator(".turn.assistant .figures").first).to_contain_text("12 tokens")
        expect(page.locator(".turn.assistant .figures").nth(1)).to_have_text("cut off at its limit of tokens")
        self.say(page, "and then")
        first, second = self.bodies(page)
        self.assertEqual((first["temperature"], first["max_tokens"]), (0, 12))
        self.assertNotIn("top_p", first, "what is not set is not sent")
        told = self.server.post("/v1/chat/completions", {**first, "stream": False, "stream_options": None}).json
        self.assertEqual([m["role"] for m in second["messages"]], ["user", "assistant", "user"])
        self.assertEqual(second["messages"][1]["content"], told["choices"][0]["message"]["content"])
        expect(page.locator(".turn.assistant .figures").nth(2)).to_contain_text("from the cache")

    def test_a_system_prompt_comes_first(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=4)
        page.locator(".system summary").click()
        page.get_by_label("System prompt", exact=True).fill("Be brief.")
        self.say(page, "x")
        self.assertEqual(self.bodies(page)[0]["messages"][0], {"role": "system", "content": "Be brief."})

    def test_markdown_is_shown_and_text_never_becomes_markup(self):
        page = self.open(self.server, "form")
        page.get_by_label("Regex").check()
        page.get_by_label("The form, as regex").fill(as_regex(MARKDOWN))
        expect(page.locator(".verdict")).to_have_text("Valid")
        page.get_by_role("button", name="Use it for answers").click()
        page.get_by_role("button", name="To the chat").click()
        self.say(page, "x")
        said = page.locator(".said")
        expect(said.locator("h3")).to_have_text("Head")
        expect(said.locator("strong")).to_have_text("bold")
        expect(said.locator("ul li")).to_have_count(2)
        expect(said.locator("pre")).to_have_text("<script>alert(1)</script>")
        expect(said.locator("img, script")).to_have_count(0)
        self.assertEqual(said.locator("a").evaluate_all("all => all.map(a => a.href)"), ["https://example.org/"])

    def test_branches_stand_side_by_side_and_the_chosen_one_goes_on(self):
        page = self.open(self.server)
        self.set_form(page, "[a-z]{3,8} [a-z]{3,8}")
        self.set_knob(page, temperature=1, n=3)
        self.say(page, "one")
        expect(page.locator(".fork > .branch")).to_have_count(3)
        self.set_knob(page, n="")
        page.locator(".branch").nth(1).get_by_role("button", name="Go on here").click()
        wanted = page.locator(".branch").nth(1).locator(".said").inner_text()
        self.shot(page, "branches")
        self.say(page, "two")
        sent = self.bodies(page)[-1]["messages"]
        self.assertEqual([m["role"] for m in sent], ["user", "assistant", "user"])
        self.assertEqual(sent[1]["content"], wanted)
        expect(page.locator(".branch").nth(1).locator(".turn")).to_have_count(3)
        page.locator(".branch").nth(2).get_by_role("button", name="Alone").click()
        expect(page.locator(".fork")).to_have_count(0)
        expect(page.locator(".siblings")).to_contain_text("3 of 3")
        page.get_by_role("button", name="Branch before").click()
        expect(page.locator(".siblings")).to_contain_text("2 of 3")

    def test_a_question_is_asked_in_other_words_beside_the_first(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=6)
        self.say(page, "first words")
        page.locator(".turn.user").hover()
        page.locator(".turn.user").get_by_role("button", name="Edit").click()
        page.get_by_label("The turn in other words").fill("other words")
        page.keyboard.press("Enter")
        expect(page.locator(".fork > .branch")).to_have_count(2)
        self.settled(page)
        self.assertEqual(self.bodies(page)[1]["messages"], [{"role": "user", "content": "other words"}])
        expect(page.locator(".branch").nth(0).locator(".asked")).to_have_text("first words")
        page.locator(".branch").nth(1).locator(".turn.assistant").get_by_role("button", name="Another answer").click()
        expect(page.locator(".siblings")).to_contain_text("2 of 2")

    def test_an_answer_that_somebody_edits_is_what_goes_on(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=6)
        self.say(page, "x")
        page.locator(".turn.assistant").get_by_role("button", name="Edit").click()
        page.get_by_label("The turn in other words").fill("Mine.")
        page.get_by_role("button", name="Keep this instead").click()
        self.say(page, "y")
        self.assertEqual(self.bodies(page)[1]["messages"][1], {"role": "assistant", "content": "Mine."})

    def test_every_token_shows_how_likely_it_and_others_were(self):
        page = self.open(self.server)
        self.set_knob(page, temperature=1, max_tokens=8, seed=3)
        page.get_by_role("checkbox", name="Tokens").check()
        self.say(page, "x")
        expect(page.locator(".strip [data-token]")).to_have_count(8)
        page.locator(".strip [data-token]").nth(2).hover()
        shares = page.locator(".alternatives td.figure").all_inner_texts()
        self.assertGreaterEqual(len(shares), 6)
        self.assertLessEqual(sum(float(s.split()[0]) for s in shares if s[0] != "<"), 101)
        expect(page.locator(".alternatives .taken")).to_have_count(1)
        self.shot(page, "tokens")
        page.locator(".strip").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator(".strip .at")).to_have_count(1)

    def test_a_dropped_schema_gives_answers_their_form(self):
        page = self.open(self.server)
        self.drop(page, "fruit.json", "application/json", json.dumps(SCHEMA).encode())
        expect(page.locator(".note")).to_contain_text("fruit.json")
        expect(page.locator(".in-force")).to_contain_text("JSON schema")
        self.say(page, "Which?")
        value = json.loads(page.locator(".said pre").inner_text())
        self.assertIn(value["fruit"], ("apple", "pear"))
        page.get_by_role("button", name="Free text again").click()
        expect(page.locator(".in-force")).to_have_count(0)

    def drop(self, page, name, kind, data):
        page.evaluate("""([name, kind, bytes]) => {
          const held = new DataTransfer();
          held.items.add(new File([Uint8Array.from(bytes)], name, {type: kind}));
          for (const what of ["dragover", "drop"])
            document.dispatchEvent(new DragEvent(what, {dataTransfer: held, bubbles: true, cancelable: true}));
        }""", [name, kind, list(data)])

    def test_calls_of_tools_are_shown_and_their_results_go_back(self):
        page = self.open(self.server)
        self.open_settings(page)
        page.get_by_role("checkbox", name="Tools").check()
        tool = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"enum": ["Rome", "Oslo"]}}, "required": ["city"], "additionalProperties": False}}
        page.get_by_label("Tools, as JSON").fill(json.dumps([tool])[:-1])
        expect(page.locator(".drawer .problem")).to_contain_text("Not JSON yet")
        page.get_by_label("Tools, as JSON").fill(json.dumps([{**tool, "strict": True}]))
        expect(page.locator(".drawer")).to_contain_text("1 tool can be called")
        page.get_by_role("radio", name="Always").check()
        page.locator(".drawer [name=max_tokens]").fill("200")
        page.get_by_role("button", name="Close").click()
        self.say(page, "What is the weather?")
        call = page.locator(".call")
        expect(call).to_contain_text("weather")
        arguments = json.loads(call.locator("pre").inner_text())
        self.assertIn(arguments["city"], ("Rome", "Oslo"))
        self.shot(page, "tools")
        page.get_by_label("Result of weather, call 1").fill("12 degrees")
        page.get_by_role("button", name="Send result").click()
        expect(page.locator(".turn.tool")).to_contain_text("12 degrees")
        self.settled(page)
        sent = self.bodies(page)[1]
        self.assertEqual([m["role"] for m in sent["messages"]], ["user", "assistant", "tool"])
        self.assertEqual(sent["messages"][2]["tool_call_id"], sent["messages"][1]["tool_calls"][0]["id"])
        self.assertEqual(sent["tool_choice"], "auto")

    def test_a_text_model_takes_no_pictures_and_says_so(self):
        page = self.open(self.server)
        expect(page.get_by_role("button", name="Add a file")).to_be_visible()
        self.drop(page, "a.png", "image/png", b"x")
        expect(page.get_by_role("alert")).to_contain_text("takes no pictures")
        self.drop(page, "a.txt", "text/plain", b"x")
        expect(page.get_by_role("alert")).to_have_text("a.txt is neither a picture nor JSON.")

    def test_conversations_are_kept_exported_and_come_back(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=6)
        self.say(page, "Remember me")
        answer = page.locator(".said").inner_text()
        page.wait_for_timeout(600)
        page.reload()
        page.get_by_role("button", name="Remember me", exact=True).click()
        expect(page.locator(".said")).to_have_text(answer)
        with page.expect_download() as loading:
            page.get_by_role("button", name="Export all").click()
        kept = pathlib.Path(loading.value.path()).read_text()
        self.assertEqual(json.loads(kept)["format"], "espalier-chats/1")
        page.get_by_role("button", name="Delete Remember me").click()
        expect(page.get_by_role("button", name="Remember me", exact=True)).to_have_count(0)
        page.locator(".conversations input[type=file]").set_input_files({"name": "chats.json", "mimeType": "application/json", "buffer": kept.encode()})
        expect(page.locator(".said")).to_have_text(answer)
        page.locator(".conversations input[type=file]").set_input_files({"name": "x.json", "mimeType": "application/json", "buffer": b"{}"})
        expect(page.get_by_role("alert")).to_contain_text("holds no conversations")

    def test_what_does_not_fit_suggests_a_new_chat(self):
        page = self.open(self.server, expected=("400",))
        self.set_knob(page, max_tokens=4)
        self.say(page, "short")
        self.say(page, "long " * 600)
        expect(page.get_by_role("alert")).to_contain_text("no longer fits")
        self.say(page, "short again")
        sent = self.bodies(page)[2]["messages"]
        self.assertEqual((len(sent), sent[0]["content"], sent[2]["content"]), (3, "short", "short again"))
        expect(page.locator(".siblings")).to_contain_text("2 of 2")
        page.get_by_role("button", name="Branch before").click()
        page.get_by_role("button", name="New chat with this question").click()
        self.settled(page)
        self.assertEqual(len(self.bodies(page)[3]["messages"]), 1)


class Stopping(ChatCase):
    make, FLAGS = staticmethod(slow_model), ("--load-format", "dummy")

    def test_a_running_answer_is_stopped_by_button_and_by_key(self):
        page = self.open(self.server)
        for stop in (lambda: page.get_by_role("button", name="Stop").click(), lambda: page.keyboard.press("Escape")):
            self.say(page, "go on", wait=False)
            page.wait_for_function("() => [...document.querySelectorAll('.turn.running .said')].some(e => e.textContent.length > 3)")
            self.assertEqual(self.server.metric("espalier_requests_running"), 1)
            stop()
            self.settled(page)
            self.server.wait_metric("espalier_requests_running", 0)
            expect(page.locator(".turn.assistant").last).to_contain_text("stopped")
            self.assertGreater(len(page.locator(".said").last.inner_text()), 0, "what had come stays")
        self.assertLess(self.server.metric("espalier_generated_tokens_total"), 3000)

    def test_a_server_that_has_gone_is_told_in_a_sentence(self):
        with Server(model=model_with(self.folder / "other")) as server:
            page = self.open(server, expected=("Failed to load", "ERR_"))
            server.kill()
            self.say(page, "x")
            expect(page.locator(".turn").get_by_role("alert")).to_contain_text("The server cannot be reached")
            expect(page.get_by_role("alert").get_by_role("button", name="Ask again")).to_be_visible()


class Thinking(ChatCase):
    make, FLAGS = staticmethod(thinking_model), ("--reasoning-parser", "deepseek_r1")

    def test_thinking_is_folded_and_stays_out_of_the_answer(self):
        page = self.open(self.server)
        self.set_knob(page, max_tokens=40, max_reasoning_tokens=12, temperature=1, seed=5)
        self.say(page, "x")
        thinking = page.locator("details.thinking").first
        expect(thinking.locator("summary")).to_contain_text("Thought for")
        expect(thinking).not_to_have_attribute("open", "")
        thinking.locator("summary").click()
        self.assertGreater(len(thinking.locator("div").evaluate("e => e.textContent")), 0)
        self.shot(page, "thinking")
        self.say(page, "y")
        first, second = self.bodies(page)
        told = self.server.post("/v1/chat/completions", {**first, "stream": False, "stream_options": None}).json["choices"][0]["message"]
        self.assertGreater(len(told["reasoning_content"]), 0)
        self.assertEqual(second["messages"][1], {"role": "assistant", "content": told["content"]})


class Pictures(ChatCase):
    """The smallest golden that sees: it takes pictures whatever they show."""

    @classmethod
    def setUpClass(cls):
        BrowserCase.setUpClass.__func__(cls)
        cls.server = cls.stack.enter_context(Server(model=VISION))

    def test_dropped_pasted_and_chosen_pictures_are_sent_and_shown(self):
        page = self.open(self.server)
        expect(page.get_by_role("button", name="Add a picture")).to_be_visible()
        self.set_knob(page, max_tokens=6)
        picture = SOURCE / "tests" / "data" / "pictures" / "rgb.png"
        Answers.drop(self, page, "a.png", "image/png", picture.read_bytes())
        expect(page.locator(".added img")).to_have_count(1)
        page.evaluate("""bytes => {
          const held = new DataTransfer();
          held.items.add(new File([Uint8Array.from(bytes)], "b.png", {type: "image/png"}));
          document.getElementById("message").dispatchEvent(new ClipboardEvent("paste", {clipboardData: held, bubbles: true, cancelable: true}));
        }""", list(picture.read_bytes()))
        expect(page.locator(".added img")).to_have_count(2)
        page.locator("#files").set_input_files(picture)
        expect(page.locator(".added img")).to_have_count(3)
        page.get_by_role("button", name="Leave out rgb.png").click()
        page.get_by_role("button", name="Leave out b.png").click()
        self.say(page, "What is it?")
        expect(page.locator(".turn.user img")).to_have_count(1)
        expect(page.locator(".turn.assistant .figures").first).to_contain_text("tokens")
        content = self.bodies(page)[0]["messages"][0]["content"]
        self.assertEqual([part["type"] for part in content], ["image_url", "text"])
        self.assertTrue(content[0]["image_url"]["url"].startswith("data:image/png;base64,"))
        self.shot(page, "picture")
        self.say(page, "And now?")
        self.assertEqual(self.bodies(page)[1]["messages"][0]["content"], content, "it stays in the conversation")
        expect(page.locator(".turn.assistant").last.locator(".figures").first).to_contain_text("from the cache")

    def test_a_file_that_only_says_it_is_a_picture_is_refused_by_name(self):
        page = self.open(self.server, expected=("400",))
        Answers.drop(self, page, "a.png", "image/png", b"no picture at all")
        self.say(page, "")
        expect(page.locator(".turn").get_by_role("alert")).to_contain_text("messages[0].content[0]")


class Keys(ChatCase):
    FLAGS = ("--api-key", "secret-one")

    def test_the_page_asks_for_the_key_and_keeps_it_in_the_tab(self):
        context = self.browser.new_context(http_credentials={"username": "x", "password": "secret-one"})
        self.addCleanup(context.close)
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{self.server.port}/")
        expect(page.locator("#message")).to_be_visible()
        page.wait_for_timeout(500)
        self.open_settings(page)
        page.locator("#key").fill("wrong")
        page.locator("#key").blur()
        expect(page.locator("#key-wanted")).to_be_visible()
        page.locator("#key").fill("secret-one")
        page.locator("#key").blur()
        expect(page.locator("#key-wanted")).to_have_count(0)
        page.get_by_role("button", name="Close").click()
        self.say(page, "x")
        expect(page.locator(".turn.assistant .figures").first).to_contain_text("tokens")
        self.assertEqual(page.evaluate("[sessionStorage.getItem('espalier.key'), localStorage.getItem('espalier.key')]"), ["secret-one", None])


if __name__ == "__main__":
    unittest.main()
