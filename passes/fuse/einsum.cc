/// Einsum in terms of what every engine has a fast kernel for.
#include "passes/fuse/fusions.h"

namespace infer {

Rule ExpandEinsum() {
  Pattern root = Op("Einsum", {}).MoreInputs();
  return {
      .name = "expand-einsum",
      .doc = "Einsum(a, b, ...) => MatMul, Mul, ReduceSum, Transpose",
      .match = root,
      .build = [=](const Match& m, PatchBuilder& b) { return b.PartsOf(m.node(root)); },
      .fires_on = {R"(graph g(x: f32[3,3]) -> (y) {
               y = Einsum(x, x, x) {equation="ij,jk,kl->il"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[4,3,N]) -> (y) {
               y = Einsum(x, z) {equation="ijk,kjl->il"} })",
                   R"(graph g(x: f32[N,S,2,3], z: f32[2,3,5]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,hdo->bqo"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[4,3,5]) -> (y) {
               y = Einsum(x, z) {equation="ijk,kjl->il"} })",
                   R"(graph g(x: f32[2,4,3,5], z: f32[2,6,3,5]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,bkhd->bqk"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="bij,jk->bik"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="bij,jk"} })",
                   R"(graph g(x: f32[2,3,5,4], z: f32[2,3,6,4]) -> (y) {
               y = Einsum(x, z) {equation="bhid,bhjd->bhij"} })",
                   R"(graph g(x: f32[2,3,5,4], z: f32[2,3,4,6]) -> (y) {
               y = Einsum(x, z) {equation="bhij,bhjd->bhid"} })",
                   R"(graph g(x: f32[2,5,3,4], z: f32[2,6,3,4]) -> (y) {
               y = Einsum(x, z) {equation="bqhd,bkhd->bhqk"} })",
                   R"(graph g(x: f32[2,3,5,6], z: f32[2,6,3,4]) -> (y) {
               y = Einsum(x, z) {equation="bhqk,bkhd->bqhd"} })",
                   R"(graph g(x: f32[N,3], z: f32[3,4]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
                   R"(graph g(x: f32[3], z: f32[4]) -> (y) {
               y = Einsum(x, z) {equation="i,j->ij"} })",
                   R"(graph g(x: f32[3], z: f32[3]) -> (y) {
               y = Einsum(x, z) {equation="i,i->"} })",
                   R"(graph g(x: f32[N,3], z: f32[N,3]) -> (y) {
               y = Einsum(x, z) {equation="bi,bi->b"} })",
                   R"(graph g(x: f32[N,3,4], z: f32[N,4]) -> (y) {
               y = Einsum(x, z) {equation="bij,bj->bi"} })",
                   R"(graph g(x: f32[N,4], z: f32[N,4,3]) -> (y) {
               y = Einsum(x, z) {equation="bj,bjk->bk"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[5,4]) -> (y) {
               y = Einsum(x, z) {equation="bij,kj->bik"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[3,5,4]) -> (y) {
               y = Einsum(x, z) {equation="bhd,hed->bhe"} })",
                   R"(graph g(x: f32[N,2,3,4], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="...ij,jk->...ik"} })",
                   R"(graph g(x: f32[2,3], z: f32[2,3]) -> (y) {
               y = Einsum(x, z) {equation="ij,ij->ij"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[3]) -> (y) {
               y = Einsum(x, z) {equation="ijk,j->ik"} })",
                   R"(graph g(x: f32[4,3], z: f32[2,4,5]) -> (y) {
               y = Einsum(x, z) {equation="kn,bkm->bmn"} })",
                   R"(graph g(x: f32[2,3,4], z: f32[2,5,4]) -> (y) {
               y = Einsum(x, z) {equation="bid,bjd->bji"} })",
                   R"(graph g(x: f32[3,1], z: f32[N,4]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
                   R"(graph g(x: f32[2,3]) -> (y) { y = Einsum(x) {equation="ij->ji"} })",
                   R"(graph g(x: f32[N,3,4]) -> (y) { y = Einsum(x) {equation="bij->b"} })",
                   R"(graph g(x: f32[2,3,4]) -> (y) { y = Einsum(x) {equation="ijk->ki"} })"},
      .silent_on = {{R"(graph g(x: f32[3,3]) -> (y) { y = Einsum(x) {equation="ii->i"} })",
                     "needs no diagonal"},
                    {R"(graph g(x: f32[3,N], z: f32[4,5]) -> (y) {
               y = Einsum(x, z) {equation="ij,jk->ik"} })",
                     "extents of a summed letter that are known to be equal"},
                    {R"(graph g(x: i32[3,3]) -> (y) { y = Einsum(x) {equation="ij->ji"} })",
                     "floating point numbers"},
                    {R"(graph g(x: f32[*]) -> (y) { y = Einsum(x) {equation="...ij->...ji"} })",
                     "operands of known rank"}},
  };
}

}  // namespace infer
