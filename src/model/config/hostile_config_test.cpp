// Configurations of every architecture with fields changed at random: each is refused with a sentence that names the
// file, or describes a model that can be built; and runs, if it is small.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <set>

#include "base/json/json.h"
#include "model/arch/table.h"
#include "model/config/config_mutator.h"
#include "model/config/hf_config.h"
#include "model/program/builder.h"
#include "model/small_pool.h"
#include "model/weights/dummy_weights.h"
#include "testing/data.h"

namespace espalier::hostile_config_test {
namespace {

using testing::Mutator;
namespace fs = std::filesystem;

std::vector<fs::path> configs() {
  std::set<fs::path> found;
  for (const fs::path& root : {testing::data("goldens/models"), testing::shared("goldens/models")}) {
    std::error_code none;
    for (const auto& entry : fs::directory_iterator(root, none))
      if (fs::exists(entry.path() / "config.json")) found.insert(entry.path() / "config.json");
  }
  for (const auto& entry : fs::directory_iterator(testing::source_dir() / "src/model/config/fuzz_corpus/config"))
    found.insert(entry.path());
  return {found.begin(), found.end()};
}

std::int64_t values_of(const Needs& needs) {
  double sum = 0;
  const auto add = [&](const Shape& shape) {
    double values = 1;
    for (const std::int64_t n : shape) values *= static_cast<double>(n);
    sum += values;
  };
  for (const MatrixNeed& matrix : needs.matrices)
    for (const MatrixPart& part : matrix.parts) add({part.outputs, matrix.inputs});
  for (const TableNeed& table : needs.tables) add(table.shape);
  for (const VectorNeed& vector : needs.vectors) add(vector.shape);
  return static_cast<std::int64_t>(std::min(sum, 1e18));
}

void run(const ModelSpec& spec) {
  auto dummy = DummyWeights::make(spec, DType::bf16);
  if (!dummy.ok()) return;
  ComputeTeam team(1);
  auto decoder = Decoder::load(spec, Weights(**dummy, Naming::hf), {Activations::int8, 24}, team);
  if (!decoder.ok()) return;
  testing::SmallPool pool((*decoder)->keeps(), KvType::bf16, 64);
  std::vector<TokenId> tokens(24);  // as many as a batch has room for: encoders take a text whole
  std::iota(tokens.begin(), tokens.end(), 0);
  for (TokenId& token : tokens) token %= (*decoder)->vocabulary();
  testing::all_logits(**decoder, pool, tokens, 10);
}

TEST(HostileConfig, IsRefusedOrBuiltAndRuns) {
  constexpr std::int64_t kSmall = 1 << 21;  // values of a model that is run
  const std::vector<fs::path> files = configs();
  ASSERT_GT(files.size(), 50u);
  Mutator mutator(testing::seed());
  int refused = 0, built = 0, ran = 0;
  for (long i = 0; i < testing::operations(4000, 100000); ++i) {
    const fs::path& file = files[static_cast<std::size_t>(mutator.below(static_cast<int>(files.size())))];
    Json root = Json::parse(testing::read_file(file), nullptr, false);
    if (root.is_discarded()) continue;
    mutator.change(root);
    const std::string text = root.dump();
    SCOPED_TRACE(file.string() + "\n" + text);
    const auto config = read_hf_config(text, "config.json");
    if (!config.ok()) {
      ++refused;
      ASSERT_FALSE(config.error().message.empty());
      continue;
    }
    auto program = Builder::build(config->spec, nullptr);
    if (!program.ok()) continue;
    ++built;
    if (values_of(program->needs) > kSmall || program->keeps.state_floats > kSmall) continue;
    run(config->spec);
    ++ran;
  }
  std::printf("%d refused, %d built, %d of them ran\n", refused, built, ran);
  EXPECT_GT(ran, 100);
}

// As many matrices as no memory holds the list of.
TEST(HostileConfig, ExpertsByLayersAreLimited) {
  const std::string text = R"({"architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "vocab_size": 100,
    "hidden_size": 64, "intermediate_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2,
    "max_position_embeddings": 128, "num_hidden_layers": 1024, "num_local_experts": 4096, "num_experts_per_tok": 2})";
  const auto config = read_hf_config(text, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message;
  const auto program = Builder::build(config->spec, nullptr);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(program.error().kind, Error::Kind::bad_file);
  EXPECT_NE(program.error().message.find("matrices"), std::string::npos) << program.error().message;
}

}  // namespace
}  // namespace espalier::hostile_config_test
