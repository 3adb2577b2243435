#include "model/cpu/conversions.h"

#include <algorithm>
#include <utility>

#include "ranks/values_of_all.h"

namespace espalier {
namespace {

template <class... Kinds>
bool is_one_of(const Op& op) {
  return (std::holds_alternative<Kinds>(op) || ...);
}

}  // namespace

bool is_of_rows(const Op& op) {
  return !is_one_of<MatmulOp, GatedMatmulOp, GroupedMatmulOp, ExpertsOp, LoadBeforeOp, AttendOp, ChooseOp, CompressOp,
                    NgramOp, ConvolveOp, RecurrenceOp, ScanOp, FadingSumOp, GatherRowsOp, AllRowsOp, KeepRowsOp, HeadOp,
                    AllGatherOp, GatherLogitsOp>(op);
}

int first_of_stage(const Program& program, int op) {
  const auto of_rows = [&](int i) { return i >= 0 && is_of_rows(program.ops[static_cast<std::size_t>(i)]); };
  if (of_rows(op))
    while (of_rows(op - 1)) --op;
  return op;
}

int last_of_stage(const Program& program, int op) {
  const auto of_rows = [&](int i) {
    return std::cmp_less(i, program.ops.size()) && is_of_rows(program.ops[static_cast<std::size_t>(i)]);
  };
  if (of_rows(op))
    while (of_rows(op + 1)) ++op;
  return op;
}

Conversions::Conversions(const Program& program, const ComputeWith& with, const std::vector<Linear>& matrices)
    : program_(program), with_(with), matrices_(matrices) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) collect(static_cast<int>(i), program.ops[i]);
  agree_on_gathers();
  for (const Use& use : uses_)
    for (const RowFormat format : {RowFormat::bf16, RowFormat::int8, RowFormat::int16})
      if (use.formats.has(format)) serve(use, format);
}

// As bits: the forms in which this rank could take what a gather brings.
unsigned Conversions::formats_of_gather(int op, const AllGatherOp& o) const {
  const auto bit = [](RowFormat format) { return 1u << index_of(format); };
  const auto apart = [&](const Range& range) {
    return range.empty() || (range.begin - o.cut.front().begin) % kActivationBlock != 0 ||
           range.size() % kActivationBlock != 0;
  };
  if (std::ranges::any_of(o.cut, apart)) return bit(RowFormat::f32);
  if (!o.rows) return ~0u;
  unsigned formats = bit(RowFormat::f32);
  for (const RowFormat format : {RowFormat::int8, RowFormat::bf16})
    if (only_read_as(o.rows, format, op)) formats |= bit(format);
  return formats;
}

// A rank may have nothing to do behind a gather, and takes it in any form: so they ask each other.
void Conversions::agree_on_gathers() {
  if (with_.group == nullptr) return;
  std::vector<int> ops;
  std::vector<unsigned char> formats;
  for (std::size_t i = 0; i < program_.ops.size(); ++i)
    if (const auto* o = std::get_if<AllGatherOp>(&program_.ops[i]); o != nullptr && o->of_experts == 0) {
      ops.push_back(static_cast<int>(i));
      formats.push_back(static_cast<unsigned char>(formats_of_gather(ops.back(), *o)));
    }
  ranks::keep_common_bits(*with_.group, formats);
  for (std::size_t i = 0; i < ops.size(); ++i)
    for (const RowFormat format : {RowFormat::int8, RowFormat::bf16})
      if ((formats[i] >> index_of(format) & 1) != 0) {
        gathers_.emplace(ops[i], format);
        break;
      }
}

RowFormats Conversions::formats_of_experts(const ExpertsOp& o) const {
  RowFormats formats;
  formats.add(common_format(
      with_, std::span(matrices_).subspan(static_cast<std::size_t>(o.gate_up), static_cast<std::size_t>(o.experts()))));
  return formats;
}

void Conversions::collect(int op, const Op& operation) {
  const auto formats = [&](MatrixId id, bool wide = false) {
    return matrices_[static_cast<std::size_t>(id)].formats(with_, wide);
  };
  if (const auto* o = std::get_if<MatmulOp>(&operation)) uses_.push_back({op, o->in, formats(o->matrix, o->wide)});
  if (const auto* o = std::get_if<GatedMatmulOp>(&operation)) uses_.push_back({op, o->in, formats(o->matrix)});
  if (const auto* o = std::get_if<HeadOp>(&operation)) uses_.push_back({op, o->in, formats(o->matrix)});
  if (const auto* o = std::get_if<ExpertsOp>(&operation); o && !o->weight_inputs && !o->only_meets)
    uses_.push_back({op, o->in, formats_of_experts(*o)});
  if (const auto* o = std::get_if<GroupedMatmulOp>(&operation))
    for (int g = 0; g < o->groups; ++g)
      uses_.push_back(
          {op,
           o->in.part(
               g * o->in_stride,
               static_cast<int>(matrices_[static_cast<std::size_t>(o->first) + static_cast<std::size_t>(g)].inputs())),
           formats(o->first + g)});
}

int Conversions::last_writer(const Rows& rows, int before) const {
  int found = -1;
  for (int i = 0; i < before; ++i)
    for_each_place(program_.ops[static_cast<std::size_t>(i)], [&](const Rows& place, bool writes) {
      if (writes && place.meets(rows)) found = i;
    });
  return found;
}

// Whether from behind `from` on, until they are written again, all readers are products that read just these columns in
// this form.
bool Conversions::only_read_as(const Rows& rows, RowFormat format, int from) const {
  return all_readers(program_.ops, rows, from, [&](int op) {
    return std::ranges::any_of(
        uses_, [&](const Use& use) { return use.op == op && use.rows == rows && use.formats.alone() == format; });
  });
}

// Whether a product's results are read by the activation behind it and by nobody else.
bool Conversions::only_activated(const Rows& rows, int activation) const {
  for (int i = activation + 1; i < static_cast<int>(program_.ops.size()); ++i) {
    bool reads = false, replaces = false;
    for_each_place(program_.ops[static_cast<std::size_t>(i)], [&](const Rows& place, bool is_write) {
      if (!is_write) reads |= place.meets(rows);
      if (is_write) replaces |= place == rows;
    });
    if (reads || replaces) return !reads;
  }
  return true;
}

Conversion Conversions::make(const Use& use, RowFormat format) const {
  const int writer = last_writer(use.rows, use.op);
  const bool part_by_part = use.formats.alone() == format;
  if (const auto gather = gathers_.find(writer); gather != gathers_.end())
    return {use.rows, format, writer, false, Conversion::By::gather};
  if (writer >= 0) {
    const Op& op = program_.ops[static_cast<std::size_t>(writer)];
    if (const auto* attend = std::get_if<AttendOp>(&op);
        attend && part_by_part && attend->out == use.rows && use.rows.width / attend->heads % kActivationBlock == 0)
      return {use.rows, format, writer, false, Conversion::By::attention};
    if (const auto* gated = std::get_if<GatedMatmulOp>(&op);
        gated && part_by_part && gated->out == use.rows &&
        matrices_[static_cast<std::size_t>(gated->matrix)].paired() && only_read_as(use.rows, format, writer))
      return {use.rows, format, writer, false, Conversion::By::gated_product};
    const auto* activate = std::get_if<ActivateOp>(&op);
    const auto* product =
        activate && writer > 0 ? std::get_if<MatmulOp>(&program_.ops[static_cast<std::size_t>(writer) - 1]) : nullptr;
    if (product && part_by_part && format != RowFormat::int16 && product->out == activate->in &&
        activate->out == use.rows && !product->add && !product->wide &&
        matrices_[static_cast<std::size_t>(product->matrix)].converts() &&
        (activate->in == activate->out || only_activated(activate->in, writer)) &&
        only_read_as(use.rows, format, writer))
      return {use.rows, format, writer - 1, false, Conversion::By::activated_product};
    if (is_of_rows(op)) return {use.rows, format, writer, false, Conversion::By::row_function};
  }
  return {use.rows, format, use.op, true, Conversion::By::row_function};
}

void Conversions::serve(const Use& use, RowFormat format) {
  for (auto service = services_.rbegin(); service != services_.rend(); ++service) {
    const Conversion& known = all_[static_cast<std::size_t>(service->conversion)];
    if (known.rows != use.rows || known.format != format) continue;
    const int writer = last_writer(use.rows, use.op);
    const int made = known.by == Conversion::By::activated_product ? known.maker + 1 : known.maker;
    if (writer > made || (writer == known.maker && known.before)) break;
    services_.push_back({use.op, service->conversion});
    return;
  }
  all_.push_back(make(use, format));
  services_.push_back({use.op, static_cast<int>(all_.size()) - 1});
}

void Conversions::place(BufferMemory& memory) {
  for (std::size_t i = 0; i < all_.size(); ++i) {
    Conversion& c = all_[i];
    int last = c.maker;
    for (const Service& service : services_)
      if (service.conversion == static_cast<int>(i)) last = std::max(last, service.op);
    const int first = first_of_stage(program_, c.before && c.maker > 0 ? c.maker - 1 : c.maker);
    c.memory = memory.use(row_bytes(c.format, c.rows.width), first, last);
  }
}

const Conversion* Conversions::serving(int op, const Rows& rows, RowFormat format) const {
  for (const Service& service : services_) {
    const Conversion& c = all_[static_cast<std::size_t>(service.conversion)];
    if (service.op == op && c.rows == rows && c.format == format) return &c;
  }
  return nullptr;
}

const Conversion* Conversions::made_by(int op) const {
  for (const Conversion& c : all_)
    if (c.maker == op && c.by != Conversion::By::row_function) return &c;
  return nullptr;
}

}  // namespace espalier
