// From an exact sum to the result of a quantized product: (sum + bias) scale, activations, and the
// codes of one quantization or, with a residual, of two. The includer has pushed p.tail, to_quanta,
// lo, y_lo, r_zero, r_scale, between_scale, y_scale, and bound `channels` (bias and scale by
// channel) and `residual`.
layout(constant_id = 0) const int ACT0 = 0;
layout(constant_id = 1) const int ACT1 = 0;
layout(constant_id = 2) const int FORM = 0;  // 0: f32; 1: codes; 2: codes, a residual, codes
layout(constant_id = 3) const int FLIP_X = 0;
layout(constant_id = 4) const int FLIP_Y = 0;
layout(constant_id = 5) const int FLIP_R = 0;
layout(constant_id = 6) const int RELU = 0;  // behind the residual

// The bits of an f32, or a code.
uint Finished(int sum, uint channel, uint at) {
  precise float v = float(sum) + channels[2u * channel];
  v *= channels[2u * channel + 1u];
  if (ACT0 != 0) v = Apply(ACT0, v, p.tail[0], p.tail[1]);
  if (ACT1 != 0) v = Apply(ACT1, v, p.tail[2], p.tail[3]);
  if (FORM == 0) return floatBitsToUint(v);
  precise float q = v * p.to_quanta;
  if (FORM == 1) return CodeOf(q, p.lo, FLIP_Y);
  q = q > p.lo ? q : p.lo;
  q = q < p.lo + 255.0 ? q : p.lo + 255.0;
  // Each step rounded by itself, as the graph has it.
  precise float own = roundEven(q) * p.between_scale;
  precise float other = float(Less(CODE_AT(residual, at), FLIP_R, p.r_zero)) * p.r_scale;
  precise float whole = own + other;
  if (RELU != 0 && whole < 0.0) whole = 0.0;
  return CodeOf(Quanta(whole, p.y_scale), p.y_lo, FLIP_Y);
}
