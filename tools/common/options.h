#pragma once
/// Options: how a command declares its command line. The parser behind it (CLI11) is seen by
/// options.cc alone.
#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace infer {

class Options {
 public:
  explicit Options(CLI::App& app) : app_(app) {}
  /// Positional arguments, in the order of declaration. `target` keeps its value as default.
  void Positional(const std::string& name, std::string* target, const std::string& help,
                  bool required = true);
  void Positional(const std::string& name, std::vector<std::string>* target,
                  const std::string& help, bool required = true);
  /// "--long" or "-s,--long".
  void Flag(const std::string& names, bool* target, const std::string& help);
  void Value(const std::string& names, std::string* target, const std::string& help);
  void Value(const std::string& names, int* target, const std::string& help);
  void Value(const std::string& names, int64_t* target, const std::string& help);
  void Value(const std::string& names, uint64_t* target, const std::string& help);
  void Value(const std::string& names, double* target, const std::string& help);
  /// May be repeated, and takes comma-separated lists.
  void Values(const std::string& names, std::vector<std::string>* target, const std::string& help);
  /// One of `choices`; anything else is a usage error that lists them.
  void Choice(const std::string& names, std::string* target,
              const std::vector<std::string>& choices, const std::string& help);
  /// "0.5%", "0.5 %" or "0.005": a share. `target` gets 0.005.
  void Share(const std::string& names, double* target, const std::string& help);

 private:
  CLI::App& app_;
};

}  // namespace infer
