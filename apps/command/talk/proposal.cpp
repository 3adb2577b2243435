#include "command/talk/proposal.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/system/memory_room.h"
#include "command/output.h"
#include "command/talk/line_reader.h"
#include "store/store.h"
#include "store/suggestions.h"
#include "tensor/describe.h"

namespace espalier::command {
namespace {

constexpr double kBytesASecond = 100e6 / 8;  // of a line of 100 Mbit/s

std::string time_of(std::uint64_t bytes) {
  const double seconds = static_cast<double>(bytes) / kBytesASecond;
  return seconds < 90 ? fmt::format("{:.0f} s", seconds) : fmt::format("{:.0f} min", seconds / 60);
}

std::string list_of(const std::vector<store::CachedModel>& here, std::uint64_t free_bytes) {
  std::string text;
  if (!here.empty()) text += "On this machine:\n";
  for (const auto& model : here)
    text += fmt::format("  {:<44}{:>8}\n", printable(model.name), shown_bytes(model.bytes));
  text += fmt::format("To be downloaded once (time at 100 Mbit/s), {} of memory are free:\n", shown_bytes(free_bytes));
  for (const store::Suggestion& model : store::suggestions()) {
    if (std::ranges::find(here, model.name, &store::CachedModel::name) != here.end()) continue;
    text += fmt::format("  {:<44}{:>8}{:>8}  {}\n", model.name, shown_bytes(model.bytes), time_of(model.bytes),
                        store::fits(model, free_bytes) ? model.what : "more than the free memory");
  }
  return text;
}

}  // namespace

Result<std::string> ask_for_model() {
  const auto here = store::Store().list();
  const auto free_bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, memory_room().least()));
  const std::string list = list_of(here.ok() ? *here : std::vector<store::CachedModel>(), free_bytes);
  const std::string proposed(store::largest_that_fits(free_bytes).name);
  if (isatty(STDIN_FILENO) == 0 || isatty(STDERR_FILENO) == 0)
    return bad_request(fmt::format("name a model: espalier run {}\n{}", proposed, list), "model");
  fmt::print(stderr, "{}Which one? Enter takes {}, the largest that fits; Ctrl-D ends.\n", list, proposed);
  std::string line;
  if (LineReader::open()->read(line) != LineReader::Outcome::line) return bad_request("no model was chosen", "model");
  const auto first = line.find_first_not_of(" \t");
  return first == std::string::npos ? proposed : line.substr(first, line.find_last_not_of(" \t") - first + 1);
}

}  // namespace espalier::command
