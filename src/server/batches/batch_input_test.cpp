// Lines of a batch's file: bodies stay the text that they are, and faults are listed by line.
#include "server/batches/batch_input.h"

#include <gtest/gtest.h>

namespace espalier::server::batch_input_test {
namespace {

std::string line(const std::string& id, const std::string& body = "{}") {
  return R"({"custom_id": ")" + id + R"(", "method": "POST", "url": "/v1/x", "body": )" + body + "}";
}

TEST(BatchInput, ABodyIsTheTextThatItIs) {
  const std::string body = R"({"a": 1.0, "big": 123456789012345678901234567890, "a": "\u00e9"})";
  const auto input = parse_batch_input("\n" + line("a", body) + "\r\n  \n" + line("b"), "/v1/x");
  ASSERT_TRUE(input.faults.empty()) << input.faults[0].message;
  ASSERT_EQ(input.lines.size(), 2u);
  EXPECT_EQ(input.lines[0].custom_id, "a");
  EXPECT_EQ(input.lines[0].body, body);
  EXPECT_EQ(input.lines[1].body, "{}");
}

TEST(BatchInput, FaultsHaveTheirLines) {
  const auto input = parse_batch_input(
      line("a") + "\n\nnull\n" + line("a") + "\n" + line("b", R"("{}")") + "\n" + line(std::string(513, 'x')), "/v1/x");
  std::vector<std::pair<std::size_t, std::string>> told;
  for (const BatchFault& fault : input.faults) told.emplace_back(fault.line, fault.code);
  EXPECT_EQ(told, (std::vector<std::pair<std::size_t, std::string>>{
                      {3, "invalid_json_line"}, {4, "duplicate_custom_id"}, {6, "invalid_request"}}));
  EXPECT_EQ(parse_batch_input(line("a"), "/v1/y").faults[0].code, "mismatched_url");
  EXPECT_EQ(parse_batch_input("", "/v1/x").faults[0].code, "empty_file");
  std::string many;
  for (int i = 0; i < 300; ++i) many += "x\n";
  EXPECT_EQ(parse_batch_input(many, "/v1/x").faults.size(), 100u);
}

TEST(BatchInput, ThereAreAtMostSoMany) {
  std::string many;
  for (std::size_t i = 0; i <= kMostBatchLines; ++i) many += line(std::to_string(i)) + "\n";
  EXPECT_EQ(parse_batch_input(many, "/v1/x").faults[0].code, "too_many_tasks");
}

}  // namespace
}  // namespace espalier::server::batch_input_test
