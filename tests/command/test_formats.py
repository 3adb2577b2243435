"""Quantised checkpoints at the command: those that are served out of nothing, and those that are refused with the field."""
import json
import pathlib
import re
import tempfile
import unittest

from program import espalier

SHAPE = {"architectures": ["LlamaForCausalLM"], "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 1, "num_attention_heads": 4,
         "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}


class Formats(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def latency(self, quantised):
        (self.folder / "config.json").write_text(json.dumps(SHAPE | {"quantization_config": quantised}))
        return espalier("bench", "latency", self.folder, "--load-format", "dummy", "--skip-tokenizer-init", "--input-len", "4", "--output-len", "2",
                        "--threads", "1")

    def test_what_no_kernel_reads_is_refused_in_a_sentence_that_names_the_field(self):
        for quantised, field in (({"quant_method": "aqlm"}, "quant_method"), ({"quant_method": "hqq"}, "quant_method"),
                                 ({"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, "checkpoint_format"),
                                 ({"quant_method": "gptq", "bits": 4, "is_marlin_format": True}, "is_marlin_format"),
                                 ({"quant_method": "gptq", "bits": 5}, "bits"), ({"quant_method": "awq", "bits": 4, "version": "gemv"}, "version"),
                                 ({"quant_method": "fp8", "fmt": "e5m2"}, "fmt"),
                                 ({"quant_method": "compressed-tensors", "format": "marlin-24"}, "format"),
                                 ({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config")):
            ended = self.latency(quantised)
            self.assertNotIn(ended.code, (0, None), quantised)
            self.assertGreater(ended.code, 0, ended)  # by no signal
            self.assertRegex(ended.err.strip().splitlines()[-1],
                             rf"^espalier: .*quantization_config\.{field}[ .].*(supported|known)", quantised)

    def test_dummies_have_the_format_of_their_configuration(self):
        for quantised in ({"quant_method": "gptq", "bits": 4, "group_size": 128}, {"quant_method": "fp8", "weight_block_size": [128, 128]},
                                {"quant_method": "bitsandbytes", "load_in_4bit": True}):
            ended = self.latency(quantised)
            self.assertEqual(ended.code, 0, ended)
            self.assertTrue(re.search(rf"dummy weights in the format {quantised['quant_method']}", ended.err), ended.err)


if __name__ == "__main__":
    unittest.main()
