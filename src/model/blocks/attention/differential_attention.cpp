#include "model/blocks/attention/differential_attention.h"

#include <cmath>

#include "model/program/builder.h"

namespace espalier {
namespace {

double exp_of_product(Builder& b, const char* left, const char* right, int n) {
  const std::vector<float> p = b.values(b.vector(left, {n}, "")), q = b.values(b.vector(right, {n}, ""));
  double sum = 0;
  for (std::size_t i = 0; i < p.size(); ++i) sum += static_cast<double>(p[i]) * static_cast<double>(q[i]);
  return std::exp(sum);
}

}  // namespace

// KV head j has the values of heads j and j + half of them, counted within halves.
Rows DifferentialAttention::double_values(Builder& b, Rows value) const {
  const int half = kv_heads / 2;
  const Rows out = b.buffer(2 * kv_heads * head_dim);
  for (int j = 0; j < kv_heads; ++j)
    for (int part = 0; part < 2; ++part)
      b.emit(CombineOp{.in = value.part((part * half + j % half) * head_dim, head_dim),
                       .out = out.part((2 * j + part) * head_dim, head_dim)});
  return out;
}

Rows DifferentialAttention::operator()(Builder& b, Rows x) const {
  const int q = heads * head_dim, kv = kv_heads * head_dim, wide = 2 * head_dim;
  const Rows all = b.matmul(x,
                            {b.matrix("attn_q", q, x.width, bias), b.matrix("attn_k", kv, x.width, bias),
                             b.matrix("attn_v", kv, x.width, bias)},
                            true);
  const Rows query = all.part(0, q), key = all.part(q, kv);
  b.emit(RotateOp{b.rope(rope), query, heads, head_dim});
  b.emit(RotateOp{b.rope(rope), key, kv_heads, head_dim});
  AttendOp attend{.field = b.field({kv_heads, head_dim, wide, false, 0}),
                  .queries = query,
                  .out = b.buffer(heads * wide),
                  .heads = heads};
  b.emit(StoreOp{attend.field, key, double_values(b, all.part(q + kv, kv))});
  attend.scale = 1.0f / std::sqrt(static_cast<float>(head_dim));
  b.emit(attend);

  const double start = 0.8 - 0.6 * std::exp(-0.3 * b.layer());
  const double lambda = exp_of_product(b, "lambda_q1", "lambda_k1", head_dim) -
                        exp_of_product(b, "lambda_q2", "lambda_k2", head_dim) + start;
  const Rows out = attend.out.part(0, q);
  b.emit(CombineOp{.in = attend.out.part(q, q), .out = out, .scale = static_cast<float>(-lambda), .add = true});
  b.emit(NormOp{.in = out, .out = out, .eps = norm_eps, .groups = heads / 2, .scale = static_cast<float>(1 - start)});
  return b.matmul(out, {b.matrix("attn_output", b.spec().hidden, q, bias)});
}

}  // namespace espalier
