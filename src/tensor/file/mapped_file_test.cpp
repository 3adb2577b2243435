#include "tensor/file/mapped_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <thread>
#include <vector>

#include "testing/temp_folder.h"

namespace espalier {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string text_of(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

TEST(MappedFile, ShowsTheBytesOfARegularFile) {
  testing::TempFolder folder;
  auto file = MappedFile::open(folder.write("a.bin", "hello"));
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(text_of(*file), "hello");
  EXPECT_EQ(file->name(), "a.bin");
  EXPECT_TRUE(file->intact().ok());
  auto empty = MappedFile::open(folder.write("empty", ""));
  ASSERT_TRUE(empty.ok());
  EXPECT_TRUE(empty->bytes().empty() && empty->intact().ok());
}

TEST(MappedFile, OnlyRegularFilesAreOpened) {
  testing::TempFolder folder;
  EXPECT_EQ(MappedFile::open(folder.path() / "absent").error().kind, Error::Kind::not_found);
  EXPECT_THAT(MappedFile::open(folder.path()).error().message, HasSubstr("is a folder, not a regular file"));
  ASSERT_EQ(mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(MappedFile::open(folder.path() / "pipe").error().message,
              HasSubstr("not a regular file"));  // and returns
  EXPECT_THAT(MappedFile::open("/dev/null").error().message, HasSubstr("not a regular file"));
}

TEST(OpenBeneath, NamesMustBePlain) {
  testing::TempFolder folder;
  folder.write("model/weights.bin", "w");
  folder.write("secret", "s");
  folder.write("model/sub/inner", "i");
  const auto model = folder.path() / "model";
  EXPECT_TRUE(open_beneath(model, "weights.bin").ok());
  for (const char* name : {"", ".", "..", "../secret", "sub/inner", "/etc/passwd", "a\\b", "a\nb"}) {
    auto file = open_beneath(model, name);
    ASSERT_FALSE(file.ok()) << name;
    EXPECT_EQ(file.error().kind, Error::Kind::bad_file) << name;
  }
  EXPECT_FALSE(open_beneath(model, std::string("weights.bin\0x", 13)).ok());
  EXPECT_FALSE(open_beneath(model, std::string(256, 'a')).ok());
  EXPECT_EQ(open_beneath(model, "absent").error().kind, Error::Kind::not_found);
  EXPECT_EQ(open_beneath(folder.path() / "no model", "absent").error().kind, Error::Kind::not_found);
}

TEST(OpenBeneath, LinksMayNotLeaveTheFolder) {
  testing::TempFolder folder;
  folder.write("model/weights.bin", "w");
  folder.write("model/sub/inner", "i");
  folder.write("secret", "s");
  folder.write("model2/weights.bin", "other");
  const auto model = folder.path() / "model";
  fs::create_symlink("weights.bin", model / "inside");
  fs::create_symlink("sub/inner", model / "deeper");
  fs::create_symlink("../secret", model / "outside");
  fs::create_symlink("/etc/passwd", model / "absolute");
  fs::create_symlink("../model2/weights.bin", model / "neighbour");  // whose path begins like the folder's
  fs::create_symlink("inside", model / "twice");
  fs::create_symlink("loop", model / "loop");
  for (const char* name : {"inside", "deeper", "twice"}) EXPECT_TRUE(open_beneath(model, name).ok()) << name;
  for (const char* name : {"outside", "absolute", "neighbour"}) {
    EXPECT_THAT(open_beneath(model, name).error().message, HasSubstr("leaves the model's folder")) << name;
  }
  EXPECT_FALSE(open_beneath(model, "loop").ok());
  fs::create_directory_symlink(model, folder.path() / "by link");  // how the operator names the folder is free
  EXPECT_TRUE(open_beneath(folder.path() / "by link", "inside").ok());
}

TEST(OpenBeneath, TheHubsStoreMayLinkToItsBlobsOnly) {
  testing::TempFolder folder;
  const std::string hub = "hub/models--a--b";
  folder.write(hub + "/blobs/0123", "blob");
  folder.write(hub + "/refs/main", "rev");
  folder.write("hub/models--c--d/blobs/4567", "another model's");
  folder.write(hub + "/snapshots/rev/here", "h");
  const auto snapshot = folder.path() / hub / "snapshots/rev";
  fs::create_symlink("../../blobs/0123", snapshot / "model.safetensors");
  fs::create_symlink("../../refs/main", snapshot / "ref");
  fs::create_symlink("../../../models--c--d/blobs/4567", snapshot / "foreign");
  auto file = MappedFile::open_beneath(snapshot, "model.safetensors");
  ASSERT_TRUE(file.ok()) << file.error().message;
  EXPECT_EQ(text_of(*file), "blob");
  EXPECT_EQ(file->name(), "model.safetensors");
  EXPECT_FALSE(open_beneath(snapshot, "ref").ok());
  EXPECT_FALSE(open_beneath(snapshot, "foreign").ok());
  fs::create_directory(snapshot / "1_Pooling");
  fs::create_symlink("../../../blobs/0123", snapshot / "1_Pooling/config.json");
  fs::create_symlink("../../../../models--c--d/blobs/4567", snapshot / "1_Pooling/foreign");
  EXPECT_TRUE(open_beneath(snapshot / "1_Pooling", "config.json").ok());
  EXPECT_FALSE(open_beneath(snapshot / "1_Pooling", "foreign").ok());
  folder.write("x/blobs/0123", "blob");  // the same layout without "snapshots" is no hub store
  folder.write("x/other/rev/here", "h");
  fs::create_symlink("../../blobs/0123", folder.path() / "x/other/rev/link");
  EXPECT_FALSE(open_beneath(folder.path() / "x/other/rev", "link").ok());
}

TEST(ReadText, HasALimit) {
  testing::TempFolder folder;
  auto file = open_file(folder.write("t", std::string(1000, 'x')));
  EXPECT_EQ(*read_text(*file, 1000), std::string(1000, 'x'));
  EXPECT_THAT(read_text(*file, 999).error().message, HasSubstr("t has more than 999 bytes"));
}

// --- files that shrink ---

constexpr std::size_t kPages = 64;

struct Shrinking {
  testing::TempFolder folder;
  std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  fs::path path = folder.write("model.bin", std::string(kPages* page, 'x'));
  MappedFile file = std::move(MappedFile::open(path)).value();
  int at(std::size_t offset) const {
    return std::to_integer<int>(reinterpret_cast<const volatile std::byte&>(file.bytes()[offset]));
  }
};

TEST(MappingGuard, BytesThatAreGoneReadAsZerosAndAreReported) {
  Shrinking s;
  EXPECT_EQ(s.at(10 * s.page), 'x');
  fs::resize_file(s.path, 5 * s.page);
  EXPECT_EQ(s.at(4 * s.page), 'x');
  EXPECT_TRUE(s.file.intact().ok());  // nobody has read what is missing
  EXPECT_EQ(s.at(40 * s.page), 0);
  ASSERT_FALSE(s.file.intact().ok());
  EXPECT_EQ(s.file.intact().error().kind, Error::Kind::bad_file);
  EXPECT_THAT(s.file.intact().error().message, HasSubstr("model.bin shrank"));
  for (std::size_t i = 5; i < kPages; ++i) EXPECT_EQ(s.at(i * s.page), 0) << i;
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(s.at(i * s.page), 'x') << i;
}

TEST(MappingGuard, OnlyTheBrokenFileIsMarked) {
  Shrinking broken, whole;
  MappedFile moved = std::move(broken.file);
  fs::resize_file(broken.path, 0);
  EXPECT_EQ(std::to_integer<int>(reinterpret_cast<const volatile std::byte&>(moved.bytes()[0])), 0);
  EXPECT_FALSE(moved.intact().ok());
  EXPECT_TRUE(whole.file.intact().ok());
  broken.file = std::move(whole.file);
  EXPECT_TRUE(broken.file.intact().ok());
}

TEST(MappingGuard, ASlotIsCleanWhenItIsUsedAgain) {
  for (int i = 0; i < 3; ++i) {
    Shrinking s;
    EXPECT_TRUE(s.file.intact().ok());
    fs::resize_file(s.path, 0);
    EXPECT_EQ(s.at(s.page), 0);
    EXPECT_FALSE(s.file.intact().ok());
  }
}

TEST(MappingGuard, ManyThreadsMayFaultAtOnce) {
  for (int round = 0; round < 20; ++round) {
    Shrinking s;
    fs::resize_file(s.path, s.page);
    std::vector<std::thread> threads;
    std::vector<int> sums(8, -1);
    for (std::size_t t = 0; t < sums.size(); ++t) {
      threads.emplace_back([&, t] {
        int sum = 0;
        for (std::size_t i = kPages - 1; i > 0; --i) sum += s.at(((i * 7 + t * 13) % (kPages - 1) + 1) * s.page);
        sums[t] = sum;
      });
    }
    for (auto& thread : threads) thread.join();
    for (const int sum : sums) EXPECT_EQ(sum, 0);
    EXPECT_FALSE(s.file.intact().ok());
  }
}

// A SIGBUS that is not ours must still end the process, as without us.
TEST(MappingGuardDeathTest, AFaultElsewhereKillsAsBefore) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  testing::TempFolder folder;
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const auto ours = MappedFile::open(folder.write("ours", "x"));
  ASSERT_TRUE(ours.ok());
  const auto path = folder.write("foreign", std::string(2 * page, 'x'));
  const OpenFile foreign = std::move(open_file(path)).value();
  void* mapped = mmap(nullptr, 2 * page, PROT_READ, MAP_PRIVATE, foreign.descriptor(), 0);
  ASSERT_NE(mapped, MAP_FAILED);
  fs::resize_file(path, 0);
  EXPECT_DEATH((void)*static_cast<volatile char*>(mapped), "");
  EXPECT_DEATH(raise(SIGBUS), "");
  munmap(mapped, 2 * page);
}

TEST(MappingGuardDeathTest, AnotherHandlerThatWasThereFirstIsCalled) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        struct sigaction theirs{};
        theirs.sa_handler = [](int) { _exit(42); };
        sigaction(SIGBUS, &theirs, nullptr);
        testing::TempFolder folder;
        const auto file = MappedFile::open(folder.write("f", "x"));
        raise(SIGBUS);
      },
      ::testing::ExitedWithCode(42), "");
}

TEST(MappedFile, ForgottenBytesCanBeReadAgain) {
  Shrinking s;
  s.file.will_need(s.file.bytes());
  EXPECT_EQ(s.at(3 * s.page), 'x');
  s.file.forget(s.file.bytes().subspan(100, 20 * s.page));
  EXPECT_EQ(s.at(3 * s.page), 'x');
  s.file.forget(s.file.bytes().subspan(100, 10));
  EXPECT_TRUE(s.file.intact().ok());
}

}  // namespace
}  // namespace espalier
