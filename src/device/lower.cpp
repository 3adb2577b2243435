#include "device/lower.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "device/stages.h"
#include "model/cpu/conversions.h"
#include "tensor/decode.h"

namespace espalier::device {
namespace {

using cuda::RowsAs;

std::size_t row_bytes(RowsAs form, std::int64_t k) {
  return espalier::row_bytes(form == RowsAs::int8    ? RowFormat::int8
                             : form == RowsAs::int16 ? RowFormat::int16
                                                     : RowFormat::f32,
                             k);
}

Error cannot(std::string_view what) {
  return {Error::Kind::unsupported, fmt::format("{} cannot be computed on a device yet; --device cpu can", what),
          "device", {}};
}

// Makes the stages of one program. First every operation says what it needs, with buffers by number; then buffers get their
// memory, and `fix` fills in where they are.
class Lowering {
 public:
  Lowering(const Device& device, const Program& program, Loaded& loaded, const DeviceMatrices& matrices, int max_rows)
      : device_(device), program_(program), loaded_(loaded), matrices_(matrices), max_rows_(max_rows) {}

  Result<DeviceProgram> run() {
    const auto ops = static_cast<int>(program_.ops.size());
    for (op_ = 0; op_ < ops; ++op_) {
      const Op& op = program_.ops[static_cast<std::size_t>(op_)];
      std::visit([this](const auto& o) { add(o); }, op);
      if (error_) return *error_;
      forget_what_changed(op);
    }
    use_buffers();
    ESP_CHECK(allocate());
    for (const auto& fix : fixes_) fix();
    return std::move(out_);
  }

 private:
  // --- rows ---

  // A place by number: of the program's buffers, and of those made here, whose numbers follow.
  struct Scratch {
    std::size_t row_bytes;
    int first_op, last_op, rows_each;  // rows_each: rows for each row of the batch
  };
  int scratch(std::size_t row_bytes, int rows_each = 1) {
    scratch_.push_back({row_bytes, op_, op_, rows_each});
    return static_cast<int>(program_.buffers.size() + scratch_.size()) - 1;
  }
  int scratch_floats_of(std::int64_t width, int rows_each = 1) {
    return scratch(static_cast<std::size_t>(width) * sizeof(float), rows_each);
  }

  RowsStage& rows_stage() {
    if (open_rows_ == nullptr) {
      auto stage = std::make_unique<RowsStage>();
      open_rows_ = stage.get();
      push_stage(std::move(stage), true);
    }
    return *open_rows_;
  }
  void push_stage(std::unique_ptr<DeviceStage> stage, bool of_rows = false) {
    if (!of_rows) open_rows_ = nullptr;
    out_.stages.push_back(std::move(stage));
  }
  template <class S, class... A>
  S& push(A&&... arguments) {
    auto stage = std::make_unique<S>(std::forward<A>(arguments)...);
    S& added = *stage;
    push_stage(std::move(stage));
    return added;
  }

  void row(const DeviceRowOp& op) {
    scratch_width_ = std::max(scratch_width_, scratch_floats(op));
    rows_stage().ops.push_back(to_bytes(op));
  }
  // A row operation that takes what the host makes of each row.
  int host_row(int width, float first, std::function<bool(const Pass&, int, float*)> make, int marks = -1) {
    const int number = out_.memory.host_rows++;
    rows_stage().makers.push_back({number, width, first, std::move(make), marks});
    return number;
  }

  // --- operations of rows ---

  void add(const NormOp& o) { row(o); }
  void add(const ActivateOp& o) { row(o); }
  void add(const GateOp& o) { row(o); }
  void add(const CombineOp& o) { row(o); }
  void add(const CopyOp& o) { row(o); }
  void add(const DotOp& o) { row(o); }
  void add(const StoreOp& o) { row(o); }
  void add(const SpreadWeightsOp& o) { row(o); }
  void add(const MixOp& o) { row(o); }
  void add(const ScaleToOp& o) { row(o); }
  void add(const ConstantOp& o) { row(o); }
  void add(const ComplementOp& o) { row(o); }
  void add(const ClipOp& o) { row(o); }
  void add(const CutOffOp& o) { row(o); }
  void add(const StreamGatesOp& o) { row(o); }
  void add(const DecayOp& o) { row(o); }
  void add(const TimeStepOp& o) { row(o); }

  void add(RotateOp o) {
    const AngleUse use{o.rope, o.shift};
    auto& angles = out_.memory.angles;
    auto found = std::ranges::find(angles, use);
    if (found == angles.end()) found = angles.insert(angles.end(), use);
    o.rope = static_cast<RopeId>(found - angles.begin());
    row(o);
  }
  void add(const LookUpOp& o) {
    const Tensor* table = loaded_.tables[static_cast<std::size_t>(o.table)];
    const int from = host_row(o.out.width, 0.0f, [o, table](const Pass& pass, int row, float* to) {
      look_up_row(o, *table, pass, row, to);
      return true;
    });
    row(TakeRowsOp{.out = o.out, .host_rows = from, .scale = o.scale, .add = o.add});
  }
  void add(const AddWavesOp& o) {
    const auto& frequencies = program_.vectors[static_cast<std::size_t>(o.frequencies)];
    const int from = host_row(o.out.width, 0.0f, [o, &frequencies](const Pass& pass, int row, float* to) {
      add_waves(o, frequencies, pass.position(row), to);
      return true;
    });
    row(TakeRowsOp{.out = o.out, .host_rows = from, .add = true});
  }
  void add(const ScaleByPositionOp& o) {
    const int from = host_row(1, 1.0f, [o](const Pass& pass, int row, float* to) {
      *to = factor_of_position(o, pass.position(row));
      return true;
    });
    row(ScaleRowsOp{o.heads, from});
  }
  void add(const TakeGivenOp& o) {
    const int marks = out_.memory.marks++;
    const int from = host_row(
        o.out.width, 0.0f,
        [o](const Pass& pass, int row, float* to) {
          const float* given = pass.given(o.input, row);
          if (given != nullptr) std::copy_n(given, o.out.width, to);
          return given != nullptr;
        },
        marks);
    row(TakeRowsOp{.out = o.out,
                   .host_rows = from,
                   .add = o.how == TakeGivenOp::How::add,
                   .marks = marks,
                   .clear = o.how == TakeGivenOp::How::set});
  }
  void add(const RouteOp& o) {
    int ids = -1;
    if (o.by_token >= 0) {
      const Tensor* table = loaded_.tables[static_cast<std::size_t>(o.by_token)];
      ids = host_row(o.how.chosen, 0.0f, [table, chosen = o.how.chosen](const Pass& pass, int row, float* to) {
        decode_row(table->dtype, table->row(pass.token(row)), {to, static_cast<std::size_t>(chosen)});
        return true;
      });
    }
    row(RouteRowsOp{o, ids});
  }
  void add(const BlendRowsOp&) { error_ = cannot("a picture's tower"); }
  void add(const GiveOp&) { error_ = cannot("a picture's tower"); }
  void add(const GatherRowsOp&) { error_ = cannot("a picture's tower"); }
  void add(const AllRowsOp&) { error_ = cannot("a picture's tower"); }

  // --- products ---

  const Linear& linear(MatrixId id) const { return loaded_.matrices[static_cast<std::size_t>(id)]; }
  RowsAs form_of(const PackedMatrix& matrix, bool wide) const {
    if (loaded_.with.mode == Activations::f32 || has_float_codes(matrix.type()) || !is_quantised(matrix.type()))
      return RowsAs::f32;
    return wide ? RowsAs::int16 : RowsAs::int8;
  }

  // Rows in another form, until what they were made of changes.
  struct Converted {
    Rows rows;
    RowsAs form;
    const void* order;
    int buffer;
  };
  // Where a product finds its rows: a place of floats, or a buffer of its own.
  struct Input {
    Rows floats;
    int buffer = -1;
    std::size_t stride = 0;
  };
  Input input(const Rows& rows, const PackedMatrix& matrix, const DeviceMatrix& on_device, bool wide) {
    const RowsAs form = form_of(matrix, wide);
    if (form == RowsAs::f32 && on_device.order == nullptr) return {rows, -1, 0};
    const std::size_t stride = row_bytes(form, rows.width);
    for (Converted& known : converted_)
      if (known.rows == rows && known.form == form && known.order == on_device.order) {
        scratch_[static_cast<std::size_t>(known.buffer) - program_.buffers.size()].last_op = op_;
        return {rows, known.buffer, stride};
      }
    const int buffer = scratch(stride);
    const int ordered = on_device.order != nullptr && form != RowsAs::f32 ? scratch_floats_of(rows.width) : -1;
    converted_.push_back({rows, form, on_device.order, buffer});
    RowsStage& stage = rows_stage();
    const std::size_t at = stage.ops.size();
    stage.ops.emplace_back();
    fixes_.push_back([this, &stage, at, rows, form, stride, buffer, ordered, order = on_device.order] {
      stage.ops[at] = to_bytes(ConvertRowsOp{rows, form, bytes_at(buffer), stride, order,
                                             ordered < 0 ? nullptr : reinterpret_cast<float*>(bytes_at(ordered))});
    });
    return {rows, buffer, stride};
  }
  void forget_what_changed(const Op& op) {
    const bool all = std::holds_alternative<KeepRowsOp>(op);
    for_each_place(op, [&](const Rows& place, bool writes) {
      if (!writes && !all) return;
      std::erase_if(converted_, [&](const Converted& c) {
        return all || (c.rows.buffer == place.buffer && c.rows.first < place.first + place.width &&
                       place.first < c.rows.first + c.rows.width);
      });
    });
  }

  MatmulTask task_of(MatrixId id, std::size_t part) const {
    const PackedMatrix& matrix = linear(id).parts()[part];
    MatmulTask task{};
    task.panels = matrices_.part(id, part).panels;
    task.panel_bytes = matrix.panel_bytes();
    task.k = matrix.k();
    task.outputs = matrix.outputs();
    task.panel_end = matrix.panels();
    task.then_panel = -1;
    return task;
  }

  // As Linear::apply() does it: `out` names floats, `finish` is of gated layers the gate's.
  template <class Out>
  void multiply(MatrixId id, const Rows& in, const Out& out, std::int64_t width, Finish finish, bool wide) {
    const Linear& layer = linear(id);
    std::int64_t at = 0;
    for (std::size_t part = 0; part < layer.parts().size(); ++part) {
      const PackedMatrix& matrix = layer.parts()[part];
      MatmulTask task = task_of(id, part);
      const Input from = input(in, matrix, matrices_.part(id, part), wide);
      const bool first_of_two = layer.gated() && !layer.paired() && part == 0;
      task.finish = first_of_two ? Finish::store : finish;
      task.paired = layer.paired();
      if (task.paired) task.outputs = layer.outputs();
      task.bias = matrices_.bias(id) != nullptr ? matrices_.bias(id) + at : nullptr;
      const std::int64_t column = layer.gated() ? 0 : at;
      add_multiply(task, matrix.type(), form_of(matrix, wide), from, out, column, width);
      at += matrix.outputs();
    }
  }
  template <class Out>
  void add_multiply(MatmulTask task, DType type, RowsAs form, const Input& from, const Out& out, std::int64_t column,
                    std::int64_t) {
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back([=, this]() mutable {
      if (from.buffer < 0) {
        task.x = place(from.floats);
        task.x_stride = static_cast<std::size_t>(stride(from.floats)) * sizeof(float);
      } else {
        task.x = bytes_at(from.buffer);
        task.x_stride = from.stride;
      }
      const BatchRows to = out();
      task.out = to.first + column;
      task.out_stride = to.stride;
      out_.stages[stage] = std::make_unique<MultiplyStage>(cuda::MultiplyTask{task, type, form});
    });
  }
  auto to(const Rows& rows) {
    return [this, rows] { return batch_rows(rows); };
  }

  void add(const MatmulOp& o) {
    multiply(o.matrix, o.in, to(o.out), o.out.width, o.add ? Finish::add : Finish::store, o.wide);
  }
  void add(const GatedMatmulOp& o) {
    multiply(o.matrix, o.in, to(o.out), o.out.width,
             o.activation == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu, false);
  }
  void add(const GroupedMatmulOp& o) {
    for (int g = 0; g < o.groups; ++g) {
      const Linear& layer = linear(o.first + g);
      const Rows out = o.out.part(g * o.out_stride, static_cast<int>(layer.outputs()));
      multiply(o.first + g, o.in.part(g * o.in_stride, static_cast<int>(layer.inputs())), to(out), out.width,
               Finish::store, false);
    }
  }
  void add(const HeadOp& o) {
    out_.head_scale = o.scale;
    out_.head_cap = o.cap;
    logits_ = scratch_floats_of(std::max(1, program_.vocabulary));
    out_.logits_stride = program_.vocabulary;
    multiply(o.matrix, o.in, [this] { return BatchRows{reinterpret_cast<float*>(bytes_at(logits_)), program_.vocabulary}; },
             program_.vocabulary, Finish::store, false);
  }

  // --- experts ---

  struct ExpertPart {
    const std::uint8_t* const* panels;
    const float* const* biases;
  };
  Result<ExpertPart> expert_part(MatrixId first, int count, std::size_t part, std::int64_t column) {
    std::vector<const std::uint8_t*> panels;
    std::vector<const float*> biases;
    for (int e = 0; e < count; ++e) {
      panels.push_back(matrices_.part(first + e, part).panels);
      if (matrices_.bias(first + e) != nullptr) biases.push_back(matrices_.bias(first + e) + column);
    }
    ESP_TRY(Memory on_device, device_.upload(std::span<const std::uint8_t* const>(panels)));
    ExpertPart out{on_device.as<const std::uint8_t*>(), nullptr};
    out_.owned.push_back(std::move(on_device));
    if (biases.empty()) return out;
    ESP_TRY(Memory of_biases, device_.upload(std::span<const float* const>(biases)));
    out.biases = of_biases.as<const float*>();
    out_.owned.push_back(std::move(of_biases));
    return out;
  }

  // All experts of a device's product have one type and one order of inputs: their own.
  bool alike(MatrixId first, int count) const {
    for (int e = 0; e < count; ++e) {
      const Linear& layer = linear(first + e);
      if (layer.parts().size() != linear(first).parts().size()) return false;
      for (std::size_t part = 0; part < layer.parts().size(); ++part)
        if (layer.parts()[part].type() != linear(first).parts()[part].type() || layer.parts()[part].order() != nullptr)
          return false;
    }
    return true;
  }

  void add(const ExpertsOp& o) {
    if (!alike(o.gate_up, o.count) || !alike(o.down, o.count)) {
      error_ = cannot("experts whose weights differ in type, or have an order of inputs,");
      return;
    }
    const Linear& up = linear(o.gate_up);
    const bool gates_in_product = o.gated && up.paired();
    const RowsAs up_form = form_of(up.parts().front(), false);
    const bool mixed = std::ranges::any_of(
        up.parts(), [&](const PackedMatrix& part) { return form_of(part, false) != up_form; });
    if (mixed) {
      error_ = cannot("an expert whose gate and values want inputs of different forms");
      return;
    }
    const RowsAs down_form = form_of(linear(o.down).parts().front(), false);
    Input in{o.in, -1, 0};
    if (!o.weight_inputs && up_form != RowsAs::f32) in = input(o.in, up.parts().front(), {}, false);
    auto& stage = push<ExpertsStage>();
    const std::size_t up_bytes = row_bytes(up_form, o.in.width), down_bytes = row_bytes(down_form, o.inner);
    const int gathered_floats =
        up_form == RowsAs::f32 || o.weight_inputs ? scratch_floats_of(o.in.width, o.chosen) : -1;
    const int gathered = up_form == RowsAs::f32 ? gathered_floats : scratch(up_bytes, o.chosen);
    const int up_floats = gates_in_product ? -1 : scratch_floats_of(o.gated ? 2 * o.inner : o.inner, o.chosen);
    const int inner = scratch_floats_of(o.inner, o.chosen);
    const int inner_form = down_form == RowsAs::f32 ? inner : scratch(down_bytes, o.chosen);
    const int down = scratch_floats_of(o.out.width, o.chosen);
    if (auto made = add_products(o, stage, gates_in_product, up_form, down_form); !made.ok()) {
      error_ = made.error();
      return;
    }
    chosen_ = std::max(chosen_, o.chosen);
    experts_ = std::max(experts_, o.count);
    if (!gates_in_product) {
      const Rows values{up_floats, 0, o.inner};
      if (o.gated)
        stage.inner.push_back(to_bytes(GateOp{o.gate, values, Rows{up_floats, o.inner, o.inner}, Rows{inner, 0, o.inner}}));
      else
        stage.inner.push_back(to_bytes(ActivateOp{o.gate.activation, values, Rows{inner, 0, o.inner}}));
    }
    fixes_.push_back([=, this, &stage] {
      const cuda::ExpertPlaces places{0, o.chosen, o.count, places_at(0), places_at(1), places_at(2)};
      const BatchRows routed = batch_rows(o.routed), floats = batch_rows(o.in), out = batch_rows(o.out);
      stage.group = {routed.first, routed.stride, places};
      add_gather(o, stage, in, gathered_floats, gathered, up_form, routed);
      if (down_form != RowsAs::f32)
        stage.inner.push_back(to_bytes(
            ConvertRowsOp{Rows{inner, 0, o.inner}, down_form, bytes_at(inner_form), down_bytes, nullptr, nullptr}));
      for (std::size_t i = 0; i < stage.ups.size(); ++i) {
        MatmulTask& task = stage.ups[i].of;
        task.x = bytes_at(gathered);
        task.x_stride = up_bytes;
        const int to = gates_in_product ? inner : up_floats;
        task.out = reinterpret_cast<float*>(bytes_at(to)) + (i > 0 ? o.inner : 0);
        task.out_stride = gates_in_product ? o.inner : o.gated ? 2 * o.inner : o.inner;
      }
      MatmulTask& task = stage.down.of;
      task.x = bytes_at(inner_form);
      task.x_stride = down_bytes;
      task.out = reinterpret_cast<float*>(bytes_at(down));
      task.out_stride = o.out.width;
      stage.combine = {task.out,     floats.first,  routed.first,       out.first, o.out.width,
                       floats.stride, routed.stride, out.stride, o.out.width, !o.weight_inputs, o.add, places};
    });
  }
  Result<> add_products(const ExpertsOp& o, ExpertsStage& stage, bool paired, RowsAs up_form, RowsAs down_form) {
    std::int64_t column = 0;
    const Linear& up = linear(o.gate_up);
    for (std::size_t part = 0; part < up.parts().size(); ++part) {
      cuda::MultiplyExpertsTask task{};
      task.of = task_of(o.gate_up, part);
      task.of.panels = nullptr;
      task.type = up.parts()[part].type();
      task.rows_as = up_form;
      task.of.paired = paired;
      if (paired) {
        task.of.outputs = o.inner;
        task.of.finish =
            o.gate.activation.kind == ActivationKind::silu ? Finish::gate_silu : Finish::gate_gelu;
      }
      ESP_TRY(const ExpertPart of, expert_part(o.gate_up, o.count, part, column));
      task.panels = of.panels;
      task.biases = of.biases;
      stage.ups.push_back(task);
      column += up.parts()[part].outputs();
    }
    stage.down.of = task_of(o.down, 0);
    stage.down.of.panels = nullptr;
    stage.down.type = linear(o.down).parts().front().type();
    stage.down.rows_as = down_form;
    ESP_TRY(const ExpertPart of, expert_part(o.down, o.count, 0, 0));
    stage.down.panels = of.panels;
    stage.down.biases = of.biases;
    return success();
  }
  void add_gather(const ExpertsOp& o, ExpertsStage& stage, const Input& in, int gathered_floats, int gathered,
                  RowsAs form, const BatchRows& routed) {
    cuda::GatherRowsTask task{};
    const BatchRows floats = batch_rows(o.in);
    task.from = reinterpret_cast<const std::byte*>(floats.first);
    task.from_stride = static_cast<std::size_t>(floats.stride) * sizeof(float);
    task.bytes = static_cast<std::size_t>(o.in.width) * sizeof(float);
    task.to_stride = task.bytes;
    task.to = gathered_floats < 0 ? nullptr : bytes_at(gathered_floats);
    if (o.weight_inputs) {
      task.routed = routed.first + o.chosen;
      task.routed_stride = routed.stride;
    } else if (in.buffer >= 0) {
      task.from = bytes_at(in.buffer);
      task.from_stride = task.to_stride = task.bytes = in.stride;
      task.to = bytes_at(gathered);
    }
    stage.gathers.push_back(task);
    if (o.weight_inputs && form != RowsAs::f32)
      stage.gathered.push_back(to_bytes(ConvertRowsOp{Rows{gathered_floats, 0, o.in.width}, form, bytes_at(gathered),
                                                      row_bytes(form, o.in.width), nullptr, nullptr}));
  }

  // --- what reads other tokens ---

  cuda::AttendTask attend_task(const AttendOp& o, FieldId id) const {
    const TokenField& field = program_.keeps.per_token[static_cast<std::size_t>(id)];
    cuda::AttendTask task{};
    task.dims = {field.key_dim, field.value_dim};
    task.heads = o.heads;
    task.kv_heads = field.heads;
    task.score = {o.scale, o.cap, vector(o.slopes), {vector(o.biases), o.bias_reach}};
    task.entry_stride = 1;
    return task;
  }
  void add(const AttendOp& o) {
    if (o.around == AttendOp::Around::window || o.around == AttendOp::Around::merged) {
      error_ = cannot("a picture's tower");
      return;
    }
    const std::int64_t state =
        o.then < 0 ? 0
                   : FoldStates::stride_of(program_.keeps.per_token[static_cast<std::size_t>(o.then)].value_dim);
    const int states = o.then < 0 ? -1 : scratch_floats_of(o.heads * state);
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back([=, this] {
      cuda::AttendTask first = attend_task(o, o.field), then{};
      const BatchRows queries = batch_rows(o.queries), out = batch_rows(o.out);
      first.q = queries.first;
      first.q_stride = queries.stride;
      first.out = out.first;
      first.out_stride = out.stride;
      if (o.then >= 0) {
        first.states = {reinterpret_cast<float*>(bytes_at(states)), o.heads, static_cast<int>(state)};
        then = attend_task(o, o.then);
        then.q = first.q;
        then.q_stride = first.q_stride;
        then.out = first.out;
        then.out_stride = first.out_stride;
        then.states = first.states;
        then.entry_stride = o.then_every;
        then.sinks = vector(o.sinks);
        first.end_in_state = then.begin_in_state = true;
      } else {
        first.sinks = vector(o.sinks);
      }
      out_.stages[stage] = std::make_unique<AttendStage>(o, first, mask(o.mask), then, mask(o.then_mask));
    });
  }
  void add(const ChooseOp& o) {
    const TokenField& field = program_.keeps.per_token[static_cast<std::size_t>(o.field)];
    cuda::ChoosePositionsTask task{};
    task.heads = o.heads;
    task.dim = field.key_dim;
    task.scale = o.scale;
    task.each_head = !o.weights && o.constant_weights < 0;
    task.top = o.kept;
    task.run = o.run;
    task.local_runs = o.local_runs;
    task.entry_stride = o.every;
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back([=, this]() mutable {
      const BatchRows queries = batch_rows(o.queries);
      task.q = queries.first;
      task.q_stride = queries.stride;
      task.weights = vector(o.constant_weights);
      if (o.weights) {
        const BatchRows weights = batch_rows(o.weights);
        task.weights = weights.first;
        task.weight_stride = weights.stride;
      }
      out_.stages[stage] = std::make_unique<ChooseStage>(o, task, mask(o.mask));
    });
  }
  void add(const LoadBeforeOp& o) {
    const TokenField& field = program_.keeps.per_token[static_cast<std::size_t>(o.field)];
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back([=, this] {
      const BatchRows out = batch_rows(o.out);
      cuda::LoadTokensTask task{};
      task.heads = field.heads;
      task.key_dim = field.key_dim;
      task.out = out.first;
      task.out_stride = out.stride;
      out_.stages[stage] = std::make_unique<LoadBeforeStage>(o.field, task);
    });
  }

  // --- what carries states ---

  template <class Task, EspalierKernel kKernel, class Make>
  void add_sequences(Make make) {
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back([=, this] { out_.stages[stage] = std::make_unique<SequenceStage<Task, kKernel>>(make()); });
  }
  void add(const ConvolveOp& o) {
    add_sequences<cuda::ConvolveTask, kEspalierConvolve>([=, this] {
      cuda::ConvolveTask task{};
      const BatchRows in = batch_rows(o.in), out = batch_rows(o.out);
      task.of.x = in.first;
      task.of.x_stride = in.stride;
      task.of.y = out.first;
      task.of.y_stride = out.stride;
      task.of.weights = vector(o.weights);
      task.of.bias = vector(o.bias);
      task.of.channels = task.of.end = o.in.width;
      task.of.taps = o.taps;
      task.of.silu = o.silu;
      task.state = o.state;
      return task;
    });
  }
  void add(const RecurrenceOp& o) {
    add_sequences<cuda::RecurTask, kEspalierRecur>([=, this] {
      cuda::RecurTask task{};
      task.queries = batch_rows(o.queries);
      task.keys = batch_rows(o.keys);
      task.values = batch_rows(o.values);
      task.out = batch_rows(o.out);
      if (o.decay) task.decay = batch_rows(o.decay);
      if (o.beta) task.beta = batch_rows(o.beta);
      if (o.probe) task.probe = batch_rows(o.probe);
      if (o.answer) task.answer = batch_rows(o.answer);
      task.constant_decay = vector(o.constant_decay);
      task.skip = vector(o.skip);
      task.heads = o.heads;
      task.key_heads = o.key_heads;
      task.key_dim = o.key_dim;
      task.value_dim = o.value_dim;
      task.decay_width = o.decay.width;
      task.in_turns = o.in_turns;
      task.delta = o.delta;
      task.scale = o.scale;
      task.state = o.state;
      return task;
    });
  }
  void add(const ScanOp& o) {
    add_sequences<cuda::ScanTask, kEspalierScan>([=, this] {
      cuda::ScanTask task{};
      const BatchRows in = batch_rows(o.in), step = batch_rows(o.step), input = batch_rows(o.input),
                      output = batch_rows(o.output), out = batch_rows(o.out);
      task.of.x = in.first;
      task.of.x_stride = in.stride;
      task.of.dt = step.first;
      task.of.dt_stride = step.stride;
      task.of.b = input.first;
      task.of.b_stride = input.stride;
      task.of.c = output.first;
      task.of.c_stride = output.stride;
      task.of.y = out.first;
      task.of.y_stride = out.stride;
      task.of.a = vector(o.rates);
      task.of.d = vector(o.skip);
      task.of.channels = task.of.end = o.in.width;
      task.of.states = o.size;
      task.state = o.state;
      return task;
    });
  }
  void add(const FadingSumOp& o) {
    add_sequences<cuda::FadeTask, kEspalierFade>([=, this] {
      cuda::FadeTask task{};
      const BatchRows in = batch_rows(o.in), decay = batch_rows(o.decay), out = batch_rows(o.out);
      task.of = {in.first,   decay.first, out.first, in.stride, decay.stride, out.stride, nullptr,
                 nullptr, 0, o.in.width, 0};
      task.state = o.state;
      return task;
    });
  }
  void add(const CompressOp& o) {
    add_sequences<cuda::CompressTask, kEspalierCompress>([=, this] {
      cuda::CompressTask task{};
      task.values = batch_rows(o.values);
      if (o.gates) task.gates = batch_rows(o.gates);
      task.out = batch_rows(o.out);
      task.bias = vector(o.bias);
      task.width = o.out.width;
      task.gate_width = o.gates.width;
      task.every = o.every;
      task.overlapping = o.overlapping;
      task.state = o.state;
      return task;
    });
  }
  void add(const NgramOp& o) {
    std::vector<const Tensor*> tables;
    for (const TableId id : o.tables) tables.push_back(loaded_.tables[static_cast<std::size_t>(id)]);
    const std::size_t stage = out_.stages.size();
    push_stage(nullptr);
    fixes_.push_back(
        [=, this] { out_.stages[stage] = std::make_unique<NgramStage>(o, tables, batch_rows(o.out)); });
  }
  void add(const KeepRowsOp& o) {
    const std::size_t stage = out_.stages.size();
    int width = 1;
    for (const Rows& rows : o.live) width = std::max(width, rows.width);
    const int aside = scratch_floats_of(width);
    push_stage(nullptr);
    fixes_.push_back([=, this] {
      std::vector<std::pair<BatchRows, int>> live;
      for (const Rows& rows : o.live) live.emplace_back(batch_rows(rows), rows.width);
      out_.stages[stage] = std::make_unique<KeepStage>(std::move(live), reinterpret_cast<float*>(bytes_at(aside)));
    });
  }

  // --- memory ---

  // Stages that follow one another are one launch: what one of them uses is in use in all.
  void use_buffers() {
    const auto ops = static_cast<int>(program_.ops.size());
    std::vector<std::pair<int, int>> spans(program_.buffers.size(), {ops, -1});
    for (int i = 0; i < ops; ++i)
      for_each_place(program_.ops[static_cast<std::size_t>(i)], [&](const Rows& rows, bool) {
        auto& [first, last] = spans[static_cast<std::size_t>(rows.buffer)];
        first = std::min(first, first_of_stage(program_, i));
        last = std::max(last, last_of_stage(program_, i) + 1);
      });
    if (program_.output) spans[static_cast<std::size_t>(program_.output.buffer)].second = ops;
    for (std::size_t b = 0; b < spans.size(); ++b)
      plan_.use(static_cast<std::size_t>(program_.buffers[b]) * sizeof(float), std::min(spans[b].first, ops),
                std::max(spans[b].second, spans[b].first));
    for (std::size_t i = 0; i < scratch_.size(); ++i) {
      const Scratch& s = scratch_[i];
      const bool of_logits = static_cast<int>(program_.buffers.size() + i) == logits_;
      plan_.use(s.row_bytes * static_cast<std::size_t>(s.rows_each), first_launch_of(s.first_op),
                of_logits ? ops : last_of_stage(program_, s.last_op) + 1);
    }
    plan_.arrange();
  }

  // What an operation needs in another form is made with the rows before it.
  int first_launch_of(int op) const {
    const bool joins = op > 0 && is_of_rows(program_.ops[static_cast<std::size_t>(op) - 1]);
    return first_of_stage(program_, joins ? op - 1 : op);
  }

  template <class T>
  Result<const T*> keep(const std::vector<T>& values) {
    ESP_TRY(Memory memory, device_.upload(std::span<const T>(values)));
    const T* const at = memory.template as<T>();
    out_.owned.push_back(std::move(memory));
    return at;
  }

  Result<> allocate() {
    const auto rows = static_cast<std::size_t>(max_rows_);
    for (int slab = 0; slab < plan_.slabs(); ++slab) {
      ESP_TRY(Memory memory, device_.allocate(plan_.row_bytes(slab) * rows + 256));
      slabs_.push_back(memory.data());
      out_.owned.push_back(std::move(memory));
    }
    if (experts_ > 0) {
      const std::size_t counts[] = {static_cast<std::size_t>(experts_) + 1, rows * static_cast<std::size_t>(chosen_),
                                    rows * static_cast<std::size_t>(chosen_)};
      for (const std::size_t count : counts) {
        ESP_TRY(Memory memory, device_.allocate(count * sizeof(int)));
        places_.push_back(memory.as<int>());
        out_.owned.push_back(std::move(memory));
      }
    }
    ESP_CHECK(upload_vectors());
    ESP_CHECK(upload_buffers());
    fixes_.push_back([this] { finish_rows(); });
    if (program_.output) {
      fixes_.push_back([this] {
        const BatchRows output = batch_rows(program_.output);
        out_.logits = output.first;
        out_.logits_stride = output.stride;
      });
    } else {
      fixes_.push_back([this] { out_.logits = logits_ < 0 ? nullptr : reinterpret_cast<float*>(bytes_at(logits_)); });
    }
    return success();
  }
  Result<> upload_vectors() {
    std::vector<RowsMemory::Vector> vectors;
    for (const std::vector<float>& vector : program_.vectors) {
      ESP_TRY(const float* at, keep(vector));
      vectors.push_back({at, static_cast<std::int64_t>(vector.size())});
      vectors_.push_back(at);
    }
    ESP_TRY(out_.memory.vectors, keep(vectors));
    ESP_TRY(out_.memory.fields, keep(program_.keeps.per_token));
    std::vector<std::int32_t> angles;
    for (const AngleUse& use : out_.memory.angles)
      angles.push_back(loaded_.ropes[static_cast<std::size_t>(use.rope)].of(0).half());
    ESP_TRY(out_.memory.angle_counts, keep(angles));
    return success();
  }
  Result<> upload_buffers() {
    std::vector<RowsMemory::Buffer> buffers;
    for (std::size_t b = 0; b < program_.buffers.size() + scratch_.size(); ++b)
      buffers.push_back({reinterpret_cast<float*>(bytes_at(static_cast<int>(b))), stride_of(static_cast<int>(b))});
    ESP_TRY(out_.memory.buffers, keep(buffers));
    const std::size_t width = static_cast<std::size_t>(scratch_width_);
    ESP_TRY(Memory aside, device_.allocate(std::max<std::size_t>(width * static_cast<std::size_t>(max_rows_), 1) * sizeof(float)));
    out_.memory.scratch = aside.as<float>();
    out_.memory.scratch_stride = scratch_width_;
    out_.owned.push_back(std::move(aside));
    return success();
  }
  // Operations of rows go up once they are complete.
  void finish_rows() {
    const auto send = [&](const std::vector<RowOp>& ops) -> const RowOp* {
      auto at = keep(ops);
      if (at.ok()) return at.value();
      error_ = at.error();
      return nullptr;
    };
    for (auto& stage : out_.stages) {
      if (auto* rows = dynamic_cast<RowsStage*>(stage.get())) rows->on_device = send(rows->ops);
      if (auto* experts = dynamic_cast<ExpertsStage*>(stage.get())) {
        experts->inner_on_device = send(experts->inner);
        experts->gathered_on_device = send(experts->gathered);
      }
    }
  }

  std::byte* bytes_at(int buffer) const { return slabs_[static_cast<std::size_t>(plan_.slab_of(buffer))]; }
  std::int64_t stride_of(int buffer) const {
    const auto b = static_cast<std::size_t>(buffer);
    if (b < program_.buffers.size()) return program_.buffers[b];
    return static_cast<std::int64_t>(scratch_[b - program_.buffers.size()].row_bytes / sizeof(float));
  }
  float* place(const Rows& rows) const { return reinterpret_cast<float*>(bytes_at(rows.buffer)) + rows.first; }
  std::int64_t stride(const Rows& rows) const { return stride_of(rows.buffer); }
  BatchRows batch_rows(const Rows& rows) const { return {place(rows), stride(rows)}; }
  const float* vector(VectorId id) const { return id < 0 ? nullptr : vectors_[static_cast<std::size_t>(id)]; }
  int* places_at(int which) const { return places_[static_cast<std::size_t>(which)]; }
  Selection* mask(MaskId id) {
    if (id < 0) return nullptr;
    if (out_.masks.empty()) out_.masks = std::vector<Selection>(static_cast<std::size_t>(program_.masks));
    return &out_.masks[static_cast<std::size_t>(id)];
  }

  const Device& device_;
  const Program& program_;
  Loaded& loaded_;
  const DeviceMatrices& matrices_;
  const int max_rows_;
  DeviceProgram out_;
  BufferPlan plan_;
  std::vector<Scratch> scratch_;
  std::vector<Converted> converted_;
  std::vector<std::function<void()>> fixes_;
  std::vector<std::byte*> slabs_;
  std::vector<const float*> vectors_;
  std::vector<int*> places_;
  std::optional<Error> error_;
  RowsStage* open_rows_ = nullptr;
  std::int64_t scratch_width_ = 1;
  int op_ = 0, logits_ = -1, chosen_ = 0, experts_ = 0;
};

}  // namespace

Result<DeviceProgram> lower(const Device& device, const Program& program, Loaded& loaded,
                            const DeviceMatrices& matrices, int max_rows) {
  return Lowering(device, program, loaded, matrices, max_rows).run();
}

}  // namespace espalier::device
