#include "device/step/row_drawer.h"

#include <algorithm>
#include <map>

#include "model/executor.h"
#include "sampling/filtered_draw.h"
#include "sampling/plain_draw.h"

namespace espalier::device {
namespace {

// How many of an allocation there are.
template <class T>
std::size_t bytes_of(std::size_t count) {
  return count * sizeof(T);
}

}  // namespace

void RowDrawer::make_room(std::size_t count) {
  if (most_ >= count) return;
  most_ = count + count / 2;
  const auto blocks = most_ * static_cast<std::size_t>(task_.blocks_of_row());
  const auto strips = most_ * static_cast<std::size_t>(task_.strips_of_row());
  blocks_ = given_by_device(device_.allocate(bytes_of<BlockOfRow>(blocks)));
  strips_ = given_by_device(device_.allocate(bytes_of<float>(strips)));
  found_ = given_by_device(device_.allocate(bytes_of<std::int32_t>(blocks)));
  out_ = given_by_device(device_.allocate(bytes_of<DrawnToken>(most_)));
  down_ = given_by_device(device_.allocate_host(bytes_of<DrawnToken>(most_)));
  task_.blocks = blocks_.as<BlockOfRow>();
  task_.strips = strips_.as<float>();
  task_.out = out_.as<DrawnToken>();
}

void RowDrawer::prepare(std::span<const RowDraw> draws, StepMemory& memory) {
  task_.count = static_cast<int>(draws.size());
  make_room(draws.size());
  plain_.clear();
  filtered_.clear();
  for (std::size_t i = 0; i < draws.size(); ++i) {
    const SamplingParams& p = *draws[i].params;
    if (p.greedy() || !p.filters(static_cast<std::size_t>(task_.vocabulary)))
      plain_.push_back(i);
    else
      filtered_.push_back({draws[i], i, {}, 0});
  }
  task_.plain = static_cast<int>(plain_.size());
  const auto words = (static_cast<std::size_t>(task_.vocabulary) + 31) / 32;
  const auto rows = memory.room<SampledRow>(draws.size());
  std::map<const std::uint32_t*, const std::uint32_t*> sent;  // masks, of which rows often have the same
  SampledRow* to = rows.host;
  const auto put = [&](const RowDraw& draw) {
    const std::uint32_t* mask = nullptr;
    if (!draw.mask.empty()) {
      const auto [at, added] = sent.try_emplace(draw.mask.data(), nullptr);
      if (added) at->second = memory.put(draw.mask.first(words));
      mask = at->second;
    }
    *to++ = {draw.row, draw.params->greedy(), draw.sharpness(), draw.uniform, mask};
  };
  for (const std::size_t at : plain_) put(draws[at]);
  for (const Filtered& row : filtered_) put(row.draw);
  task_.rows = rows.device;
  if (filtered_.empty() || blocks_down_.size() >= blocks_.size()) return;
  blocks_down_ = given_by_device(device_.allocate_host(blocks_.size()));
  strips_down_ = given_by_device(device_.allocate_host(strips_.size()));
}

void RowDrawer::launch(Launches& launches) const {
  if (task_.count == 0) return;
  launches.run(kEspalierSample, task_);
  launches.copy(down_.data(), out_.data(), bytes_of<DrawnToken>(plain_.size()));
  const std::size_t blocks = static_cast<std::size_t>(task_.blocks_of_row()),
                    strips = static_cast<std::size_t>(task_.strips_of_row());
  launches.copy(blocks_down_.data(), task_.blocks + plain_.size() * blocks,
                bytes_of<BlockOfRow>(filtered_.size() * blocks));
  launches.copy(strips_down_.data(), strips_.data(), bytes_of<float>(filtered_.size() * strips));
}

void RowDrawer::finish(std::span<DrawnToken> out, ComputeTeam& team) {
  for (std::size_t i = 0; i < plain_.size(); ++i) out[plain_[i]] = down_.as<DrawnToken>()[i];
  if (filtered_.empty()) return;
  team.run(static_cast<int>(filtered_.size()),
           [&](int i) { read_scan(filtered_[static_cast<std::size_t>(i)], static_cast<std::size_t>(i)); });
  sift(0, filtered_.size(), room_, kept_);
  team.run(static_cast<int>(filtered_.size()), [&](int i) {
    const auto at = static_cast<std::size_t>(i);
    const auto count = static_cast<std::size_t>(kept_.counts.as<std::int32_t>()[at]);
    if (count > static_cast<std::size_t>(room_)) return;
    const SiftedLogit* const logits = kept_.logits.as<SiftedLogit>() + at * static_cast<std::size_t>(room_);
    out[filtered_[at].place] = draw(filtered_[at], {logits, count}, task_.vocabulary);
  });
  for (std::size_t at = 0; at < filtered_.size(); ++at) {
    if (kept_.counts.as<std::int32_t>()[at] <= room_) continue;
    sift(at, 1, task_.vocabulary, whole_);
    const auto count = static_cast<std::size_t>(*whole_.counts.as<std::int32_t>());
    out[filtered_[at].place] = draw(filtered_[at], {whole_.logits.as<SiftedLogit>(), count}, task_.vocabulary);
  }
}

// Of the row of this number among those with filters.
void RowDrawer::read_scan(Filtered& row, std::size_t number) const {
  thread_local sampling::FilteredDraw filters;
  const auto vocabulary = static_cast<std::size_t>(task_.vocabulary);
  begin_scan(vocabulary, row.draw.sharpness(), sampling::ScanFor::sums, row.scan);
  const BlockOfRow* const blocks = blocks_down_.as<BlockOfRow>() + number * row.scan.block_max.size();
  for (std::size_t b = 0; b < row.scan.block_max.size(); ++b) {
    row.scan.block_max[b] = blocks[b].max;
    row.scan.block_sum[b] = blocks[b].sum;
  }
  std::copy_n(strips_down_.as<float>() + number * row.scan.strip_max.size(), row.scan.strip_max.size(),
              row.scan.strip_max.begin());
  end_scan(row.scan);
  const bool any = check_scan(row.scan).ok();
  row.least = any ? filters.at_least(*row.draw.params, row.scan, vocabulary) : std::numeric_limits<float>::infinity();
}

void RowDrawer::sift(std::size_t first, std::size_t count, int room, Kept& kept) {
  const std::size_t wanted = count * static_cast<std::size_t>(room), at = plain_.size() + first;
  if (kept.logits.size() < bytes_of<SiftedLogit>(wanted)) {
    kept.logits = given_by_device(device_.allocate_host(bytes_of<SiftedLogit>(wanted)));
    kept.counts = given_by_device(device_.allocate_host(bytes_of<std::int32_t>(count)));
  }
  bounds_.begin();
  const auto least = bounds_.room<float>(count);
  for (std::size_t i = 0; i < count; ++i) least.host[i] = filtered_[first + i].least;
  SiftTask task{};
  task.of = task_;
  task.of.rows += at;
  task.of.count = static_cast<int>(count);
  task.of.blocks += at * static_cast<std::size_t>(task_.blocks_of_row());
  task.least = least.device;
  task.found = found_.as<std::int32_t>();
  task.room = room;
  task.counts = kept.counts.as<std::int32_t>();
  task.out = kept.logits.as<SiftedLogit>();
  Launches launches;
  bounds_.send(launches);
  launches.run(kEspalierSift, task);
  launches.go(device_);
  given_by_device(device_.wait());
}

DrawnToken RowDrawer::draw(const Filtered& row, std::span<const SiftedLogit> found, int vocabulary) {
  if (!row.scan.sound) return {-1, RowFault::not_finite, 0, 0};
  if (!check_scan(row.scan).ok()) return {-1, RowFault::none_allowed, 0, 0};
  thread_local sampling::FilteredDraw filters;
  sampling::Candidates& to = filters.found();
  to.make_room(found.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    to.logits[i] = found[i].logit;
    to.tokens[i] = found[i].token;
  }
  to.count = found.size();
  filters.keep(*row.draw.params, row.scan, static_cast<std::size_t>(vocabulary));
  const Pick pick = filters.draw(row.draw.uniform);
  return {pick.token, RowFault::none, pick.probability, 0};
}

}  // namespace espalier::device
