// What `espalier rm` takes away, and what it leaves, after real pulls from a hub's double.
#include "store/remove.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "store/disk.h"
#include "store/hub/hub_cache.h"
#include "store/hub/hub_double.h"
#include "store/store.h"

namespace espalier::store::remove_test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Remove : public ::testing::Test {
 protected:
  Remove() {
    auto& ggufs = hub.repositories["org/ggufs"];
    ggufs.commit = std::string(40, 'b');
    ggufs.files = {{"m-Q4_K_M.gguf", "GGUF" + noise(5000, 1)},
                   {"m-Q8_0.gguf", "GGUF" + noise(6000, 2)},
                   {"m-BF16-00001-of-00002.gguf", "GGUF" + noise(1000, 3)},
                   {"m-BF16-00002-of-00002.gguf", "GGUF" + noise(900, 4)}};
    for (const char* name : {"org/ggufs:Q4_K_M", "org/ggufs:Q8_0", "org/ggufs:BF16"}) {
      NoProgress progress;
      EXPECT_TRUE(store().pull(name, progress).ok());
    }
  }
  Store store() const { return Store(hub.settings(folder.path())); }
  Result<Removed> remove(const std::string& name) const {
    const auto meant = store().meaning(name);
    EXPECT_TRUE(meant.ok());
    return remove_model(hub.settings(folder.path()), *meant, name);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> all;
    for (const CachedModel& model : store().list().value()) all.push_back(model.name);
    return all;
  }
  fs::path repository() const { return folder.path() / "hub" / "models--org--ggufs"; }
  std::uint64_t blob_bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& blob : fs::directory_iterator(repository() / "blobs")) bytes += blob.file_size();
    return bytes;
  }

  TemporaryFolder folder;
  HubDouble hub;
};

TEST_F(Remove, OneQuantisationGoesWithAllItsPartsAndTheOthersStay) {
  const std::uint64_t before = blob_bytes();
  const auto removed = remove("org/ggufs:BF16");
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_THAT(names(), ElementsAre("org/ggufs:Q4_K_M", "org/ggufs:Q8_0"));
  EXPECT_EQ(removed->bytes, 1908u);
  EXPECT_EQ(before - blob_bytes(), removed->bytes);
  EXPECT_TRUE(store().find("org/ggufs:Q8_0").ok());
}

TEST_F(Remove, ARepositoryGoesWhole) {
  const auto removed = remove("org/ggufs");
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_THAT(names(), IsEmpty());
  EXPECT_FALSE(fs::exists(repository()));
  const auto again = remove("org/ggufs");
  ASSERT_FALSE(again.ok());
  EXPECT_EQ(again.error().kind, Error::Kind::not_found);
}

TEST_F(Remove, ABlobThatAnotherSnapshotUsesStays) {
  auto& ggufs = hub.repositories["org/ggufs"];
  ggufs.commit = std::string(40, 'c');
  NoProgress progress;
  ASSERT_TRUE(store().pull("org/ggufs:Q8_0", progress).ok());
  const auto removed = remove("org/ggufs:Q8_0@" + std::string(40, 'b'));
  ASSERT_TRUE(removed.ok()) << removed.error().message;
  EXPECT_EQ(removed->bytes, 0u);
  EXPECT_TRUE(store().find("org/ggufs:Q8_0").ok());
}

TEST_F(Remove, NothingGoesWhileItIsPulled) {
  const HubCache cache(folder.path() / "hub");
  const HubFile file{.path = "x", .sha256 = std::string(64, 'e')};
  auto lock = FileLock::acquire(cache.lock("org/ggufs", file), {});
  ASSERT_TRUE(lock.ok());
  const auto removed = remove("org/ggufs");
  ASSERT_FALSE(removed.ok());
  EXPECT_EQ(removed.error().kind, Error::Kind::busy);
  EXPECT_EQ(names().size(), 3u);
}

TEST_F(Remove, WhatIsNotInTheCachesIsNotTouched) {
  write_text(folder.path() / "mine.gguf", "GGUF");
  EXPECT_EQ(remove((folder.path() / "mine.gguf").string()).error().kind, Error::Kind::bad_request);
  EXPECT_TRUE(fs::exists(folder.path() / "mine.gguf"));
  EXPECT_EQ(remove("org/other").error().kind, Error::Kind::not_found);
  EXPECT_EQ(remove("org/ggufs:Q2_K").error().kind, Error::Kind::not_found);
}

}  // namespace
}  // namespace espalier::store::remove_test
