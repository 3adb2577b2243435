#include "engine/schedule/expected_demand.h"

#include <algorithm>
#include <cstdint>
#include <limits>

namespace espalier {

int ExpectedDemand::further(const Sequence& s) const {
  const int told = s.request->fields().expected_output - s.generated();
  return told > 0 ? std::min(told, s.remaining_output()) : expected_output(s.remaining_output(), ratio_.value());
}

int ExpectedDemand::total() const {
  std::int64_t demand = 0;
  for (const auto* list : {&sequences_.running, &sequences_.admitted})
    for (const auto& s : *list) demand += s->to_compute() + further(*s);
  return static_cast<int>(std::min<std::int64_t>(demand, std::numeric_limits<int>::max()));
}

void ExpectedDemand::retracted() {
  std::int64_t generated = 0, allowed = 0;
  for (const auto& s : sequences_.running) {
    generated += s->generated();
    allowed += s->request->max_new_tokens();
  }
  ratio_.retracted(generated, allowed, static_cast<int>(sequences_.running.size()));
}

}  // namespace espalier
