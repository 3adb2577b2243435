// What many programs at once take: MiB over the start at most, threads at most, and seconds, of a batch of programs
// with forks.
//
//   batch_bench [programs = 1000] [forks = 8] [MODEL_FOLDER = tests/data/goldens/models/llama3-tied-gqa]
//
// Each says a text, forks, generates in every branch, joins, and generates once more. All are under way at once where
// it says so: nothing is answered before every branch of every program has asked.
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include "base/system/free_memory.h"
#include "espalier/compiler.h"
#include "espalier/program.h"
#include "lang/backends/measured_backends.h"

namespace {

namespace sgl = espalier;
using Clock = std::chrono::steady_clock;

// A line of /proc/self/status.
long status(std::string_view name) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with(name)) return std::atol(line.c_str() + name.size() + 1);
  return 0;
}

// From here on: the most memory since, and the most threads that were seen.
class Watch {
 public:
  Watch() {
    espalier::give_back_free_memory();
    std::ofstream("/proc/self/clear_refs") << 5;  // VmHWM begins anew
    began_kib_ = status("VmRSS");
    thread_ = std::thread([this] {
      for (; !over_; std::this_thread::sleep_for(std::chrono::milliseconds(2)))
        threads_ = std::max(threads_.load(), status("Threads") - 1);
    });
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    over_ = true;
    thread_.join();
  }
  double mib() const { return static_cast<double>(status("VmHWM") - began_kib_) / 1024; }
  long threads() const { return threads_; }

 private:
  long began_kib_ = 0;
  std::atomic<long> threads_{0};
  std::atomic<bool> over_{false};
  std::thread thread_;
};

sgl::Function program(int forks) {
  return {"branches", {"x"}, [forks](sgl::State& s, const sgl::Arguments& args) {
            s += "Question number " + args["x"] + ": what is to be thought of it?";
            auto group = s.fork(forks);
            group += [](int i) { return " Branch " + std::to_string(i) + ":" + sgl::gen("a"); };
            group.join();
            s += " In the end:" + sgl::gen("end");
          }};
}

template <class Run>
void measure(const char* name, const Run& run) {
  const Watch watch;
  const auto began = Clock::now();
  const std::vector<sgl::State> states = run();
  const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
  std::size_t failed = 0;
  for (const sgl::State& s : states) failed += s.error() ? 1 : 0;
  fmt::print("  {:56} {:8.1f} {:8} {:8.2f} {:7}\n", name, watch.mib(), watch.threads(), seconds, failed);
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  const auto programs = static_cast<std::size_t>(argc > 1 ? std::atoi(argv[1]) : 1000);
  const int forks = argc > 2 ? std::atoi(argv[2]) : 8;
  const sgl::Function f = program(forks);
  std::vector<sgl::Arguments> items;
  for (std::size_t i = 0; i < programs; ++i) items.push_back({{"x", std::to_string(i)}});
  const sgl::GenOptions defaults{.max_tokens = 4, .temperature = 0, .ignore_eos = true};

  fmt::print("{} programs with {} forks each                               MiB   threads        s  failed\n", programs,
             forks);
  const auto free = std::make_shared<sgl::lang::FreeBackend>();
  measure("free, interpreted", [&] { return f.run_batch(items, {.backend = free, .defaults = defaults}); });
  const auto compiled = sgl::compile(f, {.backend = free, .defaults = defaults}).value();
  measure("free, compiled", [&] { return compiled.run_batch(items); });
  const int all = static_cast<int>(programs);
  free->answer_from(programs * static_cast<std::size_t>(forks));
  measure("free, interpreted, all at once",
          [&] { return f.run_batch(items, {.backend = free, .defaults = defaults}, {.threads = all}); });
  free->answer_from(programs * static_cast<std::size_t>(forks));
  measure("free, compiled, all at once", [&] { return compiled.run_batch(items, {.threads = all}); });

  const sgl::lang::TinyModel model(argc > 3 ? argv[3] : "tests/data/goldens/models/llama3-tied-gqa");
  const auto local = sgl::open_local({model.open().value(), "chatml"}).value();
  measure("one tiny layer, interpreted", [&] { return f.run_batch(items, {.backend = local, .defaults = defaults}); });
  const auto here = sgl::compile(f, {.backend = local, .defaults = defaults}).value();
  (void)local->flush_cache();
  measure("one tiny layer, compiled", [&] { return here.run_batch(items); });
  (void)local->flush_cache();
  measure("one tiny layer, compiled, all at once", [&] { return here.run_batch(items, {.threads = all}); });
  return 0;
}
