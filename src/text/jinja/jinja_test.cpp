// The language against recorded renderings of the original, and what a hostile template can do: nothing.
#include <gtest/gtest.h>

#include "testing/data.h"
#include "text/jinja/template.h"

namespace espalier::jinja {
namespace {

Result<std::string> render(const std::string& source, const Json& context = Json::object(), const Limits& limits = {}) {
  ESP_TRY(const Template parsed, Template::parse(source));
  Template::Context variables;
  for (auto it = context.begin(); it != context.end(); ++it) variables.emplace_back(it.key(), &it.value());
  return parsed.render(variables, 0, limits);
}

std::string shown(const Result<std::string>& result) {
  return result.ok() ? *result : "error: " + result.error().message;
}

TEST(Jinja, RendersWhatTheOriginalRenders) {
  const Json golden = Json::parse(testing::read_file(testing::data("goldens/tokenizers/jinja.json")));
  int cases = 0;
  for (const char* group : {"given", "none", "random"}) {
    for (const Json& c : golden[group]["cases"]) {
      ++cases;
      const auto rendered = render(c["template"], golden[group]["context"]);
      if (c.contains("rendered")) {
        EXPECT_EQ(shown(rendered), c["rendered"].get<std::string>()) << c["template"];
      } else {
        EXPECT_FALSE(rendered.ok()) << c["template"];
      }
    }
  }
  EXPECT_GT(cases, 1'000);
}

// Programs that ask for more time or memory than there is: an Error, whatever they do.
TEST(JinjaLimits, AHostileTemplateFailsItsRequestAndNothingElse) {
  const std::string grow = "{% set ns = namespace(s='xxxxxxxxxx', l=[1]) %}{% for i in range(40) %}";
  const auto many = [](int n, const std::string& part) {
    std::string all;
    for (int i = 0; i < n; ++i) all += part;
    return all;
  };
  const std::string nest =
      "{% set ns = namespace(l=[]) %}{% for i in range(99999) %}{% set ns.l = [ns.l] %}{% endfor %}";
  const std::vector<std::string> programs = {
      grow + "{% set ns.s = ns.s ~ ns.s %}{% endfor %}{{ ns.s }}",
      grow + "{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}",
      grow + "{% set ns.s %}{{ ns.s }}{{ ns.s }}{% endset %}{% endfor %}{{ ns.s }}",
      grow + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l }}",
      grow + "{% set ns.l = [ns.l, ns.l] %}{% endfor %}{{ ns.l|tojson }}",
      grow + "{% set ns.l = ns.l + ns.l %}{% endfor %}{{ ns.l|length }}",
      grow + "{% set ns.s = ns.s|replace('x', ns.s) %}{% endfor %}",
      nest + "{{ ns.l }}",
      nest + "{{ ns.l == [ns.l] }}{{ ns.l|tojson }}",
      "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
      "{% set ns = namespace() %}{% set ns.a = [ns] %}{{ ns.a == [ns.a] }}{{ [ns.a]|sort }}{{ ns }}",
      "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m() %}{{ m() ~ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{{ m(n - 1) ~ m(n - 1) if n else 'x' * 1000 }}{% endmacro %}{{ m(60) }}",
      "{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
      "{{ 'x' * 1000000000 }}",
      "{{ [0] * 1000000000 }}",
      "{{ 'x'.center(10000000000) }}{{ 'x'.zfill(9999999999) }}",
      "{{ '%1000000000d' % 1 }}",
      "{{ '%.1000000000f' % 1.5 }}",
      "{{ '{:1000000000}'.format(1) }}",
      "{{ '{:{}}'.format(1, 1000000000) }}",
      "{{ ('x' * 1000000)|join('y' * 1000) }}",
      "{{ ('x' * 1000000).replace('x', 'y' * 1000000) }}",
      "{{ ('a\\n' * 100000)|indent(100000) }}",
      "{{ [1]|batch(1000000000, 0)|list }}",
      "{{ [1]|slice(1000000000)|list }}",
      "{{ {'a': 1}|tojson(indent=1000000000) }}" +
          many(50, "{{ [[[[[[1]]]]]]|tojson(indent=1000000) }}{{ 'x' * 100000 }}"),
      "{{ range(100000000000)|list }}",
      "{{ range(-9223372036854775807, 9223372036854775807) }}",
      "{{ 10 ** 10000000 }}{{ 9223372036854775807 * 9223372036854775807 }}",
      "{% for i in range(99999) %}{% set x = range(99999)|sort %}{% endfor %}",
      "{% set s = 'x' * 4000000 %}{% for i in range(99999) %}{{ 'y' in s }}{% endfor %}",
      "{% set s = 'a' * 2000000 %}{% for i in range(9999) %}{{ s.find('a' * 1000000 ~ 'b') }}{% endfor %}",
      "{% set s = 'ab' * 1000000 %}{% for i in range(9999) %}{{ s.rfind('b' * 1000) }}{{ s.rsplit('ba')|length }}" +
          std::string("{% endfor %}"),
      "{{ ('x' * 4000000).split('x')|length }}{{ ('x ' * 2000000).split()|length }}{{ ('x' * 4000000)|list|length }}",
      "{{ dict([[1, 2]] * 100000)|length }}{% for i in range(999) %}{{ range(99999)|unique|list|length }}{% endfor %}",
      "{{ 1" + many(100'000, "+1") + " }}",
      "{{ a" + many(100'000, ".a") + " }}",
      "{{ a" + many(50'000, "|upper") + " }}",
      "{{ " + many(50'000, "not ") + "a }}",
      "{{ " + many(50'000, "-") + "1 }}",
      "{{ " + many(50'000, "(") + "1" + many(50'000, ")") + " }}",
      "{{ " + many(50'000, "[") + many(50'000, "]") + " }}",
      many(20'000, "{% if 1 %}") + many(20'000, "{% endif %}"),
      many(20'000, "{% for x in y %}"),
      "{{ " + many(20'000, "1 if 0 else ") + "2 }}",
      "{% set " + many(20'000, "(") + "a" + many(20'000, ")") + " = 1 %}",
      std::string((1 << 20) + 1, 'x'),
  };
  for (const std::string& program : programs) {
    const auto rendered = render(program);
    EXPECT_FALSE(rendered.ok()) << program.substr(0, 120) << " -> " << (rendered.ok() ? rendered->substr(0, 100) : "");
    if (!rendered.ok()) {
      EXPECT_FALSE(rendered.error().message.empty());
    }
  }
}

TEST(JinjaLimits, EachLimitHoldsAtItsValueAndRefusesBeyond) {
  const auto ok = [](const std::string& source, const Limits& limits) {
    return render(source, Json::object(), limits).ok();
  };
  const Limits usual{.cpu_milliseconds = 0};

  Limits output = usual;
  output.output_bytes = 10;
  EXPECT_TRUE(ok("{{ 'x' * 10 }}", output));
  EXPECT_FALSE(ok("{{ 'x' * 11 }}", output));
  EXPECT_FALSE(ok("{{ 'x' * 6 }}{{ 'x' * 5 }}", output));

  Limits depth = usual;
  depth.depth = 5;
  const std::string macro = "{% macro m(n) %}{{ m(n - 1) if n }}{% endmacro %}";
  EXPECT_TRUE(ok(macro + "{{ m(4) }}", depth));
  EXPECT_FALSE(ok(macro + "{{ m(5) }}", depth));

  Limits steps = usual;
  steps.steps = 2'000;
  EXPECT_TRUE(ok("{% for i in range(100) %}x{% endfor %}", steps));
  EXPECT_FALSE(ok("{% for i in range(2000) %}x{% endfor %}", steps));

  Limits memory = usual;
  memory.memory_bytes = 100'000;
  EXPECT_TRUE(ok("{% set x = 'x' * 10000 %}", memory));
  EXPECT_FALSE(ok("{% set x = 'x' * 100000 %}", memory));
}

TEST(JinjaLimits, TimeIsLimitedToo) {
  Limits limits;
  limits.steps = 1'000'000'000'000;
  limits.cpu_milliseconds = 20;
  const auto rendered =
      render("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", Json::object(), limits);
  ASSERT_FALSE(rendered.ok());
  EXPECT_NE(rendered.error().message.find("20 ms"), std::string::npos) << rendered.error().message;
}

TEST(JinjaLimits, ALongConversationStaysFarBelowThem) {
  Json messages = Json::array();
  for (int i = 0; i < 4'096; ++i)
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(500, 'x')}});
  const Json golden = Json::parse(testing::read_file(testing::golden("tokenizers/templates") / "qwen3.json"));
  Limits half;
  half.steps /= 2;
  half.memory_bytes /= 2;
  half.cpu_milliseconds = 0;
  const auto rendered = render(golden["template"], {{"messages", messages}, {"add_generation_prompt", true}}, half);
  ASSERT_TRUE(rendered.ok()) << rendered.error().message;
  EXPECT_GT(rendered->size(), 4'096u * 500);
}

TEST(JinjaErrors, GiveTheLineAndSayWhatIsWrong) {
  EXPECT_EQ(shown(render("a\nb {{ x.y.z }}")),
            "error: the chat template cannot be applied: 'x' is undefined (line 2 of the chat template)");
  EXPECT_EQ(shown(render("{{ 'a' + 1 }}")),
            "error: the chat template cannot be applied: '+' has no meaning between a string and an integer (line 1 of "
            "the chat template)");
  EXPECT_EQ(shown(render("\n{% frobnicate %}")),
            "error: the chat template cannot be parsed: unknown tag 'frobnicate', in line 2");
  EXPECT_EQ(
      shown(render("{{ x|frob }}")),
      "error: the chat template cannot be applied: there is no filter named 'frob' (line 1 of the chat template)");
  EXPECT_EQ(shown(render("{{ [1].append(2) }}")),
            "error: the chat template cannot be applied: templates cannot change lists and dicts; build new ones with "
            "+ or dict() (line 1 of the chat template)");
  EXPECT_EQ(shown(render("{% include 'x' %}")),
            "error: the chat template cannot be applied: {% include %} is not available: a chat template stands alone "
            "(line 1 of the chat template)");
}

TEST(JinjaSafety, NothingOfTheHostCanBeReached) {
  for (const char* source : {"{{ ''.__class__.__mro__ }}", "{{ messages.__init__() }}", "{{ range.__globals__['x'] }}",
                             "{{ (''|attr('__class__')).x }}", "{{ '{0.__class__.x}'.format('') }}",
                             "{{ cycler.__init__.__globals__.os }}", "{{ self.__dict__.x }}"}) {
    const auto rendered = render(source, {{"messages", Json::array()}});
    EXPECT_FALSE(rendered.ok()) << source << " -> " << shown(rendered);
  }
}

TEST(JinjaUnicode, TextMayHoldAnythingButStaysWhole) {
  const Json context = {{"s", "é😀ﬁß"}};
  EXPECT_EQ(shown(render("{{ s[1] }}{{ s|length }}{{ s[::-1]|length }}{{ s.upper()[2:4] }}", context)), "😀44FI");
  EXPECT_EQ(shown(render("{{ 'ǆ'.title() }}{{ 'ᾳ'.title() }}{{ 'ŉ'.upper() }}")), "ǅᾼʼN");
}

}  // namespace
}  // namespace espalier::jinja
