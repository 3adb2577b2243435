"""A browser for the tests of the page, and what they do with it again and again."""
import contextlib
import json
import shutil
import unittest

from harness import SOURCE

try:
    from playwright.sync_api import expect, sync_playwright
    expect.set_options(timeout=20_000)
except ImportError:
    sync_playwright = expect = None

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SHOTS = SOURCE / "build" / "page"
WIDE, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 844}


@unittest.skipIf(CHROMIUM is None or sync_playwright is None, "no Chromium or no Playwright here: the page itself is not tried")
class BrowserCase(unittest.TestCase):
    """One browser for a class; a fresh profile, whose console must stay empty, for each test."""

    @classmethod
    def setUpClass(cls):
        cls.stack = contextlib.ExitStack()
        cls.addClassCleanup(cls.stack.close)
        player = cls.stack.enter_context(sync_playwright())
        cls.browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        cls.stack.callback(cls.browser.close)
        SHOTS.mkdir(parents=True, exist_ok=True)

    def open(self, server, view="chat", viewport=WIDE, look="light", expected=()):
        """A page of its own. `expected`: parts of console messages that belong to the test."""
        context = self.browser.new_context(viewport=viewport, color_scheme=look, accept_downloads=True)
        self.addCleanup(context.close)
        page = context.new_page()
        page.set_default_timeout(20000)
        page.asked, page.troubles, page.elsewhere = [], [], []
        page.on("console", lambda said: page.troubles.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: page.troubles.append(str(error)))
        own = f"http://127.0.0.1:{server.port}/"

        def note(request):
            if request.method == "POST":
                page.asked.append((request.url.removeprefix(own), json.loads(request.post_data or "{}")))
            if not request.url.startswith((own, "data:", "blob:")):
                page.elsewhere.append(request.url)

        page.on("request", note)
        page.goto(f"{own}#{view}")
        self.addCleanup(lambda: self.check_page(page, expected))
        return page

    def check_page(self, page, expected):
        self.assertEqual([said for said in page.troubles if not any(part in said for part in expected)], [])
        self.assertEqual(page.elsewhere, [], "nothing is asked of anybody else")

    def bodies(self, page, path="v1/chat/completions"):
        return [body for to, body in page.asked if to == path]

    def say(self, page, text, wait=True):
        page.get_by_label("Message", exact=True).fill(text)
        page.keyboard.press("Enter")
        if wait:
            self.settled(page)

    def settled(self, page):
        expect(page.locator(".turn").first).to_be_visible()
        expect(page.locator(".turn.running")).to_have_count(0, timeout=60000)

    def set_knob(self, page, **values):
        """Numbers of the drawer of settings, by the names of their fields."""
        self.open_settings(page)
        for name, value in values.items():
            page.locator(f".drawer [name={name}]").fill(str(value))
        page.get_by_role("button", name="Close").click()

    def open_settings(self, page):
        if page.locator(".drawer").count() == 0:
            page.locator(".settings-button").click()

    def shot(self, page, name):
        page.screenshot(path=SHOTS / f"{name}.png")
