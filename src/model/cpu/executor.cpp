#include "model/executor.h"

#include <algorithm>

#include "model/adapters/adapter.h"
#include "model/cpu/lower.h"
#include "tensor/page_buffer.h"

namespace espalier {
namespace {

// A program as stages of the team.
class CpuExecutor final : public Executor {
 public:
  CpuExecutor(const Program& program, Loaded& loaded, Lowered lowered)
      : loaded_(loaded), vocabulary_(program.vocabulary), lowered_(std::move(lowered)) {}

  std::span<float> forward(const Batch& batch, const KvView& kv) override {
    Pass pass(batch, kv, loaded_.with);
    for (RopeTables& rope : loaded_.ropes) rope.reserve(pass.positions(), pass.rope_lengths());
    for (const auto& stage : lowered_.stages) stage->run(pass);
    return {lowered_.logits.first, static_cast<std::size_t>(pass.rows()) * static_cast<std::size_t>(vocabulary_)};
  }
  void logits_again(int row, int first, std::span<float> out) const override {
    if (lowered_.head != nullptr) return lowered_.head->again(loaded_.with.cpu, row, first, out);
    std::copy_n(lowered_.logits.row(row) + first, out.size(), out.begin());  // another rank has the head
  }

 private:
  Loaded& loaded_;
  int vocabulary_;
  Lowered lowered_;
};

class CpuBackend final : public Backend {
 public:
  Result<std::unique_ptr<Executor>> lower(const Program& program, Loaded& loaded, int max_rows) override {
    ESP_TRY(Lowered lowered, espalier::lower(program, loaded, max_rows));
    return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(program, loaded, std::move(lowered)));
  }
  Result<std::shared_ptr<std::byte>> room(std::size_t bytes) override {
    auto pages = std::make_shared<PageBuffer>();
    ESP_TRY(*pages, PageBuffer::allocate(bytes));
    return std::shared_ptr<std::byte>(pages, reinterpret_cast<std::byte*>(pages->data()));
  }
  Result<std::shared_ptr<const AdapterElsewhere>> send(const LoraAdapter&) override {
    return std::shared_ptr<const AdapterElsewhere>();
  }
};

}  // namespace

Backend& cpu_backend() {
  static CpuBackend backend;
  return backend;
}

}  // namespace espalier
