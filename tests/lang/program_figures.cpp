// Draws the graphs of three of the example programs: docs/figures/graph-*.svg.
//
//   program_figures FOLDER           writes them
//   program_figures --check FOLDER   fails where a file there is not what it would write
//
// The judge and the retrieval say what their examples say without looking at values, so that they are graphs to their
// ends; the tree of thought looks, and its graph ends there.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>

#include "espalier/graph.h"

namespace sgl = espalier;

namespace {

sgl::Function judge() {
  return sgl::Function("judge", {"essay"}, [](sgl::State& s, const sgl::Arguments& args) {
    s += sgl::system("You evaluate essays.") + sgl::user("Text: " + args["essay"] + "\nWhat kind of text is this?");
    s += sgl::assistant("Kind of text: " + sgl::select("kind", {"essay", "recipe", "letter"}));
    const std::vector<std::string> dimensions{"clarity", "originality", "evidence"};
    auto forks = s.fork(3);
    forks += [&](int i) { return sgl::user("Judge its " + dimensions[static_cast<std::size_t>(i)] + "."); };
    forks += sgl::assistant(sgl::gen("judgement", {.max_tokens = 40, .stop = "\n"}) +
                            "\nScore: " + sgl::gen("score", {.regex = "[1-5]"}));
    forks.join();
    sgl::Expr all = "The judgements:\n";
    for (std::size_t i = 0; i < 3; ++i) all += dimensions[i] + ": " + forks[i]["judgement"] + "\n";
    s += sgl::user(all + "Summarise them with a grade.");
    s += sgl::assistant(sgl::gen("summary", {.max_tokens = 60, .stop = "\n"}) +
                        "\nGrade: " + sgl::gen("grade", {.regex = "[ABCD][+-]?"}));
  });
}

sgl::Function tree_of_thought() {
  return sgl::Function("tree_of_thought", {"question"}, [](sgl::State& s, const sgl::Arguments& args) {
    s += "Question: " + args["question"] + "\nThink step by step.";
    auto forks = s.fork(3);
    forks += "\nThought: " + sgl::gen("thought", {.max_tokens = 32, .stop = "\n", .temperature = 0.8});
    forks += "\nIs this thought sure, likely or impossible? It is ";
    forks += sgl::select("vote", {"sure", "likely", "impossible"});
    forks.join();
    for (auto& one : forks)
      if (one["vote"].text() == "sure") s += "\nThought:" + one["thought"];
    s += "\nSo the answer is " + sgl::gen("answer", {.regex = "[0-9]{1,4}"});
  });
}

sgl::Function retrieval() {
  return sgl::Function("rag", {"question", "first", "second"}, [](sgl::State& s, const sgl::Arguments& args) {
    s += sgl::system("You answer questions from the passage that is given.");
    auto forks = s.fork(2);
    forks[0] += sgl::user("Passage: " + args["first"] + "\nQuestion: " + args["question"]);
    forks[1] += sgl::user("Passage: " + args["second"] + "\nQuestion: " + args["question"]);
    forks += sgl::assistant(sgl::gen("note", {.max_tokens = 32, .stop = "\n"}));
    forks.join();
    s += sgl::user("Notes:\n" + forks[0]["note"] + "\n" + forks[1]["note"] + "\nQuestion: " + args["question"]);
    s += sgl::assistant(sgl::gen("answer", {.max_tokens = 32, .stop = "\n"}));
  });
}

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string_view(argv[1]) == "--check";
  if (argc != 2 && !check) return std::cerr << "program_figures [--check] FOLDER\n", 2;
  const std::filesystem::path folder = argv[argc - 1];
  int stale = 0;
  const std::pair<const char*, sgl::Function> programs[] = {
      {"graph-judge.svg", judge()}, {"graph-tree-of-thought.svg", tree_of_thought()}, {"graph-rag.svg", retrieval()}};
  for (const auto& [name, program] : programs) {
    const std::string drawn = sgl::as_svg(sgl::trace(program));
    if (!check) {
      std::ofstream(folder / name, std::ios::binary) << drawn;
    } else if (read(folder / name) != drawn) {
      std::cerr << folder / name << " is not what program_figures draws: run it again\n";
      stale = 1;
    }
  }
  return stale;
}
