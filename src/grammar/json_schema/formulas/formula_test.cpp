#include "grammar/json_schema/formulas/formula.h"

#include <gtest/gtest.h>

namespace espalier::grammar {
namespace {

// What a change makes may move all that the store holds.
TEST(FormulaStore, AConstraintThatIsLookedAtStaysWhatItIsWhileTheStoreGrows) {
  FormulaStore store;
  const Formula whole =
      store.all({store.one({Demand::Kind::contains, FormulaStore::always, 1, 7}),
                 store.one({Demand::Kind::min_items, 3, 0, 0}), store.one({Demand::Kind::unique, 0, 0, 0})});
  std::uint32_t literal = 0;
  const auto grow = [&] {
    const std::size_t enough = store.size() * 4;
    while (store.size() < enough) store.one({Demand::Kind::equals, literal++, 0, 0});
  };
  const auto stays = [&](const Demand& looked_at) {
    const Demand before = looked_at;
    grow();
    EXPECT_EQ(looked_at, before);
  };
  const Formula same = store.map(whole, [&](const Demand& c, bool) {
    stays(c);
    return store.one(c);
  });
  EXPECT_EQ(same, whole);
  store.each(whole, [&](const Demand& c, bool) { stays(c); });
  stays(store.demand(store.parts(whole)[0]));
}

}  // namespace
}  // namespace espalier::grammar
