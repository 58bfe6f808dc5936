// A workgroup of SIDE x SIDE multiplies a tile of TILE x TILE, PER x PER numbers per invocation, from
// tiles of DEPTH along the common axis in shared memory. Before, the includer defines TILE and SIDE;
// it writes the tiles by KeepA and KeepB.
#define THREADS (SIDE * SIDE)
#define PER (TILE / SIDE)
#define DEPTH 16
#define LOADS (TILE * DEPTH / THREADS)
// Workgroups of 256 are a GPU's: the next tiles are on their way while these are multiplied. It keeps sums in
// registers only where their indices are constants.
#if SIDE == 16
#define AHEAD
#define UNROLL [[unroll]]
#else
#define UNROLL
#endif

// One vector more than a tile has: writes along a column meet different banks.
shared vec4 tile_a[DEPTH][TILE / 4 + 1];
shared vec2 tile_b[DEPTH][TILE / 2 + 1];

float acc[PER][PER], whole[PER][PER];

void ClearSums() {
  [[unroll]] for (int i = 0; i < PER; ++i)
    [[unroll]] for (int j = 0; j < PER; ++j) acc[i][j] = whole[i][j] = 0.0;
}
// Of number i, j of an invocation: four rows follow each other, as two columns do, so that shared memory is
// read in vectors.
uint RowOfTile(int i) {
  return (gl_LocalInvocationID.x / SIDE + uint(i) / 4u * SIDE) * 4u + uint(i) % 4u;
}
uint ColumnOfTile(int j) {
  return (gl_LocalInvocationID.x % SIDE + uint(j) / 2u * SIDE) * 2u + uint(j) % 2u;
}
void KeepA(uint k, uint row, float v) { tile_a[k][row / 4u][row % 4u] = v; }
void KeepB(uint k, uint column, float v) { tile_b[k][column / 2u][column % 2u] = v; }

void AddProducts() {
  uint lm = gl_LocalInvocationID.x / SIDE, ln = gl_LocalInvocationID.x % SIDE;
  for (int k = 0; k < DEPTH; ++k) {
    vec4 u[PER / 4];
    vec2 v[PER / 2];
    [[unroll]] for (int i = 0; i < PER / 4; ++i) u[i] = tile_a[k][lm + uint(i) * SIDE];
    [[unroll]] for (int j = 0; j < PER / 2; ++j) v[j] = tile_b[k][ln + uint(j) * SIDE];
    [[unroll]] for (int i = 0; i < PER; ++i)
      [[unroll]] for (int j = 0; j < PER; ++j) acc[i][j] += u[i / 4][i % 4] * v[j / 2][j % 2];
  }
}
// Long sums are of sums of 256 products: one after the other they would lose digits.
void AddToWhole() {
  [[unroll]] for (int i = 0; i < PER; ++i)
    [[unroll]] for (int j = 0; j < PER; ++j) {
      whole[i][j] += acc[i][j];
      acc[i][j] = 0.0;
    }
}
