#include "store/disk.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <thread>

#include "store/hub/digest.h"
#include "store/hub/hub_double.h"
#include "store/subprocess.h"
#include "testing/data.h"

namespace espalier::store {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

TEST(Disk, AWholeFileAppearsAtOnceAndReplacesTheOldOne) {
  TemporaryFolder folder;
  const fs::path file = folder.path() / "refs" / "pr" / "1";
  ASSERT_TRUE(write_whole_file(file, "old").ok());
  ASSERT_TRUE(write_whole_file(file, "new").ok());
  EXPECT_EQ(testing::read_file(file), "new");
  EXPECT_EQ(std::distance(fs::directory_iterator(file.parent_path()), fs::directory_iterator()), 1);
  EXPECT_FALSE(read_small_file(file, 2).ok());
  EXPECT_EQ(*read_small_file(file, 3), "new");
}

TEST(Disk, WhatCannotBeWrittenSaysWhereAndWhy) {
  TemporaryFolder folder;
  write_text(folder.path() / "file", "x");
  auto under_file = write_whole_file(folder.path() / "file" / "below", "x");
  ASSERT_FALSE(under_file.ok());
  EXPECT_THAT(under_file.error().message, HasSubstr((folder.path() / "file").string()));
  EXPECT_FALSE(make_folder("").ok());
  EXPECT_EQ(disk_error(ENOSPC, "writing").kind, Error::Kind::out_of_memory);
  EXPECT_EQ(disk_error(EROFS, "writing").kind, Error::Kind::forbidden);
  EXPECT_TRUE(check_free_space(folder.path(), 1, "X").ok());
  auto full = check_free_space(folder.path(), 1ull << 60, "HF_HUB_CACHE");
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(full.error().message, HasSubstr("HF_HUB_CACHE"));
}

TEST(Disk, AFullDeviceIsAnErrorNotAShortFile) {
  auto full = OutputFile::open_at_end("/dev/full");
  ASSERT_TRUE(full.ok());
  auto written = full->write("x");
  ASSERT_FALSE(written.ok());
  EXPECT_EQ(written.error().kind, Error::Kind::out_of_memory);
}

TEST(FileLock, OneHolderAtATimeAlsoWithinOneProcess) {
  TemporaryFolder folder;
  std::atomic<int> inside{0}, most{0}, turns{0}, waited{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 3; ++i) {
        auto lock = FileLock::acquire(folder.path() / "locks" / "m.lock", {}, [&] { ++waited; });
        ASSERT_TRUE(lock.ok());
        const int now = ++inside;  // atomic only for ThreadSanitizer, which does not know the file's lock
        most = std::max<int>(most, now);
        std::this_thread::sleep_for(2ms);
        --inside;
        ++turns;
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(most, 1);
  EXPECT_EQ(turns, 12);
  EXPECT_GT(waited, 0);
}

TEST(FileLock, AKilledHolderLeavesNothingToRepair) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "m.lock";
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    auto lock = FileLock::acquire(path, {});
    static_cast<void>(!::write(ends[1], lock.ok() ? "y" : "n", 1));
    ::pause();
    ::_exit(0);
  }
  char answer = 0;
  ASSERT_EQ(::read(ends[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  std::stop_source stopped;
  stopped.request_stop();
  auto refused = FileLock::acquire(path, stopped.get_token());
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().kind, Error::Kind::cancelled);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(FileLock::acquire(path, {}).ok());
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(FileLock, ALockFileTidiedAwayIsMadeAnew) {
  TemporaryFolder folder;
  const fs::path path = folder.path() / "m.lock";
  auto first = FileLock::acquire(path, {});
  ASSERT_TRUE(first.ok());
  fs::remove(path);
  auto second = FileLock::acquire(path, {});  // another file of the same name: no waiting for the first
  EXPECT_TRUE(second.ok());
}

TEST(Digest, KnownValuesOfBothKinds) {
  EXPECT_EQ(hash_of(DigestKind::sha256, "abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hash_of(DigestKind::git_blob, ""), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391");
  EXPECT_EQ(hash_of(DigestKind::git_blob, "hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
  TemporaryFolder folder;
  const std::string content = noise(3'000'001, 1);
  write_text(folder.path() / "f", content);
  EXPECT_EQ(*hash_file(folder.path() / "f", DigestKind::sha256), hash_of(DigestKind::sha256, content));
  EXPECT_FALSE(hash_file(folder.path() / "none", DigestKind::sha256).ok());
}

TEST(Subprocess, GivesExitCodeAndTheEndOfTheOutput) {
  Command command;
  command.arguments = {"sh", "-c", "echo out; echo err >&2; echo $ADDED $HIDDEN; exit 7"};
  command.environment = {{"ADDED", "yes"}};
  command.hidden_variables = {"HIDDEN"};
  ::setenv("HIDDEN", "secret", 1);
  auto finished = run_command(command);
  ::unsetenv("HIDDEN");
  ASSERT_TRUE(finished.ok()) << finished.error().message;
  EXPECT_EQ(finished->exit_code, 7);
  EXPECT_EQ(finished->output, "out\nerr\nyes\n");

  command.arguments = {"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x; echo end"};
  finished = run_command(command);
  ASSERT_TRUE(finished.ok());
  EXPECT_LE(finished->output.size(), 16u << 10);
  EXPECT_TRUE(finished->output.ends_with("xend\n"));

  command.arguments = {"sh", "-c", "kill -9 $$"};
  EXPECT_EQ(run_command(command)->exit_code, 128 + 9);
  command.arguments = {"no-such-program-here"};
  EXPECT_EQ(run_command(command).error().kind, Error::Kind::not_found);
}

TEST(Subprocess, AStopEndsTheWholeGroupEvenOneThatWillNot) {
  TemporaryFolder folder;
  const fs::path mark = folder.path() / "pid";
  std::stop_source source;
  Command command;
  command.arguments = {"sh", "-c", "trap '' TERM; sleep 600 & echo $! > " + mark.string() + "; wait; wait; sleep 600"};
  command.stop = source.get_token();
  command.tick = [&] {
    if (fs::exists(mark) && fs::file_size(mark) > 0) source.request_stop();
  };
  auto finished = run_command(command);
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().kind, Error::Kind::cancelled);
  const pid_t grandchild = std::stoi(testing::read_file(mark));
  for (int i = 0; i < 100 && ::kill(grandchild, 0) == 0; ++i) std::this_thread::sleep_for(20ms);
  const std::string state = testing::read_file("/proc/" + std::to_string(grandchild) + "/stat");
  EXPECT_TRUE(state.empty() || state.find(") Z ") != std::string::npos) << state;
}

}  // namespace
}  // namespace espalier::store
