#include "device/stages/stages.h"

#include <algorithm>

#include "model/cpu/stages/ngram_stage.h"
#include "model/executor.h"

namespace espalier::device {
namespace {

// How many pieces keep the device busy where its blocks of threads alone do not. together: of those that a multiprocessor shall have;
// least: blocks of positions of a piece.
int pieces_of(const Device& device, std::int64_t thread_blocks, std::int64_t together, std::int64_t blocks,
              std::int64_t least = 4) {
  const std::int64_t wanted = together * device.multiprocessors() / std::max<std::int64_t>(1, thread_blocks);
  return static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, blocks / least), 1, 64));
}
// Blocks of threads of the exact kernel: rows of one sequence share those of up to 32 queries.
std::int64_t thread_blocks_of(const cuda::AttendTask& task, const Step::Attended& attended) {
  const int group = task.heads / task.kv_heads, rows = task.sequence_rows == 1 ? 1 : std::max(1, kTileQueries / group);
  std::int64_t tiles = 0;
  for (const int count : attended.rows_of) tiles += (count + rows - 1) / rows;
  return tiles * task.kv_heads * ((group + kTileQueries - 1) / kTileQueries);
}
// Cuts it into pieces, if partials do not take too much.
void cut_into(int pieces, std::int64_t blocks, const Device& device, cuda::AttendTask& task, Memory& partials) {
  constexpr std::int64_t kMostBytes = std::int64_t{256} << 20;
  task.pieces = pieces;
  task.blocks_each = static_cast<int>((blocks + pieces - 1) / pieces);
  const std::int64_t bytes = std::int64_t{task.row_count} * task.pieces * task.blocks_each * task.heads *
                             FoldStates::stride_of(task.dims.value) * std::int64_t{sizeof(float)};
  if (pieces > 1 && bytes > kMostBytes) return cut_into(1, blocks, device, task, partials);
  if (pieces == 1) return;
  grow(device, partials, static_cast<std::size_t>(bytes));
  task.partials = partials.as<float>();
}
// Positions that a choice can have, at most.
std::int64_t most_of(const ChooseOp& op) {
  return (std::int64_t{op.kept} + op.local_runs) * op.run + std::max(op.run, op.every);
}
std::int64_t blocks_of(const Step::Attended& attended) {
  return (attended.positions + kAttentionBlock - 1) / kAttentionBlock;
}

}  // namespace

void RowsStage::prepare(Step& step) {
  Pass& pass = step.pass();
  for (const Maker& maker : makers) {
    float* const rows = step.host_rows(maker.host_rows, maker.width);
    unsigned char* const marks = maker.marks < 0 ? nullptr : step.marks(maker.marks);
    pass.with().team.run(pass.rows(), [&](int row) {
      float* const to = rows + std::int64_t{row} * maker.width;
      std::fill_n(to, maker.width, maker.first);
      const bool has = maker.make(pass, row, to);
      if (marks != nullptr) marks[row] = has ? 1 : 0;
    });
  }
  task_ = {on_device, static_cast<int>(ops.size()), pass.rows(), nullptr, step.rows_memory()};
}

void ExpertsStage::prepare(Step& step) {
  memory_ = step.rows_memory();
  places_ = group.places;
  places_.rows = step.pass().rows();
  group.places = combine.places = places_;
  for (auto& gather : gathers) gather.places = places_;
  down.places = places_;
  down.places.begin += own.begin;
  down.places.count = own.size();
  for (auto& up : ups) up.places = down.places;
  for (auto* brings : {&bring_inner, &bring_down})
    if (*brings) (*brings)->prepare(step.device(), places_.most());
}

void ExpertsStage::run_rows(Launches& launches, const RowOp* ops, std::size_t count) const {
  if (count == 0) return;
  launches.run(kEspalierRows,
               RowsTask{ops, static_cast<int>(count), places_.most(), places_.begin + places_.count, memory_});
}

void ExpertsStage::launch(Launches& launches) {
  if (only_meets) return bring_down->launch(launches);
  launches.run(kEspalierGroupByExpert, group);
  for (const auto& gather : gathers) launches.run(kEspalierGatherRows, gather);
  run_rows(launches, gathered_on_device, gathered.size());
  if (!own.empty())
    for (const auto& up : ups) launches.run(kEspalierMultiplyExperts, up);
  run_rows(launches, inner_on_device, inner.size());
  if (bring_inner) bring_inner->launch(launches);
  run_rows(launches, brought_on_device, brought.size());
  if (!own.empty()) launches.run(kEspalierMultiplyExperts, down);
  if (bring_down) bring_down->launch(launches);
  launches.run(kEspalierCombineExperts, combine);
}

// --- attention ---

const Step::Attended& AttendStage::aim(Step& step, cuda::AttendTask& task, FieldId field, AttendOp::Around around,
                                       const Visibility& visible) {
  const Step::Attended& attended = step.attended(field, around, visible);
  task.kv = step.field(field);
  task.rows = attended.rows;
  task.row_count = attended.count;
  task.runs = attended.runs;
  task.sequence_rows = attended.rows_of.empty() ? 0 : std::ranges::max(attended.rows_of);
  return attended;
}

void AttendStage::take_tiles(const Step::Tiles& tiles) {
  tensor_.few = tiles.few;
  tensor_.few_count = tiles.few_count;
  tensor_.few_queries = tiles.few_queries;
  tensor_.many = tiles.many;
  tensor_.many_count = tiles.many_count;
  tensor_.many_queries = tiles.many_queries;
}

void AttendStage::prepare(Step& step) {
  const Device& device = step.device();
  const Step::Attended& attended = aim(step, first_, op_.field, op_.around, op_.visibility);
  if (mask_ != nullptr) first_.selection = *mask_;
  by_tensor_cores_ = !exact_ && fits_tensor_cores(first_);
  const bool latent = first_.kv.form == KvForm::latent;
  std::int64_t thread_blocks = 0, together = 2, least = 4;
  if (by_tensor_cores_) {
    const cuda::TensorCut cut = cuda::tensor_cut(first_);
    take_tiles(step.tiles(attended, cut));
    thread_blocks = std::int64_t{tensor_.few_count + tensor_.many_count} * first_.kv_heads * cut.parts;
    if (tensor_.many_count > 0 || latent) together = 1;
    if (latent) least = 2;  // a block of positions is 147 kB of DeepSeek's rows
  } else {
    thread_blocks = thread_blocks_of(first_, attended);
  }
  std::int64_t blocks = blocks_of(attended);
  most_blocks_ = 0;
  if (by_tensor_cores_ && mask_ != nullptr && mask_->most > 0) {
    blocks = std::min<std::int64_t>(blocks, (mask_->most + kAttentionBlock - 1) / kAttentionBlock);
    most_blocks_ = static_cast<int>(blocks);
  }
  cut_into(pieces_of(device, thread_blocks, together, blocks, least), blocks, device, first_, first_partials_);
  if (op_.then < 0) return;
  const Step::Attended& then = aim(step, then_, op_.then, AttendOp::Around::none, {});
  if (then_mask_ != nullptr) then_.selection = *then_mask_;
  cut_into(pieces_of(device, thread_blocks_of(then_, then), 2, blocks_of(then)), blocks_of(then), device, then_,
           then_partials_);
}

void AttendStage::run(Launches& launches, const cuda::AttendTask& task) const {
  launches.run(kEspalierAttend, task);
  if (task.pieces > 1) launches.run(kEspalierMergeAttention, cuda::MergeAttentionTask{task});
}

void AttendStage::launch(Launches& launches) {
  if (by_tensor_cores_) {
    tensor_.of = first_;
    launches.run(kEspalierAttendTensor, tensor_);
    if (first_.pieces > 1) launches.run(kEspalierMergeAttention, cuda::MergeAttentionTask{first_, most_blocks_});
    return;
  }
  run(launches, first_);
  if (op_.then >= 0) run(launches, then_);
}

void ChooseStage::prepare(Step& step) {
  const Step::Attended& attended = step.attended(op_.field, AttendOp::Around::none, {});
  task_.kv = step.field(op_.field);
  task_.rows = attended.rows;
  task_.row_count = attended.count;
  task_.runs = attended.runs;
  const std::int64_t blocks = (attended.positions + kAttentionBlock - 1) / kAttentionBlock,
                     words = (attended.positions + 63) / 64;
  const int selections = task_.each_head ? task_.heads : 1;
  task_.score_stride = blocks * kAttentionBlock;
  task_.row_stride = words * selections;
  task_.head_stride = selections > 1 ? words : 0;
  const auto rows = static_cast<std::size_t>(step.pass().rows());
  grow(step.device(), scores_, rows * static_cast<std::size_t>(selections * task_.score_stride) * sizeof(float));
  grow(step.device(), words_, rows * static_cast<std::size_t>(task_.row_stride) * sizeof(std::uint64_t));
  task_.scores = scores_.as<float>();
  task_.words = words_.as<std::uint64_t>();
  *mask_ = {{task_.words, task_.row_stride, task_.head_stride}, most_of(op_)};
}

// --- what the host looks up ---

NgramStage::NgramStage(const NgramOp& op, std::vector<const Tensor*> tables, BatchRows out)
    : op_(op), tables_(std::move(tables)) {
  put_.to = out.first;
  put_.to_stride = out.stride;
  put_.width = op.out.width;
  put_.count = 1;
}

void NgramStage::prepare(Step& step) {
  Pass& pass = step.pass();
  const auto kept = static_cast<std::size_t>(op_.longest - 1);
  kept_.clear();
  // The few floats of the states come down before anything of the step goes up.
  std::vector<std::vector<float>> before;
  for (const BatchSequence& s : pass.sequences()) {
    before.emplace_back();
    if (s.state_in == nullptr) continue;
    before.back().resize(kept);
    step.device().copy(before.back().data(), s.state_in + op_.state, kept * sizeof(float));
  }
  given_by_device(step.device().wait());
  const auto rows =
      step.memory().room<float>(static_cast<std::size_t>(pass.rows()) * static_cast<std::size_t>(op_.out.width));
  for (std::size_t i = 0; i < before.size(); ++i) {
    const BatchSequence& s = pass.sequences()[i];
    const auto token = [&](int row) {
      if (row >= 0) return static_cast<std::int64_t>(pass.token(s.row_begin + row));
      return before[i].empty() ? op_.end : static_cast<std::int64_t>(before[i][kept + static_cast<std::size_t>(row)]);
    };
    pass.with().team.run(s.rows, [&](int row) {
      look_up_ngrams(op_, tables_, row, token, rows.host + std::int64_t{s.row_begin + row} * op_.out.width);
    });
    const auto keep = [&](float* state, int count) {
      const auto last = step.memory().room<float>(kept);
      for (std::size_t j = 0; j < kept; ++j)
        last.host[j] = static_cast<float>(token(count - static_cast<int>(kept) + static_cast<int>(j)));
      kept_.push_back({state + op_.state, last.device});
    };
    for (const StateMark& mark : s.state_marks) keep(mark.out, mark.rows);
    if (s.state_out != nullptr) keep(s.state_out, s.rows);
  }
  put_.from = rows.device;
  put_.from_stride = op_.out.width;
  put_.rows = pass.rows();
}

void NgramStage::launch(Launches& launches) {
  launches.run(kEspalierGather, put_);
  for (const Kept& kept : kept_)
    launches.copy(kept.state, kept.from, static_cast<std::size_t>(op_.longest - 1) * sizeof(float));
}

void LoadBeforeStage::prepare(Step& step) {
  task_.layer = step.field(field_);
  task_.slots = step.memory().put(step.pass().slots_before(field_));
  task_.rows = step.pass().rows();
}

// --- fewer rows ---

void KeepStage::prepare(Step& step) {
  const auto wanted = step.batch().logit_rows;
  map_ = nullptr;
  rows_ = static_cast<int>(wanted.size());
  if (rows_ == step.pass().rows()) return;
  map_ = step.memory().put(std::vector<std::int32_t>(wanted.begin(), wanted.end()));
  step.keep_rows();
}

void KeepStage::launch(Launches& launches) {
  if (map_ == nullptr) return;
  for (const auto& [rows, width] : live_) {
    launches.run(kEspalierGather,
                 GatherTask{rows.first, rows.stride, aside_, width, width, map_, nullptr, rows_, 1, false, false});
    launches.run(kEspalierGather,
                 GatherTask{aside_, width, rows.first, rows.stride, width, nullptr, nullptr, rows_, 1, false, false});
  }
}

}  // namespace espalier::device
