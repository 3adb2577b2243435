#include "engine/load/tower_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/log.h"
#include "model/towers/mmproj/mmproj.h"
#include "model/towers/table.h"
#include "tensor/file/gguf_names.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostEntries = 100'000;  // of a folder

std::vector<std::string> gguf_files_of(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code code;
  std::size_t seen = 0;
  for (fs::directory_iterator entry(folder, code), end; !code && entry != end && ++seen < kMostEntries;
       entry.increment(code)) {
    std::error_code gone;
    if (entry->is_regular_file(gone)) names.push_back(entry->path().filename().string());
  }
  return names;
}

// A token that stands for pictures where the vocabulary has none for that: one that texts do not have.
TokenId stand_in(const ModelFiles& files) {
  const Tokenizer& tokenizer = *files.tokenizer;
  const auto is_free = [&](TokenId id) {
    return tokenizer.is_special(id) && !tokenizer.token_text(id).empty() && id != tokenizer.bos() &&
           id != tokenizer.eos() && std::ranges::find(files.config.eos, id) == files.config.eos.end() &&
           id < files.config.vocabulary;
  };
  for (const std::optional<TokenId> id : {tokenizer.unk(), tokenizer.pad()})
    if (id && is_free(*id)) return *id;
  for (TokenId id = tokenizer.size(); id-- > 0;)
    if (is_free(id)) return id;
  return -1;
}

std::string picture_settings_for(const MmprojFile& tower, const ModelFiles& files) {
  if (!files.tokenizer) return {};
  Json settings =
      tower.picture_settings([&](std::string_view text) { return files.tokenizer->find(text).has_value(); });
  if (const TokenId id = stand_in(files); id >= 0) settings["config"]["image_token_id"] = id;
  return settings.dump();
}

Result<> take(const fs::path& path, ModelFiles& files) {
  ESP_TRY(std::unique_ptr<MmprojFile> tower, MmprojFile::open(path));
  const TowerSpec& spec = tower->spec();
  if (spec.features_width != files.config.spec.hidden)
    return bad_request(
        fmt::format("the tower {} gives rows of {} values, but the text model's have {}: it belongs to another model",
                    path.string(), spec.features_width, files.config.spec.hidden),
        "mmproj");
  files.tower = spec;
  expect_pictures(spec, files.config.spec);
  files.tower_path = path.string();
  files.picture_settings = picture_settings_for(*tower, files);
  files.tower_weights = std::move(tower);
  return success();
}

}  // namespace

std::optional<fs::path> tower_file_beside(const fs::path& model) {
  const fs::path folder = model.parent_path();
  const std::vector<std::string> names = gguf_files_of(folder.empty() ? fs::path(".") : folder);
  if (const auto found = mmproj_of_model(model.filename().string(), names)) return folder / *found;
  // hub/models--org--name/snapshots/COMMIT/Q4_K_M/model.gguf
  if (folder.parent_path().parent_path().filename() != "snapshots") return std::nullopt;
  const fs::path top = folder.parent_path();
  const auto found = mmproj_of_model(model.filename().string(), gguf_files_of(top));
  return found ? std::optional(top / *found) : std::nullopt;
}

Result<> take_tower_file(const EngineOptions& options, ModelFiles& files) {
  if (options.skip_tower) return success();
  files.tower_named = !options.tower_path.empty();
  if (files.tower_named) return take(options.tower_path, files);
  const auto found = tower_file_beside(options.model_path);
  if (!found) return success();
  const auto taken = take(*found, files);
  if (taken.ok())
    log::info("the vision tower is that of {} (--no-mmproj serves the text model alone)", found->string());
  else
    log::warning("the text model is served alone, {} cannot be its tower: {}", found->string(), taken.error().message);
  return success();
}

}  // namespace espalier
