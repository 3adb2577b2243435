// Calls as each format writes them (CallFormat::wire), in the situations that models bring about.
#include <gtest/gtest.h>

#include "base/json/json.h"
#include "text/answer/calls/json_scan.h"
#include "text/answer/fixtures/answer_cuts.h"

namespace espalier::every_call_format_test {
namespace {

using testing::cut_answer;
using testing::expect_same_however_cut;
using testing::options_of;

// A call to be written; arguments are members in order.
struct Call {
  std::string name;
  std::vector<std::pair<std::string, Json>> arguments;
};

Json object_of(const Call& call) {
  Json object = Json::object();
  for (const auto& [key, value] : call.arguments) object[key] = value;
  return object;
}

std::string python_literal(const Json& value);

std::string python_items(const Json& value) {
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += text.empty() ? "" : ", ";
    if (value.is_object()) text += "'" + key + "': ";
    text += python_literal(item);
  }
  return text;
}

std::string python_literal(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (value.is_array()) return "[" + python_items(value) + "]";
  if (value.is_object()) return "{" + python_items(value) + "}";
  return value.dump();  // strings: JSON's escapes are Python's
}

std::string gemma_literal(const Json& value, std::string_view mark) {
  if (value.is_string()) return std::string(mark) + value.get<std::string>() + std::string(mark);
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    text += text.empty() ? "" : ",";
    if (value.is_object()) text += key + ":";
    text += gemma_literal(item, mark);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

std::string member_value(const CallFormat& format, const Json& value) {
  if (format.wire.arguments == CallWire::Arguments::python) return python_literal(value);
  if (format.wire.arguments == CallWire::Arguments::gemma)
    return gemma_literal(value, format.name == "gemma4" ? "<|\"|>" : "<escape>");
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string arguments_text(const CallFormat& format, const Call& call) {
  const CallWire& wire = format.wire;
  if (wire.arguments == CallWire::Arguments::json) return object_of(call).dump();
  std::string text;
  for (const auto& [key, value] : call.arguments) {
    if (!text.empty()) text += wire.member_separator;
    text += wire.key_prefix;
    text += key;
    text += value.is_string() || wire.key_suffix_other.empty() ? wire.key_suffix : wire.key_suffix_other;
    text += member_value(format, value);
    text += wire.value_suffix;
  }
  return text;
}

std::string written(const CallFormat& format, const std::vector<Call>& calls) {
  std::string text;
  for (const Call& call : calls) {
    std::string prefix(format.wire.arguments_prefix);
    if (format.wire.numbered) prefix[1] = static_cast<char>('0' + (&call - calls.data()));
    text += text.empty() ? format.wire.begin : format.wire.separator;
    text += call.name + prefix + arguments_text(format, call);
  }
  return text += format.wire.end;
}

std::shared_ptr<const CallTools> tools_of(const std::vector<Call>& calls) {
  std::vector<CallableTool> tools;
  for (const Call& call : calls) {
    Json properties = Json::object();
    for (const auto& [key, value] : call.arguments) properties[key] = {{"type", std::string(type_name(value))}};
    tools.push_back({call.name, Json{{"type", "object"}, {"properties", properties}}.dump()});
  }
  return std::make_shared<const CallTools>(tools);
}

void expect_calls(const Answer& answer, const CallFormat& format, const std::vector<Call>& calls) {
  ASSERT_EQ(answer.calls.size(), calls.size()) << ::testing::PrintToString(answer);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(answer.calls[i].name, calls[i].name);
    const auto arguments = parse_json(answer.calls[i].arguments);
    ASSERT_TRUE(arguments.ok()) << answer.calls[i].arguments;
    EXPECT_EQ(*arguments, object_of(calls[i]));
    EXPECT_EQ(answer.calls[i].id, format.name_is_id ? "functions." + calls[i].name + ":" + std::to_string(i) : "");
  }
}

const Call kWeather{"get_weather", {{"city", "Paris"}, {"days", 3}}};
const Call kNothing{"list_files", {}};
const Call kNested{"plan",
                   {{"route", Json{{"stops", {"a", "b", {{"c", Json(nullptr)}}}}, {"fast", true}}},
                    {"weights", Json{1, 2.5, -3}},
                    {"dry", false}}};
const Call kUnicode{"übersetze_文", {{"text", "Grüße, 世界 😀 é"}, {"nach", "日本語"}}};
const Call kEscapes{"write", {{"path", "C:\\tmp\\a"}, {"line", "say \"hi\"\tand {go} [on], 'ok'; a:b"}}};
const Call kLines{"run", {{"code", "def f(x):\n  return [x, {'a': 1}]\n\nprint(f(2))"}}};

class EveryCallFormat : public ::testing::TestWithParam<const CallFormat*> {
 protected:
  const CallFormat& format() const { return *GetParam(); }
  bool marked() const { return !format().wire.begin.starts_with('{') && !format().wire.begin.starts_with('['); }
  bool harmony() const { return format().family == CallFamily::harmony; }

  void expect_read(const std::vector<Call>& calls, std::string_view before = "", std::string_view after = "",
                   std::string_view content = "") {
    const std::string text = std::string(before) + written(format(), calls) + std::string(after);
    const AnswerOptions options{.calls = &format(), .tools = tools_of(calls)};
    const Answer answer = parse_answer(text, options);
    expect_calls(answer, format(), calls);
    EXPECT_EQ(answer.content, content) << text;
    EXPECT_EQ(answer.thinking, "");
    expect_same_however_cut(text, options);
  }
};

TEST_P(EveryCallFormat, ReadsACall) {
  expect_read({kWeather});
}

TEST_P(EveryCallFormat, ReadsACallWithoutArguments) {
  expect_read({kNothing});
}

TEST_P(EveryCallFormat, ReadsNestedValues) {
  expect_read({kNested});
}

TEST_P(EveryCallFormat, ReadsLettersOfAllScripts) {
  expect_read({kUnicode});
}

TEST_P(EveryCallFormat, ReadsQuotesAndBackslashes) {
  expect_read({kEscapes});
}

TEST_P(EveryCallFormat, ReadsLinesOfCode) {
  expect_read({kLines});
}

TEST_P(EveryCallFormat, ReadsSeveralCalls) {
  if (format().wire.separator.empty()) return expect_read({kWeather});
  expect_read({kWeather, kNothing, kNested});
}

TEST_P(EveryCallFormat, KeepsTextAroundCalls) {
  if (harmony())
    return expect_read({kWeather}, "<|channel|>commentary<|message|>Wait.<|end|><|start|>assistant", "", "Wait.");
  expect_read({kWeather}, marked() ? "Let me look.\n\n" : "", "\n", marked() ? "Let me look." : "");
  // A format without an end mark cannot tell text from the call's own tail unless the call closes by itself.
  expect_read({kWeather}, "", "\nDone.", "Done.");
}

TEST_P(EveryCallFormat, TakesMarksInStringsAsText) {
  const bool json = format().wire.arguments == CallWire::Arguments::json;
  std::string text = "see " + std::string(format().opens[0]) + " and {\"name\": \"x\"}";
  if (json) text += " " + std::string(format().ends[0]) + std::string(format().call_end);
  if (harmony()) text += "<|call|><|end|>";
  expect_read({{"note", {{"text", text}}}});
}

TEST_P(EveryCallFormat, ReadsCallsBehindThinking) {
  if (harmony()) return;  // gpt_oss_test
  const std::string text = "<think>\nFirst, {look}.\n</think>\n\n" + written(format(), {kWeather});
  const AnswerOptions options{
      .calls = &format(), .thinking = *thinking_format("qwen3", ""), .tools = tools_of({kWeather})};
  const Answer answer = parse_answer(text, options);
  expect_calls(answer, format(), {kWeather});
  EXPECT_EQ(answer.thinking, "First, {look}.");
  EXPECT_EQ(answer.content, "");
  expect_same_however_cut(text, options);
}

TEST_P(EveryCallFormat, GivesBackWhatIsNoCall) {
  if (harmony()) return;
  for (const std::string_view behind : {" is how calls begin.", "{\"broken\": tru", "{\"name\": 3}", "[1, 2]", ""}) {
    const std::string text = "In prose, " + std::string(format().opens[0]) + std::string(behind);
    const AnswerOptions options{.calls = &format()};
    EXPECT_EQ(parse_answer(text, options), (Answer{{}, text, {}}));
    expect_same_however_cut(text, options);
  }
}

// At every place: what was told stays, and text that has no call in it is there, whole.
TEST_P(EveryCallFormat, ReadsAnswersThatBreakOff) {
  const std::vector<Call> calls =
      format().wire.separator.empty() ? std::vector{kEscapes} : std::vector{kEscapes, kNested};
  const std::string text = written(format(), calls);
  const AnswerOptions options{.calls = &format(), .tools = tools_of(calls)};
  const Answer whole = parse_answer(text, options);
  for (std::size_t size = 0; size < text.size(); ++size) {
    const std::string begun = text.substr(0, size);
    const Answer answer = cut_answer(begun, options, {1});
    ASSERT_LE(answer.calls.size(), whole.calls.size());
    if (answer.calls.empty() && !harmony()) {
      ASSERT_EQ(answer.content, begun);
    }
    for (std::size_t i = 0; i < answer.calls.size(); ++i) {
      ASSERT_EQ(answer.calls[i].name, whole.calls[i].name);
      const std::string& arguments = answer.calls[i].arguments;
      const bool closed = parse_json(arguments).ok();
      ASSERT_TRUE(closed || whole.calls[i].arguments.starts_with(arguments) ||
                  format().wire.arguments != CallWire::Arguments::json)
          << arguments;
    }
  }
}

// Any byte of a call may be wrong: nothing fails, and the pieces are the same however it is cut.
TEST_P(EveryCallFormat, ReadsDamagedCalls) {
  const std::string text = written(format(), {kWeather});
  const AnswerOptions options{
      .calls = &format(), .thinking = *thinking_format("qwen3", ""), .tools = tools_of({kWeather})};
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string without = text, changed = text;
    without.erase(at, 1);
    changed[at] = changed[at] == '"' ? ' ' : '"';
    for (const std::string& damaged : {without, changed})
      ASSERT_EQ(cut_answer(damaged, options, {1}), parse_answer(damaged, options)) << damaged;
  }
}

std::vector<const CallFormat*> all_formats() {
  std::vector<const CallFormat*> all;
  for (const CallFormat& format : call_formats()) all.push_back(&format);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryCallFormat, ::testing::ValuesIn(all_formats()),
                         [](const auto& format) { return std::string(format.param->name); });

}  // namespace
}  // namespace espalier::every_call_format_test
