// loss_rows(config=LossConfig(lanes=32, parts=4, warps=4, per_sm=1), EDGES=True) for sm_90a, from losses.py
// 128 threads, 0 bytes of shared memory

typedef unsigned short px_bf16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_mul
//   wrap_add
//   inside
//   minimum
//   load_words
//   bits
//   fill_words
//   unpack_words
//   wrap_sub
//   pack_words
//   unknown_zero
//   keep_words
//   pair_of
//   max_bf16x2
//   halves_of
//   bf16_to_float
//   max_NaN_f32
//   warp_max
//   exp2_approx
//   shuffle_xor

extern "C" __global__ void __launch_bounds__(128, 1) loss_rows_kernel(
    const __grid_constant__ px_array<px_bf16, 1> X,
    const __grid_constant__ px_array<px_bf16, 2> V,
    const __grid_constant__ px_array<long long, 1> T,
    const __grid_constant__ px_array<float, 2> S,
    const int ignore,
    const int columns) {
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  // losses.py: number = px.block_id(0) * TEAMS + team
  const int block_x = (int)blockIdx.x;
  // launches.py: px.wait_prior()  (called at losses.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at losses.py)
  ptx::griddepcontrol_launch_dependents();
  // losses.py: with px.warps(0, TEAM, copies=TEAMS) as team:
  if (true) {  // warps 0 to 3, 4 copies
    const int px_copy = px_warp_id;
    const int px_thread = (int)(threadIdx.x % 32);
    const int px_warp = px_warp_id % 1;
    const int team = px_copy;
    // losses.py: number = px.block_id(0) * TEAMS + team
    const int number = ptx::wrap_add(ptx::wrap_mul(block_x, 4), team);
    // losses.py: label = px.load(T[row], fill=ignore)  (called at losses.py)
    const long long ignore_1 = (long long)ignore;
    const long long label = ptx::inside(number, T.shape[0]) ? *(T.data + number) : ignore_1;
    // stream.py: begin = row * columns  (called at losses.py)
    const int begin = ptx::wrap_mul(number, columns);
    // stream.py: first = (begin + (VEC - 1)) // VEC * VEC  (called at losses.py)
    const int first = ptx::wrap_mul((ptx::wrap_add(begin, 7) >> 3), 8);
    // stream.py: last = (begin + columns) // VEC * VEC  (called at losses.py)
    const int last = ptx::wrap_mul((ptx::wrap_add(begin, columns) >> 3), 8);
    // stream.py: return px.minimum(first, last) if EDGES else first, last  (called at losses.py)
    const int first_1 = ptx::minimum<int>(first, last);
    // losses.py: lane = px.arange(THREADS)  (called at losses.py)
    int lane[1];
    {
      lane[0] = px_lane;
    }
    // losses.py: X, V, number, row, own, lane % LANES, columns, first // VEC, last // VEC, label, piece, LANES, GROUPS, EDGES  (called at losses.py)
    int t[1];
    t[0] = lane[0] & 31;
    const int t_1 = first_1 >> 3;
    const int t_2 = last >> 3;
    // losses.py: place = self.first + self.turn + part * self.LANES  (called at losses.py)
    int t_3[1];
    t_3[0] = ptx::wrap_add(t_1, t[0]);
    int place[1];
    place[0] = ptx::wrap_add(t_3[0], 0);
    // losses.py: parts = (*parts, px.load(self.V[px.where(place < self.last, place, -1), 0:VEC], fill=-float("inf")))  (called at losses.py)
    bool t_4[1];
    t_4[0] = place[0] < t_2;
    int t_5[1];
    t_5[0] = t_4[0] ? place[0] : (-1);
    px_bf16 t_6[8];
    {
      unsigned words[4];
      if (ptx::inside(t_5[0], V.shape[0]) && ptx::inside(0, V.shape[1])) ptx::load_words<8>(words, V.data + t_5[0] * V.stride[0]);
      else ptx::fill_words<8, px_bf16>(words, (px_bf16)0xff80);
      ptx::unpack_words<8>(t_6, words);
    }
    // losses.py: place = self.first + self.turn + part * self.LANES  (called at losses.py)
    int t_7[1];
    t_7[0] = ptx::wrap_add(t_1, t[0]);
    int place_1[1];
    place_1[0] = ptx::wrap_add(t_7[0], 32);
    // losses.py: parts = (*parts, px.load(self.V[px.where(place < self.last, place, -1), 0:VEC], fill=-float("inf")))  (called at losses.py)
    bool t_8[1];
    t_8[0] = place_1[0] < t_2;
    int t_9[1];
    t_9[0] = t_8[0] ? place_1[0] : (-1);
    px_bf16 t_10[8];
    {
      unsigned words[4];
      if (ptx::inside(t_9[0], V.shape[0]) && ptx::inside(0, V.shape[1])) ptx::load_words<8>(words, V.data + t_9[0] * V.stride[0]);
      else ptx::fill_words<8, px_bf16>(words, (px_bf16)0xff80);
      ptx::unpack_words<8>(t_10, words);
    }
    // losses.py: place = self.first + self.turn + part * self.LANES  (called at losses.py)
    int t_11[1];
    t_11[0] = ptx::wrap_add(t_1, t[0]);
    int place_2[1];
    place_2[0] = ptx::wrap_add(t_11[0], 64);
    // losses.py: parts = (*parts, px.load(self.V[px.where(place < self.last, place, -1), 0:VEC], fill=-float("inf")))  (called at losses.py)
    bool t_12[1];
    t_12[0] = place_2[0] < t_2;
    int t_13[1];
    t_13[0] = t_12[0] ? place_2[0] : (-1);
    px_bf16 t_14[8];
    {
      unsigned words[4];
      if (ptx::inside(t_13[0], V.shape[0]) && ptx::inside(0, V.shape[1])) ptx::load_words<8>(words, V.data + t_13[0] * V.stride[0]);
      else ptx::fill_words<8, px_bf16>(words, (px_bf16)0xff80);
      ptx::unpack_words<8>(t_14, words);
    }
    // losses.py: place = self.first + self.turn + part * self.LANES  (called at losses.py)
    int t_15[1];
    t_15[0] = ptx::wrap_add(t_1, t[0]);
    int place_3[1];
    place_3[0] = ptx::wrap_add(t_15[0], 96);
    // losses.py: parts = (*parts, px.load(self.V[px.where(place < self.last, place, -1), 0:VEC], fill=-float("inf")))  (called at losses.py)
    bool t_16[1];
    t_16[0] = place_3[0] < t_2;
    int t_17[1];
    t_17[0] = t_16[0] ? place_3[0] : (-1);
    px_bf16 t_18[8];
    {
      unsigned words[4];
      if (ptx::inside(t_17[0], V.shape[0]) && ptx::inside(0, V.shape[1])) ptx::load_words<8>(words, V.data + t_17[0] * V.stride[0]);
      else ptx::fill_words<8, px_bf16>(words, (px_bf16)0xff80);
      ptx::unpack_words<8>(t_18, words);
    }
    // losses.py: edges = (*edges, px.load(self.X[self.edge_places(self.turn + some)], fill=-float("inf")))  (called at losses.py)
    int t_19[1];
    t_19[0] = ptx::wrap_add(t[0], 0);
    // losses.py: begin = self.own * self.columns  (called at losses.py)
    const int begin_1 = ptx::wrap_mul(number, columns);
    // losses.py: first = self.first * (MOST + 1)  (called at losses.py)
    const int first_2 = ptx::wrap_mul(t_1, 8);
    // losses.py: last = self.last * (MOST + 1)  (called at losses.py)
    const int last_1 = ptx::wrap_mul(t_2, 8);
    // losses.py: place = px.where(turn < MOST, first, last) + turn - MOST  (called at losses.py)
    bool t_20[1];
    t_20[0] = t_19[0] < 7;
    int t_21[1];
    t_21[0] = t_20[0] ? first_2 : last_1;
    int t_22[1];
    t_22[0] = ptx::wrap_add(t_21[0], t_19[0]);
    int place_4[1];
    place_4[0] = ptx::wrap_sub(t_22[0], 7);
    // losses.py: there = (place >= begin) & (place < begin + self.columns) & (turn < 2 * MOST) & ((turn < MOST) | (place >= first))  (called at losses.py)
    bool t_23[1];
    t_23[0] = place_4[0] >= begin_1;
    bool t_24[1];
    t_24[0] = place_4[0] < ptx::wrap_add(begin_1, columns);
    bool t_25[1];
    t_25[0] = (bool)(t_23[0] & t_24[0]);
    bool t_26[1];
    t_26[0] = t_19[0] < 14;
    bool t_27[1];
    t_27[0] = (bool)(t_25[0] & t_26[0]);
    bool t_28[1];
    t_28[0] = t_19[0] < 7;
    bool t_29[1];
    t_29[0] = place_4[0] >= first_2;
    bool t_30[1];
    t_30[0] = (bool)(t_28[0] | t_29[0]);
    bool there[1];
    there[0] = (bool)(t_27[0] & t_30[0]);
    // losses.py: return px.where(there, place, -1)  (called at losses.py)
    int t_31[1];
    t_31[0] = there[0] ? place_4[0] : (-1);
    // losses.py: edges = (*edges, px.load(self.X[self.edge_places(self.turn + some)], fill=-float("inf")))  (called at losses.py)
    px_bf16 edge[1];
    {
      edge[0] = ptx::inside(t_31[0], X.shape[0]) ? *(X.data + t_31[0]) : (px_bf16)0xff80;
    }
    // losses.py: return (self.label >= 0) & (self.label < self.columns)  (called at losses.py)
    const long long columns_1 = (long long)columns;
    // losses.py: at = px.where(self.inside(), self.label, 0).to(px.i32)  (called at losses.py)
    const long long t_32 = ((bool)((label >= 0LL) & (label < columns_1))) ? label : 0LL;
    const int at = (int)t_32;
    // losses.py: chosen = px.load(self.X[self.row * self.columns + at])  (called at losses.py)
    const int t_33 = ptx::wrap_add(ptx::wrap_mul(number, columns), at);
    const px_bf16 chosen = ptx::inside(t_33, X.shape[0]) ? *(X.data + t_33) : (px_bf16)0x0000;
    // rows.py: same = (*same, px.keep(parts[part]))  (called at losses.py)
    px_bf16 tops[8];
    ptx::keep_words<8>(tops, t_6);
    px_bf16 t_34[8];
    ptx::keep_words<8>(t_34, t_10);
    px_bf16 t_35[8];
    ptx::keep_words<8>(t_35, t_14);
    px_bf16 t_36[8];
    ptx::keep_words<8>(t_36, t_18);
    // losses.py: tops = px.maximum(tops, parts[part])  (called at losses.py)
    px_bf16 tops_1[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 2) ptx::halves_of(tops_1 + i, ptx::max_bf16x2(ptx::pair_of(tops[i], tops[i + 1]), ptx::pair_of(t_34[i], t_34[i + 1])));
    px_bf16 tops_2[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 2) ptx::halves_of(tops_2 + i, ptx::max_bf16x2(ptx::pair_of(tops_1[i], tops_1[i + 1]), ptx::pair_of(t_35[i], t_35[i + 1])));
    px_bf16 tops_3[8];
    #pragma unroll
    for (int i = 0; i < 8; i += 2) ptx::halves_of(tops_3 + i, ptx::max_bf16x2(ptx::pair_of(tops_2[i], tops_2[i + 1]), ptx::pair_of(t_36[i], t_36[i + 1])));
    // losses.py: return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])  (called at losses.py)
    float tops_4[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) tops_4[i] = ptx::bf16_to_float(tops_3[i]);
    float t_37[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_37[i] = tops_4[i];
    // losses.py: top = px.max(by_group(tops, GROUPS), axis=2)  (called at losses.py)
    float top_max[1];
    {
      top_max[0] = t_37[0];
      #pragma unroll
      for (int i = 1; i < 8; ++i) {
        top_max[0] = ptx::max_NaN_f32(top_max[0], t_37[i]);
      }
    }
    float top[1];
    top[0] = top_max[0];
    // losses.py: edge = edge.to(px.f32).reshape(GROUPS, EACH)  (called at losses.py)
    float edge_1[1];
    edge_1[0] = ptx::bf16_to_float(edge[0]);
    float edge_2[1];
    edge_2[0] = edge_1[0];
    // losses.py: top = px.maximum(top, edge)  (called at losses.py)
    float top_1[1];
    top_1[0] = ptx::max_NaN_f32(top[0], edge_2[0]);
    // losses.py: peak = px.max(top, axis=1, keepdims=True)  (called at losses.py)
    float peak_max[1];
    {
      peak_max[0] = top_1[0];
      peak_max[0] = ptx::warp_max(peak_max[0]);
    }
    float peak[1];
    peak[0] = peak_max[0];
    // softmax_terms.py: return px.where(peak == -float("inf"), 0.0, peak)  (called at losses.py)
    bool t_38[1];
    t_38[0] = peak[0] == __int_as_float(0xff800000);
    float base[1];
    base[0] = t_38[0] ? 0.0f : peak[0];
    // softmax_terms.py: factor = px.where(px.abs(base) > LARGE, 1.0, LOG2E)  (called at losses.py)
    float t_39[1];
    t_39[0] = fabsf(base[0]);
    bool t_40[1];
    t_40[0] = t_39[0] > 65536.0f;
    float factor[1];
    factor[0] = t_40[0] ? 1.0f : 1.442695f;
    // softmax_terms.py: return base * -factor, factor  (called at losses.py)
    float t_41[1];
    t_41[0] = -factor[0];
    float base_1[1];
    base_1[0] = base[0] * t_41[0];
    // losses.py: terms = base.reshape(GROUPS, 1, 1), factor.reshape(GROUPS, 1, 1) if FUSED else None  (called at losses.py)
    float base_2[1];
    base_2[0] = base_1[0];
    float factor_1[1];
    factor_1[0] = factor[0];
    // rows.py: same = (*same, px.keep(parts[part]))  (called at losses.py)
    px_bf16 t_42[8];
    ptx::keep_words<8>(t_42, tops);
    px_bf16 t_43[8];
    ptx::keep_words<8>(t_43, t_34);
    px_bf16 t_44[8];
    ptx::keep_words<8>(t_44, t_35);
    px_bf16 t_45[8];
    ptx::keep_words<8>(t_45, t_36);
    // losses.py: return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])  (called at losses.py)
    float t_46[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_46[i] = ptx::bf16_to_float(t_42[i]);
    float t_47[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_47[i] = t_46[i];
    // softmax_terms.py: return px.exp2(px.fma(x, factor, base))  (called at losses.py)
    float t_48[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_48[i] = fmaf(t_47[i], factor_1[0], base_2[0]);
    float powers[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) powers[i] = ptx::exp2_approx(t_48[i]);
    // losses.py: return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])  (called at losses.py)
    float t_49[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_49[i] = ptx::bf16_to_float(t_43[i]);
    float t_50[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_50[i] = t_49[i];
    // softmax_terms.py: return px.exp2(px.fma(x, factor, base))  (called at losses.py)
    float t_51[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_51[i] = fmaf(t_50[i], factor_1[0], base_2[0]);
    float t_52[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_52[i] = ptx::exp2_approx(t_51[i]);
    // losses.py: powers = powers + power_of(by_group(parts[part], GROUPS), terms)  (called at losses.py)
    float powers_1[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) powers_1[i] = powers[i] + t_52[i];
    // losses.py: return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])  (called at losses.py)
    float t_53[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_53[i] = ptx::bf16_to_float(t_44[i]);
    float t_54[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_54[i] = t_53[i];
    // softmax_terms.py: return px.exp2(px.fma(x, factor, base))  (called at losses.py)
    float t_55[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_55[i] = fmaf(t_54[i], factor_1[0], base_2[0]);
    float t_56[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_56[i] = ptx::exp2_approx(t_55[i]);
    // losses.py: powers = powers + power_of(by_group(parts[part], GROUPS), terms)  (called at losses.py)
    float powers_2[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) powers_2[i] = powers_1[i] + t_56[i];
    // losses.py: return x.to(px.f32).reshape(GROUPS, x.shape[0] // GROUPS, x.shape[1])  (called at losses.py)
    float t_57[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_57[i] = ptx::bf16_to_float(t_45[i]);
    float t_58[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_58[i] = t_57[i];
    // softmax_terms.py: return px.exp2(px.fma(x, factor, base))  (called at losses.py)
    float t_59[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_59[i] = fmaf(t_58[i], factor_1[0], base_2[0]);
    float t_60[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) t_60[i] = ptx::exp2_approx(t_59[i]);
    // losses.py: powers = powers + power_of(by_group(parts[part], GROUPS), terms)  (called at losses.py)
    float powers_3[8];
    #pragma unroll
    for (int i = 0; i < 8; ++i) powers_3[i] = powers_2[i] + t_60[i];
    // losses.py: mass = px.sum(powers, axis=2)  (called at losses.py)
    float mass_sum[1];
    {
      mass_sum[0] = powers_3[0];
      #pragma unroll
      for (int i = 1; i < 8; ++i) {
        mass_sum[0] = mass_sum[0] + powers_3[i];
      }
    }
    float mass[1];
    mass[0] = mass_sum[0];
    // softmax_terms.py: return px.exp2(px.fma(x, factor, base))  (called at losses.py)
    float t_61[1];
    t_61[0] = fmaf(edge_2[0], factor[0], base_1[0]);
    float t_62[1];
    t_62[0] = ptx::exp2_approx(t_61[0]);
    // losses.py: mass = mass + power_of(edge, (base, factor))  (called at losses.py)
    float mass_1[1];
    mass_1[0] = mass[0] + t_62[0];
    // losses.py: total = px.sum(mass, axis=1, keepdims=True)  (called at losses.py)
    float total_sum[1];
    {
      total_sum[0] = mass_1[0];
      #pragma unroll
      for (int mask = 1; mask <= 16; mask *= 2) {
        total_sum[0] = total_sum[0] + ptx::shuffle_xor(total_sum[0], mask);
      }
    }
    float total[1];
    total[0] = total_sum[0];
    // softmax_terms.py: return px.where(peak == -float("inf"), 0.0, peak)  (called at losses.py)
    bool t_63[1];
    t_63[0] = peak[0] == __int_as_float(0xff800000);
    float t_64[1];
    t_64[0] = t_63[0] ? 0.0f : peak[0];
    // losses.py: total = total * px.exp2(-px.fma(finite(peak), factor, base))  (called at losses.py)
    float t_65[1];
    t_65[0] = fmaf(t_64[0], factor[0], base_1[0]);
    float t_66[1];
    t_66[0] = -t_65[0];
    float t_67[1];
    t_67[0] = ptx::exp2_approx(t_66[0]);
    float total_1[1];
    total_1[0] = total[0] * t_67[0];
    // losses.py: largest = px.max(largest)  (called at losses.py)
    float t_68[1];
    t_68[0] = peak[0];
    float largest_max[1];
    {
      largest_max[0] = t_68[0];
    }
    const float largest = largest_max[0];
    // losses.py: total = px.sum(total)  (called at losses.py)
    float t_69[1];
    t_69[0] = total_1[0];
    float total_sum_1[1];
    {
      total_sum_1[0] = t_69[0];
    }
    const float total_2 = total_sum_1[0];
    // losses.py: return (self.label >= 0) & (self.label < self.columns)  (called at losses.py)
    const long long columns_2 = (long long)columns;
    // losses.py: loss = px.where(self.inside(), largest - chosen.to(px.f32) + px.log2(total) * LN2, float("nan"))  (called at losses.py)
    const float chosen_1 = ptx::bf16_to_float(chosen);
    const float t_70 = (largest - chosen_1) + (log2f(total_2) * 0.6931472f);
    const float loss = ((bool)((label >= 0LL) & (label < columns_2))) ? t_70 : __int_as_float(0x7fc00000);
    // losses.py: loss = px.where(self.label == ignore, 0.0, loss)  (called at losses.py)
    const long long ignore_2 = (long long)ignore;
    const float loss_1 = (label == ignore_2) ? 0.0f : loss;
    // losses.py: count = px.where(self.label == ignore, 0.0, 1.0)  (called at losses.py)
    const long long ignore_3 = (long long)ignore;
    const float count = (label == ignore_3) ? 0.0f : 1.0f;
    // losses.py: px.store(S[0, self.number], px.sum(loss) if self.LANES < 32 else loss)  (called at losses.py)
    if (px_thread == 0 && ptx::inside(0, S.shape[0]) && ptx::inside(number, S.shape[1])) *(S.data + number) = loss_1;
    // losses.py: px.store(S[1, self.number], px.sum(count) if self.LANES < 32 else count)  (called at losses.py)
    if (px_thread == 0 && ptx::inside(1, S.shape[0]) && ptx::inside(number, S.shape[1])) *(S.data + S.stride[0] + number) = count;
  }
}
