#include "model/fields/unread.h"

#include <algorithm>

namespace espalier {

bool is_of_no_decoder(std::string_view field) {
  static constexpr std::string_view kNames[] = {"architectures",
                                                "attention_dropout",
                                                "auto_map",
                                                "bos_token_id",
                                                "chunk_size_feed_forward",
                                                "dtype",
                                                "embd_pdrop",
                                                "eos_token_id",
                                                "hidden_dropout",
                                                "id2label",
                                                "initializer_range",
                                                "is_decoder",
                                                "is_encoder_decoder",
                                                "label2id",
                                                "language",
                                                "model_type",
                                                "name_or_path",
                                                "_name_or_path",
                                                "num_labels",
                                                "output_attentions",
                                                "output_hidden_states",
                                                "pad_token_id",
                                                "pretraining_tp",
                                                "problem_type",
                                                "quantization_config",
                                                "resid_pdrop",
                                                "return_dict",
                                                "sep_token_id",
                                                "torch_dtype",
                                                "transformers_version",
                                                "unk_token_id",
                                                "use_cache",
                                                "vision_config",
                                                "max_position_embeddings",
                                                "output_router_logits",
                                                "router_aux_loss_coef",
                                                "router_jitter_noise",
                                                "rope_scaling",
                                                "rope_parameters"};
  return std::ranges::find(kNames, field) != std::end(kNames);
}

}  // namespace espalier
