#include "store/hub/hub_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/json/json.h"
#include "base/json/json_fields.h"
#include "net/http/http_types.h"  // same_ignoring_case
#include "tensor/file/gguf_names.h"

namespace espalier::store {
namespace {

constexpr std::string_view kIndex = "model.safetensors.index.json";
constexpr std::string_view kDefaultQuant = "Q4_K_M";  // what other tools take when nothing is said
constexpr std::size_t kMostShards = 10'000;

// Configuration and text: small files in the repository's top folder. A trailing * stands for anything.
constexpr std::string_view kSmallFiles[] = {
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "sentencepiece*",
    "merges.txt",
    "chat_template*",
    "preprocessor_config.json",
    "processor_config.json",
    "modules.json",
    "config_sentence_transformers.json",
    "sentence_bert_config.json",
};

// What sentence-transformers keeps beside the model, in folders of its own: 1_Pooling, 2_Dense.
bool is_of_module(std::string_view path) {
  const std::size_t digits = path.find_first_not_of("0123456789");
  if (digits == 0 || digits == path.npos) return false;
  const std::string_view rest = path.substr(digits);
  for (const std::string_view module : {"_Pooling/", "_Dense/", "_Normalize/"})
    if (rest.starts_with(module)) {
      const std::string_view file = rest.substr(module.size());
      return file == "config.json" || file == "model.safetensors";
    }
  return false;
}

bool matches(std::string_view pattern, std::string_view name) {
  if (!pattern.ends_with('*')) return pattern == name;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

bool is_small_file(std::string_view name) {
  if (name.find('/') != name.npos) return false;
  const bool text =
      name.ends_with(".json") || name.ends_with(".txt") || name.ends_with(".jinja") || name.ends_with(".model");
  return text && std::any_of(std::begin(kSmallFiles), std::end(kSmallFiles), [&](auto p) { return matches(p, name); });
}

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

// Whether `word` stands in `text` with no letter, digit or underscore right beside it, in any case.
bool holds_word(std::string_view text, std::string_view word) {
  const auto part_of_word = [](char c) {
    return (lower(c) >= 'a' && lower(c) <= 'z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (word.empty() || word.size() > text.size()) return false;
  for (std::size_t at = 0; at + word.size() <= text.size(); ++at) {
    const bool begins = at == 0 || !part_of_word(text[at - 1]);
    const bool ends = at + word.size() == text.size() || !part_of_word(text[at + word.size()]);
    if (begins && ends && net::same_ignoring_case(text.substr(at, word.size()), word)) return true;
  }
  return false;
}

struct Part {
  std::string whole;  // the name without "-00001-of-00003"
  int number = 1, of = 1;
};

// "x-00002-of-00003.gguf" -> {"x.gguf", 2, 3}; any other name is its own only part.
Part part_of(const std::string& path) {
  constexpr std::string_view kTail = "-00001-of-00003.gguf";
  if (path.size() < kTail.size()) return {path};
  const std::string_view tail = std::string_view(path).substr(path.size() - kTail.size());
  const auto digits = [](std::string_view text) {
    int value = 0;
    for (char c : text) value = c >= '0' && c <= '9' && value >= 0 ? value * 10 + (c - '0') : -1;
    return value;
  };
  const int number = digits(tail.substr(1, 5));
  const int of = digits(tail.substr(10, 5));
  if (tail[0] != '-' || tail.substr(6, 4) != "-of-" || number < 1 || of < number) return {path};
  return {path.substr(0, path.size() - kTail.size()) + ".gguf", number, of};
}

struct Gguf {
  std::map<int, std::string> parts;  // by number, from 1
  int of = 1;
};

// The models among the GGUF files of a repository, split ones put together. Image projectors are no models.
std::map<std::string, Gguf> gguf_models(std::span<const HubFile> files) {
  std::map<std::string, Gguf> models;
  for (const HubFile& file : files) {
    if (!file.path.ends_with(".gguf") || !is_safe_path(file.path)) continue;
    if (is_mmproj_name(file.path)) continue;
    const Part part = part_of(file.path);
    Gguf& model = models[part.whole];
    model.of = std::max(model.of, part.of);
    model.parts[part.number] = file.path;
  }
  return models;
}

Error not_there(std::string message) {
  return {Error::Kind::not_found, std::move(message), "model", {}};
}

std::string listed(const std::vector<std::string>& names) {
  const std::size_t shown = std::min<std::size_t>(names.size(), 12);
  return fmt::format("{}{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     shown < names.size() ? ", ..." : "");
}

Result<HubChoice> whole_gguf(const std::string& name, const Gguf& model) {
  if (model.parts.size() != static_cast<std::size_t>(model.of))
    return not_there(fmt::format("of the {} parts of {} only {} are there", model.of, name, model.parts.size()));
  HubChoice choice;
  choice.name = name;
  choice.main = model.parts.begin()->second;
  for (const auto& [number, path] : model.parts) choice.files.push_back(path);
  return choice;
}

Error nothing_to_serve(std::span<const HubFile> files) {
  const bool pickled = std::any_of(files.begin(), files.end(), [](const HubFile& file) {
    return file.path.ends_with(".bin") || file.path.ends_with(".pt") || file.path.ends_with(".pth");
  });
  return {Error::Kind::unsupported,
          pickled ? "the repository has its weights as pickled PyTorch files only; convert them to safetensors"
                  : "the repository has neither *.safetensors nor *.gguf files",
          "model",
          {}};
}

bool has_file(std::span<const HubFile> files, std::string_view path) {
  return std::any_of(files.begin(), files.end(), [&](const HubFile& file) { return file.path == path; });
}

// Unsharded weights in the top folder. Some repositories hold a second copy in its author's own form (consolidated.*).
std::vector<std::string> plain_weights(std::span<const HubFile> files) {
  if (has_file(files, "model.safetensors")) return {"model.safetensors"};
  std::vector<std::string> weights;
  for (const HubFile& file : files)
    if (file.path.ends_with(".safetensors") && file.path.find('/') == file.path.npos && is_safe_path(file.path) &&
        !file.path.starts_with("consolidated") && !file.path.starts_with("adapter_"))
      weights.push_back(file.path);
  return weights;
}

}  // namespace

bool is_safe_path(std::string_view path) {
  if (path.empty() || path.size() > 1024 || path.front() == '/' || path.back() == '/') return false;
  for (std::size_t at = 0; at <= path.size();) {
    const std::size_t end = std::min(path.find('/', at), path.size());
    const std::string_view segment = path.substr(at, end - at);
    if (segment.empty() || segment.size() > 250 || segment == "." || segment == "..") return false;
    at = end + 1;
  }
  return std::none_of(path.begin(), path.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f || c == '\\'; });
}

std::vector<HubChoice> gguf_choices(std::span<const HubFile> files) {
  std::vector<HubChoice> choices;
  for (const auto& [name, model] : gguf_models(files))
    if (auto choice = whole_gguf(name, model); choice.ok()) choices.push_back(std::move(choice).value());
  return choices;
}

Result<HubChoice> choose_gguf(std::span<const HubFile> files, std::string_view quant) {
  const auto models = gguf_models(files);
  if (models.empty())
    return not_there("the repository has no GGUF files, so it has no quantisation to choose; leave :quant away");
  if (quant.empty() && models.size() == 1) return whole_gguf(models.begin()->first, models.begin()->second);
  const std::string_view wanted = quant.empty() ? kDefaultQuant : quant;
  std::vector<std::string> names, matching;
  for (const auto& [name, model] : models) {
    names.push_back(name);
    if (holds_word(std::string_view(name).substr(0, name.size() - 5), wanted)) matching.push_back(name);
  }
  if (matching.size() == 1) return whole_gguf(matching[0], models.at(matching[0]));
  if (!matching.empty())
    return not_there(
        fmt::format("'{}' fits several files ({}); name more of the one you mean", wanted, listed(matching)));
  if (quant.empty())
    return not_there(
        fmt::format("the repository has several GGUF files ({}); choose one with org/name:quant", listed(names)));
  return not_there(fmt::format("no GGUF file is a '{}'; there are {}", quant, listed(names)));
}

std::optional<std::string> tower_of(std::span<const HubFile> files, const std::string& main) {
  const std::string own = main.substr(0, main.rfind('/') + 1);
  for (const std::string& folder : {own, std::string()}) {
    std::vector<std::string> names;
    for (const HubFile& file : files)
      if (is_safe_path(file.path) && file.path.substr(0, file.path.rfind('/') + 1) == folder)
        names.push_back(file.path.substr(folder.size()));
    if (const auto tower = mmproj_of_model(main.substr(own.size()), names)) return folder + *tower;
  }
  return std::nullopt;
}

Result<std::vector<std::string>> shards_of_index(std::string_view content) {
  auto parsed = parse_json(content);
  if (!parsed.ok()) return in_file(std::move(parsed).error(), kIndex);
  auto map = get_object(*parsed, "weight_map");
  if (!map.ok()) return in_file(std::move(map).error(), kIndex);
  std::set<std::string> shards;
  for (const auto& [tensor, file] : (*map)->items()) {
    if (!file.is_string() || file.get_ref<const std::string&>().find('/') != std::string::npos ||
        !is_safe_path(file.get_ref<const std::string&>()))
      return bad_file(
          fmt::format("{}: weight_map gives tensor {} the file {}, which is no plain file name", kIndex,
                      in_quotes(tensor), in_quotes(file.dump(-1, ' ', false, Json::error_handler_t::replace))),
          "weight_map");
    shards.insert(file.get<std::string>());
    if (shards.size() > kMostShards)
      return bad_file(fmt::format("{} names more than {} files", kIndex, kMostShards), "weight_map");
  }
  if (shards.empty()) return bad_file(fmt::format("{}: weight_map is empty", kIndex), "weight_map");
  return std::vector<std::string>(shards.begin(), shards.end());
}

Result<HubChoice> choose_files(std::span<const HubFile> files, std::string_view quant,
                               std::optional<std::string_view> index_content) {
  if (!quant.empty()) return choose_gguf(files, quant);
  const bool sharded = has_file(files, kIndex);
  std::vector<std::string> weights;
  if (!sharded) {
    weights = plain_weights(files);
    if (weights.empty()) {
      auto gguf = choose_gguf(files, "");
      return gguf.ok() || !gguf_models(files).empty() ? gguf : nothing_to_serve(files);
    }
  } else if (index_content) {
    ESP_TRY(weights, shards_of_index(*index_content));
    for (const std::string& shard : weights)
      if (!has_file(files, shard))
        return bad_file(fmt::format("{} names {}, which is not there", kIndex, in_quotes(shard)), "weight_map");
  }
  if (!has_file(files, "config.json"))
    return Error{Error::Kind::unsupported,
                 "the repository has safetensors but no config.json, so it is no whole model",
                 "model",
                 {}};
  HubChoice choice;
  for (const HubFile& file : files)
    if (is_small_file(file.path) || is_of_module(file.path)) choice.files.push_back(file.path);
  if (sharded) {
    choice.index = kIndex;
    choice.files.emplace_back(kIndex);
  }
  choice.files.insert(choice.files.end(), weights.begin(), weights.end());
  return choice;
}

}  // namespace espalier::store
