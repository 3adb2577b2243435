#include "ranks/launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <string_view>
#include <system_error>
#include <thread>

#include "base/system/child_descriptors.h"
#include "base/system/this_process.h"
#include "ranks/segment.h"
#include "ranks/system.h"

namespace espalier::ranks {
namespace {

using namespace std::chrono_literals;

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Our variables, and the one that tells the rank who it is.
std::vector<std::string> environment_of(int local_rank, int segment) {
  const std::string own = fmt::format("{}=", kRankVariable);
  std::vector<std::string> lines;
  for (char** line = environment_lines(); *line != nullptr; ++line)
    if (!std::string_view(*line).starts_with(own)) lines.emplace_back(*line);
  lines.push_back(fmt::format("{}{}:{}:{}", own, local_rank, segment, ::getpid()));
  return lines;
}

Result<pid_t> start_rank(int local_rank, int segment, std::vector<std::string> arguments) {
  const std::string program = own_program().string();
  std::vector<std::string> environment = environment_of(local_rank, segment);
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  for (const int fd : {1, 2, segment}) posix_spawn_file_actions_adddup2(&actions, fd, fd);  // which are then not closed
  posix_spawnattr_setflags(&attributes, spawn_without_descriptors());
  pid_t pid = 0;
  const int code = ::posix_spawn(&pid, program.c_str(), &actions, &attributes, pointers(arguments).data(),
                                 pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (code == 0) return pid;
  return Error{code == EAGAIN || code == ENOMEM ? Error::Kind::out_of_memory : Error::Kind::internal,
               fmt::format("local rank {} could not be started ({}): {}", local_rank, program,
                           std::generic_category().message(code)),
               "tp-size",
               {}};
}

bool has_ended(pid_t pid) {
  const pid_t done = ::waitpid(pid, nullptr, WNOHANG);
  return done == pid || (done < 0 && errno != EINTR);
}

}  // namespace

StartedRanks& StartedRanks::operator=(StartedRanks&& other) noexcept {
  if (this == &other) return *this;
  end(0);
  pids_ = std::move(other.pids_);
  other.pids_.clear();
  segment_ = std::move(other.segment_);
  return *this;
}

void StartedRanks::end(double grace_seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(grace_seconds);
  while (!pids_.empty() && std::chrono::steady_clock::now() < until) {
    std::erase_if(pids_, has_ended);
    if (!pids_.empty()) std::this_thread::sleep_for(2ms);
  }
  for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
  for (const pid_t pid : pids_)
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  pids_.clear();
}

Result<StartedRanks> start_ranks(const RankPlan& plan, const std::vector<std::string>& arguments) {
  StartedRanks started;
  if (!plan.starts_others()) return started;
  ESP_TRY(started.segment_, Segment::create(plan));
  for (int local = 1; local < plan.local_size; ++local) {
    ESP_TRY(const pid_t pid, start_rank(local, started.segment_.get(), arguments));
    started.pids_.push_back(pid);
  }
  return started;
}

Result<> follow_parent(const RankPlan& plan) {
  end_with_parent();
  if (::getppid() != plan.parent_pid)
    return Error{Error::Kind::cancelled, "the process that started this rank has ended", {}, {}};
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::signal(signal, SIG_IGN);
  ::fcntl(plan.segment_fd, F_SETFD, FD_CLOEXEC);
  return success();
}

}  // namespace espalier::ranks
