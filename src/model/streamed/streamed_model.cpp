#include "model/streamed/streamed_model.h"

#include <algorithm>
#include <optional>
#include <set>

#include "model/cpu/lower.h"
#include "model/cpu/stages/products.h"
#include "model/program/builder.h"
#include "tensor/page_buffer.h"

namespace espalier {
namespace {

void add_range(std::vector<MatrixId>& to, MatrixId first, int count) {
  for (int i = 0; first >= 0 && i < count; ++i) to.push_back(first + i);
}

std::vector<MatrixId> matrices_in(const Op& op) {
  std::vector<MatrixId> all;
  if (const auto* product = std::get_if<MatmulOp>(&op)) add_range(all, product->matrix, 1);
  if (const auto* gated = std::get_if<GatedMatmulOp>(&op)) add_range(all, gated->matrix, 1);
  if (const auto* grouped = std::get_if<GroupedMatmulOp>(&op)) add_range(all, grouped->first, grouped->groups);
  if (const auto* experts = std::get_if<ExpertsOp>(&op)) {
    add_range(all, experts->gate_up, experts->count);
    add_range(all, experts->down, experts->count);
  }
  return all;
}

std::vector<FieldId> fields_in(const Op& op) {
  if (const auto* store = std::get_if<StoreOp>(&op)) return {store->field};
  if (const auto* before = std::get_if<LoadBeforeOp>(&op)) return {before->field};
  if (const auto* choose = std::get_if<ChooseOp>(&op)) return {choose->field};
  if (const auto* attend = std::get_if<AttendOp>(&op)) {
    std::vector<FieldId> fields{attend->field};
    if (attend->then >= 0) fields.push_back(attend->then);
    return fields;
  }
  return {};
}

// Keys and values of one field, of all rows.
struct KeptField {
  PageBuffer keys, values;
};

struct Section {
  std::vector<Op> ops;
  std::vector<MatrixId> matrices;
  int layer = -1;
};

}  // namespace

struct StreamedModel::Impl {
  const Weights& weights;
  Program program;
  std::vector<int> widths;
  Loaded loaded;
  std::vector<Section> sections;
  std::optional<HeadOp> head;
  std::vector<int> first_section, last_section;  // of each buffer
  std::vector<int> field_ends;                   // the last section that reads each field

  std::vector<TokenId> tokens;
  std::vector<Slot> slots;
  std::vector<int> all_rows;
  std::vector<KvRun> runs;
  std::vector<BatchSequence> sequences;
  std::vector<float> states;
  std::vector<PageBuffer> memory;  // of buffers that outlive a section
  std::vector<Place> brought;
  std::vector<KeptField> kept;
  std::vector<KvLayer> layers;
  std::unique_ptr<Batch> batch;
  KvView view;
  std::unique_ptr<Pass> pass;
  bool head_loaded = false;

  class Observer final : public ProductObserver {
   public:
    Observer(const std::vector<Linear>& all, const See& see) : all_(all), see_(see) {}
    void see(const Linear& linear, const RowBlock& rows) override {
      see_(static_cast<MatrixId>(&linear - all_.data()), static_cast<const float*>(rows.data),
           static_cast<std::int64_t>(rows.stride / sizeof(float)), rows.rows);
    }

   private:
    const std::vector<Linear>& all_;
    const See& see_;
  };

  Impl(Program made, const Weights& of, ComputeTeam& team)
      : weights(of),
        program(std::move(made)),
        widths(program.buffers),
        loaded{{cpu_kernels(), team, Activations::f32}, {}, {}, {}} {}

  Result<> prepare() {
    cut();
    loaded.matrices.resize(program.needs.matrices.size());
    for (const TableNeed& need : program.needs.tables) {
      ESP_TRY(const Tensor* table, weights.get(need.tensor, need.shape));
      if (table->maker)
        return Error{Error::Kind::unsupported,
                     "tensor " + table->name +
                         " is quantised, but rows are looked up in it, which is supported for "
                         "plain types and GGUF's",
                     table->name,
                     {}};
      loaded.tables.push_back(table);
    }
    for (const RopeSpec& rope : program.ropes) loaded.ropes.emplace_back(rope);
    return success();
  }

  void cut() {
    sections.emplace_back();
    for (Op& op : program.ops) {
      if (std::holds_alternative<KeepRowsOp>(op)) continue;
      if (const auto* last = std::get_if<HeadOp>(&op)) {
        head = *last;
        continue;
      }
      const std::vector<MatrixId> read = matrices_in(op);
      const int layer =
          read.empty() ? -1
                       : layer_in(program.needs.matrices[static_cast<std::size_t>(read.front())].parts.front().tensor);
      if (layer >= 0 && sections.back().layer >= 0 && layer != sections.back().layer) sections.emplace_back();
      Section& section = sections.back();
      if (layer >= 0) section.layer = layer;
      for (const MatrixId id : read)
        if (std::ranges::find(section.matrices, id) == section.matrices.end()) section.matrices.push_back(id);
      section.ops.push_back(std::move(op));
    }
    program.ops.clear();
    program.vocabulary = 1;
    find_lives();
  }

  void find_lives() {
    const auto count = static_cast<int>(sections.size());
    first_section.assign(widths.size(), count);
    last_section.assign(widths.size(), -1);
    field_ends.assign(program.keeps.per_token.size(), -1);
    for (int s = 0; s < count; ++s)
      for (const Op& op : sections[static_cast<std::size_t>(s)].ops) {
        for_each_place(op, [&](const Rows& rows, bool) {
          const auto b = static_cast<std::size_t>(rows.buffer);
          first_section[b] = std::min(first_section[b], s);
          last_section[b] = std::max(last_section[b], s);
        });
        for (const FieldId field : fields_in(op)) field_ends[static_cast<std::size_t>(field)] = s;
      }
    if (head) last_section[static_cast<std::size_t>(head->in.buffer)] = count;
  }

  Result<> begin(std::span<const TokenId> text, int length) {
    const auto rows = static_cast<int>(text.size());
    tokens.assign(text.begin(), text.end());
    slots.clear(), all_rows.clear(), runs.clear(), sequences.clear();
    for (int i = 0; i < rows; ++i) slots.push_back(i), all_rows.push_back(i);
    const int count = rows / length;
    for (int i = 0; i < count; ++i) runs.push_back({i * length, length});
    states.assign(static_cast<std::size_t>(count) * program.keeps.state_floats, 0.0f);
    for (int i = 0; i < count; ++i) {
      BatchSequence sequence{i * length, length, 0, {&runs[static_cast<std::size_t>(i)], 1}};
      if (program.keeps.state_floats > 0)
        sequence.state_out = states.data() + static_cast<std::size_t>(i) * program.keeps.state_floats;
      sequence.rope_length = length;
      sequences.push_back(sequence);
    }
    batch = std::make_unique<Batch>(Batch{tokens, slots, sequences, all_rows});
    kept.clear();
    kept.resize(program.keeps.per_token.size());
    layers.assign(program.keeps.per_token.size(), KvLayer{});
    memory.clear();
    memory.resize(widths.size());
    brought.assign(widths.size(), Place{});
    view = KvView{layers, {}};
    pass = std::make_unique<Pass>(*batch, view, loaded.with);
    for (RopeTables& rope : loaded.ropes) rope.reserve(pass->positions(), pass->rope_lengths());
    return success();
  }

  int rows() const { return static_cast<int>(tokens.size()); }

  Result<> make_field(FieldId id) {
    const auto f = static_cast<std::size_t>(id);
    if (kept[f].keys.data() != nullptr) return success();
    const TokenField& field = program.keeps.per_token[f];
    const auto segments = static_cast<std::size_t>((rows() + kSegmentSlots - 1) / kSegmentSlots);
    const std::size_t key = head_bytes(KvType::f32, field.key_dim),
                      value = field.latent ? 0 : head_bytes(KvType::f32, field.value_dim);
    const std::size_t segment = std::max(key, value) * static_cast<std::size_t>(field.heads);
    ESP_TRY(kept[f].keys, PageBuffer::allocate(segment * segments));
    if (value > 0) {
      ESP_TRY(kept[f].values, PageBuffer::allocate(segment * segments));
    }
    layers[f] = KvLayer{KvType::f32,
                        kept[f].keys.data(),
                        value > 0 ? kept[f].values.data() : nullptr,
                        nullptr,
                        nullptr,
                        key,
                        value,
                        segment,
                        0};
    if (field.latent) layers[f].form = KvForm::latent;
    return success();
  }

  // What the section needs of memory that outlives it.
  Result<> make_room(int s) {
    for (std::size_t b = 0; b < widths.size(); ++b) {
      const bool shared = first_section[b] < last_section[b];
      if (first_section[b] == s && shared) {
        ESP_TRY(memory[b], PageBuffer::allocate(static_cast<std::size_t>(widths[b]) * sizeof(float) *
                                                static_cast<std::size_t>(rows())));
        brought[b] = {reinterpret_cast<float*>(memory[b].data()), widths[b]};
      }
    }
    for (const Op& op : sections[static_cast<std::size_t>(s)].ops)
      for (const FieldId field : fields_in(op)) ESP_CHECK(make_field(field));
    return success();
  }

  void give_back(int s) {
    for (std::size_t b = 0; b < widths.size(); ++b)
      if (last_section[b] == s && brought[b].first != nullptr) memory[b] = {}, brought[b] = {};
    for (std::size_t f = 0; f < kept.size(); ++f)
      if (field_ends[f] == s) kept[f] = {}, layers[f] = {};
  }

  Result<> load(MatrixId id) {
    const MatrixNeed& need = program.needs.matrices[static_cast<std::size_t>(id)];
    ESP_TRY(loaded.matrices[static_cast<std::size_t>(id)], Linear::load(need, weights, loaded.with.team));
    for (const MatrixPart& part : need.parts)
      if (const Tensor* tensor = weights.find(part.tensor)) weights.forget(*tensor);
    return success();
  }

  Result<> run(int s, const See& see) {
    Section& section = sections[static_cast<std::size_t>(s)];
    if (s > 0) give_back(s - 1);
    ESP_CHECK(make_room(s));
    for (const MatrixId id : section.matrices) ESP_CHECK(load(id));
    for (std::size_t b = 0; b < widths.size(); ++b)
      program.buffers[b] = first_section[b] <= s && s <= last_section[b] ? widths[b] : 1;
    program.ops.swap(section.ops);
    auto lowered = lower(program, loaded, rows(), brought);
    if (lowered.ok()) {
      Observer observer(loaded.matrices, see);
      loaded.with.observer = see ? &observer : nullptr;
      for (const auto& stage : lowered->stages) stage->run(*pass);
      loaded.with.observer = nullptr;
    }
    program.ops.swap(section.ops);
    for (const MatrixId id : section.matrices) loaded.matrices[static_cast<std::size_t>(id)] = Linear();
    if (!lowered.ok()) return lowered.error();
    return success();
  }

  Result<> logits(int first, int count, std::vector<float>& out) {
    if (!head_loaded) {
      ESP_CHECK(load(head->matrix));
      head_loaded = true;
    }
    const Linear& linear = loaded.matrices[static_cast<std::size_t>(head->matrix)];
    const auto width = static_cast<std::size_t>(linear.outputs());
    out.resize(static_cast<std::size_t>(count) * width);
    const Place from = brought[static_cast<std::size_t>(head->in.buffer)];
    InputForms in;
    in.as(RowFormat::f32) = {RowFormat::f32, from.row(first) + head->in.first,
                             static_cast<std::size_t>(from.stride) * sizeof(float), count};
    linear.apply(loaded.with, in, out.data(), static_cast<std::int64_t>(width), count, {});
    const CpuKernels& cpu = loaded.with.cpu;
    loaded.with.team.run(count, [&](int row) {
      float* const at = out.data() + static_cast<std::size_t>(row) * width;
      if (head->scale != 1.0f) cpu.functions.scale(head->scale, at, at, static_cast<std::int64_t>(width));
      if (head->cap != 0.0f) cpu.functions.soft_cap(head->cap, at, at, static_cast<std::int64_t>(width));
    });
    return success();
  }
};

StreamedModel::StreamedModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StreamedModel::~StreamedModel() = default;

Result<std::unique_ptr<StreamedModel>> StreamedModel::open(const ModelSpec& spec, const Weights& weights,
                                                           ComputeTeam& team) {
  if (spec.pooled || spec.both_ways)
    return Error{Error::Kind::unsupported,
                 "the model gives no next token, so no text is carried out layer by layer",
                 "model",
                 {}};
  ESP_TRY(Program program, Builder::build(spec, &weights));
  auto impl = std::make_unique<Impl>(std::move(program), weights, team);
  ESP_CHECK(impl->prepare());
  return std::unique_ptr<StreamedModel>(new StreamedModel(std::move(impl)));
}

int StreamedModel::sections() const {
  return static_cast<int>(impl_->sections.size());
}
int StreamedModel::layer_of(int section) const {
  return impl_->sections[static_cast<std::size_t>(section)].layer;
}
const std::vector<MatrixNeed>& StreamedModel::matrices() const {
  return impl_->program.needs.matrices;
}
std::vector<MatrixId> StreamedModel::matrices_of(int section) const {
  return impl_->sections[static_cast<std::size_t>(section)].matrices;
}
MatrixId StreamedModel::head() const {
  return impl_->head ? impl_->head->matrix : -1;
}
int StreamedModel::vocabulary() const {
  return impl_->head ? static_cast<int>(impl_->program.needs.matrices[static_cast<std::size_t>(head())].outputs()) : 0;
}
Result<> StreamedModel::begin(std::span<const TokenId> tokens, int length) {
  return impl_->begin(tokens, length);
}
Result<> StreamedModel::run(int section, const See& see) {
  return impl_->run(section, see);
}

std::vector<StreamedModel::Carried> StreamedModel::carried(int section) const {
  std::set<int> written;
  for (const Op& op : impl_->sections[static_cast<std::size_t>(section)].ops)
    for_each_place(op, [&](const Rows& rows, bool writes) {
      if (writes) written.insert(rows.buffer);
    });
  std::vector<Carried> all;
  for (const int buffer : written) {
    const auto b = static_cast<std::size_t>(buffer);
    if (impl_->last_section[b] > section && impl_->brought[b].first != nullptr)
      all.push_back({impl_->brought[b], impl_->widths[b]});
  }
  return all;
}

StreamedModel::Carried StreamedModel::head_input() const {
  const Rows& in = impl_->head->in;
  Place place = impl_->brought[static_cast<std::size_t>(in.buffer)];
  place.first += in.first;
  return {place, in.width};
}

Result<> StreamedModel::logits(int first, int count, std::vector<float>& out) {
  return impl_->logits(first, count, out);
}

}  // namespace espalier
