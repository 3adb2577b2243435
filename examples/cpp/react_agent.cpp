// A ReAct agent with real tools: a calculator and a search over the files of examples/data.
//
// The model thinks, picks a tool (a choice, so it is always one of them), writes its input (constrained to what the
// tool can read, with the end of the line, so that it knows how to stop), and sees what came out.
#include <algorithm>
#include <iomanip>
#include <iostream>
#include <sstream>

#include "_backend.h"
#include "_facts.h"
#include "espalier/program.h"

namespace sgl = espalier;

constexpr const char* kExamples = R"(Question: How tall is the tower of Pisa?
Thought: I need a fact.
Action: search
Input: tower of pisa
Observation: The tower of Pisa is 56 metres tall.
Thought: I have the answer.
Action: finish
Answer: 56 metres

Question: How tall are two towers of Pisa?
Thought: I need a fact.
Action: search
Input: tower of pisa
Observation: The tower of Pisa is 56 metres tall.
Thought: I need arithmetic.
Action: calculate
Input: 56 * 2
Observation: 112
Thought: I have the answer.
Action: finish
Answer: 112 metres

Question: How deep are three Lake Gardas?
Thought: I need a fact.
Action: search
Input: lake garda
Observation: Lake Garda is 346 metres deep.
Thought: I need arithmetic.
Action: calculate
Input: 346 * 3
Observation: 1038
Thought: I have the answer.
Action: finish
Answer: 1038 metres

)";

// The value of one operation: "56 * 2".
std::string calculate(const std::string& expression) {
  std::istringstream in(expression);
  double left = 0, right = 0;
  char sign = 0;
  if (!(in >> left >> sign >> right)) return "error: not arithmetic";
  std::ostringstream out;
  out << std::setprecision(15);
  if (sign == '+') out << left + right;
  if (sign == '-') out << left - right;
  if (sign == '*') out << left * right;
  if (sign == '/') out << left / right;
  return out.str();
}

// The line of the files that has most of the words.
std::string search(const std::string& words) {
  return std::ranges::max(example::facts(), {},
                          [&](const std::string& line) { return example::common_words(words, line); });
}

struct Tool {
  std::string (*use)(const std::string&);
  std::string input;  // what it can read, as a regex
};

void agent(sgl::State& s, const std::string& question, int steps) {
  const std::map<std::string, Tool> tools = {{"calculate", {calculate, R"( [1-9][0-9]{0,5} [-+*/] [1-9][0-9]{0,5}\n)"}},
                                             {"search", {search, R"(( [a-z]{2,12}){1,4}\n)"}}};
  s += "Answer the question. Tools: calculate (arithmetic), search (facts), or finish.\n\n" + sgl::Expr(kExamples);
  s += "Question: " + question + "\n";
  for (int i = 0; i < steps; ++i) {
    const std::string step = std::to_string(i);
    s += "Thought:" + sgl::gen("thought" + step, {.max_tokens = 24, .stop = "\n"}) + "\nAction: ";
    s += sgl::select("action" + step, {"calculate", "search", "finish"});
    const std::string action = s["action" + step];
    if (action == "finish") break;
    const Tool& tool = tools.at(action);
    s += "\nInput:" + sgl::gen("input" + step, {.max_tokens = 64, .regex = tool.input});
    s += "Observation: " + tool.use(s["input" + step]) + "\n";
  }
  s += "\nAnswer:" + sgl::gen("answer", {.max_tokens = 24, .stop = "\n"});
}

int main() {
  const sgl::State state = sgl::run([](sgl::State& s) { agent(s, "How tall are three Eiffel towers?", 3); },
                                    {.backend = example::open_backend(), .defaults = {.temperature = 0}});
  const std::string text = state.text();
  std::cout << text.substr(text.rfind("Question:")) << "\n";
}
