"""The towers of golden vision models as mmproj files of llama.cpp's converter: names, layouts, keys.

Source: conversion/*.py and the tensor mapping of gguf-py; LLaVA's: tools/mtmd/legacy-models.
"""
import json
import re

import gguf_writer as gguf

# --- towers: parts of names and what replaces them ---

SIGLIP = [("encoder.layers.", "v.blk."), ("layer_norm1", "ln1"), ("layer_norm2", "ln2"), ("self_attn.out_proj", "attn_out"), ("self_attn.q_proj", "attn_q"),
          ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"), ("embeddings.patch_embedding", "v.patch_embd"),
          ("embeddings.position_embedding", "v.position_embd"), ("embeddings.class_embedding", "v.class_embd"), ("pre_layrnorm", "v.pre_ln"), ("post_layernorm", "v.post_ln")]
BLOCKS = [("^model.", ""), ("visual.", ""), ("blocks.", "v.blk."), (".norm1", ".ln1"), (".norm2", ".ln2"), ("attn.qkv", "attn_qkv"), ("attn.proj", "attn_out"),
          ("attn.q_norm", "attn_q_norm"), ("attn.k_norm", "attn_k_norm"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
          ("patch_embed.proj", "v.patch_embd")]
MERGER = BLOCKS + [("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"), ("merger.ln_q", "v.post_ln"), ("merger.mlp.0", "mm.0"), ("merger.mlp.2", "mm.2")]
QWEN3 = BLOCKS + [("mlp.linear_fc1", "ffn_up"), ("mlp.linear_fc2", "ffn_down"), ("pos_embed", "v.position_embd"), ("deepstack_merger_list.", "v.deepstack."),
                  ("linear_fc1", "fc1"), ("linear_fc2", "fc2"), ("merger.norm", "v.post_ln"), ("merger.fc1", "mm.0"), ("merger.fc2", "mm.2")]
GLM = BLOCKS + [("embeddings.position_embedding", "v.position_embd"), ("post_conv_layernorm", "v.norm_embd"), ("post_layernorm", "v.post_ln"), ("downsample", "mm.patch_merger"),
                ("merger.post_projection_norm", "mm.post_norm"), ("merger.proj", "mm.model.fc"), ("merger.gate_proj", "mm.gate"), ("merger.up_proj", "mm.up"),
                ("merger.down_proj", "mm.down")]
PIXTRAL = [("model.vision_encoder.", ""), ("model.vision_projection.", ""), ("vision_tower.", ""), ("multi_modal_projector.", ""), ("transformer.layers.", "v.blk."),
           ("attention_norm", "ln1"), ("ffn_norm", "ln2"), ("attention.q_proj", "attn_q"), ("attention.k_proj", "attn_k"), ("attention.v_proj", "attn_v"),
           ("attention.o_proj", "attn_out"), ("feed_forward.gate_proj", "ffn_gate"), ("feed_forward.up_proj", "ffn_up"), ("feed_forward.down_proj", "ffn_down"),
           ("patch_conv", "v.patch_embd"), ("ln_pre", "v.pre_ln"), ("patch_merger.merging_layer", "mm.patch_merger"), ("linear_1", "mm.1"), ("linear_2", "mm.2"),
           ("^norm.weight", "mm.input_norm.weight")]
OLD_LLAVA = [("vision_tower.vision_model.", ""), ("multi_modal_projector.linear_1", "mm.0"), ("multi_modal_projector.linear_2", "mm.2"), ("^image_newline", "model.image_newline"),
             ("mlp.fc1", "ffn_down"), ("mlp.fc2", "ffn_up")] + SIGLIP  # the old script exchanges these two
ATTENTION_V = [("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_out")]
GEMMA4 = [("model.vision_tower.", ""), ("encoder.layers.", "v.blk."), (r"\.linear\.", "."), ("input_layernorm", "ln1"), ("post_attention_layernorm", "attn_post_norm"),
          ("pre_feedforward_layernorm", "ln2"), ("post_feedforward_layernorm", "ffn_post_norm"), *ATTENTION_V, ("self_attn.q_norm", "attn_q_norm"),
          ("self_attn.k_norm", "attn_k_norm"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"), ("mlp.down_proj", "ffn_down"),
          ("patch_embedder.input_proj", "v.patch_embd"), ("patch_embedder.position_embedding_table", "v.position_embd.weight"), ("std_bias", "v.std_bias"),
          ("std_scale", "v.std_scale"), ("model.embed_vision.embedding_projection", "mm.input_projection")]
INTERNVL = [("vision_tower.", ""), ("encoder.layer.", "v.blk."), ("layernorm_before", "ln1"), ("layernorm_after", "ln2"), ("attention.q_proj", "attn_q"),
            ("attention.k_proj", "attn_k"), ("attention.v_proj", "attn_v"), ("attention.projection_layer", "attn_out"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"),
            ("lambda_1", "ls1.weight"), ("lambda_2", "ls2.weight"), ("embeddings.patch_embeddings.projection", "v.patch_embd"),
            ("embeddings.position_embeddings", "v.position_embd.weight"), ("embeddings.cls_token", "v.class_embd"), ("multi_modal_projector.layer_norm", "mm.model.mlp.0"),
            ("multi_modal_projector.linear_1", "mm.model.mlp.1"), ("multi_modal_projector.linear_2", "mm.model.mlp.3")]
LLAMA4 = [("vision_model.vision_adapter.mlp.fc1", "mm.model.mlp.1"), ("vision_model.vision_adapter.mlp.fc2", "mm.model.mlp.2"), ("vision_model.model.layers.", "v.blk."),
          ("vision_model.", ""), ("input_layernorm", "ln1"), ("post_attention_layernorm", "attn_post_norm"), *ATTENTION_V, ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"),
          ("patch_embedding.linear", "v.patch_embd"), ("positional_embedding_vlm", "v.position_embd.weight"), ("class_embedding", "v.class_embd"),
          ("layernorm_pre", "v.pre_ln"), ("layernorm_post", "v.post_ln"), ("multi_modal_projector.linear_1", "mm.model.fc")]
MINICPM = [("model.vision_tower.vit_merger.layer_norm1", "v.vit_merger.ln1"), ("model.vision_tower.vit_merger.pre_norm", "v.vit_merger.ds_ln"),
           ("model.vision_tower.vit_merger.linear_1", "v.vit_merger.ds_ffn_up"), ("model.vision_tower.vit_merger.linear_2", "v.vit_merger.ds_ffn_down"),
           ("model.vision_tower.vit_merger.self_attn.", "v.vit_merger.self_attn."), ("model.vision_tower.", ""), ("model.merger.mlp.0.pre_norm", "mm.input_norm"),
           ("model.merger.mlp.0.linear_1", "mm.up"), ("model.merger.mlp.0.linear_2", "mm.down")] + SIGLIP
LFM2_TOWER = [("model.vision_tower.", ""), ("model.multi_modal_projector.layer_norm", "mm.input_norm"), ("model.multi_modal_projector.linear_1", "mm.1"),
              ("model.multi_modal_projector.linear_2", "mm.2")] + SIGLIP
PADDLE = [("visual.vision_model.", ""), ("mlp_AR.pre_norm", "mm.input_norm"), ("mlp_AR.linear_1", "mm.1"), ("mlp_AR.linear_2", "mm.2")] + SIGLIP
KIMI = [("vision_tower.", ""), ("encoder.blocks.", "v.blk."), ("norm0", "ln1"), ("norm1", "ln2"), ("wqkv", "attn_qkv"), (r"\.wo\.", ".attn_out."), ("mlp.fc0", "ffn_up"),
        ("mlp.fc1", "ffn_down"), ("encoder.final_layernorm", "v.post_ln"), ("^(encoder.)?patch_embed.proj", "v.patch_embd"), ("patch_embed.pos_emb", "v.position_embd"),
        ("(model.)?mm_projector.pre_norm", "mm.input_norm"), ("mm_projector.proj.0", "mm.1"), ("mm_projector.proj.2", "mm.2")]
HUNYUAN = [("vit.", ""), ("layers.", "v.blk."), ("input_layernorm", "ln1"), ("post_attention_layernorm", "ln2"), *ATTENTION_V, ("mlp.dense_h_to_4h", "ffn_up"),
           ("mlp.dense_4h_to_h", "ffn_down"), ("embeddings.patch_embedding", "v.patch_embd"), ("embeddings.position_embedding", "v.position_embd"),
           ("perceive.before_rms", "mm.pre_norm"), ("perceive.after_rms", "mm.post_norm"), ("perceive.proj.0", "mm.0"), ("perceive.proj.2", "mm.2"),
           ("perceive.mlp", "mm.model.fc"), ("perceive.image_newline", "v.image_newline"), ("perceive.image_begin", "mm.image_begin"), ("perceive.image_end", "mm.image_end")]
MINIMAX = [("vision_tower.vision_model.", ""), ("multi_modal_projector.merge_linear_", "mm.merger.fc"), ("patch_merge_mlp.linear_", "mm.merger.fc"),
           ("multi_modal_projector.linear_", "mm.")] + SIGLIP
SMOLVLM = [("model.vision_model.", ""), ("model.connector.modality_projection.proj", "mm.model.fc")] + SIGLIP
GEMMA3 = [("vision_tower.vision_model.", ""), ("multi_modal_projector.mm_soft_emb_norm", "mm.soft_emb_norm"),
          ("multi_modal_projector.mm_input_projection_weight", "mm.input_projection.weight")] + SIGLIP

# --- what families add to the common keys; c: the whole configuration, v: the tower's, p: the picture processor's ---

def scale_of(name, default=2):
    return lambda c, v, p: {"projector.scale_factor": c.get(name, default)}


def gemma3_keys(c, v, p):
    return {"projector.scale_factor": v["image_size"] // v["patch_size"] // int(c["mm_tokens_per_image"] ** 0.5)}


def gemma4_keys(c, v, p):
    side = v["patch_size"] * v["pooling_kernel_size"]
    return {"image_max_pixels": p["max_soft_tokens"] * side * side}


def sizes(c, v, p, counted=1):
    size = p.get("size", {})
    return {"image_min_pixels": p.get("min_pixels", size.get("shortest_edge")) // counted,
            "image_max_pixels": p.get("max_pixels", size.get("longest_edge")) // counted, "spatial_merge_size": p.get("merge_size", 2)}


def qwen25_keys(c, v, p):
    return {**sizes(c, v, p), "window_size": v["window_size"], "n_wa_pattern": v["fullatt_block_indexes"][0] + 1, "clip.use_silu": True}


def qwen3_keys(c, v, p):
    flags = [i in v.get("deepstack_visual_indexes", []) for i in range(v["depth"])]
    return {**sizes(c, v, p), "is_deepstack_layers": flags, "clip.use_gelu": True}


def glm_keys(c, v, p):
    return {**sizes(c, v, p, 2), "clip.use_silu": True}


def glm5_keys(c, v, p):
    token = (p["patch_size"] * p["merge_size"]) ** 2
    return {"image_min_pixels": p["min_image_tokens"] * token, "image_max_pixels": p["max_image_tokens"] * token, "swiglu_clamp": float(v["swiglu_limit"]),
            "spatial_merge_size": p["merge_size"], "clip.use_silu": True}


def smolvlm_keys(c, v, p):
    return {"projector.scale_factor": c["scale_factor"], "preproc_image_size": p["size"]["longest_edge"], "clip.use_gelu": True}


def pixtral_keys(c, v, p):
    merge = {"spatial_merge_size": c["spatial_merge_size"]} if "spatial_merge_size" in c else {}
    return {**merge, "preproc_image_size": p["size"]["longest_edge"], "clip.use_silu" if v["hidden_act"] == "silu" else "clip.use_gelu": True}


def internvl_keys(c, v, p):
    return {"projector.scale_factor": int(1 / c["downsample_ratio"]), "preproc_min_tiles": p["min_patches"], "preproc_max_tiles": p["max_patches"], "clip.use_gelu": True}


def llama4_keys(c, v, p):
    return {"projector.scale_factor": int(1 / v["pixel_shuffle_ratio"]), "preproc_max_tiles": p["max_patches"], "clip.use_gelu": True}


def minicpm_keys(c, v, p):
    return {"wa_layer_indexes": [v["insert_layer_id"]], "projector.scale_factor": 4, "image_size": p["scale_resolution"], "preproc_max_tiles": p["max_slice_nums"],
            "clip.use_gelu": True}


def lfm2_keys(c, v, p):
    token = (p["encoder_patch_size"] * p["downsample_factor"]) ** 2
    return {"projector.scale_factor": c["downsample_factor"], "preproc_image_size": p["tile_size"], "preproc_min_tiles": p["min_tiles"], "preproc_max_tiles": p["max_tiles"],
            "image_min_pixels": p["min_image_tokens"] * token, "image_max_pixels": p["max_image_tokens"] * token, "clip.use_gelu": True}


def kimi_keys(c, v, p):
    return {"projector.scale_factor": p["merge_size"], "image_max_pixels": p["max_patches"] * p["patch_size"] ** 2, "clip.use_gelu": True}


def llava_keys(c, v, p):
    layers = c["vision_feature_layer"] % (v["num_hidden_layers"] + 1)
    keys = {"block_count": layers, "feature_layer": [layers], "projection_dim": v.get("projection_dim", 0) or 1}
    if "image_grid_pinpoints" in c:
        keys["image_grid_pinpoints"] = [side for shape in c["image_grid_pinpoints"] for side in shape]
        keys["mm_patch_merge_type"] = "spatial_unpad"
    return keys


def recipe(projector, text, names, keys=lambda c, v, p: {}, tokens=None, **layout):
    """tokens: what ids of the vocabulary are called. layout: pairs, axes, thirds (rows of queries and keys), split (queries, keys and
    values apart), pixels_last, own_row (learned positions begin with a row that is not stored)."""
    return {"projector": projector, "text": text, "names": names, "keys": keys, "tokens": tokens or {}, **layout}


QWEN_TOKENS = {6: "<|image_pad|>", 7: "<|video_pad|>", 8: "<|vision_start|>", 9: "<|vision_end|>"}
RECIPES = {
    "mm-llava15": recipe("mlp", "llama", OLD_LLAVA, llava_keys, {6: "<image>"}),
    "mm-llava-next": recipe("mlp", "llama", OLD_LLAVA, llava_keys, {6: "<image>"}),
    "mm-llava-onevision": recipe("mlp", "qwen2", OLD_LLAVA, llava_keys, {6: "<image>", 7: "<video>"}),
    "mm-smolvlm": recipe("idefics3", "llama", SMOLVLM, smolvlm_keys, {6: "<image>"}),
    "mm-qwen2-vl": recipe("qwen2vl_merger", "qwen2vl", MERGER, sizes, QWEN_TOKENS, split=True),
    "mm-qwen25-vl": recipe("qwen2.5vl_merger", "qwen2vl", MERGER, qwen25_keys, QWEN_TOKENS, split=True),
    "mm-qwen3-vl": recipe("qwen3vl_merger", "qwen3vl", QWEN3, qwen3_keys, QWEN_TOKENS),
    "mm-qwen3-vl-moe": recipe("qwen3vl_merger", "qwen3vlmoe", QWEN3, qwen3_keys),
    "mm-qwen3.5": recipe("qwen3vl_merger", "qwen35", QWEN3, qwen3_keys, QWEN_TOKENS),
    "mm-gemma3": recipe("gemma3", "gemma3", GEMMA3, gemma3_keys, {6: "<image_soft_token>"}),
    "mm-gemma4": recipe("gemma4v", "gemma4", GEMMA4, gemma4_keys, {322: "<|image>", 323: "<image|>"}, pixels_last=True),
    "mm-gemma4-bidirectional": recipe("gemma4v", "gemma4", GEMMA4, gemma4_keys, {322: "<|image>", 323: "<image|>"}, pixels_last=True),
    "mm-internvl": recipe("internvl", "qwen2", INTERNVL, internvl_keys, {6: "<IMG_CONTEXT>"}),
    "mm-pixtral": recipe("pixtral", "llama", PIXTRAL, pixtral_keys, {6: "[IMG]", "<|img_break|>": "[IMG_BREAK]", "<|img_end|>": "[IMG_END]"}, pairs=True),
    "mm-mistral3": recipe("pixtral", "llama", PIXTRAL, pixtral_keys, {6: "[IMG]", "<|img_break|>": "[IMG_BREAK]", "<|img_end|>": "[IMG_END]"}, pairs=True),
    "mm-lighton-ocr": recipe("lightonocr", "qwen3", PIXTRAL, pixtral_keys, pairs=True),
    "mm-llama4": recipe("llama4", "llama4", LLAMA4, llama4_keys),
    "mm-minicpm-v4.6": recipe("minicpmv4_6", "qwen35", MINICPM, minicpm_keys),
    "mm-lfm2-vl-tiles": recipe("lfm2", "lfm2", LFM2_TOWER, lfm2_keys, pixels_last=True),
    "mm-glm4v": recipe("glm4v", "glm4", GLM, glm_keys, {6: "<|image|>"}),
    "mm-glm-ocr": recipe("glm4v", "glm4", GLM, glm_keys),
    "mm-kimi-k2.5": recipe("kimik25", "deepseek2", KIMI, kimi_keys, axes=True),
    "mm-paddleocr-vl": recipe("paddleocr", "paddleocr", PADDLE, sizes),
    "mm-hunyuan-vl": recipe("hunyuanvl", "hunyuan_vl", HUNYUAN, sizes, own_row=True),
    "mm-minimax-m3-vl": recipe("minimax_m3", "minimax-m3", MINIMAX, sizes, thirds=True),
}


def in_pairs(t, heads):
    dim = t.shape[0] // heads
    return t.rows([h * dim + half * dim // 2 + i for h in range(heads) for i in range(dim // 2) for half in (0, 1)])


def axes_apart(t, heads):
    """Of queries and keys in one tensor: pairs that turn by one axis, then those of the other, instead of in turns."""
    dim = t.shape[0] // 3 // heads
    order = [h * dim + pair * 4 + axis * 2 + i for h in range(2 * heads) for axis in (0, 1) for pair in range(dim // 4) for i in (0, 1)]
    return t.rows(order + list(range(t.shape[0] // 3 * 2, t.shape[0])))


def by_thirds(t, heads):
    """[time, height, width] twice and the rest become time twice, height twice, width twice and the rest."""
    dim = t.shape[0] // heads
    each = dim // 3 // 2
    order = [half * 3 * each + axis * each + i for axis in range(3) for half in (0, 1) for i in range(each)] + list(range(6 * each, dim))
    return t.rows([h * dim + i for h in range(heads) for i in order])


def converted(how, name, t, vision):
    """The tensors that are stored for one of the checkpoint, by name."""
    heads = vision.get("num_heads") or vision["num_attention_heads"]
    for pattern, to in how["names"]:
        name = re.sub(pattern if pattern.startswith("^") or "\\" in pattern or "(" in pattern else re.escape(pattern), to, name)
    if not name.startswith(("v.", "mm.", "model.image_newline")):
        return {}
    deep = re.match(r"v\.deepstack\.(\d)(.*)", name)
    if deep:
        name = f"v.deepstack.{vision['deepstack_visual_indexes'][int(deep[1])]}{deep[2]}"
    if name == "mm.soft_emb_norm.weight":
        t = t.mapped(lambda x: x + 1)
    if ".attn_q." in name or ".attn_k." in name:
        t = in_pairs(t, heads) if how.get("pairs") else by_thirds(t, heads) if how.get("thirds") else t
    if ".attn_qkv." in name and how.get("axes"):
        t = axes_apart(t, heads)
    if ".attn_qkv." in name and how.get("split"):
        each = t.shape[0] // 3
        return {name.replace("attn_qkv", f"attn_{part}"): t.part(i * each, (i + 1) * each) for i, part in enumerate("qkv")}
    if name == "v.position_embd.weight" and how.get("own_row"):
        t = t.part(1, t.shape[0])
    if name == "v.patch_embd.weight" and len(t.shape) == 5:
        outputs, channels, frames, height, width = t.shape
        t = t.moved(2, 0, 1, 3, 4)
        return {name + (f".{i}" if i else ""): t.part(i, i + 1).reshaped(outputs, channels, height, width) for i in range(frames)}
    if name == "v.patch_embd.weight" and how.get("pixels_last"):
        side = round((t.shape[1] / 3) ** 0.5)
        t = t.reshaped(t.shape[0], side, side, 3).moved(0, 3, 1, 2)
    return {name: t}


def write(folder, how, tensors, path):
    c = json.loads((folder / "config.json").read_text())
    v, text = c["vision_config"], c.get("text_config", c)
    p = json.loads((folder / "preprocessor_config.json").read_text())
    own = json.loads((folder / "processor_config.json").read_text()) if (folder / "processor_config.json").exists() else {}
    p = {**p, **own.get("image_processor", {})}
    image = v.get("image_size") or 224
    image = image[0] if isinstance(image, list) else image
    patch = v["patch_size"]
    eps = next((v[n] for n in ("layer_norm_eps", "rms_norm_eps", "norm_eps", "projector_ln_eps") if n in v), 1e-6)
    if how["projector"] in ("pixtral", "lightonocr", "hunyuanvl", "glm4v", "glm5v", "kimik25"):
        eps = v.get("rms_norm_eps", 1e-5)
    keys = {"projection_dim": text["hidden_size"], "image_size": image, "patch_size": patch[0] if isinstance(patch, list) else patch,
            "embedding_length": v.get("embed_dim") or v["hidden_size"], "feed_forward_length": v.get("intermediate_size") or v["hidden_size"],
            "block_count": v.get("depth") or v["num_hidden_layers"], "attention.head_count": v.get("num_heads") or v["num_attention_heads"],
            "attention.layer_norm_epsilon": float(eps), "image_mean": [float(x) for x in p["image_mean"]], "image_std": [float(x) for x in p["image_std"]]}
    keys.update(how["keys"](c, v, p))
    kind = "clip.vision.projector_type" if how["projector"] == "gemma4v" else "clip.projector_type"
    metadata = {"general.architecture": "clip", "general.type": "mmproj", "clip.has_vision_encoder": True, kind: how["projector"]}
    metadata.update({k if k.startswith("clip.") else f"clip.vision.{k}": value for k, value in keys.items()})
    stored = {}
    for name, t in tensors.items():
        stored.update(converted(how, name, t, v))
    if how["projector"] == "mlp":  # the old script leaves away what comes behind the features
        last = keys["block_count"]
        layer = lambda name: int(name.split(".")[2]) if name.startswith("v.blk.") else -1
        stored = {name: t for name, t in stored.items() if layer(name) < last and not name.startswith("v.post_ln")}
    gguf.write(path, metadata, stored)
