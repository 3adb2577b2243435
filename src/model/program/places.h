// places.h: which places of buffers each kind of operation reads and writes; included by program.h.
#pragma once

#include <utility>

namespace espalier {
namespace places {

// Shows places to a function, with whether they are written.
template <class F>
struct Show {
  F& f;
  void read(const Rows& rows) const {
    if (rows) f(rows, false);
  }
  void write(const Rows& rows, bool also_reads = false) const {
    if (also_reads) read(rows);
    if (rows) f(rows, true);
  }
};

// Those of operations that pictures need.
template <class F>
struct VisitPictures : Show<F> {
  using Show<F>::read, Show<F>::write;
  void operator()(const TakeGivenOp& o) const { write(o.out, o.how != TakeGivenOp::How::set); }
  void operator()(const BlendRowsOp& o) const { write(o.out, true); }
  void operator()(const GiveOp& o) const { read(o.in); }
  void operator()(const GatherRowsOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const AllRowsOp&) const {}
};

// Those of operations that carry a state from row to row.
template <class F>
struct VisitCarried : Show<F> {
  using Show<F>::read, Show<F>::write;
  void operator()(const NgramOp& o) const { write(o.out); }
  void operator()(const CompressOp& o) const {
    read(o.values);
    read(o.gates);
    write(o.out);
  }
  void operator()(const ConvolveOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const RecurrenceOp& o) const {
    for (const Rows* rows : {&o.queries, &o.keys, &o.values, &o.decay, &o.beta, &o.probe, &o.answer}) read(*rows);
    write(o.out);
  }
  void operator()(const ScanOp& o) const {
    for (const Rows* rows : {&o.in, &o.step, &o.input, &o.output}) read(*rows);
    write(o.out);
  }
  void operator()(const FadingSumOp& o) const {
    read(o.in);
    read(o.decay);
    write(o.out);
  }
};

// Those of all the others.
template <class F>
struct VisitRows : Show<F> {
  using Show<F>::read, Show<F>::write;
  void operator()(const LookUpOp& o) const { write(o.out, o.add); }
  void operator()(const NormOp& o) const {
    read(o.in);
    read(o.gate);
    write(o.out, o.add);
  }
  void operator()(const ActivateOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const GateOp& o) const {
    read(o.gate);
    read(o.value);
    write(o.out);
  }
  void operator()(const CombineOp& o) const {
    read(o.in);
    read(o.gate);
    write(o.out, o.add);
  }
  void operator()(const CopyOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const RotateOp& o) const { write(o.heads, true); }
  void operator()(const ScaleByPositionOp& o) const { write(o.heads, true); }
  void operator()(const DotOp& o) const {
    read(o.left);
    read(o.right);
    write(o.out);
  }
  void operator()(const StoreOp& o) const {
    read(o.keys);
    read(o.values);
  }
  void operator()(const RouteOp& o) const {
    read(o.logits);
    write(o.out);
  }
  void operator()(const SpreadWeightsOp& o) const {
    read(o.routed);
    write(o.out);
  }
  void operator()(const MixOp& o) const {
    read(o.in);
    read(o.coefficients);
    write(o.out, o.add);
  }
  void operator()(const ScaleToOp& o) const {
    read(o.in);
    read(o.like);
    write(o.out);
  }
  void operator()(const ConstantOp& o) const { write(o.out, o.add); }
  void operator()(const AddWavesOp& o) const { write(o.out, true); }
  void operator()(const ComplementOp& o) const {
    read(o.by);
    write(o.out, true);
  }
  void operator()(const ClipOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const CutOffOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const StreamGatesOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const DecayOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const TimeStepOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const MatmulOp& o) const {
    read(o.in);
    write(o.out, o.add);
  }
  void operator()(const GatedMatmulOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const GroupedMatmulOp& o) const {
    read(o.in);
    write(o.out);
  }
  void operator()(const ExpertsOp& o) const {
    read(o.in);
    read(o.routed);
    write(o.out, o.add);
  }
  void operator()(const LoadBeforeOp& o) const { write(o.out); }
  void operator()(const AttendOp& o) const {
    read(o.queries);
    write(o.out);
  }
  void operator()(const ChooseOp& o) const {
    read(o.queries);
    read(o.weights);
  }
  void operator()(const KeepRowsOp& o) const {
    for (const Rows& rows : o.live) write(rows, true);
  }
  void operator()(const HeadOp& o) const { read(o.in); }
  void operator()(const AllGatherOp& o) const {
    read(o.rows);
    if (o.takes) write(o.rows);
  }
  void operator()(const GatherLogitsOp&) const {}
};

// Each place of an operation of any kind.
template <class F>
struct Visit {
  F& f;
  template <class O>
  void operator()(const O& o) const {
    if constexpr (requires(VisitPictures<F> pictures) { pictures(o); })
      VisitPictures<F>{{f}}(o);
    else if constexpr (requires(VisitCarried<F> carried) { carried(o); })
      VisitCarried<F>{{f}}(o);
    else
      VisitRows<F>{{f}}(o);
  }
};

}  // namespace places

template <class F>
void for_each_place(const Op& op, F&& f) {
  std::visit(places::Visit<F>{f}, op);
}

template <class F>
bool all_readers(const std::vector<Op>& ops, const Rows& rows, int from, F&& fits) {
  for (int i = from + 1; i < static_cast<int>(ops.size()); ++i) {
    bool reads = false, writes = false;
    for_each_place(ops[static_cast<std::size_t>(i)], [&](const Rows& place, bool is_write) {
      if (place.meets(rows)) (is_write ? writes : reads) = true;
    });
    if (reads && !fits(i)) return false;
    if (writes) return true;
  }
  return true;
}

}  // namespace espalier
