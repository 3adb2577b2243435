#include "server/pooling/vectors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "base/base64.h"

namespace espalier::server {
namespace {

constexpr std::string_view kTypeNames[] = {"float", "base64", "int8", "uint8", "binary", "ubinary"};

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
  return sum;
}

}  // namespace

void normalise(std::span<float> values, std::size_t width) {
  for (; values.size() >= width && width > 0; values = values.subspan(width)) {
    const auto one = values.first(width);
    const double length = std::sqrt(product(one, one));
    if (length > 0)
      for (float& value : one) value = static_cast<float>(static_cast<double>(value) / length);
  }
}

void cut(std::vector<float>& values, std::size_t of, std::size_t width) {
  if (width >= of || of == 0) return;
  std::size_t to = 0;
  for (std::size_t from = 0; from + of <= values.size(); from += of)
    for (std::size_t i = 0; i < width; ++i) values[to++] = values[from + i];
  values.resize(to);
}

double cosine(std::span<const float> a, std::span<const float> b) {
  const double lengths = std::sqrt(product(a, a)) * std::sqrt(product(b, b));
  return lengths > 0 ? product(a, b) / lengths : 0;
}

double best_products(std::span<const float> query, std::span<const float> document, std::size_t width) {
  double sum = 0;
  for (std::size_t q = 0; q + width <= query.size(); q += width) {
    double best = document.size() < width ? 0 : product(query.subspan(q, width), document.first(width));
    for (std::size_t d = width; d + width <= document.size(); d += width)
      best = std::max(best, product(query.subspan(q, width), document.subspan(d, width)));
    sum += best;
  }
  return sum;
}

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}

std::vector<std::size_t> best_first(std::span<const double> scores) {
  std::vector<std::size_t> order(scores.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t i) { return scores[i]; });
  return order;
}

std::vector<double> scaled(std::span<const float> scores, PooledInfo::Scale how) {
  std::vector<double> out(scores.begin(), scores.end());
  if (how == PooledInfo::Scale::sigmoid) std::ranges::transform(out, out.begin(), sigmoid);
  if (how != PooledInfo::Scale::softmax || out.empty()) return out;
  const double top = std::ranges::max(out);
  double sum = 0;
  for (double& value : out) sum += value = std::exp(value - top);
  for (double& value : out) value /= sum;
  return out;
}

std::string base64_floats(std::span<const float> values) {
  static_assert(std::endian::native == std::endian::little);
  return base64({reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

std::string_view name_of(NumberType type) {
  return kTypeNames[static_cast<std::size_t>(type)];
}

std::optional<NumberType> number_type_named(std::string_view name) {
  const auto at = std::ranges::find(kTypeNames, name);
  if (at == std::end(kTypeNames)) return std::nullopt;
  return static_cast<NumberType>(at - std::begin(kTypeNames));
}

std::vector<int> as_bytes(std::span<const float> vector, NumberType type) {
  constexpr int kBits = 8, kHalf = 128;
  constexpr double kMost = 127;
  std::vector<int> bytes;
  if (type == NumberType::binary || type == NumberType::ubinary) {
    bytes.assign((vector.size() + kBits - 1) / kBits, 0);
    for (std::size_t i = 0; i < vector.size(); ++i)
      if (vector[i] > 0) bytes[i / kBits] |= kHalf >> (i % kBits);
    if (type == NumberType::binary)
      for (int& byte : bytes) byte -= kHalf;
    return bytes;
  }
  double largest = 0;
  for (const float value : vector) largest = std::max(largest, std::abs(static_cast<double>(value)));
  for (const float value : vector) {
    const double scaled = largest > 0 ? kMost * static_cast<double>(value) / largest : 0;
    bytes.push_back(static_cast<int>(std::lround(scaled)) + (type == NumberType::uint8 ? kHalf : 0));
  }
  return bytes;
}

void write_as(JsonWriter& json, std::span<const float> vector, NumberType type) {
  if (type == NumberType::floats) return write_numbers(json, vector);
  if (type == NumberType::base64) {
    json.value(std::string_view(base64_floats(vector)));
    return;
  }
  json.open('[');
  for (const int byte : as_bytes(vector, type)) json.value(byte);
  json.close(']');
}

void write_numbers(JsonWriter& json, std::span<const float> values) {
  json.open('[');
  for (const float value : values) json.value(value);
  json.close(']');
}

void write_vectors(JsonWriter& json, const PooledEvent& pooled, NumberType type, bool as_list) {
  if (!as_list || type == NumberType::base64) return write_as(json, pooled.values, type);
  const auto width = static_cast<std::size_t>(std::max(1, pooled.width));
  json.open('[');
  for (std::size_t at = 0; at + width <= pooled.values.size(); at += width)
    write_as(json, std::span(pooled.values).subspan(at, width), type);
  json.close(']');
}

}  // namespace espalier::server
