#include "tensor/file/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "base/json/checkpoint_json.h"
#include "base/json/json_fields.h"
#include "tensor/file/byte_cursor.h"
#include "tensor/file/open_file.h"

namespace espalier {
namespace {

constexpr JsonLimits kHeaderLimits{.depth = 8, .values = 2'000'000};  // about 200,000 tensors

std::optional<DType> safetensors_dtype(const std::string& named) {
  const auto type = dtype_named(named);
  const bool ours = type && !is_quantised(*type) && name(*type) == named;
  return ours ? type : std::nullopt;
}

class HeaderReader {
 public:
  HeaderReader(std::span<const std::byte> file, const std::string& name) : file_(file), name_(name) {}

  Result<SafetensorsHeader> read() {
    ESP_TRY(const auto text, header_text());
    auto parsed = parse_json(text, kHeaderLimits);
    if (!parsed.ok()) return in_file(std::move(parsed).error(), name_ + ": header");
    if (!parsed->is_object()) return bad({}, "the header must be a JSON object");
    SafetensorsHeader made;
    for (const auto& [key, value] : parsed->get_ref<const Json::object_t&>()) {
      if (key == "__metadata__") {
        ESP_TRY(made.metadata, metadata(value));
      } else {
        ESP_TRY(auto read_tensor, tensor(key, value));
        made.tensors.push_back(std::move(read_tensor));
      }
    }
    ESP_CHECK(gapless(made.tensors));
    return made;
  }

 private:
  Error bad(std::string_view field, std::string_view sentence) const {
    return bad_file(fmt::format("{}: {}", name_, sentence), std::string(field));
  }

  Result<std::string_view> header_text() {
    ByteCursor at(file_);
    const auto length = at.number<std::uint64_t>();
    if (!length) return bad("header length", fmt::format("{} bytes are too few for a safetensors file", file_.size()));
    if (*length > kSafetensorsHeaderBytes) {
      return bad("header length", fmt::format("the header says it has {} bytes, more than the limit of {}", *length,
                                              kSafetensorsHeaderBytes));
    }
    const auto bytes = at.take(*length);
    if (!bytes) {
      return bad("header length", fmt::format("the header says it has {} bytes, but only {} follow in the file",
                                              *length, at.remaining()));
    }
    if (bytes->empty() || bytes->front() != std::byte{'{'}) return bad("header", "the header must begin with '{'");
    weights_ = file_.subspan(at.offset());
    return as_text(*bytes);
  }

  Result<std::vector<std::pair<std::string, std::string>>> metadata(const Json& value) const {
    if (!value.is_object()) return bad("__metadata__", "__metadata__ must be an object of strings");
    std::vector<std::pair<std::string, std::string>> made;
    for (const auto& [key, text] : value.get_ref<const Json::object_t&>()) {
      if (!text.is_string())
        return bad("__metadata__", fmt::format("__metadata__ {} must be a string", in_quotes(key)));
      made.emplace_back(key, text.get_ref<const std::string&>());
    }
    return made;
  }

  Result<Tensor> tensor(const std::string& key, const Json& value) const {
    const std::string what = fmt::format("tensor {}", in_quotes(key));
    if (!value.is_object()) return bad(key, what + " must be an object with dtype, shape and data_offsets");
    auto read = fields(key, what, value);
    if (read.ok() || read.error().kind == Error::Kind::bad_file) return read;
    return in_file(std::move(read).error(), fmt::format("{}: {}", name_, what));
  }

  Result<Tensor> fields(const std::string& key, const std::string& what, const Json& value) const {
    ESP_TRY(const std::string type, get_string(value, "dtype"));
    ESP_TRY(const Json* shape, get_array(value, "shape"));
    ESP_TRY(const Json* offsets, get_array(value, "data_offsets"));
    Tensor tensor{.name = key};
    const auto dtype = safetensors_dtype(type);
    if (!dtype) return bad(key, fmt::format("{} has dtype {}, which cannot be read", what, in_quotes(type)));
    tensor.dtype = *dtype;
    if (shape->size() > kSafetensorsDimensions) {
      return bad(key, fmt::format("{} has {} dimensions, more than {}", what, shape->size(), kSafetensorsDimensions));
    }
    for (const auto& length : *shape) {
      ESP_TRY(const auto dimension, as_integer(length, "shape", {.low = 0}));
      tensor.shape.push_back(dimension);
    }
    if (offsets->size() != 2)
      return bad(key, fmt::format("{} needs two data_offsets, but has {}", what, offsets->size()));
    const auto room = static_cast<std::int64_t>(weights_.size());
    ESP_TRY(const auto begin, as_integer((*offsets)[0], "data_offsets[0]", {0, room}));
    ESP_TRY(const auto end, as_integer((*offsets)[1], "data_offsets[1]", {begin, room}));
    const auto bytes = stored_bytes(tensor.dtype, tensor.shape);
    if (!bytes || *bytes != static_cast<std::uint64_t>(end - begin)) {
      return bad(
          key, fmt::format("{} of shape {} and dtype {} has {} bytes, but its data_offsets span {}", what,
                           to_string(tensor.shape), type, bytes ? fmt::format("{}", *bytes) : "too many", end - begin));
    }
    tensor.data = weights_.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(*bytes));
    return tensor;
  }

  // Sorts by place; every byte after the header must belong to exactly one tensor.
  Result<> gapless(std::vector<Tensor>& tensors) const {
    const auto offset = [&](const Tensor& t) { return static_cast<std::size_t>(t.data.data() - weights_.data()); };
    std::sort(tensors.begin(), tensors.end(), [&](const Tensor& a, const Tensor& b) {
      return std::tuple(offset(a), a.data.size(), std::string_view(a.name)) <
             std::tuple(offset(b), b.data.size(), std::string_view(b.name));
    });
    std::size_t end = 0;
    for (const auto& tensor : tensors) {
      if (offset(tensor) != end) {
        return bad(tensor.name,
                   fmt::format("tensor {} begins at byte {} of the weights, but the one before it ends at {}",
                               in_quotes(tensor.name), offset(tensor), end));
      }
      end += tensor.data.size();
    }
    if (end == weights_.size()) return success();
    return bad("data_offsets", fmt::format("the tensors end at byte {} of the weights, but the file has {}; it may be "
                                           "cut short or have been appended to",
                                           end, weights_.size()));
  }

  std::span<const std::byte> file_, weights_;
  const std::string& name_;
};

}  // namespace

Result<SafetensorsHeader> read_safetensors_header(std::span<const std::byte> file, const std::string& file_name) {
  return HeaderReader(file, file_name).read();
}

Result<std::vector<IndexedTensor>> read_safetensors_index(std::string_view text, const std::string& file_name) {
  auto parsed = parse_checkpoint_json(text, kHeaderLimits);
  if (!parsed.ok()) return in_file(std::move(parsed).error(), file_name);
  auto map = get_object(*parsed, "weight_map");
  if (!map.ok()) return in_file(std::move(map).error(), file_name);
  std::vector<IndexedTensor> made;
  for (const auto& [tensor, file] : (*map)->get_ref<const Json::object_t&>()) {
    if (!file.is_string() || !is_plain_file_name(file.get_ref<const std::string&>())) {
      const std::string shown =
          file.is_string() ? in_quotes(file.get_ref<const std::string&>()) : std::string(type_name(file));
      return bad_file(fmt::format("{}: weight_map puts tensor {} into {}, but a plain file name is needed", file_name,
                                  in_quotes(tensor), shown),
                      "weight_map");
    }
    made.push_back({tensor, file.get<std::string>()});
  }
  if (made.empty()) return bad_file(fmt::format("{}: weight_map is empty", file_name), "weight_map");
  return made;
}

}  // namespace espalier
