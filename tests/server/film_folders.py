"""Films for the goldens of vision models (tests/data/pictures/films.json): their drawn frames, and the folders of models
whose vocabulary names what stands for a film. Used by the tests and by tools/goldens/make_films.py.
"""
import base64
import json
import shutil
import struct
import zlib


def drawn(width, height, salt):
    """RGB bytes: the picture that tests/image/expected_processors.py draws too."""
    out = bytearray(width * height * 3)
    for n in range(len(out)):
        i = n + salt * 1000003
        out[n] = (((i * 2654435761 % (1 << 32)) >> 24) // 4 + i // 3 * 255 // (width * height)) % 256
    return bytes(out)


def png(width, height, rgb):
    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))
    rows = b"".join(b"\0" + rgb[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def frames_of(film):
    """The frames of a film of films.json as files."""
    return [png(film["width"], film["height"], drawn(film["width"], film["height"], salt)) for salt in range(film["frames"])]


def data_urls(film):
    return ["data:image/png;base64," + base64.b64encode(frame).decode() for frame in frames_of(film)]


def renamed(tokenizer, names):
    """tokenizer.json with other texts for some ids, which are special tokens from then on."""
    texts = {int(id): text for id, text in names.items()}
    vocabulary = {texts.get(id, text): id for text, id in tokenizer["model"]["vocab"].items()}
    gone = {text for text, id in tokenizer["model"]["vocab"].items() if id in texts}
    merges = tokenizer["model"]["merges"]
    pair = lambda merge: merge if isinstance(merge, list) else merge.split(" ")
    tokenizer["model"]["merges"] = [m for m in merges if not ({*pair(m), "".join(pair(m))} & gone)]
    tokenizer["model"]["vocab"] = vocabulary
    added = [{**a, "content": texts.get(a["id"], a["content"])} for a in tokenizer["added_tokens"]]
    have = {a["id"] for a in added}
    added += [{**added[0], "id": id, "content": text} for id, text in texts.items() if id not in have]
    tokenizer["added_tokens"] = sorted(added, key=lambda a: a["id"])
    return tokenizer


def film_folder(golden, entry, into):
    """The golden's folder as `entry` of films.json has it: names of tokens, and files of the processor."""
    into.mkdir(parents=True)
    for path in golden.iterdir():
        if path.name not in ("tensors.safetensors", "golden.json", "tokenizer.json", "tokenizer_config.json"):
            shutil.copy(path, into / path.name)
    tokenizer = renamed(json.loads((golden / "tokenizer.json").read_text()), entry["token_texts"])
    (into / "tokenizer.json").write_text(json.dumps(tokenizer))
    config = json.loads((golden / "tokenizer_config.json").read_text())
    (into / "tokenizer_config.json").write_text(json.dumps({**config, **entry["token_names"]}))
    if entry["video_preprocessor"] is not None:
        (into / "video_preprocessor_config.json").write_text(json.dumps(entry["video_preprocessor"]))
    return into
