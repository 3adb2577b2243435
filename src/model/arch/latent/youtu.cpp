// Youtu-LLM: latent attention before plain MLPs. Source: model card; transformers' YoutuModel.
#include "model/arch/families.h"
#include "model/arch/latent/latent.h"

namespace espalier {

ModelSpec youtu(const Fields& f) {
  return decoder(f, [&](int) { return pre_norm(latent_attention(f), gated_mlp(f)); });
}

}  // namespace espalier
