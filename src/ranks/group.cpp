#include "ranks/group.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/log.h"
#include "ranks/ending.h"
#include "ranks/links/open_links.h"
#include "ranks/local_watch.h"
#include "ranks/rank_group.h"
#include "ranks/segment.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr auto kMissingToldEvery = 10s;

std::uint64_t key_of(const GroupOptions& options) {
  return checksum(options.version + '\n' + options.key);
}

// Joins one rank; a failure is told to the others of this node.
class Joining {
 public:
  Joining(const RankPlan& plan, const StartedRanks& started, const GroupOptions& options)
      : plan_(plan), started_(started), options_(options), until_(Clock::now() + options.start_limit) {}

  Result<std::unique_ptr<Collective>> join() {
    ESP_CHECK(map());
    auto group = plan_.local_rank == 0 ? join_first() : join_other();
    if (group.ok()) return group;
    Error failed = std::move(group).error();
    parts_.ending->lose(failed, -1);
    if (plan_.local_rank > 0) failed.code = kToldCode;
    return failed;
  }

 private:
  Segment& segment() const { return *parts_.segment; }
  int first() const { return plan_.node * plan_.local_size; }

  Result<> map() {
    const int descriptor = plan_.segment_fd >= 0 ? plan_.segment_fd : started_.segment_fd();
    parts_.plan = plan_;
    ESP_TRY(parts_.segment, Segment::map(descriptor, plan_.size));
    parts_.ending = std::make_shared<Ending>(plan_, parts_.segment, options_.on_loss);
    segment().slot(plan_.rank).pid.store(static_cast<std::uint32_t>(::getpid()));
    if (plan_.segment_fd >= 0) segment().slot(first()).pid.store(static_cast<std::uint32_t>(plan_.parent_pid));
    for (std::size_t i = 0; i < started_.pids().size(); ++i)
      segment().slot(first() + 1 + static_cast<int>(i)).pid.store(static_cast<std::uint32_t>(started_.pids()[i]));
    if (plan_.local_size == 1) return success();
    ESP_TRY(parts_.watch, LocalWatch::start(plan_, parts_.segment, parts_.ending, options_.silence));
    return success();
  }

  Result<std::unique_ptr<Collective>> join_first() {
    ESP_CHECK(segment().lay_out(options_.max_part_bytes, key_of(options_)));
    ESP_CHECK(wait_for_others());
    if (plan_.links != LinkKind::none) {
      ESP_TRY(parts_.links, open_links(plan_, options_, [ending = parts_.ending] { return ending->ended(); }));
      name_peers();
    }
    ESP_CHECK(parts_.ending->arm());
    watch_links();
    segment().set_state(SegmentState::joined);
    return std::unique_ptr<Collective>(std::make_unique<RankGroup>(std::move(parts_)));
  }

  Result<std::unique_ptr<Collective>> join_other() {
    ESP_CHECK(wait_for(SegmentState::laid_out));
    const SegmentHead& head = segment().head();
    if (head.key != key_of(options_) || head.max_part_bytes != options_.max_part_bytes)
      return bad_request(
          fmt::format("rank {} was started with other options than rank {}, or is another version of the program",
                      plan_.rank, first()));
    ESP_CHECK(segment().map_parts());
    ::close(plan_.segment_fd);
    segment().slot(plan_.rank).joined.store(1);
    ESP_CHECK(wait_for(SegmentState::joined));
    ESP_CHECK(parts_.ending->arm());
    return std::unique_ptr<Collective>(std::make_unique<RankGroup>(std::move(parts_)));
  }

  std::vector<int> missing() const {
    std::vector<int> ranks;
    for (int rank = first() + 1; rank < first() + plan_.local_size; ++rank)
      if (segment().slot(rank).joined.load() == 0) ranks.push_back(rank);
    return ranks;
  }

  Result<> wait_for_others() {
    auto tell_at = Clock::now() + kMissingToldEvery;
    for (;; std::this_thread::sleep_for(1ms)) {
      const std::vector<int> ranks = missing();
      if (ranks.empty()) return success();
      if (parts_.ending->ended()) return segment().why();
      const auto now = Clock::now();
      if (now > until_)
        return Error{Error::Kind::timeout,
                     fmt::format("rank(s) {} of {} did not come within {} s", fmt::join(ranks, ", "), plan_.size,
                                 options_.start_limit.count() / 1000),
                     {},
                     {}};
      if (now < tell_at) continue;
      tell_at += kMissingToldEvery;
      log::info("waiting for rank(s) {} of {} on this host", fmt::join(ranks, ", "), plan_.size);
    }
  }

  // The first rank has the limit on waiting, and ends this process with its own.
  Result<> wait_for(SegmentState state) const {
    while (segment().state() < state) {
      if (parts_.ending->ended()) return segment().why();
      std::this_thread::sleep_for(1ms);
    }
    return success();
  }

  void name_peers() {
    for (int rank = 0; rank < plan_.size; ++rank) {
      const int node = rank / plan_.local_size;
      if (node == plan_.node) continue;
      const LinkPeer peer = parts_.links->peer(node);
      RankSlot& slot = segment().slot(rank);
      if (rank % plan_.local_size == 0) slot.pid.store(static_cast<std::uint32_t>(peer.pid));
      std::strncpy(slot.host, peer.host.c_str(), sizeof slot.host - 1);
    }
  }

  void watch_links() {
    if (!parts_.links) return;
    Links* const links = parts_.links.get();
    parts_.ending->on_end([links](const Error& why) {
      links->end(why);
      links->stop();
    });
    links->watch([ending = parts_.ending, each = plan_.local_size](const Error& why, int node) {
      ending->lose(why, node * each);
    });
  }

  const RankPlan& plan_;
  const StartedRanks& started_;
  const GroupOptions& options_;
  const Clock::time_point until_;
  RankParts parts_;
};

}  // namespace

Result<std::unique_ptr<Collective>> join_group(const RankPlan& plan, const StartedRanks& started,
                                               const GroupOptions& options) {
  return Joining(plan, started, options).join();
}

std::vector<std::unique_ptr<Collective>> thread_group(int size, const GroupOptions& options) {
  std::vector<std::unique_ptr<Collective>> ranks;
  auto segment = Segment::map(-1, size);
  if (!segment.ok() || !(*segment)->lay_out(options.max_part_bytes, 0).ok()) return ranks;
  for (int rank = 0; rank < size; ++rank) {
    RankParts parts;
    parts.plan.rank = parts.plan.local_rank = rank;
    parts.plan.size = parts.plan.local_size = size;
    parts.segment = *segment;
    parts.ending = std::make_shared<Ending>(parts.plan, *segment, options.on_loss);
    static_cast<void>(parts.ending->arm());
    ranks.push_back(std::make_unique<RankGroup>(std::move(parts)));
  }
  return ranks;
}

}  // namespace espalier::ranks
