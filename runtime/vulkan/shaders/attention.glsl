// What the shaders of attention share: Y = softmax(mask(scale Q K')) V by lead (sample and head),
// without the scores in memory. Operands lie by strides; where a lead's begin, a table tells.
#include "codes.glsl"
layout(push_constant) uniform Push {
  uint leads, queries, depth, values;
  uint tiles, chunks;  // of queries and of columns of V
  uint q_row, q_element, k_row, k_element, v_row, v_element, y_row, y_element;
  uint added_row, chosen_row;  // strides of masks by query; keys lie together
  int keys;                    // none beyond is seen
  int position;                // of query 0 among the keys
  int left, right;             // keys seen before and behind a query's own position; -1: all
  uint leads_per_sample;
  float scale, softcap, hidden;
} p;
layout(binding = 0) readonly buffer Q { float q[]; };
layout(binding = 1) readonly buffer K { float k[]; };
layout(binding = 2) readonly buffer V { float v[]; };
layout(binding = 3) readonly buffer T { uint at[]; };  // by lead: q, k, v, y, added, chosen
layout(binding = 4) readonly buffer A { float added[]; };
layout(binding = 5) readonly buffer C { uint chosen[]; };  // bool, four to a word
layout(binding = 6) readonly buffer N { uint valid[]; };   // i64 by sample: keys that count
layout(binding = 7) writeonly buffer Y { float y[]; };
layout(constant_id = 0) const int HAS_ADDED = 0;
layout(constant_id = 1) const int HAS_CHOSEN = 0;  // 1: hidden where false, 2: where true
layout(constant_id = 2) const int HAS_VALID = 0;
layout(constant_id = 3) const int HAS_CAP = 0;
layout(constant_id = 4) const int ZERO_WHERE_NONE = 0;  // a query that sees no key gives zeros, else NaN

// The keys of a sample that count; those beyond all extents are as good as the largest.
int Valid(uint lead) {
  uint low = valid[lead / p.leads_per_sample * 2u], high = valid[lead / p.leads_per_sample * 2u + 1u];
  if (high == 0u && low < 0x40000000u) return int(low);
  return high >> 31 != 0u ? 0 : 0x40000000;
}

// Which keys query i sees by its position: [x, y).
ivec2 Seen(int i, int valid_keys) {
  int position = i + (HAS_VALID != 0 ? valid_keys - int(p.queries) : p.position);
  int begin = p.left >= 0 ? max(0, position - p.left) : 0;
  int end = HAS_VALID != 0 ? min(p.keys, valid_keys) : p.keys;
  if (p.right >= 0) end = min(end, position + p.right + 1);
  return ivec2(begin, end);
}

// A score on its way through the masks, of a key within the band.
float Masked(float score, uint lead, uint row, uint key) {
  float s = score * p.scale;
  if (HAS_CAP != 0) s = p.softcap * Tanh(s / p.softcap);
  if (HAS_ADDED != 0) s += added[at[lead * 6u + 4u] + row * p.added_row + key];
  if (HAS_CHOSEN != 0) {
    uint bit = at[lead * 6u + 5u] + row * p.chosen_row + key;
    if ((CODE_AT(chosen, bit) != 0u) == (HAS_CHOSEN == 2)) s = p.hidden;
  }
  return s;
}

float Larger(float a, float b) { return IsNaN(b) ? b : MaxNaN(a, b); }
// What is subtracted from scores below their exponentials: -inf less itself is no number.
float Base(float most) { return most == -kInf ? 0.0 : most; }
