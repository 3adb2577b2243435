// group.h: makes the group that a plan tells of: shared memory within a host, TCP or MPI between the hosts' first ranks.
//
// join_group() returns when all ranks are there and agree about protocol, program version, size and key. It fails, with one
// sentence in every rank that can still be told, within 10 s of a disagreement, or after `start_limit` when a rank never comes;
// who is missing is logged every 10 s.
// An Error whose code is kToldCode is not worth a line: the first rank of this host tells it.
// Threads: one for joining; each group then has one or two of its own that see whether the others live.
// Fails: bad_request, unauthorized (secret), cannot_bind, network, timeout, unsupported, out_of_memory.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "espalier/error.h"
#include "ranks/collective.h"
#include "ranks/launch.h"
#include "ranks/rank_plan.h"

namespace espalier::ranks {

constexpr const char* kToldCode = "told";
constexpr const char* kSecretVariable = "ESPALIER_DIST_SECRET";  // where owners take GroupOptions::secret from

// Called once in each process when the group has ended against its will: `why` is the line; `tell`: whether this process is the
// one of its host that writes it. Called by any thread. It may return (see collective.h), but neither calls the
// group nor waits for anybody who does.
using LossHandler = std::function<void(const Error& why, bool tell)>;
void log_and_exit(const Error& why, bool tell);  // the default

// What a group is made with.
struct GroupOptions {
  std::size_t max_part_bytes = 64u << 20;
  std::string key;                         // what must be equal in all ranks beside the program: the model, its options
  std::string version = ESPALIER_VERSION;  // of the program
  std::string secret;                      // equal in all ranks; "" asks for none. Proven, never sent
  std::chrono::milliseconds start_limit = std::chrono::minutes(10);
  std::chrono::milliseconds silence =
      std::chrono::seconds(8);  // a rank that shows no life for so long is lost; 0: never
  LossHandler on_loss = log_and_exit;
};

Result<std::unique_ptr<Collective>> join_group(const RankPlan& plan, const StartedRanks& started,
                                               const GroupOptions& options);

// A group whose ranks are threads of this process, for tests and benches.
std::vector<std::unique_ptr<Collective>> thread_group(int size, const GroupOptions& options);

}  // namespace espalier::ranks
