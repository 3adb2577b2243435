#include "bench/kernels/kernels_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/json/json.h"
#include "base/threads/processors.h"
#include "bench/kernels/kernel_work.h"
#include "bench/kernels/roofline.h"
#include "bench/serving/console.h"
#include "kernels/matmul/packed_matrix.h"

namespace espalier::bench {
namespace {

struct KernelOptions {
  KernelSelection selection;
  std::vector<std::string> types = {"q4_0", "q8_0", "q4_k", "q6_k", "bf16"};
  int threads = 0;
  bool json = false;
  std::string output_file, plot;
};

// One line of output, and of the file that is asked for.
class Printer {
 public:
  explicit Printer(const KernelOptions& options) : options_(options) {}

  void say(const std::string& text, const Json& line) {
    fmt::print("{}\n", options_.json ? line.dump() : text);
    std::fflush(stdout);
    if (!options_.output_file.empty() && failure_.ok())
      failure_ = write_text(options_.output_file, line.dump() + "\n", true);
  }
  const Result<>& failure() const { return failure_; }

 private:
  const KernelOptions& options_;
  Result<> failure_ = success();
};

// What all threads read.
MachineLimits print_reads(const CpuKernels& cpu, int threads, Printer& out) {
  MachineLimits best;
  for (const int team_size : threads > 1 ? std::vector{1, threads} : std::vector{1}) {
    ComputeTeam team(team_size);
    for (const auto pages : {PageBuffer::Pages::small, PageBuffer::Pages::huge}) {
      const ReadRate rate = measure_reads(cpu, team, pages, 5);
      const char* got = rate.huge_pages ? "2 MiB" : "4 KiB";
      out.say(
          fmt::format("read    {:>2} threads, {} pages{}: {:6.1f} GB/s", team_size, got,
                      pages == PageBuffer::Pages::huge && !rate.huge_pages ? " (2 MiB were not granted)" : "",
                      rate.bytes_per_second / 1e9),
          {{"limit", "read"}, {"threads", team_size}, {"pages", got}, {"gb_per_second", rate.bytes_per_second / 1e9}});
      if (team_size == threads)
        best = best_of(best, {.read_bytes_per_second = rate.bytes_per_second, .huge_pages = rate.huge_pages});
    }
  }
  return best;
}

// What the kernels in use reach.
MachineLimits print_peaks(int threads, Printer& out) {
  MachineLimits used;
  for (const CpuKernels* cpu : runnable_cpu_kernels()) {
    ComputeTeam team(threads);
    const MachineLimits limits = measure_multipliers(*cpu, team, 1.0);
    out.say(fmt::format("{:<8}{:>2} threads: f32 {:7.0f} GFLOP/s, bf16 {:7.0f} GFLOP/s, int8 {:7.0f} GOP/s{}", cpu->isa,
                        threads, limits.f32_flops / 1e9, limits.bf16_flops / 1e9, limits.int8_ops / 1e9,
                        cpu->isa == cpu_kernels().isa ? "  <- measured below" : ""),
            {{"limit", "multipliers"},
             {"isa", cpu->isa},
             {"threads", threads},
             {"f32_gflops", limits.f32_flops / 1e9},
             {"bf16_gflops", limits.bf16_flops / 1e9},
             {"int8_gops", limits.int8_ops / 1e9}});
    if (cpu->isa == cpu_kernels().isa) used = limits;
  }
  return used;
}

void print_result(const KernelResult& r, const MachineLimits& limits, Printer& out) {
  const double share = roofline_share(r, limits);
  out.say(
      fmt::format("{:<12}{:<8}{:<26}{:<8}{:>5}{:>12.1f}{:>10.1f}{:>10.1f}{:>9.1f} %", r.kernel, r.model, r.part, r.type,
                  r.rows, r.seconds * 1e6, r.bytes_per_second() / 1e9, r.operations_per_second() / 1e9, 100 * share),
      {{"kernel", r.kernel},
       {"model", r.model},
       {"part", r.part},
       {"type", r.type},
       {"rows", r.rows},
       {"microseconds", r.seconds * 1e6},
       {"gb_per_second", r.bytes_per_second() / 1e9},
       {"gops_per_second", r.operations_per_second() / 1e9},
       {"share_of_limit", share}});
}

Result<> take_types(KernelOptions& o) {
  o.selection.types.clear();
  for (const std::string& wanted : o.types) {
    const auto type = dtype_named(wanted);
    if (!type || !panel_layout(*type).ok())
      return bad_request(
          fmt::format("--types has {}, which no matrix kernel reads; f32, bf16, q8_0 or q4_k work", wanted), "types");
    o.selection.types.push_back(*type);
  }
  return success();
}

Result<> run(KernelOptions& o) {
  ESP_CHECK(take_types(o));
  if (!o.plot.empty() && !o.plot.ends_with(".svg"))
    return bad_request(fmt::format("--plot is {}, but it must end in .svg", o.plot), "plot");
  const int threads = o.threads > 0 ? o.threads : own_processors().granted;
  const CpuKernels& cpu = cpu_kernels();
  Printer out(o);
  const MachineLimits reads = print_reads(cpu, threads, out), peaks = print_peaks(threads, out);
  ComputeTeam team(threads);
  const MachineLimits limits = best_of(best_of(reads, peaks), measure_limits(cpu, team, 2.0));
  out.say(
      fmt::format("limits  best of the above and of a second measurement: read {:.1f} GB/s, f32 {:.0f}, bf16 {:.0f} "
                  "GFLOP/s, int8 {:.0f} GOP/s",
                  limits.read_bytes_per_second / 1e9, limits.f32_flops / 1e9, limits.bf16_flops / 1e9,
                  limits.int8_ops / 1e9),
      {{"limit", "used"},
       {"threads", threads},
       {"isa", cpu.isa},
       {"gb_per_second", limits.read_bytes_per_second / 1e9},
       {"f32_gflops", limits.f32_flops / 1e9},
       {"bf16_gflops", limits.bf16_flops / 1e9},
       {"int8_gops", limits.int8_ops / 1e9}});
  if (!o.json)
    fmt::print("\n{:<12}{:<8}{:<26}{:<8}{:>5}{:>12}{:>10}{:>10}{:>11}\n", "kernel", "model", "part", "type", "rows",
               "us", "GB/s", "GOP/s", "of limit");
  std::vector<KernelResult> results;
  ESP_CHECK(measure_kernels(o.selection, {cpu, team}, [&](const KernelResult& r) {
    results.push_back(r);
    print_result(r, limits, out);
  }));
  ESP_CHECK(out.failure());
  if (o.plot.empty()) return success();
  return write_text(o.plot, draw_roofline(results, limits, fmt::format("Kernels on {} threads, {}", threads, cpu.isa)),
                    false);
}

}  // namespace

std::function<int()> add_kernels(CLI::App& bench) {
  auto o = std::make_shared<KernelOptions>();
  auto* verb = bench.add_subcommand("kernels", "this machine's limits, then every kernel at real shapes against them");
  KernelSelection& s = o->selection;
  const auto list = [&](const char* flag, auto& values, const char* help) {
    return verb->add_option(flag, values, help)->capture_default_str()->delimiter(',');
  };
  list("--kernels", s.kernels, "which")
      ->check(CLI::IsMember({"matmul", "attention", "elementwise", "sampling", "recurrent"}));
  list("--models", s.models, "whose shapes")->check(CLI::IsMember(kernel_models()));
  list("--types", o->types, "weights of matmul: any type of `espalier inspect`");
  list("--rows", s.rows, "tokens computed together (attention: sequences that decode, or tokens of one prompt)")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--threads,-t", o->threads, "default: one a performance core of this process")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--seconds-each", s.seconds_each, "to measure for; the best pass counts")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 60.0));
  verb->add_flag("--json", o->json, "one JSON object a line");
  verb->add_option("--output-file", o->output_file, "JSON lines are appended to it");
  verb->add_option("--plot", o->plot, "draws the roofline (.svg)");
  verb->footer(
      "The share is of the nearer limit, memory or multipliers, both measured in the same run. Weights, keys and\n"
      "values come from more copies than a cache holds; rows and logits may lie in one: shares above 100 % say so.\n"
      "ESPALIER_ISA=avx2 measures another instruction set. Examples:\n"
      "  espalier bench kernels --kernels matmul --types q4_0,bf16 --plot roofline.svg\n"
      "  espalier bench kernels --models smollm2,1b,8b --json");
  return [o] {
    const auto done = run(*o);
    return done.ok() ? 0 : fail(done.error());
  };
}

}  // namespace espalier::bench
