// Files of other hosts beside one another: a slow host holds up nobody else.
#include "server/media/media_downloads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "testing/http_double.h"

namespace espalier::server::media_downloads_test {
namespace {

// What happened, in order; anybody may wait for it.
class Happened {
 public:
  void add(const std::string& what) {
    const std::lock_guard lock(mutex_);
    all_.push_back(what);
    changed_.notify_all();
  }
  void wait_for(const std::string& what) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return std::ranges::find(all_, what) != all_.end(); });
  }
  bool has(const std::string& what) {
    const std::lock_guard lock(mutex_);
    return std::ranges::find(all_, what) != all_.end();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> all_;
};

// "localhost" answers when it is told to, "127.0.0.1" at once.
class Downloads : public ::testing::Test {
 protected:
  static constexpr unsigned kThreads = 4;

  void fetch(const std::string& name, std::vector<std::string> urls) {
    std::vector<MediaAddress> addresses;
    for (std::string& url : urls) addresses.push_back({std::move(url), name});
    fetched_[name] = std::make_shared<FetchedMedia>();
    ASSERT_TRUE(downloads_.begin(addresses, fetched_[name], {}, [this, name] { happened_.add(name); }));
  }
  std::string slow(int i) const { return server_.url("/slow" + std::to_string(i)).replace(7, 9, "localhost"); }
  std::string quick(int i) const { return server_.url("/quick" + std::to_string(i)); }

  Happened happened_;
  testing::HttpDouble server_{[this](const testing::HttpDoubleRequest& request) {
    happened_.add("asked for " + request.target);
    if (request.target.starts_with("/slow")) happened_.wait_for("go on");
    testing::HttpDoubleReply reply;
    reply.body = request.target;
    return reply;
  }};
  MediaFetcher fetcher_{{{}, {"localhost", "127.0.0.1"}, 1000, std::chrono::milliseconds(60'000), false}};
  std::shared_ptr<Budget> memory_ = std::make_shared<Budget>(1 << 20);
  std::map<std::string, std::shared_ptr<FetchedMedia>> fetched_;
  MediaDownloads downloads_{fetcher_, memory_, kThreads, 100};
};

TEST_F(Downloads, OfASlowHostHoldUpNobodyElse) {
  for (int i = 0; i < 12; ++i) fetch("slow " + std::to_string(i), {slow(i)});
  happened_.wait_for("asked for /slow1");  // its share of the threads is taken
  for (int i = 0; i < 12; ++i) {
    fetch("quick " + std::to_string(i), {quick(i), quick(100 + i)});
    happened_.wait_for("quick " + std::to_string(i));
    EXPECT_EQ(**fetched_["quick " + std::to_string(i)]->find(quick(i)), "/quick" + std::to_string(i));
  }
  EXPECT_FALSE(happened_.has("slow 0"));
  EXPECT_FALSE(happened_.has("asked for /slow5"));
  happened_.add("go on");
  for (int i = 0; i < 12; ++i) {
    happened_.wait_for("slow " + std::to_string(i));
    EXPECT_EQ(**fetched_["slow " + std::to_string(i)]->find(slow(i)), "/slow" + std::to_string(i));
  }
  fetched_.clear();
  for (int i = 0; i < 10'000 && memory_->used() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // threads let go of the last
  EXPECT_EQ(memory_->used(), 0);
}

TEST_F(Downloads, ThatFailAreAnsweredToo) {
  fetch("mixed", {quick(1), "http://elsewhere.test/a", "no address"});
  happened_.wait_for("mixed");
  EXPECT_TRUE(fetched_["mixed"]->find(quick(1))->ok());
  EXPECT_EQ(fetched_["mixed"]->find("http://elsewhere.test/a")->error().code, "invalid_image");
  EXPECT_EQ(fetched_["mixed"]->find("nowhere"), nullptr);
}

TEST_F(Downloads, AreRefusedWhenTooManyWait) {
  const std::vector<MediaAddress> many(101, {quick(1), "x"});
  EXPECT_FALSE(downloads_.begin(many, std::make_shared<FetchedMedia>(), {}, [] {}));
}

TEST_F(Downloads, ThatNobodyWaitsForAreNotMade) {
  const auto into = std::make_shared<FetchedMedia>();
  ASSERT_TRUE(downloads_.begin({{quick(7), "x"}}, into, [] { return true; }, [this] { happened_.add("left"); }));
  happened_.wait_for("left");
  EXPECT_FALSE(into->find(quick(7))->ok());
  EXPECT_FALSE(happened_.has("asked for /quick7"));
}

}  // namespace
}  // namespace espalier::server::media_downloads_test
