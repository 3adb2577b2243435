#include "store/subprocess.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "base/system/child_descriptors.h"
#include "base/system/child_process.h"
#include "base/system/unique_fd.h"

namespace espalier::store {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kKeptOutput = 16 << 10;
constexpr auto kTick = 100ms;
constexpr auto kGrace = 2s;  // between asking a cancelled child to end and ending it

std::vector<std::string> environment_of(const Command& command) {
  const auto replaced = [&](std::string_view name) {
    const auto is_it = [&](const auto& variable) { return variable.first == name; };
    return std::any_of(command.environment.begin(), command.environment.end(), is_it) ||
           std::find(command.hidden_variables.begin(), command.hidden_variables.end(), name) !=
               command.hidden_variables.end();
  };
  std::vector<std::string> lines;
  for (char** line = environment_lines(); line && *line; ++line) {
    const std::string_view text = *line;
    if (!replaced(text.substr(0, text.find('=')))) lines.emplace_back(text);
  }
  for (const auto& [name, value] : command.environment) lines.push_back(name + "=" + value);
  return lines;
}

// Waits up to kTick for output and keeps its end; false when the child has closed its side.
bool read_some(int fd, std::string& kept) {
  pollfd p{fd, POLLIN, 0};
  if (::poll(&p, 1, static_cast<int>(kTick.count())) <= 0) return true;
  std::array<char, 4096> buffer;
  const ssize_t n = ::read(fd, buffer.data(), buffer.size());
  if (n <= 0) return n < 0 && errno == EINTR;
  kept.append(buffer.data(), static_cast<std::size_t>(n));
  if (kept.size() > 2 * kKeptOutput) kept.erase(0, kept.size() - kKeptOutput);
  return true;
}

}  // namespace

Result<Finished> run_command(const Command& command) {
  UniqueFd reader, writer;
  if (!open_pipe(reader, writer)) return internal_error("no pipe for a program's output");
  ESP_TRY(ChildProcess child, ChildProcess::start(command.arguments, writer.get(), environment_of(command)));
  writer.reset();

  Finished finished;
  std::optional<int> code;
  for (bool open = true; !code; code = child.exit_code()) {
    if (open)
      open = read_some(reader.get(), finished.output);
    else
      std::this_thread::sleep_for(20ms);
    if (command.tick) command.tick();
    if (command.stop.stop_requested()) {
      child.end(kGrace);
      return Error{Error::Kind::cancelled, "cancelled", {}, {}};
    }
  }
  // What it wrote last.
  for (pollfd p{reader.get(), POLLIN, 0}; ::poll(&p, 1, 0) > 0 && read_some(reader.get(), finished.output);) {
  }
  if (finished.output.size() > kKeptOutput) finished.output.erase(0, finished.output.size() - kKeptOutput);
  finished.exit_code = *code;
  return finished;
}

}  // namespace espalier::store
