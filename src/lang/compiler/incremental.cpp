#include "lang/compiler/incremental.h"

#include <atomic>
#include <mutex>

#include "lang/compiler/passes.h"
#include "lang/graph/replay.h"
#include "lang/state_core.h"

namespace espalier::lang {
namespace {

// What was recorded since the last look, and the states that it is for.
class Recording {
 public:
  Recording(std::shared_ptr<StateCore> own, const CompileOptions& options)
      : options_(options), replay_(std::move(own)) {}

  void add(int stream, Graph::Content content) {
    const std::lock_guard lock(mutex_);
    pending_.nodes.push_back({stream, std::move(content)});
  }
  std::vector<int> fork(int stream, int n) {
    const std::lock_guard lock(mutex_);
    Graph::Fork fork;
    for (int i = 0; i < n; ++i) fork.children.push_back(pending_.streams++);
    const std::vector<int> children = fork.children;
    pending_.nodes.push_back({stream, std::move(fork)});
    return children;
  }
  // Begins what is pending; the state of `stream`.
  std::shared_ptr<StateCore> begin(int stream) {
    const std::lock_guard lock(mutex_);
    if (!pending_.nodes.empty()) {
      improve();
      replay_.append(pending_.nodes, {});
      pending_.nodes.clear();
    }
    return replay_.core(stream);
  }

 private:
  // Only what holds whatever comes later. A group of samples has a number of its own in each piece.
  void improve() {
    PassReport report;
    if (options_.passes.fold_constants) fold_constants(pending_, report);
    const BackendTraits& traits = options_.backend->traits();
    if (options_.passes.choice_grammar && traits.constraints) choice_grammar(pending_, report);
    if (options_.passes.share_samples && traits.samples) {
      share_samples(pending_, options_.defaults, {.chained = traits.chains && options_.passes.chain_calls}, report);
      for (Graph::Node& one : pending_.nodes)
        if (auto* sample = std::get_if<Graph::Sample>(&one.content)) sample->group += groups_;
      groups_ += static_cast<int>(pending_.nodes.size());
    }
    if (options_.passes.chain_calls && traits.chains) chain_calls(pending_, options_.defaults, report);
  }

  const CompileOptions& options_;
  std::mutex mutex_;
  Graph pending_;
  Replay replay_;
  int groups_ = 0;
};

class IncrementalState final : public StateCore {
 public:
  IncrementalState(std::shared_ptr<Recording> recording, int stream)
      : recording_(std::move(recording)), stream_(stream) {}

  void append(Expr what) override {
    for (Node& one : std::move(what).take())
      std::visit([this](auto&& it) { record(std::forward<decltype(it)>(it)); }, std::move(one));
  }
  void append(GraphItem item) override { own()->append(std::move(item)); }
  std::vector<std::shared_ptr<StateCore>> fork(int n) override {
    std::vector<std::shared_ptr<StateCore>> children;
    for (const int stream : recording_->fork(stream_, n))
      children.push_back(std::make_shared<IncrementalState>(recording_, stream));
    return children;
  }
  Result<> join(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override {
    join_later(children, mode);
    return success();
  }
  void join_later(const std::vector<std::shared_ptr<StateCore>>& children, JoinMode mode) override {
    Graph::Join join{{}, mode};
    for (const auto& child : children) join.children.push_back(dynamic_cast<const IncrementalState&>(*child).stream_);
    recording_->add(stream_, std::move(join));
    joined_ = true;
  }

  void set(std::string name, Value value) override { own()->set(std::move(name), std::move(value)); }
  // Behind a join all that was said before it has been done.
  bool contains(std::string_view name) const override {
    if (joined_.exchange(false)) own()->sync();
    return own()->contains(name);
  }
  Result<Value> read(std::string_view name) override { return own()->read(name); }
  std::optional<Result<Value>> try_read(std::string_view name) const override { return own()->try_read(name); }
  std::shared_ptr<PromisedValue> promise(std::string_view name) override { return own()->promise(name); }
  void hurry() override { own()->hurry(); }
  Result<Json> meta(std::string_view name, Until until) override { return own()->meta(name, until); }
  void when_settled(std::function<void()> then) override { own()->when_settled(std::move(then)); }
  void sync() override { own()->sync(); }
  std::string text() override { return own()->text(); }
  std::vector<Message> messages() override { return own()->messages(); }
  std::optional<Error> error() override { return own()->error(); }
  Result<std::optional<Piece>> piece(std::string_view variable, std::size_t seen) override {
    return own()->piece(variable, seen);
  }
  void when_piece(std::string variable, std::size_t seen, std::function<void()> then) override {
    own()->when_piece(std::move(variable), seen, std::move(then));
  }
  void end() override { own()->end(); }
  void cancel(Error why) override { own()->cancel(std::move(why)); }

 private:
  std::shared_ptr<StateCore> own() const { return recording_->begin(stream_); }

  template <class T>
  void record(T one) {
    recording_->add(stream_, std::move(one));
  }
  void record(node::Variable variable) {
    const auto* source = dynamic_cast<const IncrementalState*>(variable.source.get());
    if (variable.source != nullptr && (source == nullptr || source->recording_ != recording_))
      return own()->append(Expr(Node(std::move(variable))));  // of another run
    recording_->add(stream_, Graph::Variable{std::move(variable.name), source != nullptr ? source->stream_ : stream_});
  }
  void record(node::Reasoning reasoning) { own()->append(Expr(Node(std::move(reasoning)))); }

  const std::shared_ptr<Recording> recording_;
  const int stream_;
  mutable std::atomic<bool> joined_{false};  // since somebody asked what is there
};

}  // namespace

void compile_incrementally(const Function& function, State& s, const Arguments& arguments,
                           const CompileOptions& options) {
  const auto recording = std::make_shared<Recording>(s.core(), options);
  State followed(std::make_shared<IncrementalState>(recording, 0));
  try {
    function.call(followed, arguments);
  } catch (...) {
    recording->begin(0);
    throw;
  }
  recording->begin(0);
}

}  // namespace espalier::lang
