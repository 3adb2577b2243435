#include "lang/backends/remote/wire/stop_strings.h"

#include <fmt/format.h>

namespace espalier::lang {

StopStringSplit split_stop_strings(const std::vector<std::string>& stop, std::size_t most, bool blanks_taken) {
  StopStringSplit ends;
  for (const std::string& one : stop) {
    if (one.empty()) continue;
    const bool blank = one.find_first_not_of(" \t\n\r\f\v") == std::string::npos;
    const bool taken = ends.by_server.size() < most && (blanks_taken || !blank);
    (taken ? ends.by_server : ends.by_client).push_back(one);
  }
  return ends;
}

Result<> check_stop_tokens(const SamplingParams& sampling, std::string_view server) {
  const auto no = [&](const char* field) {
    return Error{Error::Kind::unsupported,
                 fmt::format("{} takes no {}: leave it out, or use the native or the local back end", server, field),
                 field,
                 {}};
  };
  if (!sampling.stop_regex.empty()) return no("stop_regex");
  if (!sampling.stop_token_ids.empty()) return no("stop_token_ids");
  if (sampling.min_new_tokens > 0) return no("min_tokens");
  if (sampling.ignore_eos) return no("ignore_eos");
  if (sampling.no_stop_trim) return no("no_stop_trim");
  return success();
}

}  // namespace espalier::lang
