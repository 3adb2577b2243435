#include "model/hf_rope.h"

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace espalier {
namespace {

constexpr NumberRange kFactor{.low = 0, .high = 1e6, .above_low = true};
constexpr NumberRange kPositive{.low = 0, .high = 1e9, .above_low = true};
constexpr NumberRange kNotNegative{.low = 0, .high = 1e9};
constexpr IntegerRange kPositions{1, ConfigLimits::positions};

struct RopeFields {        // where the parameters stand
  const Json* object;      // nullptr: nowhere, plain rotation
  std::string_view place;  // "rope_parameters" or "rope_scaling"
};

// Transformers 5 may keep parameters per layer type; that is honoured where all types agree.
Result<const Json*> one_for_all_layers(const Json* parameters) {
  ESP_TRY(const Json* full, find_object(*parameters, {"full_attention", "rope_parameters"}));
  ESP_TRY(const Json* sliding, find_object(*parameters, {"sliding_attention", "rope_parameters"}));
  if (full == nullptr && sliding == nullptr) return parameters;
  if (full != nullptr && sliding != nullptr && *full != *sliding) {
    return bad_request(
        "rope_parameters differ between full_attention and sliding_attention, which is not supported here",
        "rope_parameters");
  }
  return full != nullptr ? full : sliding;
}

Result<RopeFields> rope_fields(const Json& root) {
  ESP_TRY(const Json* parameters, find_object(root, "rope_parameters"));
  if (parameters != nullptr) {
    ESP_TRY(parameters, one_for_all_layers(parameters));
    return RopeFields{parameters, "rope_parameters"};
  }
  ESP_TRY(const Json* scaling, find_object(root, "rope_scaling"));
  return RopeFields{scaling, "rope_scaling"};
}

class ScalingReader {
 public:
  ScalingReader(const Json& root, const RopeFields& fields, const ModelConfig& config)
      : root_(root), at_(*fields.object), place_(fields.place), config_(config) {}

  Result<RopeScaling> read() const {
    ESP_TRY(auto kind, find_string(at_, field("rope_type")));
    if (!kind) {
      ESP_TRY(kind, find_string(at_, field("type")));
    }
    if (!kind && find_field(at_, "factor") != nullptr) {
      return bad_request(fmt::format("{} has a factor but no rope_type", place_), field("rope_type").path());
    }
    if (!kind || *kind == "default") return RopeScaling();
    if (*kind == "linear") return linear();
    if (*kind == "dynamic") return dynamic();
    if (*kind == "yarn") return yarn();
    if (*kind == "llama3") return llama3();
    if (*kind == "longrope" || *kind == "su") return longrope();
    return bad_request(
        fmt::format("{}.rope_type is {}, but only default, linear, dynamic, yarn, llama3 and longrope are "
                    "supported here",
                    place_, in_quotes(*kind)),
        field("rope_type").path());
  }

  bool says_original() const { return find_field(at_, "original_max_position_embeddings") != nullptr; }

 private:
  JsonField field(std::string_view name) const { return {name, place_}; }

  Result<std::int64_t> original_positions() const {
    ESP_TRY(auto found, find_integer(at_, field("original_max_position_embeddings"), kPositions));
    if (!found) {  // Phi-3 keeps it at the top
      ESP_TRY(found, find_integer(root_, "original_max_position_embeddings", kPositions));
    }
    return found.value_or(config_.max_positions);
  }

  Result<RopeScaling> linear() const {
    ESP_TRY(const double factor, get_number(at_, field("factor"), kFactor));
    return RopeScaling(LinearScaling{factor});
  }

  Result<RopeScaling> dynamic() const {
    DynamicScaling made;
    ESP_TRY(made.factor, get_number(at_, field("factor"), kFactor));
    ESP_TRY(made.original_positions, original_positions());
    return RopeScaling(made);
  }

  Result<RopeScaling> yarn() const {
    YarnScaling made;
    ESP_TRY(made.original_positions, original_positions());
    ESP_TRY(const auto factor, find_number(at_, field("factor"), kFactor));
    if (!factor && !says_original()) return bad_request(field("factor").path() + " is missing", field("factor").path());
    made.factor = factor.value_or(ratio(made.original_positions));
    ESP_TRY(const auto fast, find_number(at_, field("beta_fast"), kPositive));
    ESP_TRY(const auto slow, find_number(at_, field("beta_slow"), kPositive));
    made.beta_fast = fast.value_or(made.beta_fast);
    made.beta_slow = slow.value_or(made.beta_slow);
    if (made.beta_fast < made.beta_slow) {
      return bad_request(fmt::format("{}.beta_fast is {}, but must be at least beta_slow, which is {}", place_,
                                     made.beta_fast, made.beta_slow),
                         field("beta_fast").path());
    }
    ESP_TRY(made.attention_factor, find_number(at_, field("attention_factor"), kPositive));
    ESP_TRY(made.mscale, find_number(at_, field("mscale"), kNotNegative));
    ESP_TRY(made.mscale_all_dim, find_number(at_, field("mscale_all_dim"), kNotNegative));
    ESP_TRY(const auto truncate, find_boolean(at_, field("truncate")));
    made.truncate = truncate.value_or(true);
    return RopeScaling(made);
  }

  Result<RopeScaling> llama3() const {
    Llama3Scaling made;
    ESP_TRY(made.factor, get_number(at_, field("factor"), kFactor));
    ESP_TRY(made.low_freq_factor, get_number(at_, field("low_freq_factor"), kPositive));
    ESP_TRY(made.high_freq_factor, get_number(at_, field("high_freq_factor"), kPositive));
    ESP_TRY(made.original_positions, get_integer(at_, field("original_max_position_embeddings"), kPositions));
    if (made.high_freq_factor <= made.low_freq_factor) {
      return bad_request(fmt::format("{}.high_freq_factor is {}, but must be above low_freq_factor, which is {}",
                                     place_, made.high_freq_factor, made.low_freq_factor),
                         field("high_freq_factor").path());
    }
    return RopeScaling(made);
  }

  Result<RopeScaling> longrope() const {
    LongRopeScaling made;
    ESP_TRY(made.short_factors, factors("short_factor"));
    ESP_TRY(made.long_factors, factors("long_factor"));
    ESP_TRY(made.original_positions, original_positions());
    ESP_TRY(const auto factor, find_number(at_, field("factor"), kFactor));
    made.factor = factor.value_or(ratio(made.original_positions));
    ESP_TRY(made.attention_factor, find_number(at_, field("attention_factor"), kPositive));
    return RopeScaling(made);
  }

  Result<std::vector<float>> factors(std::string_view name) const {
    ESP_TRY(const Json* list, get_array(at_, field(name)));
    std::vector<float> made;
    if (list->size() > ConfigLimits::head_dim) {
      return bad_request(
          fmt::format("{} has {} factors, more than {}", field(name).path(), list->size(), ConfigLimits::head_dim),
          field(name).path());
    }
    for (const auto& value : *list) {
      ESP_TRY(const double factor, as_number(value, fmt::format("{}[{}]", field(name).path(), made.size()), kFactor));
      made.push_back(static_cast<float>(factor));
    }
    return made;
  }

  double ratio(std::int64_t original) const {
    return static_cast<double>(config_.max_positions) / static_cast<double>(original);
  }

  const Json& root_;
  const Json& at_;
  std::string_view place_;
  const ModelConfig& config_;
};

// Where a checkpoint does not say for how many positions it was trained, max_position_embeddings is that number and the
// factor extends it; else max_position_embeddings already is the extended one.
std::int64_t extended(std::int64_t positions, const RopeScaling& scaling, bool says_original) {
  double factor = 1;
  if (const auto* linear = std::get_if<LinearScaling>(&scaling)) factor = linear->factor;
  if (const auto* dynamic = std::get_if<DynamicScaling>(&scaling)) factor = dynamic->factor;
  if (const auto* yarn = std::get_if<YarnScaling>(&scaling)) factor = yarn->factor;
  if (says_original || factor <= 1) return positions;
  return static_cast<std::int64_t>(std::min(static_cast<double>(positions) * factor, double{ConfigLimits::positions}));
}

// A number that newer files keep inside rope_parameters and older ones at the top.
Result<std::optional<double>> inside_or_top(const Json& root, const RopeFields& fields, const char* name,
                                            NumberRange range) {
  if (fields.object != nullptr) {
    ESP_TRY(const auto inside, find_number(*fields.object, {name, fields.place}, range));
    if (inside) return inside;
  }
  return find_number(root, name, range);
}

}  // namespace

Result<> read_hf_rope(const Json& root, ModelConfig& config) {
  ESP_TRY(const RopeFields fields, rope_fields(root));
  ESP_TRY(const auto theta, inside_or_top(root, fields, "rope_theta", {.low = 0, .high = 1e15, .above_low = true}));
  ESP_TRY(const auto part,
          inside_or_top(root, fields, "partial_rotary_factor", {.low = 0, .high = 1, .above_low = true}));
  config.rope_theta = theta.value_or(10000);
  if (part && *part < 1) {
    const int head_dim = config.head_dim > 0 ? config.head_dim : config.hidden / config.heads;
    config.rope_dims = static_cast<int>(*part * head_dim);
    if (config.rope_dims == 0) {
      return bad_request(
          fmt::format("partial_rotary_factor is {}, which leaves nothing of heads of {} dimensions", *part, head_dim),
          "partial_rotary_factor");
    }
  }
  config.context_length = config.max_positions;
  if (fields.object == nullptr) return success();
  const ScalingReader scaling(root, fields, config);
  ESP_TRY(config.rope_scaling, scaling.read());
  config.context_length = extended(config.max_positions, config.rope_scaling, scaling.says_original());
  return success();
}

}  // namespace espalier
