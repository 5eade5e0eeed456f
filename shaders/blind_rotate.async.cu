// Features that plain C++ lacks: shared memory whose size the launch sets, asynchronous copies, and groups that see
// each other's shared memory. Each feature is implemented twice with the same meaning: for a card, and for the emulated
// host.

#ifdef __CUDA_ARCH__

// Declares `T name[]` in the shared memory of the launch's size (`shared_bytes`), aligned to 128 bytes. At most once
// in an entry.
#define DYNAMIC_SHARED(T, name)                              \
    extern __shared__ __align__(128) unsigned dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(dynamic_shared)

// Starts to copy 16 bytes between places that are aligned to 16 bytes. The target must not be read or written before
// copy_async_wait.
__device__ inline void copy_async16(void* shared_to, const void* global_from) {
    asm volatile(
        "{\n"
        ".reg .u64 wide;\n"
        ".reg .u32 to;\n"
        "cvta.to.shared.u64 wide, %0;\n"
        "cvt.u32.u64 to, wide;\n"
        "cp.async.cg.shared.global [to], [%1], 16;\n"
        "}" ::"l"(shared_to),
        "l"(global_from)
        : "memory");
}

// Ends a batch of this thread's copies.
__device__ inline void copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// A barrier for groups that all run at the same time. Each group adds 1 to `arrived`, which starts at zero. `expected`
// is the number of groups times the number of barriers until now, including this one. Afterwards each group can read
// what the others wrote, with load_shown.
__device__ inline void groups_sync(unsigned* arrived, unsigned expected) {
    __syncthreads();
    // the barrier above orders the words of the group before this addition, so one thread releases them all
    if (threadIdx.x == 0) asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
    unsigned seen;
    // All threads poll and continue together, so that the threads of a warp have not diverged afterwards. If one thread
    // polled, the compiler would call subroutines for later shuffles on cards before 9.0.
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    } while (__syncthreads_or(seen < expected));
}

// The part of this thread, if the threads of a group form parts of THREADS consecutive threads, whole warps. The number
// is computed again in each call, so that it need not stay in a register.
template <unsigned THREADS>
__device__ inline unsigned part_of_thread() {
    static_assert(THREADS % 32 == 0, "whole warps");
    unsigned thread;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
    return thread / THREADS;
}

// A barrier of this thread's part of the group. A group has at most 15 parts.
template <unsigned THREADS>
__device__ inline void part_sync() {
    // barrier 0 is __syncthreads
    asm volatile("bar.sync %0, %1;" ::"r"(1 + part_of_thread<THREADS>()), "n"(THREADS) : "memory");
}

// Loads 16 bytes that another group may just have written, bypassing this multiprocessor's cache.
template <class T>
__device__ inline T load_shown(const T* from) {
    static_assert(sizeof(T) == 16, "four words");
    T value;
    asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.word[0]), "=r"(value.word[1]), "=r"(value.word[2]), "=r"(value.word[3])
                 : "l"(from)
                 : "memory");
    return value;
}

// Loads a word that was loaded before, so that it need not stay in a register meanwhile.
__device__ inline unsigned load_again(const unsigned* from) {
    unsigned word;
    asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
    return word;
}

// Waits until at most LEFT batches of this thread's copies are in flight. Other threads see the copies after a
// barrier.
template <int LEFT>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// For clusters, sm_90 and later. Older cards must not execute these functions.

// This group's place in its cluster.
__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// A barrier of all threads of a cluster. Afterwards each thread sees what the others wrote, in any memory.
__device__ inline void cluster_sync_all() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}

// A barrier of all threads of a cluster. Afterwards each thread sees what the others wrote to shared memory. Words of
// global memory are not ordered, so that the barrier need not wait for the whole device: on an H200 it takes 178 ns
// instead of 311 ns. Compilers before CUDA 12.7 do not know these fences (PTX 8.6).
__device__ inline void cluster_sync() {
#if __CUDACC_VER_MAJOR__ > 12 || (__CUDACC_VER_MAJOR__ == 12 && __CUDACC_VER_MINOR__ >= 7)
    asm volatile(
        "fence.release.sync_restrict::shared::cta.cluster;\n"
        "barrier.cluster.arrive.relaxed.aligned;\n"
        "barrier.cluster.wait.aligned;\n"
        "fence.acquire.sync_restrict::shared::cluster.cluster;" ::
            : "memory");
#else
    cluster_sync_all();
#endif
}

// The address of the same place in the shared memory of another group of the cluster.
template <class T>
__device__ inline T* remote(T* shared, unsigned rank) {
    unsigned long long to;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(to) : "l"(shared), "r"(rank));
    return reinterpret_cast<T*>(to);
}

#else

#define DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(host::dynamic_shared())

inline void copy_async16(void* shared_to, const void* global_from) { host::copy_async16(shared_to, global_from); }
inline void copy_async_commit() { host::copy_async_commit(); }

template <int LEFT>
inline void copy_async_wait() {
    host::copy_async_wait(LEFT);
}

inline unsigned cluster_rank() { return host::cluster_rank(); }
inline void cluster_sync(unsigned line = __builtin_LINE()) { host::wait(host::AT_CLUSTER, line); }
inline void cluster_sync_all(unsigned line = __builtin_LINE()) { host::wait(host::AT_CLUSTER, line); }

template <unsigned THREADS>
unsigned part_of_thread() {
    return threadIdx.x / THREADS;
}

template <unsigned THREADS>
void part_sync(unsigned line = __builtin_LINE()) {
    host::wait_for_part(threadIdx.x / THREADS, THREADS, line);
}

// on the host, groups that run at the same time form a cluster
inline void groups_sync(unsigned*, unsigned, unsigned line = __builtin_LINE()) { host::wait(host::AT_CLUSTER, line); }

inline unsigned load_again(const unsigned* from) { return *from; }

template <class T>
T load_shown(const T* from) {
    return *from;
}

template <class T>
T* remote(T* shared, unsigned rank) {
    return static_cast<T*>(host::remote(shared, rank));
}

#endif
