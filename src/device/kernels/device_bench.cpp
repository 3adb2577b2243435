// What a device's kernels reach, beside what its memory reaches: products of few rows and many, attention of decoding, tokens
// drawn from logits.
//
//   device_bench [cuda|emu] [--small] [--json]
//
// --small: shapes that an emulated device computes in seconds. First the limits (device/limits.h), then a line for each
// measurement: time, GB/s of what must be read, TOP/s, and the shares of what memory and multipliers reach. Rows alone must
// have the bits that they have in a batch, and what tensor cores make of attention must be close to what it is exactly: a
// difference ends it with 1.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string_view>

#include "device/kernels/random_panels.h"
#include "device/limits.h"
#include "device/step/attended_tiles.h"
#include "device/step/row_drawer.h"
#include "kernels/cuda/attention/attention_task.h"
#include "kernels/cuda/products/multiply_task.h"
#include "kernels/matmul/matmul.h"
#include "kernels/random_floats.h"

namespace {

using namespace espalier;
using device::Device;
using device::Memory;
using device::SampleTask;
using testing::on_device;

struct Options {
  device::Kind kind = device::Kind::cuda;
  bool small = false, json = false;
};

class Bench {
 public:
  explicit Bench(const Options& options) : o_(options), device_(Device::open(options.kind).value()) {}

  int run() {
    tell_limits();
    copy_memory();
    for (const DType type : {DType::q8_0, DType::q4_0, DType::q4_1, DType::q4_k, DType::q6_k, DType::g4_128,
                             DType::f8_128, DType::nf4, DType::f16, DType::bf16})
      multiply(type);
    multiply_by_wgmma();
    // An 8B model's layer, and those of models with latent rows: DeepSeek-V2-Lite's, or one of DeepSeek-V3's with an eighth of its
    // heads, and all of DeepSeek-V3's.
    for (const Attention& of : {Attention{"attention", 32, 8, 128, 128}, Attention{"latent attention", 16, 1, 576, 512},
                                Attention{"latent attention", 128, 1, 576, 512}}) {
      for (const int sequences : {1, 8, 64})
        if (!o_.small || sequences < 64) attend(of, sequences, 1);
      attend(of, 1, o_.small ? 64 * 16 / of.heads + 1 : 2048);
    }
    for (const int rows : {1, o_.small ? 4 : 16}) sample(rows);
    if (!o_.small) sample(256);
    return wrong_ ? 1 : 0;
  }

 private:
  // Seconds of one of many calls, the median of five rounds.
  template <class Call>
  double seconds(Call call) {
    call();
    must(device_->wait());
    const auto once = timed(1, call);
    const int calls = o_.small ? 1 : std::clamp(static_cast<int>(0.05 / once), 1, 200);
    std::vector<double> rounds;
    for (int i = 0; i < (o_.small ? 1 : 5); ++i) rounds.push_back(timed(calls, call) / calls);
    std::ranges::sort(rounds);
    return rounds[rounds.size() / 2];
  }
  template <class Call>
  double timed(int calls, Call call) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call();
    must(device_->wait());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }
  static void must(const Result<>& done) {
    if (done.ok()) return;
    fmt::print(stderr, "{}\n", done.error().message);
    std::exit(1);
  }

  // peak: of the multipliers that are used, operations a second.
  void tell(std::string_view what, double time, double bytes, double operations, double peak = 0) {
    const double rate = bytes / time, of_memory = rate / limits_.read_bytes_per_second, done = operations / time,
                 of_multipliers = peak > 0 ? done / peak : 0;
    if (o_.json)
      fmt::print(
          "{{\"what\":\"{}\",\"us\":{:.2f},\"gb_s\":{:.1f},\"of_bandwidth\":{:.3f},\"tops\":{:.2f},"
          "\"of_multipliers\":{:.3f}}}\n",
          what, 1e6 * time, rate / 1e9, of_memory, done / 1e12, of_multipliers);
    else
      fmt::print("{:44} {:10.1f} us {:9.1f} GB/s {:5.1f} % of memory's {:9.2f} TOP/s {:5.1f} % of the multipliers'\n",
                 what, 1e6 * time, rate / 1e9, 100 * of_memory, done / 1e12, 100 * of_multipliers);
    std::fflush(stdout);
  }

  void tell_limits() {
    auto limits = device::measure_limits(*device_);
    if (!limits.ok()) must(limits.error());
    limits_ = *limits;
    tell_limit("read", limits_.read_bytes_per_second / 1e9, 0);
    tell_limit("f32", 0, limits_.f32_flops / 1e12);
    tell_limit("int8 by mma", 0, limits_.int8_ops / 1e12);
    tell_limit("bf16", 0, limits_.bf16_flops / 1e12);
  }
  void tell_limit(std::string_view what, double gb_s, double tops) const {
    fmt::print(fmt::runtime(o_.json ? "{{\"what\":\"limit: {}\",\"gb_s\":{:.1f},\"tops\":{:.2f}}}\n"
                                    : "limit: {:37} {:23.1f} GB/s {:26.2f} TOP/s\n"),
               what, gb_s, tops);
  }

  void copy_memory() {
    const std::size_t bytes = o_.small ? 1 << 24 : std::size_t{1} << 30;
    const Memory from = device_->allocate(bytes).value(), to = device_->allocate(bytes).value();
    device_->fill(from.data(), 1, bytes);
    const double time = seconds([&] { device_->copy(to.data(), from.data(), bytes); });
    tell("memory: a copy, read and written", time, 2.0 * static_cast<double>(bytes), 0);
  }

  // Weights as large as an 8B model's, eight of them in turns, so that no cache holds them.
  void multiply(DType type, EspalierKernel by = kEspalierMultiply, std::string_view how = "") {
    const bool halves = !is_quantised(type) || has_float_codes(type);
    const RowFormat format = halves ? RowFormat::bf16 : RowFormat::int8;
    const std::int64_t k = o_.small ? 512 : 4096, outputs = o_.small ? 256 : 14336;
    const int copies = o_.small ? 1 : 8, most = o_.small ? 8 : halves ? 4096 : 512;
    const PackedMatrix one = testing::random_panels(rng_, type, outputs, k);
    std::vector<Memory> weights;
    for (int i = 0; i < copies; ++i)
      weights.push_back(device_->upload(std::span<const std::byte>(one.memory())).value());
    const std::size_t stride = row_bytes(format, k);
    const auto floats = random_floats(rng_, static_cast<std::size_t>(most * k));
    std::vector<std::byte> x(stride * static_cast<std::size_t>(most));
    convert_rows(cpu_kernels(), format, floats.data(), k, k, 0, most, x.data());
    const Memory rows_there = on_device(*device_, x),
                 out = device_->allocate(static_cast<std::size_t>(most * outputs) * 4).value();
    cuda::MultiplyTask task{{}, type, format};
    task.of.panel_bytes = one.panel_bytes();
    task.of.k = k;
    task.of.outputs = task.of.out_stride = outputs;
    task.of.panel_end = one.panels();
    task.of.then_panel = -1;
    task.of.x = rows_there.data();
    task.of.x_stride = stride;
    task.of.out = out.as<float>();
    std::vector<float> alone;
    for (int rows = 1; rows <= most; rows *= 2) {
      task.of.row_end = rows;
      std::size_t turn = 0;
      const double time = seconds([&] {
        task.of.panels = weights[turn++ % weights.size()].as<const std::uint8_t>();
        device_->run(by, task);
      });
      const auto got = testing::from_device<float>(*device_, out);
      if (alone.empty()) alone.assign(got.begin(), got.begin() + outputs);
      check(std::equal(alone.begin(), alone.end(), got.begin()), fmt::format("{}{} x {} rows", name(type), how, rows));
      tell(fmt::format("{}{} {} x {}, {} rows", name(type), how, outputs, k, rows), time,
           static_cast<double>(one.bytes()),
           2.0 * static_cast<double>(rows) * static_cast<double>(k) * static_cast<double>(outputs),
           halves ? limits_.bf16_flops : limits_.int8_ops);
    }
  }

  // The same by Hopper's own instructions alone, where they are there.
  void multiply_by_wgmma() {
    device_->run(kEspalierMultiplyByWgmma, cuda::MultiplyTask{{}, DType::bf16, RowFormat::bf16});
    if (!device_->wait().ok()) return;
    for (const DType type : {DType::bf16, DType::f8_128}) multiply(type, kEspalierMultiplyByWgmma, " by wgmma");
  }

  struct Attention {
    const char* name;
    int heads, kv_heads, key, value;
    bool is_latent() const { return key != value; }
  };
  // The last rows of some sequences over bf16, with the CPU's bits and by tensor cores.
  void attend(const Attention& of, int sequences, int rows_each) {
    const int context = o_.small ? 300 : 4096, count = sequences * rows_each;
    const int slots = sequences * ((context + kSegmentSlots - 1) / kSegmentSlots * kSegmentSlots);
    const std::size_t key_head = head_bytes(KvType::bf16, of.key),
                      value_head = of.is_latent() ? 0 : head_bytes(KvType::bf16, of.value),
                      segment = (key_head + value_head) * static_cast<std::size_t>(of.kv_heads);
    const Memory pool = device_->allocate(segment * static_cast<std::size_t>(slots / kSegmentSlots)).value();
    const auto stored = random_bf16(segment / 2);
    for (int i = 0; i < slots / kSegmentSlots; ++i)
      device_->copy(pool.data() + static_cast<std::size_t>(i) * segment, stored.data(), segment);
    std::vector<cuda::AttendedRow> rows;
    std::vector<cuda::PlacedRun> runs;
    double seen = 0;
    for (int i = 0; i < sequences; ++i) {
      runs.push_back({0, i * slots / sequences});
      for (int r = context - rows_each; r < context; ++r) {
        rows.push_back({{static_cast<std::int32_t>(rows.size()), r, 0, r}, i, i + 1});
        seen += r + 1;
      }
    }
    const auto queries =
        random_floats(rng_, static_cast<std::size_t>(count) * static_cast<std::size_t>(of.heads * of.key));
    const Memory rows_there = on_device(*device_, rows), runs_there = on_device(*device_, runs),
                 q = on_device(*device_, queries),
                 out = device_->allocate(static_cast<std::size_t>(count * of.heads * of.value) * sizeof(float)).value();
    const int pieces = count >= 16 ? 1 : 16, blocks = (context + kAttentionBlock - 1) / kAttentionBlock,
              each = (blocks + pieces - 1) / pieces;
    const Memory partials =
        device_
            ->allocate(pieces == 1 ? 4
                                   : static_cast<std::size_t>(count * pieces * each * of.heads) *
                                         static_cast<std::size_t>(FoldStates::stride_of(of.value)) * 4)
            .value();
    cuda::AttendTask task{};
    task.kv.type = KvType::bf16;
    task.kv.form = of.is_latent() ? KvForm::latent : KvForm::keys_and_values;
    task.kv.keys = pool.data();
    if (!of.is_latent()) task.kv.values = pool.data() + key_head * static_cast<std::size_t>(of.kv_heads);
    task.kv.key_head_bytes = key_head;
    task.kv.value_head_bytes = value_head;
    task.kv.segment_bytes = segment;
    task.dims = {of.key, of.value};
    task.heads = of.heads;
    task.kv_heads = of.kv_heads;
    task.score = {0.088f};
    task.entry_stride = 1;
    task.rows = rows_there.as<cuda::AttendedRow>();
    task.row_count = count;
    task.runs = runs_there.as<cuda::PlacedRun>();
    task.q = q.as<float>();
    task.q_stride = of.heads * of.key;
    task.out = out.as<float>();
    task.out_stride = of.heads * of.value;
    task.sequence_rows = rows_each;
    task.pieces = pieces;
    task.blocks_each = each;
    task.partials = partials.as<float>();
    const auto tiles =
        device::tiles_of(std::vector<int>(static_cast<std::size_t>(sequences), rows_each), cuda::tensor_cut(task));
    const Memory few_tiles = on_device(*device_, tiles.few), many_tiles = on_device(*device_, tiles.many);
    const cuda::AttendTensorTask by_tensor_cores{task,
                                                 few_tiles.as<cuda::AttendedTile>(),
                                                 many_tiles.as<cuda::AttendedTile>(),
                                                 static_cast<int>(tiles.few.size()),
                                                 static_cast<int>(tiles.many.size()),
                                                 tiles.few_queries,
                                                 tiles.many_queries};
    const auto measure = [&](const char* how, double peak, auto run) {
      const double time = seconds([&] {
        run();
        if (pieces > 1) device_->run(kEspalierMergeAttention, cuda::MergeAttentionTask{task});
      });
      tell(fmt::format("{} of {} heads{}, {} x {} of {} tokens", of.name, of.heads, how, sequences, rows_each, context),
           time, static_cast<double>(segment) * sequences * context / kSegmentSlots,
           2.0 * seen * of.heads * (of.key + of.value), peak);
    };
    const auto last_row = [&] {
      std::vector<float> row(static_cast<std::size_t>(task.out_stride));
      device_->copy(row.data(), task.out + (count - 1) * task.out_stride, row.size() * sizeof(float));
      must(device_->wait());
      return row;
    };
    measure(" by tensor cores", limits_.bf16_flops, [&] { device_->run(kEspalierAttendTensor, by_tensor_cores); });
    const std::vector<float> in_batch = last_row();
    const std::string name = fmt::format("{} of {} heads, {} x {}", of.name, of.heads, sequences, rows_each);
    cuda::AttendTensorTask alone = by_tensor_cores;
    const Memory tile = on_device(*device_, std::vector<cuda::AttendedTile>{{count - 1, 1}});
    alone.of.pieces = 1;
    alone.few = alone.many = tile.as<cuda::AttendedTile>();
    const bool few = cuda::tensor_cut(task).heads <= cuda::kFewQueries;
    alone.few_count = few ? 1 : 0;
    alone.many_count = few ? 0 : 1;
    alone.few_queries = alone.many_queries = cuda::tensor_cut(task).heads;
    device_->run(kEspalierAttendTensor, alone);
    check(last_row() == in_batch, name);
    // With the CPU's bits latent rows of long prompts take too long to be measured.
    if (!o_.small && of.is_latent() && rows_each > 1) return;
    measure("", limits_.f32_flops, [&] { device_->run(kEspalierAttend, task); });
    check_close(in_batch, last_row(), name);
  }
  std::vector<std::uint16_t> random_bf16(std::size_t count) {
    const auto floats = random_floats(rng_, count);
    std::vector<std::uint16_t> out;
    for (const float x : floats) out.push_back(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16));
    return out;
  }

  // Tokens by temperature, of a vocabulary of 128k; half of the rows with a mask that goes up each time.
  void sample(int rows) {
    SampleTask task{};
    task.vocabulary = o_.small ? 3000 : 128'256;
    task.stride = task.vocabulary;
    task.scale = 1;
    const auto logits =
        random_floats(rng_, static_cast<std::size_t>(rows) * static_cast<std::size_t>(task.vocabulary), 3.0f);
    const Memory there = on_device(*device_, logits);
    task.logits = there.as<float>();
    std::vector<std::uint32_t> mask((static_cast<std::size_t>(task.vocabulary) + 31) / 32);
    for (auto& word : mask) word = static_cast<std::uint32_t>(rng_());
    SamplingParams params;
    params.temperature = 0.8;
    std::vector<RowDraw> draws;
    for (int row = 0; row < rows; ++row)
      draws.push_back({row, &params, 0.37, row % 2 == 0 ? std::span<const std::uint32_t>() : mask});
    ComputeTeam team(1);
    device::RowDrawer drawer(*device_, task);
    device::StepMemory memory(*device_);
    device::Launches launches;
    const auto draw = [&](std::span<const RowDraw> some) {
      memory.begin();
      drawer.prepare(some, memory);
      launches.clear();
      memory.send(launches);
      drawer.launch(launches);
      launches.go(*device_);
    };
    const double time = seconds([&] { draw(draws); });
    std::vector<DrawnToken> together(draws.size()), alone(1);
    drawer.finish(together, team);
    draw(std::span(draws).last(1));
    must(device_->wait());
    drawer.finish(alone, team);
    check(alone[0].token == together.back().token && alone[0].probability == together.back().probability,
          fmt::format("tokens of {} rows", rows));
    tell(fmt::format("tokens of {} x {} logits", rows, task.vocabulary), time,
         static_cast<double>(logits.size() * sizeof(float)), 0);
  }

  void check(bool same, const std::string& what) {
    if (same) return;
    fmt::print("WRONG: {}: a row alone has other bits than in a batch\n", what);
    wrong_ = true;
  }

  // By tensor cores, which round queries and weights to bf16, beside the CPU's bits.
  void check_close(std::span<const float> got, std::span<const float> want, const std::string& what) {
    double squares = 0, size = 0;
    for (std::size_t i = 0; i < want.size(); ++i) {
      squares += std::pow(static_cast<double>(got[i]) - static_cast<double>(want[i]), 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    if (squares <= 1e-4 * size) return;
    fmt::print("WRONG: {}: tensor cores are {:.4f} of the size away\n", what, std::sqrt(squares / size));
    wrong_ = true;
  }

  Options o_;
  std::unique_ptr<Device> device_;
  std::mt19937_64 rng_{1};
  MachineLimits limits_;
  bool wrong_ = false;
};

}  // namespace

int main(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word == "emu") options.kind = device::Kind::emu;
    options.small |= word == "--small";
    options.json |= word == "--json";
  }
  return Bench(options).run();
}
