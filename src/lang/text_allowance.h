// text_allowance.h: how much a program from outside may hold: bytes of text and values, copies of them included.
//
// A short program can say a lot: a fork copies the text so far, a variable that is appended twice doubles it. What was
// taken is not given back before the run ends.
// Units:   bytes. Threads: any. Fails: take(): too_large.
#pragma once

#include <fmt/format.h>

#include <atomic>
#include <cstdint>

#include "espalier/program.h"

namespace espalier::lang {

class TextAllowance {
 public:
  explicit TextAllowance(std::int64_t bytes) : all_(bytes) {}

  Result<> take(std::size_t bytes) {
    if (taken_.fetch_add(static_cast<std::int64_t>(bytes)) + static_cast<std::int64_t>(bytes) <= all_) return success();
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
  std::atomic<std::int64_t> taken_{0};
};

// Of a value's texts.
inline std::size_t bytes_of(const Value& value) {
  if (!value.is_list()) return value.text().size();
  std::size_t sum = 0;
  for (const Value& one : value.list()) sum += sizeof(Value) + bytes_of(one);
  return sum;
}

}  // namespace espalier::lang
