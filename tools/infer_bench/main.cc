#include "tools/infer_bench/commands.h"

int main(int argc, char** argv) {
  std::vector<std::unique_ptr<infer::Command>> commands;
  commands.push_back(infer::MakeBenchRunCommand());
  commands.push_back(infer::MakeZooCommand());
  return infer::RunTool(argc, argv, "Measure models so that the numbers can be trusted.",
                        std::move(commands));
}
