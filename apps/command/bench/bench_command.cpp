// `espalier bench latency|offline|accuracy|drafts|forks`: tokens per second of a model in this process and the share of
// what the machine gives; what int8 activations cost in accuracy. `bench serving|compare|sim|kernels` lie in bench/.
#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "bench/compare/compare_command.h"
#include "bench/kernels/kernels_command.h"
#include "bench/serving/serving_command.h"
#include "bench/sim/sim_command.h"
#include "command/bench/bench_accuracy.h"
#include "command/bench/bench_drafts.h"
#include "command/bench/bench_forks.h"
#include "command/bench/burst.h"
#include "command/bench/limits_probe.h"
#include "command/command.h"
#include "command/engine_flags.h"
#include "command/models/model_work.h"

namespace espalier::command {
namespace {

struct Arguments {
  std::string model;
  EngineOptions engine;
  std::vector<int> batch_sizes = {1}, input_lengths = {512};
  int output_length = 64, prompts = 64, repeat = 3;
  double range_ratio = 1.0;
  bool json = false;
  AccuracyArguments accuracy;
  DraftsArguments drafts;
  ForksArguments forks;
};

const CLI::Range kCount(1, 1 << 20);

std::vector<RequestFields> random_requests(const std::vector<std::pair<int, int>>& lengths, int vocabulary,
                                           std::mt19937_64& rng) {
  std::vector<RequestFields> out;
  for (const auto& [input, output] : lengths) out.push_back(endless(random_tokens(rng, input, vocabulary), output));
  return out;
}

// The best rate of several bursts, and what the machine gave right before and behind that one: neighbours take half of
// the memory's rate for seconds, so a limit seen at another time says nothing.
struct BestRate {
  double tokens_per_second = 0;
  MachineLimits limits;

  void offer(double rate, const MachineLimits& around) {
    if (rate > tokens_per_second) *this = {rate, around};
  }
};

void print_machine(const ModelInfo& model, const MachineLimits& limits) {
  fmt::print("{}: {} {}, activations {}, keys and values {}, {}\n", model.path, model.architecture, model.quantisation,
             model.activations, model.kv_type, computed_by(model));
  if (!model.packed_weights.empty()) fmt::print("weights {}\n", model.packed_weights);
  fmt::print("limits measured now: {}\n", shown(limits, model));
}

Result<> check_lengths(const Arguments& a, const ModelInfo& model) {
  const int context = std::min(model.limits.context_length, model.limits.pool_tokens);
  for (const int input : a.input_lengths)
    if (static_cast<std::int64_t>(input) + a.output_length > context)
      return bad_request(fmt::format("--input-len {} and --output-len {} need {} tokens, but the context has {}", input,
                                     a.output_length, static_cast<std::int64_t>(input) + a.output_length, context),
                         "--input-len");
  return success();
}

// One line of `bench latency`: requests of `input` tokens, so many at once.
void print_latency(const Arguments& a, const ModelInfo& model, int batch, int input, const BestRate& prefill,
                   const BestRate& decode) {
  const int middle = input + a.output_length / 2;  // the length of sequences that decode, on average
  const double step = batch / decode.tokens_per_second,
               prompt_rate = prompt_operations(model, input) * prefill.tokens_per_second / input,
               decode_rate = token_operations(model, middle) * decode.tokens_per_second,
               bytes = step_bytes(model, batch, middle) / step,
               prompt_share = prompt_rate / multiplier_limit(prefill.limits, model),
               decode_share = decode_rate / multiplier_limit(decode.limits, model),
               byte_share = bytes / decode.limits.read_bytes_per_second;
  if (a.json) {
    fmt::print(
        "{{\"batch_size\":{},\"input_len\":{},\"output_len\":{},\"prefill_throughput\":{:.1f},\"prefill_share\":{:."
        "3f},\"median_decode_throughput\":{:.1f},\"decode_step_ms\":{:.3f},\"decode_multiplier_share\":{:.3f},"
        "\"decode_memory_share\":{:.3f}}}\n",
        batch, input, a.output_length, prefill.tokens_per_second, prompt_share, decode.tokens_per_second, step * 1e3,
        decode_share, byte_share);
    return;
  }
  fmt::print(
      "batch {:>3}, {:>5} in: prefill {:>8.1f} tok/s, {:>6.1f} GOP/s = {:>4.1f} % of the multipliers; decode "
      "{:>7.1f} tok/s, {:.2f} ms a step, {:>6.1f} GOP/s = {:>4.1f} % of the multipliers, {:.1f} of {:.1f} GB/s = "
      "{:.1f} % of memory\n",
      batch, input, prefill.tokens_per_second, prompt_rate / 1e9, 100 * prompt_share, decode.tokens_per_second,
      step * 1e3, decode_rate / 1e9, 100 * decode_share, bytes / 1e9, decode.limits.read_bytes_per_second / 1e9,
      100 * byte_share);
}

int latency(const Arguments& a) {
  EngineOptions options = a.engine;
  options.radix_cache = false;       // no prompt comes twice, so the slots of one burst can be the next one's,
  options.kv_touch_ahead_bytes = 0;  // whose memory is there: nothing else is at work while the limits are measured
  auto engine = Engine::open(options);
  if (!engine.ok()) return fail(engine.error());
  const ModelInfo& model = (*engine)->model();
  if (const auto fine = check_lengths(a, model); !fine.ok()) return fail(fine.error());
  auto probe = LimitsProbe::open(a.engine);
  if (!probe.ok()) return fail(probe.error());
  auto before = probe->now();
  if (!before.ok()) return fail(before.error());
  if (!a.json) print_machine(model, *before);
  std::mt19937_64 rng(1);
  for (int batch : a.batch_sizes)
    for (int input : a.input_lengths) {
      BestRate prefill, decode;
      for (int i = 0; i < a.repeat; ++i) {
        const std::vector<std::pair<int, int>> lengths(static_cast<std::size_t>(batch), {input, a.output_length});
        auto m = burst(**engine, random_requests(lengths, model.limits.vocabulary, rng));
        if (!m.ok()) return fail(m.error());
        auto behind = probe->now();
        if (!behind.ok()) return fail(behind.error());
        const MachineLimits around = best_of(*before, *behind);
        prefill.offer(batch * input / m->first_token, around);
        decode.offer(m->decoded_tokens / m->decode_seconds, around);
        before = behind;
      }
      print_latency(a, model, batch, input, prefill, decode);
    }
  return 0;
}

int offline(const Arguments& a) {
  EngineOptions options = a.engine;
  options.max_queued = std::max(options.max_queued, a.prompts);
  options.max_queued_tokens = std::max<std::int64_t>(options.max_queued_tokens, std::int64_t{1} << 40);
  auto engine = Engine::open(options);
  if (!engine.ok()) return fail(engine.error());
  const ModelInfo& model = (*engine)->model();
  if (const auto fine = check_lengths(a, model); !fine.ok()) return fail(fine.error());
  auto probe = LimitsProbe::open(options);
  if (!probe.ok()) return fail(probe.error());
  auto limits = probe->now();
  if (!limits.ok()) return fail(limits.error());
  if (!a.json) print_machine(model, *limits);
  std::mt19937_64 rng(1);
  auto length = [&](int longest) {
    const int least = std::max(1, static_cast<int>(longest * a.range_ratio));
    return least + static_cast<int>(rng() % static_cast<unsigned>(longest - least + 1));
  };
  std::vector<std::pair<int, int>> lengths;
  for (int i = 0; i < a.prompts; ++i) lengths.emplace_back(length(a.input_lengths.front()), length(a.output_length));
  auto m = burst(**engine, random_requests(lengths, model.limits.vocabulary, rng));
  if (!m.ok()) return fail(m.error());
  const auto behind = probe->now();
  if (!behind.ok()) return fail(behind.error());
  double operations = 0;
  for (const auto& [input, output] : lengths) {
    operations += prompt_operations(model, input);
    for (int seen = input + 1; seen < input + output; ++seen) operations += token_operations(model, seen);
  }
  fmt::print(fmt::runtime(a.json ? "{{\"successful_requests\":{},\"total_latency\":{:.3f},\"total_input_tokens\":{},"
                                   "\"total_output_tokens\":{},\"request_throughput\":{:.3f},\"input_throughput\":{:."
                                   "1f},\"output_throughput\":{:.1f},\"multiplier_share\":{:.3f}}}\n"
                                 : "{} requests in {:.2f} s: {} tokens in, {} out; {:.2f} requests/s, {:.1f} in/s, "
                                   "{:.1f} out/s; {:.3f} of the multipliers\n"),
             a.prompts, m->seconds, m->input_tokens, m->output_tokens, a.prompts / m->seconds,
             m->input_tokens / m->seconds, m->output_tokens / m->seconds,
             operations / m->seconds / multiplier_limit(best_of(*limits, *behind), model));
  return 0;
}

CLI::App* add_verb(CLI::App& bench, const std::string& name, const std::string& help, Arguments& a) {
  auto* verb = bench.add_subcommand(name, help);
  verb->add_option("model", a.model, "smollm2-135m, a GGUF file, a folder with config.json, or a hub repository")
      ->required();
  verb->add_flag("--json", a.json, "one JSON object a line");
  add_engine_flags(*verb, a.engine);
  return verb;
}

// Decoding is measured between tokens: `least` is 2 where it is reported.
void add_lengths(CLI::App& verb, Arguments& a, int least) {
  verb.add_option("--input-len", a.input_lengths, "prompt tokens")
      ->capture_default_str()
      ->delimiter(',')
      ->check(kCount);
  verb.add_option("--output-len", a.output_length, "generated tokens")
      ->capture_default_str()
      ->check(CLI::Range(least, 1 << 20));
}

CLI::App* add_accuracy(CLI::App& bench, Arguments& a) {
  auto* verb = add_verb(bench, "accuracy", "KL divergence and perplexity against exact arithmetic, on a text", a);
  verb->add_option("--text", a.accuracy.text, "file to read")->required();
  verb->add_option("--piece-tokens", a.accuracy.piece_tokens, "tokens of one prompt")
      ->capture_default_str()
      ->check(CLI::Range(2, 4096));
  verb->add_option("--pieces", a.accuracy.pieces, "prompts at most")->capture_default_str()->check(CLI::PositiveNumber);
  return verb;
}

CLI::App* add_drafts(CLI::App& bench, Arguments& a) {
  auto* verb = add_verb(bench, "drafts", "decoding with drafts of every source against none, in alternation", a);
  verb->add_option("--rounds", a.drafts.rounds, "of every way; ratios are medians over them")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  verb->add_option("--num-prompts", a.drafts.prompts, "requests of one round")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  verb->add_option("--concurrency", a.drafts.concurrency, "requests at once")
      ->capture_default_str()
      ->check(CLI::Range(1, 64));
  verb->add_option("--output-len", a.drafts.output_length, "generated tokens of one answer, at most")
      ->capture_default_str()
      ->check(CLI::Range(2, 100000));
  return verb;
}

CLI::App* add_forks(CLI::App& bench, Arguments& a) {
  auto* verb = add_verb(bench, "forks", "decoding forks of one prefix: together, with copies of it, without it", a);
  verb->add_option("--forks", a.forks.forks, "sequences at once")->capture_default_str()->check(CLI::Range(1, 1024));
  verb->add_option("--prefix-len", a.forks.prefix, "tokens they share")->capture_default_str()->check(kCount);
  verb->add_option("--own-len", a.forks.own, "prompt tokens of each behind it")->capture_default_str()->check(kCount);
  verb->add_option("--output-len", a.forks.output, "generated tokens")
      ->capture_default_str()
      ->check(CLI::Range(2, 1 << 20));
  verb->add_option("--rounds", a.forks.rounds, "of every way; ratios are medians over them")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  return verb;
}

}  // namespace

Run add_bench(CLI::App& app) {
  auto* bench = app.add_subcommand("bench", "measure a model against this machine's limits");
  bench->require_subcommand(1);
  auto a = std::make_shared<Arguments>();
  auto* latency_verb = add_verb(*bench, "latency", "prefill and decode of batches of equal requests", *a);
  add_lengths(*latency_verb, *a, 2);
  latency_verb->add_option("--batch-size", a->batch_sizes, "requests at once")
      ->capture_default_str()
      ->delimiter(',')
      ->check(kCount);
  latency_verb->add_option("--repeat", a->repeat, "bursts; the best counts")->capture_default_str()->check(kCount);
  auto* offline_verb = add_verb(*bench, "offline", "many requests at once, to the last token", *a);
  add_lengths(*offline_verb, *a, 1);
  offline_verb->add_option("--num-prompts", a->prompts, "requests")->capture_default_str()->check(kCount);
  offline_verb->add_option("--random-range-ratio", a->range_ratio, "lengths are drawn from ratio x length to length")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  auto* accuracy_verb = add_accuracy(*bench, *a);
  auto* drafts_verb = add_drafts(*bench, *a);
  auto* forks_verb = add_forks(*bench, *a);
  const Run serving = bench::add_serving(*bench), compare = bench::add_compare(*bench),
            sim = bench::add_sim(*bench, find_model), kernels = bench::add_kernels(*bench);
  return [a, bench, latency_verb, accuracy_verb, drafts_verb, forks_verb, serving, compare, sim, kernels] {
    if (bench->got_subcommand("serving")) return serving();
    if (bench->got_subcommand("compare")) return compare();
    if (bench->got_subcommand("sim")) return sim();
    if (bench->got_subcommand("kernels")) return kernels();
    if (drafts_verb->parsed() && !a->engine.draft_model.empty()) a->engine.speculative = "draft";
    if (auto fine = a->engine.check(); !fine.ok()) return fail(fine.error());
    if (auto found = find_models(a->model, a->engine); !found.ok()) return fail(found.error());
    a->accuracy.json = a->json;
    a->drafts.json = a->json;
    a->forks.json = a->json;
    if (forks_verb->parsed()) return bench_forks(a->engine, a->forks);
    if (drafts_verb->parsed()) return bench_drafts(a->engine, a->drafts);
    if (accuracy_verb->parsed()) return bench_accuracy(a->engine, a->accuracy);
    return latency_verb->parsed() ? latency(*a) : offline(*a);
  };
}

}  // namespace espalier::command
