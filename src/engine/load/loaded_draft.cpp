#include "engine/load/loaded_draft.h"

#include <fmt/format.h>

#include "engine/load/load_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace espalier {
namespace {

constexpr int kRows = 512;  // of one batch, beside a row for every sequence

Error of_draft(Error error) {
  error.message = "the draft model: " + error.message;
  error.field = "speculative_draft_model";
  return error;
}

double mib(std::size_t bytes) {
  return static_cast<double>(bytes) / 0x1p20;
}

}  // namespace

Result<> same_tokens(const ModelFiles& draft, const ModelFiles& target) {
  auto refused = [](std::string how) {
    return bad_request(fmt::format("--speculative-draft-model has another vocabulary than the model: {}; a smaller "
                                   "model of the same family would do",
                                   how),
                       "speculative_draft_model");
  };
  if (draft.config.vocabulary != target.config.vocabulary)
    return refused(fmt::format("{} ids instead of {}", draft.config.vocabulary, target.config.vocabulary));
  if (!draft.tokenizer || !target.tokenizer) return success();
  const TokenId size = std::min(draft.tokenizer->size(), target.tokenizer->size());
  for (TokenId id = 0; id < size; ++id) {
    if (!draft.tokenizer->contains(id) || !target.tokenizer->contains(id)) continue;
    const std::string_view its = draft.tokenizer->token_text(id), wanted = target.tokenizer->token_text(id);
    if (its != wanted) return refused(fmt::format("id {} is \"{}\" instead of \"{}\"", id, its, wanted));
  }
  return success();
}

Result<std::unique_ptr<LoadedDraft>> load_draft(const EngineOptions& o, const EngineChoices& chosen,
                                                const ModelFiles& target, ComputeTeam& team,
                                                const DeviceToCompute* compute) {
  if (chosen.drafts != DraftSource::model) return std::unique_ptr<LoadedDraft>();
  auto draft = std::make_unique<LoadedDraft>();
  draft->name = o.draft_model;
  draft->keeps_prefixes = o.radix_cache;
  EngineOptions options = o;
  options.model_path = o.draft_model;
  options.tokenizer_path.clear();
  options.tower_path.clear();
  options.skip_tower = true;
  if (options.load_format != "dummy") options.load_format = "auto";  // it told of the target
  auto files = open_model_files(options);
  if (!files.ok()) return of_draft(files.error());
  draft->files = std::move(files).value();
  ESP_CHECK(same_tokens(draft->files, target));

  auto loaded =
      load_decoder(options, draft->files, {chosen.activations, kRows + chosen.max_running, backend_of(compute)}, team);
  if (!loaded.ok()) return of_draft(loaded.error());
  draft->decoder = std::move(loaded->decoder);
  if (draft->decoder->keeps().state_floats > 0)
    return bad_request(
        "--speculative-draft-model keeps a recurrent state, which cannot go back to where a guess was refused; a model "
        "of attention layers alone would work, or --speculative-algorithm tree",
        "speculative_draft_model");
  draft->layout = {draft->decoder->keeps().per_token, chosen.kv};
  draft->mapped_bytes = loaded->mapped_bytes;
  return draft;
}

std::size_t LoadedDraft::bytes_per_token(const CacheLayout& target) const {
  const std::size_t own = layout.bytes_per_token(), targets = target.bytes_per_token();
  return targets == 0 ? own : std::min(own, targets / 2);  // recurrent layers alone keep nothing of a token
}

Result<> LoadedDraft::give_pool(const CacheLayout& target, int target_tokens, std::vector<TokenId> end_tokens,
                                ComputeTeam& team, const device::Device* device) {
  const auto tokens = static_cast<std::size_t>(target_tokens);
  const std::size_t affordable = tokens * bytes_per_token(target) / layout.bytes_per_token();
  const int slots = static_cast<int>(std::min(tokens, std::max<std::size_t>(affordable, 256)));
  auto pool = KvPool::allocate(layout, slots, device);
  if (!pool.ok()) return of_draft(pool.error());
  kv = std::move(pool).value();
  const auto context = static_cast<int>(std::min<std::int64_t>(files.config.context_length, 1 << 24));
  model = std::make_unique<DraftModel>(*decoder, kv.view(), team,
                                       DraftModelOptions{slots, context, keeps_prefixes, std::move(end_tokens)});
  description = fmt::format("{} ({}, {:.1f} M parameters, {:.1f} MiB); pool {} tokens, {:.1f} MiB", name,
                            dominant_type(*files.weights), static_cast<double>(parameter_count(*files.weights)) / 1e6,
                            mib(decoder->weight_bytes()), slots, mib(kv.bytes()));
  return success();
}

}  // namespace espalier
