// What follows a product in the same dispatch: up to three functions or the addition of a residual.
// Specialisation constants 0..2: codes as Apply's, 100: the residual. The includer gives
// TAIL_PARAMETER(i) (a float) and RESIDUAL(at).
layout(constant_id = 0) const int TAIL0 = 0;
layout(constant_id = 1) const int TAIL1 = 0;
layout(constant_id = 2) const int TAIL2 = 0;

float TailStep(int code, float v, float a, float b, uint at) {
  if (code == 0) return v;
  if (code == 100) return v + RESIDUAL(at);
  return Apply(code, v, a, b);
}
float Tail(float v, uint at) {
  v = TailStep(TAIL0, v, TAIL_PARAMETER(0), TAIL_PARAMETER(1), at);
  v = TailStep(TAIL1, v, TAIL_PARAMETER(2), TAIL_PARAMETER(3), at);
  return TailStep(TAIL2, v, TAIL_PARAMETER(4), TAIL_PARAMETER(5), at);
}
