#include "quantize/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/svg.h"

namespace espalier::quantizer {
namespace {

constexpr int kRows = 64;  // whose logits are there at once

// Of rows that both hand on, in the order of their buffers.
double error_between(const std::vector<StreamedModel::Carried>& a, const std::vector<StreamedModel::Carried>& b,
                     int rows) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].width != b[i].width) return 0;
    for (int row = 0; row < rows; ++row) {
      const float *x = a[i].place.row(row), *y = b[i].place.row(row);
      for (int k = 0; k < a[i].width; ++k) {
        const double e = static_cast<double>(x[k] - y[k]);
        error += e * e;
        size += static_cast<double>(x[k]) * static_cast<double>(x[k]);
      }
    }
  }
  return size > 0 ? error / size : 0;
}

class Comparison {
 public:
  Comparison(StreamedModel& source, StreamedModel& made, const TextPieces& text, ComputeTeam& team)
      : source_(source), made_(made), text_(text), team_(team) {}

  Result<> layers(const std::function<void(int, int)>& progress) {
    const auto rows = static_cast<int>(text_.tokens.size());
    ESP_CHECK(source_.begin(text_.tokens, text_.length));
    ESP_CHECK(made_.begin(text_.tokens, text_.length));
    const int sections = source_.sections();
    if (made_.sections() != sections) return internal_error("what was made has other layers than its source");
    for (int s = 0; s < sections; ++s) {
      if (progress) progress(s, sections);
      ESP_CHECK(source_.run(s));
      ESP_CHECK(made_.run(s));
      out_.layers.push_back({source_.layer_of(s), error_between(source_.carried(s), made_.carried(s), rows)});
    }
    if (progress) progress(sections, sections);
    return success();
  }

  Result<Evaluation> positions() {
    const auto rows = static_cast<int>(text_.tokens.size());
    const auto width = static_cast<std::size_t>(source_.vocabulary());
    if (made_.vocabulary() != source_.vocabulary()) return internal_error("what was made has another vocabulary");
    std::vector<float> source, made;
    std::vector<PositionDifference> all;
    for (int first = 0; first < rows; first += kRows) {
      const int count = std::min(kRows, rows - first);
      ESP_CHECK(source_.logits(first, count, source));
      ESP_CHECK(made_.logits(first, count, made));
      std::vector<PositionDifference> some(static_cast<std::size_t>(count));
      team_.run(count, [&](int i) {
        if ((first + i) % text_.length == text_.length - 1) return;  // its next token is another text's
        const std::size_t at = static_cast<std::size_t>(i) * width;
        some[static_cast<std::size_t>(i)] =
            difference_at(std::span(source).subspan(at, width), std::span(made).subspan(at, width),
                          text_.tokens[static_cast<std::size_t>(first + i) + 1]);
      });
      for (int i = 0; i < count; ++i)
        if ((first + i) % text_.length != text_.length - 1) all.push_back(some[static_cast<std::size_t>(i)]);
    }
    out_.difference = summed(all);
    return out_;
  }

 private:
  StreamedModel &source_, &made_;
  const TextPieces& text_;
  ComputeTeam& team_;
  Evaluation out_;
};

}  // namespace

Result<Evaluation> evaluate(const Source& source, const Source& made, const TextPieces& text, ComputeTeam& team,
                            const std::function<void(int, int)>& progress) {
  ESP_TRY(const auto first, StreamedModel::open(source.files.config.spec, *source.weights, team));
  ESP_TRY(const auto second, StreamedModel::open(made.files.config.spec, *made.weights, team));
  Comparison comparison(*first, *second, text, team);
  ESP_CHECK(comparison.layers(progress));
  return comparison.positions();
}

std::string table_of(const Evaluation& e) {
  const Difference& d = e.difference;
  std::string out = fmt::format(
      "measured against the source, {} positions, exact arithmetic\n"
      "  perplexity        {:.4f}   of the source {:.4f}   ({:+.3f} %)\n"
      "  KL divergence     {:.6f}   at 99 % {:.6f}   at most {:.6f}   (nats)\n"
      "  same best token   {:.2f} %\n"
      "  error of what layers hand on (root of its share)\n",
      d.positions, d.second_perplexity, d.first_perplexity, 100 * (d.second_perplexity / d.first_perplexity - 1),
      d.divergence, d.divergence_99, d.divergence_most, 100 * d.same_best);
  for (std::size_t i = 0; i < e.layers.size(); ++i)
    out += fmt::format("{}{:>4} {:7.4f}{}", i % 6 == 0 ? "  " : "   ", e.layers[i].layer, std::sqrt(e.layers[i].error),
                       i % 6 == 5 || i + 1 == e.layers.size() ? "\n" : "");
  return out;
}

std::string picture_of(const Evaluation& e, const std::string& title) {
  const Difference& d = e.difference;
  constexpr double kLeft = 64, kTop = 92, kHeight = 220, kBar = 16;
  const auto count = static_cast<double>(std::max<std::size_t>(1, e.layers.size()));
  const double width = std::max(420.0, kBar * count);
  const double step = width / count;
  double most = 1e-9;
  for (const auto& layer : e.layers) most = std::max(most, std::sqrt(layer.error));
  Svg svg;
  svg.text(kLeft, 26, title, Svg::Anchor::start, "title");
  svg.text(
      kLeft, 46,
      fmt::format("perplexity {:.3f}, of the source {:.3f}; KL divergence {:.5f} nats, 99 %: {:.5f}; same best token "
                  "{:.1f} %",
                  d.second_perplexity, d.first_perplexity, d.divergence, d.divergence_99, 100 * d.same_best));
  svg.text(kLeft, 72, "error of the rows that each layer hands on, root of its share");
  for (int k = 0; k <= 4; ++k) {
    const double y = kTop + kHeight - kHeight * k / 4;
    svg.line(kLeft, y, kLeft + width, y, "grid");
    svg.text(kLeft - 6, y + 4, fmt::format("{:.3g}", most * k / 4), Svg::Anchor::end);
  }
  for (std::size_t i = 0; i < e.layers.size(); ++i) {
    const double error = std::sqrt(e.layers[i].error), height = kHeight * error / most;
    const double x = kLeft + step * static_cast<double>(i);
    svg.rect(x + 0.15 * step, kTop + kHeight - height, 0.7 * step, height, "f0",
             fmt::format("layer {}: {:.5f}", e.layers[i].layer, error));
    if (e.layers.size() <= 12 || i % 4 == 0)
      svg.text(x + 0.5 * step, kTop + kHeight + 18, std::to_string(e.layers[i].layer), Svg::Anchor::middle);
  }
  svg.text(kLeft + width / 2, kTop + kHeight + 40, "layer", Svg::Anchor::middle);
  return svg.document(kLeft + width + 24, kTop + kHeight + 56, title);
}

}  // namespace espalier::quantizer
