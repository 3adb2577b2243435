// Attention against this machine's limits: decoding many sequences that share a prefix, each reading a copy of its own,
// each reading the same slots (plain, which lie in the processor's cache), or all together (shared); prompt chunks; and a
// picture's patches, which see one another.
// GB/s counts the keys and values that must be read at least once in that form, GFLOP/s two operations a product; the
// share is of the nearer limit, both measured here. Latent rows (DeepSeek-V3's 128 heads over 512 + 64, or its smaller
// relatives' 16) are read once for keys and values; "expanded" measures them beside keys and values of every head.
//
//   attention_bench [threads] [part of a case's name]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include "base/threads/processors.h"
#include "kernels/attention/attention.h"
#include "kernels/attention/measured_kv.h"
#include "kernels/machine_limits.h"

namespace espalier {
namespace {

struct Work {
  std::string name;
  AttentionShape shape;
  int sequences, prefix, own, rows;  // rows computed at the end of each
  bool shared_slots;
  int extent = 0;  // slots that follow each other before the next stretch lies elsewhere; 0: all of them
  KvForm form = KvForm::keys_and_values;
  bool both_ways = false;  // every row sees all of its sequence (a picture's patches)

  // Elements of a token that are read, of all KV heads; products of a query and a position, of all heads.
  double elements() const {
    return static_cast<double>(shape.kv_heads) * (shape.key_dim + (form == KvForm::latent ? 0 : shape.value_dim));
  }
  double products() const { return static_cast<double>(shape.heads) * (shape.key_dim + shape.value_dim); }
};

int scattered_room(int extent) {  // slots that one stretch takes, in whichever lane it begins
  return (extent + 2 * kSlotGroup - 1) / kSlotGroup * kSlotGroup;
}

// `length` positions in stretches of `extent`, each at a place whose slots suit the positions (slot_allocator.h), in
// shuffled order.
std::vector<KvRun> scattered(int length, int extent) {
  std::vector<int> places;
  for (int at = 0; at < length; at += extent) places.push_back(static_cast<int>(places.size()));
  std::mt19937 rng(2);
  std::shuffle(places.begin(), places.end(), rng);
  const int room = scattered_room(extent);
  std::vector<KvRun> runs;
  for (const int place : places) {
    const int at = static_cast<int>(runs.size()) * extent;
    runs.push_back({place * room + at % kSlotGroup, std::min(extent, length - at)});
  }
  return runs;
}

double seconds(const std::function<void()>& f) {
  double best = 1e9;
  for (int i = 0; i < 15; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

struct Machine {
  const CpuKernels& cpu;
  ComputeTeam& team;
  const MachineLimits& limits;
};

// Measures one way to store and read, prints it without ending the line; seconds.
double measure(const Work& w, const char* way, PrefixSharing sharing, const Machine& on) {
  const int own = w.own + w.rows, length = w.prefix + own;
  const int dense = w.shared_slots ? w.prefix + w.sequences * own : w.sequences * length;
  const int slots = w.extent > 0 ? (length / w.extent + 1) * scattered_room(w.extent) : dense;
  const MeasuredKv kv =
      MeasuredKv::allocate(w.shape.kv_heads, {w.shape.key_dim, w.shape.value_dim}, slots, 0, w.form).value();
  std::vector<std::vector<KvRun>> runs;
  std::vector<AttentionSequence> sequences;
  for (int i = 0; i < w.sequences; ++i)
    runs.push_back(w.shared_slots ? std::vector<KvRun>{{0, w.prefix}, {w.prefix + i * own, own}}
                                  : std::vector<KvRun>{{i * length, length}});
  if (w.extent > 0) runs[0] = scattered(length, w.extent);
  const std::vector<std::int32_t> last(w.both_ways ? static_cast<std::size_t>(w.rows) : 0, length - 1);
  for (int i = 0; i < w.sequences; ++i)
    sequences.push_back({i * w.rows, w.rows, length - w.rows, runs[static_cast<std::size_t>(i)], last});
  const std::int64_t q_stride = std::int64_t{w.shape.heads} * w.shape.key_dim,
                     out_stride = std::int64_t{w.shape.heads} * w.shape.value_dim, rows = w.rows * w.sequences;
  std::vector<float> q(static_cast<std::size_t>(q_stride * rows), 0.01f),
      out(static_cast<std::size_t>(out_stride * rows));
  const AttentionRows io{.q = q.data(), .q_stride = q_stride, .out = out.data(), .out_stride = out_stride};

  AttentionPlan plan(w.shape, sequences, on.team.size(), sharing);
  const double time = seconds([&] { plan.run(on.cpu, on.team, kv.layer(0), io); });
  const double products = w.products() * w.sequences * w.rows * (w.both_ways ? length : length - w.rows / 2.0);
  const bool together = sharing == PrefixSharing::on && w.shared_slots;
  const double bytes = 2.0 * w.elements() * (together ? w.prefix + w.sequences * own : w.sequences * length);
  const double multipliers = w.shape.exact || !on.cpu.attend_bf16 ? on.limits.f32_flops : on.limits.bf16_flops;
  const double least = std::max(bytes / on.limits.read_bytes_per_second, 2 * products / multipliers);
  fmt::print("{:44} {:10} {:9.1f} us {:7.1f} GB/s {:7.1f} GFLOP/s {:5.1f} % of the limit", w.name, way, time * 1e6,
             bytes / time / 1e9, 2 * products / time / 1e9, 100 * least / time);
  return time;
}

void measure(const Work& w, const Machine& on) {
  if (!w.shared_slots) {
    measure(w, "plain", PrefixSharing::off, on);
    fmt::print("\n");
    return;
  }
  Work copies = w;
  copies.shared_slots = false;
  const double own = measure(copies, "own copies", PrefixSharing::off, on);
  fmt::print("\n");
  const double plain = measure(w, "plain", PrefixSharing::off, on);
  fmt::print("  {:.3f} of own copies\n", plain / own);
  const double shared = measure(w, "shared", PrefixSharing::on, on);
  fmt::print("  {:.3f} of own copies, {:.3f} of plain\n", shared / own, shared / plain);
}

// DeepSeek's attention over 4096 tokens: latent vectors that all heads read, beside the keys (192) and values (128) of
// every head, expanded once and kept.
void measure_latent(int heads, int sequences, const Machine& on) {
  constexpr int kBefore = 4095;
  const AttentionShape absorbed{.heads = heads, .kv_heads = 1, .key_dim = 576, .value_dim = 512, .scale = 0.1f},
      expanded{.heads = heads, .kv_heads = heads, .key_dim = 192, .value_dim = 128, .scale = 0.1f};
  const std::string name = fmt::format("decode {} of 4096, {} heads", sequences, heads);
  const double slow = measure({name, expanded, sequences, kBefore, 0, 1, false}, "expanded", PrefixSharing::off, on);
  fmt::print("\n");
  const Work latent{name, absorbed, sequences, kBefore, 0, 1, false, 0, KvForm::latent};
  fmt::print("  {:.2f} times as fast\n", slow / measure(latent, "absorbed", PrefixSharing::off, on));
}

int run(int threads, const char* only) {
  ComputeTeam team(threads);
  const CpuKernels& cpu = cpu_kernels();
  const MachineLimits limits = measure_limits(cpu, team);
  fmt::print("{} on {} threads, keys and values bf16; limits: {:.1f} GB/s, bf16 {:.0f}, f32 {:.0f} GFLOP/s\n", cpu.isa,
             threads, limits.read_bytes_per_second / 1e9, limits.bf16_flops / 1e9, limits.f32_flops / 1e9);
  const auto square = [](int heads, int kv_heads, int dim) {
    return AttentionShape{.heads = heads, .kv_heads = kv_heads, .key_dim = dim, .value_dim = dim, .scale = 0.1f};
  };
  const auto latent = [](int heads) {
    return AttentionShape{.heads = heads, .kv_heads = 1, .key_dim = 576, .value_dim = 512, .scale = 0.1f};
  };
  const AttentionShape gqa4 = square(32, 8, 64), mha = square(32, 32, 64), smol = square(9, 3, 64),
                       wide = square(32, 8, 128);
  for (const Work& w :
       {Work{"decode 32 forks of 2048, 1B (32/8 heads of 64)", gqa4, 32, 2048, 15, 1, true},
        Work{"decode 32 forks of 2048, MHA (32/32 of 64)", mha, 32, 2048, 15, 1, true},
        Work{"decode 32 forks of 2048, SmolLM2 (9/3 of 64)", smol, 32, 2048, 15, 1, true},
        Work{"decode 32 forks of 2048, 8B (32/8 of 128)", wide, 32, 2048, 15, 1, true},
        Work{"decode 32 sequences of 512, 1B", gqa4, 32, 511, 0, 1, false},
        Work{"decode 1 sequence of 8192, 1B", gqa4, 1, 8191, 0, 1, false},
        Work{"the same in extents of 256 slots", gqa4, 1, 8191, 0, 1, false, 256},
        Work{"the same in extents of 70 slots", gqa4, 1, 8191, 0, 1, false, 70},
        Work{"the same in extents of 64 slots", gqa4, 1, 8191, 0, 1, false, 64},
        Work{"the same in extents of 16 slots", gqa4, 1, 8191, 0, 1, false, 16},
        Work{"the same in extents of 5 slots", gqa4, 1, 8191, 0, 1, false, 5},
        Work{"prefill 512 after 1536, 1B", gqa4, 1, 1536, 0, 512, false},
        Work{"prefill 512 after 7680, 1B", gqa4, 1, 7680, 0, 512, false},
        Work{"prefill 512 after 7680, SmolLM2", smol, 1, 7680, 0, 512, false},
        Work{"tower, 9 tiles of 729 patches (16 of 72)", square(16, 16, 72), 9, 0, 0, 729, false, 0,
             KvForm::keys_and_values, true},
        Work{"latent, decode 1 of 8192, 128 heads", latent(128), 1, 8191, 0, 1, false, 0, KvForm::latent},
        Work{"latent, decode 1 of 8192, 16 heads", latent(16), 1, 8191, 0, 1, false, 0, KvForm::latent},
        Work{"latent, decode 16 of 2048, 16 heads", latent(16), 16, 2047, 0, 1, false, 0, KvForm::latent},
        Work{"latent, prefill 64 after 1984, 16 heads", latent(16), 1, 1984, 0, 64, false, 0, KvForm::latent}})
    if (!only || w.name.find(only) != std::string::npos) measure(w, {cpu, team, limits});
  for (const int heads : {16, 128})
    for (const int sequences : {1, 4})
      if (!only || std::string_view("expanded").find(only) == 0) measure_latent(heads, sequences, {cpu, team, limits});
  return 0;
}

}  // namespace
}  // namespace espalier

int main(int argc, char** argv) {
  return espalier::run(argc > 1 ? std::atoi(argv[1]) : espalier::own_processors().granted,
                       argc > 2 ? argv[2] : nullptr);
}
