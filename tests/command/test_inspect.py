"""`espalier inspect`: says what run would refuse, and never obeys what a file says to a terminal."""
import json
import pathlib
import shutil
import struct
import tempfile
import unittest

from program import MODEL, espalier


class Inspect(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.model = pathlib.Path(folder.name) / "model"
        shutil.copytree(MODEL, self.model)

    def change(self, file, **values):
        path = self.model / file
        content = json.loads(path.read_text()) if path.exists() else {}
        content.update(values)
        path.write_text(json.dumps(content))

    def rewrite_header(self, change):
        """Applies `change` to the JSON header of the file that holds the model's last norm."""
        [path] = [path for path in self.model.glob("*.safetensors") if b'"model.norm.weight"' in path.read_bytes()]
        data = path.read_bytes()
        length = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + length])
        change(header)
        text = json.dumps(header, ensure_ascii=False).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + data[8 + length:])

    def both(self):
        return espalier("inspect", self.model), espalier("run", self.model, "hello", "-n", "1")

    def test_a_good_model_passes_both(self):
        for ended in self.both():
            self.assertEqual(ended.code, 0, ended)

    def test_what_run_refuses_inspect_refuses_with_the_same_sentence(self):
        def rename(header):
            header["model.layers.1.mlp.up_proj.weight.old"] = header.pop("model.layers.1.mlp.up_proj.weight")

        def turn(header):
            header["model.layers.2.mlp.down_proj.weight"]["shape"].reverse()
        for spoil in (lambda: self.rewrite_header(rename), lambda: self.rewrite_header(turn), lambda: self.change("config.json", head_dim=3),
                      lambda: self.change("config.json", num_hidden_layers=9), lambda: self.change("config.json", architectures=["MambaForCausalLM"])):
            shutil.rmtree(self.model)
            shutil.copytree(MODEL, self.model)
            spoil()
            inspected, ran = self.both()
            self.assertNotEqual(ran.code, 0, ran)
            self.assertEqual(inspected.code, ran.code, (inspected, ran))
            self.assertIn(ran.err.strip().splitlines()[-1].removeprefix("espalier: "), inspected.err)

    def test_control_characters_of_a_file_are_shown_and_not_sent(self):
        self.change("tokenizer_config.json", chat_template="{{ 'a' }}\x1b]0;owned\x07 \u202e \x9b31m {% broken")
        self.rewrite_header(lambda header: header.update({"extra\x1b[2J": header["model.norm.weight"] | {"data_offsets": [0, 0], "shape": [0]}}))
        ended = espalier("inspect", self.model)
        for text in (ended.out, ended.err):
            for raw in ("\x1b", "\x07", "\u202e", "\x9b"):
                self.assertNotIn(raw, text)
        self.assertIn("\\x1b]0;owned\\x07 \\u202e", ended.out)

    def test_hostile_names_in_errors_are_shown_and_not_sent(self):
        ended = espalier("inspect", "/nowhere/\x1b[2J.gguf")
        self.assertNotEqual(ended.code, 0)
        self.assertNotIn("\x1b", ended.err)


if __name__ == "__main__":
    unittest.main()
