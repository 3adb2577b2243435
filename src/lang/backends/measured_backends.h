// measured_backends.h: what the language is measured on: a back end that costs nothing, and a model that costs next to
// nothing. For benchmarks.
#pragma once

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "espalier/backends.h"
#include "espalier/engine.h"

namespace espalier::lang {

// Answers "x", and the first of some choices, from a thread of its own.
class FreeBackend final : public Backend {
 public:
  FreeBackend() : thread_([this] { work(); }) {
    traits_.name = "free";
    format_.roles = {{"user", {"<u>", "</u>"}}, {"assistant", {"<a>", "</a>"}}};
  }
  ~FreeBackend() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  const BackendTraits& traits() const override { return traits_; }
  const ChatFormat& chat_format() const override { return format_; }
  std::unique_ptr<Context> context() override { return std::make_unique<FreeContext>(*this); }
  BackendUsage usage() const override { return {}; }
  Result<> flush_cache() override { return success(); }
  Result<Json> server_info() override { return Json::object(); }

  // Nothing is answered before so many calls wait at once; then all are, as they come.
  void answer_from(std::size_t waiting) {
    const std::lock_guard lock(mutex_);
    answers_from_ = waiting;
  }

 private:
  class FreeCall final : public Call {};
  class FreeContext final : public Context {
   public:
    explicit FreeContext(FreeBackend& backend) : backend_(backend) {}
    std::unique_ptr<Context> fork(const Document&) override { return std::make_unique<FreeContext>(backend_); }
    std::unique_ptr<Call> generate(const Document&, GenCall, GenSink sink) override {
      backend_.put([sink = std::move(sink)] { sink.on_end(GenOutput{{"x"}, {nullptr}}); });
      return std::make_unique<FreeCall>();
    }
    std::unique_ptr<Call> select(const Document&, SelectCall, SelectSink sink) override {
      backend_.put([sink = std::move(sink)] { sink(SelectOutput()); });
      return std::make_unique<FreeCall>();
    }
    void rewind(std::size_t) override {}

   private:
    FreeBackend& backend_;
  };

  void put(std::function<void()> answer) {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(answer));
    if (queue_.size() >= answers_from_) answers_from_ = 0;
    if (queue_.size() == 1 || answers_from_ == 0) changed_.notify_one();
  }
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return over_ || (!queue_.empty() && answers_from_ == 0); });
      if (over_) return;
      {
        const auto answer = std::move(queue_.front());
        queue_.pop_front();
        lock.unlock();
        answer();
      }
      lock.lock();
    }
  }

  BackendTraits traits_;
  ChatFormat format_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t answers_from_ = 0;
  bool over_ = false;
  std::thread thread_;
};

// One tiny layer with random weights, of the shape of the model in a folder.
class TinyModel {
 public:
  explicit TinyModel(const std::filesystem::path& like)
      : folder_(std::filesystem::temp_directory_path() / ("espalier-tiny-" + std::to_string(::getpid()))) {
    std::filesystem::create_directories(folder_);
    std::ifstream in(like / "config.json");
    Json config = Json::parse(in);
    config["num_hidden_layers"] = config["num_key_value_heads"] = 1;
    config["hidden_size"] = config["intermediate_size"] = 32;
    config["num_attention_heads"] = 2;
    config["max_position_embeddings"] = 65536;
    config["rope_scaling"] = nullptr;
    std::ofstream(folder_ / "config.json") << config;
    for (const char* name : {"tokenizer.json", "tokenizer_config.json"})
      std::filesystem::copy_file(like / name, folder_ / name, std::filesystem::copy_options::overwrite_existing);
  }
  TinyModel(const TinyModel&) = delete;
  TinyModel& operator=(const TinyModel&) = delete;
  ~TinyModel() { std::filesystem::remove_all(folder_); }

  Result<std::shared_ptr<Engine>> open() const {
    EngineOptions options;
    options.model_path = folder_.string();
    options.load_format = "dummy";
    options.threads = 1;
    ESP_TRY(auto engine, Engine::open(options));
    return std::shared_ptr<Engine>(std::move(engine));
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace espalier::lang
