"""draw_figures.py PORT: the README's two pictures of the page (docs/figures/page-*.png), from a server that runs with a real model.

    build/espalier serve smollm2-135m --port 30000 --max-total-tokens 6000 &
    build/page-venv/bin/python tests/page/draw_figures.py 30000
"""
import json
import pathlib
import sys
import threading
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "server"))
from browser import CHROMIUM, expect, sync_playwright  # noqa: E402
from harness import SOURCE  # noqa: E402

FIGURES = SOURCE / "docs" / "figures"
SYSTEM = "You are a gardener who answers briefly."
QUESTIONS = ["Which pears ripen early?", "Which pears keep until spring?", "When are pears pruned?", "How deep do I plant a young apple tree?",
             "How far apart do apple trees stand?", "What is a rootstock?", "Is quince a rootstock for pears?", "How is a cordon trained?",
             "How is a fan trained?", "When are pears picked?"]


def chat(base, question, tokens=24):
    body = {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}], "max_tokens": tokens, "temperature": 0}
    request = urllib.request.Request(base + "v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    urllib.request.urlopen(request, timeout=120).read()


def draw_chat(page, base):
    page.goto(base)
    page.locator(".settings-button").click()
    for name, value in (("temperature", "0.4"), ("max_tokens", "110"), ("n", "2"), ("seed", "5")):
        page.locator(f".drawer [name={name}]").fill(value)
    page.get_by_role("button", name="Close").click()
    page.locator(".system summary").click()
    page.get_by_label("System prompt", exact=True).fill(SYSTEM)
    page.locator(".system summary").click()
    page.get_by_label("Message", exact=True).fill("Give me three tips for planting an apple tree.")
    page.keyboard.press("Enter")
    expect(page.locator(".branch")).to_have_count(2)
    expect(page.locator(".turn.running")).to_have_count(0, timeout=120_000)
    page.locator(".scroll").evaluate("e => { e.scrollTop = 0; }")
    page.mouse.move(5, 5)
    page.wait_for_timeout(300)
    page.screenshot(path=FIGURES / "page-chat.png")


def draw_tree(page, base):
    for question in QUESTIONS:
        chat(base, question)
    for question in (*QUESTIONS[:3], QUESTIONS[0]):
        chat(base, question)
    page.goto(base + "#tree")
    expect(page.locator(".arm").nth(8)).to_be_visible()
    running = threading.Thread(target=chat, args=(base, "What do bees have to do with apples?", 600))
    running.start()
    expect(page.locator(".arm.pinned").first).to_be_visible()
    page.wait_for_timeout(1100)
    page.screenshot(path=FIGURES / "page-tree.png")
    running.join()


def main():
    base = f"http://127.0.0.1:{sys.argv[1]}/"
    with sync_playwright() as player:
        browser = player.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for draw, look in ((draw_chat, "light"), (draw_tree, "dark")):
            draw(browser.new_context(viewport={"width": 1200, "height": 720}, color_scheme=look).new_page(), base)


main()
