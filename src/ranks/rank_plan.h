// rank_plan.h: which rank of which group this process is: from SGLang's flags and from what started it.
//
// A group has `nodes` hosts with `local_size` ranks each. A host's first process starts the others of its host (launch.h), unless
// mpirun or srun started one process for each. Who tells what, the first that does:
//   our own parent            ESPALIER_RANK, set by launch.h
//   flags                     --nnodes --node-rank --dist-init-addr
//   LeaderWorkerSet           LWS_GROUP_SIZE, LWS_WORKER_INDEX, LWS_LEADER_ADDRESS (port 20000 unless a flag names another)
//   mpirun, srun              OMPI_COMM_WORLD_*, PMIX_RANK, PMI_*, SLURM_*: their processes stand where nodes do; how many of
//                             them are on this host: OMPI_COMM_WORLD_LOCAL_*, MPI_LOCAL*, SLURM_LOCALID
// Threads: pure. Fails: bad_request, with the flag or the variable at fault.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/sockets/addresses.h"
#include "espalier/error.h"

namespace espalier::ranks {

constexpr const char* kRankVariable = "ESPALIER_RANK";  // "LOCAL_RANK:DESCRIPTOR:PID", for ranks that launch.h starts

// What connects the first ranks of hosts.
enum class LinkKind : std::uint8_t { none, tcp, mpi };
std::string_view name_of(LinkKind kind);  // "none", "tcp", "mpi"

// SGLang's flags, as they were given.
struct RankFlags {
  int tp_size = 1;
  int nnodes = 1;
  int node_rank = 0;
  std::string dist_init_addr;         // HOST:PORT, [ADDRESS]:PORT, or with tcp:// before it
  std::string dist_backend = "auto";  // "auto", "tcp", "mpi"
};

// Who this process is.
struct RankPlan {
  int rank = 0, size = 1;              // in the group: node * local_size + local_rank
  int node = 0, nodes = 1;             // hosts, or processes of mpirun
  int local_rank = 0, local_size = 1;  // on this node
  int host_rank = 0, host_size = 1;    // of all ranks on this host, of whatever process of mpirun
  LinkKind links = LinkKind::none;     // between nodes
  std::string init_host;               // where node 0 listens; links = tcp
  std::uint16_t init_port = 0;
  int segment_fd = -1;  // the node's shared memory, given by our parent; -1: this process is the parent
  int parent_pid = 0;

  bool alone() const { return size == 1; }
  bool starts_others() const { return local_size > 1 && local_rank == 0; }
};

// `variable(name)` is the environment: none, or its value.
using Variables = std::function<std::optional<std::string>(const char* name)>;
Result<RankPlan> rank_plan(const RankFlags& flags, const Variables& variable);
Variables own_environment();

}  // namespace espalier::ranks
