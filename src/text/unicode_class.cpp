#include "text/unicode_class.h"

#include <string>

#include "text/rust/tokenizer_ffi.h"

namespace espalier {
namespace {

std::vector<CharacterRange> take_ranges(espalier_ids bounds) {
  std::vector<CharacterRange> ranges;
  ranges.reserve(bounds.size / 2);
  for (std::size_t i = 0; i + 1 < bounds.size; i += 2) ranges.push_back({bounds.data[i], bounds.data[i + 1]});
  espalier_ids_free(bounds);
  return ranges;
}

std::string take_sentence(espalier_buffer buffer) {
  std::string text(reinterpret_cast<const char*>(buffer.data), buffer.size);
  espalier_buffer_free(buffer);
  return text;
}

}  // namespace

Result<std::vector<CharacterRange>> unicode_class(std::string_view name) {
  espalier_ids bounds{};
  espalier_buffer error{};
  const espalier_slice slice{reinterpret_cast<const std::uint8_t*>(name.data()), name.size()};
  if (!espalier_character_class(slice, &bounds, &error)) return bad_request(take_sentence(error));
  return take_ranges(bounds);
}

Result<std::vector<CharacterRange>> case_closure(std::span<const CharacterRange> ranges) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(ranges.size() * 2);
  for (const CharacterRange& range : ranges) numbers.insert(numbers.end(), {range.low, range.high});
  espalier_ids bounds{};
  espalier_buffer error{};
  if (!espalier_case_closure(numbers.data(), numbers.size(), &bounds, &error))
    return internal_error(take_sentence(error));
  return take_ranges(bounds);
}

}  // namespace espalier
