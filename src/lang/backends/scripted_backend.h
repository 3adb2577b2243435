// scripted_backend.h: a back end for tests whose answers a function gives; they come from a thread of its own.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

#include "espalier/backend.h"
#include "espalier/program.h"
#include "lang/backends/compute_prefix.h"
#include "lang/backends/off_thread_delete.h"

namespace espalier::testing {

// A Backend whose answers come from a function of text and call.
class ScriptedBackend final : public Backend {
 public:
  using Script = std::function<Result<std::string>(const std::string& text, const GenCall& call)>;

  static std::shared_ptr<ScriptedBackend> make(Script script) {
    return lang::delete_off_own_thread(std::make_shared<ScriptedBackend>(std::move(script)));
  }
  explicit ScriptedBackend(Script script) : script_(std::move(script)), thread_([this] { work(); }) {
    traits_.name = "scripted";
    format_.roles = {{"system", {"<s>", "</s>"}}, {"user", {"<u>", "</u>"}}, {"assistant", {"<a>", "</a>"}}};
  }
  ~ScriptedBackend() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const BackendTraits& traits() const override { return traits_; }
  const ChatFormat& chat_format() const override { return format_; }
  std::unique_ptr<Context> context() override { return std::make_unique<ScriptedContext>(*this); }
  BackendUsage usage() const override { return {}; }
  Result<> flush_cache() override { return success(); }
  Result<std::shared_ptr<HeldPrefix>> hold(const std::string& text) override {
    if (traits().prefix_cache) ESP_CHECK(lang::compute_prefix(*this, text));
    return std::shared_ptr<HeldPrefix>();
  }
  Result<Json> server_info() override { return Json::object(); }

  BackendTraits& set_traits() { return traits_; }
  ChatFormat& set_format() { return format_; }

  // What scores and vectors are; unset: it gives none.
  void set_scores(std::function<Result<ScoreOutput>(const ScoreCall&)> scores) { scores_ = std::move(scores); }
  std::unique_ptr<Call> score(ScoreCall call, ScoreSink sink) override {
    if (!scores_) return nullptr;
    auto over = std::make_shared<std::atomic<bool>>(false);
    put(call.query, [this, call = std::move(call), sink = std::move(sink), over] {
      if (!over->exchange(true)) sink(scores_(call));
    });
    return std::make_unique<ScriptedCall>(*this, over);
  }

  void take_chains_of(std::size_t generations) { most_chained_ = generations; }  // at most

  // Answers wait until release().
  void hold() {
    const std::lock_guard lock(mutex_);
    held_ = true;
  }
  void release() {
    const std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  std::vector<std::string> prompts() const {  // of all calls so far, in the order they came
    const std::lock_guard lock(mutex_);
    return prompts_;
  }
  int cancelled() const { return cancelled_; }
  bool is_own_thread() const { return thread_.get_id() == std::this_thread::get_id(); }

 private:
  class ScriptedCall final : public Call {
   public:
    ScriptedCall(ScriptedBackend& backend, std::shared_ptr<std::atomic<bool>> over)
        : backend_(backend), over_(std::move(over)) {}
    ~ScriptedCall() override {
      if (!over_->exchange(true)) ++backend_.cancelled_;
    }

   private:
    ScriptedBackend& backend_;
    std::shared_ptr<std::atomic<bool>> over_;
  };

  class ScriptedContext final : public Context {
   public:
    explicit ScriptedContext(ScriptedBackend& backend) : backend_(backend) {}
    std::unique_ptr<Context> fork(const Document&) override { return std::make_unique<ScriptedContext>(backend_); }
    void rewind(std::size_t) override {}
    std::unique_ptr<Call> generate(const Document& document, GenCall call, GenSink sink) override {
      auto over = std::make_shared<std::atomic<bool>>(false);
      backend_.put(document.text, [&backend = backend_, text = document.text, call, sink, over] {
        auto answer = backend.script_(text, call);
        if (over->exchange(true)) return;
        if (!answer.ok()) return sink.on_end(answer.error());
        if (call.stream)
          for (const char c : *answer) sink.on_piece({std::string(1, c), nullptr});
        GenOutput output;
        output.texts.assign(static_cast<std::size_t>(call.sampling.n), *answer);
        output.meta.assign(static_cast<std::size_t>(call.sampling.n), Json{{"prompt", text}});
        sink.on_end(std::move(output));
      });
      return std::make_unique<ScriptedCall>(backend_, over);
    }
    bool takes(const Document&, const ChainCall& call) const override {
      return call.parts.size() <= backend_.most_chained_;
    }
    // Where set_traits() tells that it is taken. The prompt that is noted is the first part's.
    std::unique_ptr<Call> chain(const Document& document, ChainCall call, ChainSink sink) override {
      auto over = std::make_shared<std::atomic<bool>>(false);
      backend_.put(document.text + call.parts.front().literal,
                   [&backend = backend_, text = document.text, call, sink, over] {
                     if (over->exchange(true)) return;
                     std::vector<GenOutput> outputs;
                     std::string all = text;
                     for (const ChainCall::Part& part : call.parts) {
                       all += part.literal;
                       auto answer = backend.script_(all, part.gen);
                       if (!answer.ok()) return sink(answer.error());
                       outputs.push_back({{*answer}, {Json{{"prompt", all}}}});
                       all += *answer;
                     }
                     sink(std::move(outputs));
                   });
      return std::make_unique<ScriptedCall>(backend_, over);
    }
    std::unique_ptr<Call> select(const Document& document, SelectCall call, SelectSink sink) override {
      auto over = std::make_shared<std::atomic<bool>>(false);
      backend_.put(document.text, [call, sink, over] {
        if (over->exchange(true)) return;
        sink(SelectOutput{call.choices.size() - 1, Json::object()});
      });
      return std::make_unique<ScriptedCall>(backend_, over);
    }

   private:
    ScriptedBackend& backend_;
  };

  void put(std::string prompt, std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    prompts_.push_back(std::move(prompt));
    queue_.push_back(std::move(work));
    changed_.notify_all();
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || (!held_ && !queue_.empty()); });
      if (stopping_) return;
      const auto next = std::move(queue_.front());
      queue_.pop_front();
      lock.unlock();
      next();
    }
  }

  BackendTraits traits_;
  ChatFormat format_;
  Script script_;
  std::function<Result<ScoreOutput>(const ScoreCall&)> scores_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::vector<std::string> prompts_;
  bool held_ = false, stopping_ = false;
  std::atomic<std::size_t> most_chained_ = 1000;
  std::atomic<int> cancelled_ = 0;
  std::thread thread_;
};

// What a program that must fail throws.
template <class F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const ProgramError& e) {
    return e.error();
  }
  return internal_error("nothing was thrown");
}

}  // namespace espalier::testing
