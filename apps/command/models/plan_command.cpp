// `espalier plan MODEL`: what serving it would take of the memory, and how many tokens would fit; nothing is loaded. With
// --tp-size also what ranks would tell each other in a step, and which link would be worth it.
#include <fmt/format.h>

#include <algorithm>

#include "bench/fleet/rank_group.h"
#include "bench/plot/chart.h"
#include "bench/serving/console.h"
#include "command/command.h"
#include "command/engine_flags.h"
#include "command/output.h"
#include "device/lowering/products.h"
#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/loaded_model.h"
#include "engine/load/packed_cache.h"
#include "engine/memory/state_pool.h"
#include "engine/memory/window_plan.h"
#include "espalier/json.h"
#include "kernels/machine_limits.h"
#include "model/program/builder.h"
#include "model/program/work.h"
#include "model/ranks/gathers.h"
#include "model/weights/check.h"
#include "tensor/describe.h"

namespace espalier::command {
namespace {

// One kind of what layers keep of a token.
struct Kept {
  TokenField field;
  int layers = 1;
  std::int64_t bytes = 0;  // of a token, in each of these layers
};

// A step that ranks compute together: how long one rank takes alone, and the group.
struct SharedStep {
  std::string what;
  int rows = 0, wanted = 0;
  double alone = 0;
};

struct RankPlan {
  bench::RankGroup group;
  bool measured = false;  // the steps' times are from this machine's memory and multipliers
  bool has_link = false;
  std::vector<SharedStep> steps;
};

struct ServingPlan {
  std::string path, kv_type, weights_type;
  std::int64_t weight_bytes = 0, free_bytes = 0, pool_bytes = 0;
  std::int64_t token_bytes = 0;  // of all layers
  std::vector<Kept> kept;
  int context = 0, pool_tokens = 0, window_tokens = 0, state_cells = 0;
  std::int64_t state_bytes = 0;     // of one sequence
  std::int64_t tokens_at_most = 0;  // with all memory that the weights leave
  std::string limit;                // who sets the memory's
  std::string device;               // whose memory it is
  bool on_cpu = true;
  std::optional<RankPlan> ranks;

  bool fits() const { return weight_bytes < free_bytes; }
  bool pool_fits() const { return weight_bytes + pool_bytes <= free_bytes; }
};

std::vector<Kept> kinds_of(const CacheLayout& layout) {
  std::vector<Kept> kinds;
  for (const TokenField& field : layout.fields) {
    const auto known = std::ranges::find(kinds, field, &Kept::field);
    if (known != kinds.end())
      ++known->layers;
    else
      kinds.push_back({field, 1, static_cast<std::int64_t>(CacheLayout{{field}, layout.type}.bytes_per_token())});
  }
  return kinds;
}

struct RankWish {
  int ranks = 1;
  std::string link;  // empty: only which one pays
  std::string cost;  // of one rank's steps; empty: from this machine's limits
};

// One token of one and of 32 sequences, and a chunk of a prompt.
constexpr int kManySequences = 32, kChunk = 512;

// What the nearer limit of this machine takes: all weights once, and two operations a weight and row.
Result<bench::StepTimes> times_here(const EngineChoices& chosen, const Program& program, std::int64_t weight_bytes) {
  ComputeTeam team(chosen.threads);
  const MachineLimits limits = measure_limits(cpu_kernels(), team);
  if (limits.read_bytes_per_second <= 0)
    return bad_request("--tp-size: the speed of this machine's memory could not be measured; give --cost", "cost");
  const ProgramWork work = work_of(program);
  const double peak = std::max(limits.int8_ops, limits.f32_flops);
  const double row = 2.0 * static_cast<double>(work.layer_parameters) / peak;
  bench::StepTimes times;
  times.base = static_cast<double>(weight_bytes) / limits.read_bytes_per_second;
  times.prefill = times.decode = row;
  times.attention = 0;
  return times;
}

// The form in which what products read is gathered, as most weights want it.
RowFormat gathered_as(std::optional<DType> weights, Activations mode, bool on_cpu) {
  if (!weights) return RowFormat::f32;
  if (on_cpu) return row_format(cpu_kernels(), *weights, mode);
  return device::form_of_rows(*weights, mode) == RowFormat::bf16 ? RowFormat::bf16 : RowFormat::f32;
}

Result<RankPlan> ranks_of(const RankWish& wish, const EngineChoices& chosen, const Program& program,
                          std::int64_t weight_bytes, RowFormat inputs, bool on_cpu) {
  RankPlan plan;
  plan.group.ranks = wish.ranks;
  plan.group.gathers = gathers_of(program, wish.ranks, inputs);
  plan.has_link = !wish.link.empty();
  if (plan.has_link) {
    ESP_TRY(plan.group.link, bench::Link::parse(wish.link, "link"));
  }
  plan.measured = wish.cost.empty();
  if (plan.measured && !on_cpu) return plan;  // what a device takes is seen only there
  ESP_TRY(const bench::StepTimes times,
          plan.measured ? times_here(chosen, program, weight_bytes) : bench::StepTimes::parse(wish.cost));
  const auto alone = [&](double prompt_rows, double decode_rows) {
    return bench::StepWork{prompt_rows, decode_rows, 0, 0}.seconds(times);
  };
  plan.steps = {{"a token", 1, 1, alone(0, 1)},
                {fmt::format("{} tokens", kManySequences), kManySequences, kManySequences, alone(0, kManySequences)},
                {fmt::format("{} of a prompt", kChunk), kChunk, 1, alone(kChunk, 0)}};
  return plan;
}

Result<ServingPlan> plan_of(const EngineOptions& options, const RankWish& ranks) {
  ESP_TRY(EngineChoices chosen, choices_of(options));
  ESP_TRY(const ModelFiles files, open_model_files(options));
  ESP_CHECK(can_compute(files.config));
  const Weights weights(*files.weights, files.naming);
  ESP_CHECK(check_weights(weights, files.config.spec));
  ESP_TRY(const Program program, Builder::build(files.config.spec, &weights));
  ServingPlan plan;
  ESP_TRY(plan.context, context_of(options, files.config.context_length));
  const CacheLayout layout{program.keeps.per_token, chosen.kv};
  ESP_TRY(const auto compute, open_device(options));
  MemoryRoom room = compute ? compute->room() : memory_room();
  plan.device =
      compute ? fmt::format("{} ({})", device::name_of(compute->device->kind()), compute->device->name()) : "cpu";
  plan.on_cpu = compute == nullptr;
  plan.path = options.model_path;
  plan.free_bytes = room.least();
  plan.limit = room.pages_limit;
  plan.weight_bytes = static_cast<std::int64_t>(describe(*files.weights).bytes());
  if (files.tower_weights) plan.weight_bytes += static_cast<std::int64_t>(describe(*files.tower_weights).bytes());
  plan.weights_type = dominant_type(*files.weights);
  if (compute) chosen.kv_memory = compute->kv_memory(chosen.kv_memory);
  room.pages -= std::min(compute ? room.pages : memory_for_weights(room), plan.weight_bytes);
  room.addresses -= std::min(room.addresses / 4 * 3, plan.weight_bytes);
  const std::size_t cell = StatePool::stride_bytes(program.keeps.state_floats);
  plan.state_cells = state_cells_of(options, chosen, cell, room);
  plan.state_bytes = static_cast<std::int64_t>(program.keeps.state_floats * sizeof(float));
  if (plan.state_cells > 0) chosen.max_running = std::min(chosen.max_running, plan.state_cells - 1);
  const PoolWish wish{options, chosen, layout, seen_fields(program), plan.context, 0};
  const PoolPlan pool = plan_pool(wish, room, cell * static_cast<std::size_t>(plan.state_cells));
  const PoolCost cost(wish, pool.windows);
  plan.pool_tokens = pool.slots;
  plan.window_tokens = pool.windows.slots;
  plan.pool_bytes = cost.bytes(pool.slots);
  plan.token_bytes = static_cast<std::int64_t>(layout.bytes_per_token());
  plan.tokens_at_most = plan.token_bytes > 0 ? cost.slots_in(room.least()) : 0;
  plan.kept = kinds_of(layout);
  plan.kv_type = name(chosen.kv);
  if (ranks.ranks > 1) {
    ESP_TRY(plan.ranks,
            ranks_of(ranks, chosen, program, plan.weight_bytes,
                     gathered_as(dominant_dtype(*files.weights), chosen.activations, plan.on_cpu), plan.on_cpu));
  }
  return plan;
}

// Gigabytes a second from which it is worth it; null: the delays alone are too long.
Json least_speed(const RankPlan& plan, const SharedStep& step, double times) {
  const auto speed = plan.group.least_speed(step.alone, step.rows, step.wanted, times);
  return speed ? Json(*speed / 1e9) : Json();
}

Json json_of(const RankPlan& plan) {
  Json steps = Json::array();
  for (const SharedStep& step : plan.steps) {
    Json one = {{"rows", step.rows},
                {"gathered_bytes", plan.group.gathers.bytes(step.rows, step.wanted)},
                {"received_bytes", plan.group.received_bytes(step.rows, step.wanted)},
                {"one_rank_ms", 1e3 * step.alone},
                {"pays_from_gb_per_s", least_speed(plan, step, 1)}};
    if (plan.has_link) one["ranks_ms"] = 1e3 * plan.group.seconds(step.alone, step.rows, step.wanted);
    steps.push_back(std::move(one));
  }
  return {{"tp_size", plan.group.ranks},
          {"gathers", plan.group.gathers.gathers},
          {"link", plan.has_link ? Json(plan.group.link.text()) : Json()},
          {"split_share", plan.group.split},
          {"steps", std::move(steps)}};
}

// How many times as fast as one rank, over the speed of links of the given delay.
Result<> draw(const RankPlan& plan, const std::string& path, const std::string& title) {
  constexpr double kSpeeds[] = {0.125, 0.25, 0.5, 1, 1.25, 2.5, 5, 10, 25, 50, 100};  // GB/s
  constexpr double kWidth = 920, kPanel = 270, kTop = 70;
  Svg svg;
  svg.text(12, 26, title, Svg::Anchor::start, "head");
  double y = kTop, x = 12;
  std::vector<int> sizes;
  for (int ranks = 2; ranks <= std::max(8, plan.group.ranks); ranks *= 2) sizes.push_back(ranks);
  for (std::size_t i = 0; i < sizes.size(); ++i, x += 90) {
    svg.rect(x, 42, 12, 12, fmt::format("f{}", i % kSeriesColours));
    svg.text(x + 18, 52, fmt::format("{} ranks", sizes[i]));
  }
  int place = 0;
  for (const SharedStep& step : plan.steps) {
    bench::LineChart chart{step.what, "GB/s", "times as fast as one rank", {}};
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      bench::Series series{fmt::format("{} ranks", sizes[i]), i, false, {}, {}};
      bench::RankGroup group = plan.group;
      group.ranks = sizes[i];
      for (const double speed : kSpeeds) {
        group.link.bytes_per_second = 1e9 * speed;
        series.x.push_back(speed);
        series.y.push_back(step.alone / group.seconds(step.alone, step.rows, step.wanted));
      }
      chart.series.push_back(std::move(series));
    }
    const int line = place / 2;
    bench::draw(svg, chart, {place % 2 == 0 ? 0 : kWidth / 2, y + line * kPanel, kWidth / 2, kPanel});
    ++place;
  }
  return bench::write_text(path, svg.document(kWidth, y + 2 * kPanel, title), false);
}

Json json_of(const ServingPlan& plan) {
  Json layers = Json::array();
  for (const Kept& kept : plan.kept)
    layers.push_back({{"layers", kept.layers},
                      {"heads", kept.field.heads},
                      {"key_values", kept.field.key_dim},
                      {"value_values", kept.field.value_dim},
                      {"latent", kept.field.latent},
                      {"window", kept.field.window},
                      {"bytes_per_token", kept.bytes}});
  Json json = {{"path", plan.path},
               {"device", plan.device},
               {"fits", plan.fits()},
               {"weight_bytes", plan.weight_bytes},
               {"quantization", plan.weights_type},
               {"free_bytes", plan.free_bytes},
               {"memory_limit", plan.limit},
               {"kv_type", plan.kv_type},
               {"kv_bytes_per_token", plan.token_bytes},
               {"kept", std::move(layers)},
               {"context_length", plan.context},
               {"pool_tokens", plan.pool_tokens},
               {"pool_bytes", plan.pool_bytes},
               {"pool_fits", plan.pool_fits()},
               {"window_tokens", plan.window_tokens},
               {"state_bytes", plan.state_bytes},
               {"state_cells", plan.state_cells},
               {"tokens_at_most", plan.tokens_at_most}};
  if (plan.ranks) json["ranks"] = json_of(*plan.ranks);
  return json;
}

template <class Row>
void print(const RankPlan& plan, const Row& row) {
  const bench::RankGroup& group = plan.group;
  row("ranks", fmt::format("{}: {} gathers a step, {} received by each for a row and {} for its logits", group.ranks,
                           group.gathers.gathers, shown_bytes(static_cast<std::uint64_t>(group.received_bytes(1, 0))),
                           shown_bytes(static_cast<std::uint64_t>(static_cast<double>(group.gathers.logit_bytes) *
                                                                  (group.ranks - 1) / group.ranks))));
  if (plan.steps.empty()) return row("", "what a step takes on a device is not known here: --cost says it");
  row("", fmt::format("{:.0f} % of a step is assumed to be shared out; one rank's times are {}", 100 * group.split,
                      plan.measured ? "what this machine's memory and multipliers allow" : "those of --cost"));
  for (const SharedStep& step : plan.steps) {
    std::string line = fmt::format(
        "{:<16} {} received, {:.2f} ms alone", step.what,
        shown_bytes(static_cast<std::uint64_t>(group.received_bytes(step.rows, step.wanted))), 1e3 * step.alone);
    if (plan.has_link) {
      const double together = group.seconds(step.alone, step.rows, step.wanted);
      line += fmt::format(", {:.2f} ms together: {:.2f} times as fast", 1e3 * together, step.alone / together);
    }
    const auto speed = group.least_speed(step.alone, step.rows, step.wanted);
    line += speed ? fmt::format("; pays from {:.3g} GB/s", *speed / 1e9)
                  : fmt::format("; pays over no link of this delay: {:.3g} us at most",
                                1e6 * step.alone * (1 - group.compute_share()) / group.gathers.gathers);
    row("", line);
  }
}

void print(const ServingPlan& plan) {
  const auto row = [](std::string_view name, const std::string& value) {
    put(fmt::format("  {:<10} {}\n", name, printable(value)));
  };
  const auto bytes = [](std::int64_t n) {
    return shown_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0)));
  };
  put(printable(plan.path) + "\n");
  row("device", plan.device);
  row("weights", fmt::format("{} ({})", bytes(plan.weight_bytes), plan.weights_type));
  row("memory",
      fmt::format("{} free{}: {}", bytes(plan.free_bytes), plan.limit.empty() ? "" : ", " + plan.limit,
                  plan.fits()   ? fmt::format("the weights leave {}", bytes(plan.free_bytes - plan.weight_bytes))
                  : plan.on_cpu ? "the weights do not fit, and are read from their file in each step"
                                : "the weights do not fit: --device cpu, or a smaller or quantised model"));
  for (const Kept& kept : plan.kept)
    row("a token", fmt::format("{} x {} in {}: {} heads of {} key values, {}{}", kept.layers, bytes(kept.bytes),
                               plan.kv_type, kept.field.heads, kept.field.key_dim,
                               kept.field.latent ? fmt::format("the first {} the value too", kept.field.value_dim)
                                                 : fmt::format("{} values", kept.field.value_dim),
                               kept.field.window > 0 ? fmt::format(", window {}", kept.field.window) : ""));
  if (plan.token_bytes > 0) row("tokens", fmt::format("{} each", bytes(plan.token_bytes)));
  if (plan.state_cells > 0) row("states", fmt::format("{} of {}", plan.state_cells, bytes(plan.state_bytes)));
  row("pool",
      fmt::format("{} tokens, {}; {} sequences of the whole context ({} tokens)", plan.pool_tokens,
                  bytes(plan.pool_bytes), plan.context > 0 ? plan.pool_tokens / plan.context : 0, plan.context));
  if (plan.fits() && !plan.pool_fits()) row("", "the pool does not fit: a smaller --max-total-tokens would");
  if (plan.window_tokens > 0)
    row("windows", fmt::format("{} slots for layers that are read through a window", plan.window_tokens));
  if (plan.tokens_at_most > 0) row("at most", fmt::format("{} tokens, with --kv-memory 100%", plan.tokens_at_most));
  if (plan.ranks) print(*plan.ranks, row);
}

}  // namespace

Run add_plan(CLI::App& app) {
  struct Arguments {
    std::string model;
    EngineOptions engine;
    RankWish ranks;
    std::string plot;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("plan", "what serving a model takes of the memory, and how many tokens fit");
  verb->add_option("model", a->model, "a GGUF file, a folder with config.json, or a name of `espalier list`")
      ->required();
  verb->add_flag("--json", a->json, "as JSON");
  verb->add_option("--tp-size,--tp", a->ranks.ranks,
                   "ranks that would compute each step together: bytes of its gathers, times, the link that pays")
      ->check(CLI::Range(1, 1024));
  verb->add_option("--link", a->ranks.link, "between ranks, as GB/s,us: 1.17,30 for 10 GbE, 6,3 inside a machine");
  verb->add_option(
      "--cost", a->ranks.cost,
      "what one rank's step takes, as `espalier bench sim --measure` prints it; default: what this machine's "
      "memory and multipliers allow, measured now; of a device: nothing is told");
  verb->add_option("--plot", a->plot,
                   "draws the speed of 2, 4 and 8 ranks over that of links with --link's delay (.svg)");
  add_engine_flags(*verb, a->engine);
  return [a] {
    auto path = find_local_model(a->model);
    if (!path.ok()) return fail(path.error());
    a->engine.model_path = *path;
    if (a->ranks.ranks == 1 && !(a->ranks.link.empty() && a->ranks.cost.empty() && a->plot.empty()))
      return fail(bad_request("--link, --cost and --plot are of ranks: give --tp-size 2 or more, too", "tp-size"));
    const auto plan = plan_of(a->engine, a->ranks);
    if (!plan.ok()) return fail(plan.error());
    if (!a->plot.empty() && plan->ranks->steps.empty())
      return fail(bad_request("--plot needs --cost where a device computes: what a step takes is not known", "cost"));
    if (!a->plot.empty()) {
      const std::string title = fmt::format("Predicted: {}, links of {:g} us", plan->weights_type + " " + a->model,
                                            1e6 * plan->ranks->group.link.latency);
      const auto drawn = draw(*plan->ranks, a->plot, title);
      if (!drawn.ok()) return fail(drawn.error());
    }
    if (a->json)
      put_json(json_of(*plan));
    else
      print(*plan);
    return 0;
  };
}

}  // namespace espalier::command
