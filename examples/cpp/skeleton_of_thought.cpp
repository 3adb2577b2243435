// Skeleton of thought: an outline first, then all of its points written out at the same time.
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr int kPoints = 3;
constexpr const char* kQuestion = "What makes a good bicycle?";

void skeleton(sgl::State& s) {
  s += sgl::user(kQuestion + ("\nGive " + std::to_string(kPoints)) + " short points as an outline, one a line.");
  const auto turn = s.role("assistant");
  for (int i = 0; i < kPoints; ++i) {
    const std::string name = "point" + std::to_string(i);
    s += std::to_string(i + 1) + ". " + sgl::gen(name, {.max_tokens = 16, .regex = R"([A-Z][a-z ,]{4,40}\.)"}) + "\n";
  }
}

void expand(sgl::State& s, const sgl::Arguments& given) {
  s += sgl::user(sgl::Expr(kQuestion) + "\nThe outline: " + given["outline"] + "\nWrite two sentences on point " +
                 given["number"] + ": " + given["point"]);
  s += sgl::assistant(sgl::gen("text", {.max_tokens = 48}));
}

int main() {
  const sgl::RunOptions options = {.backend = example::open_backend(), .defaults = {.temperature = 0}};
  const sgl::State state = sgl::run(skeleton, options);
  std::vector<std::string> points;
  std::string outline;
  for (int i = 0; i < kPoints; ++i) {
    points.push_back(state["point" + std::to_string(i)]);
    outline += (i > 0 ? "; " : "") + points.back();
  }
  std::vector<sgl::Arguments> items;
  for (int i = 0; i < kPoints; ++i) items.push_back({{"outline", outline}, {"number", i + 1}, {"point", points[i]}});
  const auto written = sgl::Function("expand", {"outline", "number", "point"}, expand).run_batch(items, options);
  for (int i = 0; i < kPoints; ++i) std::cout << "- " << points[i] << "\n  " << written[i]["text"].text() << "\n";
}
