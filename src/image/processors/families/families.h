// families.h: one maker for each class of processor; table.cpp names them.
//
// Threads: pure functions. Fails: as make_processor(); what Settings noticed is looked at by the caller.
#pragma once

#include <memory>

#include "image/processors/grid_processor.h"
#include "image/processors/processor.h"
#include "image/processors/settings.h"

namespace espalier::pictures {

using MadeProcessor = Result<std::unique_ptr<Processor>>;

// Of LLaVA's towers: a class token that the text counts (+1), a first feature that the model drops (-1).
int extra_tokens(Settings& settings);

MadeProcessor make_clip(Settings& settings);        // CLIP, SigLIP and LLaVA's own: one view of fixed size
MadeProcessor make_llava_next(Settings& settings);  // tiles of any resolution
MadeProcessor make_llava_onevision(Settings& settings);
MadeProcessor make_qwen2_vl(Settings& settings);  // Qwen2-VL, 2.5-VL, 3-VL, 3.5: patches in a grid
MadeProcessor make_minimax_m3_vl(Settings& settings);
MadeProcessor make_glm4v(Settings& settings);  // GLM-4.1V, 4.5V, 4.6V, GLM-OCR
MadeProcessor make_glm5_next(Settings& settings);
// A plan's pictures, and films as all GLM models are told them: marks around each group of frames, its time behind it, as a
// whole number or as "1.0 seconds".
std::unique_ptr<GridProcessor> glm_processor(GridPlan plan, std::string image_token, bool whole_seconds);
MadeProcessor make_paddleocr_vl(Settings& settings);
MadeProcessor make_hunyuan_vl(Settings& settings);
MadeProcessor make_kimi_k25(Settings& settings);
MadeProcessor make_gemma3(Settings& settings);  // one view, with pan and scan
MadeProcessor make_gemma4(Settings& settings);
MadeProcessor make_idefics3(Settings& settings);  // Idefics3, SmolVLM: tiles and a small whole
MadeProcessor make_smolvlm(Settings& settings);   // the same, and films
MadeProcessor make_got_ocr2(Settings& settings);  // InternVL: dynamic tiles
MadeProcessor make_cohere2_vision(Settings& settings);
MadeProcessor make_pixtral(Settings& settings);  // Pixtral, Mistral 3, LightOnOCR
MadeProcessor make_llama4(Settings& settings);
MadeProcessor make_lfm2_vl(Settings& settings);
MadeProcessor make_minicpm_v(Settings& settings);

}  // namespace espalier::pictures
