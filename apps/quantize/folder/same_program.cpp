#include "quantize/folder/same_program.h"

#include <fmt/format.h>

#include <cmath>

namespace espalier::quantizer {
namespace {

bool near(float a, float b) {
  return std::fabs(a - b) <= 2e-5f * (std::fabs(a) + std::fabs(b));
}

bool near(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!near(a[i], b[i])) return false;
  return true;
}

bool same(const RopeSpec& a, const RopeSpec& b) {
  return near(a.inverse_frequency, b.inverse_frequency) && near(a.long_inverse_frequency, b.long_inverse_frequency) &&
         near(a.magnitude, b.magnitude) && a.long_after == b.long_after && a.axes == b.axes &&
         a.dynamic_factor == b.dynamic_factor;
}

std::optional<std::string> differ(bool different, std::string_view what) {
  return different ? std::optional(std::string(what)) : std::nullopt;
}

// Numbers that both kinds of files must say alike.
struct Compare {
  const Program &a, &b;

  std::optional<std::string> operator()(const AttendOp& x, const AttendOp& y) const {
    if (x.heads != y.heads) return "the number of heads";
    if (!near(x.scale, y.scale)) return fmt::format("the scale of attention ({} and {})", x.scale, y.scale);
    if (!near(x.cap, y.cap)) return "the cap of attention's scores";
    return differ(x.visibility != y.visibility || x.around != y.around, "the window of attention");
  }
  std::optional<std::string> operator()(const NormOp& x, const NormOp& y) const {
    return differ(x.kind != y.kind || !near(x.eps, y.eps) || x.groups != y.groups, "a norm");
  }
  std::optional<std::string> operator()(const LookUpOp& x, const LookUpOp& y) const {
    return differ(x.by != y.by || !near(x.scale, y.scale), "the scale of embeddings");
  }
  std::optional<std::string> operator()(const HeadOp& x, const HeadOp& y) const {
    return differ(!near(x.scale, y.scale) || !near(x.cap, y.cap), "the scale of logits");
  }
  std::optional<std::string> operator()(const CombineOp& x, const CombineOp& y) const {
    return differ(!near(x.scale, y.scale) || x.add != y.add, "a factor of the residual stream");
  }
  std::optional<std::string> operator()(const RotateOp& x, const RotateOp& y) const {
    const bool alike = x.count == y.count && x.stride == y.stride && x.offset == y.offset && x.pairs == y.pairs &&
                       same(a.ropes[static_cast<std::size_t>(x.rope)], b.ropes[static_cast<std::size_t>(y.rope)]);
    return differ(!alike, "the rotation of queries and keys");
  }
  std::optional<std::string> operator()(const GatedMatmulOp& x, const GatedMatmulOp& y) const {
    return differ(x.activation != y.activation, "the activation");
  }
  std::optional<std::string> operator()(const ExpertsOp& x, const ExpertsOp& y) const {
    return differ(x.count != y.count || x.chosen != y.chosen || x.inner != y.inner, "the experts");
  }
  std::optional<std::string> operator()(const RouteOp& x, const RouteOp& y) const {
    return differ(x.how.scores != y.how.scores || x.how.renormalise != y.how.renormalise ||
                      !near(x.how.scale, y.how.scale) || x.how.chosen != y.how.chosen,
                  "the router of experts");
  }
  template <class X, class Y>
  std::optional<std::string> operator()(const X&, const Y&) const {
    return std::nullopt;
  }
};

}  // namespace

std::optional<std::string> difference(const Program& a, const Program& b) {
  if (a.ops.size() != b.ops.size())
    return fmt::format("the number of operations ({} and {})", a.ops.size(), b.ops.size());
  for (std::size_t i = 0; i < a.ops.size(); ++i) {
    if (a.ops[i].index() != b.ops[i].index()) return fmt::format("operation {}", i);
    if (auto found = std::visit(Compare{a, b}, a.ops[i], b.ops[i])) return found;
  }
  if (a.buffers != b.buffers) return "the widths of rows";
  return differ(!(a.keeps == b.keeps), "what is kept of a token");
}

}  // namespace espalier::quantizer
