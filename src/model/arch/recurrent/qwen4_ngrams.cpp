#include "model/arch/recurrent/qwen4_ngrams.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace espalier {
namespace {

// The token before which n-grams do not reach.
TokenId qwen4_end(const Fields& f) {
  if (f.is_gguf()) return static_cast<TokenId>(f.integer_or({"", "ple.eos_token_id"}, 0, 0, ConfigLimits::vocabulary));
  const Json* told = f.find({"eos_token_id"});
  if (told != nullptr && told->is_array() && !told->empty()) told = &told->front();
  if (told == nullptr || !told->is_number_unsigned() || told->get<std::uint64_t>() > ConfigLimits::vocabulary) {
    f.refuse({"eos_token_id"}, "eos_token_id must be a token, or a list of them, where ple_layer_ids names layers");
    return 0;
  }
  return static_cast<TokenId>(told->get<std::int64_t>());
}

NgramHash qwen4_hash(const Fields& f, int module) {
  const int longest = static_cast<int>(f.integer_or({"ngram_size", "ple.ngram_size"}, 3, 2, 4)),
            each = static_cast<int>(f.integer_or({"heads_per_ngram", "ple.heads_per_ngram"}, 8, 1, 64));
  constexpr int kMostHeads = 256;  // of all layers; each has a prime of its own to be found
  if (!f.is_gguf() && (module + 1) * (longest - 1) * each > kMostHeads) {
    f.refuse({"heads_per_ngram"},
             fmt::format("n-gram embeddings of more than {} heads are not supported here", kMostHeads));
    module = 0;
  }
  if (!f.is_gguf())
    return NgramHash::drawn(longest, each, f.integer_or({"ngram_vocab_size_base"}, 20'000'000, 2, 1 << 28),
                            f.integer_or({"seed"}, 1234), f.count({"vocab_size"}, ConfigLimits::vocabulary), module);
  NgramHash h{.longest = longest, .heads_each = each};
  h.multipliers = f.integers({"", "ple.layer_multipliers"});
  h.offsets = f.integers({"", "ple.head_offsets"});
  h.sizes = f.integers({"", "ple.head_vocab_sizes"});
  const auto heads = static_cast<std::size_t>(h.heads());
  const auto in_range = [](std::int64_t least) {
    return [least](std::int64_t n) { return n >= least && n <= std::int64_t{1} << 34; };
  };
  if (std::cmp_less(h.multipliers.size(), longest) || h.offsets.size() < heads || h.sizes.size() < heads ||
      !std::ranges::all_of(h.offsets, in_range(0)) || !std::ranges::all_of(h.sizes, in_range(1)))
    f.refuse({"", "ple.head_vocab_sizes"}, "the numbers of n-gram embeddings' heads are missing or out of range");
  h.offsets.resize(heads);
  h.sizes.resize(heads, 1);
  h.multipliers.resize(static_cast<std::size_t>(longest), 1);
  return h;
}

}  // namespace

std::optional<NgramEmbedding> qwen4_ngrams(const Fields& f, int layer, const GatedResidual& streams) {
  std::vector<std::int64_t> layers = f.integers({"ple_layer_ids", "ple.layers"});
  if (!f.is_gguf())
    for (std::int64_t& id : layers) --id;
  std::ranges::sort(layers);
  layers.erase(std::ranges::unique(layers).begin(), layers.end());
  const auto found = std::ranges::find(layers, layer);
  if (found == layers.end()) return std::nullopt;
  NgramEmbedding e{.hash = qwen4_hash(f, static_cast<int>(found - layers.begin())), .streams = streams.streams};
  const int heads = e.hash.heads();
  e.hash.end = qwen4_end(f);
  e.width = f.is_gguf() ? heads * f.count({"", "embedding_length_per_layer_input"}, 1 << 14)
                        : f.count_or({"ple_embed_dim"}, hidden_size(f), ConfigLimits::hidden);
  const std::int64_t multiple = f.is_gguf() ? 1 : f.integer_or({"make_ngram_vocab_size_divisible_by"}, 128, 1);
  e.table_rows = (e.hash.rows() + multiple - 1) / multiple * multiple;
  e.taps = static_cast<int>(f.integer_or({"ple_conv_kernel_size", "ple.conv_kernel"}, 4, 2, ConfigLimits::taps));
  e.norm = streams.norm;
  if (e.width < heads || e.width % heads != 0 || (e.taps - 1) * e.hash.longest + 1 > ConfigLimits::taps)
    f.refuse({"ple_embed_dim"},
             fmt::format("n-gram embeddings of {} values by {} heads, with {} taps {} tokens apart, are not "
                         "supported here",
                         e.width, heads, e.taps, e.hash.longest));
  return e;
}

}  // namespace espalier
