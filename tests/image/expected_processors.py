"""Writes tests/data/pictures/processors.json: what transformers' processors make of drawn pictures, as digests, for
src/image/processors/expected_test.cpp. Run by hand with transformers 5.24.0, torchvision, Pillow and a folder of goldens:

  python expected_processors.py GOLDENS/models OUT
"""
import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import torch
import torchvision.transforms.v2.functional as tvF
import transformers
from PIL import Image

SIZES = [(64, 64), (200, 90), (50, 333), (7, 9), (301, 299), (640, 48), (113, 257), (33, 100), (500, 400), (28, 28), (120, 1000), (1, 40)]
FILMS = {"mm-qwen2-vl": "Qwen2VLVideoProcessor", "mm-qwen3-vl": "Qwen3VLVideoProcessor", "mm-glm4v": "Glm4vVideoProcessor",
         "mm-llava-onevision": "LlavaOnevisionVideoProcessor", "mm-internvl": "InternVLVideoProcessor",
         "mm-smolvlm": "SmolVLMVideoProcessor", "mm-glm-ocr": "Glm46VVideoProcessor"}
tv_resize = tvF.resize


def pil_resize(image, size, interpolation=None, antialias=True, **kw):
    """Where the library has torchvision's resize only, Pillow's stands in its place, as in the goldens."""
    how = getattr(interpolation, "value", interpolation)
    how = Image.Resampling(how) if isinstance(how, int) else getattr(Image.Resampling, how.upper())
    height, width = size
    flat = image.reshape(-1, *image.shape[-3:])
    pil = [np.asarray(Image.fromarray(x.permute(1, 2, 0).numpy()).resize((width, height), how)) for x in flat]
    return torch.stack([torch.from_numpy(a.copy()).permute(2, 0, 1) for a in pil]).reshape(*image.shape[:-2], height, width)


tvF.resize = pil_resize


def drawn(width, height, salt=0):
    """The picture that expected_test.cpp draws too."""
    i = np.arange(width * height * 3, dtype=np.uint64) + np.uint64(salt * 1000003)
    noise = (i * np.uint64(2654435761) % np.uint64(1 << 32)) >> np.uint64(24)
    slope = (i // np.uint64(3) * np.uint64(255)) // np.uint64(width * height)
    return Image.fromarray(((noise // np.uint64(4) + slope) % np.uint64(256)).astype(np.uint8).reshape(height, width, 3))


def processor_of(folder):
    config = json.loads((folder / "preprocessor_config.json").read_text())
    name = config["image_processor_type"]
    kind = getattr(transformers, name + "Pil", None) or getattr(transformers, name)
    made = kind(**{k: v for k, v in config.items() if k not in ("image_processor_type", "processor_class")})
    if name == "Llama4ImageProcessor":   # without its rounding to bf16
        made.rescale_and_normalize = type(made).__mro__[1].rescale_and_normalize.__get__(made)
    return config, made


def values_of(folder, config, made, picture):
    """As our blocks have them: without padding, MiniCPM's patches as rows."""
    kind = config["image_processor_type"]
    nested = kind in ("SmolVLMImageProcessor", "Idefics3ImageProcessor")
    extra = {"return_row_col_info": True} if nested else {}
    if kind == "PixtralImageProcessor" and (folder / "processor_config.json").exists():
        whole = json.loads((folder / "processor_config.json").read_text())
        if whole["processor_class"] == "PixtralProcessor":
            extra["patch_size"] = {"height": whole["patch_size"] * whole["spatial_merge_size"], "width": whole["patch_size"] * whole["spatial_merge_size"]}
    out = made(images=[[picture]] if nested else [picture], return_tensors="pt", **extra)
    px = out["pixel_values"].float()
    if kind == "Gemma4ImageProcessor":
        px = px[0][out["image_position_ids"][0, :, 0] >= 0]
    if kind == "Lfm2VlImageProcessor":
        px = torch.cat([tile[:int(grid.prod())] for tile, grid in zip(px, out["spatial_shapes"])])
    if kind == "MiniCPMV4_6ImageProcessor":
        side = config["patch_size"]
        px = px[0].reshape(3, side, -1, side).permute(2, 0, 1, 3)
    return px


def digest(tensor):
    return hashlib.sha256(tensor.contiguous().numpy().astype("<f4").tobytes()).hexdigest()[:32]


def cases_of(folder):
    config, made = processor_of(folder)
    for width, height in SIZES:
        case = {"width": width, "height": height}
        try:
            px = values_of(folder, config, made, drawn(width, height))
            case.update(values=px.numel(), sha256=digest(px))
        except (ValueError, ZeroDivisionError) as error:
            case["refused"] = str(error)[:60]
        yield case


def films_of(folder):
    config, _ = processor_of(folder)
    keys = [k for k in ("size", "patch_size", "merge_size", "temporal_patch_size", "image_mean", "image_std", "resample", "max_image_size") if k in config]
    settings = {k: config[k] for k in keys}
    made = getattr(transformers, FILMS[folder.name])(**settings, do_sample_frames=False)
    settings = {"video_processor_type": FILMS[folder.name], **settings}
    for width, height, frames in ((90, 64, 4), (64, 120, 5), (130, 70, 2)):
        film = torch.stack([torch.from_numpy(np.asarray(drawn(width, height, salt)).copy()).permute(2, 0, 1) for salt in range(frames)])
        out = made(videos=[film], return_tensors="pt", do_sample_frames=False)
        px = out.get("pixel_values_videos", out.get("pixel_values"))
        yield {"width": width, "height": height, "frames": frames, "settings": settings, "values": px.numel(), "sha256": digest(px.float())}


def choices():
    """Which frames each way of sampling takes."""
    from transformers.video_utils import VideoMetadata
    made = {"qwen2_vl": transformers.Qwen2VLVideoProcessor(fps=2), "qwen3_vl": transformers.Qwen3VLVideoProcessor(), "glm4v": transformers.Glm4vVideoProcessor(),
            "internvl": transformers.InternVLVideoProcessor(num_frames=8), "glm46v": transformers.Glm46VVideoProcessor(), "smolvlm": transformers.SmolVLMVideoProcessor()}
    for total, fps in ((8, 24.0), (10, 2.0), (97, 24.0), (100, 30.0), (301, 25.0), (1000, 29.97), (12000, 24.0)):
        meta = VideoMetadata(total_num_frames=total, fps=fps, duration=total / fps)
        for name, processor in made.items():
            more = {"internvl": dict(num_frames=8), "smolvlm": dict(num_frames=64, fps=1), "glm46v": {}}.get(name, dict(fps=2))
            yield {"rule": name, "frames": total, "per_second": fps, "chosen": [int(i) for i in processor.sample_frames(metadata=meta, **more)]}


def main(models, out):
    listed = []
    for folder in sorted(models.glob("mm-*")):
        read = lambda name: json.loads((folder / name).read_text()) if (folder / name).exists() else None
        entry = {"name": folder.name[3:], "preprocessor": read("preprocessor_config.json"), "processor": read("processor_config.json"), "pictures": list(cases_of(folder))}
        entry["model_type"] = json.loads((folder / "config.json").read_text())["model_type"]
        if folder.name in FILMS:
            entry["films"] = list(films_of(folder))
        listed.append(entry)
    out.write_text(json.dumps({"processors": listed, "choices": list(choices())}, separators=(",", ":")).replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
