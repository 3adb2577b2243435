// `espalier doctor`: what this machine gives a server, what it lacks, and what would help.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "base/system/memory_room.h"
#include "base/threads/processors.h"
#include "command/command.h"
#include "command/output.h"
#include "device/device.h"
#include "espalier/json.h"
#include "kernels/cpu/table.h"
#include "net/socket.h"
#include "store/disk.h"
#include "store/settings.h"
#include "tensor/describe.h"

namespace espalier::command {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string host = "127.0.0.1";
  int port = 30000;
  bool json = false;
};

// What was looked at, what was found, and what would be better. `bad`: a server cannot start like this.
struct Finding {
  enum class State { good, note, bad } state;
  std::string about, found, advice;
};
using Findings = std::vector<Finding>;

Finding good(std::string about, std::string found) {
  return {Finding::State::good, std::move(about), std::move(found), {}};
}
Finding note(std::string about, std::string found, std::string advice) {
  return {Finding::State::note, std::move(about), std::move(found), std::move(advice)};
}
Finding bad(std::string about, std::string found, std::string advice) {
  return {Finding::State::bad, std::move(about), std::move(found), std::move(advice)};
}

std::string bytes(std::int64_t n) {
  return shown_bytes(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0)));
}

void look_at_processor(Findings& to) {
  std::vector<std::string_view> sets;
  for (const CpuKernels* kernels : runnable_cpu_kernels()) sets.push_back(kernels->isa);
  const std::string chosen(cpu_kernels().isa);
  to.push_back(good("instruction set", fmt::format("{} (this processor runs: {})", chosen, fmt::join(sets, ", "))));
  if (!sets.empty() && chosen != sets.front())
    to.push_back(note("ESPALIER_ISA", "forces " + chosen, fmt::format("without it {} would be used", sets.front())));
  if (chosen == "scalar")
    to.push_back(note("vectors", "none that the kernels know", "AVX2, AVX-512 or NEON would be many times faster"));
  const Processors& processors = own_processors();
  to.push_back(
      good("processors",
           fmt::format("{} may be used, {} compute threads by default{}", processors.allowed.size(), processors.granted,
                       processors.left_out.empty() ? "" : "; left out: " + processors.left_out)));
}

void look_at_devices(Findings& to) {
  auto first = device::Device::open(device::Kind::cuda);
  if (first.ok())
    to.push_back(
        good("CUDA devices", fmt::format("{}, the first is {} with {} free", device::Device::count(device::Kind::cuda),
                                         (*first)->name(), bytes(static_cast<std::int64_t>((*first)->free_bytes())))));
  else
    to.push_back(good("CUDA devices", fmt::format("none: {}", first.error().message)));
}

void look_at_memory(Findings& to) {
  constexpr std::int64_t kLittle = std::int64_t{1} << 30;
  const MemoryRoom room = memory_room();
  const std::string free =
      fmt::format("{} free{}", bytes(room.least()), room.pages_limit.empty() ? "" : ", " + room.pages_limit);
  to.push_back(room.least() >= kLittle
                   ? good("memory", free)
                   : note("memory", free,
                          "a model of 135 M parameters wants about 1 GiB; ulimit -v, a container's limit or "
                          "another program may be what takes it"));
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  if (!std::getline(file, line)) return;
  if (line.find("[never]") == std::string::npos)
    to.push_back(good("huge pages", line));
  else
    to.push_back(note("huge pages", line,
                      "`echo madvise` as root into /sys/kernel/mm/transparent_hugepage/enabled makes "
                      "large models faster"));
}

std::string shown_limit(rlim_t limit) {
  return limit == RLIM_INFINITY ? "unlimited" : std::to_string(limit);
}

void look_at_limits(Findings& to) {
  constexpr rlim_t kFiles = 4096, kThreads = 256;
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    to.push_back(limit.rlim_cur >= kFiles ? good("open files", shown_limit(limit.rlim_cur))
                                          : note("open files", shown_limit(limit.rlim_cur),
                                                 "ulimit -n 8192 lets more clients connect at once"));
  if (::getrlimit(RLIMIT_NPROC, &limit) == 0 && limit.rlim_cur < kThreads)
    to.push_back(note("threads", shown_limit(limit.rlim_cur), "ulimit -u must allow the server's own some 20 threads"));
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    to.push_back(note("address space", bytes(static_cast<std::int64_t>(limit.rlim_cur)),
                      "ulimit -v unlimited: pools are reserved at their full size, and take memory only as they fill"));
}

void look_at_folder(Findings& to, const std::string& about, const fs::path& folder, const char* variable) {
  const auto made = store::make_folder(folder);
  if (!made.ok() || ::access(folder.c_str(), W_OK) != 0) {
    to.push_back(note(about, folder.string() + " cannot be written to",
                      fmt::format("{} names another folder; models that are here already can be served", variable)));
    return;
  }
  std::error_code code;
  const auto space = fs::space(folder, code);
  to.push_back(good(
      about, fmt::format("{}{}", folder.string(), code ? "" : fmt::format(", {} free", shown_bytes(space.available)))));
}

void look_at_caches(Findings& to) {
  const auto settings = store::Settings::from_environment();
  look_at_folder(to, "models", settings.cache, "ESPALIER_CACHE");
  look_at_folder(to, "hub's models", settings.hub_cache, "HF_HOME");
  to.push_back(good(
      "hub", fmt::format("{}{}{}", settings.endpoint, settings.token.empty() ? ", without a token" : ", with a token",
                         settings.offline ? "; HF_HUB_OFFLINE: no connection is opened" : "")));
}

void look_at_port(Findings& to, const Arguments& a) {
  const auto listener = net::open_listener(a.host, static_cast<std::uint16_t>(a.port), 1);
  const std::string where = fmt::format("{}:{}", a.host, a.port);
  if (listener.ok())
    to.push_back(good("port", where + " is free"));
  else
    to.push_back(
        bad("port", printable(listener.error().message), "--port 0 takes a free one; `espalier ps` asks who is there"));
}

constexpr const char* kWords[] = {"ok", "note", "bad"};

int tell(const Findings& findings, bool json) {
  bool all_well = true;
  Json list = Json::array();
  for (const Finding& finding : findings) {
    const char* word = kWords[static_cast<int>(finding.state)];
    all_well &= finding.state != Finding::State::bad;
    if (json) {
      list.push_back({{"state", word}, {"about", finding.about}, {"found", finding.found}, {"advice", finding.advice}});
      continue;
    }
    put(fmt::format("{:<5} {:<16} {}\n", word, finding.about, printable(finding.found)));
    if (!finding.advice.empty()) put(fmt::format("{:<5} {:<16} -> {}\n", "", "", printable(finding.advice)));
  }
  if (json) put_json(list);
  return all_well ? 0 : 1;
}

}  // namespace

Run add_doctor(CLI::App& app) {
  auto a = std::make_shared<Arguments>();
  auto* verb = app.add_subcommand("doctor", "what this machine gives a server, and what would help");
  verb->add_option("--host", a->host, "where a server would listen")->capture_default_str();
  verb->add_option("--port,-p", a->port, "and at which port")->capture_default_str()->check(CLI::Range(0, 65535));
  verb->add_flag("--json", a->json, "as JSON");
  return [a] {
    Findings findings;
    look_at_processor(findings);
    look_at_devices(findings);
    look_at_memory(findings);
    look_at_limits(findings);
    look_at_caches(findings);
    look_at_port(findings, *a);
    return tell(findings, a->json);
  };
}

}  // namespace espalier::command
