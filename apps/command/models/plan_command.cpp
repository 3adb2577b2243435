// `espalier plan MODEL`: what serving it would take of the memory, and how many tokens would fit; nothing is loaded.
#include <fmt/format.h>

#include <algorithm>

#include "command/command.h"
#include "command/engine_flags.h"
#include "command/output.h"
#include "engine/engine_options.h"
#include "engine/load/device_to_compute.h"
#include "engine/load/loaded_model.h"
#include "engine/load/packed_cache.h"
#include "engine/memory/state_pool.h"
#include "engine/memory/window_plan.h"
#include "espalier/json.h"
#include "model/program/builder.h"
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

  bool fits() const { return weight_bytes < free_bytes; }
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

Result<ServingPlan> plan_of(const EngineOptions& options) {
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
  return plan;
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
  return {{"path", plan.path},
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
          {"window_tokens", plan.window_tokens},
          {"state_bytes", plan.state_bytes},
          {"state_cells", plan.state_cells},
          {"tokens_at_most", plan.tokens_at_most}};
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
  if (plan.window_tokens > 0)
    row("windows", fmt::format("{} slots for layers that are read through a window", plan.window_tokens));
  if (plan.tokens_at_most > 0) row("at most", fmt::format("{} tokens, with --kv-memory 100%", plan.tokens_at_most));
}

}  // namespace

Run add_plan(CLI::App& app) {
  struct Arguments {
    std::string model;
    EngineOptions engine;
    bool json = false;
  };
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("plan", "what serving a model takes of the memory, and how many tokens fit");
  verb->add_option("model", a->model, "a GGUF file, a folder with config.json, or a name of `espalier list`")
      ->required();
  verb->add_flag("--json", a->json, "as JSON");
  add_engine_flags(*verb, a->engine);
  return [a] {
    auto path = find_local_model(a->model);
    if (!path.ok()) return fail(path.error());
    a->engine.model_path = *path;
    const auto plan = plan_of(a->engine);
    if (!plan.ok()) return fail(plan.error());
    if (a->json)
      put_json(json_of(*plan));
    else
      print(*plan);
    return 0;
  };
}

}  // namespace espalier::command
