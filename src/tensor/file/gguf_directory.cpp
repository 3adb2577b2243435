#include "tensor/file/gguf_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "base/checked.h"
#include "tensor/file/byte_cursor.h"

namespace espalier {
namespace {

constexpr std::uint32_t kMagic = 0x46554747;  // "GGUF"

struct TypeRow {
  std::uint32_t number;
  std::string_view name;
  std::optional<DType> type;  // nullopt: known to exist, not read here
};

constexpr TypeRow kTypes[] = {
    {0, "F32", DType::f32},        {1, "F16", DType::f16},          {2, "Q4_0", DType::q4_0},
    {3, "Q4_1", DType::q4_1},      {6, "Q5_0", DType::q5_0},        {7, "Q5_1", DType::q5_1},
    {8, "Q8_0", DType::q8_0},      {9, "Q8_1", std::nullopt},       {10, "Q2_K", DType::q2_k},
    {11, "Q3_K", DType::q3_k},     {12, "Q4_K", DType::q4_k},       {13, "Q5_K", DType::q5_k},
    {14, "Q6_K", DType::q6_k},     {15, "Q8_K", std::nullopt},      {16, "IQ2_XXS", DType::iq2_xxs},
    {17, "IQ2_XS", DType::iq2_xs}, {18, "IQ3_XXS", DType::iq3_xxs}, {19, "IQ1_S", DType::iq1_s},
    {20, "IQ4_NL", DType::iq4_nl}, {21, "IQ3_S", DType::iq3_s},     {22, "IQ2_S", DType::iq2_s},
    {23, "IQ4_XS", DType::iq4_xs}, {24, "I8", DType::i8},           {25, "I16", DType::i16},
    {26, "I32", DType::i32},       {27, "I64", DType::i64},         {28, "F64", DType::f64},
    {29, "IQ1_M", DType::iq1_m},   {30, "BF16", DType::bf16},       {34, "TQ1_0", DType::tq1_0},
    {35, "TQ2_0", DType::tq2_0},   {39, "MXFP4", DType::mxfp4},     {40, "NVFP4", DType::nvfp4},
    {41, "Q1_0", std::nullopt},
};

std::string readable_types() {
  std::string list;
  for (const auto& row : kTypes) {
    if (row.type) list += fmt::format("{}{}", list.empty() ? "" : ", ", row.name);
  }
  return list;
}

// Bytes of one element; 0 for strings and arrays, which have no fixed size.
std::uint64_t fixed_bytes(GgufType type) {
  constexpr std::array<std::uint64_t, 13> bytes = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return bytes[static_cast<std::size_t>(type)];
}

bool is_readable_name(std::string_view name) {
  return std::none_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

struct Range {  // of one tensor's bytes, from the start of the weights
  std::uint64_t begin, end;
  std::size_t tensor;
};

class Reader {
 public:
  Reader(std::span<const std::byte> file, const std::string& name)
      : file_(file), name_(name), at_(file.first(std::min<std::size_t>(file.size(), GgufLimits::directory_bytes))) {}

  Result<GgufDirectory> read() {
    ESP_CHECK(header());
    ESP_TRY(auto entries, metadata());
    made_.metadata = GgufMetadata(name_, std::move(entries));
    ESP_TRY(const auto alignment, made_.metadata.find_integer("general.alignment", {GgufLimits::least_alignment,
                                                                                    GgufLimits::greatest_alignment}));
    made_.alignment = static_cast<std::uint64_t>(alignment.value_or(32));
    if (!std::has_single_bit(made_.alignment)) {
      return bad("general.alignment",
                 fmt::format("general.alignment is {}, but must be a power of two", made_.alignment));
    }
    std::vector<Range> ranges;
    for (std::uint64_t i = 0; i < tensor_count_; ++i) ESP_CHECK(tensor(i, ranges));
    ESP_CHECK(place(ranges));
    return std::move(made_);
  }

 private:
  Error bad(std::string_view field, std::string_view sentence) const {
    return bad_file(fmt::format("{}: {}", name_, sentence), std::string(field));
  }
  Error cut_short(std::string_view field, std::string_view what) const {
    if (file_.size() > GgufLimits::directory_bytes) {
      return bad(field, fmt::format("{} lies beyond the first {} bytes, where everything but weights must be", what,
                                    GgufLimits::directory_bytes));
    }
    return bad(field, fmt::format("the file ends inside {} (byte {} of {})", what, at_.offset(), file_.size()));
  }

  Result<> header() {
    const auto magic = at_.number<std::uint32_t>();
    if (!magic || *magic != kMagic) return bad("magic", "not a GGUF file (it does not begin with \"GGUF\")");
    const auto version = at_.number<std::uint32_t>();
    const auto tensors = at_.number<std::uint64_t>(), keys = at_.number<std::uint64_t>();
    if (!version) return cut_short("version", "the version");
    const std::uint32_t swapped = __builtin_bswap32(*version);
    if (swapped >= 1 && swapped <= 3) return bad("version", "a big-endian GGUF file; convert it to little-endian");
    if (*version != 2 && *version != 3) {
      return bad("version",
                 fmt::format("GGUF version {}, but only 2 and 3 can be read; convert the model again", *version));
    }
    if (!tensors || !keys) return cut_short("tensor_count", "the header");
    // The least entry is a key of one byte with a value of one; the least tensor a name of one byte and one dimension.
    ESP_CHECK(count("tensor_count", *tensors, 8 + 1 + 4 + 8 + 4 + 8, GgufLimits::tensors));
    ESP_CHECK(count("metadata_kv_count", *keys, 8 + 1 + 4 + 1, GgufLimits::keys));
    made_.version = *version;
    tensor_count_ = *tensors;
    key_count_ = *keys;
    return success();
  }

  // A count of things that take at least `each` bytes: no more than limit, and no more than could be in the file.
  Result<> count(std::string_view field, std::uint64_t value, std::uint64_t each, std::uint64_t limit) const {
    if (value > limit) return bad(field, fmt::format("{} is {}, more than the limit of {}", field, value, limit));
    if (value > at_.remaining() / each) {
      return bad(field, fmt::format("{} is {}, but the {} bytes that follow hold at most {}", field, value,
                                    at_.remaining(), at_.remaining() / each));
    }
    return success();
  }

  Result<std::string_view> string(std::string_view field, std::string_view what, std::uint64_t limit) {
    const auto length = at_.number<std::uint64_t>();
    if (!length) return cut_short(field, what);
    if (*length > limit)
      return bad(field, fmt::format("{} has {} bytes, more than the limit of {}", what, *length, limit));
    const auto bytes = at_.take(*length);
    if (!bytes) {
      return bad(field, fmt::format("{} has {} bytes, but only {} follow in the file", what, *length, at_.remaining()));
    }
    return as_text(*bytes);
  }

  // --- metadata ---

  Result<std::vector<GgufValue>> metadata() {
    std::vector<GgufValue> entries;
    std::vector<std::string_view> keys;
    for (std::uint64_t i = 0; i < key_count_; ++i) {
      const std::string what = fmt::format("the name of metadata entry {}", i);
      ESP_TRY(const auto key, string({}, what, GgufLimits::key_bytes));
      if (key.empty() || !is_readable_name(key)) {
        return bad({}, fmt::format("{} is {}, but must be readable text", what, in_quotes(key)));
      }
      ESP_TRY(auto value, entry(key));
      entries.push_back(value);
      keys.push_back(key);
    }
    if (const auto again = NameIndex(keys).duplicate()) {
      return bad(keys[*again], fmt::format("metadata key {} occurs twice", in_quotes(keys[*again])));
    }
    return entries;
  }

  Result<GgufType> type(std::string_view key) {
    const auto number = at_.number<std::uint32_t>();
    if (!number) return cut_short(key, fmt::format("metadata key {}", in_quotes(key)));
    if (*number > static_cast<std::uint32_t>(GgufType::f64)) {
      return bad(key, fmt::format("metadata key {} has value type {}, but only 0..12 exist", in_quotes(key), *number));
    }
    return static_cast<GgufType>(*number);
  }

  Result<GgufValue> entry(std::string_view key) {
    GgufValue value{.key = key};
    ESP_TRY(value.type, type(key));
    value.element = value.type;
    if (value.type == GgufType::array) ESP_CHECK(array_head(value));
    const std::uint64_t start = at_.offset();
    if (value.element == GgufType::string) {
      const std::string what = fmt::format("a string of metadata key {}", in_quotes(key));
      for (std::uint64_t i = 0; i < value.count; ++i) ESP_CHECK(string(key, what, GgufLimits::string_bytes));
    } else if (!at_.take(value.count * fixed_bytes(value.element))) {  // at most 2^24 * 8
      return cut_short(key, fmt::format("metadata key {}", in_quotes(key)));
    }
    value.bytes = file_.subspan(start, at_.offset() - start);
    if (value.element == GgufType::boolean) ESP_CHECK(booleans(value));
    return value;
  }

  Result<> array_head(GgufValue& value) {
    ESP_TRY(value.element, type(value.key));
    const std::string what = fmt::format("metadata key {}", in_quotes(value.key));
    if (value.element == GgufType::array) return bad(value.key, fmt::format("{} is an array of arrays", what));
    const auto count = at_.number<std::uint64_t>();
    if (!count) return cut_short(value.key, what);
    const bool strings = value.element == GgufType::string;
    const std::uint64_t limit = strings ? GgufLimits::array_strings : GgufLimits::array_elements;
    const std::uint64_t possible = at_.remaining() / (strings ? 8 : fixed_bytes(value.element));
    if (*count > std::min(limit, possible)) {
      return bad(value.key, fmt::format("{} is an array of {} elements, but {} {}", what, *count,
                                        possible < limit ? "the rest of the file holds at most" : "the limit is",
                                        std::min(limit, possible)));
    }
    value.count = *count;
    return success();
  }

  Result<> booleans(const GgufValue& value) const {
    const auto odd = std::find_if(value.bytes.begin(), value.bytes.end(), [](std::byte b) { return b > std::byte{1}; });
    if (odd == value.bytes.end()) return success();
    return bad(value.key, fmt::format("metadata key {} holds a bool of value {}, but only 0 and 1 exist",
                                      in_quotes(value.key), static_cast<int>(*odd)));
  }

  // --- tensors ---

  Result<> tensor(std::uint64_t number, std::vector<Range>& ranges) {
    ESP_TRY(const auto name, string({}, fmt::format("the name of tensor {}", number), GgufLimits::tensor_name_bytes));
    const std::string what = fmt::format("tensor {}", in_quotes(name));
    if (name.empty() || !is_readable_name(name)) return bad(name, what + " needs a readable name");
    Tensor tensor{.name = std::string(name)};
    ESP_TRY(tensor.shape, shape(name, what));
    const auto type = at_.number<std::uint32_t>();
    const auto offset = at_.number<std::uint64_t>();
    if (!type || !offset) return cut_short(name, what);
    ESP_TRY(tensor.dtype, dtype(name, what, *type));
    const auto bytes = stored_bytes(tensor.dtype, tensor.shape);
    if (!bytes) {
      return bad(
          name, fmt::format("{} of shape {} is not a whole number of {} blocks of {} values, or too large", what,
                            to_string(tensor.shape), espalier::name(tensor.dtype), block_shape(tensor.dtype).elements));
    }
    if (*offset % made_.alignment != 0) {
      return bad(name, fmt::format("{} lies at offset {}, which is no multiple of the alignment {}", what, *offset,
                                   made_.alignment));
    }
    const auto end = checked_add(*offset, *bytes);
    if (!end) return bad(name, fmt::format("{} lies at offset {}, beyond any file", what, *offset));
    ranges.push_back({*offset, *end, made_.tensors.size()});
    made_.tensors.push_back(std::move(tensor));
    return success();
  }

  Result<Shape> shape(std::string_view name, const std::string& what) {
    const auto dimensions = at_.number<std::uint32_t>();
    if (!dimensions) return cut_short(name, what);
    if (*dimensions < 1 || *dimensions > GgufLimits::dimensions) {
      return bad(
          name, fmt::format("{} has {} dimensions, but 1..{} are possible", what, *dimensions, GgufLimits::dimensions));
    }
    Shape shape(*dimensions);
    for (std::size_t i = 0; i < shape.size(); ++i) {  // innermost first in the file
      const auto length = at_.number<std::uint64_t>();
      if (!length) return cut_short(name, what);
      const auto narrow = checked_cast<std::int64_t>(*length);
      if (!narrow || *narrow == 0) return bad(name, fmt::format("{} has a dimension of {}", what, *length));
      shape[shape.size() - 1 - i] = *narrow;
    }
    return shape;
  }

  Result<DType> dtype(std::string_view name, const std::string& what, std::uint32_t number) const {
    if (const auto type = dtype_of_gguf(number)) return *type;
    const auto row =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& r) { return r.number == number; });
    const std::string shown = row == std::end(kTypes) ? fmt::format("unknown type {}", number)
                                                      : fmt::format("type {}, which cannot be read", row->name);
    return bad(name, fmt::format("{} has {}; readable are {}", what, shown, readable_types()));
  }

  // Gives every tensor its bytes, once all of them are known to be apart and inside the file.
  Result<> place(std::vector<Range>& ranges) {
    std::vector<std::string_view> names;
    for (const auto& tensor : made_.tensors) names.push_back(tensor.name);
    if (const auto again = NameIndex(names).duplicate()) {
      return bad(names[*again], fmt::format("tensor {} occurs twice", in_quotes(names[*again])));
    }
    const std::uint64_t start = checked_align(at_.offset(), made_.alignment).value_or(file_.size());
    const std::uint64_t room = start < file_.size() ? file_.size() - start : 0;
    std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
    std::uint64_t previous_end = 0;
    for (const auto& range : ranges) {
      Tensor& tensor = made_.tensors[range.tensor];
      if (range.end > room) {
        return bad(tensor.name, fmt::format("tensor {} ends at byte {} of the weights, but the file holds only {}",
                                            in_quotes(tensor.name), range.end, room));
      }
      if (range.begin < previous_end) {
        return bad(tensor.name, fmt::format("tensor {} at offset {} overlaps the one before it, which ends at {}",
                                            in_quotes(tensor.name), range.begin, previous_end));
      }
      previous_end = range.end;
      tensor.data = file_.subspan(start + range.begin, range.end - range.begin);
    }
    return success();
  }

  std::span<const std::byte> file_;
  const std::string& name_;
  ByteCursor at_;
  GgufDirectory made_;
  std::uint64_t tensor_count_ = 0, key_count_ = 0;
};

}  // namespace

Result<GgufDirectory> read_gguf_directory(std::span<const std::byte> file, const std::string& file_name) {
  return Reader(file, file_name).read();
}

std::optional<DType> dtype_of_gguf(std::uint32_t number) {
  for (const auto& row : kTypes) {
    if (row.number == number) return row.type;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> gguf_number(DType type) {
  for (const auto& row : kTypes) {
    if (row.type == type) return row.number;
  }
  return std::nullopt;
}

}  // namespace espalier
