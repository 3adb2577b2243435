#include "model/blocks/embedding/ngram_embedding.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/blocks/recurrent/causal_conv.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

// Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (2014).
std::uint64_t splitmix64(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ull;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return value ^ (value >> 31);
}

bool is_prime(std::int64_t n) {
  if (n < 4) return n > 1;
  if (n % 2 == 0) return false;
  for (std::int64_t d = 3; d * d <= n; d += 2)
    if (n % d == 0) return false;
  return true;
}

}  // namespace

std::int64_t NgramHash::rows() const {
  std::int64_t end_of_all = 0;
  for (std::size_t i = 0; i < offsets.size(); ++i) end_of_all = std::max(end_of_all, offsets[i] + sizes[i]);
  return end_of_all;
}

NgramHash NgramHash::drawn(int longest, int heads_each, std::int64_t least, std::int64_t seed, int vocabulary,
                           int module) {
  NgramHash h{.longest = longest, .heads_each = heads_each};
  constexpr std::uint64_t kStep = 0x9E3779B97F4A7C15ull;
  const std::int64_t bound =
      std::max<std::int64_t>(1, std::numeric_limits<std::int64_t>::max() / std::max(vocabulary, 1) / 2);
  const auto base = static_cast<std::uint64_t>(seed + 10007 * static_cast<std::int64_t>(module));
  for (int i = 0; i < longest; ++i) {
    const std::uint64_t drawn = splitmix64(base + kStep * static_cast<std::uint64_t>(i + 1));
    h.multipliers.push_back(2 * static_cast<std::int64_t>(drawn % static_cast<std::uint64_t>(bound)) + 1);
  }
  std::int64_t prime = least - 1, offset = 0;
  for (int head = -module * h.heads(); head < h.heads(); ++head) {
    do ++prime;
    while (!is_prime(prime));
    if (head < 0) continue;  // of the modules before
    h.sizes.push_back(prime);
    h.offsets.push_back(offset);
    offset += prime;
  }
  return h;
}

Rows NgramEmbedding::look_up(Builder& b) const {
  NgramOp op;
  op.tables =
      b.table_parts(b.is_gguf() ? "per_layer_token_embd" : b.name("ple_table"), table_rows, width / hash.heads());
  op.longest = hash.longest;
  op.heads_each = hash.heads_each;
  op.multipliers = hash.multipliers;
  op.offsets = hash.offsets;
  op.sizes = hash.sizes;
  op.end = hash.end;
  op.out = b.buffer(width);
  op.state = b.state(static_cast<std::size_t>(hash.longest - 1));
  b.emit(op);
  return op.out;
}

Rows NgramEmbedding::normed(Builder& b, Rows in, std::string_view role) const {
  const Rows out = b.buffer(in.width);
  NormOp op{.kind = norm.kind, .in = in, .out = out, .eps = norm.eps, .groups = streams};
  b.take_gain(op, norm, role, {in.width});
  b.emit(op);
  return out;
}

void NgramEmbedding::operator()(Builder& b, Rows x) const {
  const Rows found = look_up(b);
  const int each = x.width / streams;
  const Rows all = b.matmul(found, {b.matrix("ple_key", x.width, width), b.matrix("ple_value", each, width)}, true);
  const Rows keys = normed(b, all.part(0, x.width), "ple_norm_key"), queries = normed(b, x, "ple_norm_query");
  const Rows gates = b.buffer(streams), values = b.buffer(x.width);
  b.emit(DotOp{
      .left = keys, .right = queries, .out = gates, .scale = 1.0f / std::sqrt(static_cast<float>(each)), .root = true});
  for (int i = 0; i < streams; ++i)
    b.emit(CombineOp{.in = all.part(x.width, each),
                     .out = values.part(i * each, each),
                     .gate = gates.part(i, 1),
                     .gate_activation = ActivationKind::sigmoid});
  const Rows mixed = normed(b, values, "ple_norm_conv");
  CausalConv conv{.parts = {{"ple_conv1d", x.width}}, .taps = taps};
  conv.apart = hash.longest;
  conv(b, mixed);
  b.add(x, values);
  b.add(x, mixed);
}

}  // namespace espalier
