#include "engine/load/sentence_transformer.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json/json_fields.h"
#include "model/activation.h"
#include "model/fields/fields.h"
#include "model/program/builder.h"
#include "tensor/file/open_file.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = 4 << 20, kMostModules = 32, kMostPrompts = 256;
constexpr std::string_view kDenseRoles[] = {"dense.0", "dense.1", "dense.2", "dense.3"};

constexpr std::pair<std::string_view, Pooling> kPoolings[] = {
    {"last", Pooling::last},
    {"first", Pooling::first},
    {"mean", Pooling::mean},
    {"mean_by_root", Pooling::mean_by_root},
    {"greatest", Pooling::greatest},
    {"weighted_mean", Pooling::weighted_mean},
    {"none", Pooling::each},
    {"cls", Pooling::first},
    {"lasttoken", Pooling::last},
    {"max", Pooling::greatest},
    {"weightedmean", Pooling::weighted_mean},
    {"mean_sqrt_len_tokens", Pooling::mean_by_root},
};

// Null where there is no such file.
Result<Json> file_of(const fs::path& folder, const std::string& name) {
  auto file = open_beneath(folder, name);
  if (!file.ok() && file.error().kind == Error::Kind::not_found) return Json();
  ESP_TRY(const OpenFile opened, std::move(file));
  ESP_TRY(const std::string text, read_text(opened, kMostBytes));
  auto json = parse_json(text);
  if (!json.ok()) return bad_file(fmt::format("{}: {}", name, json.error().message));
  return json;
}

Error not_computed(std::string sentence, std::string field) {
  return {Error::Kind::unsupported, std::move(sentence), std::move(field), {}};
}

Result<> read_pooling(const Json& config, SentenceTransformer& made) {
  std::vector<std::string> modes;
  ESP_TRY(const auto named, find_string(config, "pooling_mode"));
  if (named) modes.push_back(*named);
  for (const auto& [field, mode] : {std::pair{"pooling_mode_cls_token", "cls"},
                                    {"pooling_mode_mean_tokens", "mean"},
                                    {"pooling_mode_max_tokens", "max"},
                                    {"pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"},
                                    {"pooling_mode_weightedmean_tokens", "weightedmean"},
                                    {"pooling_mode_lasttoken", "lasttoken"}}) {
    ESP_TRY(const auto on, find_boolean(config, field));
    if (!named && on.value_or(false)) modes.emplace_back(mode);
  }
  if (modes.empty()) modes.emplace_back("mean");
  if (modes.size() > 1)
    return not_computed("1_Pooling/config.json joins several poolings, which is not computed here; one would work",
                        "pooling_mode");
  made.pooling = pooling_named(modes.front());
  if (!made.pooling)
    return not_computed(fmt::format("1_Pooling/config.json: the pooling {} is not computed here; cls, mean, max, "
                                    "weightedmean, mean_sqrt_len_tokens and lasttoken are",
                                    in_quotes(modes.front())),
                        "pooling_mode");
  ESP_TRY(const auto prompt, find_boolean(config, "include_prompt"));
  made.pools_prompt = prompt.value_or(true);
  return success();
}

Result<> read_dense(const Json& config, std::string folder, SentenceTransformer& made) {
  if (made.dense.size() == std::size(kDenseRoles))
    return not_computed(fmt::format("modules.json has more than {} Dense layers", std::size(kDenseRoles)), "type");
  SentenceTransformer::Dense dense{std::move(folder)};
  for (const auto& [field, into] : {std::pair{"in_features", &dense.inputs}, {"out_features", &dense.outputs}}) {
    ESP_TRY(const auto count, find_integer(config, field, {1, ConfigLimits::hidden}));
    if (!count) return bad_file(fmt::format("{}/config.json lacks {}", dense.folder, field), field);
    *into = static_cast<int>(*count);
  }
  ESP_TRY(const auto bias, find_boolean(config, "bias"));
  dense.bias = bias.value_or(true);
  ESP_TRY(const auto told, find_string(config, "activation_function"));
  if (told) {
    std::string word = told->substr(told->rfind('.') + 1);
    std::ranges::transform(word, word.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto kind = activation_named(word);
    if (!kind)
      return not_computed(
          fmt::format("{}/config.json: the activation {} is not computed here", dense.folder, in_quotes(*told)),
          "activation_function");
    dense.how.kind = *kind;
  }
  made.dense.push_back(std::move(dense));
  return success();
}

Result<> read_module(const fs::path& folder, const Json& module, SentenceTransformer& made) {
  ESP_TRY(const auto type, find_string(module, "type"));
  ESP_TRY(const auto path, find_string(module, "path"));
  const std::string kind = type.value_or("").substr(type.value_or("").rfind('.') + 1), below = path.value_or("");
  if (kind == "Transformer") return success();
  if (kind == "Normalize") {
    made.normalised = true;
    return success();
  }
  if (kind != "Pooling" && kind != "Dense")
    return not_computed(fmt::format("modules.json: the module {} is not computed here; Transformer, Pooling, Dense and "
                                    "Normalize are",
                                    in_quotes(kind)),
                        "type");
  if (made.normalised)
    return not_computed(fmt::format("modules.json has a {} behind a Normalize, which is not computed here", kind),
                        "type");
  if (below.empty() || below == "." || below == ".." || below.find_first_of("/\\") != std::string::npos)
    return bad_file(fmt::format("modules.json: the path {} is no plain name of a folder", in_quotes(below)), "path");
  ESP_TRY(const Json config, file_of(folder / below, "config.json"));
  if (!config.is_object()) return bad_file(fmt::format("{}/config.json is missing", below), "path");
  return kind == "Pooling" ? read_pooling(config, made) : read_dense(config, below, made);
}

Result<> read_prompts(const Json& config, SentenceTransformer& made) {
  if (!config.is_object()) return success();
  ESP_TRY(const Json* prompts, find_object(config, "prompts"));
  if (prompts != nullptr) {
    if (prompts->size() > kMostPrompts)
      return bad_file("config_sentence_transformers.json has too many prompts", "prompts");
    for (const auto& [name, text] : prompts->items())
      if (text.is_string()) made.prompts.emplace_back(name, text.get<std::string>());
  }
  ESP_TRY(const auto usual, find_string(config, "default_prompt_name"));
  made.usual_prompt = usual.value_or("");
  return success();
}

}  // namespace

std::optional<Pooling> pooling_named(std::string_view name) {
  for (const auto& [known, how] : kPoolings)
    if (known == name) return how;
  return std::nullopt;
}

std::string_view name(Pooling how) {
  return std::ranges::find(kPoolings, how, &std::pair<std::string_view, Pooling>::second)->first;
}

Result<std::optional<SentenceTransformer>> read_sentence_transformer(const fs::path& folder) {
  ESP_TRY(const Json modules, file_of(folder, "modules.json"));
  if (modules.is_null()) return std::optional<SentenceTransformer>();
  if (!modules.is_array() || modules.size() > kMostModules)
    return bad_file("modules.json is not a list of modules", "modules.json");
  SentenceTransformer made;
  for (const Json& module : modules) {
    if (!module.is_object()) return bad_file("modules.json: a module is not an object", "modules.json");
    ESP_CHECK(read_module(folder, module, made));
  }
  ESP_TRY(const Json prompts, file_of(folder, "config_sentence_transformers.json"));
  ESP_CHECK(read_prompts(prompts, made));
  ESP_TRY(const Json text, file_of(folder, "sentence_bert_config.json"));
  if (text.is_object()) {
    if (const Json* longest = find_field(text, "max_seq_length"); longest != nullptr && !longest->is_null()) {
      ESP_TRY(const auto length, find_integer(text, "max_seq_length", {1, ConfigLimits::positions}));
      made.longest = static_cast<int>(*length);
    }
    ESP_TRY(const auto lower, find_boolean(text, "do_lower_case"));
    made.lower_case = lower.value_or(false);
  }
  return std::optional(std::move(made));
}

void pool_as_told(const SentenceTransformer& told, ModelSpec& spec) {
  PooledOutput output{told.pooling.value_or(spec.usual_pooling)};
  for (std::size_t i = 0; i < told.dense.size(); ++i)
    spec.names.hf.push_back({kDenseRoles[i], told.dense[i].folder + "/linear"});
  if (!told.dense.empty())
    output.finish = [dense = told.dense](Builder& b, Rows x) {
      for (std::size_t i = 0; i < dense.size(); ++i) {
        x = b.matmul(x, {b.matrix(kDenseRoles[i], dense[i].outputs, x.width, dense[i].bias)});
        if (dense[i].how.kind != ActivationKind::identity) x = b.activate(x, dense[i].how);
      }
      return x;
    };
  spec.pooled = std::move(output);
}

}  // namespace espalier
