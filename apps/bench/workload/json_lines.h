// json_lines.h: the lines of a text that are not blank, and files of one JSON value a line, gzipped or not.
// Threads: pure functions. Fails: not_found, or bad_file whose sentence begins "FILE line N:".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/json/json.h"
#include "espalier/error.h"

namespace espalier::bench {

class LineReader {
 public:
  explicit LineReader(std::string_view text) : rest_(text) {}
  bool next(std::string_view& line);              // false at the end
  std::size_t number() const { return number_; }  // of the line that next() gave, from 1

 private:
  std::string_view rest_;
  std::size_t number_ = 0;
};

// The whole of a file, unpacked if it is gzipped; at most 1 GiB.
Result<std::string> read_text_file(const std::string& path);

// Calls `take` with each value and its place among the values, from 0, until `most` are taken.
Result<> for_each_json_line(const std::string& path, std::optional<int> most,
                            const std::function<Result<>(const Json& value, std::size_t number)>& take);

// The same Error, as one of file `name` at the reader's line.
Error at_line(Error error, const std::string& name, const LineReader& reader);

}  // namespace espalier::bench
