#include "quantize/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/svg.h"

namespace espalier::quantizer {
namespace {

constexpr int kRows = 64;  // whose logits are there at once

// One position.
struct Position {
  double divergence = 0, source_loss = 0, made_loss = 0;
  bool same_best = false;
};

double logarithm_of_sum(std::span<const float> logits) {
  const float most = *std::ranges::max_element(logits);
  double sum = 0;
  for (const float one : logits) sum += std::exp(static_cast<double>(one) - static_cast<double>(most));
  return std::log(sum) + static_cast<double>(most);
}

Position compare(std::span<const float> source, std::span<const float> made, TokenId next) {
  const double source_sum = logarithm_of_sum(source), made_sum = logarithm_of_sum(made);
  Position p;
  for (std::size_t i = 0; i < source.size(); ++i) {
    const double a = static_cast<double>(source[i]) - source_sum, b = static_cast<double>(made[i]) - made_sum;
    if (a > -80) p.divergence += std::exp(a) * (a - b);
  }
  const auto at = static_cast<std::size_t>(next);
  p.source_loss = source_sum - static_cast<double>(source[at]);
  p.made_loss = made_sum - static_cast<double>(made[at]);
  p.same_best = std::ranges::max_element(source) - source.begin() == std::ranges::max_element(made) - made.begin();
  return p;
}

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
    std::vector<Position> all;
    for (int first = 0; first < rows; first += kRows) {
      const int count = std::min(kRows, rows - first);
      ESP_CHECK(source_.logits(first, count, source));
      ESP_CHECK(made_.logits(first, count, made));
      std::vector<Position> some(static_cast<std::size_t>(count));
      team_.run(count, [&](int i) {
        if ((first + i) % text_.length == text_.length - 1) return;  // its next token is another text's
        const std::size_t at = static_cast<std::size_t>(i) * width;
        some[static_cast<std::size_t>(i)] =
            compare(std::span(source).subspan(at, width), std::span(made).subspan(at, width),
                    text_.tokens[static_cast<std::size_t>(first + i) + 1]);
      });
      for (int i = 0; i < count; ++i)
        if ((first + i) % text_.length != text_.length - 1) all.push_back(some[static_cast<std::size_t>(i)]);
    }
    return summed(all);
  }

 private:
  Evaluation summed(const std::vector<Position>& all) {
    std::vector<double> divergences;
    double source = 0, made = 0, same = 0, sum = 0;
    for (const Position& p : all) {
      divergences.push_back(p.divergence);
      sum += p.divergence;
      source += p.source_loss;
      made += p.made_loss;
      same += p.same_best ? 1 : 0;
    }
    std::ranges::sort(divergences);
    const auto count = static_cast<double>(all.size());
    out_.positions = static_cast<std::int64_t>(all.size());
    if (all.empty()) return out_;
    out_.source_perplexity = std::exp(source / count);
    out_.perplexity = std::exp(made / count);
    out_.divergence = sum / count;
    out_.divergence_99 = divergences[static_cast<std::size_t>(0.99 * (count - 1))];
    out_.divergence_most = divergences.back();
    out_.same_best = same / count;
    return out_;
  }

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
  std::string out = fmt::format(
      "measured against the source, {} positions, exact arithmetic\n"
      "  perplexity        {:.4f}   of the source {:.4f}   ({:+.3f} %)\n"
      "  KL divergence     {:.6f}   at 99 % {:.6f}   at most {:.6f}   (nats)\n"
      "  same best token   {:.2f} %\n"
      "  error of what layers hand on (root of its share)\n",
      e.positions, e.perplexity, e.source_perplexity, 100 * (e.perplexity / e.source_perplexity - 1), e.divergence,
      e.divergence_99, e.divergence_most, 100 * e.same_best);
  for (std::size_t i = 0; i < e.layers.size(); ++i)
    out += fmt::format("{}{:>4} {:7.4f}{}", i % 6 == 0 ? "  " : "   ", e.layers[i].layer, std::sqrt(e.layers[i].error),
                       i % 6 == 5 || i + 1 == e.layers.size() ? "\n" : "");
  return out;
}

std::string picture_of(const Evaluation& e, const std::string& title) {
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
                  e.perplexity, e.source_perplexity, e.divergence, e.divergence_99, 100 * e.same_best));
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
