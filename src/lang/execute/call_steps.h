// call_steps.h: what a state asks of its back end: generations, selections, samples that several states share, chains of
// generations that are one call, and runs that a server carries out.
//
// One call at a time. Threads: whoever is at work in the state; results come on the back end's own thread.
// Fails: a call's failure is the state's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "lang/execute/queue_item.h"

namespace espalier::lang {

// Makes a state's calls, and puts what they bring into its document and variables.
class CallSteps {
 public:
  explicit CallSteps(StreamExecutor& state) : state_(state) {}

  Progress take(const node::Gen& gen);
  Progress take(const node::Select& select);
  Progress take(PrefixCommit);
  Progress take(SampleItem sample);
  Progress take(ChainItem chain);
  Progress take(const ServedRun& run);

  void finish_gen(const node::Gen& gen, bool several, GenOutput output);
  // The continuation of a call: its result goes to `then`, its failure is the state's; in both cases the queue goes on.
  template <class Output>
  std::function<void(Result<Output>)> when_ended(std::function<void(StreamExecutor&, Output)> then);
  // Keeps the call that `start` begins until it has ended, which may be before it is back.
  template <class Start>
  void start_call(Start start);
  std::unique_ptr<Call> give_up() { return std::move(call_); }  // to be dropped without the lock. Requires: the lock

 private:
  void add_piece(const node::Gen& gen, Piece piece);
  Progress generate_choice(const node::Select& select);
  void finish_select(const node::Select& select, SelectOutput output);
  Progress ask_for_samples(const SampleItem& sample);
  void wait_for_sample(SampleItem sample);
  Result<ChainCall> chain_call(const std::vector<Node>& nodes) const;
  void finish_chain(const std::vector<Node>& nodes, std::vector<GenOutput> outputs);
  void finish_served(const ServedItem& item, ServedResult result);

  StreamExecutor& state_;
  std::size_t streamed_ = 0;              // bytes of the call under way that are in the document already
  std::shared_ptr<SampleGroup> awaited_;  // whose sample is to come
  std::unique_ptr<Call> call_;
  std::uint64_t begun_ = 0, ended_ = 0;  // calls
};

}  // namespace espalier::lang
