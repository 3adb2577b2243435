// Tree of thought: proposes several next steps, keeps the most promising, goes deeper, and answers from the best path.
#include <algorithm>
#include <iostream>

#include "_backend.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kQuestion = "A shop sells pens at 3 for 2 dollars. How much do 12 pens cost?";
constexpr int kBranches = 3, kDepth = 2;

// n thoughts that go on from here, each with a vote of how sure it is.
sgl::ForkGroup propose(sgl::State& s, int n) {
  auto forks = s.fork(n);
  forks += "\nThought: " + sgl::gen("thought", {.max_tokens = 32, .stop = "\n", .temperature = 0.8});
  forks += "\nIs this thought sure, likely or impossible? It is ";
  forks += sgl::select("vote", {"sure", "likely", "impossible"});
  forks.join();
  return forks;
}

int rank(const sgl::State& thought) {
  const std::string vote = thought["vote"];
  return vote == "sure" ? 0 : vote == "likely" ? 1 : 2;
}

void solve(sgl::State& s) {
  s += sgl::Expr("Question: ") + kQuestion + "\nThink step by step.";
  for (int depth = 0; depth < kDepth; ++depth) {
    auto forks = propose(s, kBranches);
    const sgl::State& best = *std::ranges::min_element(forks, {}, rank);
    s += "\nThought:" + best["thought"];
  }
  s += "\nSo the answer in dollars is " + sgl::gen("answer", {.regex = "[0-9]{1,4}"});
}

int main() {
  const sgl::State state = sgl::run(solve, {.backend = example::open_backend()});
  std::cout << state.text() << "\n";
}
