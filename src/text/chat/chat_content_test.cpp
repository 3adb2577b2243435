#include "text/chat/chat_content.h"

#include <gtest/gtest.h>

#include "text/chat/chat_template.h"

namespace espalier {
namespace {

ContentForm form_of(const std::string& source) {
  const auto parsed = ChatTemplate::parse(source);
  EXPECT_TRUE(parsed.ok()) << (parsed.ok() ? "" : parsed.error().message);
  return parsed->content_form();
}

const std::string kLoop = "{% for m in messages %}[{{ m.role }}]";

TEST(ContentForm, TemplatesThatWriteTheContentTakeTexts) {
  for (const char* body : {"{{ m.content }}", "{{ m.content | trim }}", "{{ '<' + m.content + '>' }}",
                           "{% if m.content is string %}{{ m.content }}{% endif %}", "{{ m['content'].strip() }}"}) {
    const ContentForm form = form_of(kLoop + body + "{% endfor %}");
    for (const char* role : {"system", "user", "assistant", "tool", "developer"})
      EXPECT_FALSE(form.takes_parts(role)) << body;
  }
}

TEST(ContentForm, TemplatesThatGoThroughPartsTakeThem) {
  const std::string through = "{% for p in m.content %}{{ p.text }}{% endfor %}";
  for (const std::string& body :
       {through, "{% if m.content is string %}{{ m.content }}{% else %}" + through + "{% endif %}",
        std::string("{{ m.content | map(attribute='text') | join('\n') }}"),
        std::string("{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p['text'] }}{% endfor %}")}) {
    EXPECT_TRUE(form_of(kLoop + body + "{% endfor %}").takes_parts("user")) << body;
  }
}

TEST(ContentForm, EachRoleIsAskedByItself) {
  const ContentForm form = form_of(
      "{% for m in messages %}{% if m.role == 'user' %}{% for p in m.content %}{{ p.text }}{% endfor %}"
      "{% elif m.role == 'tool' %}{{ m.content | tojson }}{% else %}{{ m.content }}{% endif %}{% endfor %}");
  EXPECT_TRUE(form.takes_parts("user"));
  EXPECT_FALSE(form.takes_parts("system"));
  EXPECT_FALSE(form.takes_parts("assistant"));
  EXPECT_FALSE(form.takes_parts("tool"));  // the list itself would be written
}

TEST(ContentForm, ContentsAreGivenAsTheTemplateTakesThem) {
  const Json messages =
      Json::parse(R"([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                                        {"role": "user", "content": "c"}, {"role": "assistant", "content": null}])");
  const std::string through = "{% for p in m.content %}{{ p.text }}{% endfor %}";
  const Json texts = form_of(kLoop + "{{ m.content }}{% endfor %}").adapt(messages);
  EXPECT_EQ(texts[0]["content"], "a b");
  EXPECT_EQ(texts[1]["content"], "c");
  EXPECT_TRUE(texts[2]["content"].is_null());
  const Json parts = form_of(kLoop + through + "{% endfor %}").adapt(messages);
  EXPECT_EQ(parts[0], messages[0]);
  EXPECT_EQ(parts[1]["content"], Json::parse(R"([{"type": "text", "text": "c"}])"));
  const Json either =
      form_of(kLoop + "{% if m.content is string %}{{ m.content }}{% else %}" + through + "{% endif %}{% endfor %}")
          .adapt(messages);
  EXPECT_EQ(either, messages);
}

TEST(ContentForm, TemplatesThatRefuseEverythingTakeTexts) {
  EXPECT_FALSE(form_of("{{ raise_exception('never') }}").takes_parts("user"));
}

TEST(ToolTemplate, IsTakenForConversationsWithTools) {
  const auto parsed = ChatTemplate::parse("plain", {}, "tools {{ tools[0].name }}");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message;
  const Json messages = Json::parse(R"([{"role": "user", "content": "x"}])"), none = Json::array();
  const Json tools = Json::parse(R"([{"name": "f"}])");
  ChatInput input;
  input.messages = &messages;
  EXPECT_EQ(*parsed->render(input), "plain");
  input.tools = &none;
  EXPECT_EQ(*parsed->render(input), "plain");
  input.tools = &tools;
  EXPECT_EQ(*parsed->render(input), "tools f");
  EXPECT_TRUE(parsed->mentions("tools"));
  EXPECT_FALSE(ChatTemplate::parse("plain", {}, "{% broken").ok());
}

}  // namespace
}  // namespace espalier
