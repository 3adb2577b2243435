#include "ranks/rank_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

namespace espalier::ranks {
namespace {

constexpr std::uint16_t kLeaderPort = 20000;  // where LeaderWorkerSet names a leader without a port
constexpr int kMostRanks = 1024;

// How many nodes there are, which of them this process is on, and who says so.
struct Nodes {
  int count = 1, rank = 0;
  bool of_mpi = false;  // started by mpirun, or by srun as such
  std::string leader;   // host of node 0, where that is known
};

std::optional<int> number_in(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A variable that holds a number; none: it is not there, or empty.
Result<std::optional<int>> number(const Variables& variable, const char* name) {
  const std::optional<std::string> text = variable(name);
  if (!text || text->empty()) return std::optional<int>();
  const std::optional<int> value = number_in(*text);
  if (!value || *value < 0)
    return bad_request(fmt::format("{} of the environment is \"{}\": it must be a number from 0", name, *text), name);
  return value;
}

// "size" and "rank" as a pair of variables tell them; none: they do not.
Result<std::optional<Nodes>> nodes_in(const Variables& variable, const char* size_name, const char* rank_name) {
  ESP_TRY(const auto size, number(variable, size_name));
  ESP_TRY(const auto rank, number(variable, rank_name));
  if (!size || !rank || *size < 2) return std::optional<Nodes>();
  if (*rank >= *size)
    return bad_request(fmt::format("{} is {}, but {} is {}: ranks go from 0", rank_name, *rank, size_name, *size),
                       rank_name);
  return std::optional<Nodes>(Nodes{*size, *rank, false, {}});
}

// Which of the processes that mpirun or srun started on this host this one is, and of how many; not told: alone.
struct Mates {
  int own = 0, count = 1;
};
Mates mates_in(const Variables& variable) {
  for (const auto& [count, own] : {std::pair{"OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
                                   {"MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "SLURM_LOCALID"}}) {
    const auto number = [&](const char* name) {
      const std::string text = variable(name).value_or("");
      return number_in(std::string_view(text).substr(0, text.find('(')));  // Slurm's "2(x3)": on each of three hosts
    };
    const std::optional<int> all = number(count), which = number(own);
    if (which && *which >= 0) return {*which, std::max(all.value_or(1), *which + 1)};
  }
  return {};
}

Error needs_tp_size(std::string_view who, int count) {
  return bad_request(
      fmt::format(
          "{} started {} processes that would all serve for themselves: --tp-size {} makes them one model's ranks", who,
          count, count),
      "tp-size");
}

Result<Nodes> nodes_of(const RankFlags& flags, const Variables& variable) {
  if (flags.nnodes > 1) return Nodes{flags.nnodes, flags.node_rank, false, {}};
  ESP_TRY(auto nodes, nodes_in(variable, "LWS_GROUP_SIZE", "LWS_WORKER_INDEX"));
  if (nodes && flags.tp_size > 1) {
    nodes->leader = variable("LWS_LEADER_ADDRESS").value_or("");
    return *nodes;
  }
  for (const auto& [size, rank] :
       {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, {"PMI_SIZE", "PMI_RANK"}}) {
    ESP_TRY(nodes, nodes_in(variable, size, rank));
    if (!nodes) continue;
    if (flags.tp_size == 1) return needs_tp_size("mpirun", nodes->count);
    nodes->of_mpi = true;
    return *nodes;
  }
  // srun starts replicas too: its tasks are ranks only where ranks are wanted.
  ESP_TRY(nodes, nodes_in(variable, "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"));
  if (!nodes || flags.tp_size == 1) return Nodes{1, 0, false, {}};
  nodes->of_mpi = true;
  return *nodes;
}

Result<> check_nodes(const RankFlags& flags, const Nodes& nodes) {
  if (flags.node_rank < 0 || flags.node_rank >= std::max(flags.nnodes, 1))
    return bad_request(fmt::format("--node-rank is {}, but --nnodes is {}: nodes are 0 to {}", flags.node_rank,
                                   flags.nnodes, flags.nnodes - 1),
                       "node-rank");
  if (flags.tp_size % nodes.count != 0)
    return bad_request(fmt::format("--tp-size is {}, which {} nodes cannot share equally: {} or a multiple of it works",
                                   flags.tp_size, nodes.count, nodes.count),
                       "tp-size");
  return success();
}

Result<LinkKind> links_of(const RankFlags& flags, const Nodes& nodes) {
  if (flags.dist_backend != "auto" && flags.dist_backend != "tcp" && flags.dist_backend != "mpi")
    return bad_request(fmt::format("--dist-backend is \"{}\": auto, tcp and mpi are known", flags.dist_backend),
                       "dist-backend");
  if (nodes.count == 1) return LinkKind::none;
  if (flags.dist_backend == "mpi") return LinkKind::mpi;
  if (flags.dist_backend == "tcp" || !flags.dist_init_addr.empty()) return LinkKind::tcp;
  return nodes.of_mpi ? LinkKind::mpi : LinkKind::tcp;
}

// Our own parent's word: "LOCAL_RANK:DESCRIPTOR:PID".
Result<> read_parent(const Variables& variable, RankPlan& plan) {
  const std::optional<std::string> text = variable(kRankVariable);
  if (!text || text->empty()) return success();
  const std::size_t first = text->find(':'), second = text->find(':', first + 1);
  const auto part = [&](std::size_t from, std::size_t to) {
    return from == 0 || from <= text->size() ? number_in(std::string_view(*text).substr(from, to - from))
                                             : std::nullopt;
  };
  const bool three = first != std::string::npos && second != std::string::npos;
  const auto local = three ? part(0, first) : std::nullopt, fd = three ? part(first + 1, second) : std::nullopt,
             pid = three ? part(second + 1, text->size()) : std::nullopt;
  if (!local || !fd || !pid || *local < 1 || *local >= plan.local_size || *fd < 0 || *pid < 1)
    return bad_request(fmt::format("{} is \"{}\": only a rank's parent sets it", kRankVariable, *text), kRankVariable);
  plan.local_rank = *local;
  plan.segment_fd = *fd;
  plan.parent_pid = *pid;
  return success();
}

}  // namespace

std::string_view name_of(LinkKind kind) {
  return kind == LinkKind::none ? "none" : kind == LinkKind::tcp ? "tcp" : "mpi";
}

Result<RankPlan> rank_plan(const RankFlags& flags, const Variables& variable) {
  if (flags.tp_size < 1 || flags.tp_size > kMostRanks)
    return bad_request(fmt::format("--tp-size is {}: it must be 1 to {}", flags.tp_size, kMostRanks), "tp-size");
  if (flags.nnodes < 1 || flags.nnodes > kMostRanks)
    return bad_request(fmt::format("--nnodes is {}: it must be 1 to {}", flags.nnodes, kMostRanks), "nnodes");
  ESP_TRY(const Nodes nodes, nodes_of(flags, variable));
  ESP_CHECK(check_nodes(flags, nodes));
  RankPlan plan;
  plan.size = flags.tp_size;
  plan.nodes = nodes.count;
  plan.node = nodes.rank;
  plan.local_size = flags.tp_size / nodes.count;
  ESP_TRY(plan.links, links_of(flags, nodes));
  if (plan.links == LinkKind::tcp && flags.dist_init_addr.empty() && nodes.leader.empty())
    return bad_request(fmt::format("{} nodes need --dist-init-addr HOST:PORT, where node 0 listens", plan.nodes),
                       "dist-init-addr");
  if (!flags.dist_init_addr.empty()) {
    ESP_TRY(const HostAndPort address, read_address(flags.dist_init_addr, "dist-init-addr"));
    plan.init_host = address.host;
    plan.init_port = address.port;
  } else if (plan.links == LinkKind::tcp) {
    plan.init_host = nodes.leader;
    plan.init_port = kLeaderPort;
  }
  ESP_CHECK(read_parent(variable, plan));
  plan.rank = plan.node * plan.local_size + plan.local_rank;
  const Mates mates = nodes.of_mpi ? mates_in(variable) : Mates{};
  plan.host_rank = mates.own * plan.local_size + plan.local_rank;
  plan.host_size = mates.count * plan.local_size;
  return plan;
}

Variables own_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
}

}  // namespace espalier::ranks
