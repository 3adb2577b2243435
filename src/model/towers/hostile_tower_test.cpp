// Configurations of towers with fields changed at random: each is refused with a sentence, or read, and then loads its
// golden's weights and runs, or is refused by them.
#include <random>

#include "model/config/config_mutator.h"
#include "model/towers/tower_golden.h"

namespace espalier::hostile_tower_test {
namespace {

// A picture that a tower should take, of random values.
testing::Pictures picture_for(const TowerSpec& spec, std::mt19937_64& rng) {
  testing::Pictures made;
  TowerPicture p;
  const int least = std::max(2, spec.merge);
  p.height = spec.side > 0 ? spec.side : least * (1 + static_cast<int>(rng() % 2));
  p.width = spec.side > 0 ? spec.side : least * (1 + static_cast<int>(rng() % 3));
  p.original_height = p.height * std::max(1, spec.patch);
  p.original_width = p.width * std::max(1, spec.patch);
  if (spec.tiles) p.tiles = spec.tiles(p);
  const std::int64_t values = p.patches() * spec.patch_width;
  if (p.patches() > 200 || values > (1 << 19)) return made;
  std::uniform_real_distribution<float> any(-1, 1);
  for (std::int64_t i = 0; i < values; ++i) made.pixels.push_back(any(rng));
  p.pixels = made.pixels;
  made.pictures.push_back(p);
  return made;
}

TEST(HostileTower, IsRefusedOrRuns) {
  std::vector<std::unique_ptr<testing::TowerGolden>> goldens;
  for (const std::string& name : testing::picture_goldens())
    goldens.push_back(std::make_unique<testing::TowerGolden>(name));
  if (goldens.empty()) GTEST_SKIP() << "no picture goldens are there";
  std::mt19937_64 rng(testing::seed());
  testing::Mutator mutator(rng());
  int refused = 0, unfit = 0, ran = 0;
  for (long i = 0; i < testing::operations(3000, 60000); ++i) {
    testing::TowerGolden& g = *goldens[rng() % goldens.size()];
    auto root = Json::parse(g.config.dump());
    mutator.change(rng() % 4 == 0 ? root : root["vision_config"]);
    const std::string text = root.dump();
    SCOPED_TRACE(g.folder.string() + "\n" + text);
    const auto spec = read_tower_config(text);
    if (!spec.ok() || !*spec) {
      ++refused;
      continue;
    }
    const auto tower = Tower::load(**spec, *g.weights, {Activations::f32, 2048}, g.team);
    if (!tower.ok()) {
      ASSERT_FALSE(tower.error().message.empty());
      ++unfit;
      continue;
    }
    const testing::Pictures pictures = picture_for(**spec, rng);
    if (pictures.pictures.empty() || !(*tower)->begin(pictures.pictures).ok()) continue;
    while (!(*tower)->advance(1 << 20)) {
    }
    const auto features = (*tower)->take();
    ASSERT_EQ(features.size(), 1u);
    ++ran;
  }
  std::printf("%d refused, %d did not fit their weights, %d ran\n", refused, unfit, ran);
  EXPECT_GT(ran, 100);
}

}  // namespace
}  // namespace espalier::hostile_tower_test
