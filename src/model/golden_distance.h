// golden_distance.h: for tests: how far logits lie from a reference's in the default mode, and how far they may.
//
// Units: parts of the logits' spread. Threads: any. Fails: never.
#pragma once

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "model/decoder.h"
#include "testing/data.h"

namespace espalier::testing {

// Of 95 % of positions, and over all.
class GoldenDistance {
 public:
  void add(std::span<const float> got, std::span<const float> want, std::size_t vocabulary, double spread) {
    for (std::size_t row = 0; row < got.size(); row += vocabulary) {
      double most = 0;
      for (std::size_t i = row; i < row + vocabulary; ++i) {
        const double difference = (static_cast<double>(got[i]) - static_cast<double>(want[i])) / spread;
        most = std::max(most, std::abs(difference));
        squares_ += difference * difference;
      }
      worst_.push_back(most);
    }
    values_ += got.size();
  }
  double p95() const {
    auto worst = worst_;
    std::ranges::sort(worst);
    return worst[worst.size() * 95 / 100];
  }
  double root_mean_square() const { return std::sqrt(squares_ / static_cast<double>(values_)); }

 private:
  std::vector<double> worst_;  // of each position
  double squares_ = 0;
  std::size_t values_ = 0;
};

// A changed choice of experts changes all that follows: mixtures are judged by the mean alone. Where the reference's own
// run in bf16 lies near a bound, the golden says how far (or goldens/bf16_reference.json), and 1.3 times that is the bound.
struct GoldenBounds {
  double p95 = 0.25, root_mean_square = 0.05;
  bool mean_alone = false;

  static GoldenBounds of(const std::string& name, const nlohmann::json& golden, const Program& program) {
    GoldenBounds out;
    out.mean_alone =
        std::ranges::any_of(program.ops, [](const Op& op) { return std::holds_alternative<ExpertsOp>(op); });
    if (out.mean_alone) out.root_mean_square = 0.2;
    nlohmann::json own = nlohmann::json::object();
    if (const auto noted = golden.find("bf16_reference"); noted != golden.end())
      own = *noted;
    else
      own = nlohmann::json::parse(read_file(data("goldens/bf16_reference.json"))).value(name, own);
    out.p95 = std::max(out.p95, 1.3 * own.value("p95", 0.0));
    out.root_mean_square = std::max(out.root_mean_square, 1.3 * own.value("rms", 0.0));
    return out;
  }
};

}  // namespace espalier::testing
