// Folders of safetensors in compressed-tensors' layout.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>

#include "model/program/builder.h"
#include "model/program/linear_layers.h"
#include "quantize/column_scales.h"
#include "quantize/job.h"
#include "quantize/matrix_work.h"
#include "tensor/file/open_file.h"

namespace espalier::quantizer {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kShardBytes = std::uint64_t{5} << 30;

// One tensor of the output's files.
struct Entry {
  std::string name, dtype;
  Shape shape;
  std::uint64_t bytes = 0;
};

struct Planned {
  Piece piece;
  std::vector<Entry> entries;
  int layer = -1;
};

std::string type_word(DType type) {
  switch (type) {
    case DType::f32:
      return "F32";
    case DType::f16:
      return "F16";
    case DType::bf16:
      return "BF16";
    case DType::f64:
      return "F64";
    case DType::i8:
      return "I8";
    case DType::u8:
      return "U8";
    case DType::i16:
      return "I16";
    case DType::i32:
      return "I32";
    case DType::i64:
      return "I64";
    case DType::boolean:
      return "BOOL";
    default:
      return {};
  }
}

Entry entry(std::string name, DType type, Shape shape) {
  const std::uint64_t bytes = stored_bytes(type, shape).value_or(0);
  return {std::move(name), type_word(type), std::move(shape), bytes};
}

DType scale_type(const Tensor& tensor) {
  return tensor.dtype == DType::f16 || tensor.dtype == DType::f32 ? tensor.dtype : DType::bf16;
}

class TensorsJob {
 public:
  TensorsJob(const Source& source, const JobWishes& wishes) : source_(source), wishes_(wishes) {}

  Result<Job> make() {
    ESP_CHECK(find_matrices());
    ESP_CHECK(choose_group());
    ESP_CHECK(use_measurements());
    for (const Tensor& tensor : source_.tensors().tensors()) {
      if (matrices_.contains(tensor.name))
        add_matrix(tensor);
      else
        ESP_CHECK(add_as_is(tensor));
    }
    std::ranges::stable_sort(planned_, {}, &Planned::layer);
    lay_out();
    ESP_CHECK(put_beside());
    job_.folder = true;
    return std::move(job_);
  }

 private:
  const Target& target() const { return wishes_.target; }

  // What transformers makes linear layers of: stored [outputs, inputs], and neither embedding nor head nor router.
  Result<> find_matrices() {
    ESP_TRY(const Program program, Builder::build(source_.files.config.spec, source_.weights.get()));
    const LinearLayers layers = linear_layers(program, source_.files.config.spec);
    std::size_t other = layers.others.size(), uneven = 0;
    for (const std::string& name : layers.linear) {
      const Tensor* tensor = source_.weights->find(name);
      if (tensor == nullptr) continue;
      const bool linear = tensor->shape.size() == 2 && tensor->name.ends_with(".weight"),
                 even = tensor->columns() % 32 == 0;
      other += linear ? 0 : 1;
      uneven += linear && !even ? 1 : 0;
      if (linear && even) matrices_.insert(tensor->name);
    }
    if (matrices_.empty())
      return Error{Error::Kind::unsupported,
                   "the model has no linear layers of their own; a GGUF type (--type q4_k_m) would work",
                   "type",
                   {}};
    if (other > 0) job_.notes.push_back(fmt::format("{} tensors stay as they are: they are no linear layers", other));
    if (uneven > 0)
      job_.notes.push_back(fmt::format("{} matrices stay as they are: their inputs are no multiple of 32", uneven));
    return success();
  }

  Result<> choose_group() {
    if (!target().grouped) {
      if (wishes_.group > 0)
        return bad_request(fmt::format("--group-size is for w4a16; {} has a scale for each output", target().name),
                           "group_size");
      return success();
    }
    const auto fits = [&](int group) {
      return std::ranges::all_of(
          matrices_, [&](const std::string& name) { return source_.tensors().find(name)->columns() % group == 0; });
    };
    if (wishes_.group > 0) {
      if (!fits(wishes_.group))
        return bad_request(fmt::format("--group-size {} does not divide the inputs of all matrices; {} would work",
                                       wishes_.group, fits(64) ? 64 : 32),
                           "group_size");
      group_ = wishes_.group;
      return success();
    }
    group_ = fits(128) ? 128 : fits(64) ? 64 : 32;
    if (group_ != 128)
      job_.notes.push_back(fmt::format("groups have {} inputs: 128 do not divide those of all matrices", group_));
    return success();
  }

  Result<> use_measurements() {
    if (wishes_.measured == nullptr) return success();
    scales_ = choose_column_scales({source_.files.config.spec, *source_.weights, *wishes_.measured, target(), group_},
                                   *wishes_.team);
    if (target().grouped && wishes_.text != nullptr) {
      ESP_TRY(auto products,
              InputProducts::start(source_.files.config.spec, *source_.weights, *wishes_.text, *wishes_.team));
      products_ = std::move(products);
    }
    return success();
  }

  MatrixWork work_of(const Tensor& tensor) const {
    MatrixWork work;
    work.tensor = &tensor;
    work.form = {target().bits, target().symmetric, scale_type(tensor)};
    work.group = group_ > 0 ? group_ : tensor.columns();
    work.packed = !target().int8_activations;
    if (const auto found = scales_.columns.find(tensor.name); found != scales_.columns.end())
      work.columns = found->second;
    if (const auto found = scales_.rows.find(tensor.name); found != scales_.rows.end()) work.rows = found->second;
    if (wishes_.measured != nullptr) work.importance = wishes_.measured->importance({&tensor});
    for (std::size_t k = 0; k < work.importance.size() && k < work.columns.size(); ++k)
      work.importance[k] /= work.columns[k] * work.columns[k];
    double mean = 0;
    for (const float one : work.importance) mean += static_cast<double>(one);
    mean /= static_cast<double>(std::max<std::size_t>(1, work.importance.size()));
    for (float& one : work.importance) one = mean > 0 ? one / static_cast<float>(mean) + 1e-4f : 1.0f;
    work.products = products_;
    return work;
  }

  void add_matrix(const Tensor& tensor) {
    const MatrixWork work = work_of(tensor);
    const std::string stem = tensor.name.substr(0, tensor.name.size() - std::string_view("weight").size());
    Planned planned;
    planned.layer = layer_in(tensor.name);
    if (work.packed) {
      planned.entries = {entry(stem + "weight_packed", DType::i32, {work.outputs(), work.words()}),
                         entry(stem + "weight_scale", work.form.scale_type, {work.outputs(), work.groups()}),
                         entry(stem + "weight_shape", DType::i64, {2})};
      if (!work.form.symmetric)
        planned.entries.push_back(entry(stem + "weight_zero_point", DType::i32,
                                        {(work.outputs() + work.in_word() - 1) / work.in_word(), work.groups()}));
    } else {
      planned.entries = {entry(stem + "weight", DType::i8, {work.outputs(), work.inputs()}),
                         entry(stem + "weight_scale", work.form.scale_type, {work.outputs(), 1})};
    }
    Piece& piece = planned.piece;
    piece.name = tensor.name;
    piece.from = std::string(name(tensor.dtype));
    piece.to = fmt::format("int{}{}", target().bits, group_ > 0 ? fmt::format("/{}", group_) : "");
    piece.shape = tensor.shape;
    piece.of = {&tensor};
    piece.stored = tensor.stored_size();
    piece.make = [work](const Output& output, const std::vector<Slot>& slots, ComputeTeam& team) {
      return make_matrix(work, output, slots, team);
    };
    planned_.push_back(std::move(planned));
  }

  // Norms, embeddings and what else stays; gains divided where columns were multiplied.
  Result<> add_as_is(const Tensor& tensor) {
    const DType type = tensor.maker || is_quantised(tensor.dtype) ? DType::bf16 : tensor.dtype;
    if (type_word(type).empty())
      return Error{Error::Kind::unsupported,
                   fmt::format("tensor {} is {}, which is not written here", tensor.name, name(tensor.dtype)),
                   tensor.name,
                   {}};
    Planned planned;
    planned.layer = layer_in(tensor.name);
    planned.entries = {entry(tensor.name, type, tensor.shape)};
    SourceRows rows = rows_of(tensor);
    if (const auto found = scales_.gains.find(tensor.name); found != scales_.gains.end()) {
      rows.whole = nullptr;
      rows.read = [&tensor, gain = found->second](std::int64_t row, std::span<float> out) {
        read_row(tensor, row, out);
        const float more = gain.one_plus ? 1.0f : 0.0f;
        for (std::size_t k = 0; k < out.size(); ++k) out[k] = (out[k] + more) / gain.by[k] - more;
      };
    } else if (tensor.shape.size() == 2 && tensor.name.ends_with(".weight")) {
      ignored_.push_back(tensor.name.substr(0, tensor.name.size() - std::string_view(".weight").size()));
    }
    planned.piece = gguf_piece(tensor.name, std::move(rows), type, {});
    planned_.push_back(std::move(planned));
    return success();
  }

  void lay_out() {
    std::vector<std::uint64_t> sizes{0};
    std::vector<int> shard;
    for (const Planned& planned : planned_) {
      std::uint64_t bytes = 0;
      for (const Entry& one : planned.entries) bytes += one.bytes;
      if (sizes.back() > 0 && sizes.back() + bytes > kShardBytes) sizes.push_back(0);
      sizes.back() += bytes;
      shard.push_back(static_cast<int>(sizes.size()) - 1);
    }
    const auto shards = static_cast<int>(sizes.size());
    Json index = Json::object();
    for (int s = 0; s < shards; ++s) {
      OutputFile file;
      file.name = shards == 1 ? "model.safetensors" : fmt::format("model-{:05}-of-{:05}.safetensors", s + 1, shards);
      Json head = {{"__metadata__", {{"format", "pt"}}}};
      std::uint64_t at = 0;
      for (std::size_t i = 0; i < planned_.size(); ++i)
        if (shard[i] == s)
          for (const Entry& one : planned_[i].entries) {
            head[one.name] = {{"dtype", one.dtype}, {"shape", one.shape}, {"data_offsets", {at, at + one.bytes}}};
            planned_[i].piece.slots.push_back({s, at, one.bytes});
            index[one.name] = file.name;
            at += one.bytes;
          }
      std::string text = head.dump();
      text.append((8 - text.size() % 8) % 8, ' ');
      const std::uint64_t length = text.size();
      file.head.assign(reinterpret_cast<const char*>(&length), sizeof length);
      file.head += text;
      file.bytes = file.head.size() + at;
      for (Planned& planned : planned_)
        for (Slot& slot : planned.piece.slots)
          if (slot.file == s) slot.offset += file.head.size();
      job_.files.push_back(std::move(file));
    }
    std::uint64_t total = 0;
    for (const std::uint64_t size : sizes) total += size;
    if (shards > 1)
      job_.beside.emplace_back("model.safetensors.index.json",
                               Json{{"metadata", {{"total_size", total}}}, {"weight_map", index}}.dump(2) + "\n");
    for (Planned& planned : planned_) job_.pieces.push_back(std::move(planned.piece));
  }

  Json quantisation() const {
    Json weights = {{"num_bits", target().bits},
                    {"type", "int"},
                    {"symmetric", target().symmetric},
                    {"strategy", group_ > 0 ? "group" : "channel"},
                    {"group_size", group_ > 0 ? Json(group_) : Json()},
                    {"dynamic", false},
                    {"observer", "minmax"},
                    {"observer_kwargs", Json::object()},
                    {"actorder", nullptr},
                    {"block_structure", nullptr}};
    Json activations;
    if (target().int8_activations)
      activations = {{"num_bits", 8},         {"type", "int"},
                     {"symmetric", true},     {"strategy", "token"},
                     {"group_size", nullptr}, {"dynamic", true},
                     {"observer", nullptr},   {"observer_kwargs", Json::object()},
                     {"actorder", nullptr},   {"block_structure", nullptr}};
    std::vector<std::string> ignore = ignored_;
    if (std::ranges::find(ignore, "lm_head") == ignore.end()) ignore.emplace_back("lm_head");
    const char* const format = target().int8_activations ? "int-quantized" : "pack-quantized";
    return {{"quant_method", "compressed-tensors"},
            {"format", format},
            {"quantization_status", "compressed"},
            {"config_groups",
             {{"group_0",
               {{"targets", Json::array({"Linear"})},
                {"weights", std::move(weights)},
                {"input_activations", std::move(activations)},
                {"output_activations", nullptr},
                {"format", format}}}}},
            {"ignore", std::move(ignore)},
            {"kv_cache_scheme", nullptr},
            {"global_compression_ratio", nullptr}};
  }

  // The tokenizer and whatever else stands beside the weights.
  Result<> put_beside() {
    Json config = source_.config;
    config["quantization_config"] = quantisation();
    job_.beside.emplace_back("config.json", config.dump(2) + "\n");
    constexpr std::string_view kEndings[] = {".json", ".txt", ".model", ".jinja", ".tiktoken", ".py", ".md"};
    constexpr std::uintmax_t kMost = 64 << 20;
    std::error_code failed;
    std::vector<fs::path> found;
    for (auto at = fs::recursive_directory_iterator(source_.path, failed); at != fs::recursive_directory_iterator();
         at.increment(failed)) {
      if (failed) break;
      if (at.depth() > 1 || at->path().filename().string().starts_with('.')) {
        at.disable_recursion_pending();
        continue;
      }
      if (at->is_regular_file(failed) && at->file_size(failed) <= kMost) found.push_back(at->path());
    }
    std::ranges::sort(found);
    for (const fs::path& path : found) {
      const std::string name = path.lexically_relative(source_.path).generic_string();
      const bool taken = std::ranges::any_of(kEndings, [&](std::string_view end) { return name.ends_with(end); }) ||
                         path.filename().string().starts_with("LICENSE");
      if (!taken || name == "config.json" || name.ends_with(".safetensors.index.json")) continue;
      auto file = open_beneath(path.parent_path(), path.filename().string());
      auto text = file.ok() ? read_text(*file, kMost) : Result<std::string>(file.error());
      if (text.ok())
        job_.beside.emplace_back(name, std::move(text).value());
      else
        job_.notes.push_back(fmt::format("{} is left out: {}", name, text.error().message));
    }
    return success();
  }

  const Source& source_;
  const JobWishes& wishes_;
  Job job_;
  std::set<std::string> matrices_;
  std::vector<Planned> planned_;
  std::vector<std::string> ignored_;
  ColumnScales scales_;
  std::shared_ptr<InputProducts> products_;
  int group_ = 0;
};

}  // namespace

Result<Job> tensors_from_folder(const Source& source, const JobWishes& wishes) {
  return TensorsJob(source, wishes).make();
}

}  // namespace espalier::quantizer
