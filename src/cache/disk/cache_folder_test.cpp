#include "cache/disk/cache_folder.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cerrno>
#include <fstream>

#include "cache/disk/prefix_file.h"
#include "cache/testing/test_folder.h"

namespace espalier::cache_folder_test {
namespace {

namespace fs = std::filesystem;

class CacheFolderTest : public ::testing::Test {
 protected:
  static Result<> put(const CacheFolder& folder, const std::string& name, const PageBuffer& bytes) {
    const std::span<const std::byte> parts[] = {{bytes.data(), bytes.size()}};
    return put(folder, name, parts);
  }
  static Result<> put(const CacheFolder& folder, const std::string& name,
                      std::span<const std::span<const std::byte>> parts) {
    ESP_TRY(auto file, folder.write(name, parts));
    std::vector<CacheFolder::Unnamed> files;
    files.push_back(std::move(file));
    return folder.publish(std::move(files), true);
  }
  static PageBuffer page(char fill, int pages = 1) {
    PageBuffer buffer = PageBuffer::allocate(static_cast<std::size_t>(pages) * kFileAlignment).value();
    std::fill_n(reinterpret_cast<char*>(buffer.data()), buffer.size(), fill);
    return buffer;
  }
  static mode_t mode(const fs::path& path) {
    struct stat info{};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  testing::TestFolder test_;
};

TEST_F(CacheFolderTest, OnlyTheOwnerMayLookInside) {
  auto folder = CacheFolder::open(test_.path() / "a" / "b", "kv").value();
  const PageBuffer bytes = page('x');
  ASSERT_TRUE(put(*folder, "1.kv", bytes).ok());
  EXPECT_EQ(mode(test_.path() / "a" / "b" / "kv"), 0700u);
  EXPECT_EQ(mode(test_.path() / "a" / "b" / "kv" / "1.kv"), 0600u);
  EXPECT_EQ(mode(test_.path() / "a" / "b" / "kv" / "lock"), 0600u);
}

TEST_F(CacheFolderTest, AFolderThatIsTooOpenIsClosed) {
  fs::create_directory(test_.path() / "kv");
  fs::permissions(test_.path() / "kv", fs::perms::all);
  auto folder = CacheFolder::open(test_.path(), "kv").value();
  EXPECT_EQ(mode(test_.path() / "kv"), 0700u);
}

TEST_F(CacheFolderTest, OneProcessAtATimeOwnsIt) {
  auto folder = CacheFolder::open(test_.path(), "kv").value();
  auto second = CacheFolder::open(test_.path(), "kv");
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().kind, Error::Kind::busy);
  folder.reset();
  EXPECT_TRUE(CacheFolder::open(test_.path(), "kv").ok());
}

TEST_F(CacheFolderTest, WhatWasWrittenIsRead) {
  auto folder = CacheFolder::open(test_.path(), "kv").value();
  const PageBuffer a = page('a', 2), b = page('b', 3);
  const std::span<const std::byte> parts[] = {{a.data(), a.size()}, {b.data(), b.size()}};
  ASSERT_TRUE(put(*folder, "1.kv", parts).ok());
  const PageBuffer into = page(' ', 4);
  auto file = folder->open_file("1.kv").value();
  ASSERT_TRUE(file.read(kFileAlignment, {into.data(), into.size()}).ok());
  EXPECT_EQ(static_cast<char>(into.data()[0]), 'a');
  EXPECT_EQ(static_cast<char>(into.data()[kFileAlignment]), 'b');
  EXPECT_EQ(file.read(2 * kFileAlignment, {into.data(), into.size()}).error().kind, Error::Kind::bad_file);
  std::byte start[10];
  EXPECT_EQ(folder->peek("1.kv", start).value(), 10u);
  ASSERT_EQ(folder->list().size(), 1u);
  EXPECT_EQ(folder->list()[0].bytes, 5 * kFileAlignment);
  EXPECT_TRUE(folder->remove("1.kv").ok());
  EXPECT_TRUE(folder->remove("1.kv").ok());
  EXPECT_EQ(folder->open_file("1.kv").error().kind, Error::Kind::not_found);
}

TEST_F(CacheFolderTest, AFileThatIsNeverNamedLeavesNothing) {
  auto folder = CacheFolder::open(test_.path(), "kv").value();
  const PageBuffer bytes = page('x');
  const std::span<const std::byte> parts[] = {{bytes.data(), bytes.size()}};
  {
    auto file = folder->write("1.kv", parts);
    ASSERT_TRUE(file.ok());
    EXPECT_EQ(folder->list().size(), 1u);
  }
  EXPECT_TRUE(folder->list().empty());
}

TEST_F(CacheFolderTest, WhateverFailsWhileWritingAFileIsThereWholeOrNotAtAll) {
  const PageBuffer before = page('1', 2), after = page('2', 2);
  for (int fails = 0;; ++fails) {
    int calls = 0;
    const auto fault = [&](FileCall) { return calls++ >= fails ? EIO : 0; };
    {
      ASSERT_TRUE(put(*CacheFolder::open(test_.path(), "kv").value(), "1.kv", before).ok());
    }
    bool done = false;
    {
      auto folder = CacheFolder::open(test_.path(), "kv", fault).value();
      done = put(*folder, "1.kv", after).ok();
    }
    auto folder = CacheFolder::open(test_.path(), "kv").value();
    EXPECT_EQ(folder->list().size(), 1u) << "left-overs after call " << fails;
    const PageBuffer into = page(' ', 2);
    ASSERT_TRUE(folder->open_file("1.kv").value().read(0, {into.data(), into.size()}).ok());
    EXPECT_EQ(static_cast<char>(into.data()[into.size() - 1]), done ? '2' : '1');
    if (done) break;
    ASSERT_LT(fails, 20);
  }
}

TEST_F(CacheFolderTest, LinksAreNotFollowed) {
  auto folder = CacheFolder::open(test_.path(), "kv").value();
  std::ofstream(test_.path() / "secret") << "text";
  fs::create_symlink(test_.path() / "secret", test_.path() / "kv" / "1.kv");
  EXPECT_FALSE(folder->open_file("1.kv").ok());
  EXPECT_TRUE(folder->list().empty());
  fs::create_directory_symlink(test_.path(), test_.path() / "link");
  EXPECT_FALSE(CacheFolder::open(test_.path(), "link").ok());
}

TEST_F(CacheFolderTest, FoldersOfProcessesThatAreGoneAreRemoved) {
  {
    auto gone = CacheFolder::open(test_.path(), "run-1").value();
    ASSERT_TRUE(put(*gone, "1.kv", page('x')).ok());
  }
  auto alive = CacheFolder::open(test_.path(), "run-2").value();
  fs::create_directory(test_.path() / "other");
  remove_abandoned(test_.path(), "run-");
  EXPECT_FALSE(fs::exists(test_.path() / "run-1"));
  EXPECT_TRUE(fs::exists(test_.path() / "run-2"));
  EXPECT_TRUE(fs::exists(test_.path() / "other"));
}

TEST_F(CacheFolderTest, APlaceThatCannotBeHadIsRefusedWithItsName) {
  std::ofstream(test_.path() / "file") << "text";
  auto refused = CacheFolder::open(test_.path() / "file", "kv");
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.error().message.find("file"), std::string::npos);
}

}  // namespace
}  // namespace espalier::cache_folder_test
