#include "model/ranks/op_parts.h"

#include <numeric>
#include <type_traits>
#include <utility>

namespace espalier {
namespace {

// One description of every operation serves several visitors: one notes its units, one makes it smaller, one gives it another
// state.
class Note {
 public:
  explicit Note(const OpRoom& room) : room_(room) {}
  void units(int count) { units_.count = count; }
  void heavy() { units_.heavy = true; }
  void read(const Rows& rows, int stride, int width = 0) { add(rows, stride, width, true, false); }
  void write(const Rows& rows, int stride, int width = 0, bool also_reads = false) {
    add(rows, stride, width, also_reads, true);
  }
  void change(const Rows& rows, int stride, int width = 0) { add(rows, stride, width, true, true); }
  void whole(const Rows& rows) { units_.whole.push_back(rows); }
  void count(int&) {}
  void values(VectorId&, int = 1) {}
  void state(std::size_t&, std::size_t) {}
  std::size_t length(VectorId id) const { return room_.length(id); }
  OpUnits take() { return std::move(units_); }

 private:
  void add(const Rows& rows, int stride, int width, bool reads, bool writes) {
    if (rows) units_.operands.push_back({rows, stride, width > 0 ? width : stride, reads, writes});
  }
  const OpRoom& room_;
  OpUnits units_;
};

// Leaves some of the units.
class Restrict {
 public:
  Restrict(Range some, const OpRoom& room) : some_(some), room_(room) {}
  void units(int count) { all_ = count; }
  void heavy() {}
  void read(Rows& rows, int stride, int width = 0) const {
    if (!rows) return;
    const Range columns = Operand{rows, stride, width > 0 ? width : stride}.columns(some_);
    rows.first = columns.begin;
    rows.width = columns.size();
  }
  void write(Rows& rows, int stride, int width = 0, bool = false) const { read(rows, stride, width); }
  void change(Rows& rows, int stride, int width = 0) const { read(rows, stride, width); }
  void whole(const Rows&) {}
  void count(int& of_units) const { of_units = of_units / all_ * some_.size(); }
  void values(VectorId& id, int rows = 1) const {
    if (id >= 0) id = room_.some_values(id, rows, all_, some_);
  }
  void state(std::size_t& first, std::size_t floats_of_unit) const {
    first = room_.state(floats_of_unit * static_cast<std::size_t>(some_.size()));
  }
  std::size_t length(VectorId id) const { return room_.length(id); }

 private:
  Range some_;
  int all_ = 1;
  const OpRoom& room_;
};

// Gives the operation's state another place, and leaves the rest.
class PlaceState {
 public:
  explicit PlaceState(const OpRoom& room) : room_(room) {}
  void units(int count) { units_ = count; }
  void heavy() {}
  void read(const Rows&, int, int = 0) {}
  void write(const Rows&, int, int = 0, bool = false) {}
  void change(const Rows&, int, int = 0) {}
  void whole(const Rows&) {}
  void count(int&) {}
  void values(VectorId&, int = 1) {}
  void state(std::size_t& first, std::size_t floats_of_unit) const {
    first = room_.state(floats_of_unit * static_cast<std::size_t>(units_));
  }
  std::size_t length(VectorId id) const { return room_.length(id); }

 private:
  const OpRoom& room_;
  int units_ = 1;
};

// --- operations of rows ---

template <class V>
void describe(NormOp& o, V& v) {
  const int each = o.in.width / o.groups;
  v.units(o.groups);
  for (VectorId* id : {&o.gain, &o.bias})
    if (*id >= 0 && std::cmp_greater(v.length(*id), each)) v.values(*id);
  v.read(o.in, each);
  v.read(o.gate, each);
  v.write(o.out, each, 0, o.add);
  v.count(o.groups);
}

// Each column by itself.
template <class O, class V>
  requires(std::is_same_v<O, ActivateOp> || std::is_same_v<O, ClipOp>)
void describe(O& o, V& v) {
  v.units(o.in.width);
  v.read(o.in, 1);
  v.write(o.out, 1);
}

template <class V>
void describe(GateOp& o, V& v) {
  v.units(o.value.width);
  v.read(o.gate, 1);
  v.read(o.value, 1);
  v.write(o.out, 1);
}

// Factors that are spread over equal parts of the row: a unit has whole parts.
template <class V>
void describe(CombineOp& o, V& v) {
  const int width = o.in.width, by = o.by >= 0 ? static_cast<int>(v.length(o.by)) : 1, gate = o.gate ? o.gate.width : 1;
  int units = width;
  for (const int factors : {by, gate})
    if (factors > 1) units = std::gcd(units, factors);
  v.units(units);
  if (by > 1) v.values(o.by);
  if (gate > 1) v.read(o.gate, gate / units);
  if (gate == 1 && o.gate) v.whole(o.gate);
  v.read(o.in, width / units);
  v.write(o.out, width / units, 0, o.add);
}

template <class V>
void describe(CopyOp& o, V& v) {
  v.units(o.count);
  v.read(o.in, o.in_stride, o.width);
  v.write(o.out, o.out_stride, o.width);
  v.count(o.count);
}

template <class V>
void describe(RotateOp& o, V& v) {
  v.units(o.count);
  v.change(o.heads, o.stride);
  v.count(o.count);
}

template <class V>
void describe(ScaleByPositionOp& o, V& v) {
  v.units(o.heads.width);
  v.change(o.heads, 1);
}

template <class V>
void describe(DotOp& o, V& v) {
  const int each = o.left.width / o.out.width;
  v.units(o.out.width);
  v.read(o.left, each);
  v.read(o.right, each);
  v.write(o.out, 1);
}

template <class V>
void describe(ConstantOp& o, V& v) {
  v.units(o.out.width);
  v.values(o.values);
  v.write(o.out, 1, 0, o.add);
}

template <class V>
void describe(ComplementOp& o, V& v) {
  v.units(o.out.width);
  v.read(o.by, 1);
  v.change(o.out, 1);
}

template <class V>
void describe(DecayOp& o, V& v) {
  v.units(o.heads);
  v.values(o.rate);
  v.values(o.bias);
  v.read(o.in, o.in.width / o.heads);
  v.write(o.out, o.out.width / o.heads);
  v.count(o.heads);
}

template <class V>
void describe(TimeStepOp& o, V& v) {
  v.units(o.in.width);
  v.values(o.bias);
  v.read(o.in, 1);
  v.write(o.out, 1);
}

// --- operations that carry a state ---

template <class V>
void describe(ConvolveOp& o, V& v) {
  v.units(o.in.width);
  v.values(o.weights, o.taps);
  v.values(o.bias);
  v.state(o.state, static_cast<std::size_t>(o.taps - 1));
  v.read(o.in, 1);
  v.write(o.out, 1);
}

template <class V>
void describe(ScanOp& o, V& v) {
  v.units(o.in.width);
  v.values(o.rates, o.size);
  v.values(o.skip);
  v.state(o.state, static_cast<std::size_t>(o.size));
  v.read(o.in, 1);
  v.read(o.step, 1);
  v.whole(o.input);
  v.whole(o.output);
  v.write(o.out, 1);
}

template <class V>
void describe(FadingSumOp& o, V& v) {
  v.units(o.in.width);
  v.state(o.state, 1);
  v.read(o.in, 1);
  v.read(o.decay, 1);
  v.write(o.out, 1);
}

// A unit is a head of keys with all heads that read it; or one head, where all read the same keys.
template <class V>
void describe(RecurrenceOp& o, V& v) {
  const bool shared = o.key_heads == 1;
  const int units = shared ? o.heads : o.key_heads, each = o.heads / units;
  v.units(units);
  v.heavy();
  for (VectorId* id : {&o.constant_decay, &o.skip}) v.values(*id);
  v.state(o.state,
          static_cast<std::size_t>(each) * static_cast<std::size_t>(o.key_dim) * static_cast<std::size_t>(o.value_dim));
  for (Rows* rows : {&o.queries, &o.keys})
    if (shared)
      v.whole(*rows);
    else
      v.read(*rows, o.key_dim);
  v.read(o.values, each * o.value_dim);
  if (o.decay) v.read(o.decay, each * (o.decay.width / o.heads));
  if (o.beta) v.read(o.beta, each);
  for (Rows* rows : {&o.probe, &o.answer})
    if (*rows) v.read(*rows, each * o.key_dim);
  v.write(o.out, each * o.value_dim);
  v.count(o.heads);
  if (!shared) v.count(o.key_heads);
}

// States of operations that all ranks do.
template <class V>
void describe_state(CompressOp& o, V& v) {
  v.units(o.out.width);
  v.state(o.state, o.overlapping ? 6 : 3);
}
template <class V>
void describe_state(NgramOp& o, V& v) {
  v.units(o.longest - 1);
  v.state(o.state, 1);
}

// Heads that take keys in turns do not lie side by side.
bool has_units(const Op& op) {
  const auto* recurrence = std::get_if<RecurrenceOp>(&op);
  return recurrence == nullptr || !recurrence->in_turns || recurrence->key_heads == 1 ||
         recurrence->key_heads == recurrence->heads;
}

}  // namespace

Range Operand::columns(Range units) const {
  if (units.empty()) return {rows.first + units.begin * stride, rows.first + units.begin * stride};
  return {rows.first + units.begin * stride, rows.first + (units.end - 1) * stride + width};
}

std::optional<OpUnits> units_of(const Op& op, const OpRoom& room) {
  if (!has_units(op)) return std::nullopt;
  Note note(room);
  const bool known = std::visit(
      [&]<class O>(const O& o) {
        constexpr bool described = requires(O& any) { describe(any, note); };
        if constexpr (described) {
          O copy = o;  // descriptions may change it; this visitor does not
          describe(copy, note);
        }
        return described;
      },
      op);
  if (!known) return std::nullopt;
  OpUnits units = note.take();
  return units.count > 1 ? std::optional(std::move(units)) : std::nullopt;
}

Op some_units(Op op, Range units, const OpRoom& room) {
  Restrict restrict(units, room);
  std::visit(
      [&](auto& o) {
        if constexpr (requires { describe(o, restrict); }) describe(o, restrict);
      },
      op);
  return op;
}

Op with_own_state(Op op, const OpRoom& room) {
  PlaceState place(room);
  std::visit(
      [&](auto& o) {
        if constexpr (requires { describe(o, place); })
          describe(o, place);
        else if constexpr (requires { describe_state(o, place); })
          describe_state(o, place);
      },
      op);
  return op;
}

}  // namespace espalier
