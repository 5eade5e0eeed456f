// What plain C++ has no words for: shared memory whose size the launch says, copies that run beside the threads, and
// groups that see each other's shared memory. One meaning, two texts: the card's, and the emulated host's.

#ifdef __CUDA_ARCH__

// `T name[]` in the shared memory that the launch asks for (`shared_bytes`), aligned to 128 bytes. Once an entry.
#define DYNAMIC_SHARED(T, name)                              \
    extern __shared__ __align__(128) unsigned dynamic_shared[]; \
    T* const name = reinterpret_cast<T*>(dynamic_shared)

// Starts to copy 16 bytes, both places aligned to 16. The place is not to be read or written before the wait.
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

// A barrier of groups that all run at once and count in `arrived`, which is zero at first. `expected` is their number
// times the barriers so far, this one among them. Each then sees what the others wrote, by load_shown.
__device__ inline void groups_sync(unsigned* arrived, unsigned expected) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(arrived, 1);
    unsigned seen;
    // all threads ask, and go on together: what follows need not find a warp together again
    do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(arrived) : "memory");
    } while (__syncthreads_or(seen < expected));
}

// 16 bytes that another group may have written a moment ago: past the cache of this multiprocessor.
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

// Waits until at most LEFT batches of this thread's copies are under way. Other threads see them after a barrier.
template <int LEFT>
__device__ inline void copy_async_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

// Of clusters, sm_90 and later: to be reached by nothing on older cards.

// This group's place in its cluster.
__device__ inline unsigned cluster_rank() {
    unsigned rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// A barrier of all threads of a cluster, after which each sees what the others wrote.
__device__ inline void cluster_sync() {
    asm volatile(
        "barrier.cluster.arrive.release.aligned;\n"
        "barrier.cluster.wait.acquire.aligned;" ::
            : "memory");
}

// The same place in the shared memory of another group of the cluster.
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

// groups that run at once are a cluster here
inline void groups_sync(unsigned*, unsigned, unsigned line = __builtin_LINE()) { host::wait(host::AT_CLUSTER, line); }

template <class T>
T load_shown(const T* from) {
    return *from;
}

template <class T>
T* remote(T* shared, unsigned rank) {
    return static_cast<T*>(host::remote(shared, rank));
}

#endif
