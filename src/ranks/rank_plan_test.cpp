#include "ranks/rank_plan.h"

#include <gtest/gtest.h>

#include <map>

namespace espalier::ranks {
namespace {

using Environment = std::map<std::string, std::string>;

Result<RankPlan> plan_of(const RankFlags& flags, const Environment& environment = {}) {
  return rank_plan(flags, [&](const char* name) -> std::optional<std::string> {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  });
}

RankFlags with(int tp_size, int nnodes = 1, int node_rank = 0, std::string address = {}, std::string backend = "auto") {
  return {tp_size, nnodes, node_rank, std::move(address), std::move(backend)};
}

std::string field_of(const Result<RankPlan>& plan) {
  return plan.ok() ? "no error" : plan.error().field;
}

TEST(RankPlan, OneRankIsAloneWhateverAClusterSays) {
  for (const Environment& environment : {Environment{},
                                         {{"LWS_GROUP_SIZE", "2"}, {"LWS_WORKER_INDEX", "1"}},
                                         {{"SLURM_STEP_NUM_TASKS", "8"}, {"SLURM_PROCID", "3"}},
                                         {{"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "3"}}}) {
    const auto plan = plan_of(with(1), environment);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_TRUE(plan->alone());
    EXPECT_EQ(plan->links, LinkKind::none);
    EXPECT_FALSE(plan->starts_others());
  }
}

TEST(RankPlan, AHostsFirstProcessStartsTheOthers) {
  const auto plan = plan_of(with(4));
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->starts_others());
  EXPECT_EQ(plan->local_size, 4);
  EXPECT_EQ(plan->rank, 0);
}

TEST(RankPlan, AStartedRankKnowsItsPlaceFromItsParent) {
  const auto plan = plan_of(with(8, 2, 1, "h:20000"), {{"ESPALIER_RANK", "3:5:1234"}});
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->rank, 7);
  EXPECT_EQ(plan->local_rank, 3);
  EXPECT_EQ(plan->segment_fd, 5);
  EXPECT_EQ(plan->parent_pid, 1234);
  EXPECT_FALSE(plan->starts_others());
  for (const char* wrong : {"4:5:1234", "0:5:1", "1:5", "1:5:", "x:5:1", "1:-1:1", ":", "::", "1:5:0"})
    EXPECT_EQ(field_of(plan_of(with(4), {{"ESPALIER_RANK", wrong}})), "ESPALIER_RANK") << wrong;
}

TEST(RankPlan, SglangsFlagsMakeNodesThatTalkTcp) {
  const auto plan = plan_of(with(8, 2, 1, "node0.example:5000"));
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->links, LinkKind::tcp);
  EXPECT_EQ(plan->init_host, "node0.example");
  EXPECT_EQ(plan->init_port, 5000);
  EXPECT_EQ(plan->rank, 4);
  EXPECT_EQ(plan->local_size, 4);
  EXPECT_EQ(plan->nodes, 2);
}

// Devices and memory are shared by all ranks of a host, whoever started them.
TEST(RankPlan, RanksOfAHostAreCountedOverAllItsProcessesOfMpirun) {
  const Environment world = {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}};
  const auto of = [&](const Environment& environment, int tp_size) {
    const auto plan = plan_of(with(tp_size), environment);
    EXPECT_TRUE(plan.ok());
    return plan.ok() ? std::pair(plan->host_rank, plan->host_size) : std::pair(-1, -1);
  };
  Environment ompi = world, slurm = {{"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_PROCID", "1"}},
              mpich = {{"PMI_SIZE", "4"}, {"PMI_RANK", "3"}};
  EXPECT_EQ(of(world, 4), std::pair(0, 1)) << "not told";
  ompi.merge(Environment{{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}});
  EXPECT_EQ(of(ompi, 4), std::pair(1, 2));
  EXPECT_EQ(of(ompi, 8), std::pair(2, 4)) << "two ranks for each process";
  mpich.merge(Environment{{"MPI_LOCALNRANKS", "4"}, {"MPI_LOCALRANKID", "3"}});
  EXPECT_EQ(of(mpich, 4), std::pair(3, 4));
  slurm.merge(Environment{{"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}, {"SLURM_LOCALID", "1"}});
  EXPECT_EQ(of(slurm, 4), std::pair(1, 2));
  EXPECT_EQ(of({{"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "1"}}, 4), std::pair(0, 4))
      << "of another start";
}

TEST(RankPlan, LeaderWorkerSetTellsNodesAndLeader) {
  const Environment pod{
      {"LWS_GROUP_SIZE", "3"}, {"LWS_WORKER_INDEX", "2"}, {"LWS_LEADER_ADDRESS", "vllm-0.vllm.default"}};
  auto plan = plan_of(with(6), pod);
  ASSERT_TRUE(plan.ok()) << plan.error().message;
  EXPECT_EQ(plan->init_host, "vllm-0.vllm.default");
  EXPECT_EQ(plan->init_port, 20000);
  EXPECT_EQ(plan->rank, 4);
  plan = plan_of(with(6, 1, 0, "10.0.0.9:777"), pod);
  EXPECT_EQ(plan->init_host, "10.0.0.9");
  EXPECT_EQ(plan->init_port, 777);
}

TEST(RankPlan, ProcessesOfMpirunAreNodesThatTalkMpi) {
  for (const auto& [size, rank] : {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                   {"PMI_SIZE", "PMI_RANK"},
                                   {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}}) {
    const Environment started{{size, "4"}, {rank, "3"}};
    auto plan = plan_of(with(8), started);
    ASSERT_TRUE(plan.ok()) << plan.error().message;
    EXPECT_EQ(plan->links, LinkKind::mpi) << size;
    EXPECT_EQ(plan->rank, 6);
    EXPECT_EQ(plan->local_size, 2);
    plan = plan_of(with(8, 1, 0, "h:1"), started);
    EXPECT_EQ(plan->links, LinkKind::tcp) << "an address is for TCP";
    plan = plan_of(with(8, 1, 0, "h:1", "mpi"), started);
    EXPECT_EQ(plan->links, LinkKind::mpi);
  }
  EXPECT_EQ(field_of(plan_of(with(1), {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}})), "tp-size");
}

TEST(RankPlan, FlagsGoBeforeWhatStartedTheProcess) {
  const auto plan = plan_of(with(4, 2, 1, "h:9"), {{"OMPI_COMM_WORLD_SIZE", "4"}, {"OMPI_COMM_WORLD_RANK", "3"}});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->nodes, 2);
  EXPECT_EQ(plan->links, LinkKind::tcp);
}

TEST(RankPlan, RefusalsNameTheFlagAtFault) {
  EXPECT_EQ(field_of(plan_of(with(0))), "tp-size");
  EXPECT_EQ(field_of(plan_of(with(5000))), "tp-size");
  EXPECT_EQ(field_of(plan_of(with(3, 2, 0, "h:1"))), "tp-size");
  EXPECT_EQ(field_of(plan_of(with(1, 2, 0, "h:1"))), "tp-size");
  EXPECT_EQ(field_of(plan_of(with(2, 0))), "nnodes");
  EXPECT_EQ(field_of(plan_of(with(2, 2, 2, "h:1"))), "node-rank");
  EXPECT_EQ(field_of(plan_of(with(2, 2, -1, "h:1"))), "node-rank");
  EXPECT_EQ(field_of(plan_of(with(2, 1, 1))), "node-rank");
  EXPECT_EQ(field_of(plan_of(with(2, 2, 0))), "dist-init-addr");
  EXPECT_EQ(field_of(plan_of(with(2, 1, 0, "", "nccl"))), "dist-backend");
  EXPECT_EQ(field_of(plan_of(with(2), {{"LWS_GROUP_SIZE", "two"}, {"LWS_WORKER_INDEX", "0"}})), "LWS_GROUP_SIZE");
  EXPECT_EQ(field_of(plan_of(with(2), {{"PMI_SIZE", "2"}, {"PMI_RANK", "2"}})), "PMI_RANK");
}

TEST(RankPlan, AddressesAreNamesOrAddressesOfBothFamilies) {
  for (const auto& [text, host, port] : {std::tuple{"h:1", "h", 1},
                                         {"tcp://10.0.0.1:65535", "10.0.0.1", 65535},
                                         {"[fd00::1]:20000", "fd00::1", 20000}}) {
    const auto address = read_address(text, "dist-init-addr");
    ASSERT_TRUE(address.ok()) << text;
    EXPECT_EQ(address->host, host);
    EXPECT_EQ(address->port, port);
  }
  for (const char* wrong :
       {"", "h", "h:", ":1", "h:0", "h:65536", "h:x", "fd00::1:20000", "[]:1", "tcp://", "[fd00::1]", "h:1 "})
    EXPECT_FALSE(read_address(wrong, "dist-init-addr").ok()) << wrong;
}

}  // namespace
}  // namespace espalier::ranks
