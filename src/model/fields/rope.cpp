#include "model/fields/rope.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace espalier {
namespace {

constexpr NumberRange kFactor{.low = 0, .high = 1e6, .above_low = true};
constexpr NumberRange kPositive{.low = 0, .high = 1e9, .above_low = true};
constexpr NumberRange kTheta{.low = 0, .high = 1e15, .above_low = true};
constexpr FieldName kPositions{
    "max_position_embeddings|n_positions|max_sequence_length|model_max_length|n_ctx|max_seq_len|seq_length",
    "context_length"};
constexpr FieldName kOriginal{"original_max_position_embeddings", "rope.scaling.original_context_length"};

// Where the parameters of a table stand: inside rope_parameters, or rope_scaling with the rest at the top.
class Parameters {
 public:
  Parameters(const Fields& f, std::string_view layer_type) : top_(f), own_(f) {
    if (f.is_gguf()) return;
    const bool modern = f.has({"rope_parameters"});
    own_ = f.at({modern ? "rope_parameters" : "rope_scaling"});
    if (layer_type.empty())
      all_types_alike();
    else if (own_.has({layer_type}))
      own_ = own_.at({layer_type});
  }

  double number(FieldName name, double otherwise, NumberRange range) const {
    return own_.has(name) ? own_.number_or(name, otherwise, range) : top_.number_or(name, otherwise, range);
  }
  const Fields& own() const { return own_; }
  const Fields& top() const { return top_; }
  bool says(FieldName name) const { return own_.has(name); }

  std::string kind() const {
    if (top_.is_gguf()) {
      const std::string kind = top_.word_or({"", "rope.scaling.type"}, "none");
      if (kind == "none" && top_.number_or({"", "rope.scale_linear"}, 1, kFactor) != 1) return "linear";
      return kind == "none" ? "default" : kind;
    }
    const std::string kind = own_.word_or({"rope_type|type"}, "");
    if (kind.empty() && own_.has({"factor"}))
      own_.refuse({"rope_type"}, fmt::format("{} has a factor but no rope_type", place()));
    return kind.empty() || kind == "mrope" ? "default" : kind;
  }
  std::string place() const {
    std::string path = own_.path({""});
    if (!path.empty()) path.pop_back();
    return path;
  }
  double factor(double otherwise) const {
    const FieldName name{"factor", "rope.scaling.factor|rope.scale_linear"};
    if (otherwise == 0 && !own_.has(name)) own_.refuse(name, own_.path(name) + " is missing");
    return own_.number_or(name, otherwise == 0 ? 1 : otherwise, kFactor);
  }
  std::int64_t longest() const { return top_.integer_or(kPositions, 2048, 1); }
  std::int64_t original() const { return own_.integer_or(kOriginal, top_.integer_or(kOriginal, longest(), 1), 1); }

 private:
  // Parameters per layer type, where one table serves all layers.
  void all_types_alike() {
    const Json *full = own_.find({"full_attention"}), *sliding = own_.find({"sliding_attention"});
    if (full == nullptr && sliding == nullptr) return;
    if (full != nullptr && sliding != nullptr && *full != *sliding)
      own_.refuse({"full_attention"},
                  "rope_parameters differ between full_attention and sliding_attention, which is not supported here");
    own_ = own_.at({full != nullptr ? "full_attention" : "sliding_attention"});
  }
  Fields top_, own_;
};

std::vector<double> plain_frequencies(double theta, int dims) {
  std::vector<double> out;
  for (int i = 0; i < dims; i += 2) out.push_back(1.0 / std::pow(theta, static_cast<double>(i) / dims));
  return out;
}

// Long wavelengths are stretched by the factor, short ones kept, those between blended.
void scale_llama3(const Parameters& p, std::vector<double>& frequencies) {
  const double factor = p.factor(0), low_factor = p.own().number_or({"low_freq_factor"}, 1, kPositive),
               high_factor = p.own().number_or({"high_freq_factor"}, 4, kPositive);
  if (high_factor <= low_factor)
    p.own().refuse({"high_freq_factor"}, fmt::format("{} is {}, but must be above low_freq_factor, which is {}",
                                                     p.own().path({"high_freq_factor"}), high_factor, low_factor));
  const auto original = static_cast<double>(p.original());
  for (double& f : frequencies) {
    const double wavelength = 2 * std::numbers::pi / f;
    if (wavelength < original / high_factor) continue;
    if (wavelength > original / low_factor) {
      f /= factor;
      continue;
    }
    const double blend = (original / wavelength - low_factor) / (high_factor - low_factor);
    f = (1 - blend) * f / factor + blend * f;
  }
}

// Dimensions that turn often keep their frequency, those that turn rarely are stretched, a ramp lies between.
void scale_yarn(const Parameters& p, const RopeWish& wish, double theta, int dims, RopeSpec& spec,
                std::vector<double>& frequencies) {
  const auto original = static_cast<double>(p.original());
  const double factor =
      p.factor(p.says(kOriginal) || p.top().has(kOriginal) ? static_cast<double>(p.longest()) / original : 0);
  const double fast = p.own().number_or({"beta_fast", "rope.scaling.yarn_beta_fast"}, 32, kPositive),
               slow = p.own().number_or({"beta_slow", "rope.scaling.yarn_beta_slow"}, 1, kPositive);
  if (fast < slow)
    p.own().refuse({"beta_fast", "rope.scaling.yarn_beta_fast"},
                   fmt::format("{} is {}, but must be at least beta_slow, which is {}",
                               p.own().path({"beta_fast", "rope.scaling.yarn_beta_fast"}), fast, slow));
  const auto dimension_of = [&](double turns) {
    return dims * std::log(original / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  double low = dimension_of(fast), high = dimension_of(slow);
  if (p.own().flag_or({"truncate"}, wish.truncated)) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dims - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    frequencies[i] = frequencies[i] / factor * ramp + frequencies[i] * (1 - ramp);
  }
  const double mscale = p.own().number_or({"mscale"}, 0), all_dims = p.own().number_or({"mscale_all_dim"}, 0);
  const double plain = mscale != 0 && all_dims != 0 ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, all_dims)
                                                    : yarn_magnitude(factor);
  spec.magnitude = static_cast<float>(p.own().number_or({"attention_factor"}, plain, kPositive) *
                                      p.own().number_or({"", "rope.scaling.attn_factor"}, 1, kPositive));
}

void scale_longrope(const Parameters& p, double theta, int dims, RopeSpec& spec, std::vector<double>& frequencies) {
  const auto original = p.original();
  const double factor = p.factor(static_cast<double>(p.longest()) / static_cast<double>(original));
  const double plain = factor <= 1 ? 1.0 : std::sqrt(1 + std::log(factor) / std::log(static_cast<double>(original)));
  spec.magnitude =
      static_cast<float>(p.own().number_or({"attention_factor", "rope.scaling.attn_factor"}, plain, kPositive));
  spec.long_after = original;
  const std::vector<double> plain_ones = plain_frequencies(theta, dims);
  const auto stretched = [&](FieldName name) {
    const std::vector<double> factors = p.own().numbers(name);
    if (factors.size() != plain_ones.size())
      p.own().refuse(name, fmt::format("longrope has {} factors, but {} rotated dimensions need {}", factors.size(),
                                       dims, plain_ones.size()));
    std::vector<double> out = plain_ones;
    for (std::size_t i = 0; i < std::min(out.size(), factors.size()); ++i) out[i] /= factors[i] > 0 ? factors[i] : 1.0;
    return out;
  };
  if (p.top().is_gguf()) return;  // such files have the factors as tensors
  frequencies = stretched({"short_factor"});
  for (const double f : stretched({"long_factor"})) spec.long_inverse_frequency.push_back(static_cast<float>(f));
}

// The base of dynamic NTK grows with the text; with alpha (Hunyuan) it grows once and for all.
void scale_dynamic(const Parameters& p, double theta, int dims, RopeSpec& spec, std::vector<double>& frequencies) {
  const double alpha = p.own().number_or({"alpha"}, 0, {.low = 0, .high = 1e9});
  if (alpha > 0 && dims > 2) {
    frequencies = plain_frequencies(theta * std::pow(alpha, static_cast<double>(dims) / (dims - 2)), dims);
    return;
  }
  spec.dynamic_factor = p.factor(0);
  spec.dynamic_theta = theta;
  spec.long_after = p.longest();
}

// Part of the head turns, as slowly as if all of it did.
std::vector<double> proportional_frequencies(double theta, int head_dim, double part, double factor) {
  std::vector<double> out;
  const int turned = static_cast<int>(part * head_dim / 2);
  for (int i = 0; i < head_dim / 2; ++i)
    out.push_back(i < turned ? 1.0 / std::pow(theta, 2.0 * i / head_dim) / factor : 0.0);
  return out;
}

// Which axis of a picture each frequency belongs to: sections one behind the other, time, height, width and again time; or
// in turns, where height and width have every third as far as their sections reach.
std::vector<std::uint8_t> axes_of(const Parameters& p, std::size_t frequencies) {
  const FieldName name{"mrope_section", "rope.dimension_sections"};
  const std::vector<std::int64_t> sections = p.own().integers(name, 16);
  const bool none = std::ranges::all_of(sections, [](std::int64_t section) { return section == 0; });
  std::vector<std::uint8_t> axes(none ? 0 : frequencies, 0);
  if (none) return axes;
  std::int64_t sum = 0;
  for (const std::int64_t section : sections) sum += std::clamp<std::int64_t>(section, 0, ConfigLimits::head_dim);
  // GGUF files of text models may have those of a larger model.
  if (p.own().is_gguf() && sum != static_cast<std::int64_t>(frequencies)) return {};
  if (sections.size() < 3 || sum != static_cast<std::int64_t>(frequencies) || std::ranges::min(sections) < 0) {
    p.own().refuse(name,
                   fmt::format("{} must have at least three sections that add up to {}, half the rotated dimensions",
                               p.own().path(name), frequencies));
    return {};
  }
  // GGUF files do not say so; those of Qwen3 and its successors are.
  const bool in_turns =
      p.own().is_gguf() ? p.own().path(name).starts_with("qwen3") : p.own().flag_or({"mrope_interleaved"}, false);
  if (in_turns) {
    for (std::size_t axis : {1, 2})
      for (std::size_t i = axis; i < std::min(frequencies, static_cast<std::size_t>(3 * sections[axis])); i += 3)
        axes[i] = static_cast<std::uint8_t>(axis);
    return axes;
  }
  std::size_t at = 0;
  for (std::size_t i = 0; i < sections.size(); ++i)
    for (std::int64_t n = 0; n < sections[i]; ++n) axes[at++] = static_cast<std::uint8_t>(i % 3);
  return axes;
}

int dims_of(const Fields& f, const Parameters& p, const RopeWish& wish) {
  if (wish.dims > 0) return wish.dims;
  if (f.is_gguf()) return f.count_or({"", "rope.dimension_count"}, wish.head_dim, ConfigLimits::head_dim);
  if (wish.part == 0) return wish.head_dim;
  if (f.has({"rotary_dim"})) return f.count_or({"rotary_dim"}, wish.head_dim, ConfigLimits::head_dim);
  const double part =
      p.number({"partial_rotary_factor|rotary_pct"}, wish.part, {.low = 0, .high = 1, .above_low = true});
  return part < 1 ? static_cast<int>(part * wish.head_dim) : wish.head_dim;
}

}  // namespace

double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

RopeSpec rope_of(const Fields& f, const RopeWish& wish) {
  const Parameters p(f, wish.layer_type);
  RopeSpec spec;
  spec.factors_in_file = true;
  double theta = wish.theta;
  if (!wish.own_theta) theta = p.number({"rope_theta|rotary_emb_base", "rope.freq_base"}, theta, kTheta);
  std::string kind = wish.scaled ? p.kind() : "default";
  if (kind == "default" && !wish.kind.empty() && !p.says({"rope_type|type"})) kind = wish.kind;
  const int dims = kind == "proportional" ? wish.head_dim : dims_of(f, p, wish);
  if (dims < 2 || dims % 2 != 0 || dims > wish.head_dim) {
    const FieldName field{"partial_rotary_factor", "rope.dimension_count"};
    f.refuse(field,
             fmt::format("{} gives {} rotated dimensions, but an even number in 2..{} (the head's size) is needed",
                         dims == wish.head_dim ? "head_dim (or hidden_size over num_attention_heads)" : f.path(field),
                         dims, std::max(wish.head_dim, 2)));
    return spec;
  }
  std::vector<double> frequencies = plain_frequencies(theta, dims);
  if (kind == "proportional") {
    const double part =
        p.number({"partial_rotary_factor"}, wish.part > 0 ? wish.part : 1, {.low = 0, .high = 1, .above_low = true});
    frequencies = proportional_frequencies(theta, wish.head_dim, part, p.factor(1));
  } else if (kind == "linear") {
    const double factor = p.factor(0);
    for (double& frequency : frequencies) frequency /= factor;
  } else if (kind == "llama3") {
    scale_llama3(p, frequencies);
  } else if (kind == "yarn" || kind == "deepseek_yarn") {
    scale_yarn(p, wish, theta, dims, spec, frequencies);
  } else if (kind == "longrope" || kind == "su") {
    scale_longrope(p, theta, dims, spec, frequencies);
  } else if (kind == "dynamic" || kind == "xdrope") {
    scale_dynamic(p, theta, dims, spec, frequencies);
  } else if (kind != "default") {
    p.own().refuse(
        {"rope_type", "rope.scaling.type"},
        fmt::format("{} is {}, but only default, linear, dynamic, yarn, llama3, longrope and proportional are "
                    "supported here",
                    p.own().path({"rope_type", "rope.scaling.type"}), in_quotes(kind)));
  }
  for (const double frequency : frequencies) spec.inverse_frequency.push_back(static_cast<float>(frequency));
  spec.axes = axes_of(p, spec.inverse_frequency.size());
  return spec;
}

// Where a checkpoint does not say for how many positions it was trained, max_position_embeddings is that number and the
// factor extends it; else max_position_embeddings already is the extended one.
std::int64_t context_length_of(const Fields& f, std::int64_t otherwise) {
  const std::int64_t positions = f.integer_or(kPositions, otherwise, 1);
  const Parameters p(f, f.at({"rope_parameters"}).has({"full_attention"}) ? "full_attention" : "");
  const std::string kind = p.kind();
  if (f.is_gguf() || p.says(kOriginal) || (kind != "linear" && kind != "dynamic" && kind != "yarn")) return positions;
  const double factor = p.own().number_or({"factor"}, 1, kFactor);
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(positions) * std::max(1.0, factor), static_cast<double>(ConfigLimits::positions)));
}

}  // namespace espalier
