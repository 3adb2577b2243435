"""Everybody can use the page: axe finds nothing, the keyboard reaches everything, a phone is wide enough; and nobody can misuse it."""
import re
import tempfile
import unittest

from browser import PHONE, WIDE, BrowserCase, expect
from harness import SOURCE, Server
from page_models import model_with

AXE = SOURCE / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ("chat", "complete", "form", "tree", "load", "program")


class Access(BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = cls.stack.enter_context(tempfile.TemporaryDirectory())
        cls.server = cls.stack.enter_context(Server(model=model_with(folder)))

    def filled(self, view, **how):
        """A view with something in it."""
        page = self.open(self.server, "chat", **how)
        page.evaluate("""localStorage.setItem("espalier.sampling", JSON.stringify({values: {n: 2, max_tokens: 12, temperature: 1}, stop: "", effort: ""}))""")
        page.evaluate("""localStorage.setItem("espalier.chosen", JSON.stringify({model: "", tokens: true, looks: "auto"}))""")
        page.reload()
        self.say(page, "A question")
        page.goto(page.url.split("#")[0] + "#" + view)
        page.wait_for_timeout(400)
        if view == "program":
            page.get_by_role("button", name="Run it").click()
            expect(page.locator(".box.call.done")).to_have_count(5)
        if view in ("tree", "load"):
            expect(page.locator(".facts").first).to_be_visible()
        page.wait_for_timeout(1500 if view == "tree" else 100)
        return page

    @unittest.skipUnless(AXE.exists(), "axe-core is not here (tools/page.sh --install): contrast and names are not checked")
    def test_axe_finds_nothing_in_any_view_light_dark_and_on_a_phone(self):
        rules = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
        for look, viewport in (("light", WIDE), ("dark", WIDE), ("light", PHONE)):
            for view in VIEWS:
                page = self.filled(view, look=look, viewport=viewport)
                for opened in ("", "settings") if view == "chat" else ("",):
                    if opened:
                        self.open_settings(page)
                    with self.subTest(view=view, look=look, width=viewport["width"], opened=opened):
                        page.evaluate(AXE.read_text())  # past the page's policy, as a debugger may
                        found = page.evaluate("rules => axe.run(document, rules)", rules)["violations"]
                        told = [(v["id"], [n["html"][:150] + " " + (n["failureSummary"] or "")[:250] for n in v["nodes"][:3]]) for v in found]
                        self.assertEqual(told, [])
                        self.shot(page, f"{view}-{look}-{viewport['width']}{'-' + opened if opened else ''}")

    def test_no_view_is_wider_than_a_phone(self):
        for view in VIEWS:
            page = self.filled(view, viewport=PHONE)
            with self.subTest(view):
                wide = page.evaluate("""() => [document.documentElement.scrollWidth,
                  ...[...document.querySelectorAll("button, input, select, textarea, h2")].filter(e => e.checkVisibility() && !e.closest(".fork, .canvas, .unseen"))
                    .map(e => Math.round(e.getBoundingClientRect().right))]""")
                self.assertLessEqual(max(wide), PHONE["width"])

    def test_the_keyboard_reaches_everything_and_every_control_has_a_name(self):
        page = self.filled("chat")
        page.evaluate("document.activeElement.blur()")
        wanted = page.evaluate("""() => [...document.querySelectorAll("a[href], button, input, select, textarea, summary")]
          .filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled).length""")
        reached = set()
        for _ in range(wanted + 30):
            page.keyboard.press("Tab")
            name = page.evaluate("""() => { const e = document.activeElement; e.dataset.reached = e.dataset.reached || Math.random();
              return e === document.body ? null : [e.matches("a[href], button, input, select, textarea, summary"), e.dataset.reached]; }""")
            if name and name[0]:
                reached.add(name[1])
        self.assertEqual(len(reached), wanted)

    def test_keys_open_views_a_new_chat_settings_and_their_own_list(self):
        page = self.filled("chat")
        for number, view in enumerate(VIEWS, 1):
            page.keyboard.press(f"Alt+{number}")
            expect(page).to_have_url(re.compile(f"#{view}$"))
        page.keyboard.press("Alt+n")
        expect(page.get_by_role("heading", name="New chat")).to_be_visible()
        page.keyboard.press("Alt+s")
        expect(page.get_by_label("Temperature")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator(".drawer")).to_have_count(0)
        page.locator("body").click(position={"x": 700, "y": 300})
        page.keyboard.press("?")
        expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)

    def test_the_look_follows_the_system_until_somebody_chooses(self):
        page = self.open(self.server, look="dark")
        back = "getComputedStyle(document.body).backgroundColor"
        dark = page.evaluate(back)
        self.open_settings(page)
        page.get_by_role("radio", name="Light").check()
        self.assertNotEqual(page.evaluate(back), dark)
        page.reload()
        self.assertNotEqual(page.evaluate(back), dark)

    def test_the_policy_lets_no_other_script_run(self):
        policy = self.server.get("/").headers["Content-Security-Policy"]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        page = self.open(self.server, expected=("Content Security Policy", "violates", "Refused"))
        page.evaluate("""() => { const s = document.createElement("script"); s.textContent = "window.ran = 1"; document.body.append(s);
          const i = document.createElement("img"); i.src = "http://127.0.0.1:9/x.png"; document.body.append(i); }""")
        page.wait_for_timeout(200)
        self.assertIsNone(page.evaluate("window.ran ?? null"))
        page.elsewhere.clear()  # the picture was asked for by this test, and blocked


if __name__ == "__main__":
    unittest.main()
