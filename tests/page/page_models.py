"""Small models for the tests of the page, made on the spot: one that thinks and calls tools, and one slow enough to be watched."""
import json
import pathlib
import shutil

from harness import MODEL, SOURCE

VISION = SOURCE / "tests" / "data" / "goldens" / "models" / "mm-gemma3"
# Shows tools and calls as Hermes' models do, and keeps turns apart.
TEMPLATE = ("{% for t in tools or [] %}{{ t.function.name }};{% endfor %}{% for m in messages %}[{{ m.role }}]{{ m.content or '' }}"
            "{% for c in m.tool_calls or [] %}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \"arguments\": {{ c.function.arguments | tojson }}}\n"
            "</tool_call>{% endfor %}{% endfor %}[assistant]")
# The answer begins with thinking.
THINKS = TEMPLATE + "<think>\n"


def model_with(folder, template=TEMPLATE, **config):
    """The golden model with this template; with other sizes its weights are drawn at random (--load-format dummy)."""
    folder = pathlib.Path(folder)
    shutil.copytree(MODEL, folder, dirs_exist_ok=True)
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text())
    tokenizer["chat_template"] = template
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    if config:
        (folder / "model.safetensors").unlink()
        told = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**told, **config}))
    return folder


def thinking_model(folder):
    """Two of its special tokens are marks of thinking."""
    folder = model_with(folder, THINKS)
    path = folder / "tokenizer.json"
    words = json.loads(path.read_text().replace("<|image|>", "<think>").replace("<|system|>", "</think>"))
    for token in words["added_tokens"]:
        token["special"] = token["content"] not in ("<think>", "</think>")
    path.write_text(json.dumps(words))
    return folder


def slow_model(folder):
    """Some hundred megabytes of weights: a token takes a while, so that there is something to stop and to watch."""
    return model_with(folder, hidden_size=768, intermediate_size=3072, num_hidden_layers=14, num_attention_heads=12, num_key_value_heads=4,
                      head_dim=64, max_position_embeddings=4096)
