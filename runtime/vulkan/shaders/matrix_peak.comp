#version 450
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_control_flow_attributes : require
// The most that cooperative matrices do: products of 64 x 32 x 16 by each subgroup of 32, of operands that
// stay where they are. For tests/runtime/vulkan/product_bench.cc.
layout(local_size_x = 256) in;
layout(push_constant) uniform Push { uint rounds; } p;
layout(binding = 0) readonly buffer X { uvec4 x[]; };
layout(binding = 1) writeonly buffer Y { float y[]; };

void main() {
  fcoopmatNV<16, gl_ScopeSubgroup, 16, 16> u[4], v[2];
  fcoopmatNV<32, gl_ScopeSubgroup, 16, 16> acc[4][2];
  [[unroll]] for (int i = 0; i < 4; ++i) coopMatLoadNV(u[i], x, uint(i) * 32u, 2u, false);
  [[unroll]] for (int j = 0; j < 2; ++j) coopMatLoadNV(v[j], x, uint(j) * 32u, 2u, true);
  [[unroll]] for (int i = 0; i < 4; ++i)
    [[unroll]] for (int j = 0; j < 2; ++j)
      acc[i][j] = fcoopmatNV<32, gl_ScopeSubgroup, 16, 16>(0.0);
  for (uint r = 0u; r < p.rounds; ++r)
    [[unroll]] for (int i = 0; i < 4; ++i)
      [[unroll]] for (int j = 0; j < 2; ++j) acc[i][j] = coopMatMulAddNV(u[i], v[j], acc[i][j]);
  [[unroll]] for (int i = 0; i < 4; ++i)
    [[unroll]] for (int j = 0; j < 2; ++j) coopMatStoreNV(acc[i][j], y, uint(i * 2 + j) * 256u, 16u, false);
}
