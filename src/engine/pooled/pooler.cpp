#include "engine/pooled/pooler.h"

#include <algorithm>

namespace espalier {

Pooling Pooler::of(const Sequence& s) const {
  return s.request->fields().pooled->each ? Pooling::each : plan_->how;
}

int Pooler::first_row(const Sequence& s) const {
  const int length = s.prompt_tokens(), leave_out = s.request->fields().pooled->leave_out;
  int row = 0;
  while (row + 1 < length && !pools_row(of(s), row, length, leave_out)) ++row;
  return row;
}

void Pooler::take(const StepPlan& step, std::span<const Outcome> outcomes) {
  if (!plan_) return;
  std::vector<Sequence*> ended;
  std::size_t row = 0;
  for (const auto& [s, count] : step.chunks) {
    for (; row < step.rows.size() && step.rows[row].sequence == s; ++row) s->rows.add(of(*s), outcomes[row].row);
    if (s->computed + count == s->known()) ended.push_back(s);
  }
  finish(ended);
}

// All vectors of all texts, some at a time.
void Pooler::finish(std::span<Sequence* const> ended) {
  struct Part {
    Sequence* of;
    std::vector<float> vectors;
  };
  std::vector<Part> parts;
  std::vector<const float*> vectors;
  std::vector<Sequence*> owners;
  std::vector<const LoraAdapter*> adapters;
  for (Sequence* s : ended) parts.push_back({s, s->rows.take(of(*s))});
  for (const Part& part : parts)
    for (std::size_t at = 0; at < part.vectors.size(); at += static_cast<std::size_t>(plan_->row_width)) {
      vectors.push_back(part.vectors.data() + at);
      owners.push_back(part.of);
      adapters.push_back(part.of->request->fields().adapter.get());
    }
  const auto width = static_cast<std::size_t>(plan_->width), most = static_cast<std::size_t>(plan_->at_once);
  for (std::size_t at = 0; at < vectors.size(); at += most) {
    const std::size_t count = std::min(most, vectors.size() - at);
    const auto made = plan_->finish(std::span(vectors).subspan(at, count), std::span(adapters).subspan(at, count));
    for (std::size_t i = 0; i < count; ++i) {
      const auto one = made.subspan(i * width, width);
      auto& values = owners[at + i]->pooled.values;
      values.insert(values.end(), one.begin(), one.end());
      owners[at + i]->pooled.width = plan_->width;
    }
  }
}

}  // namespace espalier
