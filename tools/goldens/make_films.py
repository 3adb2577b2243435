"""Writes tests/data/pictures/films.json: what transformers' processors and models make of films, for the goldens of vision
models whose processor takes them. Compact: frames are drawn again by the tests, pixels are digests, weights are the goldens'.

  python make_films.py GOLDENS/models OUT [FAMILY...]    (some families: the others stay; transformers 5.24.0, torch, torchvision, num2words, Pillow)

Of each family: token texts and names put into the golden's vocabulary, the files of the processor, which frames are taken of
films of some lengths, digests of pixels, and two prompts with films: the text that stands for the film, the tokens, greedy
ids and their log-probabilities. Resizing is Pillow's, as in the goldens.
"""
import hashlib
import json
import pathlib
import random
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "image"), str(ROOT / "tests" / "server")]
import film_folders
import numpy as np
import torch
import transformers
from expected_processors import digest, processor_of  # which puts Pillow's resize in the place of torchvision's
from transformers.video_utils import VideoMetadata

torch.set_num_threads(1)  # the models are tiny
transformers.logging.set_verbosity_error()
QWEN = {"image_token": "<|image_pad|>", "video_token": "<|video_pad|>", "vision_start_token": "<|vision_start|>", "vision_end_token": "<|vision_end|>"}
QWEN_IDS = {6: "<|image_pad|>", 7: "<|video_pad|>", 8: "<|vision_start|>", 9: "<|vision_end|>"}
QWEN_MARK = "<|vision_start|><|video_pad|><|vision_end|>"
GLM = {"image_token": "<|image|>", "video_token": "<|video|>"}
GLM_MARK = "<|begin_of_video|><|video|><|end_of_video|>"
QWEN3 = dict(processor="Qwen3VLProcessor", video="Qwen3VLVideoProcessor", names=QWEN, mark=QWEN_MARK,
             settings={"video_processor_type": "Qwen3VLVideoProcessor", "size": {"shortest_edge": 4096, "longest_edge": 64 * 64 * 12}, "patch_size": 16, "temporal_patch_size": 2, "merge_size": 2, "fps": 2})
SMALL = dict(frames=[(60, 44, 5), (48, 64, 3), (90, 40, 4)])
FAMILIES = {
    "mm-qwen2-vl": dict(processor="Qwen2VLProcessor", video="Qwen2VLVideoProcessor", names=QWEN, ids=QWEN_IDS, mark=QWEN_MARK, settings=None, long=(28, 56, 9)),
    "mm-qwen25-vl": dict(processor="Qwen2_5_VLProcessor", video="Qwen2VLVideoProcessor", names=QWEN, ids=QWEN_IDS, mark=QWEN_MARK,
                         settings={"size": {"shortest_edge": 3136, "longest_edge": 9408}, "do_sample_frames": True, "fps": 2, "min_frames": 4, "max_frames": 16, "cap_pixels_per_frame": True, "max_video_tokens": 40}),
    "mm-qwen3-vl": dict(QWEN3, ids=QWEN_IDS),
    "mm-qwen3-vl-moe": dict(QWEN3, settings={**QWEN3["settings"], "cap_pixels_per_frame": True, "max_video_tokens": 4, "size": {"shortest_edge": 2048, "longest_edge": 64 * 64 * 12}}),
    "mm-qwen3.5": dict(QWEN3, ids=QWEN_IDS),
    "mm-glm4v": dict(processor="Glm4vProcessor", video="Glm4vVideoProcessor", names=GLM, mark=GLM_MARK, settings=None,
                     ids={7: "<|video|>", 8: "<|begin_of_image|>", 9: "<|end_of_image|>", 10: "<|begin_of_video|>", 11: "<|end_of_video|>"}),
    "mm-glm-ocr": dict(processor="Glm46VProcessor", video="Glm46VVideoProcessor", names=GLM, mark=GLM_MARK, settings=None),
    "mm-glm5-next": dict(processor="Glm5NextProcessor", video="Glm5NextVideoProcessor", names=GLM, mark=GLM_MARK,
                         settings={"video_processor_type": "Glm5NextVideoProcessor", "patch_size": 14, "min_image_tokens": 4, "max_image_tokens": 24, "max_frames": 8}),
    "mm-llava-onevision": dict(processor="LlavaOnevisionProcessor", video="LlavaOnevisionVideoProcessor", names={"image_token": "<image>", "video_token": "<video>"}, mark="<video>", ids={6: "<image>", 7: "<video>"},
                               extra=dict(num_image_tokens=16, vision_feature_select_strategy="full"), settings={"size": {"height": 56, "width": 56}, "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "do_sample_frames": True, "num_frames": 3}),
    "mm-internvl": dict(processor="InternVLProcessor", video="InternVLVideoProcessor", mark="<video>", ids={7: "<video>"}, extra=dict(image_seq_length=4),
                        names={"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<|image|>", "video_token": "<video>"},
                        settings={"size": {"height": 56, "width": 56}, "do_sample_frames": True, "num_frames": 4}),
    "mm-smolvlm": dict(processor="SmolVLMProcessor", video="SmolVLMVideoProcessor", mark="<video>", ids={7: "<video>"}, extra=dict(image_seq_len=4),
                       names={"image_token": "<|image|>", "fake_image_token": "<fake_token_around_image>", "global_image_token": "<global-img>", "video_token": "<video>"},
                       settings={"size": {"longest_edge": 112}, "max_image_size": {"longest_edge": 56}, "do_sample_frames": True, "fps": 2, "num_frames": 6}),
    "mm-gemma4": dict(processor="Gemma4Processor", video="Gemma4VideoProcessor", mark="<|video|>", ids={7: "<|video|>"}, audio=True,
                      names={"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}, settings={"patch_size": 4, "max_soft_tokens": 70, "num_frames": 3}),
    "mm-gemma4-bidirectional": dict(processor="Gemma4Processor", video="Gemma4VideoProcessor", mark="<|video|>", ids={7: "<|video|>"}, audio=True,
                                    names={"image_token": "<|image|>", "boi_token": "<|image>", "eoi_token": "<image|>"}, settings={"patch_size": 4, "max_soft_tokens": 70, "num_frames": 5}),
    "mm-kimi-k2.5": dict(processor="Kimi_K25Processor", video="Kimi_K25VideoProcessor", mark="<|kimi_k25_video_placeholder|>", settings=None, long=(28, 40, 9),
                         names={"image_token": "<|media_pad|>", "video_token": "<|kimi_k25_video_placeholder|>"}),
    "mm-minicpm-v4.6": dict(processor="MiniCPMV4_6Processor", video="MiniCPMV4_6VideoProcessor", mark="<|video_pad|>", names={},
                            settings={"scale_resolution": 64, "patch_size": 8, "max_slice_nums": 2, "max_num_frames": 3}),
    "mm-minimax-m3-vl": dict(processor="MiniMaxM3VLProcessor", video="MiniMaxM3VLVideoProcessor", mark="]<]video[>[", names={}, long=(56, 28, 11),
                             settings={"patch_size": 14, "do_sample_frames": True, "fps": 2, "min_pixels": 1568, "max_pixels": 6272, "vision_segment_max_frames": 2}),
}
FOR_TEXT = ("input_ids", "attention_mask", "token_type_ids", "mm_token_type_ids")


def frames_of(width, height, count):
    return [np.frombuffer(film_folders.drawn(width, height, salt), np.uint8).reshape(height, width, 3) for salt in range(count)]


def film_tensor(frames):
    return torch.stack([torch.from_numpy(f.copy()).permute(2, 0, 1) for f in frames])


def processor_for(spec, folder):
    tok = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token="<|bos|>", eos_token="<|eos|>", pad_token="<|pad|>",
                                               extra_special_tokens={**json.loads((folder / "tokenizer_config.json").read_text()).get("extra_special_tokens", {}), **spec["names"],
                                                                     **({"audio_token": "<|pad|>", "boa_token": "<|bos|>", "eoa_token": "<|eos|>"} if spec.get("audio") else {})})
    _, pictures = processor_of(folder)
    films = getattr(transformers, spec["video"]).from_pretrained(folder)
    more = {"feature_extractor": transformers.Gemma4AudioFeatureExtractor()} if spec.get("audio") else {}
    return getattr(transformers, spec["processor"])(image_processor=pictures, tokenizer=tok, video_processor=films, **more, **spec.get("extra", {}))


def metadata_of(count, fps):
    return VideoMetadata(total_num_frames=count, fps=fps, duration=count / fps, frames_indices=list(range(count)))


def pixels_of(out):
    """As our blocks have them: without padding, MiniCPM's patches as rows."""
    px = out["pixel_values_videos"] if "pixel_values_videos" in out else out["pixel_values"]
    px = (px[0] if isinstance(px, list) else px).float()
    if "video_position_ids" in out:
        px = px[out["video_position_ids"][..., 0] >= 0]
    if "target_sizes_videos" in out:
        side = px.shape[2]
        px = px[0].reshape(3, side, -1, side).permute(2, 0, 1, 3)
    return px


def choices_of(films):
    """Which frames are taken of films of some lengths."""
    kept = {}
    for total, fps in ((3, 24.0), (12, 4.0), (10, 2.0), (97, 24.0), (301, 25.0), (1000, 29.97), (12000, 24.0)):
        def look(metadata, **kwargs):
            kept["chosen"] = [int(i) for i in type(films).sample_frames(films, metadata=metadata, **kwargs)]
            return kept["chosen"]
        kwargs = {name: getattr(films, name, None) for name in films.valid_kwargs.__annotations__}
        if not films.do_sample_frames:
            return
        try:
            look(metadata_of(total, fps), **kwargs)
            yield {"frames": total, "per_second": fps, "chosen": kept["chosen"]}
        except ValueError:
            yield {"frames": total, "per_second": fps, "chosen": list(range(total))}  # which it refuses, and we do not


def pixel_cases(films, spec):
    for width, height, count in ((90, 64, 4), (64, 120, 5), (130, 70, 2), (31, 200, 3), (56, 56, 7)):
        try:
            out = films(videos=[film_tensor(frames_of(width, height, count))], return_tensors="pt", do_sample_frames=False, video_metadata=[metadata_of(count, 24.0)])
        except ValueError as error:
            yield {"width": width, "height": height, "frames": count, "refused": str(error)[:60]}
            continue
        px = pixels_of(out)
        yield {"width": width, "height": height, "frames": count, "values": px.numel(), "sha256": digest(px)}


def words(r, count):
    return "".join(r.choice(" abcdefghijklmnopqrstuvwxyz") for _ in range(count))


def forward(model, ids, inputs, types):
    t = torch.tensor([ids])
    e = dict(inputs)
    if types is not None:
        e["mm_token_type_ids"] = torch.tensor([types + [0] * (len(ids) - len(types))])
    for m in (model, getattr(model, "model", None)):
        if m is not None and hasattr(m, "rope_deltas"):
            m.rope_deltas = None
    return model(input_ids=t, attention_mask=torch.ones_like(t), use_cache=False, **e).logits[0, -1].float()


def greedy(model, ids, inputs, types, never, count=16):
    current, said, logprobs, margin = list(ids), [], [], 1e9
    for _ in range(count):
        logits = forward(model, current, inputs, types).clone()
        logits[never] = -1e30
        top = torch.topk(logits, 2).values
        margin = min(margin, float(top[0] - top[1]))
        best = int(logits.argmax())
        said.append(best)
        logprobs.append(round(float(torch.log_softmax(logits.double(), -1)[best]), 6))
        current.append(best)
    return said, logprobs, margin


def case_of(model, processor, spec, never, film, seed):
    """One prompt with a film, or None if a greedy choice is too close."""
    r = random.Random(seed)
    text = "<|user|>" + words(r, 9) + "<|assistant|>" + spec["mark"] + ("<|user|>" if spec.get("audio") else "<|system|>") + words(r, 12)  # the goldens' <|system|> is Gemma 4's mark of sound
    count, fps = film["frames"], film.get("fps")
    sampled = fps is not None and processor.video_processor.do_sample_frames
    kept = {}
    films = processor.video_processor
    original = type(films).sample_frames

    def look(self, *args, **kwargs):
        kept["chosen"] = original(self, *args, **kwargs)
        return kept["chosen"]
    type(films).sample_frames = look
    try:
        out = processor(videos=[film_tensor(frames_of(film["width"], film["height"], count))], text=text, return_tensors="pt", add_special_tokens=False,
                        do_sample_frames=sampled, **({"video_metadata": [metadata_of(count, fps)]} if fps else {}))
    finally:
        type(films).sample_frames = original
    ids = out["input_ids"][0].tolist()
    types = out["mm_token_type_ids"][0].tolist() if "mm_token_type_ids" in out else None
    inputs = {k: v for k, v in out.items() if k not in FOR_TEXT and k not in ("num_soft_tokens_per_video", "video_metadata")}
    said, logprobs, margin = greedy(model, ids, inputs, types, never)
    if margin < 0.003 or len(set(said)) < 4:
        print(f"  seed {seed}: margin {margin:.4f}, {len(set(said))} different", flush=True)
        return None
    whole = processor.tokenizer.decode(ids)
    before, after = text.split(spec["mark"])
    head = spec["mark"].split(processor.video_token)
    assert whole.startswith(before + head[0]) and whole.endswith(head[1] + after), whole
    return {**film, "prompt": text, "stands_for_it": whole[len(before + head[0]):len(whole) - len(head[1] + after)],
            "chosen": [int(i) for i in kept.get("chosen", range(count))], "sha256": digest(pixels_of(out)), "tokens": ids, "greedy": said, "greedy_logprobs": logprobs}


def entry_of(name, spec, goldens, scratch):
    golden = json.loads((goldens / name / "golden.json").read_text())
    read = lambda file: json.loads((goldens / name / file).read_text()) if (goldens / name / file).exists() else None
    config = read("config.json")
    entry = {"name": name[3:], "token_texts": {str(i): t for i, t in spec.get("ids", {}).items()}, "token_names": spec["names"], "video_preprocessor": spec["settings"],
             "preprocessor": read("preprocessor_config.json"), "processor": read("processor_config.json")}
    entry["token_names"] = {**{k: v for k, v in (read("tokenizer_config.json") or {}).items() if k.endswith("_token")}, **spec["names"]}
    vision = config.get("vision_config", {})
    entry["config"] = {k: v for k, v in config.items() if k in ("model_type", "image_seq_length", "scale_factor", "vision_feature_select_strategy", "vision_aspect_ratio")}
    entry["config"]["vision_config"] = {k: v for k, v in vision.items() if k in ("model_type", "image_size", "patch_size")}
    folder = film_folders.film_folder(goldens / name, entry, scratch / name)
    processor = processor_for(spec, folder)
    films = processor.video_processor
    entry["choices"] = list(choices_of(films))
    entry["pixels"] = list(pixel_cases(films, spec))
    model = getattr(transformers, golden["architecture"]).from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    texts = json.loads((folder / "tokenizer.json").read_text())["added_tokens"]
    entry["never"] = sorted({a["id"] for a in texts} | set(golden["never_generate"]))
    side = 28 if "minimax" in name else 1
    up = lambda x: max(side, x // side * side)
    width, height, count = spec.get("long", (60, 44, 5))
    wanted = [{"width": up(width), "height": up(height), "frames": count}, {"width": up(48), "height": up(64), "frames": 12, "fps": 4.0}]
    entry["films"] = []
    with torch.no_grad():
        for film in wanted:
            found = next(c for c in (case_of(model, processor, spec, entry["never"], film, seed) for seed in range(40)) if c)
            entry["films"].append(found)
    print(f"{name:26s} pixels {len(entry['pixels'])} choices {len(entry['choices'])} films " + ", ".join(f"{len(f['chosen'])} frames {len(f['tokens'])} tokens" for f in entry["films"]), flush=True)
    return entry


def main(goldens, out, only):
    made = {"mm-" + entry["name"]: entry for entry in json.loads(out.read_text())} if out.exists() else {}
    for name in only or FAMILIES:
        with tempfile.TemporaryDirectory() as scratch:
            made[name] = entry_of(name, FAMILIES[name], goldens, pathlib.Path(scratch))
        listed = [made[each] for each in FAMILIES if each in made]
        out.write_text(json.dumps(listed, separators=(",", ":")).replace('{"name":"', '\n{"name":"') + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:])
