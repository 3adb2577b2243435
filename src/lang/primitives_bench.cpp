// What a primitive of the language costs beside the model: microseconds each, of this process' processor time, of it
// what is not the engine's thread, and of the clock. On a back end that costs nothing it is the language's own share;
// on a model of one tiny layer a step of the engine comes with each call, which is told by itself.
//
//   primitives_bench [MODEL_FOLDER = tests/data/goldens/models/llama3-tied-gqa]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string>

#include "espalier/compiler.h"
#include "espalier/program.h"
#include "lang/backends/measured_backends.h"

#pragma GCC diagnostic ignored "-Wshadow"  // a program's state is `s`, inside the function and outside

namespace {

namespace sgl = espalier;
using sgl::State;

double now_us(clockid_t clock) {
  timespec t{};
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) * 1e6 + static_cast<double>(t.tv_nsec) * 1e-3;
}

// Of all threads of the engine.
double engine_us() {
  double all = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream comm(task.path() / "comm"), times(task.path() / "schedstat");
    std::string name;
    double ns = 0;
    if (std::getline(comm, name) && name.starts_with("esp-engine")) times >> ns;
    all += ns * 1e-3;
  }
  return all;
}

struct Cost {
  double processor = 1e12, own = 1e12, clock = 1e12;  // us; the least of some rounds: others on the machine only add
};

template <class Work>
Cost cost_of(int count, const Work& work) {
  Cost least;
  for (int round = 0; round < 9; ++round) {
    const double processor = now_us(CLOCK_PROCESS_CPUTIME_ID), engine = engine_us(), clock = now_us(CLOCK_MONOTONIC);
    work(count);
    const double took = now_us(CLOCK_MONOTONIC) - clock, engine_took = engine_us() - engine;
    const double spent = now_us(CLOCK_PROCESS_CPUTIME_ID) - processor;
    least.processor = std::min(least.processor, spent / count);
    least.own = std::min(least.own, (spent - engine_took) / count);
    least.clock = std::min(least.clock, took / count);
  }
  return least;
}

void tell(const char* name, const Cost& cost) {
  fmt::print("  {:48} {:9.2f} {:9.2f} {:9.2f}\n", name, cost.processor, cost.own, cost.clock);
  std::fflush(stdout);
}

class Primitives {
 public:
  explicit Primitives(std::shared_ptr<sgl::Backend> backend)
      : options_{.backend = std::move(backend), .defaults = {.max_tokens = 1, .temperature = 0, .ignore_eos = true}} {}

  void measure() {
    const auto gen = [] { return sgl::gen("x"); };
    in_state("append a text", 2000, [](State& s) { s += "a"; });
    in_state("append a user's turn", 1000, [](State& s) { s += sgl::user("a"); });
    in_state("scope with a text", 1000, [](State& s) {
      const auto scope = s.scope("v");
      s += "a";
    });
    in_state("set and read a variable", 1000, [](State& s) {
      s.set("v", "a");
      (void)s["v"].text();
    });
    in_state("gen of one token, queued behind others", 200, [&](State& s) { s += gen(); });
    in_state("gen of one token, read", 200, [&](State& s) {
      s += gen();
      (void)s["x"].text();
    });
    in_state("select of two, queued behind others", 100, [](State& s) { s += sgl::select("c", {"a", "b"}); });
    in_state("fork of one", 500, [](State& s) { (void)s.fork(1); });
    in_state("fork of 8, a text each, join (a branch)", 8 * 60, [n = 0](State& s) mutable {
      if (n++ % 8 != 0) return;
      auto forks = s.fork(8);
      forks += "b";
      forks.join();
    });
    const sgl::Function text("f", {"x"}, [](State& s, const sgl::Arguments& args) { s += "a" + args["x"]; });
    const sgl::Arguments argument{{"x", "b"}};
    tell("run of one text", cost_of(500, [&](int count) {
           for (int i = 0; i < count; ++i) text.run(argument, options_);
         }));
    const auto compiled = sgl::compile(text, {.backend = options_.backend});
    tell("run of one text, compiled", cost_of(500, [&](int count) {
           for (int i = 0; i < count; ++i) compiled->run(argument);
         }));
    tell("run of one text in a batch", cost_of(500, [&](int count) {
           text.run_batch(std::vector<sgl::Arguments>(static_cast<std::size_t>(count), argument), options_,
                          {.threads = 2});
         }));
  }

 private:
  template <class Each>
  void in_state(const char* name, int count, Each each) {
    tell(name, cost_of(count, [&](int times) {
           const auto body = [&](State& s) {
             s += "a";
             for (int i = 0; i < times; ++i) each(s);
           };
           sgl::run(body, options_).sync();
         }));
  }

  const sgl::RunOptions options_;
};

// The engine alone: a request like the generation's, and its end.
void bare_request(sgl::Engine& engine) {
  sgl::RequestFields fields;
  fields.prompt = {1, 2};
  fields.sampling.temperature = 0;
  fields.sampling.max_new_tokens = 1;
  fields.sampling.ignore_eos = true;
  auto stream = engine.submit(sgl::Request::make(std::move(fields), engine.model().limits).value()).value();
  for (bool ended = false; !ended;) {
    stream.wait(std::chrono::seconds(1));
    for (const sgl::StreamEvent& event : stream.take())
      ended = ended || std::holds_alternative<sgl::FinishEvent>(event);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fmt::print("{:50} {:>9} {:>9} {:>9}\na back end that costs nothing\n", "us each", "processor", "own", "clock");
  Primitives(std::make_shared<sgl::lang::FreeBackend>()).measure();
  const sgl::lang::TinyModel model(argc > 1 ? argv[1] : "tests/data/goldens/models/llama3-tied-gqa");
  const auto engine = model.open().value();
  fmt::print("a model of one tiny layer\n");
  tell("(a request of the engine, without the language)", cost_of(200, [&](int count) {
         for (int i = 0; i < count; ++i) bare_request(*engine);
       }));
  Primitives(sgl::open_local({engine, "chatml"}).value()).measure();
  return 0;
}
