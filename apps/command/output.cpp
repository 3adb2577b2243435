#include "command/output.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/json/json_text.h"  // utf8_sequence
#include "command/command.h"

namespace espalier::command {
namespace {

int failed_with = 0;  // errno of the first write to stdout that failed

unsigned code_point(std::string_view sequence) {
  constexpr unsigned kFirstBits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
  unsigned code = static_cast<unsigned char>(sequence[0]) & kFirstBits[sequence.size()];
  for (const char c : sequence.substr(1)) code = code << 6 | (static_cast<unsigned char>(c) & 0x3f);
  return code;
}

bool commands_a_terminal(unsigned code) {
  if (code == '\n' || code == '\t') return false;
  return code < 0x20 || (code >= 0x7f && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
         (code >= 0x2066 && code <= 0x2069) || code == 0x2028 || code == 0x2029;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const bool ascii = static_cast<unsigned char>(text[i]) < 0x80;
    const int length = ascii ? 1 : utf8_sequence(text.data() + i, text.data() + text.size());
    if (length <= 0) {
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i++]));
      continue;
    }
    const std::string_view sequence = text.substr(i, static_cast<std::size_t>(length));
    const unsigned code = code_point(sequence);
    if (!commands_a_terminal(code)) {
      out += sequence;
    } else {
      out += code < 0x80 ? fmt::format("\\x{:02x}", code) : fmt::format("\\u{:04x}", code);
    }
    i += sequence.size();
  }
  return out;
}

bool put(std::string_view text) {
  static const bool terminal = isatty(STDOUT_FILENO) != 0;
  if (failed_with != 0) return false;
  const std::string shown = terminal ? printable(text) : std::string(text);
  if (std::fflush(stdout) != 0) failed_with = errno;
  for (std::string_view left = shown; !left.empty() && failed_with == 0;) {
    const ssize_t n = ::write(STDOUT_FILENO, left.data(), left.size());  // stdio would give up at a signal
    if (n >= 0) {
      left.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      failed_with = errno;
    }
  }
  return failed_with == 0;
}

int output_failed(int number) {
  if (number == EPIPE) return 0;
  return fail(internal_error(fmt::format("the output could not be written: {}", std::strerror(number))));
}

bool put_json(const Json& value) {
  return put(value.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

int end_output(int code) {
  if (failed_with == 0 && std::fflush(stdout) != 0) failed_with = errno;
  return failed_with == 0 || code != 0 ? code : output_failed(failed_with);
}

}  // namespace espalier::command
