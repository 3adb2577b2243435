#include "quantize/calibration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace espalier::quantizer {

Result<TextPieces> pieces_of(std::span<const TokenId> tokens, int length, int most, bool tail) {
  if (tokens.size() < 16)
    return bad_request(fmt::format("the text has {} tokens; a few thousand would work", tokens.size()), "text");
  length = static_cast<int>(std::min<std::size_t>(static_cast<std::size_t>(length), tokens.size()));
  const std::size_t count = std::max<std::size_t>(1, std::min(tokens.size() / static_cast<std::size_t>(length),
                                                              static_cast<std::size_t>(std::max(1, most / length))));
  const std::size_t size = count * static_cast<std::size_t>(length);
  const std::size_t first = tail ? tokens.size() - size : 0;
  TextPieces pieces;
  pieces.length = length;
  pieces.tokens.assign(tokens.begin() + static_cast<std::ptrdiff_t>(first),
                       tokens.begin() + static_cast<std::ptrdiff_t>(first + size));
  return pieces;
}

namespace {

// Columns are shared out, so that each sum is one thread's, in the order of rows.
void add_sums(InputSums& sums, const float* rows, std::int64_t stride, int count, std::int64_t width,
              ComputeTeam& team) {
  sums.squares.resize(static_cast<std::size_t>(width));
  sums.greatest.resize(static_cast<std::size_t>(width));
  sums.rows += count;
  constexpr std::int64_t kEach = 256;
  team.run(static_cast<int>((width + kEach - 1) / kEach), [&](int chunk) {
    for (int row = 0; row < count; ++row)
      for (std::int64_t k = chunk * kEach; k < std::min(width, (chunk + 1) * kEach); ++k) {
        const float value = rows[row * stride + k];
        sums.squares[static_cast<std::size_t>(k)] += static_cast<double>(value) * static_cast<double>(value);
        sums.greatest[static_cast<std::size_t>(k)] =
            std::max(sums.greatest[static_cast<std::size_t>(k)], std::fabs(value));
      }
  });
}

// The tensors whose columns are this matrix's inputs.
std::vector<std::string> tensors_of(const MatrixNeed& need, const Weights& weights) {
  std::vector<std::string> names;
  for (const MatrixPart& part : need.parts) {
    if (part.transposed || part.joined_rows > 1) continue;
    const Tensor* tensor = weights.find(part.tensor);
    // Experts that share a tensor are told apart by their first row.
    if (tensor == nullptr) continue;
    const bool whole = tensor->shape.size() < 3;
    names.push_back(whole ? tensor->name : fmt::format("{}/{}", tensor->name, part.rows.first));
  }
  std::ranges::sort(names);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

}  // namespace

Result<Calibration> Calibration::measure(const ModelSpec& spec, const Weights& weights, const TextPieces& text,
                                         ComputeTeam& team, const Progress& progress) {
  ESP_TRY(const auto model, StreamedModel::open(spec, weights, team));
  ESP_CHECK(model->begin(text.tokens, text.length));
  std::vector<std::shared_ptr<InputSums>> sums(model->matrices().size());
  const auto see = [&](MatrixId id, const float* rows, std::int64_t stride, int count) {
    auto& own = sums[static_cast<std::size_t>(id)];
    if (!own) own = std::make_shared<InputSums>();
    add_sums(*own, rows, stride, count, model->matrices()[static_cast<std::size_t>(id)].inputs, team);
  };
  for (int section = 0; section < model->sections(); ++section) {
    if (progress) progress(section, model->sections());
    ESP_CHECK(model->run(section, see));
  }
  if (progress) progress(model->sections(), model->sections());
  if (model->head() >= 0) {
    const StreamedModel::Carried in = model->head_input();
    see(model->head(), in.place.first, in.place.stride, static_cast<int>(text.tokens.size()));
  }
  Calibration made;
  for (std::size_t id = 0; id < sums.size(); ++id)
    if (sums[id])
      for (std::string& name : tensors_of(model->matrices()[id], weights))
        made.sums_.emplace(std::move(name), sums[id]);
  return made;
}

const InputSums* Calibration::find(const std::string& tensor) const {
  const auto found = sums_.find(tensor);
  return found == sums_.end() ? nullptr : found->second.get();
}

std::vector<float> Calibration::importance(const std::vector<const Tensor*>& of) const {
  std::vector<float> all;
  const auto add = [&](const InputSums& sums) {
    for (const double square : sums.squares) all.push_back(static_cast<float>(square / static_cast<double>(sums.rows)));
  };
  for (const Tensor* tensor : of) {
    if (tensor->shape.size() < 3) {
      const InputSums* sums = find(tensor->name);
      if (sums == nullptr) return {};
      add(*sums);
      continue;
    }
    // Experts side by side; one that no token chose has the mean of the others.
    const std::int64_t experts = tensor->shape.front(), each = tensor->rows() / experts;
    const auto width = static_cast<std::size_t>(tensor->columns());
    std::vector<const InputSums*> found;
    std::vector<double> mean(width, 0.0);
    int seen = 0;
    for (std::int64_t e = 0; e < experts; ++e) {
      found.push_back(find(fmt::format("{}/{}", tensor->name, e * each)));
      if (found.back() == nullptr) continue;
      ++seen;
      for (std::size_t k = 0; k < width; ++k)
        mean[k] += found.back()->squares[k] / static_cast<double>(found.back()->rows);
    }
    if (seen == 0) return {};
    for (const InputSums* sums : found) {
      if (sums != nullptr) {
        add(*sums);
        continue;
      }
      for (const double sum : mean) all.push_back(static_cast<float>(sum / seen));
    }
  }
  return all;
}

Result<std::unique_ptr<InputProducts>> InputProducts::start(const ModelSpec& spec, const Weights& weights,
                                                            const TextPieces& text, ComputeTeam& team) {
  std::unique_ptr<InputProducts> made(new InputProducts(weights, team));
  made->text_ = text;
  ESP_TRY(made->model_, StreamedModel::open(spec, weights, team));
  ESP_CHECK(made->model_->begin(made->text_.tokens, made->text_.length));
  for (int section = 0; section < made->model_->sections(); ++section)
    for (const MatrixId id : made->model_->matrices_of(section))
      for (std::string& name : tensors_of(made->model_->matrices()[static_cast<std::size_t>(id)], weights))
        made->section_of_.emplace(std::move(name), section);
  return made;
}

void InputProducts::add(MatrixId id, const float* rows, std::int64_t stride, int count) {
  const MatrixNeed& need = model_->matrices()[static_cast<std::size_t>(id)];
  const auto width = need.inputs;
  auto products = std::make_shared<Products>();
  products->width = width;
  products->sums.assign(static_cast<std::size_t>(width * width), 0.0f);
  const float share = 1.0f / static_cast<float>(std::max(1, count));
  constexpr std::int64_t kEach = 16;
  // Row i of the result is one thread's; a few rows of it stay in the cache while the text passes.
  team_.run(static_cast<int>((width + kEach - 1) / kEach), [&](int chunk) {
    const std::int64_t first = chunk * kEach, end = std::min(width, first + kEach);
    for (int row = 0; row < count; ++row) {
      const float* x = rows + row * stride;
      for (std::int64_t i = first; i < end; ++i) {
        const float by = x[i] * share;
        float* to = products->sums.data() + i * width;
        for (std::int64_t j = 0; j < width; ++j) to[j] += by * x[j];
      }
    }
  });
  for (std::string& name : tensors_of(need, weights_)) kept_[std::move(name)] = products;
}

Result<std::shared_ptr<const Gptq>> InputProducts::gptq_of(const std::string& tensor, std::int64_t width,
                                                           const std::vector<float>& scales) {
  ESP_TRY(Products* const products, of(tensor));
  if (products == nullptr || products->width != width) return std::shared_ptr<const Gptq>();
  if (products->gptq == nullptr) {
    products->scales = scales;
    products->gptq = std::make_shared<const Gptq>(std::move(products->sums), width, scales, team_);
  } else if (products->scales != scales) {
    return internal_error("matrices that read the same inputs have different factors: " + tensor);
  }
  return products->gptq;
}

Result<InputProducts::Products*> InputProducts::of(const std::string& tensor) {
  const auto at = section_of_.find(tensor);
  if (at == section_of_.end() || at->second < next_ - 1) return static_cast<Products*>(nullptr);
  while (next_ <= at->second) {
    kept_.clear();
    const int section = next_++;
    if (section < at->second)
      ESP_CHECK(model_->run(section));
    else
      ESP_CHECK(model_->run(section, [this](MatrixId id, const float* rows, std::int64_t stride, int count) {
        add(id, rows, stride, count);
      }));
  }
  const auto found = kept_.find(tensor);
  return found == kept_.end() ? nullptr : found->second.get();
}

}  // namespace espalier::quantizer
