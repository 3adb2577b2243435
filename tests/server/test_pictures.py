"""Pictures and films in every dialect: what stands for them is counted alike everywhere, and what cannot be read is 400.

The model is a small text model whose folder also says how pictures would be made ready; tokens are counted, none are made.
"""
import base64
import json
import os
import pathlib
import shutil
import signal
import tempfile
import threading
import time
import unittest

from film_folders import png
from harness import MODEL, SOURCE, Server, eventually

PICTURES = SOURCE / "tests" / "data" / "pictures"
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{% if m.content is string %}{{ m.content }}{% else %}{% for c in m.content %}"
            "{% if c.type == 'image' %}[<|image|>]{% elif c.type == 'video' %}(<|video|>){% else %}{{ c.text }}{% endif %}"
            "{% endfor %}{% endif %}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}")
PROCESSOR = {"image_processor_type": "Qwen2VLImageProcessor", "patch_size": 14, "merge_size": 2, "temporal_patch_size": 2,
             "size": {"shortest_edge": 784, "longest_edge": 784 * 64}}


def data_url(name):
    kind = "video/mp4" if name.endswith("mp4") else "image/" + name.rsplit(".", 1)[1]
    return f"data:{kind};base64,{base64.b64encode((PICTURES / name).read_bytes()).decode()}"


def model_with_pictures(folder):
    """The text model with marks of pictures among its tokens."""
    shutil.copytree(MODEL, folder)
    tokenizer = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    for added in tokenizer["added_tokens"]:
        if added["content"] == "<|image|>":
            break
    else:
        raise unittest.SkipTest("the model has no token for pictures")
    named = {a["content"] for a in tokenizer["added_tokens"]}
    free = max(v for k, v in vocabulary.items() if k not in named)
    last = next(k for k, v in vocabulary.items() if v == free)
    vocabulary["<|video|>"] = vocabulary.pop(last)
    tokenizer["model"]["merges"] = [m for m in tokenizer["model"]["merges"] if "".join(m if isinstance(m, list) else m.split(" ")) != last]
    tokenizer["added_tokens"].append({**tokenizer["added_tokens"][0], "content": "<|video|>", "id": free})
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config.update(chat_template=TEMPLATE, image_token="<|image|>", video_token="<|video|>")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return folder


class Pictures(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        cls.media = cls.root / "media"
        (cls.media / "frames").mkdir(parents=True)
        shutil.copy(PICTURES / "rgb.png", cls.media / "a.png")
        for i in range(4):
            shutil.copy(PICTURES / "rgb.png", cls.media / "frames" / f"{i}.png")
        (cls.root / "secret.png").write_bytes((PICTURES / "rgb.png").read_bytes())
        os.symlink(cls.root / "secret.png", cls.media / "out.png")
        cls.server = Server("--media-dir", str(cls.media), "--allowed-media-hosts", "localhost",
                            model=model_with_pictures(cls.root / "model"))

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()
        shutil.rmtree(cls.root)

    def count(self, content, **more):
        reply = self.server.post("/v1/chat/completions/input_tokens",
                                 {"messages": [{"role": "user", "content": content}], **more})
        return reply.status, reply.json

    def tokens(self, content):
        status, told = self.count(content)
        self.assertEqual(status, 200, told)
        return told["input_tokens"]

    def refused(self, content, field="messages[0].content[0]"):
        status, told = self.count(content)
        self.assertEqual(status, 400, told)
        self.assertEqual(told["error"]["code"], "invalid_image", told)
        self.assertTrue(told["error"]["param"].startswith(field), told)
        return told["error"]["message"]

    def test_every_dialect_counts_the_same(self):
        url = data_url("rgb.png")
        text = {"type": "text", "text": "what?"}
        tokens = self.tokens([{"type": "image_url", "image_url": {"url": url}}, text])
        self.assertGreater(tokens, self.tokens([text]) + 1)
        told = self.server.post("/tokenize", {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}, text]}]}).json
        self.assertEqual(told["count"], tokens)
        told = self.server.post("/v1/responses/input_tokens", {"input": [{"role": "user", "content": [
            {"type": "input_image", "image_url": url}, {"type": "input_text", "text": "what?"}]}]}).json
        self.assertEqual(told["input_tokens"], tokens)
        picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": url.split(",")[1]}}
        told = self.server.post("/v1/messages/count_tokens", {"messages": [{"role": "user", "content": [picture, text]}]}).json
        self.assertEqual(told["input_tokens"], tokens)
        file = {"type": "image_url", "image_url": {"url": f"file://{self.media}/a.png"}}
        self.assertEqual(self.tokens([file, text]), tokens)
        told = self.server.post("/v1/messages/count_tokens", {"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [picture]}]}]})
        self.assertEqual(told.status, 200, told.body)

    def test_marks_in_words_are_text(self):
        plain = self.tokens([{"type": "text", "text": "<|image|>"}])
        told = self.server.post("/tokenize", {"messages": [{"role": "user", "content": "<|image|>"}]}).json
        self.assertEqual(told["count"], plain)
        image = self.server.post("/tokenize", {"prompt": "<|image|>", "add_special_tokens": False}).json["tokens"]
        self.assertEqual(len(image), 1)
        self.assertNotIn(image[0], told["tokens"])

    def test_what_cannot_be_read_is_refused_with_its_field(self):
        for url in ("data:image/png;base64,AAAA", "data:image/png;base64", "%%%", f"file://{self.root}/secret.png",
                    f"file://{self.media}/out.png", f"file://{self.media}/../secret.png", "file:///etc/passwd",
                    "http://example.org/a.png", "http://localhost:1/a.png"):
            self.refused([{"type": "image_url", "image_url": {"url": url}}])
        self.refused([{"type": "image_url", "image_url": {"url": data_url("rgb.png")[:-40]}}])
        many = [{"type": "image_url", "image_url": {"url": data_url("rgb.png")}}] * 65
        self.refused(many, "messages[0].content[64]")
        reply = self.server.post("/generate", {"text": "no mark", "image_data": data_url("rgb.png")})
        self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "invalid_image"))
        for bomb in sorted((PICTURES / "bombs").glob("*")):
            encoded = base64.b64encode(bomb.read_bytes()).decode()
            self.refused([{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{encoded}"}}])

    def test_films_come_as_animations_lists_and_folders(self):
        frames = [data_url("rgb.png")] * 4
        as_list = self.tokens([{"type": "video", "video": frames}])
        self.assertEqual(as_list, self.tokens([{"type": "video_url", "video_url": {"url": frames}}]))
        self.assertEqual(as_list, self.tokens([{"type": "video_url", "video_url": {"url": f"file://{self.media}/frames"}}]))
        self.assertGreater(as_list, self.tokens([{"type": "video", "video": frames, "num_frames": 2}]))
        self.assertGreater(self.tokens([{"type": "video_url", "video_url": {"url": data_url("animated.gif")}}]), 3)
        self.refused([{"type": "video_url", "video_url": {"url": "data:video/mp4;base64,AAAA"}}])

    def test_files_are_named_as_browsers_name_them(self):
        wanted = self.tokens([{"type": "image_url", "image_url": {"url": f"file://{self.media}/a.png"}}])
        for url in (f"FILE://{self.media}/a.png", f"file://localhost{self.media}/a.png"):
            self.assertEqual(self.tokens([{"type": "image_url", "image_url": {"url": url}}]), wanted)
        self.refused([{"type": "image_url", "image_url": {"url": f"file://elsewhere{self.media}/a.png"}}])

    def test_model_info_says_so(self):
        self.assertFalse(self.server.get("/get_model_info").json["has_image_understanding"])  # it has no tower
        props = self.server.get("/props").json
        self.assertTrue(props["modalities"]["vision"])

    def test_a_model_without_pictures_says_so(self):
        with Server() as plain:
            reply = plain.post("/v1/chat/completions/input_tokens", {"messages": [
                {"role": "user", "content": [{"type": "image_url", "image_url": {"url": data_url("rgb.png")}}]}]})
            self.assertEqual(reply.status, 400)
            self.assertIn("reads no pictures", reply.json["error"]["message"])
            self.assertEqual(reply.json["error"]["param"], "messages[0].content[0]")


class Films(unittest.TestCase):
    """What a film costs others."""

    @classmethod
    def setUpClass(cls):
        cls.root = pathlib.Path(tempfile.mkdtemp())
        cls.addClassCleanup(shutil.rmtree, cls.root)
        cls.model = model_with_pictures(cls.root / "model")
        cls.frame = "data:image/png;base64," + base64.b64encode(png(1500, 1500, bytes(1500 * 1500 * 3))).decode()

    def body(self, frames):
        return {"messages": [{"role": "user", "content": [{"type": "video", "video": frames}]}]}

    def test_one_that_does_not_fit_is_refused_before_it_is_decoded(self):
        frames = [data_url("rgb.png")] * 599 + ["data:image/png;base64,AAAA"]
        with Server("--context-length", "64", model=self.model) as server:
            reply = server.post("/v1/chat/completions/input_tokens", self.body(frames))
            self.assertEqual((reply.status, reply.json["error"]["code"]), (400, "context_length_exceeded"), reply.body)
            self.assertEqual(reply.json["error"]["param"], "messages[0].content[0]")

    def test_a_long_one_holds_up_no_picture(self):
        with Server("--context-length", "65536", "--allow-longer-context", model=self.model) as server:
            ended = []

            def film():
                reply = server.post("/v1/chat/completions/input_tokens", self.body([self.frame] * 200), timeout=200)
                ended.append(("film", reply.status))

            thread = threading.Thread(target=film)
            thread.start()
            eventually(lambda: 'espalier_background_running{pool="pictures"} 1' in server.get("/metrics").body.decode(), True)
            picture = server.post("/v1/chat/completions/input_tokens", {"messages": [{"role": "user", "content": [
                {"type": "image_url", "image_url": {"url": data_url("rgb.png")}}]}]})
            ended.append(("picture", picture.status))
            thread.join()
            self.assertEqual(ended, [("picture", 200), ("film", 200)])

    def test_work_for_one_ends_with_its_client_and_with_the_server(self):
        with Server("--context-length", "65536", "--allow-longer-context", model=self.model) as server:
            for leaves in (True, False):
                raw = server.open_stream("/v1/chat/completions/input_tokens", self.body([self.frame] * 1000))
                time.sleep(1)
                if leaves:
                    raw.close()
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            self.assertIsNotNone(server.process.wait(20))


if __name__ == "__main__":
    unittest.main()
