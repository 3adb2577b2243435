#include "lang/batch/batch.h"

#include <gtest/gtest.h>

#include <latch>
#include <stdexcept>
#include <vector>

#include "lang/backends/scripted_backend.h"

namespace espalier::lang {
namespace {

std::shared_ptr<Backend> silent() {
  return espalier::testing::ScriptedBackend::make(
      [](const std::string&, const GenCall&) -> Result<std::string> { return std::string(); });
}

TEST(Batch, AnItemThatFailsDoesSoInItsPlace) {
  std::latch failed(1);
  const Function f("f", {"n"}, [&](State& s, const Arguments& args) {
    const int n = args["n"].json().get<int>();
    if (n == 4) failed.wait();  // is done later than the one behind it
    if (n == 5) {
      failed.count_down();
      throw std::out_of_range("five");
    }
    s += gen("a");
  });
  std::vector<Arguments> items;
  for (int i = 0; i < 20; ++i) items.push_back({{"n", i}});
  std::vector<std::size_t> had;
  const auto take = [&](std::size_t i, const State&) { had.push_back(i); };
  EXPECT_THROW(f.run_batch(items, {.backend = silent()}, {.threads = 8}, take), std::out_of_range);
  EXPECT_EQ(had, (std::vector<std::size_t>{0, 1, 2, 3, 4}));
}

}  // namespace
}  // namespace espalier::lang
