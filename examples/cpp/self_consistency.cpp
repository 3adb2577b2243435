// Self-consistency: several ways of thinking about one question, and the answer that most of them come to.
#include <algorithm>
#include <iostream>
#include <map>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kExample =
    R"(Question: Ann has 3 bags with 5 pears each and eats 2 pears. How many pears are left?
Let's think: 3 times 5 is 15, and 15 minus 2 is 13.
So the number is 13

)";
constexpr const char* kQuestion = "Tom has 4 boxes with 6 apples each and eats 3 apples. How many apples are left?";

void think(sgl::State& s, const std::string& question, int ways) {
  s += sgl::Expr(kExample) + "Question: " + question + "\n";
  auto forks = s.fork(ways);
  forks += "Let's think:" + sgl::gen("thought", {.max_tokens = 40, .stop = "\n", .temperature = 0.7});
  forks += "\nSo the number is " + sgl::gen("answer", {.temperature = 0, .regex = "[0-9]{1,3}"});
  forks.join();
}

int main() {
  const sgl::State state =
      sgl::run([](sgl::State& s) { think(s, kQuestion, 5); }, {.backend = example::open_backend()});
  std::map<std::string, int> votes;
  for (const sgl::Value& answer : state["answer"].list()) ++votes[answer.text()];
  std::cout << "votes:";
  for (const auto& [answer, count] : votes) std::cout << " " << answer << ": " << count;
  const auto by_votes = [](const auto& one, const auto& other) { return one.second < other.second; };
  std::cout << " -> answer: " << std::ranges::max_element(votes, by_votes)->first << "\n";
}
