// For tests: a program whose processes are ranks, told by SGLang's flags or by what started it. Each writes "rank R of N has
// joined", runs the same drawn operations (ranks/rank_script.h) and writes "rank R of N over NAME: right".
//
//   rank_program [--tp-size N] [--nnodes N] [--node-rank R] [--dist-init-addr A] [--dist-backend B]
//                [--seed N] [--operations N] [--most BYTES] [--version V] [--key K] [--secret S]
//                [--silence MS] [--start-limit MS] [--hold R] [--fail-before-joining R] [--leave R]
//                [--stay R]
//
// --hold R: afterwards all but rank R wait in a barrier for it; R writes "held PID" and never comes. Others write whom they wait
// for, once. --leave R: rank R says goodbye where others still wait. --stay R: the others say goodbye, and R writes "held PID" and
// does not.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "ranks/group.h"
#include "ranks/rank_script.h"

namespace {

using namespace espalier;
using namespace espalier::ranks;

// "--name value" pairs.
class Arguments {
 public:
  Arguments(int count, char** values) : all(values, values + count) {
    for (std::size_t i = 1; i + 1 < all.size(); i += 2) values_[all[i]] = all[i + 1];
  }
  std::string text(const std::string& name, std::string otherwise = {}) const {
    const auto found = values_.find("--" + name);
    return found == values_.end() ? std::move(otherwise) : found->second;
  }
  int number(const std::string& name, int otherwise) const {
    const std::string value = text(name);
    return value.empty() ? otherwise : std::atoi(value.c_str());
  }
  const std::vector<std::string> all;

 private:
  std::map<std::string, std::string> values_;
};

void say(const std::string& line) {  // in one piece, whoever else writes
  const std::string whole = line + "\n";
  if (::write(STDOUT_FILENO, whole.data(), whole.size()) < 0) std::_Exit(9);
}

int refused(const Error& error) {
  if (error.code != kToldCode) fmt::print(stderr, "error: {}\n", error.message);
  return error.exit_code();
}

[[noreturn]] void stay() {
  say(fmt::format("held {}", ::getpid()));
  for (;;) ::pause();
}

// Until the group ends, which ends the process.
void hold(Collective& group, int held) {
  if (group.rank() == held) stay();
  std::jthread watch([&group](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (const auto late = group.waiting_for())
        return say(
            fmt::format("rank {} waits for rank {} (pid {}): {}", group.rank(), late->rank, late->pid, late->what));
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  group.barrier();
}

// Whether a node's bytes went to each other node once: what its ranks gave, against what its links carried.
void compare_links(Collective& group, const RankPlan& plan) {
  const std::uint64_t carried = group.figures().link_bytes_sent, given = group.figures().bytes_sent;
  const std::vector<std::size_t> bytes(static_cast<std::size_t>(plan.size), sizeof given);
  std::memcpy(group.outgoing(sizeof given), &given, sizeof given);
  group.exchange(bytes);
  std::uint64_t due = 0;
  for (int rank = plan.rank; rank < plan.rank + plan.local_size && plan.local_rank == 0; ++rank) {
    std::uint64_t theirs = 0;
    std::memcpy(&theirs, group.incoming(rank), sizeof theirs);
    due += theirs * static_cast<std::uint64_t>(plan.nodes - 1);
  }
  if (plan.links == LinkKind::tcp && plan.local_rank == 0)
    say(carried == due ? "links carried each byte once" : fmt::format("links carried {} bytes, not {}", carried, due));
}

Result<int> run(const Arguments& arguments) {
  RankFlags flags{arguments.number("tp-size", 1), arguments.number("nnodes", 1), arguments.number("node-rank", 0),
                  arguments.text("dist-init-addr"), arguments.text("dist-backend", "auto")};
  ESP_TRY(const RankPlan plan, rank_plan(flags, own_environment()));
  if (plan.segment_fd >= 0) ESP_CHECK(follow_parent(plan));
  ESP_TRY(StartedRanks started, start_ranks(plan, arguments.all));
  if (plan.rank == arguments.number("fail-before-joining", -1)) std::_Exit(3);
  GroupOptions options;
  const auto most = static_cast<std::size_t>(arguments.number("most", 50'001));
  options.max_part_bytes = most;
  options.version = arguments.text("version", "1");
  options.key = arguments.text("key", "model");
  options.secret = arguments.text("secret");
  options.silence = std::chrono::milliseconds(arguments.number("silence", 8000));
  options.start_limit = std::chrono::milliseconds(arguments.number("start-limit", 60'000));
  ESP_TRY(auto group, join_group(plan, started, options));
  say(fmt::format("rank {} of {} has joined", group->rank(), group->size()));
  const auto seed = static_cast<std::uint64_t>(arguments.number("seed", 1));
  const auto wrong = testing::RankScript(*group, seed, most).run(arguments.number("operations", 100));
  say(fmt::format("rank {} of {} over {}: {}", group->rank(), group->size(), group->name(), wrong.value_or("right")));
  if (arguments.number("operations", 100) == 100) compare_links(*group, plan);
  if (const int held = arguments.number("hold", -1); held >= 0) hold(*group, held);
  if (const int leaver = arguments.number("leave", -1); leaver >= 0 && leaver != group->rank()) group->barrier();
  if (group->rank() == arguments.number("stay", -1)) stay();
  group.reset();
  started.end(10);
  return wrong ? 1 : 0;
}

}  // namespace

int main(int count, char** values) {
  const auto code = run(Arguments(count, values));
  return code.ok() ? *code : refused(code.error());
}
