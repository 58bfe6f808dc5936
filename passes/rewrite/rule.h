#pragma once
/// What a file of rewrite rules needs: Rule, and the builder of what takes a match's place.
#include "lib/pattern/rule.h"
#include "passes/rewrite/patch.h"
