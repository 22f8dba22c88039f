// norm_teams(CENTERED=True, PERIOD=8, BEGINS=1, ENDS=2, SIDES=True, config=TeamConfig(warps=2, teams=2, parts=9, cluster=1, per_sm=1, slots=2, wide=False)) for sm_90a, from teams.py
// 128 threads, 55984 bytes of shared memory

typedef unsigned short px_bf16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   griddepcontrol_wait
//   griddepcontrol_launch_dependents
//   wrap_add
//   wrap_sub
//   wrap_mul
//   floor_mod
//   floor_div
//   maximum
//   minimum
//   mbarrier_arrive_expect_tx_shared_cta
//   shared_address
//   cp_async_bulk_shared_global
//   px_inside
//   bulk_zeros
//   fence_proxy_async_shared_cta
//   mbarrier_complete_tx_relaxed_cta_shared_cta
//   bulk_load
//   mbarrier_try_wait_parity_shared_cta
//   mbarrier_wait_parity
//   inside
//   load_words
//   bits
//   fill_words
//   pack_words
//   unpack_words
//   unpack
//   store_vector
//   bar_sync_of
//   mbarrier_arrive_shared_cta
//   unknown_zero
//   keep_scalar
//   bf16_to_float
//   load_vector
//   shuffle_xor
//   max_NaN_f32
//   bf16_pair_from_float
//   store_vector_once
//   store_part_once
//   elect_sync

extern "C" __global__ void __launch_bounds__(128, 1) norm_teams_kernel(
    const __grid_constant__ px_array<px_bf16, 1> X,
    const __grid_constant__ px_array<px_bf16, 1> W,
    const __grid_constant__ px_array<px_bf16, 1> B,
    const __grid_constant__ px_array<px_bf16, 1> Y,
    const float eps,
    const int columns,
    const int rows) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 55936;
  const unsigned saved = px_base + 55968;
  const unsigned read = px_base + 55976;
  px_bf16* const w = reinterpret_cast<px_bf16*>(px_smem + 37120);
  px_bf16* const b = reinterpret_cast<px_bf16*>(px_smem + 46464);
  px_bf16* const heads = reinterpret_cast<px_bf16*>(px_smem + 36864);
  px_bf16* const slots = reinterpret_cast<px_bf16*>(px_smem);
  unsigned turn = 0;  // exchanges over the cluster so far
  const unsigned reduce_inbox_addr = px_base + 55808;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // teams.py: full = px.barrier(TEAMS * SLOTS, 1, checked=False)
  if (px_one) {
    for (int px_i = 0; px_i < 4; ++px_i) ptx::mbarrier_init_shared_cta(full + 8 * px_i, 1);
    // teams.py: saved = px.barrier(1)
    ptx::mbarrier_init_shared_cta(saved, 2);
    // teams.py: read = px.barrier(1)
    ptx::mbarrier_init_shared_cta(read, 2);
    // teams.py: def norm_teams(
    ptx::fence_mbarrier_init_release_cluster();
  }
  // teams.py: number = px.cluster.id()
  const int cluster = (int)blockIdx.x + (int)gridDim.x * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  // teams.py: clusters = px.num_blocks(0) // config.cluster
  const int blocks_x = (int)gridDim.x;
  // teams.py: def norm_teams(
  __syncthreads();  // barriers are initialised before their first use
  // launches.py: px.wait_prior()  (called at teams.py)
  ptx::griddepcontrol_wait();
  // launches.py: px.launch_dependents()  (called at teams.py)
  ptx::griddepcontrol_launch_dependents();
  // teams.py: with px.warps(0, config.warps, copies=TEAMS) as team:
  if (true) {  // warps 0 to 3, 2 copies
    const int px_copy = px_warp_id / 2;
    const int px_warp = px_warp_id % 2;
    const bool px_one = px_warp_id % 2 == 0 && ptx::elect_sync();
    int first;
    int last;
    const int team = px_copy;
    // teams.py: return px.cdiv(columns + LINE - 1, LINE * CLUSTER) * LINE  (called at teams.py)
    const int t = ptx::wrap_sub(ptx::wrap_add(columns, 64), 1);
    const int part = ptx::wrap_mul((ptx::wrap_add((t >> 6), ((int)((t & 63) != 0)))), 64);
    // teams.py: inverse = 1.0 / columns
    const float columns_1 = (float)columns;
    const float inverse = 1.0f / columns_1;
    // deals.py: each = px.cdiv(rows, PERIOD)  (called at deals.py)
    const int each = ptx::wrap_add((rows >> 3), ((int)((rows & 7) != 0)));
    // deals.py: alike = clusters // PERIOD  (called at deals.py)
    const int alike = blocks_x >> 3;
    // deals.py: turns = px.cdiv(each * PERIOD, clusters)  (called at deals.py)
    const int t_1 = ptx::wrap_mul(each, 8);
    const int turns = ptx::wrap_add((ptx::floor_div<int>(t_1, blocks_x)), ((int)((ptx::floor_mod<int>(t_1, blocks_x)) != 0)));
    // deals.py: left = px.maximum(each - alike * turns, 0)  (called at deals.py)
    const int left = ptx::maximum<int>((ptx::wrap_sub(each, ptx::wrap_mul(alike, turns))), 0);
    // deals.py: return alike, turns, left, px.maximum(px.cdiv(left * PERIOD, px.maximum(clusters - alike * PERIOD, 1)), 1)  (called at deals.py)
    const int t_2 = ptx::wrap_mul(left, 8);
    const int t_3 = ptx::maximum<int>((ptx::wrap_sub(blocks_x, ptx::wrap_mul(alike, 8))), 1);
    const int t_4 = ptx::wrap_add((ptx::floor_div<int>(t_2, t_3)), ((int)((ptx::floor_mod<int>(t_2, t_3)) != 0)));
    const int own = ptx::maximum<int>(t_4, 1);
    // deals.py: first = number % PERIOD  (called at teams.py)
    const int first_1 = cluster & 7;
    // deals.py: last = number % PERIOD + 1  (called at teams.py)
    const int last_1 = ptx::wrap_add((cluster & 7), 1);
    // deals.py: begin = (number - alike * PERIOD) * own  (called at teams.py)
    const int begin = ptx::wrap_mul((ptx::wrap_sub(cluster, ptx::wrap_mul(alike, 8))), own);
    // deals.py: if begin >= 0:  (called at teams.py)
    if (begin >= 0) {
      // deals.py: end = px.minimum(begin + own, left * PERIOD)  (called at teams.py)
      const int end = ptx::minimum<int>(ptx::wrap_add(begin, own), ptx::wrap_mul(left, 8));
      // deals.py: some = px.maximum(left, 1)  (called at teams.py)
      const int some = ptx::maximum<int>(left, 1);
      // deals.py: first = begin // some  (called at teams.py)
      const int first_2 = ptx::floor_div<int>(begin, some);
      // deals.py: last = px.where(end > begin, px.cdiv(end, some), first)  (called at teams.py)
      const int t_5 = ptx::wrap_add((ptx::floor_div<int>(end, some)), ((int)((ptx::floor_mod<int>(end, some)) != 0)));
      // deals.py: if begin >= 0:  (called at teams.py)
      first = first_2;
      last = (end > begin) ? t_5 : first_2;
    } else {
      first = first_1;
      last = last_1;
    }
    // teams.py: for which in range(from_class, to_class):
    int stage = 0;
    int parity = 0;
    int stage_1 = 0;
    int parity_1 = 0;
    int parity_2 = 0;
    #pragma unroll 1
    for (int which = first; which < last; ++which) {
      // deals.py: each = px.cdiv(rows, PERIOD)  (called at deals.py)
      const int each_1 = ptx::wrap_add((rows >> 3), ((int)((rows & 7) != 0)));
      // deals.py: alike = clusters // PERIOD  (called at deals.py)
      const int alike_1 = blocks_x >> 3;
      // deals.py: turns = px.cdiv(each * PERIOD, clusters)  (called at deals.py)
      const int t_5 = ptx::wrap_mul(each_1, 8);
      const int turns_1 = ptx::wrap_add((ptx::floor_div<int>(t_5, blocks_x)), ((int)((ptx::floor_mod<int>(t_5, blocks_x)) != 0)));
      // deals.py: left = px.maximum(each - alike * turns, 0)  (called at deals.py)
      const int t_6 = ptx::wrap_sub(each_1, ptx::wrap_mul(alike_1, turns_1));
      const int left_1 = ptx::maximum<int>(t_6, 0);
      // deals.py: return alike, turns, left, px.maximum(px.cdiv(left * PERIOD, px.maximum(clusters - alike * PERIOD, 1)), 1)  (called at deals.py)
      const int t_7 = ptx::wrap_mul(left_1, 8);
      const int t_8 = ptx::wrap_sub(blocks_x, ptx::wrap_mul(alike_1, 8));
      const int t_9 = ptx::maximum<int>(t_8, 1);
      const int t_10 = ptx::wrap_add((ptx::floor_div<int>(t_7, t_9)), ((int)((ptx::floor_mod<int>(t_7, t_9)) != 0)));
      const int own_1 = ptx::maximum<int>(t_10, 1);
      // deals.py: into = which * left % own  (called at deals.py)
      const int into = ptx::floor_mod<int>(ptx::wrap_mul(which, left_1), own_1);
      // deals.py: late = px.minimum(own - into, left)  (called at deals.py)
      const int late = ptx::minimum<int>(ptx::wrap_sub(own_1, into), left_1);
      // deals.py: begin = into * turns // own  (called at deals.py)
      const int begin_1 = ptx::floor_div<int>(ptx::wrap_mul(into, turns_1), own_1);
      // deals.py: two = late < left  (called at deals.py)
      const bool two = late < left_1;
      // deals.py: early = px.where(two, 0, px.minimum(begin, turns - left))  (called at deals.py)
      const int t_11 = ptx::minimum<int>(begin_1, ptx::wrap_sub(turns_1, left_1));
      const int early = two ? 0 : t_11;
      // deals.py: some = px.where(two, left - late, left)  (called at deals.py)
      const int some = two ? ptx::wrap_sub(left_1, late) : left_1;
      // deals.py: return early, some, px.minimum(px.maximum(begin, some), turns - late), px.where(two, late, 0)  (called at deals.py)
      const int late_1 = ptx::minimum<int>((ptx::maximum<int>(begin_1, some)), ptx::wrap_sub(turns_1, late));
      const int more = two ? late : 0;
      // deals.py: begin = (number - alike * PERIOD) * own  (called at teams.py)
      const int t_12 = ptx::wrap_sub(cluster, ptx::wrap_mul(alike_1, 8));
      const int begin_2 = ptx::wrap_mul(t_12, own_1);
      // deals.py: helps = begin >= 0  (called at teams.py)
      const bool helps = begin_2 >= 0;
      // deals.py: first = px.maximum(begin - which * left, 0)  (called at teams.py)
      const int t_13 = ptx::wrap_sub(begin_2, ptx::wrap_mul(which, left_1));
      const int first_2 = ptx::maximum<int>(t_13, 0);
      // deals.py: turns = px.where(helps, px.minimum(begin + own - which * left, left) - first, turns)  (called at teams.py)
      const int t_14 = ptx::wrap_sub(ptx::wrap_add(begin_2, own_1), ptx::wrap_mul(which, left_1));
      const int t_15 = ptx::wrap_sub((ptx::minimum<int>(t_14, left_1)), first_2);
      const int turns_2 = helps ? t_15 : turns_1;
      // deals.py: plus = alike + px.where((more > 0) & (first == 0), late * alike + some, early * alike)  (called at teams.py)
      const int t_16 = ptx::wrap_add(ptx::wrap_mul(late_1, alike_1), some);
      const int t_17 = ((bool)((more > 0) & (first_2 == 0))) ? t_16 : ptx::wrap_mul(early, alike_1);
      const int plus = ptx::wrap_add(alike_1, t_17);
      // deals.py: plus = which + px.where(helps, plus, number // PERIOD) * PERIOD  (called at teams.py)
      const int t_18 = ptx::wrap_mul((helps ? plus : (cluster >> 3)), 8);
      const int plus_1 = ptx::wrap_add(which, t_18);
      // deals.py: times = px.where(helps, alike + 1, alike) * PERIOD  (called at teams.py)
      const int times = ptx::wrap_mul((helps ? ptx::wrap_add(alike_1, 1) : alike_1), 8);
      // deals.py: some = px.where(helps, 0, some)  (called at teams.py)
      const int some_1 = helps ? 0 : some;
      // deals.py: more = px.where(helps, 0, more)  (called at teams.py)
      const int more_1 = helps ? 0 : more;
      // deals.py: dealt.turns = px.where(dealt.row(turns - 1) >= rows, turns - 1, turns)  # a class may have a row fewer than others  (called at teams.py)
      const int t_19 = ptx::wrap_sub(turns_2, 1);
      // deals.py: row = self.first + turn * self.step  (called at deals.py)
      const int row = ptx::wrap_add(plus_1, ptx::wrap_mul(t_19, times));
      // deals.py: taken = px.minimum(px.maximum(turn - self.early, 0), self.some)  (called at deals.py)
      const int taken = ptx::minimum<int>((ptx::maximum<int>(ptx::wrap_sub(t_19, early), 0)), some_1);
      // deals.py: row = row + (taken + px.minimum(px.maximum(turn - self.late, 0), self.more)) * self.PERIOD  (called at deals.py)
      const int t_20 = ptx::maximum<int>(ptx::wrap_sub(t_19, late_1), 0);
      const int t_21 = ptx::wrap_add(taken, (ptx::minimum<int>(t_20, more_1)));
      const int row_1 = ptx::wrap_add(row, ptx::wrap_mul(t_21, 8));
      // deals.py: dealt.turns = px.where(dealt.row(turns - 1) >= rows, turns - 1, turns)  # a class may have a row fewer than others  (called at teams.py)
      const int t_22 = (row_1 >= rows) ? ptx::wrap_sub(turns_2, 1) : turns_2;
      // teams.py: for ahead in range(team, px.minimum(dealt.turns, team + SLOTS * TEAMS), TEAMS):  # they come while weights do
      int stage_2 = stage_1;
      int parity_3 = parity_1;
      for (int ahead = team; ahead < (ptx::minimum<int>(t_22, ptx::wrap_add(team, 4))); ahead += 2) {
        // teams.py: ready = full[team * SLOTS + filled.stage]
        const int t_23 = ptx::wrap_add(ptx::wrap_mul(team, 2), stage_2);
        // deals.py: row = self.first + turn * self.step  (called at teams.py)
        const int row_2 = ptx::wrap_add(plus_1, ptx::wrap_mul(ahead, times));
        // deals.py: taken = px.minimum(px.maximum(turn - self.early, 0), self.some)  (called at teams.py)
        const int t_24 = ptx::maximum<int>(ptx::wrap_sub(ahead, early), 0);
        const int taken_1 = ptx::minimum<int>(t_24, some_1);
        // deals.py: row = row + (taken + px.minimum(px.maximum(turn - self.late, 0), self.more)) * self.PERIOD  (called at teams.py)
        const int t_25 = ptx::maximum<int>(ptx::wrap_sub(ahead, late_1), 0);
        const int t_26 = ptx::wrap_add(taken_1, (ptx::minimum<int>(t_25, more_1)));
        const int row_3 = ptx::wrap_add(row_2, ptx::wrap_mul(t_26, 8));
        // teams.py: off = row * columns % LINE  (called at teams.py)
        const int off = ptx::wrap_mul(row_3, columns) & 63;
        // teams.py: begin = px.maximum(px.minimum(px.cluster.rank() * part, px.cdiv(off + columns, LINE) * LINE - ROOM), 0)  (called at teams.py)
        const int t_27 = ptx::wrap_add(off, columns);
        const int t_28 = ptx::wrap_add((t_27 >> 6), ((int)((t_27 & 63) != 0)));
        const int t_29 = ptx::minimum<int>(0, (ptx::wrap_sub(ptx::wrap_mul(t_28, 64), 4608)));
        const int begin_3 = ptx::maximum<int>(t_29, 0);
        // teams.py: return row * columns // LINE * LINE + begin, begin, off  (called at teams.py)
        const int t_30 = ptx::wrap_mul((ptx::wrap_mul(row_3, columns) >> 6), 64);
        const int at = ptx::wrap_add(t_30, begin_3);
        // teams.py: first = px.cdiv(row * columns, VEC) * VEC  (called at teams.py)
        const int t_31 = ptx::wrap_mul(row_3, columns);
        const int t_32 = ptx::wrap_add((t_31 >> 3), ((int)((t_31 & 7) != 0)));
        const int first_3 = ptx::wrap_mul(t_32, 8);
        // teams.py: with full.transaction():  (called at teams.py)
        if (px_one) {
          ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * t_23, 9232);
          // teams.py: px.tma.load(X[at : at + slot.shape[0]], slot, full)  (called at teams.py)
          // bulk copy: one contiguous run of 9216 bytes from a multiple of 16 bytes
          ptx::bulk_load(reinterpret_cast<px_bf16*>(px_smem + team * 18432 + stage_2 * 9216), X.data + at, at, X.shape[0], 4608, full + 8 * t_23);
          // teams.py: px.tma.load(X[first : first + HEAD], head, full)  (called at teams.py)
          // bulk copy: one contiguous run of 16 bytes from a multiple of 16 bytes
          ptx::bulk_load(reinterpret_cast<px_bf16*>(px_smem + 36864 + team * 128 + stage_2 * 16), X.data + first_3, first_3, X.shape[0], 8, full + 8 * t_23);
        }
        // teams.py: filled.advance()
        const int t_33 = ptx::wrap_add(stage_2, 1);
        const bool t_34 = t_33 == 2;
        stage_2 = t_34 ? 0 : t_33;
        parity_3 = parity_3 ^ ((int)t_34);
      }
      // teams.py: for ahead in range(team, px.minimum(dealt.turns, team + SLOTS * TEAMS), TEAMS):  # they come while weights do
      // teams.py: read[0].wait(turn.parity ^ 1)
      ptx::mbarrier_wait_parity(read, parity_2 ^ 1);
      // teams.py: first = first_beside(columns, which * columns % VEC, part, ROOM, LINE, VEC)
      const int t_23 = ptx::wrap_mul(which, columns) & 7;
      // teams.py: behind = shift + LINE - VEC  (called at teams.py)
      const int behind = ptx::wrap_sub(ptx::wrap_add(t_23, 64), 8);
      // teams.py: last = (columns - ROOM + shift) // VEC * VEC - shift  (called at teams.py)
      const int t_24 = ptx::wrap_add(ptx::wrap_sub(columns, 4608), t_23);
      const int last_2 = ptx::wrap_sub((ptx::wrap_mul((t_24 >> 3), 8)), t_23);
      // teams.py: return px.maximum(-behind, px.minimum(px.cluster.rank() * part - behind, last))  (called at teams.py)
      const int t_25 = ptx::minimum<int>(ptx::wrap_sub(0, behind), last_2);
      const int first_3 = ptx::maximum<int>(ptx::wrap_sub(0, behind), t_25);
      // teams.py: for part in range(team, PARTS, TEAMS):  (called at teams.py)
      for (int part_1 = team; part_1 < 9; part_1 += 2) {
        // teams.py: place = at + part * SPAN  (called at teams.py)
        const int place = ptx::wrap_add(first_3, ptx::wrap_mul(part_1, 512));
        // teams.py: tiles = (*tiles, None if V is None else px.load(V[place : place + SPAN]))  (called at teams.py)
        px_bf16 t_26[8];
        {
          const unsigned x0 = (unsigned)place + px_lane * 8 + px_warp * 256;
          px_bf16* const p = W.data + ((int)x0);
          unsigned words[4];
          if (place % 8 == 0 && (W.shape[0] % 8 == 0 || place <= W.shape[0] - 512)) {
            if (ptx::inside(x0, W.shape[0])) ptx::load_words<8>(words, p);
            else ptx::fill_words<8, px_bf16>(words, (px_bf16)0x0000);
          } else {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
              t_26[i] = ptx::inside(x0 + i, W.shape[0]) ? *(p + i) : (px_bf16)0x0000;
            }
            ptx::pack_words<8>(words, t_26);
          }
          ptx::unpack_words<8>(t_26, words);
        }
        px_bf16 t_27[8];
        {
          const unsigned x0 = (unsigned)place + px_lane * 8 + px_warp * 256;
          px_bf16* const p = B.data + ((int)x0);
          unsigned words[4];
          if (place % 8 == 0 && (B.shape[0] % 8 == 0 || place <= B.shape[0] - 512)) {
            if (ptx::inside(x0, B.shape[0])) ptx::load_words<8>(words, p);
            else ptx::fill_words<8, px_bf16>(words, (px_bf16)0x0000);
          } else {
            #pragma unroll
            for (int i = 0; i < 8; ++i) {
              t_27[i] = ptx::inside(x0 + i, B.shape[0]) ? *(p + i) : (px_bf16)0x0000;
            }
            ptx::pack_words<8>(words, t_27);
          }
          ptx::unpack_words<8>(t_27, words);
        }
        // teams.py: px.store(kept[number][part * SPAN : part * SPAN + SPAN], tiles[number].to(kept[number].dtype))  (called at teams.py)
        {
          px_bf16* const p = w + ptx::wrap_mul(part_1, 512) + px_lane * 8 + px_warp * 256;
          ptx::store_vector<8>(p, t_26);
        }
        {
          px_bf16* const p = b + ptx::wrap_mul(part_1, 512) + px_lane * 8 + px_warp * 256;
          ptx::store_vector<8>(p, t_27);
        }
      }
      // teams.py: if team == TEAMS - 1:  (called at teams.py)
      if (team == 1) {
        // teams.py: tile = px.load(vectors[number][at + PARTS * SPAN : at + PARTS * SPAN + LINE])  (called at teams.py)
        px_bf16 tile[1];
        {
          const unsigned x0 = (unsigned)first_3 + px_lane + px_warp * 32;
          px_bf16* const p = (W.data + ((int)x0)) + (4608);
          tile[0] = ptx::inside(x0 + 4608, W.shape[0]) ? *(p) : (px_bf16)0x0000;
        }
        // teams.py: px.store(kept[number][PARTS * SPAN : PARTS * SPAN + LINE], tile.to(kept[number].dtype))  (called at teams.py)
        ptx::bar_sync_of<64>(1 + px_copy);  // w was written at line 297 before w is written
        {
          px_bf16* const p = w + px_lane + px_warp * 32;
          *(p + 4608) = tile[0];
        }
        // teams.py: tile = px.load(vectors[number][at + PARTS * SPAN : at + PARTS * SPAN + LINE])  (called at teams.py)
        px_bf16 tile_1[1];
        {
          const unsigned x0 = (unsigned)first_3 + px_lane + px_warp * 32;
          px_bf16* const p = (B.data + ((int)x0)) + (4608);
          tile_1[0] = ptx::inside(x0 + 4608, B.shape[0]) ? *(p) : (px_bf16)0x0000;
        }
        // teams.py: px.store(kept[number][PARTS * SPAN : PARTS * SPAN + LINE], tile.to(kept[number].dtype))  (called at teams.py)
        {
          px_bf16* const p = b + px_lane + px_warp * 32;
          *(p + 4608) = tile_1[0];
        }
      }
      // teams.py: saved[0].arrive()
      ptx::bar_sync_of<64>(1 + px_copy);  // all threads are done with b at line 297 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(saved);
      }
      // teams.py: saved[0].wait(turn.parity)
      ptx::mbarrier_wait_parity(saved, parity_2);
      // teams.py: first = px.keep(first)  # else what `save_vectors` computed from it is held in registers, and spilled
      const int first_4 = ptx::keep_scalar(first_3);
      // teams.py: for some in range(team, dealt.turns, TEAMS):
      int stage_3 = stage;
      int parity_4 = parity;
      int stage_4 = stage_2;
      int parity_5 = parity_3;
      #pragma unroll 1
      for (int some_2 = team; some_2 < t_22; some_2 += 2) {
        int stage_5;
        int parity_6;
        // teams.py: full[team * SLOTS + stage].wait(taken.parity)
        ptx::mbarrier_wait_parity(full + 8 * (ptx::wrap_add(ptx::wrap_mul(team, 2), stage_3)), parity_4);
        // teams.py: taken.advance()
        const int t_26 = ptx::wrap_add(stage_3, 1);
        const bool t_27 = t_26 == 2;
        // deals.py: row = self.first + turn * self.step  (called at teams.py)
        const int row_2 = ptx::wrap_add(plus_1, ptx::wrap_mul(some_2, times));
        // deals.py: taken = px.minimum(px.maximum(turn - self.early, 0), self.some)  (called at teams.py)
        const int t_28 = ptx::maximum<int>(ptx::wrap_sub(some_2, early), 0);
        const int taken_1 = ptx::minimum<int>(t_28, some_1);
        // deals.py: row = row + (taken + px.minimum(px.maximum(turn - self.late, 0), self.more)) * self.PERIOD  (called at teams.py)
        const int t_29 = ptx::maximum<int>(ptx::wrap_sub(some_2, late_1), 0);
        const int t_30 = ptx::wrap_add(taken_1, (ptx::minimum<int>(t_29, more_1)));
        const int row_3 = ptx::wrap_add(row_2, ptx::wrap_mul(t_30, 8));
        // teams.py: off = row * columns % LINE  (called at teams.py)
        const int off = ptx::wrap_mul(row_3, columns) & 63;
        // teams.py: begin = px.maximum(px.minimum(px.cluster.rank() * part, px.cdiv(off + columns, LINE) * LINE - ROOM), 0)  (called at teams.py)
        const int t_31 = ptx::wrap_add(off, columns);
        const int t_32 = ptx::wrap_add((t_31 >> 6), ((int)((t_31 & 63) != 0)));
        const int t_33 = ptx::minimum<int>(0, (ptx::wrap_sub(ptx::wrap_mul(t_32, 64), 4608)));
        const int begin_3 = ptx::maximum<int>(t_33, 0);
        // teams.py: return row * columns // LINE * LINE + begin, begin, off  (called at teams.py)
        const int t_34 = ptx::wrap_mul((ptx::wrap_mul(row_3, columns) >> 6), 64);
        const int at = ptx::wrap_add(t_34, begin_3);
        // teams.py: low = px.keep(px.maximum(own, off) - begin)
        const int t_35 = ptx::wrap_sub((ptx::maximum<int>(0, off)), begin_3);
        const int low = ptx::keep_scalar(t_35);
        // teams.py: high = px.keep(px.minimum(own + part, off + columns) - begin)
        const int t_36 = ptx::minimum<int>(part, ptx::wrap_add(off, columns));
        const int high = ptx::keep_scalar(ptx::wrap_sub(t_36, begin_3));
        // teams.py: beside = px.maximum(begin - off - first, 0) // VEC * VEC
        const int t_37 = ptx::wrap_sub(ptx::wrap_sub(begin_3, off), first_4);
        const int beside = ptx::wrap_mul(((ptx::maximum<int>(t_37, 0)) >> 3), 8);
        // teams.py: pivot = px.load(head[0]).to(px.f32)  (called at teams.py)
        const px_bf16 t_38 = *(heads + team * 64 + stage_3 * 8);
        const float pivot = ptx::bf16_to_float(t_38);
        // teams.py: pivot = pivot + px.load(head[place]).to(px.f32)  (called at teams.py)
        const px_bf16 t_39 = *(heads + team * 64 + stage_3 * 8 + 1);
        const float pivot_1 = pivot + ptx::bf16_to_float(t_39);
        const px_bf16 t_40 = *(heads + team * 64 + stage_3 * 8 + 2);
        const float pivot_2 = pivot_1 + ptx::bf16_to_float(t_40);
        const px_bf16 t_41 = *(heads + team * 64 + stage_3 * 8 + 3);
        const float pivot_3 = pivot_2 + ptx::bf16_to_float(t_41);
        const px_bf16 t_42 = *(heads + team * 64 + stage_3 * 8 + 4);
        const float pivot_4 = pivot_3 + ptx::bf16_to_float(t_42);
        const px_bf16 t_43 = *(heads + team * 64 + stage_3 * 8 + 5);
        const float pivot_5 = pivot_4 + ptx::bf16_to_float(t_43);
        const px_bf16 t_44 = *(heads + team * 64 + stage_3 * 8 + 6);
        const float pivot_6 = pivot_5 + ptx::bf16_to_float(t_44);
        const px_bf16 t_45 = *(heads + team * 64 + stage_3 * 8 + 7);
        const float pivot_7 = pivot_6 + ptx::bf16_to_float(t_45);
        // teams.py: return pivot * (1.0 / HEAD)  (called at teams.py)
        const float pivot_8 = pivot_7 * 0.125f;
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_46[8];
        {
          px_bf16* const p = slots + team * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_46, p);
        }
        float t_47[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_47[i] = ptx::bf16_to_float(t_46[i]);
        // teams.py: x = self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)  (called at teams.py)
        float x[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) x[i] = t_47[i];
        // known.py: apart = x - self.pivot  (called at teams.py)
        float apart[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart[i] = x[i] - pivot_8;
        // teams.py: place = px.arange(x.shape[1] * x.shape[2]) + self.first  (called at known.py)
        int t_48[8];
        {
          const int c0 = px_lane * 8 + px_warp * 256;
          #pragma unroll
          for (int i = 0; i < 8; ++i) {
            t_48[i] = c0 + i;
          }
        }
        int place[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) place[i] = ptx::wrap_add(t_48[i], 0);
        // teams.py: inside = (place >= self.low) & (place < self.high)  (called at known.py)
        bool t_49[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_49[i] = place[i] >= low;
        bool t_50[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_50[i] = place[i] < high;
        bool inside[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) inside[i] = (bool)(t_49[i] & t_50[i]);
        // teams.py: return px.where(inside.reshape(*x.shape), x, fill)  (called at known.py)
        bool t_51[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_51[i] = inside[i];
        float apart_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart_1[i] = t_51[i] ? apart[i] : 0.0f;
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float apart_sum[1];
        {
          apart_sum[0] = apart_1[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            apart_sum[0] = apart_sum[0] + apart_1[i];
          }
        }
        float t_52[1];
        t_52[0] = apart_sum[0];
        float t_sum[1];
        {
          t_sum[0] = t_52[0];
        }
        float t_53[1];
        t_53[0] = t_sum[0];
        // known.py: none = px.zeros((LANES,), px.f32)  (called at teams.py)
        float none[1];
        none[0] = 0.0f;
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_54[1];
        t_54[0] = none[0] + t_53[0];
        float t_55[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_55[i] = apart_1[i] * apart_1[i];
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float t_sum_1[1];
        {
          t_sum_1[0] = t_55[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            t_sum_1[0] = t_sum_1[0] + t_55[i];
          }
        }
        float t_56[1];
        t_56[0] = t_sum_1[0];
        float t_sum_2[1];
        {
          t_sum_2[0] = t_56[0];
        }
        float t_57[1];
        t_57[0] = t_sum_2[0];
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_58[1];
        t_58[0] = none[0] + t_57[0];
        // teams.py: for part in px.unroll(range(BEGINS, END), TURN):  (called at teams.py)
        float known_0[1];
        known_0[0] = t_54[0];
        float known_1[1];
        known_1[0] = t_58[0];
        #pragma unroll 2
        for (int part_1 = 1; part_1 < 7; ++part_1) {
          // teams.py: at = part * self.SPAN  (called at teams.py)
          const int at_1 = ptx::wrap_mul(part_1, 512);
          // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
          px_bf16 t_59[8];
          {
            px_bf16* const p = slots + team * 9216 + stage_3 * 4608 + at_1 + px_lane * 8 + px_warp * 256;
            ptx::load_vector<8>(t_59, p);
          }
          float t_60[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_60[i] = ptx::bf16_to_float(t_59[i]);
          // teams.py: x = self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)  (called at teams.py)
          float x_1[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) x_1[i] = t_60[i];
          // known.py: apart = x - self.pivot  (called at teams.py)
          float apart_2[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) apart_2[i] = x_1[i] - pivot_8;
          // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
          float apart_sum_1[1];
          {
            apart_sum_1[0] = apart_2[0];
            #pragma unroll
            for (int i = 1; i < 8; ++i) {
              apart_sum_1[0] = apart_sum_1[0] + apart_2[i];
            }
          }
          float t_61[1];
          t_61[0] = apart_sum_1[0];
          float t_sum_3[1];
          {
            t_sum_3[0] = t_61[0];
          }
          float t_62[1];
          t_62[0] = t_sum_3[0];
          // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
          float t_63[1];
          t_63[0] = known_0[0] + t_62[0];
          float t_64[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_64[i] = apart_2[i] * apart_2[i];
          // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
          float t_sum_4[1];
          {
            t_sum_4[0] = t_64[0];
            #pragma unroll
            for (int i = 1; i < 8; ++i) {
              t_sum_4[0] = t_sum_4[0] + t_64[i];
            }
          }
          float t_65[1];
          t_65[0] = t_sum_4[0];
          float t_sum_5[1];
          {
            t_sum_5[0] = t_65[0];
          }
          float t_66[1];
          t_66[0] = t_sum_5[0];
          // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
          float t_67[1];
          t_67[0] = known_1[0] + t_66[0];
          // teams.py: known = step(part, False, known, *more)  (called at teams.py)
          known_0[0] = t_63[0];
          known_1[0] = t_67[0];
        }
        // teams.py: for part in px.unroll(range(BEGINS, END), TURN):  (called at teams.py)
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_59[8];
        {
          px_bf16* const p = slots + team * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_59, p + 3584);
        }
        float t_60[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_60[i] = ptx::bf16_to_float(t_59[i]);
        // teams.py: x = self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)  (called at teams.py)
        float x_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) x_1[i] = t_60[i];
        // known.py: apart = x - self.pivot  (called at teams.py)
        float apart_2[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart_2[i] = x_1[i] - pivot_8;
        // teams.py: place = px.arange(x.shape[1] * x.shape[2]) + self.first  (called at known.py)
        int t_61[8];
        {
          const int c0 = px_lane * 8 + px_warp * 256;
          #pragma unroll
          for (int i = 0; i < 8; ++i) {
            t_61[i] = c0 + i;
          }
        }
        int place_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) place_1[i] = ptx::wrap_add(t_61[i], 3584);
        // teams.py: inside = (place >= self.low) & (place < self.high)  (called at known.py)
        bool t_62[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_62[i] = place_1[i] >= low;
        bool t_63[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_63[i] = place_1[i] < high;
        bool inside_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) inside_1[i] = (bool)(t_62[i] & t_63[i]);
        // teams.py: return px.where(inside.reshape(*x.shape), x, fill)  (called at known.py)
        bool t_64[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_64[i] = inside_1[i];
        float apart_3[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart_3[i] = t_64[i] ? apart_2[i] : 0.0f;
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float apart_sum_1[1];
        {
          apart_sum_1[0] = apart_3[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            apart_sum_1[0] = apart_sum_1[0] + apart_3[i];
          }
        }
        float t_65[1];
        t_65[0] = apart_sum_1[0];
        float t_sum_3[1];
        {
          t_sum_3[0] = t_65[0];
        }
        float t_66[1];
        t_66[0] = t_sum_3[0];
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_67[1];
        t_67[0] = known_0[0] + t_66[0];
        float t_68[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_68[i] = apart_3[i] * apart_3[i];
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float t_sum_4[1];
        {
          t_sum_4[0] = t_68[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            t_sum_4[0] = t_sum_4[0] + t_68[i];
          }
        }
        float t_69[1];
        t_69[0] = t_sum_4[0];
        float t_sum_5[1];
        {
          t_sum_5[0] = t_69[0];
        }
        float t_70[1];
        t_70[0] = t_sum_5[0];
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_71[1];
        t_71[0] = known_1[0] + t_70[0];
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_72[8];
        {
          px_bf16* const p = slots + team * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_72, p + 4096);
        }
        float t_73[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_73[i] = ptx::bf16_to_float(t_72[i]);
        // teams.py: x = self.part(part).reshape(1, self.LANES, self.SPAN // self.LANES)  (called at teams.py)
        float x_2[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) x_2[i] = t_73[i];
        // known.py: apart = x - self.pivot  (called at teams.py)
        float apart_4[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart_4[i] = x_2[i] - pivot_8;
        // teams.py: place = px.arange(x.shape[1] * x.shape[2]) + self.first  (called at known.py)
        int t_74[8];
        {
          const int c0 = px_lane * 8 + px_warp * 256;
          #pragma unroll
          for (int i = 0; i < 8; ++i) {
            t_74[i] = c0 + i;
          }
        }
        int place_2[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) place_2[i] = ptx::wrap_add(t_74[i], 4096);
        // teams.py: inside = (place >= self.low) & (place < self.high)  (called at known.py)
        bool t_75[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_75[i] = place_2[i] >= low;
        bool t_76[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_76[i] = place_2[i] < high;
        bool inside_2[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) inside_2[i] = (bool)(t_75[i] & t_76[i]);
        // teams.py: return px.where(inside.reshape(*x.shape), x, fill)  (called at known.py)
        bool t_77[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_77[i] = inside_2[i];
        float apart_5[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) apart_5[i] = t_77[i] ? apart_4[i] : 0.0f;
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float apart_sum_2[1];
        {
          apart_sum_2[0] = apart_5[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            apart_sum_2[0] = apart_sum_2[0] + apart_5[i];
          }
        }
        float t_78[1];
        t_78[0] = apart_sum_2[0];
        float t_sum_6[1];
        {
          t_sum_6[0] = t_78[0];
        }
        float t_79[1];
        t_79[0] = t_sum_6[0];
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_80[1];
        t_80[0] = t_67[0] + t_79[0];
        float t_81[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_81[i] = apart_5[i] * apart_5[i];
        // known.py: return reduce(reduce(x, axis=2), axis=0)  (called at known.py)
        float t_sum_7[1];
        {
          t_sum_7[0] = t_81[0];
          #pragma unroll
          for (int i = 1; i < 8; ++i) {
            t_sum_7[0] = t_sum_7[0] + t_81[i];
          }
        }
        float t_82[1];
        t_82[0] = t_sum_7[0];
        float t_sum_8[1];
        {
          t_sum_8[0] = t_82[0];
        }
        float t_83[1];
        t_83[0] = t_sum_8[0];
        // known.py: return sums + along_thread(px.sum, apart), squares + along_thread(px.sum, apart * apart)  (called at teams.py)
        float t_84[1];
        t_84[0] = t_71[0] + t_83[0];
        // known.py: return reduce(x) if WARPS is None else reduce(x.reshape(WARPS, 32), axis=1, keepdims=True)  (called at known.py)
        float t_85[1];
        t_85[0] = t_80[0];
        float t_sum_9[1];
        {
          t_sum_9[0] = t_85[0];
          #pragma unroll
          for (int mask = 1; mask <= 16; mask *= 2) {
            t_sum_9[0] = t_sum_9[0] + ptx::shuffle_xor(t_sum_9[0], mask);
          }
        }
        float t_86[1];
        t_86[0] = t_sum_9[0];
        float t_87[1];
        t_87[0] = t_84[0];
        float t_sum_10[1];
        {
          t_sum_10[0] = t_87[0];
          #pragma unroll
          for (int mask = 1; mask <= 16; mask *= 2) {
            t_sum_10[0] = t_sum_10[0] + ptx::shuffle_xor(t_sum_10[0], mask);
          }
        }
        float t_88[1];
        t_88[0] = t_sum_10[0];
        // stream.py: known = px.cluster.gather(known)  (called at teams.py)
        float t_89[1];
        float t_90[1];
        {
          // what all warps hold: shared memory
          const unsigned inbox = reduce_inbox_addr + 32 * (2 * px_copy + (turn & 1));
          if (px_lane == 0) {
            unsigned char* const there = px_smem + (inbox - px_base);
            {
              {
                {
                  const float words[2] = {t_86[0], t_88[0]};
                  ptx::store_vector<2>(reinterpret_cast<float*>(there + px_warp * 8), words);
                }
              }
            }
          }
          ptx::bar_sync_of<64>(1 + px_copy);  // all warps have written
          const unsigned char* const received = px_smem + (inbox - px_base);
          {
            const float* const source = reinterpret_cast<const float*>(received + (px_lane & 1) * 8);
            {
              float words[2];
              ptx::load_vector<2>(words, source);
              t_89[0] = words[0];
              t_90[0] = words[1];
            }
          }
          ++turn;
        }
        // known.py: near = px.sum(sums) * inverse  (called at teams.py)
        float t_91[1];
        t_91[0] = t_89[0];
        float t_sum_11[1];
        {
          t_sum_11[0] = t_91[0];
          t_sum_11[0] = t_sum_11[0] + ptx::shuffle_xor(t_sum_11[0], 1);
        }
        const float t_92 = t_sum_11[0];
        const float near = t_92 * inverse;
        // known.py: around = px.sum(squares) * inverse  (called at teams.py)
        float t_93[1];
        t_93[0] = t_90[0];
        float t_sum_12[1];
        {
          t_sum_12[0] = t_93[0];
          t_sum_12[0] = t_sum_12[0] + ptx::shuffle_xor(t_sum_12[0], 1);
        }
        const float t_94 = t_sum_12[0];
        const float around = t_94 * inverse;
        // known.py: return self.pivot + near, px.maximum(around - near * near, 0.0)  (called at teams.py)
        const float mean = pivot_8 + near;
        const float squares = ptx::max_NaN_f32((around - (near * near)), 0.0f);
        // teams.py: row.slot = slots[px.keep(team), stage]  # to be read again: the compiler keeps nothing of it  (called at teams.py)
        const int t_95 = ptx::keep_scalar(team);
        // teams.py: over(row, row.finish, (), w, b, Y, mean, px.rsqrt(squares + eps))  (called at teams.py)
        const float t_96 = rsqrtf((squares + eps));
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_97[8];
        {
          px_bf16* const p = slots + t_95 * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_97, p);
        }
        float t_98[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_98[i] = ptx::bf16_to_float(t_97[i]);
        // known.py: return px.fma(x, scale, mean * -scale)  (called at teams.py)
        float y[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y[i] = fmaf(t_98[i], t_96, (mean * (-t_96)));
        // teams.py: y = y * px.load(w[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_99[8];
        {
          px_bf16* const p = w + beside + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_99, p);
        }
        float t_100[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_100[i] = ptx::bf16_to_float(t_99[i]);
        float y_1[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_1[i] = y[i] * t_100[i];
        // teams.py: y = y + px.load(b[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_101[8];
        {
          px_bf16* const p = b + beside + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_101, p);
        }
        float t_102[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_102[i] = ptx::bf16_to_float(t_101[i]);
        float y_2[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_2[i] = y_1[i] + t_102[i];
        // teams.py: view = view.within(self.first + self.low, self.first + self.high)  (called at teams.py)
        // teams.py: px.store(view, y.to(Y.dtype), once=True)  (called at teams.py)
        px_bf16 y_3[8];
        #pragma unroll
        for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(y_3 + i, y_2[i], y_2[i + 1]);
        {
          const unsigned x0 = (unsigned)at + px_lane * 8 + px_warp * 256;
          const int first_5 = ptx::maximum<int>(ptx::wrap_add(at, low), 0);
          const int end = ptx::maximum<int>(ptx::minimum<int>(ptx::wrap_add(at, high), Y.shape[0]), first_5);
          px_bf16* const p = Y.data + ((int)x0);
          ptx::store_part_once<8>(p, y_3 + 0, (int)x0, first_5, end);
        }
        // teams.py: for part in px.unroll(range(BEGINS, END), TURN):  (called at teams.py)
        ptx::bar_sync_of<64>(1 + px_copy);  // Y was written at line 211 before Y is written
        #pragma unroll 2
        for (int part_1 = 1; part_1 < 7; ++part_1) {
          // teams.py: at = part * self.SPAN  (called at teams.py)
          const int at_1 = ptx::wrap_mul(part_1, 512);
          // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
          px_bf16 t_103[8];
          {
            px_bf16* const p = slots + t_95 * 9216 + stage_3 * 4608 + at_1 + px_lane * 8 + px_warp * 256;
            ptx::load_vector<8>(t_103, p);
          }
          float t_104[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_104[i] = ptx::bf16_to_float(t_103[i]);
          // known.py: return px.fma(x, scale, mean * -scale)  (called at teams.py)
          float y_4[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) y_4[i] = fmaf(t_104[i], t_96, (mean * (-t_96)));
          // teams.py: at = self.beside + part * self.SPAN  (called at teams.py)
          const int at_2 = ptx::wrap_add(beside, ptx::wrap_mul(part_1, 512));
          // teams.py: y = y * px.load(w[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
          px_bf16 t_105[8];
          {
            px_bf16* const p = w + at_2 + px_lane * 8 + px_warp * 256;
            ptx::load_vector<8>(t_105, p);
          }
          float t_106[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_106[i] = ptx::bf16_to_float(t_105[i]);
          float y_5[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) y_5[i] = y_4[i] * t_106[i];
          // teams.py: y = y + px.load(b[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
          px_bf16 t_107[8];
          {
            px_bf16* const p = b + at_2 + px_lane * 8 + px_warp * 256;
            ptx::load_vector<8>(t_107, p);
          }
          float t_108[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) t_108[i] = ptx::bf16_to_float(t_107[i]);
          float y_6[8];
          #pragma unroll
          for (int i = 0; i < 8; ++i) y_6[i] = y_5[i] + t_108[i];
          // teams.py: at = self.first + part * self.SPAN  (called at teams.py)
          const int at_3 = ptx::wrap_add(at, ptx::wrap_mul(part_1, 512));
          // teams.py: px.store(view, y.to(Y.dtype), once=True)  (called at teams.py)
          px_bf16 y_7[8];
          #pragma unroll
          for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(y_7 + i, y_6[i], y_6[i + 1]);
          {
            const unsigned x0 = (unsigned)at_3 + px_lane * 8 + px_warp * 256;
            px_bf16* const p = Y.data + ((int)x0);
            ptx::store_vector_once<8>(p, y_7, ptx::inside(x0, Y.shape[0]));
          }
        }
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_103[8];
        {
          px_bf16* const p = slots + t_95 * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_103, p + 3584);
        }
        float t_104[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_104[i] = ptx::bf16_to_float(t_103[i]);
        // known.py: return px.fma(x, scale, mean * -scale)  (called at teams.py)
        float y_4[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_4[i] = fmaf(t_104[i], t_96, (mean * (-t_96)));
        // teams.py: at = self.beside + part * self.SPAN  (called at teams.py)
        const int at_1 = ptx::wrap_add(beside, 3584);
        // teams.py: y = y * px.load(w[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_105[8];
        {
          px_bf16* const p = w + at_1 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_105, p);
        }
        float t_106[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_106[i] = ptx::bf16_to_float(t_105[i]);
        float y_5[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_5[i] = y_4[i] * t_106[i];
        // teams.py: y = y + px.load(b[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_107[8];
        {
          px_bf16* const p = b + at_1 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_107, p);
        }
        float t_108[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_108[i] = ptx::bf16_to_float(t_107[i]);
        float y_6[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_6[i] = y_5[i] + t_108[i];
        // teams.py: at = self.first + part * self.SPAN  (called at teams.py)
        const int at_2 = ptx::wrap_add(at, 3584);
        // teams.py: view = view.within(self.first + self.low, self.first + self.high)  (called at teams.py)
        // teams.py: px.store(view, y.to(Y.dtype), once=True)  (called at teams.py)
        px_bf16 y_7[8];
        #pragma unroll
        for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(y_7 + i, y_6[i], y_6[i + 1]);
        ptx::bar_sync_of<64>(1 + px_copy);  // Y was written at line 211 before Y is written
        {
          const unsigned x0 = (unsigned)at + px_lane * 8 + px_warp * 256;
          const int first_5 = ptx::maximum<int>(ptx::wrap_add(at, low), 0);
          const int end = ptx::maximum<int>(ptx::minimum<int>(ptx::wrap_add(at, high), Y.shape[0]), first_5);
          px_bf16* const p = (Y.data + ((int)x0)) + (3584);
          ptx::store_part_once<8>(p, y_7 + 0, (int)(x0 + 3584), first_5, end);
        }
        // teams.py: return px.load(self.slot[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_109[8];
        {
          px_bf16* const p = slots + t_95 * 9216 + stage_3 * 4608 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_109, p + 4096);
        }
        float t_110[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_110[i] = ptx::bf16_to_float(t_109[i]);
        // known.py: return px.fma(x, scale, mean * -scale)  (called at teams.py)
        float y_8[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_8[i] = fmaf(t_110[i], t_96, (mean * (-t_96)));
        // teams.py: at = self.beside + part * self.SPAN  (called at teams.py)
        const int at_3 = ptx::wrap_add(beside, 4096);
        // teams.py: y = y * px.load(w[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_111[8];
        {
          px_bf16* const p = w + at_3 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_111, p);
        }
        float t_112[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_112[i] = ptx::bf16_to_float(t_111[i]);
        float y_9[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_9[i] = y_8[i] * t_112[i];
        // teams.py: y = y + px.load(b[at : at + self.SPAN]).to(px.f32)  (called at teams.py)
        px_bf16 t_113[8];
        {
          px_bf16* const p = b + at_3 + px_lane * 8 + px_warp * 256;
          ptx::load_vector<8>(t_113, p);
        }
        float t_114[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) t_114[i] = ptx::bf16_to_float(t_113[i]);
        float y_10[8];
        #pragma unroll
        for (int i = 0; i < 8; ++i) y_10[i] = y_9[i] + t_114[i];
        // teams.py: at = self.first + part * self.SPAN  (called at teams.py)
        const int at_4 = ptx::wrap_add(at, 4096);
        // teams.py: view = view.within(self.first + self.low, self.first + self.high)  (called at teams.py)
        // teams.py: px.store(view, y.to(Y.dtype), once=True)  (called at teams.py)
        px_bf16 y_11[8];
        #pragma unroll
        for (int i = 0; i < 8; i += 2) ptx::bf16_pair_from_float(y_11 + i, y_10[i], y_10[i + 1]);
        {
          const unsigned x0 = (unsigned)at + px_lane * 8 + px_warp * 256;
          const int first_5 = ptx::maximum<int>(ptx::wrap_add(at, low), 0);
          const int end = ptx::maximum<int>(ptx::minimum<int>(ptx::wrap_add(at, high), Y.shape[0]), first_5);
          px_bf16* const p = (Y.data + ((int)x0)) + (4096);
          ptx::store_part_once<8>(p, y_11 + 0, (int)(x0 + 4096), first_5, end);
        }
        // teams.py: ahead = some + SLOTS * TEAMS
        const int ahead = ptx::wrap_add(some_2, 4);
        // teams.py: if ahead < dealt.turns:
        if (ahead < t_22) {
          // teams.py: ready = full[team * SLOTS + filled.stage]
          const int t_115 = ptx::wrap_add(ptx::wrap_mul(team, 2), stage_4);
          // deals.py: row = self.first + turn * self.step  (called at teams.py)
          const int row_4 = ptx::wrap_add(plus_1, ptx::wrap_mul(ahead, times));
          // deals.py: taken = px.minimum(px.maximum(turn - self.early, 0), self.some)  (called at teams.py)
          const int t_116 = ptx::maximum<int>(ptx::wrap_sub(ahead, early), 0);
          const int taken_2 = ptx::minimum<int>(t_116, some_1);
          // deals.py: row = row + (taken + px.minimum(px.maximum(turn - self.late, 0), self.more)) * self.PERIOD  (called at teams.py)
          const int t_117 = ptx::maximum<int>(ptx::wrap_sub(ahead, late_1), 0);
          const int t_118 = ptx::wrap_add(taken_2, (ptx::minimum<int>(t_117, more_1)));
          const int row_5 = ptx::wrap_add(row_4, ptx::wrap_mul(t_118, 8));
          // teams.py: off = row * columns % LINE  (called at teams.py)
          const int off_1 = ptx::wrap_mul(row_5, columns) & 63;
          // teams.py: begin = px.maximum(px.minimum(px.cluster.rank() * part, px.cdiv(off + columns, LINE) * LINE - ROOM), 0)  (called at teams.py)
          const int t_119 = ptx::wrap_add(off_1, columns);
          const int t_120 = ptx::wrap_add((t_119 >> 6), ((int)((t_119 & 63) != 0)));
          const int t_121 = ptx::minimum<int>(0, (ptx::wrap_sub(ptx::wrap_mul(t_120, 64), 4608)));
          const int begin_4 = ptx::maximum<int>(t_121, 0);
          // teams.py: return row * columns // LINE * LINE + begin, begin, off  (called at teams.py)
          const int t_122 = ptx::wrap_mul((ptx::wrap_mul(row_5, columns) >> 6), 64);
          const int at_5 = ptx::wrap_add(t_122, begin_4);
          // teams.py: first = px.cdiv(row * columns, VEC) * VEC  (called at teams.py)
          const int t_123 = ptx::wrap_mul(row_5, columns);
          const int t_124 = ptx::wrap_add((t_123 >> 3), ((int)((t_123 & 7) != 0)));
          const int first_6 = ptx::wrap_mul(t_124, 8);
          // teams.py: with full.transaction():  (called at teams.py)
          ptx::bar_sync_of<64>(1 + px_copy);  // all threads are done with slots at line 198 before the elected thread arrives
          if (px_one) {
            ptx::mbarrier_arrive_expect_tx_shared_cta(full + 8 * t_115, 9232);
            // teams.py: px.tma.load(X[at : at + slot.shape[0]], slot, full)  (called at teams.py)
            // bulk copy: one contiguous run of 9216 bytes from a multiple of 16 bytes
            ptx::bulk_load(reinterpret_cast<px_bf16*>(px_smem + team * 18432 + stage_4 * 9216), X.data + at_5, at_5, X.shape[0], 4608, full + 8 * t_115);
            // teams.py: px.tma.load(X[first : first + HEAD], head, full)  (called at teams.py)
            // bulk copy: one contiguous run of 16 bytes from a multiple of 16 bytes
            ptx::bulk_load(reinterpret_cast<px_bf16*>(px_smem + 36864 + team * 128 + stage_4 * 16), X.data + first_6, first_6, X.shape[0], 8, full + 8 * t_115);
          }
          // teams.py: filled.advance()
          const int t_125 = ptx::wrap_add(stage_4, 1);
          const bool t_126 = t_125 == 2;
          // teams.py: if ahead < dealt.turns:
          stage_5 = t_126 ? 0 : t_125;
          parity_6 = parity_5 ^ ((int)t_126);
        } else {
          stage_5 = stage_4;
          parity_6 = parity_5;
        }
        stage_3 = t_27 ? 0 : t_26;
        parity_4 = parity_4 ^ ((int)t_27);
        stage_4 = stage_5;
        parity_5 = parity_6;
      }
      // teams.py: for some in range(team, dealt.turns, TEAMS):
      // teams.py: read[0].arrive()
      ptx::bar_sync_of<64>(1 + px_copy);  // all threads are done with slots at line 198 before the elected thread arrives
      if (px_one) {
        ptx::mbarrier_arrive_shared_cta(read);
      }
      // teams.py: turn.advance()
      stage = stage_3;
      parity = parity_4;
      stage_1 = stage_4;
      parity_1 = parity_5;
      parity_2 = parity_2 ^ 1;
    }
  }
}
