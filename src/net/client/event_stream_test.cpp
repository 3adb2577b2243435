#include "net/client/event_stream.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "testing/data.h"

namespace espalier::net {
namespace {

std::vector<std::string> read_in(const std::vector<std::string>& pieces) {
  std::vector<std::string> events;
  EventStreamReader reader([&](std::string_view data) {
    events.emplace_back(data);
    return success();
  });
  for (const std::string& piece : pieces) EXPECT_TRUE(reader.read(piece).ok());
  return events;
}

const std::string kStream =
    "\xef\xbb\xbf"
    "data: one\n\n: ping\n\nevent: x\nid: 3\ndata: two\r\ndata:three\r\n\r\ndata\n\ndatabase: no\n\ndata:  "
    "four\r\rdata: {\"a\":1}\n\n"
    "data: cut off";
const std::vector<std::string> kEvents = {"one", "two\nthree", "", " four", "{\"a\":1}"};

TEST(EventStream, ReadsEveryFormTheStandardAllows) {
  EXPECT_EQ(read_in({kStream}), kEvents);
}

TEST(EventStream, DoesNotCareWhereThePiecesEnd) {
  std::mt19937_64 random(testing::seed());
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> pieces;
    for (std::size_t at = 0; at < kStream.size(); at += pieces.back().size())
      pieces.push_back(kStream.substr(at, 1 + random() % (round % 3 == 0 ? 2 : 20)));
    ASSERT_EQ(read_in(pieces), kEvents);
  }
}

TEST(EventStream, StopsAtTheReadersErrorAndAtItsLimit) {
  int heard = 0;
  EventStreamReader stops([&](std::string_view) -> Result<> {
    ++heard;
    return bad_request("no more");
  });
  const auto stopped = stops.read("data: a\n\ndata: b\n\n");
  ASSERT_FALSE(stopped.ok());
  EXPECT_EQ(stopped.error().message, "no more");
  EXPECT_EQ(heard, 1);

  EventStreamReader limited([](std::string_view) { return success(); }, 100);
  Result<> last = success();
  for (int i = 0; i < 100 && last.ok(); ++i) last = limited.read("data: 0123456789\n");
  ASSERT_FALSE(last.ok());
  EXPECT_EQ(last.error().kind, Error::Kind::too_large);
}

}  // namespace
}  // namespace espalier::net
