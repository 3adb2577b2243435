"""Tokenizers in other forms than tokenizer.json, and small ones of every kind that the library `tokenizers` has.

Writes tests/data/tokenizers (give another folder as the argument): for each form a folder with the files that such a
checkpoint has and cases.json, and kinds.json with whole tokenizer.json files. Everything is trained here, on the
sentences below; the ids come from the libraries that own the forms.
Needs: sentencepiece, tiktoken, tokenizers, transformers (for the classes of slow tokenizers).
"""
import base64, io, json, pathlib, random, sys, unicodedata

import sentencepiece as spm
import tiktoken
from tiktoken._educational import bpe_train
from tokenizers import Tokenizer, Regex, AddedToken, models, normalizers, pre_tokenizers, decoders, processors, trainers

OUT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2] / "tests/data/tokenizers")

SENTENCES = """
The library at the end of the street is open from nine to five. Nobody knew that the old bridge had two names.
She counted 12, 123, 1234 and 12345 stones; he counted none. Paris is the capital of France, and Rome that of Italy.
for (int i = 0; i < n; ++i) { total += values[i]; }   return total;
def add(a, b):\n    return a + b
Der Führer des Zuges grüßte die Kinder über den Zaun. Straße, Öl, Übung, naïve café, façade.
Это предложение написано для проверки. Вторая строка тоже нужна.
日本語の文も必要です。東京は日本の首都です。 中文句子也在这里，标点符号很重要。 한국어 문장도 있습니다.
مرحبا بالعالم  שלום עולם  नमस्ते दुनिया  สวัสดีชาวโลก
I've you're they'd we'll it's CAN'T WON'T hello world hello there hello again
""".strip()

TEXTS = ["", " ", "  ", "a", " a", "a ", "Hello world", "  Hello   world  ", "hello\nworld\n\n", "\t tab\tand  spaces ",
         "The library is open.", " Paris", "Paris ", "12345 1234 123 12 1", "über Führer ü Übung", "½ ﬁ Å ①②③ ｆｕｌｌ　ｗｉｄｔｈ",
         "日本語の文", "東京は12月です。", "中文，标点！", "한국어 문장", "Это проверка", "مرحبا", "नमस्ते", "สวัสดี",
         "😀 👩‍👩‍👧 🇩🇪", "e\u0301 é", "a\u0000b", "x▁y ▁z", "<tool> and <s> </s> <unk>", "I've CAN'T they'D", "a" * 70,
         "(int i = 0; i < n; ++i)", "def add(a, b):\n    return a + b", "\u00a0nbsp\u2003em", "...!!!???", "ﷺ",
         "word<tool>word", " <tool> ", "Zug½xZug", "\r\n\r\n", "<|im_start|>user\nhi<|im_end|>", "<|end|>", "ab12cd"]


def more_texts(n, seed):
    r = random.Random(seed)
    for _ in range(n):
        k = r.randrange(1, 5)
        yield "".join(SENTENCES[(a := r.randrange(len(SENTENCES))): a + r.randrange(1, 30)] for _ in range(k))


ALL = TEXTS + list(more_texts(60, 7))


def write(folder, name, value):
    path = OUT / folder
    path.mkdir(parents=True, exist_ok=True)
    if isinstance(value, bytes):
        (path / name).write_bytes(value)
    elif isinstance(value, str):
        (path / name).write_text(value, encoding="utf-8")
    else:
        (path / name).write_text(json.dumps(value, ensure_ascii=True, indent=0) + "\n")


def sentencepiece(folder, file_name, config=None, **settings):
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(line for line in SENTENCES.split("\n") for _ in range(3)), model_writer=model,
        hard_vocab_limit=False, minloglevel=2, character_coverage=1.0, **settings)
    write(folder, file_name, model.getvalue())
    if config is not None:
        write(folder, "tokenizer_config.json", config)
    sp = spm.SentencePieceProcessor(model_proto=model.getvalue())
    cases = [{"text": t, "ids": sp.encode(t), "decoded": sp.decode(sp.encode(t))} for t in ALL]
    write(folder, "cases.json", {"bos": sp.bos_id(), "eos": sp.eos_id(), "unk": sp.unk_id(), "pieces": sp.get_piece_size(),
                                 "cases": cases})


QWEN = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")


def tiktoken_files():
    ranks = bpe_train(SENTENCES * 2, vocab_size=420, pat_str=LLAMA3, visualise=None)
    lines = b"".join(base64.b64encode(token) + b" %d\n" % rank for token, rank in ranks.items())

    def cases(pattern, special, nfc=False):
        encoding = tiktoken.Encoding("x", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        prepared = [unicodedata.normalize("NFC", t) if nfc else t for t in ALL]
        return [{"text": t, "ids": encoding.encode(p, allowed_special="all"),
                 "plain": encoding.encode(p, disallowed_special=()), "decoded": encoding.decode(encoding.encode(p, allowed_special="all"))}
                for t, p in zip(ALL, prepared)]

    n = len(ranks)
    special = {"<|im_start|>": n + 1, "<|im_end|>": n + 2, "<|endoftext|>": n}
    write("tiktoken-qwen", "qwen.tiktoken", lines)
    write("tiktoken-qwen", "tokenizer_config.json", {"tokenizer_class": "QWenTokenizer"})
    write("tiktoken-qwen", "cases.json", {"cases": cases(QWEN, special | {f"<|extra_{i}|>": n + 3 + i for i in range(205)}, True)})
    special = {"<|im_start|>": n + 3, "<|im_end|>": n}
    write("tiktoken-pattern", "tokenizer.model", lines)
    write("tiktoken-pattern", "tokenizer_config.json", {
        "tokenizer_class": "SomebodysTokenizer", "pat_str": LLAMA3, "eos_token": "<|im_end|>",
        "added_tokens_decoder": {str(i): {"content": t, "special": True} for t, i in special.items()}})
    write("tiktoken-pattern", "cases.json", {"cases": cases(LLAMA3, special)})


def merges_files():
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.train_from_iterator([SENTENCES] * 3, trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=["<|endoftext|>"]))
    saved = json.loads(bpe.to_str())["model"]
    merges = "#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in saved["merges"])
    from transformers import GPT2Tokenizer, Qwen2Tokenizer, RobertaTokenizer
    for name, kind, config in [
        ("merges-gpt2", GPT2Tokenizer, {"tokenizer_class": "GPT2Tokenizer"}),
        ("merges-qwen2", Qwen2Tokenizer, {"tokenizer_class": "Qwen2Tokenizer", "eos_token": "<|im_end|>",
                                          "unk_token": None,
                                          "added_tokens_decoder": {str(len(saved["vocab"])): {"content": "<|im_end|>", "special": True},
                                                                   str(len(saved["vocab"]) + 1): {"content": "<|im_start|>", "special": True}}}),
    ]:
        write(name, "vocab.json", json.dumps(saved["vocab"]))
        write(name, "merges.txt", merges)
        write(name, "tokenizer_config.json", config)
        hf = kind.from_pretrained(OUT / name)
        write(name, "cases.json", {"cases": [{"text": t, "ids": hf.encode(t, add_special_tokens=False),
                                              "with_special": hf.encode(t),
                                              "decoded": hf.decode(hf.encode(t, add_special_tokens=False))} for t in ALL]})


def word_list():
    wp = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    wp.normalizer = normalizers.BertNormalizer()
    wp.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    wp.train_from_iterator([SENTENCES] * 3, trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    vocab = sorted(wp.get_vocab().items(), key=lambda kv: kv[1])
    write("word-list", "vocab.txt", "".join(t + "\n" for t, _ in vocab))
    write("word-list", "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", "do_lower_case": True})
    from transformers import BertTokenizer
    hf = BertTokenizer.from_pretrained(OUT / "word-list")
    write("word-list", "cases.json", {"cases": [{"text": t, "ids": hf.encode(t, add_special_tokens=False),
                                                 "with_special": hf.encode(t)} for t in ALL]})


def kinds():
    """Every model, normaliser, pre-tokeniser, decoder and post-processor of the library at least once."""
    made = {}

    def add(name, t):
        made[name] = {"tokenizer": json.loads(t.to_str()), "cases": [
            {"text": x, "ids": t.encode(x, add_special_tokens=False).ids, "with_special": t.encode(x).ids,
             "decoded": t.decode(t.encode(x, add_special_tokens=False).ids, skip_special_tokens=False)}
            for x in TEXTS + ALL[-12:]]}

    def trained(model, trainer, **parts):
        t = Tokenizer(model)
        for part, value in parts.items():
            if part != "post":
                setattr(t, part, value)
        t.train_from_iterator([SENTENCES] * 3, trainer)
        if "post" in parts:
            t.post_processor = parts["post"](t)
        return t

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    word = lambda size=300: trainers.WordPieceTrainer(vocab_size=size, special_tokens=special, show_progress=False)
    bert = lambda t: processors.BertProcessing(("[SEP]", t.token_to_id("[SEP]")), ("[CLS]", t.token_to_id("[CLS]")))
    add("wordpiece-bert", trained(models.WordPiece(unk_token="[UNK]"), word(), post=bert,
                                  normalizer=normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
                                  pre_tokenizer=pre_tokenizers.BertPreTokenizer(), decoder=decoders.WordPiece()))
    add("wordpiece-cased-strip", trained(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=20), word(),
                                         normalizer=normalizers.Sequence([normalizers.NFD(), normalizers.StripAccents(), normalizers.Strip()]),
                                         pre_tokenizer=pre_tokenizers.Whitespace(), decoder=decoders.WordPiece(cleanup=False)))
    level = lambda: trainers.WordLevelTrainer(vocab_size=200, special_tokens=["[UNK]"], show_progress=False)
    add("wordlevel-whitespace", trained(models.WordLevel(unk_token="[UNK]"), level(), normalizer=normalizers.Lowercase(),
                                        pre_tokenizer=pre_tokenizers.WhitespaceSplit()))
    add("wordlevel-delimiter", trained(models.WordLevel(unk_token="[UNK]"), level(),
                                       pre_tokenizer=pre_tokenizers.CharDelimiterSplit(" ")))
    add("wordlevel-scripts", trained(models.WordLevel(unk_token="[UNK]"), level(), normalizer=normalizers.NFKC(),
                                     pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.UnicodeScripts(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(True)])))
    add("wordlevel-fixed", trained(models.WordLevel(unk_token="[UNK]"), level(), pre_tokenizer=pre_tokenizers.FixedLength(3),
                                   decoder=decoders.Fuse()))
    uni = lambda size=300: trainers.UnigramTrainer(vocab_size=size, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    template = lambda t: processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    add("unigram-metaspace", trained(models.Unigram(), uni(), post=template,
                                     normalizer=normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")]),
                                     pre_tokenizer=pre_tokenizers.Metaspace(), decoder=decoders.Metaspace()))
    add("unigram-first", trained(models.Unigram(), uni(), pre_tokenizer=pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                                 decoder=decoders.Metaspace(prepend_scheme="first", split=False)))
    sp = spm.SentencePieceProcessor(model_file=str(OUT / "sp-unigram" / "spiece.model"))
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto.FromString(sp.serialized_model_proto())
    t = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], unk_id=sp.unk_id(), byte_fallback=False))
    t.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Metaspace()
    add("unigram-precompiled", t)
    bpe = lambda size=320, **k: trainers.BpeTrainer(vocab_size=size, special_tokens=["<unk>", "<s>", "</s>"], show_progress=False, **k)
    roberta = lambda t: processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")), trim_offsets=True, add_prefix_space=False)
    add("bpe-roberta", trained(models.BPE(unk_token="<unk>"), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), post=roberta,
                               pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=True), decoder=decoders.ByteLevel()))
    add("bpe-clip", trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), bpe(end_of_word_suffix="</w>"),
                            normalizer=normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
                            pre_tokenizer=pre_tokenizers.Split(Regex(r"'s|'t|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"), "removed", invert=True),
                            decoder=decoders.BPEDecoder()))
    add("bpe-prefix", trained(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"), bpe(continuing_subword_prefix="##"),
                              pre_tokenizer=pre_tokenizers.WhitespaceSplit(), decoder=decoders.WordPiece(prefix="##")))
    fall = trained(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True), bpe(initial_alphabet=["▁"]),
                   normalizer=normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                   decoder=decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]))
    add("bpe-fallback-without-bytes", fall)
    add("bpe-bytelevel-normalizer", trained(models.BPE(), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()),
                                            normalizer=normalizers.ByteLevel(), decoder=decoders.ByteLevel(),
                                            pre_tokenizer=pre_tokenizers.Split("Ġ", "merged_with_next")))
    ctc = Tokenizer(models.WordLevel({"<pad>": 0, "|": 1, **{c: i + 2 for i, c in enumerate("abcdehilnoprstuwy")}, "<unk>": 30}, unk_token="<unk>"))
    ctc.normalizer = normalizers.Replace(" ", "|")
    ctc.pre_tokenizer = pre_tokenizers.Split(Regex("."), "isolated")
    ctc.decoder = decoders.CTC()
    add("wordlevel-ctc", ctc)
    flags = trained(models.BPE(), bpe(initial_alphabet=pre_tokenizers.ByteLevel.alphabet()), normalizer=normalizers.NFKD(),
                    pre_tokenizer=pre_tokenizers.Sequence([pre_tokenizers.Punctuation(), pre_tokenizers.Digits(False), pre_tokenizers.ByteLevel(add_prefix_space=False)]),
                    decoder=decoders.ByteLevel())
    flags.add_tokens([AddedToken("<tool>", lstrip=True), AddedToken("word", single_word=True), AddedToken("<|end|>", rstrip=True, normalized=False)])
    flags.add_special_tokens([AddedToken("<|im_start|>", normalized=False), AddedToken("<|im_end|>", rstrip=True)])
    add("added-flags", flags)
    write(".", "kinds.json", made)


def main():
    common = dict(vocab_size=600)
    sentencepiece("sp-bpe", "tokenizer.model", {"tokenizer_class": "LlamaTokenizer", "add_bos_token": True, "add_eos_token": False},
                  model_type="bpe", byte_fallback=True, normalization_rule_name="identity", remove_extra_whitespaces=False,
                  user_defined_symbols=["<tool>", "½x"], **common)
    sentencepiece("sp-unigram", "spiece.model", {"tokenizer_class": "T5Tokenizer"}, model_type="unigram", pad_id=0, eos_id=1, unk_id=2, bos_id=-1,
                  user_defined_symbols=["<tool>", "½x"], **common)
    sentencepiece("sp-unigram-bytes", "tokenizer.model", None, model_type="unigram", byte_fallback=True, add_dummy_prefix=False,
                  normalization_rule_name="nfkc_cf", remove_extra_whitespaces=False, **common)
    sentencepiece("sp-bpe-suffix", "sentencepiece.model", None, model_type="bpe", treat_whitespace_as_suffix=True,
                  normalization_rule_name="nmt_nfkc", **common)
    sentencepiece("sp-char", "tokenizer.model", None, model_type="char", normalization_rule_name="identity", **common)
    tiktoken_files()
    merges_files()
    word_list()
    kinds()


if __name__ == "__main__":
    main()
