#include "bench/serving/load_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace espalier::bench {
namespace {

const std::map<std::string, SelectMethod> kSelectMethods = {{"auto", SelectMethod::automatic},
                                                            {"generate", SelectMethod::generate},
                                                            {"constrain", SelectMethod::constrain},
                                                            {"likelihood", SelectMethod::likelihood}};

template <class T>
CLI::Option* option(CLI::App& app, const std::string& name, T& value, const std::string& help) {
  return app.add_option(name, value, help)->capture_default_str();
}

}  // namespace

void add_dataset_flags(CLI::App& app, LoadOptions& o) {
  DatasetOptions& d = o.dataset;
  d.name.clear();  // filled by check()
  app.add_option("--dataset-name", d.name,
                 fmt::format("requests to send: {}; default: workload with --dataset-path, else random",
                             fmt::join(dataset_names(), ", ")));
  app.add_option("--dataset-path", o.dataset_paths,
                 "file of the data set; several files, or a folder of them, of workload");
  option(app, "--workload-size", o.workload_size, "which files of a folder: small, full or any")
      ->check(CLI::IsMember({"small", "full", "any"}));
  app.add_option("--num-prompts", d.num_prompts, "requests (items of a workload); default 1000, of a workload all")
      ->check(CLI::PositiveNumber);
  option(app, "--seed", d.seed, "decides the requests and the arrival times");
  option(app, "--random-input-len,--random-input,--input-len", d.random_input_len, "random: tokens of a prompt at most")
      ->check(CLI::Range(1, 10'000'000));
  option(app, "--random-output-len,--random-output,--output-len", d.random_output_len,
         "random: tokens of an output at most")
      ->check(CLI::Range(1, 10'000'000));
  option(app, "--random-range-ratio", d.random_range_ratio,
         "random: lengths are drawn evenly from ratio x length to length; 1 = exact")
      ->check(CLI::Range(0.0, 1.0));
  option(app, "--random-prefix-len", d.random_prefix_len,
         "random: tokens before each of these prompts, the same for all")
      ->check(CLI::Range(0, 1 << 20));
  option(app, "--gsp-num-groups", d.gsp_num_groups, "generated-shared-prefix: system prompts")
      ->check(CLI::PositiveNumber);
  option(app, "--gsp-prompts-per-group", d.gsp_prompts_per_group, "generated-shared-prefix: requests of each")
      ->check(CLI::PositiveNumber);
  option(app, "--gsp-system-prompt-len", d.gsp_system_prompt_len, "generated-shared-prefix: tokens shared in a group")
      ->check(CLI::PositiveNumber);
  option(app, "--gsp-question-len", d.gsp_question_len, "generated-shared-prefix: tokens of each request's own")
      ->check(CLI::PositiveNumber);
  option(app, "--gsp-output-len", d.gsp_output_len, "generated-shared-prefix: tokens of an output")
      ->check(CLI::PositiveNumber);
  app.add_flag("--gsp-ordered", d.gsp_ordered, "generated-shared-prefix: group after group instead of shuffled");
  option(app, "--prefix-repetition-num-prefixes", d.repetition_prefixes, "prefix_repetition: prefixes")
      ->check(CLI::PositiveNumber);
  option(app, "--prefix-repetition-prefix-len", d.repetition_prefix_len, "prefix_repetition: tokens of each")
      ->check(CLI::PositiveNumber);
  option(app, "--prefix-repetition-suffix-len", d.repetition_suffix_len,
         "prefix_repetition: tokens of each request's own")
      ->check(CLI::PositiveNumber);
  option(app, "--prefix-repetition-output-len", d.repetition_output_len, "prefix_repetition: tokens of an output")
      ->check(CLI::PositiveNumber);
  app.add_option("--sharegpt-output-len,--custom-output-len", d.sharegpt_output_len,
                 "sharegpt, custom: tokens of an output, instead of the recorded answer's")
      ->check(CLI::PositiveNumber);
  app.add_option("--sharegpt-context-len", d.sharegpt_context_len,
                 "sharegpt, custom: leave out longer conversations (tokens)")
      ->check(CLI::PositiveNumber);
  option(app, "--mooncake-slowdown-factor", d.mooncake_slowdown_factor, "mooncake: times are multiplied by it")
      ->check(CLI::PositiveNumber);
  option(app, "--prompt-form", o.prompt_form,
         "made-up prompts as ids (exact lengths), as text, or auto: ids but for chats")
      ->check(CLI::IsMember({"auto", "ids", "text"}));
  app.add_flag("--tokenize-prompt", o.tokenize_prompt, "the same as --prompt-form ids");
  app.add_option("--vocab-size", d.vocabulary, "made-up ids are below it; default: what the server says")
      ->check(CLI::Range(2, 10'000'000));
  app.add_option(
      "--tokenizer", o.tokenizer_path,
      "folder with tokenizer.json, to count tokens of texts; default: estimates, and the server's own counts");
}

void add_pace_flags(CLI::App& app, LoadOptions& o) {
  app.add_option("--request-rate", o.request_rates,
                 "requests a second, arriving as a Poisson process; inf = all at once; several (1,2,4) make a sweep")
      ->delimiter(',')
      ->default_str("inf");
  option(app, "--burstiness", o.burstiness,
         "shape of the gaps between arrivals: 1 = Poisson, below 1 burstier, above 1 steadier")
      ->check(CLI::PositiveNumber);
  app.add_option("--ramp-up-strategy", o.ramp_up_strategy,
                 "change the rate from the first request to the last: linear or exponential")
      ->check(CLI::IsMember({"linear", "exponential"}));
  app.add_option("--ramp-up-start-rps", o.ramp_up_start_rps, "requests a second at the start of the ramp")
      ->check(CLI::PositiveNumber);
  app.add_option("--ramp-up-end-rps", o.ramp_up_end_rps, "requests a second at its end")->check(CLI::PositiveNumber);
  app.add_option("--max-concurrency", o.max_concurrency,
                 "requests (programs) in flight at most; default: no limit, of a workload 32")
      ->check(CLI::PositiveNumber);
  app.add_flag("--use-arrivals,--mooncake-use-timestamps", o.use_arrivals,
               "start items at their recorded times; divided by --request-rate when that is given");
}

namespace {

void add_request_flags(CLI::App& app, LoadOptions& o) {
  option(app, "--temperature", o.temperature, "of calls that bring none; 0 = greedy")->check(CLI::Range(0.0, 100.0));
  app.add_option("--top-p", o.top_p, "nucleus sampling")->check(CLI::Range(0.0, 1.0));
  app.add_option("--top-k", o.top_k, "the most likely tokens only; -1 = all");
  app.add_option("--min-p", o.min_p, "tokens at least so likely beside the likeliest")->check(CLI::Range(0.0, 1.0));
  app.add_option("--frequency-penalty", o.frequency_penalty, "of tokens, for each time they were said")
      ->check(CLI::Range(-2.0, 2.0));
  app.add_option("--presence-penalty", o.presence_penalty, "of tokens that were said")->check(CLI::Range(-2.0, 2.0));
  app.add_option("--repetition-penalty", o.repetition_penalty, "divides the logits of tokens that were said or asked")
      ->check(CLI::PositiveNumber);
  app.add_flag("--disable-stream", o.disable_stream, "whole replies; then only end-to-end times are known");
  app.add_flag("--disable-ignore-eos", o.disable_ignore_eos, "let the model end earlier than asked");
  app.add_flag("--ignore-eos")->description("the default; accepted for vLLM's habits");
  app.add_option("--extra-request-body,--extra-body", o.extra_request_body,
                 "JSON object merged over every request's body");
  app.add_flag("--return-logprob", o.return_logprob, "ask for log-probabilities of the output");
  app.add_flag("--apply-chat-template", o.apply_chat_template, "not done here: a -chat backend has the server do it");
  app.add_option("--lora-name,--lora-modules", o.lora_names, "adapters, drawn at random for each request");
  app.add_option("--select", o.select,
                 "how a choice is made: likelihood (scored by the server), constrain, generate (text, compared), auto: "
                 "likelihood where the server scores, else generate")
      ->transform(CLI::CheckedTransformer(kSelectMethods, CLI::ignore_case))
      ->default_str("auto");
  option(app, "--constraints", o.constraints,
         "regular expressions and schemas of a workload: on, off, auto: if the server takes them")
      ->check(CLI::IsMember({"auto", "on", "off"}));
  option(app, "--warmup-requests,--num-warmups", o.warmup_requests, "requests before the clock starts")
      ->check(CLI::NonNegativeNumber);
  app.add_flag("--flush-cache", o.flush_cache, "POST /flush_cache before each run (SGLang and Espalier)");
  app.add_flag("--fresh-connections", o.fresh_connections, "a connection for each request, closed after it");
  app.add_flag("--cache-report")->description("the default: cached tokens are reported wherever the server tells them");
  app.add_flag("--report-ideal", o.report_ideal,
               "ask for token ids and report the hit rate that an unlimited cache would have had (Espalier)");
  option(app, "--timeout", o.timeout_s, "seconds that one request may take")->check(CLI::PositiveNumber);
  app.add_option("--metric-percentiles", o.percentiles,
                 "report these percentiles of the latencies too: 25,50,99.9; 90, 95 and 99 always are")
      ->delimiter(',')
      ->check(CLI::Range(0.0, 100.0));
  app.add_option("--percentile-metrics")->description("accepted for vLLM's habits: all four are always reported");
  app.add_option("--metadata", o.metadata, "NAME=VALUE, kept in the file of --save-result; may be given again");
  app.add_option("--goodput", o.goodput,
                 "limits in ms, ttft:200 tpot:50 e2el:3000: report requests a second within all")
      ->delimiter(',');
}

Result<double> rate_of(const std::string& text) {
  if (text == "inf" || text == "infinity") return std::numeric_limits<double>::infinity();
  double rate = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (code != std::errc() || end != text.data() + text.size() || !(rate > 0) || std::isinf(rate))
    return bad_request(fmt::format("--request-rate {} must be a number above 0, or inf", text), "request-rate");
  return rate;
}

Result<> read_goodput(LoadOptions& o) {
  for (const std::string& limit : o.goodput) {
    const auto colon = limit.find(':');
    std::string name = limit.substr(0, colon);
    if (name == "e2e" || name == "e2e_latency") name = "e2el";
    double ms = 0;
    if (colon != std::string::npos) std::from_chars(limit.data() + colon + 1, limit.data() + limit.size(), ms);
    if ((name != "ttft" && name != "tpot" && name != "e2el") || !(ms > 0))
      return bad_request(fmt::format("--goodput {} must be ttft:MS, tpot:MS or e2el:MS", limit), "goodput");
    o.goodput_limits[name] = ms;
  }
  return success();
}

Result<> read_ramp(LoadOptions& o) {
  o.ramp.reset();
  if (o.ramp_up_strategy.empty() && !o.ramp_up_start_rps && !o.ramp_up_end_rps) return success();
  if (o.ramp_up_strategy.empty() || !o.ramp_up_start_rps || !o.ramp_up_end_rps)
    return bad_request("a ramp needs --ramp-up-strategy, --ramp-up-start-rps and --ramp-up-end-rps",
                       "ramp-up-strategy");
  if (o.rates != std::vector{std::numeric_limits<double>::infinity()})
    return bad_request("--request-rate and a ramp exclude each other: leave one out", "request-rate");
  o.ramp = Ramp{*o.ramp_up_start_rps, *o.ramp_up_end_rps, o.ramp_up_strategy == "exponential"};
  return success();
}

Result<> read_metadata(LoadOptions& o) {
  for (const std::string& pair : o.metadata) {
    const auto equals = pair.find('=');
    if (equals == std::string::npos || equals == 0)
      return bad_request(fmt::format("--metadata {} must be NAME=VALUE", pair), "metadata");
    o.metadata_values[pair.substr(0, equals)] = pair.substr(equals + 1);
  }
  return success();
}

void gather_sampling(LoadOptions& o) {
  o.sampling = Json();
  const auto put = [&](const char* name, const auto& value) {
    if (value) o.sampling[name] = *value;
  };
  put("top_p", o.top_p);
  put("top_k", o.top_k);
  put("min_p", o.min_p);
  put("frequency_penalty", o.frequency_penalty);
  put("presence_penalty", o.presence_penalty);
  put("repetition_penalty", o.repetition_penalty);
}

}  // namespace

void add_load_flags(CLI::App& app, LoadOptions& options) {
  add_dataset_flags(app, options);
  add_pace_flags(app, options);
  add_request_flags(app, options);
}

Result<> check(LoadOptions& o) {
  if (o.dataset.name.empty()) o.dataset.name = o.dataset_paths.empty() ? "random" : "workload";
  if (o.dataset.name != "workload" && o.dataset_paths.size() > 1)
    return bad_request("--dataset-path takes several files only with --dataset-name workload", "dataset-path");
  if (o.dataset.name == "workload" && o.dataset_paths.empty())
    return bad_request("--dataset-name workload needs --dataset-path: files of the format espalier-workload/1",
                       "dataset-path");
  if (!o.dataset_paths.empty()) o.dataset.path = o.dataset_paths.front();
  if (o.apply_chat_template)
    return bad_request(
        "--apply-chat-template is not done here: take a -chat backend, which has the server apply its template",
        "apply-chat-template");
  if (o.tokenize_prompt) o.prompt_form = "ids";
  o.dataset.ignore_eos = !o.disable_ignore_eos;
  o.rates.clear();
  for (const std::string& text : o.request_rates) {
    ESP_TRY(const double rate, rate_of(text));
    o.rates.push_back(rate);
  }
  ESP_CHECK(read_ramp(o));
  ESP_CHECK(read_goodput(o));
  ESP_CHECK(read_metadata(o));
  gather_sampling(o);
  if (!o.extra_request_body.empty()) {
    auto body = parse_json(o.extra_request_body);
    if (!body.ok() || !body->is_object())
      return bad_request(
          "--extra-request-body must be a JSON object" + (body.ok() ? std::string() : ": " + body.error().message),
          "extra-request-body");
    o.extra_body = std::move(*body);
  }
  if (!o.tokenizer_path.empty()) {
    ESP_TRY(o.dataset.tokenizer, Tokenizer::open_hf(o.tokenizer_path));
  }
  return success();
}

}  // namespace espalier::bench
