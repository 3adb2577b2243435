#include "bench/serving/report.h"

#include <gtest/gtest.h>

#include <random>

#include "bench/serving/measure.h"
#include "testing/data.h"

namespace espalier::bench {
namespace {

CallRecord record(std::size_t item, double sent, double first, double ended, int prompt, int output,
                  std::optional<int> cached = std::nullopt) {
  CallRecord call;
  call.item = item;
  call.outcome.ok = true;
  call.outcome.status = 200;
  call.outcome.sent = sent;
  call.outcome.first_token = first;
  call.outcome.ended = ended;
  call.outcome.prompt_tokens = prompt;
  call.outcome.output_tokens = output;
  call.outcome.cached_tokens = cached;
  for (int i = 1; i < output; ++i) call.outcome.gaps.push_back((ended - first) / (output - 1));
  return call;
}

struct Sample {
  Workload workload;
  RunResult run;
  Target target;
  LoadOptions options;

  Sample() {
    workload.name = "w";
    workload.items.resize(3);
    run.items.resize(3);
    run.ended = 3;
    run.began = 10;
    run.finished = 14;
    run.journal.calls = {record(0, 10, 11, 13, 100, 5, 40), record(1, 10, 10.5, 12.5, 50, 3)};
    CallRecord failed;
    failed.outcome.error = "no";
    failed.outcome.sent = failed.outcome.ended = 10;
    run.journal.calls.push_back(failed);
    target.server.backend = find_backend("sglang").value();
    target.model = "org/m";
    target.info = Json::parse(R"({"internal_states":[{"avg_spec_accept_length":2.5}]})");
    options.dataset.name = "random";
  }
  Report report(double rate = 2) const { return make_report(workload, run, target, options, rate); }
};

TEST(Report, FiguresAreThoseOfTheCallsThatEndedWell) {
  const Report r = Sample().report();
  EXPECT_EQ(r.completed, 2);
  EXPECT_EQ(r.failed, 1);
  EXPECT_EQ(r.first_error, "no");
  EXPECT_DOUBLE_EQ(r.duration, 4);
  EXPECT_EQ(r.input_tokens, 150);
  EXPECT_EQ(r.output_tokens, 8);
  EXPECT_DOUBLE_EQ(r.per_second(static_cast<double>(r.output_tokens)), 2);
  EXPECT_DOUBLE_EQ(r.ttft.mean, 750);
  EXPECT_DOUBLE_EQ(r.e2e.median, 2750);
  EXPECT_DOUBLE_EQ(r.tpot.median, 750);  // 2 s / 4 and 2 s / 2
  EXPECT_EQ(r.itl.count, 6u);
  EXPECT_DOUBLE_EQ(r.itl.median, 500);
  EXPECT_DOUBLE_EQ(r.concurrency, 5.5 / 4);
  EXPECT_EQ(r.most_concurrent, 2);
  EXPECT_EQ(r.cached_tokens, 40);
  EXPECT_DOUBLE_EQ(*r.hit_rate(), 0.4);  // of the call that told it
  EXPECT_EQ(r.accept_length, 2.5);
  EXPECT_GE(r.most_output_tokens_per_s, 2);
}

TEST(Report, GoodputCountsWhatMeetsEveryLimit) {
  Sample s;
  s.options.goodput_limits = {{"ttft", 1000}, {"tpot", 600}};
  EXPECT_DOUBLE_EQ(*s.report().goodput, 0.25);
  s.options.goodput_limits = {{"ttft", 1000}};
  EXPECT_DOUBLE_EQ(*s.report().goodput, 0.5);
}

TEST(Report, JsonHasTheReferencesKeys) {
  Sample s;
  Json json = report_json(s.report(), s.options, s.target, "t");
  add_details(json, s.run);
  for (const char* key : {"tag",
                          "backend",
                          "dataset_name",
                          "request_rate",
                          "max_concurrency",
                          "sharegpt_output_len",
                          "random_input_len",
                          "random_output_len",
                          "random_range_ratio",
                          "server_info",
                          "duration",
                          "completed",
                          "total_input_tokens",
                          "total_output_tokens",
                          "total_output_tokens_retokenized",
                          "request_throughput",
                          "input_throughput",
                          "output_throughput",
                          "total_throughput",
                          "concurrency",
                          "accept_length",
                          "max_output_tokens_per_s",
                          "max_concurrent_requests",
                          "total_cached_tokens",
                          "cache_hit_rate_pct",
                          "input_lens",
                          "output_lens",
                          "ttfts",
                          "itls",
                          "generated_texts",
                          "errors"})
    EXPECT_TRUE(json.contains(key)) << key;
  for (const char* what : {"e2e_latency", "ttft", "tpot", "itl"})
    for (const char* statistic : {"mean", "median", "std", "p90", "p95", "p99"})
      EXPECT_TRUE(json.contains(std::string(statistic) + "_" + what + "_ms")) << statistic << what;
  EXPECT_EQ(json["input_lens"].size(), 3u);
  EXPECT_EQ(json["itls"][0].size() + json["itls"][1].size() + json["itls"][2].size(), 6u);
  EXPECT_EQ(json["cache_hit_rate_pct"], 40.0);
  EXPECT_EQ(json["tag"], "t");
  EXPECT_EQ(
      report_json(Sample().report(std::numeric_limits<double>::infinity()), s.options, s.target, "")["request_rate"],
      "inf");

  const Json vllm = vllm_json(s.report(), s.options, nullptr);
  for (const char* key : {"date",
                          "backend",
                          "model_id",
                          "tokenizer_id",
                          "num_prompts",
                          "request_rate",
                          "burstiness",
                          "max_concurrency",
                          "duration",
                          "completed",
                          "failed",
                          "total_input_tokens",
                          "total_output_tokens",
                          "request_throughput",
                          "request_goodput",
                          "output_throughput",
                          "total_token_throughput",
                          "mean_ttft_ms",
                          "median_tpot_ms",
                          "std_itl_ms",
                          "p99_e2el_ms"})
    EXPECT_TRUE(vllm.contains(key)) << key;
}

TEST(Report, TablesNameWhatWasMeasured) {
  Sample s;
  const std::string table = report_table(s.report());
  for (const char* word : {"TTFT", "TPOT", "ITL", "E2E", "40.0 %", "1 failed", "0.50 req"})
    EXPECT_NE(table.find(word), std::string::npos) << word << "\n" << table;
  EXPECT_NE(sweep_table({s.report(1), s.report(2)}).find("750.0 / 995.0"), std::string::npos);
  EXPECT_NE(workload_table({s.report()}).find("40.0 %"), std::string::npos);
  const RunResult nothing;
  EXPECT_FALSE(report_table(make_report(Workload(), nothing, s.target, s.options, 1)).empty());
}

// The ideal against a plain search through everything that was seen.
TEST(IdealHitRate, IsTheLongestPrefixSeenBefore) {
  std::mt19937_64 random(testing::seed());
  Journal journal;
  std::vector<std::vector<TokenId>> seen;
  std::size_t found = 0, all = 0;
  for (int i = 0; i < 60; ++i) {
    CallRecord call = record(0, i, i, i, 0, 0);
    std::vector<TokenId> prompt;
    if (!seen.empty() && random() % 4 != 0) {
      prompt = seen[random() % seen.size()];
      prompt.resize(1 + random() % prompt.size());
    }
    for (auto more = 1 + random() % 5; more > 0; --more) prompt.push_back(static_cast<TokenId>(random() % 3));
    std::size_t longest = 0;
    for (const auto& before : seen) {
      std::size_t same = 0;
      while (same < std::min(before.size(), prompt.size()) && before[same] == prompt[same]) ++same;
      longest = std::max(longest, same);
    }
    found += std::min(longest, prompt.size() - 1);
    all += prompt.size();
    call.outcome.prompt_ids = prompt;
    call.outcome.output_ids = {7, static_cast<TokenId>(random() % 3)};
    prompt.insert(prompt.end(), call.outcome.output_ids.begin(), call.outcome.output_ids.end());
    seen.push_back(prompt);
    journal.calls.insert(journal.calls.begin(), call);  // order of ending does not matter, order of sending does
  }
  EXPECT_DOUBLE_EQ(*ideal_hit_rate(journal), static_cast<double>(found) / static_cast<double>(all));
  EXPECT_EQ(ideal_hit_rate(Journal()), std::nullopt);
}

TEST(Report, FurtherPercentilesAndMetadataOnRequest) {
  Sample s;
  s.options.percentiles = {25, 99.9};
  s.options.metadata = {"machine=two cores", "completed=none"};
  ASSERT_TRUE(check(s.options).ok());
  const Report report = s.report();
  const Json json = vllm_json(report, s.options, nullptr);
  EXPECT_EQ(json["p25_ttft_ms"], percentile(std::vector<double>{500, 1000}, 25));
  EXPECT_TRUE(json.contains("p99.9_e2el_ms"));
  EXPECT_EQ(json["machine"], "two cores");
  EXPECT_EQ(json["completed"], report.completed);
  EXPECT_NE(report_table(report).find("p99.9"), std::string::npos);
}

TEST(LoadOptions, FlagsAreCheckedAndNamed) {
  const auto refusal = [](const std::function<void(LoadOptions&)>& change) {
    LoadOptions o;
    o.dataset.name.clear();
    change(o);
    const auto checked = check(o);
    return checked.ok() ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refusal([](LoadOptions&) {}), "");
  EXPECT_NE(refusal([](LoadOptions& o) { o.request_rates = {"1", "0"}; }).find("--request-rate 0"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.request_rates = {"fast"}; }).find("--request-rate fast"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.extra_request_body = "[1]"; }).find("--extra-request-body"),
            std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.goodput = {"speed:3"}; }).find("--goodput"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.metadata = {"x"}; }).find("--metadata x"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.ramp_up_end_rps = 4; }).find("--ramp-up-strategy"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.apply_chat_template = true; }).find("-chat backend"), std::string::npos);
  EXPECT_NE(refusal([](LoadOptions& o) { o.dataset.name = "workload"; }).find("--dataset-path"), std::string::npos);
  LoadOptions o;
  o.dataset.name.clear();
  o.dataset_paths = {"a", "b"};
  o.request_rates = {"0.5", "inf"};
  ASSERT_TRUE(check(o).ok());
  EXPECT_EQ(o.dataset.name, "workload");
  o.ramp_up_strategy = "linear";
  o.ramp_up_start_rps = 1;
  o.ramp_up_end_rps = 4;
  EXPECT_FALSE(check(o).ok());
  o.request_rates = {"inf"};
  ASSERT_TRUE(check(o).ok());
  EXPECT_EQ(o.ramp->end, 4);
  o.request_rates = {"0.5", "inf"};
  o.ramp_up_strategy.clear();
  o.ramp_up_start_rps = o.ramp_up_end_rps = std::nullopt;
  o.top_k = 5;
  o.min_p = 0.25;
  ASSERT_TRUE(check(o).ok());
  EXPECT_EQ(o.sampling, (Json{{"top_k", 5}, {"min_p", 0.25}}));
  EXPECT_EQ(o.rates, (std::vector<double>{0.5, std::numeric_limits<double>::infinity()}));
}

}  // namespace
}  // namespace espalier::bench
