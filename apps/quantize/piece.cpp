#include "quantize/piece.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

#include "tensor/quantize/quantize.h"

namespace espalier::quantizer {

std::uint64_t Piece::bytes() const {
  std::uint64_t sum = 0;
  for (const Slot& slot : slots) sum += slot.bytes;
  return sum;
}

Result<> for_rows(ComputeTeam& team, std::int64_t rows, std::int64_t columns,
                  const std::function<Result<>(std::int64_t first, std::int64_t end)>& body) {
  constexpr std::int64_t kValues = 1 << 17;
  const std::int64_t each = std::max<std::int64_t>(1, kValues / std::max<std::int64_t>(1, columns));
  std::mutex mutex;
  std::map<std::int64_t, Error> failed;
  team.run(static_cast<int>((rows + each - 1) / each), [&](int chunk) {
    const std::int64_t first = chunk * each;
    if (auto done = body(first, std::min(rows, first + each)); !done.ok()) {
      const std::lock_guard lock(mutex);
      failed.emplace(first, std::move(done).error());
    }
  });
  if (!failed.empty()) return failed.begin()->second;
  return success();
}

Result<> check_finite(const std::string& tensor, std::int64_t row, std::span<const float> values) {
  for (std::size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return bad_file(fmt::format("tensor {} has {} in row {}, column {}; only numbers can be quantised", tensor,
                                  std::isnan(values[i]) ? "no number" : "an infinity", row, i),
                      tensor);
  return success();
}

namespace {

Result<> copy_bytes(const Tensor& tensor, const Output& output, const Slot& slot) {
  constexpr std::size_t kAtOnce = 8 << 20;
  for (std::size_t at = 0; at < tensor.data.size(); at += kAtOnce)
    ESP_CHECK(output.write(slot, at, tensor.data.subspan(at, std::min(kAtOnce, tensor.data.size() - at))));
  return success();
}

// Of a row: the importance of its columns; of a tensor of experts, one behind the other, that of its expert.
std::span<const float> importance_of(std::span<const float> all, std::int64_t row, const SourceRows& rows) {
  if (all.empty()) return {};
  const auto columns = static_cast<std::size_t>(rows.columns());
  const std::size_t sets = all.size() / columns;
  const auto set =
      static_cast<std::size_t>(row) * sets / static_cast<std::size_t>(std::max<std::int64_t>(1, rows.rows()));
  return all.subspan(std::min(set, sets - 1) * columns, columns);
}

}  // namespace

Piece gguf_piece(std::string name, SourceRows rows, DType type, std::vector<float> importance) {
  Piece piece;
  piece.name = name;
  piece.from = rows.of.empty() ? "-" : std::string(espalier::name(rows.of.front()->dtype));
  piece.to = std::string(espalier::name(type));
  piece.shape = rows.shape;
  piece.of = rows.of;
  for (const Tensor* tensor : rows.of) piece.stored += tensor->stored_size();
  const std::uint64_t row_bytes = stored_bytes(type, std::vector<std::int64_t>{rows.columns()}).value_or(0);
  piece.make = [name = std::move(name), rows = std::move(rows), type, row_bytes, importance = std::move(importance)](
                   const Output& output, const std::vector<Slot>& slots, ComputeTeam& team) -> Result<> {
    if (rows.whole != nullptr && rows.whole->dtype == type) return copy_bytes(*rows.whole, output, slots.front());
    return for_rows(team, rows.rows(), rows.columns(), [&](std::int64_t first, std::int64_t end) -> Result<> {
      std::vector<float> values(static_cast<std::size_t>(rows.columns()));
      std::vector<std::byte> stored(static_cast<std::size_t>(end - first) * row_bytes);
      for (std::int64_t row = first; row < end; ++row) {
        rows.read(row, values);
        ESP_CHECK(check_finite(name, row, values));
        quantize_row(type, values, importance_of(importance, row, rows),
                     std::span(stored).subspan(static_cast<std::size_t>(row - first) * row_bytes, row_bytes));
      }
      return output.write(slots.front(), static_cast<std::uint64_t>(first) * row_bytes, stored);
    });
  };
  return piece;
}

}  // namespace espalier::quantizer
