#include "tensor/quantize/groups.h"

#include <algorithm>
#include <cmath>

namespace espalier {
namespace {

float whole(float t) {
  constexpr float kShift = 12582912.0f;  // 1.5 * 2^23: the sum has no places behind the point
  return (t + kShift) - kShift;
}

class Fit {
 public:
  Fit(std::span<const float> values, std::span<const float> weights, const GroupForm& form)
      : x_(values),
        w_(weights),
        form_(form),
        low_(static_cast<float>(form.low())),
        high_(static_cast<float>(form.high())) {}

  GroupScale run() {
    const auto [least, most] = std::minmax_element(x_.begin(), x_.end());
    if (x_.empty() || (*least == 0 && *most == 0)) return {1, 0};  // of a run of zeros
    if (form_.symmetric)
      search_symmetric(std::max(-*least, *most));
    else
      search_range(std::min(*least, 0.0f), std::max(*most, 0.0f));
    return best_;
  }

 private:
  float weight(std::size_t i) const { return w_.empty() ? 1.0f : w_[i]; }

  // What a scale costs; gives the scale that least squares would have for its codes.
  float look_at(float wanted, int zero) {
    const float scale = rounded_to(form_.scale_type, wanted);
    if (!(scale > 0) || !std::isfinite(scale)) return 0;
    const float inverse = 1 / scale, shift = static_cast<float>(zero);
    constexpr std::size_t kLanes = 16;
    float error[kLanes] = {}, with[kLanes] = {}, of[kLanes] = {};
    const auto one = [&](std::size_t i, std::size_t lane) {
      const float q = std::min(std::max(whole(x_[i] * inverse) + shift, low_), high_) - shift;
      const float e = x_[i] - scale * q, w = weight(i);
      error[lane] += w * e * e;
      with[lane] += w * q * x_[i];
      of[lane] += w * q * q;
    };
    for (std::size_t i = 0; i < x_.size(); ++i) one(i, i % kLanes);
    double sum = 0, sum_with = 0, sum_of = 0;
    for (std::size_t lane = 0; lane < kLanes; ++lane)
      sum += static_cast<double>(error[lane]), sum_with += static_cast<double>(with[lane]),
          sum_of += static_cast<double>(of[lane]);
    if (least_ < 0 || sum < least_) least_ = sum, best_ = {scale, zero};
    return sum_of > 0 ? static_cast<float>(sum_with / sum_of) : 0;
  }

  // A scale, and the ones that follow from its codes.
  void follow(float scale, int zero) {
    for (int turn = 0; turn < 2 && scale > 0; ++turn) scale = look_at(scale, zero);
  }

  int steps() const { return form_.bits <= 4 ? 24 : 10; }
  float least_part() const { return form_.bits <= 4 ? 0.62f : 0.93f; }

  void search_symmetric(float largest) {
    const int count = steps();
    for (int k = 0; k <= count; ++k) {
      const float part = least_part() + (1.06f - least_part()) * static_cast<float>(k) / static_cast<float>(count);
      follow(largest * part / high_, 0);
    }
  }

  void search_range(float least, float most) {
    const int count = steps();
    for (int k = 0; k <= count; ++k) {
      const float part = least_part() + (1.02f - least_part()) * static_cast<float>(k) / static_cast<float>(count);
      const float scale = (most - least) * part / (high_ - low_);
      const float centre = 0.5f * (most + least) / scale;
      const int zero = static_cast<int>(whole(0.5f * (high_ + low_) - centre));
      for (int z = zero - 1; z <= zero + 1; ++z)
        if (z >= form_.low() && z <= form_.high()) follow(scale, z);
    }
  }

  std::span<const float> x_, w_;
  const GroupForm& form_;
  float low_, high_;
  double least_ = -1;
  GroupScale best_;
};

}  // namespace

float rounded_to(DType type, float value) {
  if (type == DType::bf16) return to_float(to_bf16(value));
  if (type == DType::f16) return to_float(to_f16(value));
  return value;
}

GroupScale fit_group(std::span<const float> values, std::span<const float> weights, const GroupForm& form) {
  GroupScale best = Fit(values, weights, form).run();
  if (!(best.scale > 0)) best.scale = 1;
  return best;
}

int code_of(float value, GroupScale scale, const GroupForm& form) {
  const float t = whole(std::clamp(value / scale.scale, -1e6f, 1e6f)) + static_cast<float>(scale.zero);
  return static_cast<int>(std::clamp(t, static_cast<float>(form.low()), static_cast<float>(form.high())));
}

}  // namespace espalier
