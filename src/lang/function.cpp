#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include "base/threads/start_thread.h"
#include "espalier/program.h"
#include "lang/batch/batch.h"
#include "lang/execute/stream_executor.h"
#include "lang/graph/tracing.h"

namespace espalier {
namespace {

struct DefaultBackend {
  std::mutex mutex;
  std::shared_ptr<Backend> backend;
};
DefaultBackend& the_default() {
  static DefaultBackend one;
  return one;
}

std::shared_ptr<const lang::RunSetup> setup_of(const RunOptions& options) {
  auto setup = std::make_shared<lang::RunSetup>();
  setup->backend = options.backend ? options.backend : default_backend();
  if (!setup->backend)
    throw ProgramError(bad_request("no back end: give the run one, or call set_default_backend()", "backend"));
  setup->defaults = options.defaults;
  setup->stream = options.stream;
  setup->api_spec_tokens = options.api_spec_tokens;
  if (options.stream && options.api_spec_tokens > 0)
    throw ProgramError(bad_request("API speculation cannot be streamed: what comes is divided afterwards", "stream"));
  return setup;
}

Error error_of(std::exception_ptr thrown) {
  try {
    std::rethrow_exception(std::move(thrown));
  } catch (const ProgramError& failed) {
    return failed.error();
  } catch (const std::exception& failed) {
    return internal_error(fmt::format("the program's function failed: {}", failed.what()));
  } catch (...) {
    return internal_error("the program's function failed");
  }
}

// A function that runs in a thread of its own while its state is read; it is cancelled with the state.
class RunningBody {
 public:
  RunningBody(std::shared_ptr<lang::StateCore> core, std::function<void(State&)> body)
      : core_(std::move(core)), thread_(start(core_, std::move(body))) {}
  RunningBody(const RunningBody&) = delete;
  ~RunningBody() {
    core_->cancel({Error::Kind::cancelled, "the state was dropped while its function ran", {}, {}});
    if (thread_.get_id() == std::this_thread::get_id())
      thread_.detach();  // the function itself held the last copy
    else
      thread_.join();
  }

 private:
  static std::thread start(const std::shared_ptr<lang::StateCore>& core, std::function<void(State&)> body) {
    auto thread = start_thread("program's", [core, body = std::move(body)] {
      try {
        State s(core);
        body(s);
      } catch (...) {
        core->cancel(error_of(std::current_exception()));
      }
      core->end();
    });
    if (!thread.ok()) throw ProgramError(thread.error());
    return std::move(thread).value();
  }

  std::shared_ptr<lang::StateCore> core_;
  std::thread thread_;
};

Arguments merged(const Arguments& call, const Arguments& fixed, const std::vector<std::string>& parameters) {
  Arguments all = call;
  for (const auto& [name, value] : fixed.values()) all.set(name, value);
  if (parameters.empty()) return all;
  for (const std::string& name : parameters) (void)all[name];  // throws for one that is missing
  for (const auto& [name, value] : all.values())
    if (std::ranges::find(parameters, name) == parameters.end())
      throw ProgramError(
          bad_request(fmt::format("the function has no parameter {}; it has {}", name, fmt::join(parameters, ", ")),
                      name, "no_such_argument"));
  return all;
}

}  // namespace

void set_default_backend(std::shared_ptr<Backend> backend) {
  const std::lock_guard lock(the_default().mutex);
  the_default().backend = std::move(backend);
}

std::shared_ptr<Backend> default_backend() {
  const std::lock_guard lock(the_default().mutex);
  return the_default().backend;
}

Function::Function(std::string name, std::vector<std::string> parameters, Body body)
    : name_(std::move(name)), parameters_(std::move(parameters)), body_(std::move(body)) {}

Function Function::bind(const Arguments& fixed) const {
  Function bound = *this;
  for (const auto& [name, value] : fixed.values()) bound.fixed_.set(name, value);
  return bound;
}

State Function::run(const Arguments& arguments, const RunOptions& options) const {
  Arguments all = merged(arguments, fixed_, parameters_);
  if (auto recorded = lang::record_run(*this, all, options)) return *std::move(recorded);
  auto core = lang::StreamExecutor::begin(setup_of(options));
  if (options.stream) {
    auto body = [body = body_, all = std::move(all)](State& s) { body(s, all); };
    return State(core, std::make_shared<RunningBody>(core, std::move(body)));
  }
  State s(core);
  try {
    body_(s, all);
  } catch (...) {
    core->end();
    throw;
  }
  core->end();
  return s;
}

std::vector<State> Function::run_batch(std::span<const Arguments> items, const RunOptions& options,
                                       const BatchOptions& batch) const {
  lang::refuse_while_tracing("a batch");
  std::vector<State> all;
  all.reserve(items.size());
  lang::run_batch(
      items.size(), batch, {.ahead = items.size()}, [&](std::size_t i) { return run(items[i], options); },
      [&](std::size_t, State s) { all.push_back(std::move(s)); });
  return all;
}

void Function::run_batch(std::span<const Arguments> items, const RunOptions& options, const BatchOptions& batch,
                         const std::function<void(std::size_t, State)>& each) const {
  lang::refuse_while_tracing("a batch");
  lang::run_batch(
      items.size(), batch, {.failures_in_place = true}, [&](std::size_t i) { return run(items[i], options); }, each);
}

}  // namespace espalier
