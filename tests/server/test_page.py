"""The chat page in a real browser without a window: a script of answers stands for the server, another plays the reader.

Left out where there is no chromium (apt package chromium).
"""
import base64
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import SOURCE

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = (SOURCE / "src" / "server" / "routes" / "chat_page.html").read_text()

# Before the page's own script: fetch() answers out of `answers`, and remembers what it was asked.
DOUBLE = """<script>
const asked = [], answers = %s;
window.fetch = async (url, options) => {
  if (url.endsWith("/v1/models")) return new Response(JSON.stringify({data: [{id: "toy"}]}));
  if (url.endsWith("/props")) return new Response(JSON.stringify({modalities: {vision: %s}}));
  asked.push(JSON.parse(options.body));
  const answer = answers.shift();
  if (answer === "unreachable") throw new TypeError("Failed to fetch");
  if (answer.error) return new Response(JSON.stringify({error: answer.error}), {status: answer.status || 400});
  const text = new TextEncoder().encode(answer.events.map(e => "data: " + JSON.stringify(e) + "\\n\\n").join("") + "data: [DONE]\\n\\n");
  return new Response(new Blob([text]).stream());
};
</script>
"""
# After it: asks, waits, and leaves what it saw in the title.
PLAY = """<script>
const until = async test => { for (let i = 0; i < 500 && !test(); ++i) await new Promise(r => setTimeout(r, 5)); };
const say = async text => {
  $("text").value = text;
  $("ask").requestSubmit();
  await until(() => running === null);
};
const press = async text => {
  [...document.querySelectorAll("#turns button")].filter(b => b.textContent === text).pop().click();
  await until(() => running === null);
};
const seen = () => [...document.querySelectorAll(".turn")].map(t => t.innerText);
(async () => {
  let result;
  try { result = await (async () => { %s })(); } catch (failure) { result = "failed: " + failure.stack; }
  document.documentElement.textContent = "RESULT" + btoa(unescape(encodeURIComponent(JSON.stringify(result)))) + "END";
})();
</script>
"""


def events(*pieces, reason="stop"):
    chunks = [{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}]
    chunks += [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    usage = {"prompt_tokens": 9, "completion_tokens": len(pieces), "prompt_tokens_details": {"cached_tokens": 4}}
    return {"events": [*chunks, {"choices": [], "usage": usage}]}


@unittest.skipIf(BROWSER is None, "no chromium here: the tests of the chat page are left out")
class PageCase(unittest.TestCase):
    def play(self, answers, steps, sees=True):
        with tempfile.TemporaryDirectory() as folder:
            page = PAGE.replace("<script>", DOUBLE % (json.dumps(answers), json.dumps(sees)) + "<script>", 1)
            page = page.replace("</body>", PLAY % steps + "</body>", 1)
            file = pathlib.Path(folder) / "page.html"
            file.write_text(page)
            out = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile",
                                  "--virtual-time-budget=20000", "--dump-dom", file.as_uri()],
                                 capture_output=True, timeout=120, text=True)
        self.assertIn("RESULT", out.stdout, out.stderr[-2000:])
        return json.loads(base64.b64decode(out.stdout.split("RESULT")[1].split("END")[0]))


class Page(PageCase):
    def test_the_key_field_shows_only_when_a_key_is_wanted(self):
        seen = self.play([{"error": {"message": "this server needs an API key", "code": "invalid_api_key"}, "status": 401}], """
            const before = getComputedStyle($("key-label")).display;
            await say("x");
            return [before, getComputedStyle($("key-label")).display];""")
        self.assertEqual(seen[0], "none")
        self.assertNotEqual(seen[1], "none")

    def test_answers_are_shown_with_their_figures_and_kept(self):
        result = self.play([events("Hel", "lo"), events("again", reason="length")],
                           'await say("one"); await say("two"); return [seen(), asked];')
        turns, asked = result
        self.assertIn("Hello", turns[1])
        self.assertIn("4 of 9 prompt tokens from the cache", turns[1])
        self.assertNotIn("cut off", turns[1])
        self.assertIn("cut off at its limit of tokens", turns[3])
        self.assertEqual([m["content"] for m in asked[1]["messages"]], ["one", "Hello", "two"])

    def test_failed_questions_leave_the_history_and_are_offered_again(self):
        turns, asked = self.play(["unreachable", events("fine"), {"error": {"message": "broken", "code": "internal"}, "status": 500},
                                  events("done")],
                                 'await say("one"); const first = seen(); await press("Ask again"); await say("two"); await say("three");'
                                 "return [[...first, ...seen()], asked];")
        self.assertIn("The server cannot be reached", turns[1])
        self.assertNotIn("Failed to fetch", " ".join(turns))
        self.assertEqual([[m["content"] for m in one["messages"]] for one in asked],
                         [["one"], ["one"], ["one", "fine", "two"], ["one", "fine", "three"]])

    def test_a_full_context_suggests_a_new_chat(self):
        turns, asked = self.play([events("fine"), {"error": {"message": "the prompt has 600 tokens", "code": "context_length_exceeded"}},
                                  events("short again")],
                                 'await say("one"); await say("two"); const full = seen(); await press("New chat with this question");'
                                 "return [[...full, ...seen()], asked];")
        self.assertIn("no longer fits the model's context", turns[3])
        self.assertEqual([m["content"] for m in asked[2]["messages"]], ["two"])
        self.assertEqual(len(turns), 6, "the old turns are gone")

    def test_empty_number_fields_are_not_sent(self):
        asked = self.play([events("a"), events("b")], """
            await say("x");
            $("temperature").value = ""; $("limit").value = "";
            await say("y");
            return asked;""")
        self.assertEqual((asked[0]["temperature"], asked[0]["max_tokens"]), (0.7, 512))
        self.assertNotIn("temperature", asked[1])
        self.assertNotIn("max_tokens", asked[1])

    def test_there_is_a_waiting_mark_until_the_first_word(self):
        result = self.play([events("word")], """
            $("text").value = "x"; $("ask").requestSubmit();
            const before = document.querySelectorAll(".waiting").length;
            await until(() => running === null);
            return [before, document.querySelectorAll(".waiting").length];""")
        self.assertEqual(result, [1, 0])

    def test_markdown_is_shown_and_text_never_becomes_markup(self):
        text = ("# Head\nA **bold** word, `a<b>` and <img src=x onerror=alert(1)>.\n\n- one\n- two **2**\n\n3. three\n4. four\n\n"
                "```html\n<script>alert(1)</script>\n**not bold**\n```\nend ** not bold, 2 * 3 * 4")
        html, plain = self.play([events(*[text[i:i + 5] for i in range(0, len(text), 5)])],
                                'await say("x"); const said = document.querySelector(".said"); return [said.innerHTML, said.textContent];')
        for part in ("<h2>Head</h2>", "<strong>bold</strong>", "<code>a&lt;b&gt;</code>", "&lt;img src=x onerror=alert(1)&gt;",
                     "<ul><li>one</li><li>two <strong>2</strong></li></ul>", '<li value="3">three</li>', "&lt;script&gt;alert(1)&lt;/script&gt;\n**not bold**"):
            self.assertIn(part, html)
        self.assertNotIn("<img", html)
        self.assertIn("end ** not bold, 2 * 3 * 4", plain)


# A picture of one dot, as a file that somebody holds.
DOT = """
const bytes = Uint8Array.from(atob("%s"), c => c.charCodeAt(0));
const held = (name, type) => { const all = new DataTransfer(); all.items.add(new File([bytes], name, {type})); return all; };
await until(() => sees !== null);
""" % base64.b64encode((SOURCE / "tests" / "data" / "pictures" / "1.png").read_bytes()).decode()


class PagePictures(PageCase):
    def urls(self, message):
        return [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]

    def test_dropped_pasted_and_chosen_pictures_are_sent_and_shown(self):
        asked, shown, waiting, over = self.play([events("a dot"), events("again")], DOT + """
            const held1 = held("a.png", "image/png");
            document.dispatchEvent(new DragEvent("dragover", {dataTransfer: held1, bubbles: true, cancelable: true}));
            const over = $("ask").classList.contains("over");
            document.dispatchEvent(new DragEvent("drop", {dataTransfer: held1, bubbles: true, cancelable: true}));
            await until(() => added.length === 1);
            $("text").dispatchEvent(new ClipboardEvent("paste", {clipboardData: held("b.png", "image/png"), bubbles: true, cancelable: true}));
            await until(() => added.length === 2);
            $("files").files = held("c.png", "image/png").files;
            $("files").dispatchEvent(new Event("change"));
            await until(() => added.length === 3);
            $("added").querySelector("button").click();
            const waiting = $("added").querySelectorAll("img").length;
            await say("what is this?");
            await say("and this?");
            return [asked, [...document.querySelectorAll(".turn.user")].map(t => [t.querySelectorAll("img").length, t.innerText.trim()]), [waiting, added.length], over];""")
        dot = "data:image/png;base64," + base64.b64encode((SOURCE / "tests" / "data" / "pictures" / "1.png").read_bytes()).decode()
        self.assertEqual(self.urls(asked[0]["messages"][0]), [dot, dot])
        self.assertEqual(asked[0]["messages"][0]["content"][-1], {"type": "text", "text": "what is this?"})
        self.assertEqual(shown, [[2, "what is this?"], [0, "and this?"]])
        self.assertEqual(waiting, [2, 0])
        self.assertTrue(over)
        self.assertEqual(self.urls(asked[1]["messages"][0]), [dot, dot], "it stays in the conversation")

    def test_a_question_may_be_a_picture_alone_and_is_asked_again_whole(self):
        asked = self.play(["unreachable", events("fine")], DOT + """
            await take(held("a.png", "image/png").files);
            await say("");
            await press("Ask again");
            return asked;""")
        self.assertEqual(len(asked), 2)
        self.assertEqual(asked[0]["messages"], asked[1]["messages"])
        self.assertEqual([part["type"] for part in asked[1]["messages"][0]["content"]], ["image_url"])

    def test_a_model_without_eyes_and_files_that_are_no_pictures_are_said_so(self):
        blind = self.play([], DOT + """
            await take(held("a.png", "image/png").files);
            return [added.length, $("refused").hidden, $("refused").textContent];""", sees=False)
        self.assertEqual(blind[:2], [0, False])
        self.assertIn("takes no pictures", blind[2])
        text = self.play([events("x")], DOT + """
            await take(held("notes.txt", "text/plain").files);
            const told = $("refused").textContent;
            await say("x");
            return [told, $("refused").hidden, asked[0].messages[0].content];""")
        self.assertEqual(text, ["notes.txt is no picture.", True, "x"])

    def test_a_picture_that_the_server_refuses_leaves_the_history(self):
        turns, asked = self.play([{"error": {"message": "messages[0].content[0]: the file is no picture", "code": "invalid_image"}}, events("ok")], DOT + """
            await take(held("a.png", "image/png").files);
            await say("look");
            await say("hello");
            return [seen(), asked];""")
        self.assertIn("the file is no picture", turns[1])
        self.assertEqual(asked[1]["messages"], [{"role": "user", "content": "hello"}])


if __name__ == "__main__":
    unittest.main()
