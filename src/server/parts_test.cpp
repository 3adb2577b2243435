// The small parts: JSON writing, metrics text, keys, retry hints, route policies, error shapes.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <limits>
#include <random>

#include "base/json/json.h"
#include "base/steady_seconds.h"
#include "engine/stream/completion_notifier.h"
#include "server/admission/active_ids.h"
#include "server/admission/budget.h"
#include "server/admission/drain_rate.h"
#include "server/admission/keys.h"
#include "server/delivery/dialect.h"
#include "server/delivery/json_writer.h"
#include "server/fields/request_names.h"
#include "server/fields/unknown_fields.h"
#include "server/metrics/metrics_text.h"
#include "server/readiness.h"
#include "server/routes/routes.h"
#include "testing/data.h"

namespace espalier::server {
namespace {

TEST(JsonWriter, WhatItWritesIsReadBackTheSame) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 2000; ++round) {
    std::string text;
    for (int i = static_cast<int>(rng() % 20); i > 0; --i) {
      static const char* const pieces[] = {"a", "\"",           "\\", "\n",        "\t", "\x01",
                                           "é", "\xe2\x82\xac", "😀", "</script>", "{",  ","};
      text += pieces[rng() % std::size(pieces)];
    }
    const float number = std::bit_cast<float>(static_cast<std::uint32_t>(rng()));
    std::string out = "data: ";
    JsonWriter json(out);
    json.open('{')
        .field("text", text)
        .field("n", number)
        .key("list")
        .open('[')
        .value(1)
        .value(true)
        .null()
        .close(']')
        .close('}');
    const auto parsed = parse_json(out.substr(6));
    ASSERT_TRUE(parsed.ok()) << out << " seed " << testing::seed();
    EXPECT_EQ((*parsed)["text"].get<std::string>(), text);
    if (std::isfinite(number)) {
      EXPECT_EQ((*parsed)["n"].get<float>(), number) << out;
      EXPECT_TRUE((*parsed)["n"].is_number_float()) << out;
    } else {
      EXPECT_EQ((*parsed)["n"].get<double>(), -9999.0);
    }
    EXPECT_EQ((*parsed)["list"].size(), 3u);
  }
}

TEST(JsonWriter, BrokenUtf8IsReplacedNotPassedOn) {
  std::string out;
  append_json_string(out, std::string_view("a\xff\xe2\x82z\xc0\x80", 7));
  EXPECT_TRUE(parse_json(out).ok()) << out;
  EXPECT_EQ(out.find('\xff'), std::string::npos);
}

TEST(MetricsText, BothFormatsAreWellFormed) {
  Histogram histogram({0.5, 1, 2});
  histogram.observe(0.2);
  histogram.observe(1.0, 3);
  histogram.observe(9);
  for (const auto format : {MetricsText::Format::prometheus, MetricsText::Format::open_metrics}) {
    MetricsText text(format);
    text.counter("espalier_things", "Things");
    text.sample(3, {{"model", "a\"b\\c\nd"}});
    text.histogram("espalier_seconds", "Seconds");
    text.samples(histogram, {{"model", "m"}});
    const std::string out = std::move(text).text();
    EXPECT_NE(out.find("espalier_things_total{model=\"a\\\"b\\\\c\\nd\"} 3\n"), std::string::npos) << out;
    EXPECT_NE(out.find("espalier_seconds_bucket{model=\"m\",le=\"1.0\"} 4\n"), std::string::npos) << out;
    EXPECT_NE(out.find("espalier_seconds_bucket{model=\"m\",le=\"+Inf\"} 5\n"), std::string::npos) << out;
    EXPECT_NE(out.find("espalier_seconds_count{model=\"m\"} 5\n"), std::string::npos) << out;
    EXPECT_NE(out.find("espalier_seconds_sum{model=\"m\"} 12.2\n"), std::string::npos) << out;
    const bool open = format == MetricsText::Format::open_metrics;
    EXPECT_NE(out.find(open ? "# TYPE espalier_things counter" : "# TYPE espalier_things_total counter"),
              std::string::npos);
    EXPECT_EQ(out.ends_with("# EOF\n"), open);
  }
}

net::Headers bearer(const std::string& key) {
  return {{"Authorization", "Bearer " + key}};
}

TEST(KeyRing, OnlyTheGivenKeysOpenAndTheAdminKeyOpensMore) {
  const auto ring = KeyRing::load({"one", "two"}, "", "boss");
  ASSERT_TRUE(ring.ok());
  EXPECT_TRUE((*ring)->wants_key());
  EXPECT_EQ((*ring)->caller(bearer("one")), Caller::user);
  EXPECT_EQ((*ring)->caller(bearer("two")), Caller::user);
  EXPECT_EQ((*ring)->caller({{"x-api-key", "two"}}), Caller::user);
  EXPECT_EQ((*ring)->caller(bearer("boss")), Caller::admin);
  for (const char* wrong : {"", "on", "onee", "One", "one two", "boss "}) {
    EXPECT_EQ((*ring)->caller({{"x-api-key", std::string(wrong) == "boss " ? "bos" : wrong}}), Caller::nobody) << wrong;
  }
  EXPECT_EQ((*ring)->caller({}), Caller::nobody);
  EXPECT_EQ((*ring)->caller({{"Authorization", "Basic dTpvbmU="}}), Caller::nobody) << "Basic is for the page only";
  EXPECT_EQ((*ring)->caller({{"Authorization", "Basic dTpvbmU="}}, true), Caller::user);
}

// A key file that is gone at the end.
struct KeyFile {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("espalier_terms_" + std::to_string(::getpid()));
  explicit KeyFile(const char* text) { std::ofstream(path) << text; }
  ~KeyFile() { std::filesystem::remove(path); }
};

TEST(KeyRing, TermsStandBehindAKeyAndAnExpiredOneIsTold) {
  const KeyFile file("plain\nold expires=2001-02-03\nnew name=alice rpm=2 tpm=100 expires=2999-12-31T23:59:59Z\n");
  const auto ring = KeyRing::load({}, file.path, "");
  ASSERT_TRUE(ring.ok()) << ring.error().message;
  EXPECT_EQ((*ring)->caller(bearer("plain")), Caller::user);
  EXPECT_EQ((*ring)->caller(bearer("old")), Caller::expired);
  EXPECT_EQ((*ring)->caller(bearer("new")), Caller::user);
  EXPECT_EQ((*ring)->caller(bearer("new name=alice")), Caller::nobody);
  net::HttpRequest http;
  http.headers = bearer("new");
  const auto account = (*ring)->account(http);
  ASSERT_NE(account, nullptr);
  EXPECT_EQ(account->terms().name, "alice");
  http.headers = bearer("plain");
  EXPECT_EQ((*ring)->account(http), nullptr);
}

TEST(KeyRing, WhatAKeyHasUsedOutlivesAReload) {
  const KeyFile file("k rpm=1\n");
  const auto ring = KeyRing::load({}, file.path, "");
  ASSERT_TRUE(ring.ok());
  net::HttpRequest http;
  http.headers = bearer("k");
  const double now = steady_seconds();
  EXPECT_TRUE((*ring)->account(http)->take_request(now).ok());
  ASSERT_TRUE((*ring)->reload().ok());
  EXPECT_EQ((*ring)->account(http)->take_request(now).error().code, "rate_limit_exceeded");
}

TEST(KeyRing, WrongTermsNameTheirLine) {
  for (const char* wrong : {"k rpm=0", "k rpm=many", "k tpm=-1", "k expires=tomorrow", "k expires=2026-02-30",
                            "k name=", "k colour=red", "k more", "k rpm=1\nk rpm=2"}) {
    const KeyFile file(("first\n" + std::string(wrong) + "\n").c_str());
    const auto ring = KeyRing::load({}, file.path, "");
    ASSERT_FALSE(ring.ok()) << wrong;
    EXPECT_NE(ring.error().message.find("line"), std::string::npos) << ring.error().message;
    EXPECT_EQ(ring.error().message.find("more"), std::string::npos) << "it may be half a key";
  }
}

TEST(KeyAccount, AMinutesWorthMayBeUsedAtOnceAndComesBackEvenly) {
  KeyAccount account({"", 60, 0, std::nullopt});
  for (int i = 0; i < 60; ++i) ASSERT_TRUE(account.take_request(1000).ok()) << i;
  EXPECT_EQ(account.take_request(1000.5).error().kind, Error::Kind::busy);
  EXPECT_TRUE(account.take_request(1001).ok());
  EXPECT_FALSE(account.take_request(1001).ok());
  net::Headers headers;
  account.tell(429, headers, 1001);
  EXPECT_EQ(headers.get("x-ratelimit-limit-requests"), "60");
  EXPECT_EQ(headers.get("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(headers.get("x-ratelimit-reset-requests"), "1m0s");
  EXPECT_EQ(headers.get("Retry-After"), "1");
  EXPECT_FALSE(headers.has("x-ratelimit-limit-tokens"));
}

TEST(KeyAccount, GeneratedTokensAreOwedAndALongPromptNeedsAFullBucket) {
  KeyAccount account({"", 0, 600, std::nullopt});
  EXPECT_TRUE(account.take_prompt(500, 0).ok());
  account.take_output(400, 0);  // 300 below nothing
  EXPECT_FALSE(account.take_request(29).ok());
  EXPECT_FALSE(account.take_prompt(10, 30).ok());
  EXPECT_TRUE(account.take_prompt(10, 31.1).ok());
  EXPECT_FALSE(account.take_prompt(5000, 90).ok());
  EXPECT_TRUE(account.take_prompt(5000, 200).ok()) << "more than a minute's worth, of a full bucket";
  net::Headers headers;
  account.tell(200, headers, 200);
  EXPECT_EQ(headers.get("x-ratelimit-remaining-tokens"), "0");
  EXPECT_EQ(headers.get("x-ratelimit-reset-tokens"), "8m20s");
  EXPECT_FALSE(headers.has("Retry-After"));
}

TEST(KeyAccount, WhatTheEngineDidNotTakeIsGivenBack) {
  KeyAccount account({"", 0, 600, std::nullopt});
  EXPECT_TRUE(account.take_prompt(500, 0).ok());
  account.give_back_prompt(500, 0);
  EXPECT_TRUE(account.take_prompt(600, 0).ok());
  account.give_back_prompt(600, 30);  // half of it came back by itself: no more than a minute's worth is there
  EXPECT_TRUE(account.take_prompt(600, 30).ok());
  EXPECT_FALSE(account.take_prompt(1, 30).ok());
}

TEST(KeyAccount, ARefusedPromptIsToldWhenItMayCome) {
  const auto retry_after = [](const KeyAccount& account, double now) {
    net::Headers headers;
    account.tell(429, headers, now);
    return std::string(headers.get("Retry-After"));
  };
  KeyAccount account({"", 0, 600, std::nullopt});
  EXPECT_TRUE(account.take_prompt(500, 0).ok());
  EXPECT_FALSE(account.take_prompt(300, 0).ok());
  EXPECT_EQ(retry_after(account, 0), "20");
  EXPECT_EQ(retry_after(account, 5), "15");
  EXPECT_TRUE(account.take_prompt(100, 5).ok());
  EXPECT_EQ(retry_after(account, 5), "") << "a later refusal is not the key's";
}

TEST(KeyRing, AProgramPaysForItsCallsAndALineOfABatchForItself) {
  const KeyFile file("k rpm=1\n");
  const auto ring = KeyRing::load({}, file.path, "");
  ASSERT_TRUE(ring.ok());
  net::HttpRequest http;
  http.headers = bearer("k");
  const auto account = (*ring)->account(http);
  ASSERT_NE(account, nullptr);
  net::HttpRequest own;
  own.own_work = net::OwnWork{KeyRing::tenant(http)};
  EXPECT_EQ((*ring)->account(own), account);
  own.own_work->later = false;
  EXPECT_EQ((*ring)->account(own), nullptr);
}

TEST(KeyRing, NobodyReadsWhatOthersAskedButTheAdminOrWhoeverIsAlone) {
  const auto may_read = [](std::vector<std::string> keys, const char* admin, const net::Headers& headers) {
    const auto ring = KeyRing::load(std::move(keys), "", admin);
    return ring.ok() && (*ring)->may_read_all(headers);
  };
  EXPECT_TRUE(may_read({}, "", {}));
  EXPECT_TRUE(may_read({"one"}, "", bearer("one")));
  EXPECT_FALSE(may_read({"one"}, "", bearer("two")));
  EXPECT_FALSE(may_read({"one", "two"}, "", bearer("one")));
  EXPECT_FALSE(may_read({}, "boss", {}));
  EXPECT_FALSE(may_read({"one"}, "boss", bearer("one")));
  EXPECT_TRUE(may_read({"one", "two"}, "boss", bearer("boss")));
}

TEST(KeyRing, AFileIsReadAgainAndAnEmptyOneOpensNothing) {
  const auto path = std::filesystem::temp_directory_path() / ("espalier_keys_" + std::to_string(::getpid()));
  std::ofstream(path) << "# comment\n\nfirst\n  second  \n";
  const auto ring = KeyRing::load({}, path, "");
  ASSERT_TRUE(ring.ok());
  EXPECT_EQ((*ring)->caller(bearer("second")), Caller::user);
  std::ofstream(path) << "third\n";
  ASSERT_TRUE((*ring)->reload().ok());
  EXPECT_EQ((*ring)->caller(bearer("third")), Caller::user);
  EXPECT_EQ((*ring)->caller(bearer("first")), Caller::nobody);
  std::ofstream(path) << "# nothing\n";
  EXPECT_FALSE((*ring)->reload().ok());
  EXPECT_EQ((*ring)->caller(bearer("third")), Caller::user) << "the old keys stay";
  EXPECT_FALSE(KeyRing::load({}, path, "").ok());
  EXPECT_EQ(KeyRing::load({"one", ""}, "", "").error().kind, Error::Kind::bad_request);
  std::filesystem::remove(path);
  EXPECT_FALSE((*ring)->reload().ok());
}

TEST(DrainRate, TellsHowLongTheQueueTakes) {
  DrainRate rate;
  EXPECT_EQ(rate.retry_after(100, 10), 5) << "nothing is known yet";
  for (int i = 0; i < 20; ++i) rate.finished(100 + i * 0.5);
  EXPECT_EQ(rate.retry_after(110, 20), 10);
  EXPECT_EQ(rate.retry_after(110, 0), 1);
  EXPECT_EQ(rate.retry_after(110, 100000), 60);
  EXPECT_EQ(rate.retry_after(200, 3), 5) << "what lies long back says nothing";
}

TEST(Routes, PoliciesHoldHoweverAPathIsWritten) {
  EXPECT_EQ(policy_of({"flush_cache"}).access, Access::control);
  EXPECT_EQ(policy_of({}).access, Access::page);
  EXPECT_EQ(policy_of({"health"}).access, Access::open);
  EXPECT_EQ(policy_of({"health_generate"}).access, Access::control);
  EXPECT_EQ(policy_of({"v1", "chat", "completions"}).needs, Needs::work);
  EXPECT_EQ(policy_of({"unknown"}).access, Access::user);
}

TEST(RequestNames, FieldsGetTheClientsNamesInTheSentenceToo) {
  const Error error = bad_request("max_new_tokens is 9, min_new_tokens 10; not_max_new_tokens stays", "max_new_tokens");
  const Error seen = renamed(error, completion_names("prompt"));
  EXPECT_EQ(seen.message, "max_tokens is 9, min_tokens 10; not_max_new_tokens stays");
  EXPECT_EQ(seen.field, "max_tokens");
  const Error native = renamed(error, native_names("text"));
  EXPECT_EQ(native.message,
            "sampling_params.max_new_tokens is 9, sampling_params.min_new_tokens 10; not_max_new_tokens stays");
  EXPECT_EQ(native.field, "sampling_params.max_new_tokens");
  const Error stop = renamed(bad_request("stop has 17 entries, which will stop nothing", "stop"), native_names("text"));
  EXPECT_EQ(stop.message, "sampling_params.stop has 17 entries, which will stop nothing");
}

TEST(RequestNames, RequestsAreRefusedInTheNamesThatTheyCameIn) {
  const ModelLimits limits{100, 512, 512, true, 0};
  RequestFields fields;
  fields.prompt = {1, 2};
  fields.sampling.min_new_tokens = 9;
  fields.sampling.max_new_tokens = 5;
  const auto chat = make_request(fields, limits, chat_names("messages", "max_tokens"));
  ASSERT_FALSE(chat.ok());
  EXPECT_EQ(chat.error().field, "min_tokens");
  EXPECT_EQ(chat.error().message, "min_tokens is 9, but must be at most max_tokens, which is 5");
  fields.sampling = {};
  fields.sampling.stop_token_ids = {5, 100};
  const auto stop = make_request(fields, limits, native_names("text"));
  ASSERT_FALSE(stop.ok());
  EXPECT_EQ(stop.error().field, "sampling_params.stop_token_ids");
  fields.sampling = {};
  fields.prompt = {100};
  EXPECT_EQ(make_request(fields, limits, chat_names("input_ids", "max_tokens")).error().field, "input_ids");
  EXPECT_EQ(make_request(fields, limits, completion_names("prompt[2]")).error().field, "prompt[2]");
}

TEST(Dialect, PathsBehindThePrefixDecideTheShape) {
  EXPECT_EQ(dialect_of("/v1/models", ""), Dialect::openai);
  EXPECT_EQ(dialect_of("/generate", ""), Dialect::native);
  EXPECT_EQ(dialect_of("/api/v1/models", "/api"), Dialect::openai);
  EXPECT_EQ(dialect_of("/api/generate", "/api/"), Dialect::native);
}

TEST(Dialect, OpenAiErrorsAreNestedWithFlatKeysBeside) {
  const auto response = error_response(Dialect::openai_chat, bad_request("no \"n\"", "n"));
  EXPECT_EQ(response.status, 400);
  const auto body = parse_json(response.body);
  ASSERT_TRUE(body.ok());
  EXPECT_EQ((*body)["error"]["message"], "no \"n\"");
  EXPECT_EQ((*body)["error"]["type"], "invalid_request_error");
  EXPECT_EQ((*body)["error"]["param"], "n");
  EXPECT_EQ((*body)["error"]["code"], "invalid_value");
  EXPECT_EQ((*body)["object"], "error");
  EXPECT_EQ((*body)["message"], "no \"n\"");
  EXPECT_EQ((*body)["code"], 400);
  const auto busy = error_response(Dialect::native, Error{Error::Kind::busy, "full", {}, {}}, 7);
  EXPECT_EQ(busy.status, 429);
  EXPECT_EQ(busy.headers.get("Retry-After"), "7");
  EXPECT_FALSE(parse_json(busy.body)->contains("object"));
}

TEST(ActiveIds, AnIdIsRefusedWhileItIsInUse) {
  ActiveIds ids;
  auto first = ids.claim({"a", "b"});
  ASSERT_TRUE(first.ok());
  const auto second = ids.claim({"c", "b"});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().field, "rid");
  EXPECT_TRUE(ids.claim({"c"}).ok()) << "a refused claim leaves nothing behind";
  *first = ActiveIds::Lease();
  EXPECT_TRUE(ids.claim({"b"}).ok());
}

TEST(Budget, WhatIsDroppedIsGivenBack) {
  Budget budget(10);
  auto first = budget.charge(7, "things");
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(budget.charge(4, "things").error().kind, Error::Kind::busy);
  EXPECT_TRUE(budget.charge(3, "things").ok());
  EXPECT_EQ(budget.used(), 7);
  *first = Budget::Charge();
  EXPECT_EQ(budget.used(), 0);
}

TEST(UnknownFields, AreIgnoredOrRefusedAsAsked) {
  UnknownFields tolerant(false), strict(true);
  EXPECT_TRUE(tolerant.note({"foo"}, "/x").ok());
  EXPECT_TRUE(strict.note({}, "/x").ok());
  const auto refused = strict.note({"foo"}, "/x");
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().field, "foo");
}

TEST(StallWatch, StallsOnlyWhenWorkWaitsAndNoStepIsMade) {
  StallWatch watch;
  EngineStatus status;
  status.last_step_seconds_ago = 3600;
  EXPECT_FALSE(watch.stalled(status, 0, 30)) << "idle for an hour";
  status.waiting = 1;
  EXPECT_FALSE(watch.stalled(status, 100, 30)) << "work has just come";
  EXPECT_FALSE(watch.stalled(status, 130, 30));
  EXPECT_TRUE(watch.stalled(status, 131, 30));
  EXPECT_FALSE(watch.stalled(status, 131, 0));
  status.steps = 1;
  EXPECT_FALSE(watch.stalled(status, 132, 30)) << "a step was made";
  EXPECT_TRUE(watch.stalled(status, 170, 30));
  status.waiting = 0;
  EXPECT_FALSE(watch.stalled(status, 171, 30));
}

class CountingCompletion final : public Completion {
 public:
  explicit CountingCompletion(int until, bool throws = false) : until_(until), throws_(throws) {}
  bool advance() override {
    EXPECT_FALSE(inside_.exchange(true)) << "two advances at once, or one after the end";
    if (throws_) throw std::runtime_error("meant to");
    const bool more = ++advanced < until_;
    inside_ = false;
    return more;
  }
  void failed(const char*) override { gave_up = true; }
  void cancel(Error) override {}
  std::atomic<int> advanced{0};
  std::atomic<bool> gave_up{false};

 private:
  const int until_;
  const bool throws_;
  std::atomic<bool> inside_{false};
};

TEST(CompletionNotifier, ANotifiedCompletionAdvancesUntilItIsOver) {
  CompletionNotifier notifier("test");
  std::vector<std::shared_ptr<CountingCompletion>> completions;
  for (int i = 0; i < 20; ++i) completions.push_back(std::make_shared<CountingCompletion>(1 + i % 5, i == 7));
  for (const auto& completion : completions) notifier.add(completion);
  std::vector<std::thread> notifying;
  for (int t = 0; t < 3; ++t) {
    notifying.emplace_back([&] {
      while (notifier.count() > 0) {
        for (const auto& completion : completions) notifier.notify(*completion);
      }
    });
  }
  for (auto& thread : notifying) thread.join();
  for (std::size_t i = 0; i < completions.size(); ++i) {
    EXPECT_EQ(completions[i]->gave_up, i == 7);
    EXPECT_EQ(completions[i]->advanced, i == 7 ? 0 : 1 + static_cast<int>(i) % 5);
  }
}

}  // namespace
}  // namespace espalier::server
