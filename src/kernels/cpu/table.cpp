#include "kernels/cpu/table.h"

#include <cstdlib>
#include <cstring>

#include "base/log.h"
#include "kernels/cpu/features.h"

namespace espalier {
namespace kernels {
#if defined(__x86_64__)
namespace avx512 {
void fill(CpuKernels& table);
void fill_bf16_dot(CpuKernels& table);
void fill_float8(CpuKernels& table);
void fill_attention_bf16(CpuKernels& table);
}  // namespace avx512
namespace amx {
void fill_attention(CpuKernels& table);
void fill_bf16(CpuKernels& table);
void fill_int8(CpuKernels& table);
}  // namespace amx
namespace avx2 {
void fill(CpuKernels& table);
}
namespace avxvnni {
void fill_int8(CpuKernels& table);
}
#elif defined(__aarch64__)
namespace neon {
void fill(CpuKernels& table);
}
namespace i8mm {
void fill_int8(CpuKernels& table);
}
#endif
namespace scalar {
void fill(CpuKernels& table);
}
}  // namespace kernels

namespace {

#if defined(__x86_64__)
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
         __builtin_cpu_supports("avx512vnni");
}
// Tables of 128 bytes and dot products of bf16.
bool has_float8() {
  return __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512bf16");
}
#endif

std::vector<CpuKernels> runnable_tables() {
  std::vector<CpuKernels> tables;
  auto add = [&](void (*fill)(CpuKernels&)) -> CpuKernels& {
    fill(tables.emplace_back());
    return tables.back();
  };
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (has_avx512() && kernels::has_tiles()) {
    CpuKernels& table = add(kernels::avx512::fill);
    kernels::amx::fill_bf16(table);
    if (__builtin_cpu_supports("avx512bf16")) kernels::amx::fill_attention(table);
    if (has_float8()) kernels::avx512::fill_float8(table);
    kernels::amx::fill_int8(table);
    table.isa = "amx";
    table.matmul_rows = 32;
    table.matmul_row_bytes = 2 << 20;
    // Sapphire Rapids, 2 MiB of second-level cache, k = 4,320: 1.3 TFLOP/s, with 1.6 MiB 1.0, with 0.5 MiB 1.1.
    table.matmul_bf16_row_bytes = 1100 << 10;
  }
  if (has_avx512()) {
    CpuKernels& table = add(kernels::avx512::fill);
    if (has_float8()) kernels::avx512::fill_float8(table);
    if (__builtin_cpu_supports("avx512bf16")) {
      kernels::avx512::fill_bf16_dot(table);
      // Intel's processors have these dot products at a quarter of the rate of float32's multiply-add (Emerald Rapids:
      // 164 GFLOP/s, not 331): attention, which widens each key for several queries, is quicker without them there.
      if (!__builtin_cpu_is("intel")) kernels::avx512::fill_attention_bf16(table);
    }
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")) {
    if (__builtin_cpu_supports("avxvnni")) {
      CpuKernels& table = add(kernels::avx2::fill);
      kernels::avxvnni::fill_int8(table);
      table.isa = "avxvnni";
    }
    add(kernels::avx2::fill);
  }
#elif defined(__aarch64__)
  if (kernels::has_dot_product() && kernels::has_i8mm()) {
    CpuKernels& table = add(kernels::neon::fill);
    kernels::i8mm::fill_int8(table);
    table.isa = "i8mm";
  }
  if (kernels::has_dot_product()) add(kernels::neon::fill);
#endif
  add(kernels::scalar::fill);
  return tables;
}

const std::vector<CpuKernels>& tables() {
  static const std::vector<CpuKernels> all = runnable_tables();
  return all;
}

const CpuKernels& choose() {
  const char* forced = std::getenv("ESPALIER_ISA");
  if (!forced || !*forced) return tables().front();
  for (const auto& table : tables())
    if (table.isa == forced) return table;
  log::warning("ESPALIER_ISA={} does not run on this machine; using {}", forced, tables().front().isa);
  return tables().front();
}

}  // namespace

const CpuKernels& cpu_kernels() {
  static const CpuKernels& chosen = choose();
  return chosen;
}

std::vector<const CpuKernels*> runnable_cpu_kernels() {
  std::vector<const CpuKernels*> all;
  for (const auto& table : tables()) all.push_back(&table);
  return all;
}

}  // namespace espalier
