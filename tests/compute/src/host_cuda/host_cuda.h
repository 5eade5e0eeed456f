// CUDA C++ for an ordinary compiler. This file is included before a kernel's source, which is compiled unchanged.
//
// Threads of a group are fibers. Only one runs at a time, until it finishes or reaches a barrier: see runner.cpp.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <type_traits>
#include <utility>

#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))
// the arrays of an entry: one copy in separate memory, filled with a pattern before each group
#define __shared__ static __attribute__((section("shared_memory")))

namespace host {

struct Index {
    unsigned x, y, z;
};

enum State { RUNNABLE, AT_WARP, AT_PART, AT_GROUP, AT_CLUSTER, FINISHED };

// Waits for the other threads; `line` is the source line, for messages.
void wait(State barrier, unsigned line);
// Waits for the threads of a part of the group: `threads` consecutive threads.
void wait_for_part(unsigned part, unsigned threads, unsigned line);
// Returns `value` of another lane of the caller's warp.
uint64_t shuffle(uint64_t value, unsigned lane, unsigned line);
// Ends the process with a message.
[[noreturn]] void fail(const char* format, ...);

unsigned lane();
void* dynamic_shared();
unsigned cluster_rank();
void* remote(void* shared, unsigned rank);
void copy_async16(void* shared_to, const void* global_from);
void copy_async_commit();
void copy_async_wait(unsigned left);

// An entry of the source, which can be called with buffers and words.
struct Entry {
    const char* name;
    unsigned buffers;
    unsigned args;
    // bit i: buffer i may be written
    unsigned writable;
    void (*call)(void* const* buffers, const unsigned* args);
};

template <class T>
struct Is_writable : std::false_type {};
template <class T>
struct Is_writable<T*> : std::bool_constant<!std::is_const_v<T>> {};

template <class T>
T parameter(void* const* buffers, const unsigned* args, unsigned buffer_count, unsigned at) {
    if constexpr (std::is_pointer_v<T>) {
        return static_cast<T>(buffers[at]);
    } else {
        static_assert(std::is_same_v<T, unsigned>, "after the buffers come words");
        return args[at - buffer_count];
    }
}

template <auto function, class... A, size_t... I>
Entry describe(const char* name, void (*)(A...), std::index_sequence<I...>) {
    constexpr unsigned buffers = (0u + ... + unsigned(std::is_pointer_v<A>));
    static_assert((true && ... && (std::is_pointer_v<A> == (I < buffers))), "buffers come first");
    Entry entry = {name, buffers, unsigned(sizeof...(A)) - buffers, 0, nullptr};
    entry.writable = (0u | ... | (unsigned(Is_writable<A>::value) << I));
    entry.call = [](void* const* buffer, const unsigned* args) {
        function(parameter<A>(buffer, args, buffers, unsigned(I))...);
    };
    return entry;
}

template <auto function, class... A>
Entry entry(const char* name, void (*pointer)(A...)) {
    return describe<function>(name, pointer, std::index_sequence_for<A...>());
}

// Follows the kernel's source.
extern const Entry entries[];
extern const unsigned entry_count;

}  // namespace host

extern host::Index threadIdx, blockIdx, blockDim, gridDim;

inline unsigned __brev(unsigned x) {
    unsigned reversed = 0;
    for (unsigned bit = 0; bit < 32; bit++) reversed |= (x >> bit & 1) << (31 - bit);
    return reversed;
}

inline void __syncthreads(unsigned line = __builtin_LINE()) { host::wait(host::AT_GROUP, line); }

inline void __syncwarp(unsigned mask = ~0u, unsigned line = __builtin_LINE()) {
    if (mask != ~0u) host::fail("line %u: only whole warps are emulated", line);
    host::wait(host::AT_WARP, line);
}

template <class T>
T __shfl_sync(unsigned mask, T value, unsigned lane, unsigned line = __builtin_LINE()) {
    static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
    if (mask != ~0u) host::fail("line %u: only whole warps are emulated", line);
    uint64_t word = 0;
    memcpy(&word, &value, sizeof(T));
    word = host::shuffle(word, lane % 32, line);
    memcpy(&value, &word, sizeof(T));
    return value;
}

template <class T>
T __shfl_xor_sync(unsigned mask, T value, unsigned lanes, unsigned line = __builtin_LINE()) {
    return __shfl_sync(mask, value, host::lane() ^ lanes, line);
}

inline unsigned __umulhi(unsigned x, unsigned y) { return unsigned(uint64_t(x) * y >> 32); }
inline unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
inline unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }

struct alignas(8) uint2 {
    unsigned x, y;
};
struct alignas(16) uint4 {
    unsigned x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
