#include "store/suggestions.h"

#include <algorithm>
#include <ranges>

namespace espalier::store {
namespace {

constexpr std::uint64_t kRoom = std::uint64_t{1} << 30;  // keys and values, and what a step needs

// Sizes are those of the repositories' pages.
constexpr Suggestion kSuggestions[] = {
    {"smollm2-135m", 100'000'000, "to see that it works: answers at once, and knows little"},
    {"bartowski/Qwen_Qwen3-0.6B-GGUF:Q4_K_M", 480'000'000, "short answers, simple tools"},
    {"bartowski/Qwen_Qwen3-1.7B-GGUF:Q4_K_M", 1'280'000'000, "summaries, translations"},
    {"bartowski/Qwen_Qwen3-4B-GGUF:Q4_K_M", 2'500'000'000, "everyday questions, tools"},
    {"bartowski/Qwen_Qwen3-8B-GGUF:Q4_K_M", 5'030'000'000, "harder questions, programs"},
    {"bartowski/Qwen_Qwen3-14B-GGUF:Q4_K_M", 9'000'000'000, "slower, and better"},
    {"bartowski/Qwen_Qwen3-30B-A3B-GGUF:Q4_K_M", 18'630'000'000,
     "a mixture of experts: as quick as 3B, better than 14B"},
};

}  // namespace

std::span<const Suggestion> suggestions() {
  return kSuggestions;
}

bool fits(const Suggestion& model, std::uint64_t free_bytes) {
  return free_bytes > kRoom && model.bytes + model.bytes / 10 < free_bytes - kRoom;
}

const Suggestion& largest_that_fits(std::uint64_t free_bytes) {
  for (const Suggestion& model : std::views::reverse(kSuggestions))
    if (fits(model, free_bytes)) return model;
  return kSuggestions[0];
}

}  // namespace espalier::store
