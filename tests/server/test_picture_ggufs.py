"""Vision models as two GGUF files, a text model and llama.cpp's mmproj file: the goldens of the checkpoints that they are made of.

Pairs are made here (picture_ggufs.py) of the goldens where the whole set lies beside the checkout, else of those in the
repository. Names, tensors and keys are those that llama.cpp's own converter writes.
"""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import gguf_writer
import picture_ggufs
import picture_towers
from harness import BINARY, SOURCE, Server
from picture_checks import PictureChecks, data_url

SHARED = pathlib.Path(os.environ.get("ESPALIER_SHARED", SOURCE.parent / "shared")) / "goldens" / "models"
OURS = SOURCE / "tests" / "data" / "goldens" / "models"
FOLDERS = sorted(p for p in (SHARED if SHARED.exists() else OURS).glob("mm-*") if p.name in picture_towers.RECIPES)
# What files do not say is as in the published models, and they are compared with such a folder: Llama 4's scales and chunks,
# and that MiniCPM numbers its pictures.
UNTOLD = {"mm-llama4": ("config.json", "text_config", {"attention_chunk_size": 8192, "floor_scale": 8192, "attn_scale": 0.1}),
          "mm-minicpm-v4.6": ("preprocessor_config.json", None, {"use_image_id": True})}
# Their templates show pictures and their vocabularies have what stands around them.
CHATS = ["mm-qwen3-vl-moe", "mm-glm-ocr", "mm-lfm2-vl-tiles", "mm-minicpm-v4.6", "mm-lighton-ocr", "mm-minimax-m3-vl", "mm-kimi-k2.5"]
LINES = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|>{% endif %}"


class PictureGgufs(PictureChecks, unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())

    def tearDown(self):
        shutil.rmtree(self.root)

    def pair(self, folder):
        out = self.root / folder.name
        out.mkdir(exist_ok=True)
        return picture_ggufs.make(folder, out)[0]

    def published(self, folder):
        """The folder with what its files do not say as it is published."""
        if folder.name not in UNTOLD:
            return folder
        told, (file, section, values) = self.root / "told" / folder.name, UNTOLD[folder.name]
        if not told.exists():
            shutil.copytree(folder, told, copy_function=shutil.copyfile)
            told.chmod(0o755)
            config = json.loads((folder / file).read_text())
            (config[section] if section else config).update(values)
            (told / file).write_text(json.dumps(config))
        return told

    def check_golden(self, model, folder):
        golden = json.loads((folder / "golden.json").read_text())
        with Server(model=model) as server:
            self.assertTrue(server.get("/get_model_info").json["has_image_understanding"])
            for case in golden["cases"]:
                if all((folder / name).exists() for name in case["images"]):
                    first = self.check_case(server, folder, golden, case, case["tokens_one_placeholder_per_image"], False)
                    again = self.check_case(server, folder, golden, case, case["tokens_one_placeholder_per_image"], True)
                    self.assertEqual(first["meta_info"]["output_token_logprobs"], again["meta_info"]["output_token_logprobs"])

    def test_every_golden_as_two_files(self):
        self.assertGreater(len(FOLDERS), 0)
        for folder in FOLDERS:
            if folder.name not in UNTOLD:
                with self.subTest(folder.name):
                    self.check_golden(self.pair(folder), folder)
        if not SHARED.exists():
            print(f"the GGUF pairs of vision models but {', '.join(f.name for f in FOLDERS)} are left out: their goldens are not here")

    def answers(self, server, golden, case, folder):
        never = {str(id): -100 for id in golden.get("never_generate", [])}
        said = server.generate(input_ids=case["tokens_one_placeholder_per_image"], image_data=[data_url(folder / n) for n in case["images"]] or None,
                               return_logprob=True, sampling_params={"temperature": 0, "max_new_tokens": 12, "ignore_eos": True, "logit_bias": never})
        return said["output_ids"], [one[0] for one in said["meta_info"]["output_token_logprobs"]], said["meta_info"]["prompt_tokens"]

    def test_what_files_cannot_say_is_as_published(self):
        for folder in FOLDERS:
            if folder.name not in UNTOLD:
                continue
            with self.subTest(folder.name):
                golden = json.loads((folder / "golden.json").read_text())
                with Server(model=self.published(folder)) as checkpoint, Server(model=self.pair(folder)) as files:
                    for case in golden["cases"]:
                        wanted, got = self.answers(checkpoint, golden, case, folder), self.answers(files, golden, case, folder)
                        self.assertEqual(wanted[0], got[0])
                        self.assertEqual(wanted[2], got[2])
                        for a, b in zip(wanted[1], got[1]):
                            self.assertAlmostEqual(a, b, delta=1e-3)

    def chat(self, server, folder, content):
        reply = server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 8, "temperature": 0,
                                                      "logprobs": True})
        self.assertEqual(reply.status, 200, reply.body)
        choice, usage = reply.json["choices"][0], reply.json["usage"]
        return usage["prompt_tokens"], choice["message"]["content"], [round(one["logprob"], 3) for one in choice["logprobs"]["content"]]

    def content(self, folder):
        pictures = [{"type": "image_url", "image_url": {"url": data_url(folder / f"image{i}.png")}} for i in (0, 1)]
        return [{"type": "text", "text": "a"}, pictures[0], {"type": "text", "text": " b "}, pictures[1]]

    def test_chats_are_those_of_the_checkpoint(self):
        for folder in FOLDERS:
            if folder.name in CHATS:
                with self.subTest(folder.name), Server(model=self.published(folder)) as checkpoint, \
                        Server(model=self.pair(folder)) as files:
                    wanted, got = (self.chat(server, folder, self.content(folder)) for server in (checkpoint, files))
                    self.assertEqual(wanted[:2], got[:2])
                    for a, b in zip(wanted[2], got[2]):
                        self.assertAlmostEqual(a, b, delta=2e-3)

    def test_a_template_of_texts_gets_what_the_family_writes_around_a_picture(self):
        for folder in FOLDERS:
            if folder.name != "mm-qwen3-vl-moe":
                continue
            model = self.pair(folder)
            picture = self.content(folder)[1:2]
            shown = LINES.replace("{{ m.content }}", "{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
                                                         "{% else %}{{ p.text }}{% endif %}{% endfor %}")
            with Server("--chat-template", shown, model=model) as parts, Server("--chat-template", LINES, model=model) as texts:
                self.assertEqual(self.chat(parts, folder, picture), self.chat(texts, folder, picture))

    def test_a_vocabulary_without_a_token_for_pictures_has_another_stand_in(self):
        folder = next((f for f in FOLDERS if f.name in ("mm-llava15", "mm-gemma3")), None)
        recipe = picture_towers.RECIPES[folder.name]
        names, recipe["tokens"] = recipe["tokens"], {6: "<|nothing|>"}
        try:
            model = self.pair(folder)
        finally:
            recipe["tokens"] = names
        with Server("--chat-template", LINES, model=model) as server:
            with_picture, without = (self.chat(server, folder, content)[0] for content in (self.content(folder)[:2], "a"))
            golden = json.loads((folder / "golden.json").read_text())
            self.assertGreaterEqual(with_picture - without, golden["cases"][1]["tokens_per_image"][0])

    def refused(self, *flags, model):
        """What a server that does not start says."""
        ran = subprocess.run([BINARY, "serve", str(model), "--port", "0", "--threads", "1", *flags], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(ran.returncode, 0)
        return ran.stderr

    def test_towers_that_are_named_or_refused(self):
        folder = FOLDERS[0] if not SHARED.exists() else SHARED / "mm-gemma3"
        model = self.pair(folder)
        tower, elsewhere = model.with_name("mmproj-model.gguf"), self.root / "elsewhere.gguf"
        picture = {"messages": [{"role": "user", "content": self.content(folder)[1:2]}], "max_tokens": 1}
        with Server("--no-mmproj", model=model) as server:
            self.assertEqual(server.post("/v1/chat/completions", picture).status, 400)
        tower.rename(elsewhere)
        with Server(model=model) as server:
            self.assertFalse(server.get("/get_model_info").json["has_image_understanding"])
        with Server("-mm", str(elsewhere), model=model) as server:
            self.assertEqual(server.post("/v1/chat/completions", picture).status, 200)
        gguf_writer.write(tower, {"general.architecture": "clip", "clip.projector_type": "ldp"}, {})
        with Server(model=model) as server:  # one that was found and cannot be used
            self.assertIn("projectors of type \"ldp\" are not supported here", server.text())
            self.assertFalse(server.get("/get_model_info").json["has_image_understanding"])
        self.assertIn("projectors of type \"ldp\" are not supported here", self.refused("--mmproj", str(tower), model=model))
        self.assertIn("cannot open", self.refused("--mmproj", str(self.root / "nothing.gguf"), model=model))
        self.assertIn("clip.projector_type is missing", self.refused("--mmproj", str(model), model=model))
        self.assertIn("exclude each other", self.refused("--mmproj", str(elsewhere), "--no-mmproj", model=model))
        self.assertIn("its folder", self.refused("--mmproj", str(elsewhere), model=folder))

    def test_a_tower_of_another_model(self):
        if not SHARED.exists():
            self.skipTest("it needs two goldens")
        model = self.pair(SHARED / "mm-llava15")
        other = self.pair(SHARED / "mm-qwen3-vl").with_name("mmproj-model.gguf")
        tensors = {"v.post_ln.weight": gguf_writer.Tensor([8], gguf_writer.array.array("f", [1] * 8))}
        with Server("--mmproj", str(other), model=model) as server:  # as wide: nothing tells that it is another's
            self.assertTrue(server.get("/get_model_info").json["has_image_understanding"])
        keys = {f"clip.vision.{k}": v for k, v in (("embedding_length", 8), ("block_count", 1), ("attention.head_count", 2), ("patch_size", 14),
                                                   ("image_size", 56), ("projection_dim", 32), ("attention.layer_norm_epsilon", 1e-6))}
        narrow = self.root / "narrow.gguf"
        gguf_writer.write(narrow, {"general.architecture": "clip", "clip.projector_type": "gemma3", **keys}, tensors)
        self.assertIn("gives rows of 32 values, but the text model's have 64", self.refused("--mmproj", str(narrow), model=model))


if __name__ == "__main__":
    unittest.main()
