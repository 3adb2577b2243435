// core_harness.h: an EngineCore on a golden model or a double of one, driven step by step; for tests.
#pragma once

#include <gtest/gtest.h>

#include <map>

#include "engine/draft/draft_model.h"
#include "engine/memory/window_plan.h"
#include "engine/run/model_runner.h"
#include "engine/step/engine_core.h"
#include "model/config/gguf_config.h"
#include "model/config/hf_config.h"
#include "model/decoder.h"
#include "tensor/file/gguf.h"
#include "tensor/file/safetensors.h"
#include "testing/data.h"

namespace espalier::testing {

// What one choice of one request gave.
struct Answer {
  std::vector<TokenId> tokens;
  std::vector<double> logprobs;
  PromptLogprobsEvent prompt;
  FinishEvent finish;
  bool finished = false;
  bool operator==(const Answer& o) const {
    return tokens == o.tokens && logprobs == o.logprobs && prompt.logprobs == o.prompt.logprobs &&
           finish.reason == o.finish.reason;
  }
};

// What a core needs of a model.
struct ModelParts {
  Model& model;
  Keeps keeps;
  std::vector<RopeSpec> ropes;
  ComputeTeam& team;
  int vocabulary;
  std::vector<Visibility> seen = {};  // of each field that is kept; empty: all is seen of all
};

// A small model of tests/data with its expected outputs, or a mark that it is not there.
class GoldenModel {
 public:
  // drafts: with the layer that its checkpoint brings to draft with.
  explicit GoldenModel(const std::string& name, Activations mode, int threads = 1, int max_rows = 600,
                       bool drafts = false)
      : team(threads) {
    const auto path = golden(name);
    if (path.empty()) return;
    Naming naming = Naming::hf;
    Result<ModelConfig> config = internal_error("");
    if (path.extension() == ".gguf") {
      auto gguf = GgufFile::open(path);
      EXPECT_TRUE(gguf.ok());
      config = read_gguf_config(*gguf);
      file = std::make_unique<GgufFile>(std::move(gguf).value());
      naming = Naming::gguf;
    } else {
      auto tensors = SafetensorsFile::open_folder(path);
      EXPECT_TRUE(tensors.ok());
      file = std::make_unique<SafetensorsFile>(std::move(tensors).value());
      config = load_hf_config(path);
    }
    vocabulary = config->vocabulary;
    config->spec.drafts = drafts;
    const Weights weights(*file, naming);
    decoder = Decoder::load(config->spec, weights, {mode, max_rows}, team).value();
  }
  ModelParts parts() {
    return {*decoder, decoder->keeps(), decoder->program().ropes, team, vocabulary, seen_fields(decoder->program())};
  }
  CacheLayout layout(KvType type) const { return {decoder->keeps().per_token, type}; }
  ComputeTeam team;
  std::unique_ptr<TensorFile> file;
  int vocabulary = 0;
  std::unique_ptr<Decoder> decoder;  // null when the golden is not here
};

// One EngineCore with pool and runner over a model, stepped by the test. With CoreOptions::window_slots what the model
// reads through windows lies in as many slots of its own.
class CoreHarness {
 public:
  CoreHarness(GoldenModel& model, CoreOptions options, int slots, KvType type = KvType::f32)
      : CoreHarness(model.parts(), std::move(options), slots, type) {}
  CoreHarness(const ModelParts& model, CoreOptions options, int slots, KvType type = KvType::f32)
      : vocabulary_(model.vocabulary),
        slots_(slots),
        windows_(options.window_slots > 0 ? windows_of(model.seen, INT32_MAX) : WindowPlan{}),
        kv_(KvPools::allocate({model.keeps.per_token, type}, slots, windows_.fields, options.window_slots).value()),
        states_(StatePool::allocate(model.keeps.state_floats, cells_for(model, options)).value()),
        runner_(model.model, kv_, states_.cells() > 0 ? &states_ : nullptr, model.team, options.end_tokens, metrics, 1),
        core(for_model(std::move(options), model, windows_), runner_, slots, metrics) {}

  // Puts a request in; its answers appear under the returned number.
  int add(RequestFields fields) {
    ModelLimits limits{vocabulary_, context, slots_, true, 0, picture_rules.tower != nullptr};
    std::shared_ptr<const PromptPictures> pictures;
    if (!fields.pictures.empty()) pictures = prompt_pictures(fields, picture_rules).value();
    auto request = Request::make(std::move(fields), limits);
    EXPECT_TRUE(request.ok()) << (request.ok() ? "" : request.error().message);
    auto shared = std::make_shared<const Request>(std::move(request).value());
    auto channel = std::make_shared<StreamChannel>(shared->id(), shared->sampling().n, [] {});
    core.add({shared, channel, std::move(pictures)});
    channels.push_back(channel);
    answers.emplace_back(static_cast<std::size_t>(shared->sampling().n));
    return static_cast<int>(channels.size()) - 1;
  }

  bool step() {
    const bool worked = core.step();
    auto ok = core.check();
    EXPECT_TRUE(ok.ok()) << ok.error().message;
    std::vector<StreamEvent> events;
    for (std::size_t i = 0; i < channels.size(); ++i) {
      channels[i]->take(events);
      for (StreamEvent& event : events) collect(answers[i], event);
    }
    return worked;
  }
  void run() {
    int steps = 0;
    while (step()) ASSERT_LT(++steps, 100'000);
  }

  // From now on `draft` guesses too, with a pool of `slots` of its own.
  void attach_draft_model(GoldenModel& draft, int slots, bool keep_prefixes = true) {
    draft_kv_ = KvPool::allocate(draft.layout(KvType::f32), slots).value();
    draft_ = std::make_unique<DraftModel>(*draft.decoder, draft_kv_.view(), draft.team,
                                          DraftModelOptions{slots, 512, keep_prefixes, {}});
    core.attach(*draft_);
  }
  const DraftModel* draft_model() const { return draft_.get(); }
  // From now on the model's own layer guesses too.
  void attach_layer(GoldenModel& model) {
    layer_ =
        std::make_unique<LayerGuesser>(*model.decoder->draft_layer(), kv_.view(), model.team, std::vector<TokenId>{});
    core.attach(*layer_);
  }

  KvPool& pool() { return kv_.tokens(); }
  const KvPool& window_pool() const { return kv_.windows(); }  // of no bytes where all lies in one space
  const StatePool& states() const { return states_; }
  EngineMetrics metrics;
  int context = 512;           // tokens
  PictureRules picture_rules;  // with a tower: requests may bring pictures

 private:
  // Of a model that keeps a state; options may say how many.
  static int cells_for(const ModelParts& model, const CoreOptions& options) {
    if (model.keeps.state_floats == 0) return 0;
    return options.state_cells > 0 ? options.state_cells : 256;
  }
  static CoreOptions for_model(CoreOptions options, const ModelParts& model, const WindowPlan& windows) {
    if (options.window_slots > 0) options.window = rule_of(windows.seen);
    options.state_cells = cells_for(model, options);
    options.rope_lengths = RopeLengths(model.ropes, 1);
    return options;
  }
  static void collect(std::vector<Answer>& choices, StreamEvent& event) {
    if (auto* token = std::get_if<TokenEvent>(&event)) {
      Answer& a = choices[static_cast<std::size_t>(token->choice)];
      EXPECT_FALSE(a.finished);
      a.tokens.push_back(token->id);
      a.logprobs.push_back(token->logprob);
    } else if (auto* finish = std::get_if<FinishEvent>(&event)) {
      Answer& a = choices[static_cast<std::size_t>(finish->choice)];
      EXPECT_FALSE(a.finished);
      a.finished = true;
      a.finish = *finish;
    } else {
      auto& prompt = std::get<PromptLogprobsEvent>(event);
      choices[static_cast<std::size_t>(prompt.choice)].prompt = prompt;
    }
  }

  const int vocabulary_, slots_;
  WindowPlan windows_;
  KvPools kv_;
  KvPool draft_kv_;
  StatePool states_;
  ModelRunner runner_;
  std::unique_ptr<DraftModel> draft_;  // outlives the core, as does
  std::unique_ptr<LayerGuesser> layer_;

 public:
  EngineCore core;
  std::vector<std::shared_ptr<StreamChannel>> channels;
  std::vector<std::vector<Answer>> answers;  // [request][choice]
};

}  // namespace espalier::testing
