#include "bench/workload/program.h"

namespace espalier::bench {

std::string stripped(const std::string& text) {
  constexpr std::string_view kBlank = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlank);
  if (first == std::string::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::string line_of(const std::string& text, int line) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at <= text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    std::string one = text.substr(at, end - at);
    if (!stripped(one).empty()) lines.push_back(std::move(one));
    at = end + 1;
  }
  if (lines.empty()) return {};
  const auto count = static_cast<int>(lines.size());
  return lines[static_cast<std::size_t>(((line % count) + count) % count)];
}

}  // namespace espalier::bench
