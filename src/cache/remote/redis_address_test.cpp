#include "cache/remote/redis_address.h"

#include <gtest/gtest.h>

namespace espalier::redis_address_test {
namespace {

TEST(RedisAddress, IsReadInAllItsForms) {
  const auto full = parse_redis_address("redis://me:p%40ss%3A@cache.example:7000/3");
  ASSERT_TRUE(full.ok()) << full.error().message;
  EXPECT_EQ(full->host, "cache.example");
  EXPECT_EQ(full->port, 7000);
  EXPECT_EQ(full->user, "me");
  EXPECT_EQ(full->password, "p@ss:");
  EXPECT_EQ(full->database, 3);
  const auto plain = parse_redis_address("valkey://localhost");
  ASSERT_TRUE(plain.ok());
  EXPECT_EQ(plain->port, 6379);
  EXPECT_EQ(plain->password, "");
  const auto six = parse_redis_address("redis://:secret@[::1]:6380/");
  ASSERT_TRUE(six.ok()) << six.error().message;
  EXPECT_EQ(six->host, "::1");
  EXPECT_EQ(six->user, "");
  EXPECT_EQ(six->password, "secret");
  const auto socket = parse_redis_address("unix:///run/redis.sock?db=2");
  ASSERT_TRUE(socket.ok());
  EXPECT_EQ(socket->path, "/run/redis.sock");
  EXPECT_EQ(socket->database, 2);
}

TEST(RedisAddress, IsShownWithoutWhoAsks) {
  for (const char* url : {"redis://me:secret@host:1/2", "redis://[::1]:6380", "unix:///run/redis.sock?db=2"})
    EXPECT_EQ(parse_redis_address(url)->shown().find("secret"), std::string::npos);
  EXPECT_EQ(parse_redis_address("redis://me:secret@host:1/2")->shown(), "redis://host:1/2");
  EXPECT_EQ(parse_redis_address("redis://[::1]:6380")->shown(), "redis://[::1]:6380");
}

TEST(RedisAddress, IsRefusedWithoutSayingThePassword) {
  for (const char* url : {"", "host:6379", "http://:secret@host", "redis://", "redis://:secret@", "redis://secret@host",
                          "redis://:secret@host:0", "redis://:secret@host:65536", "redis://:secret@host:12x",
                          "redis://:secret@host/x", "redis://:secret@host/-1", "redis://:secre%t@host",
                          "redis://:secret%4", "redis://:secret@[::1", "unix://relative", "unix:///a?x=1"}) {
    const auto address = parse_redis_address(url);
    ASSERT_FALSE(address.ok()) << url;
    EXPECT_EQ(address.error().field, "cache-remote");
    EXPECT_EQ(address.error().message.find("secret"), std::string::npos) << url;
  }
}

TEST(RedisAddress, NamesAWayToTls) {
  const auto address = parse_redis_address("rediss://host");
  ASSERT_FALSE(address.ok());
  EXPECT_EQ(address.error().kind, Error::Kind::unsupported);
  EXPECT_NE(address.error().message.find("stunnel"), std::string::npos);
}

}  // namespace
}  // namespace espalier::redis_address_test
