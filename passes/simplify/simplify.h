#pragma once
/// What level 1 does: the same result with fewer nodes, whatever the machine.
#include "passes/pass/pass.h"

namespace infer {

/// Nodes and constants that no output needs.
std::unique_ptr<Pass> RemoveDeadCode();
/// Integers that are known to be the same extents, such as [batch, seq + 1], are computed once,
/// where they are first.
std::unique_ptr<Pass> ShareKnownExtents();
/// Open extents of inputs that a MatMul of the main graph multiplies over, or a Concat joins beside
/// its axis, and that so are equal in every run, get one name.
std::unique_ptr<Pass> UniteEqualExtents();
/// Values that a Loop or Scan carries and its body returns as they came are read from outside
/// (lib/ir/loop_states.h), in bodies, too.
std::unique_ptr<Pass> ReadUnchangedStatesOutside();
/// Nodes whose operands are all known become constants, computed by the reference kernels; so do
/// results whose elements shape inference knows (Value::elements). Left alone: random operators,
/// DequantizeLinear (it marks a quantized weight), weights stored in 8 bits, and results larger
/// than the operands that become unnecessary in the whole file plus what PassContext lets one node
/// and the run add.
std::unique_ptr<Pass> FoldConstants();
/// Nodes that do the same to the same operands become one (value numbering), constants with the
/// same content one constant.
std::unique_ptr<Pass> MergeDuplicates();

/// The one list of simplifying rules, each in a file of this folder.
std::vector<Rule> SimplifyRules();

Rule RemoveIdentity();
Rule RemoveDropout();
Rule RemoveNoOpCast();
Rule MergeCasts();
Rule SkipCastBeforeShape();
Rule RemoveNoOpTranspose();
Rule RemoveNoOpReshape();
Rule RemoveNoOpSlice();
Rule RemoveNoOpPad();
Rule RemoveSingleConcat();
Rule RemoveSingleSplit();
Rule RemoveSingleSum();
Rule SumOfTwo();
Rule RemoveAddZero();
Rule RemoveMulOne();
Rule RemovePowOne();
Rule RemoveKnownWhere();
Rule MergeNotWhere();
Rule CancelNegations();
Rule MergeTransposes();
Rule TransposeJoinedAxes();
Rule CancelTransposesAcrossUnary();
Rule CancelSqueezeUnsqueeze();
Rule MergeReshapes();
Rule MergeViews();
Rule StaticReshape();
Rule StaticExpand();
Rule SkipExpand();
Rule MergeSlices();
Rule SliceOfConcat();
Rule SliceOfShape();
Rule SliceByGather();
Rule SliceOfShuffle();
Rule MergeGatherUnsqueeze();
Rule PickColumnsTogether();
Rule MergeConcats();
Rule CancelSplitConcat();
Rule CancelConcatSplit();
Rule MergeReduceSqueeze();
Rule MergeReduceUnsqueeze();
Rule RemoveRepeated();
Rule MergeBounds();
Rule MergeConstantFactors();
Rule MergeConstantTerms();
Rule InlineIf();
Rule UnflattenMatMul();
Rule UnfoldBatch();
Rule KeepUnitAxes();
Rule TransposeWithoutUnits();
Rule SoftmaxWithoutViews();

Rule MergeTransposeGemm();
Rule MergeTransposeMatMul();
Rule MergeGemmTranspose();
Rule MoveTransposes();

Rule DivideByMultiplying();
Rule ViewTransposes();

}  // namespace infer
