#include "tensor/file/gguf_writer.h"

#include <type_traits>

#include "tensor/file/gguf_directory.h"  // gguf_number

namespace espalier {
namespace {

template <class Number>
void append(std::string& out, Number value) {
  static_assert(std::is_arithmetic_v<Number>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

void append_string(std::string& out, std::string_view text) {
  append<std::uint64_t>(out, text.size());
  out.append(text);
}

}  // namespace

void GgufWriter::key(std::string_view name, GgufType type) {
  append_string(metadata_, name);
  append(metadata_, static_cast<std::uint32_t>(type));
  ++keys_;
}

void GgufWriter::array(std::string_view name, GgufType element, std::size_t count) {
  key(name, GgufType::array);
  append(metadata_, static_cast<std::uint32_t>(element));
  append<std::uint64_t>(metadata_, count);
}

void GgufWriter::put(std::string_view name, std::uint32_t value) {
  key(name, GgufType::u32), append(metadata_, value);
}
void GgufWriter::put(std::string_view name, std::int32_t value) {
  key(name, GgufType::i32), append(metadata_, value);
}
void GgufWriter::put(std::string_view name, std::uint64_t value) {
  key(name, GgufType::u64), append(metadata_, value);
}
void GgufWriter::put(std::string_view name, float value) {
  key(name, GgufType::f32), append(metadata_, value);
}
void GgufWriter::put(std::string_view name, bool value) {
  key(name, GgufType::boolean), append<std::uint8_t>(metadata_, value ? 1 : 0);
}
void GgufWriter::put(std::string_view name, std::string_view value) {
  key(name, GgufType::string), append_string(metadata_, value);
}
void GgufWriter::put(std::string_view name, std::span<const std::string> values) {
  array(name, GgufType::string, values.size());
  for (const auto& value : values) append_string(metadata_, value);
}
void GgufWriter::put(std::string_view name, std::span<const std::int32_t> values) {
  array(name, GgufType::i32, values.size());
  for (const auto value : values) append(metadata_, value);
}
void GgufWriter::put(std::string_view name, std::span<const float> values) {
  array(name, GgufType::f32, values.size());
  for (const auto value : values) append(metadata_, value);
}

void GgufWriter::copy(const GgufValue& value) {
  if (value.type == GgufType::array) {
    array(value.key, value.element, static_cast<std::size_t>(value.count));
  } else {
    key(value.key, value.type);
  }
  metadata_.append(reinterpret_cast<const char*>(value.bytes.data()), value.bytes.size());
}

void GgufWriter::declare(std::string_view tensor, DType type, const Shape& shape) {
  append_string(infos_, tensor);
  append(infos_, static_cast<std::uint32_t>(shape.size()));
  for (auto it = shape.rbegin(); it != shape.rend(); ++it) append(infos_, static_cast<std::uint64_t>(*it));
  append(infos_, gguf_number(type).value_or(~0u));
  append(infos_, offset_);
  const std::uint64_t bytes = stored_bytes(type, shape).value_or(0);
  offset_ += bytes + padding(bytes);
  ++tensors_;
}

std::string GgufWriter::head() const {
  GgufWriter last = *this;
  if (alignment_ != 32) last.put("general.alignment", static_cast<std::uint32_t>(alignment_));
  std::string out = "GGUF";
  append<std::uint32_t>(out, 3);
  append(out, last.tensors_);
  append(out, last.keys_);
  out += last.metadata_ + last.infos_;
  out.append(padding(out.size()), '\0');
  return out;
}

std::size_t GgufWriter::padding(std::uint64_t bytes) const {
  return static_cast<std::size_t>((alignment_ - bytes % alignment_) % alignment_);
}

}  // namespace espalier
