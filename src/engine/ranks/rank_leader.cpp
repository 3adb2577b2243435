#include "engine/ranks/rank_leader.h"

#include <algorithm>

#include "model/adapters/adapter.h"

namespace espalier {

void FollowedAdapters::note(const std::string& print, const std::string& path) {
  const std::lock_guard lock(mutex_);
  paths_[print] = path;
}

int FollowedAdapters::known(const LoraAdapter& adapter) {
  const auto found = std::ranges::find(used_, adapter.print(), &std::pair<std::string, int>::first);
  if (found == used_.end()) return 0;
  used_.splice(used_.begin(), used_, found);
  return found->second;
}

FollowedAdapters::Told FollowedAdapters::tell(const LoraAdapter& adapter) {
  Told told{++last_number_, 0, {}};
  used_.emplace_front(adapter.print(), told.number);
  if (used_.size() > most) {
    told.forgotten = used_.back().second;
    used_.pop_back();
  }
  const std::lock_guard lock(mutex_);
  told.path = paths_[adapter.print()];
  return told;
}

RankLeader::RankLeader(ranks::Collective& group, const Program& program) : group_(group) {
  numbers_.input_widths = program.whole_inputs;
  numbers_.cell_of = [this](const float* state) { return states_ == nullptr ? -1 : states_->index_of(state); };
  numbers_.adapter_of = [this](const LoraAdapter* adapter) {
    return adapter == nullptr ? 0 : adapters_.known(*adapter);
  };
}

RankLeader::~RankLeader() {
  MessageWriter(message_).put(RankCall::end);
  send();
}

void RankLeader::tell_pools(const PoolPlan& plan, const StatePool& states) {
  states_ = &states;
  const std::vector<unsigned char> fields(plan.windows.fields.begin(), plan.windows.fields.end());
  MessageWriter(message_)
      .put(RankCall::pools)
      .put(plan.slots)
      .put(plan.windows.slots)
      .put(states.cells())
      .put_all(std::span<const unsigned char>(fields));
  send();
}

// In an order of their own, before the batch that they are for.
void RankLeader::tell_adapters(const Batch& batch) {
  for (const BatchSequence& sequence : batch.sequences) {
    if (sequence.adapter == nullptr || adapters_.known(*sequence.adapter) > 0) continue;
    const FollowedAdapters::Told told = adapters_.tell(*sequence.adapter);
    MessageWriter(message_)
        .put(RankCall::bind)
        .put(told.number)
        .put(told.forgotten)
        .put_all(std::span<const char>(told.path));
    send();
  }
}

void RankLeader::tell_batch(RankCall call, const Batch& batch) {
  tell_adapters(batch);
  MessageWriter writer(message_);
  writer.put(call);
  write_batch(batch, numbers_, writer);
  send();
}

void RankLeader::tell_copy(const ExtentList& from, const ExtentList& to) {
  MessageWriter(message_).put(RankCall::copy).put_all(from.extents()).put_all(to.extents());
  send();
}

void RankLeader::tell_blocks(RankCall call, const ExtentList& slots, int first_token) {
  MessageWriter(message_).put(call).put(first_token).put_all(slots.extents());
  send();
}

void RankLeader::tell_state(RankCall call, int cell, std::size_t from, std::size_t count) {
  MessageWriter(message_).put(call).put(cell).put(from).put(count);
  send();
}

}  // namespace espalier
