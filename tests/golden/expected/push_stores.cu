// transposed(BM=16, BN=32, CLUSTER=(2, 1, 1)) for sm_90a, from cluster_cases.py:72
// 64 threads, 2064 bytes of shared memory, clusters of 2 x 1 x 1 (set at launch)

typedef unsigned short px_f16;
template <class T, int rank>
struct px_array {
  T* data;
  long long stride[rank];  // in elements
  int shape[rank];
};

// device functions, as in helpers.cuh:
//   mbarrier_init_shared_cta
//   fence_mbarrier_init_release_cluster
//   barrier_cluster_arrive_relaxed_aligned
//   cluster_ctarank
//   wrap_mul
//   wrap_add
//   inside
//   load_words
//   bits
//   fill_words
//   unpack_words
//   barrier_cluster_wait_acquire_aligned
//   unpack
//   store_vector
//   fence_proxy_async_shared_cta
//   mbarrier_arrive_expect_tx_shared_cta
//   shift_left
//   mapa_shared_cluster
//   load_vector
//   store_remote
//   fence_acq_rel_cluster
//   mbarrier_complete_tx_relaxed_cluster_shared_cluster
//   mbarrier_try_wait_parity_acquire_cluster_shared_cta
//   mbarrier_wait_parity_acquire_cluster
//   barrier_cluster_arrive_release_aligned
//   elect_sync
//   shared_address

extern "C" __global__ void __launch_bounds__(64, 1) transposed_kernel(
    const __grid_constant__ px_array<px_f16, 3> X,
    const __grid_constant__ px_array<px_f16, 3> Y) {
  extern __shared__ __align__(1024) unsigned char px_smem[];
  const int px_lane = (int)(threadIdx.x % 32);
  const int px_warp_id = __shfl_sync(0xffffffffu, (int)(threadIdx.x / 32), 0);
  const unsigned px_base = ptx::shared_address(px_smem);
  const unsigned full = px_base + 2048;
  px_f16* const mine = reinterpret_cast<px_f16*>(px_smem);
  const unsigned inbox_addr = px_base + 1024;
  px_f16* const inbox = reinterpret_cast<px_f16*>(px_smem + 1024);
  const int px_thread = (int)threadIdx.x;
  const bool px_one = px_warp_id == 0 && ptx::elect_sync();
  // cluster_cases.py:77: full = px.barrier()
  if (px_one) {
    ptx::mbarrier_init_shared_cta(full, 1);
    // cluster_cases.py:72: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
    ptx::fence_mbarrier_init_release_cluster();
  }
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_arrive_relaxed_aligned();
  // cluster_cases.py:75: me, to = px.cluster.id() * size + px.cluster.rank(), (px.cluster.rank() + 1) % size
  const int cluster = (int)blockIdx.x / 2 + ((int)gridDim.x / 2) * ((int)blockIdx.y + (int)gridDim.y * (int)blockIdx.z);
  const int rank = ptx::cluster_ctarank();
  const int me = ptx::wrap_add(ptx::wrap_mul(cluster, 2), rank);
  const int to = ptx::wrap_add(rank, 1) & 1;
  // cluster_cases.py:78: px.store(mine, px.load(X[me, 0:BM, 0:BN]))
  px_f16 t[8];
  {
    const int x1 = (px_lane >> 2) + px_warp_id * 8;
    const int x2 = (px_lane & 3) * 8;
    px_f16* const p = X.data + (me * X.stride[0] + x1 * X.stride[1] + x2);
    unsigned words[4];
    if (ptx::inside(me, X.shape[0]) && ptx::inside(x1, X.shape[1]) && ptx::inside(x2, X.shape[2])) ptx::load_words<8>(words, p);
    else ptx::fill_words<8, px_f16>(words, (px_f16)0x0000);
    ptx::unpack_words<8>(t, words);
  }
  // cluster_cases.py:72: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
  // barriers are initialised before a peer reaches them
  ptx::barrier_cluster_wait_acquire_aligned();
  // cluster_cases.py:78: px.store(mine, px.load(X[me, 0:BM, 0:BN]))
  {
    px_f16* const p = mine + px_lane * 8 + px_warp_id * 256;
    ptx::store_vector<8>(p, t);
  }
  // cluster_cases.py:79: px.fence.async_proxy()
  ptx::fence_proxy_async_shared_cta();
  // cluster_cases.py:80: with full.transaction():
  __syncthreads();  // all threads are done with mine at line 78 before the elected thread arrives
  if (px_one) {
    ptx::mbarrier_arrive_expect_tx_shared_cta(full, 1024);
  }
  // cluster_cases.py:81: px.cluster.copy(mine, inbox.T, full, cta=to)
  // stores: a row is not contiguous in both: one of them is transposed; 2 bytes at a time, too few for st.async: a fence and a credit of 1024 bytes follow
  __syncthreads();  // all threads take part in the push
  {
    const unsigned there_bar = ptx::mapa_shared_cluster(full, to);
    const unsigned there = ptx::mapa_shared_cluster(inbox_addr, to);
    for (int i = px_thread; i < 512; i += 64) {
      const unsigned from = (i / 32) * 64 + (i % 32) * 2;
      const unsigned to_1 = (i % 32) * 32 + (i / 32) * 2;
      px_f16 piece[1];
      ptx::load_vector<1>(piece, reinterpret_cast<const px_f16*>(px_smem + 0 + (from)));
      ptx::store_remote<1>(there + (to_1), piece);
    }
    __syncthreads();  // all threads have stored
    if (px_one) {
      ptx::fence_acq_rel_cluster();
      ptx::mbarrier_complete_tx_relaxed_cluster_shared_cluster(there_bar, 1024);
    }
  }
  // cluster_cases.py:82: full.wait(0)
  ptx::mbarrier_wait_parity_acquire_cluster(full, 0);
  // cluster_cases.py:83: px.store(Y[me, 0:BN, 0:BM], px.load(inbox))
  px_f16 t_1[8];
  {
    px_f16* const p = inbox + px_lane * 8 + px_warp_id * 256;
    ptx::load_vector<8>(t_1, p);
  }
  {
    const int x1 = (px_lane >> 1) + px_warp_id * 16;
    const int x2 = (px_lane & 1) * 8;
    px_f16* const p = Y.data + (me * Y.stride[0] + x1 * Y.stride[1] + x2);
    if (ptx::inside(me, Y.shape[0]) && ptx::inside(x1, Y.shape[1]) && ptx::inside(x2, Y.shape[2])) ptx::store_vector<8>(p, t_1);
  }
  // cluster_cases.py:72: def transposed(X, Y, *, CLUSTER, BM=16, BN=32):
  // exit: peers may still touch this CTA's shared memory
  ptx::barrier_cluster_arrive_release_aligned();
  ptx::barrier_cluster_wait_acquire_aligned();
}
