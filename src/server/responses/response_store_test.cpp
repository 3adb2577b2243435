// Random operations on stored responses and conversations, compared with maps, with the database closed in between.
#include "server/responses/response_store.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "server/responses/conversation_store.h"
#include "server/store/data_store.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::server::response_store_test {
namespace {

constexpr std::int64_t kBytes = std::int64_t{1} << 30;

Json item(const std::string& id) {
  return {{"id", id}, {"type", "message"}, {"text", "of " + id}};
}

Json items_named(const std::vector<std::string>& ids) {
  Json list = Json::array();
  for (const auto& id : ids) list.push_back(item(id));
  return list;
}

// What should be there.
struct Model {
  struct Turn {
    std::string owner, previous, status;
    std::vector<std::string> input, output;
  };
  std::map<std::string, Turn> turns;
  std::map<std::string, std::vector<std::string>> conversations;  // of owner "a"

  std::optional<std::vector<std::string>> said(const std::string& id, const std::string& owner) const {
    std::vector<std::string> all;
    for (std::string next = id; !next.empty();) {
      const auto turn = turns.find(next);
      if (turn == turns.end() || turn->second.owner != owner || turn->second.status == "queued") return std::nullopt;
      auto here = turn->second.input;
      here.insert(here.end(), turn->second.output.begin(), turn->second.output.end());
      all.insert(all.begin(), here.begin(), here.end());
      next = turn->second.previous;
    }
    return all;
  }
};

TEST(ResponseStore, KeepsWhatAMapKeeps) {
  std::mt19937_64 rng(testing::seed());
  SCOPED_TRACE("seed " + std::to_string(testing::seed()));
  const testing::TempFolder folder;
  std::optional<DataStore> store;
  store.emplace(folder.path() / "data", kBytes);
  Model model;
  int made = 0;
  const auto any_id = [&] { return made == 0 ? std::string("none") : "r" + std::to_string(rng() % made); };
  const auto owner_of = [&] { return std::string(rng() % 4 == 0 ? "b" : "a"); };
  for (int step = 0; step < 600; ++step) {
    const std::string id = any_id(), owner = owner_of();
    switch (rng() % 8) {
      case 0:
      case 1: {  // a new one, sometimes in the background, going on from another
        StoredResponse r;
        r.id = "r" + std::to_string(made++);
        r.owner = owner;
        r.status = rng() % 3 == 0 ? "queued" : "completed";
        if (r.status == "queued") r.request = "{}";
        const auto before = model.said(id, owner);
        if (before) r.previous = id;
        const bool talks = r.owner == "a" && r.previous.empty() && !model.conversations.empty();
        if (talks) r.conversation = std::next(model.conversations.begin(), rng() % model.conversations.size())->first;
        r.body = {{"id", r.id}};
        std::vector<std::string> input{r.id + "i"}, output;
        if (r.status == "completed") output = {r.id + "o", r.id + "p"};
        r.input = items_named(input);
        r.output = items_named(output);
        auto data = store->open();
        ASSERT_TRUE(store_response(**data, r).ok());
        model.turns[r.id] = {owner, r.previous, r.status, input, output};
        if (talks && r.status == "completed")
          for (const auto& list : {input, output})
            for (const auto& each : list) model.conversations[r.conversation].push_back(each);
        break;
      }
      case 2: {  // the end of one
        StoredResponse r;
        r.id = id;
        r.status = "completed";
        r.body = {{"id", id}};
        r.output = items_named({id + "o"});
        auto data = store->open();
        const auto ended = end_response(**data, r);
        const auto turn = model.turns.find(id);
        const bool runs = turn != model.turns.end() && turn->second.status == "queued";
        ASSERT_TRUE(ended.ok());
        EXPECT_EQ(*ended, runs);
        if (runs) turn->second.status = "completed", turn->second.output = {id + "o"};
        break;
      }
      case 3: {
        auto data = store->open();
        const bool there = model.turns.contains(id) && model.turns[id].owner == owner;
        EXPECT_EQ(delete_response(**data, id, owner).ok(), there);
        if (there) model.turns.erase(id);
        break;
      }
      case 4: {
        auto data = store->open();
        const auto made_one = create_conversation(**data, "a", Json::object(), items_named({"c"}));
        ASSERT_TRUE(made_one.ok());
        model.conversations[(*made_one)["id"]] = {"c"};
        break;
      }
      case 5: {
        auto data = store->open();
        const auto found = history_of(**data, id, owner, 1000);
        const auto wanted = model.said(id, owner);
        ASSERT_EQ(found.ok(), wanted.has_value());
        if (wanted) {
          EXPECT_EQ(found->items, items_named(*wanted));
        }
        break;
      }
      case 6: {
        auto data = store->open();
        const auto found = load_response(**data, id, owner, {.input = true, .output = true, .events = true});
        const auto turn = model.turns.find(id);
        ASSERT_EQ(found.ok(), turn != model.turns.end() && turn->second.owner == owner);
        if (!found.ok()) break;
        EXPECT_EQ(found->input, items_named(turn->second.input));
        EXPECT_EQ(found->output, items_named(turn->second.output));
        EXPECT_EQ(found->status, turn->second.status);
        break;
      }
      default:
        store.reset();
        store.emplace(folder.path() / "data", kBytes);
    }
  }
  auto data = store->open();
  for (const auto& [id, items] : model.conversations) {
    const auto found = load_items(**data, id, 0);
    ASSERT_TRUE(found.ok());
    Json list = Json::array();
    for (const Json& each : *found) list.push_back(each);
    EXPECT_EQ(list, items_named(items));
  }
  std::size_t waiting = 0;
  for (const auto& [id, turn] : model.turns) waiting += turn.status == "queued";
  EXPECT_EQ(unfinished_responses(**data)->size(), waiting);
}

TEST(DataStore, IsMadeAtFirstUseAndOfOneServer) {
  const testing::TempFolder folder;
  const std::string place = folder.path() / "a" / "b";
  DataStore first(place, kBytes), second(place, kBytes);
  EXPECT_FALSE(first.open_existing()->has_value());
  EXPECT_FALSE(std::filesystem::exists(place));
  ASSERT_TRUE(first.open().ok());
  EXPECT_TRUE(first.open_existing()->has_value());
  first.close();
  ASSERT_TRUE(second.open().ok());
}

TEST(DataStore, SaysWhatIsWrongWithAFolder) {
  const testing::TempFolder folder;
  testing::TempFolder other;
  std::filesystem::create_directories(other.path() / "espalier.db");
  EXPECT_EQ(DataStore(other.path(), kBytes).open().error().code, "storage_unavailable");
  EXPECT_EQ(DataStore("/dev/null/x", kBytes).open().error().code, "storage_unavailable");
  DataStore small(folder.path(), 256 << 10);
  auto data = small.open();
  ASSERT_TRUE(data.ok());
  Error full;
  for (int i = 0; i < 1000 && full.code.empty(); ++i) {
    StoredResponse r;
    r.id = std::to_string(i);
    r.status = "completed";
    r.body = {{"text", std::string(4096, 'x')}};
    if (auto stored = store_response(**data, r); !stored) full = stored.error();
  }
  EXPECT_EQ(full.code, "storage_full");
  EXPECT_TRUE(load_response(**data, "0", "").ok()) << "what was stored is still there";
}

}  // namespace
}  // namespace espalier::server::response_store_test
