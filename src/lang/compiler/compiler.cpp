// compile(): the passes in their order, and the program that comes out.
#include "espalier/compiler.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "base/json/json_fields.h"
#include "lang/batch/batch.h"
#include "lang/compiler/incremental.h"
#include "lang/compiler/passes.h"
#include "lang/compiler/served_batch.h"
#include "lang/compiler/tuning.h"
#include "lang/graph/prefix.h"
#include "lang/graph/replay.h"
#include "lang/graph/tracing.h"

namespace espalier {
namespace {

constexpr std::size_t kLeastPrefix = 64;  // bytes; a shorter one is not worth a call

constexpr int kUntuned = BatchSettings().runs;

struct NamedPass {
  std::string_view name;
  bool Passes::* on;
};
constexpr NamedPass kPasses[] = {
    {"fold_constants", &Passes::fold_constants}, {"move_pieces", &Passes::move_pieces},
    {"merge_equal", &Passes::merge_equal},       {"drop_dead", &Passes::drop_dead},
    {"choice_paths", &Passes::choice_paths},     {"choice_grammar", &Passes::choice_grammar},
    {"share_samples", &Passes::share_samples},   {"chain_calls", &Passes::chain_calls},
    {"hoist_prefix", &Passes::hoist_prefix},     {"plan_speculation", &Passes::plan_speculation},
    {"submit_batches", &Passes::submit_batches},
};

}  // namespace

const std::vector<std::string_view>& Passes::names() {
  static const std::vector<std::string_view> all = [] {
    std::vector<std::string_view> names;
    for (const NamedPass& pass : kPasses) names.push_back(pass.name);
    return names;
  }();
  return all;
}

Result<> Passes::set(std::string_view name, bool on) {
  const auto* pass = std::ranges::find(kPasses, name, &NamedPass::name);
  if (pass == std::end(kPasses))
    return bad_request(fmt::format("no pass {}; there are {}", name, fmt::join(names(), ", ")), std::string(name));
  this->*pass->on = on;
  return success();
}

bool Passes::is_on(std::string_view name) const {
  return this->*std::ranges::find(kPasses, name, &NamedPass::name)->on;
}

// ---- The program ----------------------------------------------------------------------------------------------------

struct CompiledProgram::Impl {
  Graph graph;
  CompileOptions options;
  std::vector<PassReport> reports;
  std::optional<Function> runs;               // always set
  std::optional<Function> scored;             // the same with all selects scored; unset where they are
  std::string prefix;                         // that all runs begin with, where it is worth a call of its own
  std::optional<lang::ServedProgram> served;  // of a batch; none: it is made of calls
  int api_spec_tokens = 0;
  lang::TuningKey key;

  BatchSettings settings() const {
    const std::lock_guard lock(mutex);
    return tuned.value_or(BatchSettings{.runs = graph.ends_because.empty() ? kUntuned : 0});
  }
  void keep(const BatchSettings& settings) {
    const std::lock_guard lock(mutex);
    tuned = settings;
  }
  State run(const Arguments& arguments, bool stream, bool all_scored) const {
    return (all_scored && scored ? *scored : *runs).run(arguments, run_options(stream));
  }
  static std::vector<State> run_batch(const std::shared_ptr<const Impl>& self, std::vector<Arguments> items,
                                      const BatchSettings& with,
                                      const std::function<void(std::size_t, std::size_t)>& progress);
  static std::function<State(std::size_t)> begin_batch(const std::shared_ptr<const Impl>& self,
                                                       std::vector<Arguments> items, const BatchSettings& with);

  mutable std::mutex mutex;
  std::optional<BatchSettings> tuned;

  // Null where there is none that is worth a call. The call's failure is each run's own: they make it again.
  std::shared_ptr<HeldPrefix> hold_prefix() const {
    if (prefix.empty()) return nullptr;
    auto held = options.backend->hold(prefix);
    return held.ok() ? std::move(held).value() : nullptr;
  }
  RunOptions run_options(bool stream) const { return {options.backend, options.defaults, stream, api_spec_tokens}; }
};

namespace {

class Pipeline {
 public:
  Pipeline(Graph& graph, const CompileOptions& options)
      : graph_(graph), options_(options), traits_(options.backend->traits()) {}

  std::vector<PassReport> run() {
    const bool whole = graph_.ends_because.empty();
    const GenOptions& defaults = options_.defaults;
    step("fold_constants", true, [&](PassReport& report) { lang::fold_constants(graph_, report); });
    step("move_pieces", true, [&](PassReport& report) { lang::move_pieces(graph_, report); });
    step("merge_equal", whole, [&](PassReport& report) { lang::merge_equal(graph_, defaults, report); });
    step("drop_dead", whole, [&](PassReport& report) { lang::drop_dead(graph_, options_.outputs, report); });
    step("choice_paths", whole, [&](PassReport& report) {
      lang::choice_paths(graph_, traits_, {options_.meta_read, options_.outputs}, report);
    });
    step("choice_grammar", traits_.constraints, [&](PassReport& report) { lang::choice_grammar(graph_, report); });
    step("submit_batches", whole, [&](PassReport& report) { submit_batches(report); });
    const lang::ServedRows rows{.speculated = whole && traits_.speculates && options_.passes.plan_speculation,
                                .chained = traits_.chains && options_.passes.chain_calls};
    step("share_samples", traits_.samples,
         [&](PassReport& report) { lang::share_samples(graph_, defaults, rows, report); });
    step("chain_calls", traits_.chains, [&](PassReport& report) { lang::chain_calls(graph_, defaults, report); });
    step("hoist_prefix", true, [&](PassReport& report) { hoist_prefix(report); });
    step("plan_speculation", whole,
         [&](PassReport& report) { api_spec_tokens = lang::plan_speculation(graph_, traits_, defaults, report); });
    return std::move(reports_);
  }
  std::string prefix;
  int api_spec_tokens = 0;
  std::optional<lang::ServedProgram> served;

 private:
  // `possible`: on this back end, for this program.
  void step(std::string_view name, bool possible, const std::function<void(PassReport&)>& pass) {
    const bool on = options_.passes.is_on(name);
    PassReport report{std::string(name), on && possible, {}, 0, 0};
    if (report.on) pass(report);
    reports_.push_back(std::move(report));
  }

  // What the passes behind this one do is for calls.
  void submit_batches(PassReport& report) {
    served = lang::ServedProgram::of(graph_, options_);
    if (served) report.changes.push_back(fmt::format("up to {} runs are one request", served->most_runs()));
  }

  void hoist_prefix(PassReport& report) {
    std::string all = lang::constant_prefix(graph_, options_.backend->chat_format());
    if (all.size() < kLeastPrefix) return;
    report.prompt_bytes = static_cast<std::int64_t>(all.size());
    report.changes.push_back(fmt::format("all runs begin with the same {} bytes", all.size()));
    prefix = std::move(all);
  }

  Graph& graph_;
  const CompileOptions& options_;
  const BackendTraits& traits_;
  std::vector<PassReport> reports_;
};

}  // namespace

const std::string& CompiledProgram::name() const {
  return impl_->graph.name;
}
const std::vector<std::string>& CompiledProgram::parameters() const {
  return impl_->runs->parameters();
}
const Graph& CompiledProgram::graph() const {
  return impl_->graph;
}
bool CompiledProgram::whole() const {
  return impl_->graph.ends_because.empty();
}
const std::vector<PassReport>& CompiledProgram::passes() const {
  return impl_->reports;
}

std::string CompiledProgram::report() const {
  std::string out;
  for (const PassReport& pass : impl_->reports) {
    out += fmt::format("{}: {}", pass.pass, !pass.on ? "off" : pass.changes.empty() ? "nothing to change" : "");
    std::vector<std::string> saved;
    if (pass.calls > 0) saved.push_back(fmt::format("{} calls fewer a run", pass.calls));
    if (pass.prompt_bytes > 0) saved.push_back(fmt::format("{} bytes of prompt shared", pass.prompt_bytes));
    out += fmt::format("{}\n", fmt::join(saved, ", "));
    for (const std::string& change : pass.changes) out += fmt::format("  {}\n", change);
  }
  if (!whole()) out += fmt::format("compiled from one look at a value to the next: {}\n", impl_->graph.ends_because);
  return out;
}

Json CompiledProgram::report_json() const {
  Json list = Json::array();
  for (const PassReport& pass : impl_->reports)
    list.push_back({{"pass", pass.pass},
                    {"on", pass.on},
                    {"changes", pass.changes},
                    {"calls_saved", pass.calls},
                    {"prompt_bytes_shared", pass.prompt_bytes}});
  return list;
}

State CompiledProgram::run(const Arguments& arguments, bool stream) const {
  lang::refuse_while_tracing("a run of a compiled program");
  if (impl_->options.submit_runs && !stream) return batch({arguments})(0);
  return impl_->run(arguments, stream, settings().scored);
}

std::vector<State> CompiledProgram::run_batch(std::span<const Arguments> items, const BatchOptions& batch) const {
  lang::refuse_while_tracing("a batch");
  BatchSettings with = settings();
  if (batch.threads > 0) with.runs = batch.threads;
  return Impl::run_batch(impl_, {items.begin(), items.end()}, with, batch.progress);
}

std::vector<State> CompiledProgram::Impl::run_batch(const std::shared_ptr<const Impl>& self,
                                                    std::vector<Arguments> items, const BatchSettings& with,
                                                    const std::function<void(std::size_t, std::size_t)>& progress) {
  const std::size_t count = items.size();
  const auto begin = begin_batch(self, std::move(items), with);
  std::vector<State> all;
  all.reserve(count);
  const auto each = [&](std::size_t, State s) { all.push_back(std::move(s)); };
  if (!self->graph.ends_because.empty()) {
    lang::run_batch(count, {with.runs, progress}, {.ahead = count}, begin, each);
    return all;
  }
  const lang::BatchWindow window{static_cast<std::size_t>(with.runs), static_cast<std::size_t>(with.group)};
  lang::run_batch(count, {1, progress}, window, begin, each);
  return all;
}

std::function<State(std::size_t)> CompiledProgram::Impl::begin_batch(const std::shared_ptr<const Impl>& self,
                                                                     std::vector<Arguments> items,
                                                                     const BatchSettings& with) {
  const auto one_by_one = [self, scored = with.scored](const Arguments& item) {
    return self->run(item, false, scored);
  };
  // What is served has the ways that the passes found.
  const bool as_compiled = !(with.scored && self->scored);
  if (self->served && as_compiled && (items.size() > 1 || self->options.submit_runs)) {
    auto served = std::make_shared<lang::ServedBatch>(
        *self->served, std::move(items), static_cast<std::size_t>(with.runs), self->run_options(false), one_by_one);
    return [served](std::size_t i) { return served->begin(i); };
  }
  auto held = items.size() > 1 ? self->hold_prefix() : nullptr;
  return [one_by_one, held = std::move(held), all = std::move(items)](std::size_t i) { return one_by_one(all[i]); };
}

std::function<State(std::size_t)> CompiledProgram::batch(std::vector<Arguments> items, int at_once) const {
  lang::refuse_while_tracing("a batch");
  BatchSettings with = settings();
  if (at_once > 0) with.runs = at_once;
  return Impl::begin_batch(impl_, std::move(items), with);
}

BatchSettings CompiledProgram::settings() const {
  return impl_->settings();
}

Result<std::vector<MeasuredSettings>> CompiledProgram::tune(std::span<const Arguments> items,
                                                            const TuneOptions& options) {
  if (items.empty()) return bad_request("tuning needs items to run", "items");
  const auto measure = [&](const BatchSettings& with) -> Result<double> {
    (void)impl_->options.backend->flush_cache();  // one that cannot be flushed stays as warm for all
    const auto began = std::chrono::steady_clock::now();
    const auto states = Impl::run_batch(impl_, {items.begin(), items.end()}, with, {});
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    for (const State& s : states)
      if (const auto failed = s.error()) return *failed;
    return seconds;
  };
  const lang::Tunable tunable{.groups = whole(), .ways = impl_->scored.has_value()};
  ESP_TRY(lang::Tuning found, lang::find_quickest(options, tunable, measure));
  impl_->keep(found.best);
  ESP_CHECK(lang::save_tuning(impl_->key, found.best, found.measured));
  return std::move(found.measured);
}

// ---- compile() ------------------------------------------------------------------------------------------------------

namespace {

Result<CompileOptions> with_backend(CompileOptions options) {
  if (!options.backend) options.backend = default_backend();
  if (!options.backend) return bad_request("no back end: give compile() one, or call set_default_backend()", "backend");
  return options;
}

// Nothing: they are.
std::optional<Graph> with_selects_scored(Graph graph) {
  bool changed = false;
  for (Graph::Node& one : graph.nodes) {
    auto* select = std::get_if<node::Select>(&one.content);
    if (select == nullptr || select->choices.size() < 2) continue;
    changed = changed || select->way != SelectWay::scoring;
    select->way = SelectWay::scoring;
  }
  return changed ? std::optional(std::move(graph)) : std::nullopt;
}

}  // namespace

// `followed`: the function itself, where it cannot be traced to its end.
Result<CompiledProgram> CompiledProgram::make(Graph graph, std::optional<Function> followed,
                                              const CompileOptions& options) {
  auto impl = std::make_shared<Impl>();
  ESP_TRY(impl->options, with_backend(options));
  if (!options.tuning_folder.empty()) {
    const auto info = impl->options.backend->server_info();
    const Json* model = info.ok() ? find_field(*info, "model_path") : nullptr;
    impl->key = {options.tuning_folder, graph.name, graph.to_json(), model ? model->dump() : ""};
    ESP_TRY(const auto tuned, lang::load_tuning(impl->key));
    if (tuned) impl->keep(*tuned);
  }
  Pipeline pipeline(graph, impl->options);
  impl->reports = pipeline.run();
  impl->prefix = std::move(pipeline.prefix);
  impl->served = std::move(pipeline.served);
  impl->api_spec_tokens = pipeline.api_spec_tokens;
  if (followed) {
    auto body = [function = *followed, with = impl->options](State& s, const Arguments& arguments) {
      lang::compile_incrementally(function, s, arguments, with);
    };
    impl->runs = Function(followed->name(), followed->parameters(), std::move(body)).bind(followed->fixed());
  } else {
    ESP_TRY(impl->runs, lang::function_of(graph));
    if (auto all_scored = with_selects_scored(graph)) {
      ESP_TRY(impl->scored, lang::function_of(*std::move(all_scored)));
    }
  }
  impl->graph = std::move(graph);
  return CompiledProgram(std::move(impl));
}

Result<CompiledProgram> compile(Graph graph, const CompileOptions& options) {
  ESP_CHECK(graph.check());
  return CompiledProgram::make(std::move(graph), std::nullopt, options);
}

Result<CompiledProgram> compile(const Function& function, const CompileOptions& options) {
  Graph graph = trace(function);
  std::optional<Function> followed;
  if (!graph.ends_because.empty()) followed = function;
  return CompiledProgram::make(std::move(graph), std::move(followed), options);
}

}  // namespace espalier
