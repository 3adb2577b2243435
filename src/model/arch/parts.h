// parts.h: what many architectures declare alike, out of the fields that most checkpoints share.
//
// An architecture takes these values and changes what differs. Fails: by Fields::problem().
#pragma once

#include <functional>

#include "model/blocks/attention/attention.h"
#include "model/blocks/channels/mlp.h"
#include "model/fields/fields.h"
#include "model/fields/rope.h"
#include "model/spec.h"

namespace espalier {

int layer_count(const Fields& f);
int hidden_size(const Fields& f);

// Vocabulary, width, norm, tied head; and the layers, as `layer` gives them: so many, or (0) as the checkpoint says.
ModelSpec decoder(const Fields& f, const std::function<Layer(int layer)>& layer, int layers = 0);

// Heads, grouped keys and values; rotation of whole heads by halves. layer: where heads may differ between layers, as
// in GGUF files of models whose other layers have none. layer_type: whose rotation, where types of layers differ in it.
Attention grouped_attention(const Fields& f, int layer = -1, std::string_view layer_type = {});
// The same without rotation, for models whose layers turn differently.
Attention attention_heads(const Fields& f, int layer = -1);
// ALiBi's slope of each head.
std::vector<float> alibi_slopes(int heads, double steepest = 8.0);
// Taps of a short convolution, in the range that is computed here.
int taps_of(const Fields& f, FieldName name, int otherwise);
ActivationKind activation_of(const Fields& f, std::string_view otherwise = "silu");
ActivationKind activation_in(const Fields& f, FieldName field, std::string_view otherwise);
Mlp gated_mlp(const Fields& f);
Mlp plain_mlp(const Fields& f, std::string_view activation, bool bias);  // without a gate

// A norm before each half: attn_norm, ffn_norm.
Layer pre_norm(Block mixer, Block mlp);
// A norm before and one behind each half (Gemma 2): attn_norm, post_attention_norm, ffn_norm, post_ffw_norm.
Layer sandwich(Block mixer, Block mlp);
// A norm behind each half (OLMo 2): post_attention_norm, post_ffw_norm.
Layer post_norm(Block mixer, Block mlp);
// Both halves from one norm (attn_norm) of the same rows.
Layer parallel(Block mixer, Block mlp);

// The layer behind the last that checkpoints of the family may bring to draft with. HF names: `own` before the model's before
// DeepSeek's, under a prefix where it is not that of a further layer.
// Requires: the spec's names are told.
DraftLayer& bring_draft_layer(ModelSpec& spec, Layer layer, std::vector<Names::Entry> own = {},
                              std::string_view prefix = {});
// The same with Qwen's HF names: all of it stands beside the model (mtp.fc, mtp.layers.0.).
DraftLayer& bring_draft_beside(ModelSpec& spec, Layer layer);

// What gives so many scores of a text.
PooledOutput scores_of(const ModelSpec& spec, int labels);

// Refuses config.json: of some families only GGUF files are known.
void only_in_gguf(const Fields& f);

// Whether a layer's attention is of this type ("sliding_attention"); `otherwise` where the checkpoint has no list.
bool layer_is(const Fields& f, int layer, std::string_view type, bool otherwise);

}  // namespace espalier
