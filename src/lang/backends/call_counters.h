// call_counters.h: counts what a back end was asked and has answered.
// Threads: any.
#pragma once

#include <atomic>

#include "espalier/backend.h"

namespace espalier::lang {

// Atomic counts of calls and tokens, and of what was saved.
struct CallCounters {
  std::atomic<std::int64_t> calls{0}, prompt_tokens{0}, completion_tokens{0}, retries{0};
  std::atomic<std::int64_t> calls_saved{0}, tokens_saved{0}, tokens_unused{0};

  BackendUsage usage() const {
    BackendUsage sum;
    sum.calls = calls, sum.prompt_tokens = prompt_tokens, sum.completion_tokens = completion_tokens;
    sum.retries = retries;
    sum.calls_saved = calls_saved, sum.tokens_saved = tokens_saved, sum.tokens_unused = tokens_unused;
    return sum;
  }
  void add(const BackendUsage& more) {
    calls += more.calls, prompt_tokens += more.prompt_tokens, completion_tokens += more.completion_tokens;
    retries += more.retries;
    calls_saved += more.calls_saved, tokens_saved += more.tokens_saved, tokens_unused += more.tokens_unused;
  }
};

}  // namespace espalier::lang
