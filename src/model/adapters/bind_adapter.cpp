#include "model/adapters/bind_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/json/json.h"  // in_quotes
#include "model/adapters/module_index.h"
#include "model/executor.h"
#include "model/program/builder.h"
#include "tensor/decode.h"

namespace espalier {
namespace {

Error cannot_adapt(std::string message, const std::string& module) {
  return {Error::Kind::unsupported, std::move(message), module, {}};
}

// Some rows of stored tensors, one below the other, in panels: as they are stored where they are alike, else as floats.
// plain: quantised ones become floats too.
struct StoredRow {
  const Tensor* tensor;
  std::int64_t row;
};
Result<PackedMatrix> pack_rows(const std::vector<StoredRow>& rows, std::int64_t k, bool plain) {
  const DType type = rows.front().tensor->dtype;
  const bool alike = std::ranges::all_of(rows, [&](const StoredRow& r) { return r.tensor->dtype == type; });
  const auto count = static_cast<std::int64_t>(rows.size());
  if (alike && !(plain && is_quantised(type)) && panel_layout(type).ok() && k % block_shape(type).elements == 0)
    return PackedMatrix::pack(type, count, k, [&](std::int64_t i) {
      const StoredRow& r = rows[static_cast<std::size_t>(i)];
      return r.tensor->row(r.row);
    });
  std::vector<float> all(rows.size() * static_cast<std::size_t>(k));
  const auto at = [&](std::int64_t i) {
    return std::span(all).subspan(static_cast<std::size_t>(i * k), static_cast<std::size_t>(k));
  };
  for (std::int64_t i = 0; i < count; ++i) {
    const StoredRow& r = rows[static_cast<std::size_t>(i)];
    decode_row(r.tensor->dtype, r.tensor->row(r.row), at(i));
  }
  return PackedMatrix::pack(DType::f32, count, k, [&](std::int64_t i) { return std::as_bytes(at(i)); });
}

// What is kept of one matrix while modules are looked at.
struct Gathered {
  std::map<std::size_t, std::pair<const AdapterFactors*, ModulePlace>> factors;  // by part
  std::map<std::size_t, const Tensor*> biases;                                   // instead of the model's
};

}  // namespace

class AdapterBinding {
 public:
  AdapterBinding(const AdapterFile& file, const AdapterHost& host)
      : file_(file), host_(host), out_(std::make_shared<LoraAdapter>()) {}

  Result<std::shared_ptr<const LoraAdapter>> bind() {
    ESP_CHECK(name_modules());
    for (const AdapterFactors& f : file_.factors) ESP_CHECK(f.looked_up ? take_table(f) : take_factors(f));
    for (const AdapterTensor& t : file_.tensors) ESP_CHECK(take_tensor(t));
    for (const auto& [id, gathered] : gathered_) ESP_CHECK(make_factors(id, gathered));
    ESP_CHECK(file_.file->intact());
    out_->print_ = file_.print;
    for (const auto& [id, whole] : out_->whole_)
      out_->bytes_ += whole.weights.bytes() + whole.bias.size() * sizeof(float);
    for (const auto& [id, factors] : out_->factors_) out_->bytes_ += factors.bytes();
    for (const auto& [id, table] : out_->tables_)
      out_->bytes_ +=
          table.down.size() * sizeof(float) + (table.rank > 0 ? table.up.bytes() : 0) + table.whole.data.size();
    if (host_.backend != nullptr) {
      ESP_TRY(out_->elsewhere_, host_.backend->send(*out_));
    }
    return std::shared_ptr<const LoraAdapter>(std::move(out_));
  }

 private:
  // In the other form of checkpoints the same program has other names; its matrices have the same numbers.
  Result<> name_modules() {
    named_ = &host_.program;
    if (file_.naming != host_.naming) {
      ESP_TRY(other_, Builder::build(host_.spec, nullptr, file_.naming));
      named_ = &other_;
      if (!alike(other_.needs, host_.program.needs))
        return cannot_adapt(
            fmt::format(
                "the adapter is {}, the model {}, and matrices of this architecture are not the same in both: "
                "convert the adapter (llama.cpp's convert_lora_to_gguf.py), or load the model in the adapter's form",
                form(file_.naming), form(host_.naming)),
            "lora_path");
    }
    index_ = ModuleIndex(*named_, host_.spec, file_.naming);
    return success();
  }
  static const char* form(Naming naming) { return naming == Naming::gguf ? "a GGUF file" : "in PEFT's layout"; }
  static bool alike(const Needs& a, const Needs& b) {
    return a.tables.size() == b.tables.size() &&
           std::ranges::equal(a.matrices, b.matrices, [](const MatrixNeed& x, const MatrixNeed& y) {
             return x.inputs == y.inputs && x.gated == y.gated &&
                    std::ranges::equal(x.parts, y.parts, {}, &MatrixPart::outputs, &MatrixPart::outputs);
           });
  }
  const MatrixNeed& need(MatrixId id) const { return named_->needs.matrices[static_cast<std::size_t>(id)]; }
  bool plain() const { return host_.backend != nullptr; }
  const Linear& matrix(MatrixId id) const { return host_.matrices[static_cast<std::size_t>(id)]; }
  bool is_paired(MatrixId id) const { return matrix(id).paired(); }

  Result<std::vector<ModulePlace>> places_of(const std::string& module) const {
    std::vector<ModulePlace> places = index_.find(module);
    if (places.empty())
      return cannot_adapt(
          fmt::format("the adapter changes {}, which is no linear layer of this model; it may change {}", module,
                      index_.examples()),
          module);
    for (const ModulePlace& place : places)
      if (index_.takes_no_factors(place.matrix))
        return cannot_adapt(
            fmt::format("the adapter changes {}, which is {} here and takes no adapter: merge it into the "
                        "model, or train without it",
                        module, index_.takes_no_factors(place.matrix)),
            module);
    return places;
  }

  Result<> take_factors(const AdapterFactors& f) {
    ESP_TRY(const auto places, places_of(f.module));
    for (const ModulePlace& place : places) {
      const MatrixPart& part = need(place.matrix).parts[place.part];
      const std::int64_t inputs = need(place.matrix).inputs;
      if (part.joined_rows != 1 || part.first_input != 0 || part.shape.size() != 2)
        return cannot_adapt(
            fmt::format("the adapter changes {}, which is no plain matrix and takes no adapter", f.module), f.module);
      const std::int64_t outputs = place.alone       ? part.outputs
                                   : part.transposed ? part.shape.back()
                                                     : part.shape.front();
      if (f.a->columns() != inputs || f.b->rows() != outputs)
        return bad_file(
            fmt::format("the adapter's factors of {} have shapes {} and {}, but the model's matrix is [{}, {}]",
                        f.module, to_string(f.a->shape), to_string(f.b->shape), outputs, inputs),
            f.module);
      gathered_[place.matrix].factors[place.part] = {&f, place};
      out_->rank_ = std::max(out_->rank_, f.rank());
    }
    return success();
  }

  Result<> take_tensor(const AdapterTensor& t) {
    if (t.ending == "weight") {
      if (const auto table = index_.table(t.module)) ESP_CHECK(replace_table(*table, t));
      const auto places = index_.find(t.module);
      for (const ModulePlace& place : places) ESP_CHECK(replace_matrix(place.matrix, t));
      if (!places.empty() || index_.table(t.module)) return success();
    }
    if (t.ending == "bias" && !index_.find(t.module).empty()) {
      ESP_TRY(const auto places, places_of(t.module));
      for (const ModulePlace& place : places) gathered_[place.matrix].biases[place.part] = t.tensor;
      return success();
    }
    return cannot_adapt(
        fmt::format("the adapter replaces {}.{}, which is not supported: it may replace embeddings, the "
                    "head and biases of linear layers (modules_to_save, bias)",
                    t.module, t.ending),
        t.module);
  }

  // --- matrices ---

  std::int64_t first_output(MatrixId id, std::size_t part) const {
    std::int64_t at = 0;
    for (std::size_t i = 0; i < part; ++i) at += need(id).parts[i].outputs;
    return at;
  }

  Result<> make_factors(MatrixId id, const Gathered& gathered) {
    LowRank made;
    std::vector<StoredRow> down;
    std::map<const AdapterFactors*, int> begins;  // several parts of one stored matrix share their A
    for (std::size_t p = 0; p < need(id).parts.size(); ++p) {
      const auto factors = gathered.factors.find(p);
      const auto bias = gathered.biases.find(p);
      if (factors == gathered.factors.end() && bias == gathered.biases.end()) continue;
      LowRankPart part;
      part.outputs = need(id).parts[p].outputs;
      part.first_output = first_output(id, p);
      if (is_paired(id)) part.turn = p == 0 ? LowRankPart::Turn::first : LowRankPart::Turn::second;
      if (factors != gathered.factors.end()) {
        const auto& [f, place] = factors->second;
        const auto [begin, is_new] = begins.try_emplace(f, static_cast<int>(down.size()));
        if (is_new)
          for (std::int64_t r = 0; r < f->rank(); ++r) down.push_back({f->a, r});
        part.first = begin->second;
        part.rank = f->rank();
        part.scale = f->scale;
        ESP_CHECK(pack_up(need(id).parts[p], *f, place, part));
      }
      if (bias != gathered.biases.end()) ESP_CHECK(add_bias(id, p, *bias->second, part));
      made.parts.push_back(std::move(part));
    }
    if (!down.empty()) {
      ESP_TRY(made.down, pack_rows(down, need(id).inputs, plain()));
    }
    out_->factors_.emplace(id, std::move(made));
    return success();
  }

  static std::int64_t stored(const MatrixPart& part, const ModulePlace& place, std::int64_t output) {
    return place.alone ? output : part.rows.stored(output);
  }

  Result<> pack_up(const MatrixPart& part, const AdapterFactors& f, const ModulePlace& place, LowRankPart& to) const {
    std::vector<StoredRow> rows;
    for (std::int64_t i = 0; i < part.outputs; ++i) rows.push_back({f.b, stored(part, place, i)});
    ESP_TRY(const PackedMatrix packed, pack_rows(rows, f.rank(), plain()));
    ESP_TRY(to.up, packed.trimmed());
    if (f.bias == nullptr) return success();
    const std::vector<float> values = decode(*f.bias);
    if (std::cmp_not_equal(values.size(), f.b->rows()))
      return bad_file(
          fmt::format("the bias of the adapter's {} has {} values, not {}", f.module, values.size(), f.b->rows()),
          f.module);
    for (const StoredRow& r : rows) to.bias.push_back(f.scale * values[static_cast<std::size_t>(r.row)]);
    return success();
  }

  // What has to be added to the model's bias to give the adapter's.
  Result<> add_bias(MatrixId id, std::size_t p, const Tensor& tensor, LowRankPart& to) const {
    const MatrixPart& part = need(id).parts[p];
    const std::vector<float> values = decode(tensor);
    const float* const own = matrix(id).bias();
    to.bias.resize(static_cast<std::size_t>(part.outputs));
    for (std::int64_t i = 0; i < part.outputs; ++i) {
      const std::int64_t at = part.bias_of(i);
      if (std::cmp_greater_equal(at, values.size()))
        return bad_file(fmt::format("{} of the adapter has {} values, which are too few", tensor.name, values.size()),
                        tensor.name);
      to.bias[static_cast<std::size_t>(i)] +=
          values[static_cast<std::size_t>(at)] - (own ? own[first_output(id, p) + i] : 0.0f);
    }
    return success();
  }

  Result<> replace_matrix(MatrixId id, const AdapterTensor& t) {
    const MatrixNeed& of = need(id);
    if (const char* why = index_.stays(id))
      return cannot_adapt(
          fmt::format("the adapter replaces {}, which is {} and cannot be replaced; the head can", t.module, why),
          t.module);
    if (t.tensor->shape != of.parts.front().shape || of.parts.front().transposed)
      return bad_file(fmt::format("the adapter's {} has shape {}, but the model's has {}", t.module,
                                  to_string(t.tensor->shape), to_string(of.parts.front().shape)),
                      t.module);
    WholeMatrix whole;
    ESP_TRY(whole.weights, PackedMatrix::pack(*t.tensor));
    if (const float* bias = matrix(id).bias()) whole.bias.assign(bias, bias + matrix(id).outputs());
    out_->whole_.insert_or_assign(id, std::move(whole));
    return success();
  }

  // --- tables ---

  Result<> take_table(const AdapterFactors& f) {
    const auto id = index_.table(f.module);
    if (!id)
      return cannot_adapt(fmt::format("the adapter changes {}, which is no embedding of this model", f.module),
                          f.module);
    const TableNeed& table = named_->needs.tables[static_cast<std::size_t>(*id)];
    const std::int64_t rows = f.turned ? f.a->rows() : f.a->columns();
    if (rows != table.shape.front() || f.b->rows() != table.shape.back())
      return bad_file(fmt::format("the adapter's factors of {} have shapes {} and {}, but the model's table has {}",
                                  f.module, to_string(f.a->shape), to_string(f.b->shape), to_string(table.shape)),
                      f.module);
    AdaptedTable& made = out_->tables_[*id];
    made.rank = f.rank();
    made.scale = f.scale;
    made.down = by_row(decode(*f.a), f);
    std::vector<StoredRow> up;
    for (std::int64_t i = 0; i < f.b->rows(); ++i) up.push_back({f.b, i});
    ESP_TRY(made.up, pack_rows(up, f.rank(), false));
    out_->rank_ = std::max(out_->rank_, f.rank());
    return success();
  }

  // [rank, rows] turned, so that what a token has lies together.
  static std::vector<float> by_row(std::vector<float> a, const AdapterFactors& f) {
    if (f.turned) return a;
    const auto rank = static_cast<std::size_t>(f.rank()), rows = a.size() / rank;
    std::vector<float> out(a.size());
    for (std::size_t r = 0; r < rank; ++r)
      for (std::size_t i = 0; i < rows; ++i) out[i * rank + r] = a[r * rows + i];
    return out;
  }

  Result<> replace_table(TableId id, const AdapterTensor& t) {
    const TableNeed& table = named_->needs.tables[static_cast<std::size_t>(id)];
    if (t.tensor->shape != table.shape)
      return bad_file(
          fmt::format("the adapter's {} has shape {}, but the model's has {}: added tokens need a model that "
                      "has them",
                      t.module, to_string(t.tensor->shape), to_string(table.shape)),
          t.module);
    out_->tables_[id].whole = *t.tensor;
    out_->file_ = file_.file;
    return success();
  }

  const AdapterFile& file_;
  const AdapterHost& host_;
  Program other_;
  const Program* named_ = nullptr;
  ModuleIndex index_;
  std::map<MatrixId, Gathered> gathered_;
  std::shared_ptr<LoraAdapter> out_;
};

Result<std::shared_ptr<const LoraAdapter>> bind_adapter(const AdapterFile& file, const AdapterHost& host) {
  return AdapterBinding(file, host).bind();
}

}  // namespace espalier
