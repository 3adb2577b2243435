#include "bench/workload/workload_file.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include "bench/workload/item_parser.h"
#include "bench/workload/json_lines.h"
#include "testing/data.h"
#include "testing/temp_folder.h"

namespace espalier::bench {
namespace {

std::string header(const std::string& kind, const std::string& api, int n, const std::string& order = "any") {
  return R"({"workload":"w","format":"espalier-workload/1","kind":")" + kind + R"(","order":")" + order +
         R"(","api":")" + api + R"(","n":)" + std::to_string(n) + "}\n";
}

std::string refusal(const std::string& text) {
  const auto workload = parse_workload(text, "w.jsonl");
  return workload.ok() ? "" : workload.error().message;
}

std::string with_ops(std::string ops, const std::string& api = "completions") {
  std::erase(ops, '\n');
  return header("programs", api, 1) + R"({"id":"a","ops":[)" + ops + "]}\n";
}

TEST(WorkloadFile, ReadsRequestsWithTheirFields) {
  const auto workload = parse_workload(
      header("requests", "completions", 2) +
          R"({"id":"a","prompt":"p","max_tokens":3,"temperature":0.5,"stop":["x"],"ignore_eos":true,"arrival":1.5,"share":[]})"
          "\n\n"
          R"({"id":"b","prompt":"q","max_tokens":1,"choices":[" A"," B"],"answer":" B","share":[]})"
          "\n",
      "w");
  ASSERT_TRUE(workload.ok()) << workload.error().message;
  EXPECT_FALSE(workload->programs);
  ASSERT_EQ(workload->items.size(), 2u);
  const auto& first = std::get<RequestWork>(workload->items[0].work);
  EXPECT_EQ(std::get<std::string>(first.call.prompt), "p");
  EXPECT_EQ(first.call.max_tokens, 3);
  EXPECT_EQ(first.call.temperature, 0.5);
  EXPECT_EQ(first.call.stop, std::vector<std::string>{"x"});
  EXPECT_TRUE(first.call.ignore_eos);
  EXPECT_EQ(workload->items[0].arrival, 1.5);
  EXPECT_EQ(std::get<RequestWork>(workload->items[1].work).choices, (std::vector<std::string>{" A", " B"}));
  EXPECT_EQ(workload->items[1].answer, " B");
}

TEST(WorkloadFile, RefusalsNameFileLineAndField) {
  const struct {
    std::string text, says;
  } cases[] = {
      {"", "w.jsonl line 1: is empty"},
      {"{", "w.jsonl line 1: "},
      {R"({"format":"espalier-workload/9"})", "line 1: format is \"espalier-workload/9\""},
      {header("request", "chat", 0), "line 1: kind is \"request\", but must be requests or programs"},
      {header("requests", "completions", 2) + R"({"id":"a","prompt":"p","max_tokens":3})", "says n = 2, but 1 items"},
      {header("requests", "completions", 2) + R"({"id":"a","prompt":"p","max_tokens":3})" + "\n" +
           R"({"id":"a","prompt":"p","max_tokens":3})",
       "line 3: id \"a\" stands on an earlier line"},
      {header("requests", "completions", 1) + R"({"id":"a","prompt":"p"})", "line 2: max_tokens"},
      {header("requests", "completions", 1) + "\n" + R"({"id":"a","prompt":"p","max_tokens":0})", "line 3: max_tokens"},
      {header("requests", "completions", 1) + R"({"id":"a","prompt":7,"max_tokens":1})", "line 2: prompt"},
      {header("requests", "chat", 1) + R"({"id":"a","messages":[{"role":"user"}],"max_tokens":1})",
       "line 2: messages[0].content"},
      {header("requests", "completions", 1) + R"({"id":"a","prompt":"p","max_tokens":1,"choices":["x"]})",
       "line 2: choices needs at least two"},
      {with_ops(R"({"op":"jump"})"), "line 2: ops[0].op is \"jump\""},
      {with_ops(R"({"op":"text","text":"x"})"), "no gen and no select"},
      {with_ops(R"({"op":"var","name":"x"},{"op":"gen","var":"x","max_tokens":1})"),
       "ops[0].name names \"x\", which no operation before it sets"},
      {with_ops(R"({"op":"gen","var":"x","max_tokens":1,"append":"script"})"), "ops[0].script is missing"},
      {with_ops(R"({"op":"gen","var":"x","max_tokens":1,"append":"twice"})"), "ops[0].append is \"twice\""},
      {with_ops(R"({"op":"msg","role":"user","ops":[]})"), "the file's api is completions"},
      {with_ops(R"({"op":"text","text":"x"})", "chat"), "ops[0] stands outside a message"},
      {with_ops(R"({"op":"msg","role":"user","ops":[{"op":"gen","var":"x","max_tokens":1}]})", "chat"),
       "ops[0].ops[0] is in a message of the user"},
      {with_ops(R"({"op":"msg","role":"tool","ops":[]})", "chat"), "ops[0].role is \"tool\""},
      {with_ops(R"({"op":"msg","role":"user","ops":[{"op":"msg","role":"user","ops":[]}]})", "chat"),
       "a message inside a message"},
      {with_ops(R"({"op":"fork","var":"f","from":"there","branches":[[]]})"), "ops[0].from is \"there\""},
      {with_ops(R"({"op":"fork","var":"f","from":"here","branches":[]})"), "ops[0].branches is empty"},
      {with_ops(
           R"({"op":"fork","var":"f","from":"here","wait":false,"branches":[[{"op":"gen","var":"x","max_tokens":1}]]},
                   {"op":"var","name":"f.0.x"})"),
       "ops[1].name reads f.0.x before the fork f is joined"},
      {with_ops(R"({"op":"join","vars":["f"]})"), "ops[0].vars[0] names \"f\", which is no fork"},
  };
  for (const auto& [text, says] : cases) {
    const std::string message = refusal(text);
    EXPECT_NE(message.find(says), std::string::npos) << "wanted: " << says << "\nfound:  " << message;
    EXPECT_TRUE(message.starts_with("w.jsonl line ")) << message;
  }
}

TEST(WorkloadFile, DeepNestingIsRefusedNotFollowed) {
  std::string deep = R"({"op":"gen","var":"x","max_tokens":1})";
  for (int i = 0; i < 40; ++i) deep = R"({"op":"fork","var":"f","from":"here","branches":[[)" + deep + "]]}";
  EXPECT_NE(refusal(with_ops(deep)), "");
}

TEST(WorkloadFile, GzippedAndPlainFilesReadAlikeAndATornOneIsRefused) {
  const testing::TempFolder folder;
  const std::string text = header("requests", "completions", 1) + R"({"id":"a","prompt":")" +
                           std::string(200'000, 'p') + R"(","max_tokens":3})" + "\n";
  const auto plain = folder.write("w.jsonl", text);
  const auto packed = folder.path() / "w.jsonl.gz";
  gzFile file = gzopen(packed.c_str(), "wb1");
  ASSERT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())), static_cast<int>(text.size()));
  gzclose(file);
  EXPECT_EQ(read_text_file(plain.string()).value(), text);
  EXPECT_EQ(read_text_file(packed.string()).value(), text);
  EXPECT_TRUE(read_workload(packed.string()).ok());

  std::string bytes = testing::read_file(packed);
  const auto torn = folder.write("torn.gz", bytes.substr(0, bytes.size() / 2));
  EXPECT_FALSE(read_workload(torn.string()).ok());
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  EXPECT_FALSE(read_workload(folder.write("bad.gz", bytes).string()).ok());
  EXPECT_EQ(read_workload((folder.path() / "absent").string()).error().kind, Error::Kind::not_found);
}

TEST(WorkloadFile, EverySharedWorkloadIsAccepted) {
  const auto folder = testing::shared("workloads");
  if (folder.empty()) GTEST_SKIP() << "no ../shared: its workload files are left out";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gz") continue;
    const auto workload = read_workload(entry.path().string());
    ASSERT_TRUE(workload.ok()) << workload.error().message;
    EXPECT_FALSE(workload->items.empty());
    ++files;
  }
  EXPECT_GE(files, 50);
}

TEST(Answer, IsFoundInWhatAModelWrites) {
  EXPECT_EQ(is_answer(nullptr, "x"), std::nullopt);
  EXPECT_EQ(is_answer("18", "9 * 2 = $18.\n"), true);
  EXPECT_EQ(is_answer("18", "18 eggs, so 20"), false);
  EXPECT_EQ(is_answer("70000", "The profit is $70,000"), true);
  EXPECT_EQ(is_answer("-5", "it is -5"), true);
  EXPECT_EQ(is_answer("5", "3-5"), true);
  EXPECT_EQ(is_answer("5", "no number"), false);
  EXPECT_EQ(is_answer(" B", " B"), true);
  EXPECT_EQ(is_answer(" B", " C"), false);
  EXPECT_EQ(is_answer("Love and Theft", "The answer: love and theft!"), true);
  EXPECT_EQ(is_answer("Tybalt", "Romeo"), false);
  EXPECT_EQ(is_answer(Json::parse(R"({"a":1,"b":[2]})"), R"({"b":[2],"a":1})"), true);
  EXPECT_EQ(is_answer(Json::parse(R"({"a":1})"), "{\"a\":2}"), false);
  EXPECT_EQ(is_answer(Json::parse(R"({"a":1})"), "no JSON"), false);
}

TEST(ProgramText, LinesSkipBlankOnesAndWrapAround) {
  EXPECT_EQ(line_of("a\n\n  \nb\nc", 0), "a");
  EXPECT_EQ(line_of("a\n\n  \nb\nc", 1), "b");
  EXPECT_EQ(line_of("a\n\n  \nb\nc", 4), "b");
  EXPECT_EQ(line_of(" \n\n", 2), "");
  EXPECT_EQ(line_of("", 0), "");
  EXPECT_EQ(stripped("  a b\n"), "a b");
  EXPECT_EQ(stripped(" \n"), "");
}

}  // namespace
}  // namespace espalier::bench
