// families.h: the towers of families, one short declaration each; table.h says which checkpoints have which.
#pragma once

#include "model/towers/tower_parts.h"

namespace espalier {

TowerSpec cohere2_vision_tower(const TowerFields& f);
TowerSpec gemma3_tower(const TowerFields& f);
TowerSpec gemma4_tower(const TowerFields& f);
TowerSpec glm4v_tower(const TowerFields& f);
TowerSpec glm5_next_tower(const TowerFields& f);
TowerSpec glm_ocr_tower(const TowerFields& f);
TowerSpec hunyuan_vl_tower(const TowerFields& f);
TowerSpec idefics3_tower(const TowerFields& f);
TowerSpec internvl_tower(const TowerFields& f);
TowerSpec kimi_k25_tower(const TowerFields& f);
TowerSpec lfm2_vl_tower(const TowerFields& f);
TowerSpec lighton_ocr_tower(const TowerFields& f);
TowerSpec llama4_tower(const TowerFields& f);
TowerSpec llava_next_tower(const TowerFields& f);
TowerSpec llava_tower(const TowerFields& f);
TowerSpec minicpm_v_tower(const TowerFields& f);
TowerSpec minimax_m3_tower(const TowerFields& f);
TowerSpec mistral3_tower(const TowerFields& f);
TowerSpec paddleocr_vl_tower(const TowerFields& f);
TowerSpec pixtral_tower(const TowerFields& f);
TowerSpec qwen2_vl_tower(const TowerFields& f);
TowerSpec qwen25_vl_tower(const TowerFields& f);
TowerSpec qwen3_vl_tower(const TowerFields& f);

}  // namespace espalier
