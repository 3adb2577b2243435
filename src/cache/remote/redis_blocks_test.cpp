// Against a real Redis; and against one that lies, which is a few lines here.
#include "cache/remote/redis_blocks.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <random>
#include <thread>

#include "base/system/unique_fd.h"
#include "cache/remote/block_value.h"
#include "cache/testing/redis_server.h"
#include "cache/testing/test_tokens.h"
#include "testing/data.h"

namespace espalier::redis_blocks_test {
namespace {

using namespace std::chrono_literals;
using testing::counting;

constexpr std::size_t kStride = 12'288;

BlockSource::Time in(std::chrono::milliseconds time) {
  return std::chrono::steady_clock::now() + time;
}
BlockSource::Time soon() {
  return in(20s);
}

std::vector<std::byte> some_bytes(std::size_t count) {
  std::mt19937_64 rng(testing::seed());
  std::vector<std::byte> bytes(count);
  for (std::byte& b : bytes) b = static_cast<std::byte>(rng());
  return bytes;
}

class RedisBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::redis_program().empty())
      GTEST_SKIP() << "left out: there is no Redis server here (Debian: redis-tools)";
  }
  RedisBlocksOptions options(const testing::RedisServer& server, std::int64_t seconds = 0) const {
    return {server.address(), "test", seconds, namer_.model(), kStride, {}};
  }
  std::string key(int block) const { return "test:" + hex(chain_.names[static_cast<std::size_t>(block)]); }

  const BlockNamer namer_{"model", ""};
  const BlockChain chain_ = namer_.chain("scope", counting(3, 16 * 9 + 5));
  const std::vector<std::byte> data_ = some_bytes(9 * kStride);
  std::vector<std::byte> into_ = std::vector<std::byte>(9 * kStride);
};

TEST_F(RedisBlocksTest, AnotherFindsAndReadsWhatOneKept) {
  const testing::RedisServer server;
  ASSERT_TRUE(server.running());
  RedisBlocks one(options(server, 1000)), another(options(server, 1000));
  const auto none = another.find(chain_, 0, soon());
  ASSERT_TRUE(none.ok()) << none.error().message;
  EXPECT_EQ(*none, std::vector<bool>(9, false));

  const auto kept = one.keep(chain_, 2, std::span(data_).subspan(2 * kStride, 4 * kStride), soon());
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->written, 4);
  EXPECT_EQ(*another.find(chain_, 1, soon()), (std::vector<bool>{false, true, true, true, true, false, false, false}));
  const auto more = another.keep(chain_, 0, data_, soon());
  ASSERT_TRUE(more.ok());
  EXPECT_EQ(more->written, 5) << "what is there already is not sent";
  EXPECT_EQ(more->known, 4);

  const auto read = another.read(chain_, 0, into_, soon());
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->blocks, 9);
  EXPECT_EQ(into_, data_);
  EXPECT_GT(std::stoi(server.ask({"TTL", key(3)})), 900);
  server.ask({"EXPIRE", key(3), "50"});
  EXPECT_EQ(another.read(chain_, 3, std::span(into_).first(kStride), soon())->blocks, 1);
  EXPECT_GT(std::stoi(server.ask({"TTL", key(3)})), 900) << "what is read lives on";
  EXPECT_EQ(*another.find(namer_.chain("tenant", chain_.tokens), 0, soon()), std::vector<bool>(9, false));
}

TEST_F(RedisBlocksTest, WhatIsNotWhatItShouldBeIsAMissFromThereOn) {
  const testing::RedisServer server;
  RedisBlocks blocks(options(server));
  ASSERT_TRUE(blocks.keep(chain_, 0, data_, soon()).ok());
  const std::string good = server.ask({"GET", key(4)});
  const auto read_with = [&](std::string_view command, std::string_view value) {
    server.ask({"DEL", key(4)});
    if (!command.empty()) server.ask({command, key(4), value});
    const auto read = blocks.read(chain_, 0, into_, soon());
    EXPECT_TRUE(read.ok()) << read.error().message;
    return read.ok() ? *read : BlockSource::Read{-1, {}};
  };
  EXPECT_EQ(read_with("", "").blocks, 4);
  EXPECT_EQ(read_with("", "").damage, "") << "it is merely gone";
  std::string changed = good;
  changed[changed.size() / 2] ^= 1;
  for (const auto& [command, value] : {std::pair<std::string_view, std::string>{"SET", changed},
                                       {"SET", good.substr(0, good.size() - 1)},
                                       {"SET", ""},
                                       {"SET", server.ask({"GET", key(5)})},
                                       {"RPUSH", good}}) {
    const auto read = read_with(command, value);
    EXPECT_EQ(read.blocks, 4) << command;
    EXPECT_NE(read.damage, "") << command;
  }
  EXPECT_EQ(read_with("SET", good).blocks, 9);
  EXPECT_EQ(into_, data_);
}

TEST_F(RedisBlocksTest, AFullServerIsReadButTakesNoMore) {
  const testing::RedisServer server;
  RedisBlocks blocks(options(server));
  ASSERT_TRUE(blocks.keep(chain_, 0, std::span(data_).first(3 * kStride), soon()).ok());
  server.ask({"CONFIG", "SET", "maxmemory-policy", "noeviction"});
  server.ask({"CONFIG", "SET", "maxmemory", "1"});
  const auto kept = blocks.keep(chain_, 0, data_, soon());
  ASSERT_TRUE(kept.ok()) << kept.error().message;
  EXPECT_EQ(kept->written, 0);
  EXPECT_EQ(kept->known, 3);
  EXPECT_TRUE(kept->refused.starts_with("OOM")) << kept->refused;
  EXPECT_EQ(blocks.read(chain_, 0, into_, soon())->blocks, 3);
  server.ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(blocks.keep(chain_, 0, data_, soon())->written, 6);
}

TEST_F(RedisBlocksTest, APasswordIsAskedForAndGiven) {
  const testing::RedisServer server({"--requirepass", "tell nobody"});
  RedisBlocksOptions wished = options(server);
  for (const char* wrong : {"", "another"}) {
    wished.address.password = wrong;
    const auto found = RedisBlocks(wished).find(chain_, 0, soon());
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.error().kind, Error::Kind::unauthorized) << found.error().message;
    EXPECT_EQ(found.error().message.find("another"), std::string::npos);
  }
  wished.address.password = "tell nobody";
  EXPECT_TRUE(RedisBlocks(wished).find(chain_, 0, soon()).ok());
  wished.address.user = "default";
  wished.address.database = 3;
  EXPECT_TRUE(RedisBlocks(wished).find(chain_, 0, soon()).ok());
}

TEST_F(RedisBlocksTest, AServerThatEndsOrSleepsFailsInTimeAndIsFoundAgain) {
  testing::RedisServer server;
  RedisBlocks blocks(options(server));
  ASSERT_TRUE(blocks.keep(chain_, 0, data_, soon()).ok());
  server.freeze();
  const auto asleep = blocks.find(chain_, 0, in(60ms));
  ASSERT_FALSE(asleep.ok());
  EXPECT_EQ(asleep.error().kind, Error::Kind::timeout);
  const auto still = blocks.read(chain_, 0, into_, in(60ms));
  ASSERT_FALSE(still.ok()) << "a new connection is taken by the system, but nobody answers";
  EXPECT_EQ(still.error().kind, Error::Kind::timeout);
  server.go_on();
  EXPECT_EQ(blocks.read(chain_, 0, into_, soon())->blocks, 9)
      << "late answers to earlier questions are not taken for its own";
  EXPECT_EQ(into_, data_);
  server.kill();
  const auto gone = blocks.find(chain_, 0, soon());
  ASSERT_FALSE(gone.ok());
  EXPECT_EQ(gone.error().kind, Error::Kind::network) << gone.error().message;
  server.start();
  EXPECT_EQ(*blocks.find(chain_, 0, soon()), std::vector<bool>(9, false));
}

// Answers every connection with the same bytes as soon as something comes, for ever.
class Liar {
 public:
  explicit Liar(std::string answer) : answer_(std::move(answer)) {
    socket_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof any;
    if (::bind(socket_.get(), reinterpret_cast<sockaddr*>(&any), size) != 0 || ::listen(socket_.get(), 8) != 0 ||
        ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0)
      return;
    address_.host = "127.0.0.1";
    address_.port = ntohs(any.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~Liar() {
    ::shutdown(socket_.get(), SHUT_RDWR);
    if (thread_.joinable()) thread_.join();
  }
  const RedisAddress& address() const { return address_; }

 private:
  void run() {
    for (;;) {
      const UniqueFd client(::accept(socket_.get(), nullptr, nullptr));
      if (!client) return;
      char question[65536];
      if (::recv(client.get(), question, sizeof question, 0) <= 0) continue;
      for (int i = 0; i < (answer_.starts_with('-') ? 1 : 4); ++i)
        if (::send(client.get(), answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) break;
    }
  }
  const std::string answer_;
  UniqueFd socket_;
  RedisAddress address_;
  std::thread thread_;
};

TEST_F(RedisBlocksTest, WhoeverIsNoRedisIsToldApart) {
  const std::pair<std::string, Error::Kind> liars[] = {
      {"HTTP/1.1 400 Bad Request\r\n\r\n", Error::Kind::network},
      {"$99999999999\r\nxx", Error::Kind::network},
      {"*2147483647\r\n*2147483647\r\n", Error::Kind::network},
      {std::string(1 << 20, '+') + "\r\n", Error::Kind::network},
      {"*1\r\n:1\r\n", Error::Kind::network},
      {"+OK\r\n+OK\r\n", Error::Kind::network},
      {"", Error::Kind::network},
      {"-MOVED 1234 10.0.0.7:6379\r\n", Error::Kind::unsupported},
      {"-LOADING Redis is loading the dataset in memory\r\n", Error::Kind::unavailable},
      {"-NOAUTH Authentication required.\r\n", Error::Kind::unauthorized},
  };
  for (const auto& [answer, kind] : liars) {
    const Liar liar(answer);
    RedisBlocks blocks({liar.address(), "test", 0, namer_.model(), kStride, {}});
    for (int i = 0; i < 2; ++i) {
      const auto found = blocks.find(chain_, 0, in(500ms));
      ASSERT_FALSE(found.ok()) << answer.substr(0, 40);
      if (found.error().kind != Error::Kind::timeout) {
        EXPECT_EQ(found.error().kind, kind) << answer.substr(0, 40) << ": " << found.error().message;
      }
      EXPECT_FALSE(blocks.read(chain_, 0, into_, in(500ms)).ok());
      EXPECT_FALSE(blocks.keep(chain_, 0, data_, in(500ms)).ok());
    }
  }
}

}  // namespace
}  // namespace espalier::redis_blocks_test
