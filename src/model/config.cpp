#include "model/config.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"  // in_quotes

namespace espalier {
namespace {

Error bad(const ConfigNames& names, const std::string& field, const std::string& sentence) {
  return bad_file(fmt::format("{}: {}", names.file, sentence), field);
}

Result<> check_heads(ModelConfig& c, const ConfigNames& names) {
  if (c.kv_heads > c.heads || c.heads % c.kv_heads != 0) {
    return bad(
        names, names.kv_heads,
        fmt::format("{} is {}, but must divide {}, which is {}", names.kv_heads, c.kv_heads, names.heads, c.heads));
  }
  if (c.head_dim == 0) {
    if (c.hidden % c.heads != 0) {
      return bad(names, names.heads,
                 fmt::format("{} is {}, but must divide {}, which is {}, as long as {} is not given", names.heads,
                             c.heads, names.hidden, c.hidden, names.head_dim));
    }
    c.head_dim = c.hidden / c.heads;
  }
  if (c.head_dim > ConfigLimits::head_dim) {
    return bad(names, names.head_dim,
               fmt::format("heads of {} dimensions are more than the limit of {} ({} {} over {} {})", c.head_dim,
                           ConfigLimits::head_dim, names.hidden, c.hidden, names.heads, c.heads));
  }
  if (std::int64_t{c.heads} * c.head_dim > ConfigLimits::attention_width) {
    return bad(names, names.heads,
               fmt::format("{} {} times {} {} is more than the limit of {}", names.heads, c.heads, names.head_dim,
                           c.head_dim, ConfigLimits::attention_width));
  }
  return success();
}

Result<> check_rope(const ModelConfig& c, const ConfigNames& names) {
  if (c.rope_dims < 2 || c.rope_dims % 2 != 0 || c.rope_dims > c.head_dim) {
    const bool whole = c.rope_dims == c.head_dim;
    const std::string source =
        whole ? fmt::format("{} (or {} over {})", names.head_dim, names.hidden, names.heads) : names.rope_dims;
    return bad(names, whole ? names.head_dim : names.rope_dims,
               fmt::format("{} gives {} rotated dimensions, but an even number in 2..{} (the head's size) is needed",
                           source, c.rope_dims, std::max(c.head_dim, 2)));
  }
  const auto* longrope = std::get_if<LongRopeScaling>(&c.rope_scaling);
  if (longrope == nullptr) return success();
  const auto wanted = static_cast<std::size_t>(c.rope_dims / 2);
  for (const auto& factors : {longrope->short_factors, longrope->long_factors}) {
    if (factors.size() != wanted) {
      return bad(names, "rope_scaling",
                 fmt::format("longrope has {} factors, but {} rotated dimensions need {}", factors.size(), c.rope_dims,
                             wanted));
    }
  }
  return success();
}

Result<> check_tokens(const ModelConfig& c, const ConfigNames& names) {
  const auto check = [&](std::string_view what, TokenId id) -> Result<> {
    if (id < c.vocabulary) return success();
    return bad(names, std::string(what),
               fmt::format("{} is {}, but the vocabulary has {} tokens", what, id, c.vocabulary));
  };
  if (c.bos) ESP_CHECK(check("bos_token_id", *c.bos));
  if (c.pad) ESP_CHECK(check("pad_token_id", *c.pad));
  for (const TokenId id : c.eos) ESP_CHECK(check("eos_token_id", id));
  return success();
}

}  // namespace

std::string_view name(Architecture architecture) {
  return kArchitectures[static_cast<std::size_t>(architecture)].name;
}

Result<> complete(ModelConfig& config, const ConfigNames& names) {
  ESP_CHECK(check_heads(config, names));
  if (config.rope_dims == 0) config.rope_dims = config.head_dim;
  ESP_CHECK(check_rope(config, names));
  return check_tokens(config, names);
}

Error unsupported_architecture(std::string_view file, std::string_view field, std::string_view found) {
  std::string list;
  for (const auto& row : kArchitectures) {
    list += fmt::format("{}{} ({}ForCausalLM)", list.empty() ? "" : ", ", row.name, row.hf_class);
  }
  return bad_file(
      fmt::format("{}: {} is {}, which is not supported; supported are {}", file, field, in_quotes(found), list),
      std::string(field));
}

}  // namespace espalier
