// text_budget.h: how much programs from outside may hold: bytes of text and values, copies of them included.
//
// A short program can say a lot: a fork copies the text so far, a variable that is appended twice doubles it. What was
// taken is not given back before the runs end that the allowance is for.
// Units:   bytes. Threads: any. Fails: take(): too_large for what one allowance has not, unavailable for what all
//          together have not left.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "espalier/program.h"

namespace espalier::lang {

// What several allowances draw on.
class SharedTextBudget {
 public:
  explicit SharedTextBudget(std::int64_t bytes) : all_(bytes) {}

  Result<> take(std::int64_t bytes) {
    if (taken_.fetch_add(bytes) + bytes <= all_) return success();
    taken_.fetch_sub(bytes);
    return Error{Error::Kind::unavailable,
                 fmt::format("the programs under way hold {} bytes of text and variables together, {} are allowed; try "
                             "again when some have ended",
                             taken_.load(), all_),
                 {},
                 "programs_full"};
  }
  void give_back(std::int64_t bytes) { taken_.fetch_sub(bytes); }

 private:
  const std::int64_t all_;
  std::atomic<std::int64_t> taken_{0};
};

// Bytes that one program may hold; they also count in the shared budget until it is dropped.
class TextBudget {
 public:
  TextBudget(std::int64_t bytes, std::shared_ptr<SharedTextBudget> pool) : all_(bytes), pool_(std::move(pool)) {}
  ~TextBudget() { pool_->give_back(taken_); }
  TextBudget(const TextBudget&) = delete;
  TextBudget& operator=(const TextBudget&) = delete;

  Result<> take(std::size_t size) {
    const auto bytes = static_cast<std::int64_t>(size);
    ESP_CHECK(pool_->take(bytes));
    if (taken_.fetch_add(bytes) + bytes <= all_) return success();
    return Error{
        Error::Kind::too_large,
        fmt::format("the program's texts and variables, with the copies that its forks take, need more than {} "
                    "bytes",
                    all_),
        {},
        "program_too_large"};
  }

 private:
  const std::int64_t all_;
  const std::shared_ptr<SharedTextBudget> pool_;
  std::atomic<std::int64_t> taken_{0};
};

// Of numbers, and lists of them.
inline std::size_t bytes_of_numbers(const Json& numbers) {
  std::size_t sum = sizeof(Json);
  if (numbers.is_array())
    for (const Json& one : numbers) sum += bytes_of_numbers(one);
  return sum;
}

// Of a value's texts and numbers.
inline std::size_t bytes_of(const Value& value) {
  if (const Json* numbers = value.numbers()) return bytes_of_numbers(*numbers);
  if (!value.is_list()) return value.text().size();
  std::size_t sum = 0;
  for (const Value& one : value.list()) sum += sizeof(Value) + bytes_of(one);
  return sum;
}

}  // namespace espalier::lang
