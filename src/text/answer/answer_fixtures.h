// answer_fixtures.h: outputs of models as they were seen or feared, and the answers that they are. For tests.
//
// Tools: get_weather(city: string, days: integer, metric: boolean), search(query: string, limit: integer or null,
// tags: array, filter: object), add(a: number, b: number), run(code: string).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/answer/answer_event.h"
#include "text/answer/call_tools.h"

namespace espalier::testing {

// One output.
struct AnswerFixture {
  std::string_view calls, thinking;  // the formats
  std::string_view text;
  Answer answer;
};

std::span<const AnswerFixture> json_fixtures();
std::span<const AnswerFixture> tag_fixtures();
std::span<const AnswerFixture> other_fixtures();
std::shared_ptr<const CallTools> fixture_tools();

}  // namespace espalier::testing
