// rank_leader.h: the first rank's side of an engine that several ranks compute: what it does with the model and the pool is
// told to the others, which do the same with their parts.
//
// The first rank alone schedules, samples and talks to clients. Others have pools of as many slots and cells, under the
// same numbers, and get every batch in the same order (rank_follower.h).
// Threads: the engine thread; note_adapter(): any. Fails: as the group says (ranks/collective.h).
#pragma once

#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cache/slots/extent.h"
#include "engine/memory/state_pool.h"
#include "engine/memory/window_plan.h"
#include "engine/ranks/rank_message.h"
#include "engine/run/model_runner.h"
#include "model/decoder.h"
#include "ranks/collective.h"

namespace espalier {

// Which adapters the others hold, as many as fit a batch or two: those that were used last.
class FollowedAdapters {
 public:
  static constexpr std::size_t most = 64;
  // Where adapters of these contents lie. Any thread.
  void note(const std::string& print, const std::string& path);
  // The number of one that others hold; 0: it has to be told first.
  int known(const LoraAdapter& adapter);
  struct Told {
    int number = 0, forgotten = 0;  // 0: none is
    std::string path;
  };
  Told tell(const LoraAdapter& adapter);

 private:
  std::mutex mutex_;  // of paths_
  std::map<std::string, std::string> paths_;
  std::list<std::pair<std::string, int>> used_;  // by print; the last used first
  int last_number_ = 0;
};

// Tells the others what to do.
class RankLeader {
 public:
  RankLeader(ranks::Collective& group, const Program& program);
  ~RankLeader();  // tells them to end
  RankLeader(const RankLeader&) = delete;
  RankLeader& operator=(const RankLeader&) = delete;

  FollowedAdapters& adapters() { return adapters_; }
  // Before anything else: what they allocate. states outlives the leader.
  void tell_pools(const PoolPlan& plan, const StatePool& states);
  void tell_batch(RankCall call, const Batch& batch);
  void tell_copy(const ExtentList& from, const ExtentList& to);
  void tell_blocks(RankCall call, const ExtentList& slots, int first_token);
  void tell_state(RankCall call, int cell, std::size_t from, std::size_t count);

 private:
  void tell_adapters(const Batch& batch);
  void send() { group_.broadcast(0, message_); }

  ranks::Collective& group_;
  BatchNumbers numbers_;
  const StatePool* states_ = nullptr;
  FollowedAdapters adapters_;
  std::vector<std::byte> message_;
};

// A model that all ranks compute.
class LeadingModel final : public Model {
 public:
  // inner: this rank's part. call: what the others know it by.
  LeadingModel(RankLeader& leader, Model& inner, RankCall call) : leader_(leader), inner_(inner), call_(call) {}
  int vocabulary() const override { return inner_.vocabulary(); }
  int max_rows() const override { return inner_.max_rows(); }
  std::span<float> forward(const Batch& batch, const KvView& kv) override {
    leader_.tell_batch(call_, batch);
    return inner_.forward(batch, kv);
  }
  void logits_again(int row, int first, std::span<float> out) const override { inner_.logits_again(row, first, out); }
  bool overlaps() const override { return inner_.overlaps(); }
  void begin_forward(const Batch& batch, const KvView& kv) override {
    leader_.tell_batch(call_, batch);
    inner_.begin_forward(batch, kv);
  }
  std::span<float> end_forward() override { return inner_.end_forward(); }
  // By the first rank alone, which has all logits.
  bool draws() const override { return inner_.draws(); }
  void draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) override { inner_.draw(draws, drawn); }

 private:
  RankLeader& leader_;
  Model& inner_;
  RankCall call_;
};

// Runs steps on all ranks.
class LeadingRunner final : public ModelRunner {
 public:
  template <class... Args>
  explicit LeadingRunner(RankLeader& leader, Args&&... args)
      : ModelRunner(std::forward<Args>(args)...), leader_(leader) {}
  void copy(const ExtentList& from, const ExtentList& to) override {
    leader_.tell_copy(from, to);
    ModelRunner::copy(from, to);
  }

 private:
  RankLeader& leader_;
};

}  // namespace espalier
