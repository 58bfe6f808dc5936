#pragma once
/// Completion scripts for shells from the option definitions: commands, options, choices of
/// options that have a fixed set, and files where files are meant.
#include <array>
#include <string>

#include "tools/common/help_text.h"

namespace infer {

inline constexpr std::array<const char*, 3> kShells = {"bash", "zsh", "fish"};

/// Pre: `shell` is one of kShells.
std::string CompletionScript(const std::string& shell, const ToolHelp& help);

std::string BashCompletion(const ToolHelp& help);
std::string ZshCompletion(const ToolHelp& help);
std::string FishCompletion(const ToolHelp& help);

/// "_infer_opt" of "infer-opt": a shell function.
std::string ShellFunction(const std::string& tool);
/// 'text' for a shell.
std::string Quoted(const std::string& text);
/// The help of an option, cut to what a menu has room for.
std::string MenuText(const std::string& help);

}  // namespace infer
