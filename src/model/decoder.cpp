#include "model/decoder.h"

#include "model/adapters/bind_adapter.h"
#include "model/cpu/load_needs.h"
#include "model/executor.h"
#include "model/program/builder.h"
#include "model/ranks/split_program.h"
#include "ranks/collective.h"

namespace espalier {

struct Decoder::Impl {
  // The program of the layer that drafts.
  class DraftProgram final : public Model {
   public:
    // Its operations are over the model's buffers, fields and needs.
    static Result<std::unique_ptr<DraftProgram>> make(const Program& of_model, Loaded& loaded, int max_rows,
                                                      Backend& backend) {
      auto draft = std::make_unique<DraftProgram>();
      draft->program_ = of_model;
      draft->program_.ops = std::move(draft->program_.draft_ops);
      draft->max_rows_ = max_rows;
      ESP_TRY(draft->running_, backend.lower(draft->program_, loaded, max_rows));
      return draft;
    }
    int vocabulary() const override { return program_.vocabulary; }
    int max_rows() const override { return max_rows_; }
    std::span<float> forward(const Batch& batch, const KvView& kv) override { return running_->forward(batch, kv); }
    void logits_again(int row, int first, std::span<float> out) const override {
      running_->logits_again(row, first, out);
    }
    bool draws() const override { return running_->draws(); }
    void draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) override { running_->draw(draws, drawn); }

   private:
    Program program_;
    int max_rows_ = 0;
    std::unique_ptr<Executor> running_;
  };

  // What stands behind the pooling, over the model's needs; nothing: vectors stay as they are.
  class PooledProgram {
   public:
    static Result<std::unique_ptr<PooledProgram>> make(const Program& of_model, Loaded& loaded, Backend& backend) {
      auto pooled = std::make_unique<PooledProgram>();
      pooled->program_ = of_model;
      pooled->program_.ops = std::move(pooled->program_.pooled_ops);
      pooled->program_.output = of_model.pooled_output;
      pooled->program_.vocabulary = of_model.pooled_output.width;
      pooled->leave_buffers_of_the_model();
      ESP_TRY(pooled->running_, backend.lower(pooled->program_, loaded, kPooledRows));
      return pooled;
    }
    int width() const { return program_.vocabulary; }
    std::span<const float> run(std::span<const float* const> vectors, std::span<const LoraAdapter* const> adapters) {
      tokens_.assign(vectors.size(), 0);
      sequences_.clear();
      for (std::size_t i = 0; i < adapters.size(); ++i)
        sequences_.push_back(
            {.row_begin = static_cast<int>(i), .rows = 1, .first_position = 0, .runs = {}, .adapter = adapters[i]});
      Batch batch{tokens_, {}, sequences_, {}};
      batch.given = {&vectors, 1};
      return running_->forward(batch, {});
    }

   private:
    // They take no memory here.
    void leave_buffers_of_the_model() {
      std::vector<bool> used(program_.buffers.size());
      for (const Op& op : program_.ops)
        for_each_place(op, [&](const Rows& rows, bool) { used[static_cast<std::size_t>(rows.buffer)] = true; });
      for (std::size_t b = 0; b < used.size(); ++b)
        if (!used[b]) program_.buffers[b] = 1;
    }

    Program program_;
    std::unique_ptr<Executor> running_;
    std::vector<TokenId> tokens_;
    std::vector<BatchSequence> sequences_;
  };

  DecoderOptions options;
  ModelSpec spec;
  Naming naming = Naming::hf;
  Program program;
  Loaded loaded;
  std::unique_ptr<Executor> running;
  std::unique_ptr<PooledProgram> pooled;
  std::vector<float> unfinished;        // vectors behind which nothing stands
  std::unique_ptr<DraftProgram> draft;  // null: the program has no layer that drafts
  std::shared_ptr<PanelFile> overflow;

  Impl(Program p, const DecoderOptions& o, ComputeTeam& team)
      : options(o), program(std::move(p)), loaded{{cpu_kernels(), team, o.activations, nullptr, o.group}, {}, {}, {}} {}

  Result<> load(const Weights& weights, const Progress& progress) {
    Backend& backend = options.backend != nullptr ? *options.backend : cpu_backend();
    ESP_TRY(overflow, load_needs(program, weights, loaded, progress));
    ESP_TRY(running, backend.lower(program, loaded, options.max_rows));
    if (!program.pooled_ops.empty()) {
      ESP_TRY(pooled, PooledProgram::make(program, loaded, backend));
    }
    if (program.draft_ops.empty()) return success();
    ESP_TRY(draft, DraftProgram::make(program, loaded, options.max_rows, backend));
    return success();
  }
};

Decoder::Decoder(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Decoder::~Decoder() = default;

Result<std::unique_ptr<Decoder>> Decoder::load(const ModelSpec& spec, const Weights& weights,
                                               const DecoderOptions& options, ComputeTeam& team,
                                               const Progress& progress) {
  ESP_TRY(Program program, Builder::build(spec, &weights));
  if (options.group != nullptr)
    program =
        split_program(program, {options.group->rank(), options.group->size(), options.experts_by_id, options.stages});
  auto impl = std::make_unique<Impl>(std::move(program), options, team);
  impl->spec = spec;
  impl->naming = weights.naming();
  ESP_CHECK(impl->load(weights, progress));
  return std::unique_ptr<Decoder>(new Decoder(std::move(impl)));
}

const Program& Decoder::program() const {
  return impl_->program;
}
bool Decoder::sees_both_ways() const {
  return program().both_ways;
}
int Decoder::ranks() const {
  return impl_->options.group != nullptr ? impl_->options.group->size() : 1;
}
std::string_view Decoder::isa() const {
  return impl_->loaded.with.cpu.isa;
}
int Decoder::max_rows() const {
  return impl_->options.max_rows;
}

std::size_t Decoder::weight_bytes() const {
  std::size_t sum = 0;
  for (const Linear& linear : impl_->loaded.matrices) sum += linear.bytes();
  for (const auto& vector : impl_->program.vectors) sum += vector.size() * sizeof(float);
  return sum;
}

std::size_t Decoder::overflow_bytes() const {
  return impl_->overflow ? impl_->overflow->kept() : 0;
}

void Decoder::forget_host_weights() {
  if (impl_->options.backend == nullptr) return;
  for (Linear& linear : impl_->loaded.matrices) linear.forget_panels();
}

std::vector<NamedMatrix> Decoder::matrices() const {
  std::vector<NamedMatrix> all;
  for (const Linear& linear : impl_->loaded.matrices) linear.add_matrices(all);
  return all;
}

std::span<float> Decoder::forward(const Batch& batch, const KvView& kv) {
  return impl_->running->forward(batch, kv);
}

Result<std::shared_ptr<const LoraAdapter>> Decoder::bind(const AdapterFile& file) const {
  return bind_adapter(file,
                      {impl_->spec, impl_->program, impl_->naming, impl_->loaded.matrices, impl_->options.backend});
}

std::span<const float> Decoder::finish(std::span<const float* const> vectors,
                                       std::span<const LoraAdapter* const> adapters) {
  if (impl_->pooled) return impl_->pooled->run(vectors, adapters);
  std::vector<float>& out = impl_->unfinished;
  out.clear();
  for (const float* vector : vectors) out.insert(out.end(), vector, vector + vocabulary());
  return out;
}

int Decoder::pooled_width() const {
  if (impl_->pooled) return impl_->pooled->width();
  return program().output ? vocabulary() : 0;
}

void Decoder::logits_again(int row, int first, std::span<float> out) const {
  impl_->running->logits_again(row, first, out);
}

bool Decoder::overlaps() const {
  return impl_->running->overlaps();
}

void Decoder::begin_forward(const Batch& batch, const KvView& kv) {
  impl_->running->begin_forward(batch, kv);
}

std::span<float> Decoder::end_forward() {
  return impl_->running->end_forward();
}

bool Decoder::draws() const {
  return impl_->running->draws();
}

void Decoder::draw(std::span<const RowDraw> draws, std::span<DrawnToken> drawn) {
  impl_->running->draw(draws, drawn);
}

Model* Decoder::draft_layer() {
  return impl_->draft.get();
}

}  // namespace espalier
