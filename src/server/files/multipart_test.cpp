// Forms taken apart: what was put together comes out, and what is broken is refused.
#include "server/files/multipart.h"

#include <gtest/gtest.h>

#include <random>

#include "testing/data.h"

namespace espalier::server::multipart_test {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=XyZ";

std::string code_of(const Result<std::vector<FormPart>>& parsed) {
  return parsed.ok() ? "" : parsed.error().code;
}

TEST(Multipart, TakesPartsWithTheirNamesAndFiles) {
  const std::string body =
      "preamble\r\n--XyZ\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n"
      "--XyZ  \r\ncontent-disposition: form-data; filename=\"a \\\"b\\\".jsonl\"; name=file\r\n"
      "Content-Type: application/jsonl\r\n\r\n{}\r\n{}\r\n\r\n--XyZ--\r\nepilogue";
  const auto parts = parse_multipart("Multipart/Form-Data; charset=utf-8; boundary=\"XyZ\"", body);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 2u);
  EXPECT_EQ((*parts)[0].name, "purpose");
  EXPECT_EQ((*parts)[0].content, "batch");
  EXPECT_EQ((*parts)[0].filename, "");
  EXPECT_EQ((*parts)[1].name, "file");
  EXPECT_EQ((*parts)[1].filename, "a \"b\".jsonl");
  EXPECT_EQ((*parts)[1].content, "{}\r\n{}\r\n");
}

TEST(Multipart, ContentMayLookLikeADelimiter) {
  const std::string content = "\r\n--XyZw\r\n--Xy\r\r\n--XyZ-\r\n\r--XyZ--";
  const std::string body = "--XyZ\r\nContent-Disposition: form-data; name=f\r\n\r\n" + content + "\r\n--XyZ--";
  const auto parts = parse_multipart(kType, body);
  ASSERT_TRUE(parts.ok()) << parts.error().message;
  ASSERT_EQ(parts->size(), 1u);
  EXPECT_EQ(parts->front().content, content);
}

TEST(Multipart, AnEmptyContentIsOne) {
  for (const char* body : {"--XyZ\r\nContent-Disposition: form-data; name=f\r\n\r\n\r\n--XyZ--",
                           "--XyZ\r\nContent-Disposition: form-data; name=f\r\n\r\n--XyZ--"}) {
    const auto parts = parse_multipart(kType, body);
    ASSERT_TRUE(parts.ok()) << body;
    EXPECT_EQ(parts->front().content, "");
  }
  EXPECT_TRUE(parse_multipart(kType, "--XyZ--")->empty());
}

TEST(Multipart, RefusesWhatIsBroken) {
  EXPECT_EQ(code_of(parse_multipart("application/json", "{}")), "unsupported_media_type");
  EXPECT_EQ(code_of(parse_multipart("multipart/form-data", "--\r\n")), "invalid_multipart");
  EXPECT_EQ(code_of(parse_multipart("multipart/form-data; boundary=" + std::string(71, 'x'), "")), "invalid_multipart");
  EXPECT_EQ(code_of(parse_multipart("multipart/form-data; boundary=\"x", "--x--")), "invalid_multipart");
  const std::string head = "--XyZ\r\nContent-Disposition: form-data; name=f\r\n\r\n";
  for (const std::string& body :
       {std::string(), std::string("--XyZ"), std::string("--XyZ\r\n"), head, head + "x\r\n--XyZ", head + "x\r\n--XyZ-",
        std::string("--XyZ\r\n\r\nx\r\n--XyZ--"), std::string("--XyZ\r\nno colon\r\n\r\nx\r\n--XyZ--")}) {
    EXPECT_EQ(code_of(parse_multipart(kType, body)), "invalid_multipart") << body;
  }
  std::string many;
  for (int i = 0; i < 65; ++i) many += head + "x\r\n";
  EXPECT_EQ(code_of(parse_multipart(kType, many + "--XyZ--")), "invalid_multipart");
  EXPECT_EQ(code_of(parse_multipart(kType, "--XyZ\r\nA: " + std::string(9000, 'x') + "\r\n\r\nx\r\n--XyZ--")),
            "invalid_multipart");
}

TEST(Multipart, WhatWasPutTogetherComesOut) {
  std::mt19937_64 rng(testing::seed());
  for (int round = 0; round < 500; ++round) {
    SCOPED_TRACE("seed " + std::to_string(testing::seed()) + " round " + std::to_string(round));
    std::vector<std::string> contents(rng() % 4);
    std::string body;
    for (auto& content : contents) {
      for (std::size_t i = rng() % 40; i > 0; --i) content += "\r\n-XyZ a\n"[rng() % 9];
      // What a sender checks, too: its boundary is not in the content.
      if (("\r\n" + content).find("\r\n--XyZ") != std::string::npos) content.clear();
      body += "--XyZ\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n" + content + "\r\n";
    }
    const auto parts = parse_multipart(kType, body + "--XyZ--\r\n");
    ASSERT_TRUE(parts.ok()) << parts.error().message;
    ASSERT_EQ(parts->size(), contents.size());
    for (std::size_t i = 0; i < contents.size(); ++i) EXPECT_EQ((*parts)[i].content, contents[i]);
  }
}

}  // namespace
}  // namespace espalier::server::multipart_test
