#include "model/towers/tower.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <numeric>

#include "model/executor.h"
#include "model/program/builder.h"
#include "model/towers/tower_batch.h"

namespace espalier {

struct Tower::Impl {
  TowerSpec spec;
  TowerOptions options;
  Program program;
  Loaded loaded;
  std::shared_ptr<PanelFile> overflow;
  Lowered lowered{{}, BufferMemory(0), {}};
  std::unique_ptr<Executor> elsewhere;  // instead of the stages that were lowered; null: these are it
  std::string on_cpu_because;
  TowerPool pool;
  std::unique_ptr<TowerBatch> batch;  // null: none was begun
  std::optional<Pass> pass;
  std::size_t done = 0;  // stages
  int row = 0;           // of the next one, up to which it is done

  Impl(const TowerSpec& s, Program p, const TowerOptions& o, ComputeTeam& team)
      : spec(s), options(o), program(std::move(p)), loaded{{cpu_kernels(), team, o.activations}, {}, {}, {}} {}

  Backend& backend() const { return elsewhere ? *options.backend : cpu_backend(); }
  bool is_done() const { return !pass || done == (elsewhere ? 1 : lowered.stages.size()); }
  // So many rows more of the stage at hand; all there is, elsewhere.
  void run_rows(int count) {
    if (elsewhere) {
      elsewhere->forward(batch->batch(), pool.view());
      done = 1;
      return;
    }
    Stage& stage = *lowered.stages[done];
    const int rows = pass->rows(), end = static_cast<int>(std::min<std::int64_t>(rows, std::int64_t{row} + count));
    const bool whole = !stage.by_rows() || (row == 0 && end == rows);
    if (!whole) pass->take_rows({row, end});
    stage.run(*pass);
    if (!whole) pass->take_all_rows();
    row = whole || end == rows ? 0 : end;
    if (row == 0) ++done;
  }

  Result<> load(const Weights& weights, const LoadProgress& progress) {
    ESP_TRY(overflow, load_needs(program, weights, loaded, progress));
    if (options.backend != nullptr) {
      auto there = options.backend->lower(program, loaded, options.max_rows);
      if (there.ok()) {
        elsewhere = std::move(there).value();
        for (Linear& linear : loaded.matrices) linear.forget_panels();
        return success();
      }
      if (there.error().kind != Error::Kind::unsupported) return there.error();
      on_cpu_because = there.error().message;
    }
    ESP_TRY(lowered, lower(program, loaded, options.max_rows));
    return success();
  }

  // The number of floats that the grid asks for.
  Result<> check(const TowerPicture& picture) const {
    const std::int64_t wanted = pixel_values(picture, spec);
    if (picture.height < 1 || picture.width < 1 || picture.frames < 1 || picture.tiles < 1 ||
        std::cmp_not_equal(picture.pixels.size(), wanted))
      return bad_request(
          fmt::format("a picture of {} tiles, {} frames and {} x {} patches has {} values instead of {}", picture.tiles,
                      picture.frames, picture.height, picture.width, picture.pixels.size(), wanted),
          "image");
    const bool fits = spec.side == 0 || (picture.height == spec.side && picture.width == spec.side);
    if (!fits || picture.height % spec.merge != 0 || picture.width % spec.merge != 0)
      return bad_request(
          fmt::format("a picture has {} x {} patches, but this model takes {}", picture.height, picture.width,
                      spec.side > 0 ? fmt::format("{} x {}", spec.side, spec.side)
                                    : fmt::format("multiples of {}", spec.merge)),
          "image");
    return success();
  }
};

Tower::Tower(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Tower::~Tower() = default;

Result<std::unique_ptr<Tower>> Tower::load(const TowerSpec& spec, const Weights& weights, const TowerOptions& options,
                                           ComputeTeam& team, const LoadProgress& progress) {
  ESP_TRY(Program program, Builder::build(spec, &weights));
  auto impl = std::make_unique<Impl>(spec, std::move(program), options, team);
  ESP_CHECK(impl->load(weights, progress));
  return std::unique_ptr<Tower>(new Tower(std::move(impl)));
}

const Program& Tower::program() const {
  return impl_->program;
}

std::size_t Tower::weight_bytes() const {
  std::size_t sum = 0;
  for (const Linear& linear : impl_->loaded.matrices) sum += linear.bytes();
  for (const auto& vector : impl_->program.vectors) sum += vector.size() * sizeof(float);
  return sum;
}

const std::string& Tower::on_cpu_because() const {
  return impl_->on_cpu_because;
}

int Tower::rows_of(std::span<const TowerPicture> pictures) const {
  return TowerBatch::rows_of(impl_->spec.layout(pictures));
}

Result<> Tower::begin(std::span<const TowerPicture> pictures) {
  Impl& t = *impl_;
  t.pass.reset();
  t.batch.reset();
  if (pictures.empty()) return success();
  for (const TowerPicture& picture : pictures) ESP_CHECK(t.check(picture));
  TowerLayout layout = t.spec.layout(pictures);
  const int rows = TowerBatch::rows_of(layout);
  if (rows > t.options.max_rows)
    return bad_request(
        fmt::format("pictures of {} patches are more than the {} that are computed at once; send fewer or "
                    "smaller pictures",
                    rows, t.options.max_rows),
        "image");
  ESP_CHECK(t.pool.hold(t.program.keeps, t.options.activations == Activations::f32 ? KvType::f32 : KvType::bf16, rows,
                        t.backend()));
  t.batch = std::make_unique<TowerBatch>(t.spec, pictures, std::move(layout));
  t.pass.emplace(t.batch->batch(), t.pool.view(), t.loaded.with);
  for (RopeTables& rope : t.loaded.ropes) rope.reserve(t.pass->positions(), t.pass->rope_lengths());
  t.done = 0;
  t.row = 0;
  return success();
}

bool Tower::advance(int stages) {
  Impl& t = *impl_;
  for (; stages > 0 && !t.is_done(); --stages) t.run_rows(INT_MAX);
  return t.is_done();
}

bool Tower::advance_rows(int rows) {
  Impl& t = *impl_;
  if (!t.is_done()) t.run_rows(std::max(1, rows));
  return t.is_done();
}

std::vector<PictureFeatures> Tower::take() {
  impl_->pass.reset();
  if (!impl_->batch) return {};
  auto features = impl_->batch->features();
  impl_->batch.reset();
  return features;
}

}  // namespace espalier
