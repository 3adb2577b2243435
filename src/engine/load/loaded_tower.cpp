#include "engine/load/loaded_tower.h"

#include <algorithm>
#include <variant>

#include "base/log.h"
#include "model/program/builder.h"

namespace espalier {
namespace {

constexpr int kLongestSpan = 2048;                     // image tokens that are computed at once
constexpr int kLeastRows = 4096, kMostRows = 1 << 16;  // patches of one picture
constexpr std::int64_t kRowFloats = 16;  // of one patch, times the width of the tower's rows, all buffers together
// Of what is left, that the tower may compute in; a device gives it whether or not a picture comes.
constexpr std::int64_t kMemoryShare = 8, kDeviceShare = 32;

bool sees_both_ways(const Program& program) {
  return std::ranges::any_of(program.ops, [](const Op& op) {
    const auto* attend = std::get_if<AttendOp>(&op);
    return attend != nullptr &&
           (attend->around == AttendOp::Around::span || attend->around == AttendOp::Around::span_ahead);
  });
}

// As many patches as memory has room for.
int most_rows_of(const TowerSpec& spec, const DeviceToCompute* compute) {
  const std::int64_t row = kRowFloats * static_cast<std::int64_t>(sizeof(float)) * std::max(1, spec.body.hidden);
  const std::int64_t room =
      compute != nullptr ? compute->room().pages / kDeviceShare : memory_room().pages / kMemoryShare;
  return static_cast<int>(std::clamp<std::int64_t>(room / row, kLeastRows, kMostRows));
}

}  // namespace

Result<int> longest_span_of(const ModelFiles& files, int context) {
  if (files.config.spec.both_ways) return context;
  if (!files.tower) return 0;
  ESP_TRY(const Program program, Builder::build(files.config.spec, nullptr));
  return sees_both_ways(program) ? kLongestSpan : 0;
}

Result<std::unique_ptr<LoadedTower>> load_tower(const ModelFiles& files, const EngineChoices& chosen, ComputeTeam& team,
                                                const DeviceToCompute* compute, const Engine::Progress& progress) {
  if (!files.tower) return std::unique_ptr<LoadedTower>();
  auto loaded = std::make_unique<LoadedTower>();
  loaded->spec = *files.tower;
  const int most_rows = most_rows_of(loaded->spec, compute);
  const auto report = [&](int done, int total) {
    if (progress) progress("loading the tower", static_cast<double>(done) / total);
  };
  const Weights weights =
      files.tower_weights ? Weights(*files.tower_weights, Naming::hf) : Weights(*files.weights, files.naming);
  auto tower = Tower::load(loaded->spec, weights, {chosen.activations, most_rows, backend_of(compute)}, team, report);
  if (!tower.ok() && tower.error().kind == Error::Kind::bad_file && !files.tower_named) {
    log::warning("the text model is served alone, its tower cannot be loaded: {}", tower.error().message);
    return std::unique_ptr<LoadedTower>();
  }
  if (!tower.ok()) return tower.error();
  if (const std::string& why = (*tower)->on_cpu_because(); !why.empty())
    log::warning("the tower is computed on the CPU: {}", why);
  loaded->weight_bytes = (*tower)->weight_bytes();
  loaded->working_bytes =
      kLeastRows * kRowFloats * static_cast<std::int64_t>(sizeof(float)) * std::max(1, loaded->spec.body.hidden);
  loaded->maker = std::make_unique<TowerMaker>(std::move(tower).value(), 1 + loaded->spec.deep_outputs);
  // Said by the whole model: a rank's own program may have no attention at all.
  const bool both_ways = !files.config.spec.both_ways && chosen.longest_span > 0;
  loaded->rules = {.tower = &loaded->spec,
                   .vocabulary = files.config.vocabulary,
                   .both_ways = both_ways,
                   .longest_span = chosen.longest_span,
                   .most_rows = most_rows};
  return loaded;
}

}  // namespace espalier
