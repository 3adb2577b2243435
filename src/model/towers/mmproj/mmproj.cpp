#include "model/towers/mmproj/mmproj.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/towers/mmproj/mmproj_pictures.h"
#include "model/towers/mmproj/mmproj_projectors.h"
#include "model/towers/table.h"

namespace espalier {

Result<std::unique_ptr<MmprojFile>> MmprojFile::read(const GgufFile& file) {
  const GgufMetadata& data = file.metadata();
  ESP_TRY(auto type, data.find_string("clip.projector_type"));
  if (!type) {
    ESP_TRY(type, data.find_string("clip.vision.projector_type"));
  }
  if (!type)
    return bad_file(fmt::format("{}: clip.projector_type is missing, so this is no file of a tower", file.name()),
                    "clip.projector_type");
  const Projector* projector = projector_of(*type);
  if (projector == nullptr)
    return Error{Error::Kind::unsupported,
                 fmt::format("{}: projectors of type {} are not supported here; {} are", file.name(), in_quotes(*type),
                             projector_types()),
                 "clip.projector_type",
                 {}};
  std::unique_ptr<MmprojFile> made(new MmprojFile(file));
  made->projector_ = projector;
  ESP_TRY(made->config_, configuration_of(file, *projector));
  ESP_TRY(auto spec, read_tower_config(made->config_.dump(), file.name()));
  made->spec_ = std::move(*spec);
  ESP_CHECK(made->name_tensors());
  return made;
}

Result<std::unique_ptr<MmprojFile>> MmprojFile::open(const std::filesystem::path& path) {
  ESP_TRY(GgufFile opened, GgufFile::open(path));
  auto file = std::make_unique<const GgufFile>(std::move(opened));
  ESP_TRY(auto made, read(*file));
  made->opened_ = std::move(file);
  return made;
}

Json MmprojFile::picture_settings(const std::function<bool(std::string_view)>& has_token) const {
  return picture_settings_of(file_, *projector_, config_, has_token);
}

const Tensor* MmprojFile::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : &tensors_[found->second];
}

// Every tensor whose role the tower knows, under the name that it asks for.
Result<> MmprojFile::name_tensors() {
  const Names& names = spec_.body.names;
  const auto layers = static_cast<int>(spec_.body.layers.size());
  const auto add_role = [&](const StoredRole& one, const std::string& prefix, int layer) -> Result<> {
    return add(prefix + std::string(one.stem), names.of(Naming::hf, one.role, layer));
  };
  for (const auto roles : {projector_->roles, common_roles()})
    for (const StoredRole& one : roles)
      if (one.role != "ffn_norm") ESP_CHECK(add_role(one, "", -1));
  const bool other_norm =
      std::ranges::find(projector_->roles, "ffn_norm", &StoredRole::role) != projector_->roles.end();
  // Old files have the two matrices of an MLP exchanged.
  const Tensor *up = file_.find("v.blk.0.ffn_up.weight"), *down = file_.find("v.blk.0.ffn_down.weight");
  const bool exchanged =
      up != nullptr && down != nullptr && up->rows() == spec_.body.hidden && up->rows() != down->rows();
  for (int layer = 0; layer < layers; ++layer) {
    const std::string prefix = fmt::format("v.blk.{}.", layer);
    for (StoredRole one : common_layer_roles()) {
      if (exchanged && one.role == "ffn_up")
        one.stem = "ffn_down";
      else if (exchanged && one.role == "ffn_down")
        one.stem = "ffn_up";
      if (one.role == "ffn_norm" && other_norm) one.stem = "attn_post_norm";
      ESP_CHECK(add_role(one, prefix, layer));
    }
  }
  const ProjectorKeys keys(file_);
  int part = 0;
  for (const std::int64_t layer : keys.set("is_deepstack_layers")) {
    for (const auto& [role, stem] :
         {std::pair("deep.norm", "norm"), std::pair("deep.0", "fc1"), std::pair("deep.2", "fc2")})
      ESP_CHECK(add(fmt::format("v.deepstack.{}.{}", layer, stem), names.of(Naming::hf, role, -1, part)));
    ++part;
  }
  return success();
}

// A tensor with its bias, if the file has them; without ".weight" too, as some families ask. The first of a name stays.
Result<> MmprojFile::add(const std::string& stored, const std::string& name) {
  for (const std::string_view ending : {"", ".weight", ".bias"}) {
    const Tensor* tensor = file_.find(stored + std::string(ending));
    if (tensor == nullptr) continue;
    std::vector<std::string> aliases = {name + std::string(ending)};
    if (ending.empty()) aliases.push_back(name + ".weight");
    if (ending == ".weight") aliases.push_back(name);
    if (places_.contains(aliases.front())) continue;
    ESP_TRY(Tensor made, turned_back(*tensor));
    made.name = aliases.front();
    for (std::string& alias : aliases) places_.emplace(std::move(alias), tensors_.size());
    tensors_.push_back(std::move(made));
  }
  // Ranges stand beside what is called ".linear" (Gemma 4).
  if (!name.ends_with(".linear")) return success();
  for (const char* range : {".input_min", ".input_max", ".output_min", ".output_max"})
    if (const Tensor* limit = file_.find(stored + range); limit != nullptr && limit->elements() == 1) {
      Tensor& made = tensors_.emplace_back(*limit);
      made.name = name.substr(0, name.size() - std::string_view(".linear").size()) + range;
      made.shape = {};
      places_.emplace(made.name, tensors_.size() - 1);
    }
  return success();
}

// --- what the converter has changed ---

std::span<std::byte> MmprojFile::owned(std::size_t bytes) {
  return owned_.emplace_back(bytes);
}

Result<Tensor> MmprojFile::turned_back(const Tensor& stored) {
  if (stored.name == "v.patch_embd.weight") {
    if (const Tensor* second = file_.find("v.patch_embd.weight.1")) return joined_frames(stored, *second);
    if (projector_->pixels_first && stored.shape.size() == 4 && block_shape(stored.dtype).elements == 1)
      return pixels_first(stored);
  }
  if (stored.name == "v.position_embd.weight" && projector_->lacks_own_row) return with_own_row(stored);
  const auto is_of = [&](std::string_view part) {
    return stored.name.ends_with(std::string(part) + ".weight") || stored.name.ends_with(std::string(part) + ".bias");
  };
  const bool each =
      projector_->head_rows == Projector::HeadRows::pairs || projector_->head_rows == Projector::HeadRows::thirds;
  if (each && (is_of(".attn_q") || is_of(".attn_k"))) return rows_in_order(stored, 1);
  if (projector_->head_rows == Projector::HeadRows::axes && is_of(".attn_qkv")) return rows_in_order(stored, 3);
  if (stored.name == "mm.soft_emb_norm.weight") return less_one(stored);
  return stored;
}

// [outputs, channels, height, width] twice -> [outputs, channels, 2, height, width].
Result<Tensor> MmprojFile::joined_frames(Tensor first, const Tensor& second) {
  if (first.shape.size() != 4 || first.shape != second.shape || first.dtype != second.dtype ||
      block_shape(first.dtype).elements != 1)
    return bad_file(fmt::format("{}: the two frames of v.patch_embd have shapes {} and {}, or are stored in blocks",
                                file_.name(), to_string(first.shape), to_string(second.shape)),
                    "v.patch_embd.weight.1");
  const std::span<std::byte> to = owned(2 * first.data.size());
  const std::int64_t planes = first.shape[0] * first.shape[1];
  const std::size_t plane = planes > 0 ? first.data.size() / static_cast<std::size_t>(planes) : 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(planes); ++i) {
    std::memcpy(to.data() + 2 * i * plane, first.data.data() + i * plane, plane);
    std::memcpy(to.data() + (2 * i + 1) * plane, second.data.data() + i * plane, plane);
  }
  first.shape.insert(first.shape.begin() + 2, 2);
  first.data = to;
  return first;
}

// Where row i of a head of so many rows is stored.
std::int64_t MmprojFile::stored_row(std::int64_t i, std::int64_t dim) const {
  const std::int64_t half = dim / 2, third = dim / 6;
  if (projector_->head_rows == Projector::HeadRows::thirds) {
    if (i >= 6 * third) return i;
    return i % (3 * third) / third * 2 * third + i / (3 * third) * third + i % third;
  }
  if (projector_->head_rows == Projector::HeadRows::pairs) return i % half * 2 + i / half;
  return i / 2 % 2 * half + i / 4 * 2 + i % 2;
}

// parts: 3 where queries, keys and values, which stay as they are, follow one another.
Result<Tensor> MmprojFile::rows_in_order(Tensor stored, std::int64_t parts) {
  const std::int64_t rows = stored.shape.front(),
                     heads = parts * ProjectorKeys(file_).number("attention.head_count", 1);
  if (heads < 1 || rows % (4 * heads) != 0 || (stored.shape.size() == 1 && block_shape(stored.dtype).elements != 1))
    return bad_file(fmt::format("{}: {} has {} rows, which {} heads do not divide into pairs", file_.name(),
                                stored.name, rows, heads),
                    stored.name);
  const std::size_t row = rows > 0 ? stored.data.size() / static_cast<std::size_t>(rows) : 0;
  const std::span<std::byte> to = owned(stored.data.size());
  const std::int64_t dim = rows / heads, turned = parts == 3 ? rows / 3 * 2 : rows;
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t from = i < turned ? i - i % dim + stored_row(i % dim, dim) : i;
    std::memcpy(to.data() + static_cast<std::size_t>(i) * row,
                stored.data.data() + static_cast<std::size_t>(from) * row, row);
  }
  stored.data = to;
  return stored;
}

// A row of zeros before the others.
Result<Tensor> MmprojFile::with_own_row(Tensor stored) {
  if (stored.shape.size() != 2)
    return bad_file(
        fmt::format("{}: {} has shape {}, but rows are needed", file_.name(), stored.name, to_string(stored.shape)),
        stored.name);
  const std::span<std::byte> to = owned(stored.data.size() + stored.row_bytes());
  std::ranges::copy(stored.data, to.begin() + static_cast<std::ptrdiff_t>(stored.row_bytes()));
  ++stored.shape.front();
  stored.data = to;
  return stored;
}

// [outputs, channels, height, width] -> [outputs, height * width * channels].
Tensor MmprojFile::pixels_first(Tensor stored) {
  const std::int64_t outputs = stored.shape[0], channels = stored.shape[1], pixels = stored.shape[2] * stored.shape[3];
  const std::size_t each = block_shape(stored.dtype).bytes;
  const std::span<std::byte> to = owned(stored.data.size());
  for (std::int64_t o = 0; o < outputs; ++o)
    for (std::int64_t c = 0; c < channels; ++c)
      for (std::int64_t p = 0; p < pixels; ++p)
        std::memcpy(to.data() + static_cast<std::size_t>((o * pixels + p) * channels + c) * each,
                    stored.data.data() + static_cast<std::size_t>((o * channels + c) * pixels + p) * each, each);
  stored.shape = {outputs, pixels * channels};
  stored.data = to;
  return stored;
}

// Gains that HF checkpoints store less one.
Result<Tensor> MmprojFile::less_one(Tensor stored) {
  if (stored.dtype != DType::f32)
    return bad_file(fmt::format("{}: {} is stored as another type than float32", file_.name(), stored.name),
                    stored.name);
  const std::span<std::byte> to = owned(stored.data.size());
  for (std::size_t at = 0; at + sizeof(float) <= to.size(); at += sizeof(float)) {
    float gain = 0;
    std::memcpy(&gain, stored.data.data() + at, sizeof gain);
    gain -= 1.0f;
    std::memcpy(to.data() + at, &gain, sizeof gain);
  }
  stored.data = to;
  return stored;
}

}  // namespace espalier
