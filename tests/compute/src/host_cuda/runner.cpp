// Runs launches of one compiled kernel source. Reads the launches from standard input and writes buffers to standard
// output, both as 32-bit words. After a fault of a kernel, the program prints the fault on standard error and ends.
//
// Buffers have the addresses that the host chose, so that a kernel reaches one buffer from another as on a card. A
// kernel may touch only the ranges that its launch names.
//
// Every launch runs three times on the same inputs, with groups, warps and threads in forward, reverse and random
// order. Shared memory holds another pattern each time. A kernel whose result depends on order or pattern is wrong.
//
// The warps of a group run one after another, each until it must wait. A barrier of the group must therefore separate a
// warp's write from another warp's read. Within a warp, threads run the same way. So do the parts of a group.

#include "host_cuda.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <vector>
#if !defined(__x86_64__)
#include <ucontext.h>
#endif

extern "C" char __start_shared_memory[] __attribute__((weak));
extern "C" char __stop_shared_memory[] __attribute__((weak));

host::Index threadIdx, blockIdx, blockDim, gridDim;

namespace {

const unsigned WARP = 32;
const unsigned CLUSTER_GROUPS_MAX = 16;
const size_t STACK_BYTES = 128 << 10;
const size_t GUARD_BYTES = 4 << 10;
// A launch that takes longer counts as endless.
const unsigned LAUNCH_SECONDS_MAX = 300;

enum Order { FORWARD, REVERSE, RANDOM };
const Order ORDERS[] = {FORWARD, REVERSE, RANDOM};

// ---------------------------------------------------------------------------------------------------------- fibers

// A separate stack that runs `main` whenever it is resumed, until `main` suspends itself.
struct Fiber {
    char* stack;
#if defined(__x86_64__)
    void* stack_pointer;
#else
    ucontext_t context;
#endif
};

#if defined(__x86_64__)
// Stores the registers that the calling convention preserves, and continues behind an earlier call of this function.
extern "C" void switch_stack(void** from, void* to);
asm(R"(
.text
.globl switch_stack
switch_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
)");
#endif

Fiber scheduler;
const void* scheduler_stack;
size_t scheduler_stack_bytes;

void switch_to(Fiber& from, Fiber& to) {
#if defined(__x86_64__)
    switch_stack(&from.stack_pointer, to.stack_pointer);
#else
    swapcontext(&from.context, &to.context);
#endif
}

void make_fiber(Fiber& fiber, void (*main)()) {
    void* stack = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, GUARD_BYTES, PROT_NONE) != 0) host::fail("no memory for a stack");
    fiber.stack = static_cast<char*>(stack) + GUARD_BYTES;
#if defined(__x86_64__)
    // looks as if address 0 had called `main`, and `main` had called `switch_stack`
    void** top = reinterpret_cast<void**>(fiber.stack + STACK_BYTES) - 2;
    top[0] = reinterpret_cast<void*>(main);
    fiber.stack_pointer = top - 6;
#else
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack;
    fiber.context.uc_stack.ss_size = STACK_BYTES;
    fiber.context.uc_link = nullptr;
    makecontext(&fiber.context, main, 0);
#endif
}

// Switches from the scheduler to a fiber. Returns when the fiber suspends itself.
void resume(Fiber& fiber) {
    void* fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, fiber.stack, STACK_BYTES);
    switch_to(scheduler, fiber);
    __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
}

// The first function on a fiber's stack.
void arrived() { __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes); }

// Switches from a fiber to the scheduler. Returns when the fiber is resumed.
void suspend(Fiber& fiber) {
    void* fake_stack;
    __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack, scheduler_stack_bytes);
    switch_to(fiber, scheduler);
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack, &scheduler_stack_bytes);
}

// --------------------------------------------------------------------------------------------- groups of one cluster

struct Copy {
    void* to;
    const void* from;
};

struct Thread {
    Fiber fiber = {};
    host::State state = host::FINISHED;
    unsigned line = 0;
    unsigned group = 0;
    // the threads of the barrier AT_PART
    unsigned part_first = 0, part_threads = 0;
    host::Index index = {};
    // shuffles alternate between two places, so that each needs one barrier only
    uint64_t exchange[2] = {};
    unsigned exchanges = 0;
    // asynchronous copies: committed groups, oldest first, then the open one
    std::vector<std::vector<Copy>> copies{1};
};

// A group that runs, or that waits for the other groups of its cluster.
struct Group {
    unsigned index = 0;
    std::vector<Thread*> threads;
    // the group's shared arrays, while another group runs
    std::vector<char> arrays;
    char* dynamic = nullptr;
};

// Memory at the address that the host chose.
struct Buffer {
    unsigned* words;
    size_t length;
};

// The words of a buffer that a kernel may touch.
struct Range {
    // the argument that the range belongs to
    unsigned argument;
    bool writable;
    unsigned* words;
    size_t length;
    std::vector<unsigned> input;
};

struct Launch {
    const host::Entry* entry;
    host::Index groups;
    unsigned threads, shared_bytes, cluster;
    // the buffers of each argument
    std::vector<void*> bound;
    std::vector<Buffer> buffers;
    // the ranges that the kernel may touch; the first one of an argument begins where the argument points
    std::vector<Range> ranges;
    std::vector<unsigned> args;
};

const Launch* launch;
Order order;
uint64_t dice;
std::vector<std::unique_ptr<Thread>> fibers;
std::vector<Group> groups;
Thread* thread;
Group* group;

unsigned roll(unsigned below) {
    dice ^= dice << 13;
    dice ^= dice >> 7;
    dice ^= dice << 17;
    return unsigned(dice >> 33) % below;
}

// The numbers 0 .. count in this run's order.
std::vector<unsigned> ordered(unsigned count) {
    std::vector<unsigned> at(count);
    for (unsigned i = 0; i < count; i++) at[i] = order == REVERSE ? count - 1 - i : i;
    for (unsigned i = 1; order == RANDOM && i < count; i++) std::swap(at[i], at[roll(i + 1)]);
    return at;
}

size_t arrays_bytes() { return size_t(__stop_shared_memory - __start_shared_memory); }

// Redzones lie between the arrays. This unchecked code may copy them; checked code may not touch them.
__attribute__((no_sanitize("address"))) void copy_bytes(char* to, const char* from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        to[i] = from[i];
        asm volatile("" ::: "memory");
    }
}

// The pattern in unwritten shared memory, another one in each run.
void poison(Group& group) {
    auto pattern = [](size_t at) { return char(order == FORWARD ? 0xa5 : order == REVERSE ? 0x5a : at * 89 + 7); };
    group.arrays.resize(arrays_bytes());
    for (size_t i = 0; i < group.arrays.size(); i++) group.arrays[i] = pattern(i);
    operator delete(group.dynamic, std::align_val_t(128));
    group.dynamic = static_cast<char*>(operator new(launch->shared_bytes, std::align_val_t(128)));
    for (size_t i = 0; i < launch->shared_bytes; i++) group.dynamic[i] = pattern(i);
}

void thread_main() {
    arrived();
    for (;;) {
        Thread* self = thread;
        launch->entry->call(launch->bound.data(), launch->args.data());
        self->state = host::FINISHED;
        suspend(self->fiber);
    }
}

// Runs a thread up to its next barrier.
void run(Thread& next) {
    thread = &next;
    threadIdx = next.index;
    resume(next.fiber);
}

const char* where(const Thread& thread) {
    static char text[4][64];
    static unsigned turn;
    char* out = text[turn++ % 4];
    const char* kind[] = {"runs", "waits for its warp", "waits for its part", "waits for its group", "waits for its cluster", "has finished"};
    if (thread.state == host::FINISHED) return kind[thread.state];
    snprintf(out, sizeof text[0], "%s in line %u", kind[thread.state], thread.line);
    return out;
}

// Releases all of these threads if all wait at `barrier`. Returns whether they did. They must wait at the same line.
bool release(Thread* const* threads, size_t count, host::State barrier) {
    for (size_t i = 0; i < count; i++) {
        if (threads[i]->state != barrier) return false;
    }
    for (size_t i = 1; i < count; i++) {
        if (threads[i]->line != threads[0]->line) {
            host::fail("divergent barrier: thread %u %s, thread %u %s", threads[0]->index.x, where(*threads[0]),
                       threads[i]->index.x, where(*threads[i]));
        }
    }
    for (size_t i = 0; i < count; i++) threads[i]->state = host::RUNNABLE;
    return true;
}

// Runs a warp until it must wait. Returns whether any thread advanced.
bool run_warp(Thread* const* threads, unsigned count) {
    bool moved = false;
    for (bool again = true; again;) {
        for (unsigned at : ordered(count)) {
            if (threads[at]->state != host::RUNNABLE) continue;
            run(*threads[at]);
            moved = true;
        }
        again = release(threads, count, host::AT_WARP);
    }
    return moved;
}

// Runs each part of a group whose threads all wait for their part, until the part waits for the group. So a part is far
// ahead of the parts that follow in this run's order. Returns whether any part ran.
bool run_parts(const std::vector<Thread*>& threads) {
    bool moved = false;
    for (unsigned warp : ordered(unsigned((threads.size() + WARP - 1) / WARP))) {
        Thread* first = threads[warp * WARP];
        while (first->state == host::AT_PART && first->index.x == first->part_first) {
            Thread* const* part = &threads[first->part_first];
            if (!release(part, first->part_threads, host::AT_PART)) break;
            for (unsigned of_part : ordered(first->part_threads / WARP)) run_warp(&part[of_part * WARP], WARP);
            moved = true;
        }
    }
    return moved;
}

// Runs a group until it must wait. Returns whether any thread advanced.
bool run_group(Group& next) {
    group = &next;
    const host::Index& groups = launch->groups;
    blockIdx = {next.index % groups.x, next.index / groups.x % groups.y, next.index / groups.x / groups.y};
    copy_bytes(__start_shared_memory, next.arrays.data(), next.arrays.size());
    bool moved = false;
    do {
        for (unsigned warp : ordered((launch->threads + WARP - 1) / WARP)) {
            unsigned first = warp * WARP;
            moved |= run_warp(&next.threads[first], std::min(WARP, launch->threads - first));
        }
    } while (run_parts(next.threads) || release(next.threads.data(), next.threads.size(), host::AT_GROUP));
    copy_bytes(next.arrays.data(), __start_shared_memory, next.arrays.size());
    return moved;
}

bool has_ended(const Group& group) {
    for (const Thread* thread : group.threads) {
        if (thread->state != host::FINISHED) return false;
    }
    return true;
}

// Starts the groups of a cluster and runs them to their end.
void run_cluster(unsigned first) {
    std::vector<Thread*> all;
    for (unsigned i = 0; i < launch->cluster; i++) {
        Group& starting = groups[i];
        starting.index = first + i;
        starting.threads.clear();
        poison(starting);
        for (unsigned t = 0; t < launch->threads; t++) {
            Thread& thread = *fibers[i * launch->threads + t];
            thread.state = host::RUNNABLE;
            thread.group = i;
            thread.index = {t, 0, 0};
            thread.copies.assign(1, {});
            starting.threads.push_back(&thread);
            all.push_back(&thread);
        }
    }
    for (bool moved = true; moved;) {
        moved = false;
        for (unsigned i : ordered(launch->cluster)) {
            const bool ran = run_group(groups[i]);
            // the shared memory of a group that has ended belongs to another group, so partners must not read it any more
            if (ran && launch->cluster > 1 && has_ended(groups[i])) poison(groups[i]);
            moved |= ran;
        }
        moved |= release(all.data(), all.size(), host::AT_CLUSTER);
    }
    for (const Thread* stuck : all) {
        if (stuck->state == host::FINISHED) continue;
        for (const Thread* other : all) {
            if (other->state != stuck->state) {
                host::fail("divergent barrier: thread %u of group %u %s, thread %u of group %u %s", stuck->index.x,
                           first + stuck->group, where(*stuck), other->index.x, first + other->group, where(*other));
            }
        }
        host::fail("divergent barrier: thread %u of group %u %s", stuck->index.x, first + stuck->group, where(*stuck));
    }
}

// ---------------------------------------------------------------------------------------------------------- launches

void read_words(void* to, size_t words) {
    // an empty range has no address to read to or to write from
    if (words > 0 && fread(to, 4, words, stdin) != words) exit(0);
}

unsigned read_word() {
    unsigned word;
    read_words(&word, 1);
    return word;
}

void write_words(const void* from, size_t words) {
    if (words > 0 && fwrite(from, 4, words, stdout) != words) exit(1);
}

size_t mapped_bytes(const Buffer& buffer) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    return (buffer.length * 4 + page - 1) / page * page;
}

// Maps a buffer at its address, before any of its words is touched.
void map(Buffer& buffer) {
    const size_t bytes = mapped_bytes(buffer);
    if (bytes == 0) return;
    void* got = mmap(buffer.words, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (got != buffer.words) host::fail("no memory at the address of a buffer");
    __asan_poison_memory_region(got, bytes);
}

void unmap(Buffer& buffer) {
    __asan_unpoison_memory_region(buffer.words, mapped_bytes(buffer));
    if (mapped_bytes(buffer) > 0) munmap(buffer.words, mapped_bytes(buffer));
}

// Reads a launch: entry, groups in x, y, z, threads, shared bytes, cluster, seed, number of buffer arguments, number of
// args; the args; the number of buffers, and for each its address, low word first, and its length; the number of
// ranges, and for each its argument, whether the launch writes it, its buffer, its first word, its length and its
// words. The first range of an argument begins where the argument points; this range may be empty. The answer holds the
// words of each written range.
void read_launch(Launch& launch) {
    unsigned at = read_word();
    launch.entry = &host::entries[at];
    for (unsigned* groups : {&launch.groups.x, &launch.groups.y, &launch.groups.z}) *groups = read_word();
    launch.threads = read_word();
    launch.shared_bytes = read_word();
    launch.cluster = read_word();
    dice = 0x9e3779b97f4a7c15ull ^ read_word();
    unsigned arguments = read_word(), args = read_word();
    if (arguments != launch.entry->buffers || args != launch.entry->args) {
        host::fail("it takes %u buffers and %u words, not %u and %u", launch.entry->buffers, launch.entry->args,
                   arguments, args);
    }
    launch.args.resize(launch.entry->args);
    read_words(launch.args.data(), launch.args.size());
    launch.buffers.resize(read_word());
    for (Buffer& buffer : launch.buffers) {
        uint64_t low = read_word(), high = read_word();
        buffer.words = reinterpret_cast<unsigned*>(high << 32 | low);
        buffer.length = read_word();
        map(buffer);
    }
    launch.ranges.resize(read_word());
    for (Range& range : launch.ranges) {
        range.argument = read_word();
        range.writable = read_word() != 0;
        if (range.writable != bool(launch.entry->writable >> range.argument & 1)) {
            host::fail("argument %u is %s by the launch, not by the entry", range.argument,
                       range.writable ? "written" : "only read");
        }
        const Buffer& buffer = launch.buffers[read_word()];
        range.words = buffer.words + read_word();
        range.length = read_word();
        range.input.resize(range.length);
        read_words(range.input.data(), range.length);
        if (range.argument == launch.bound.size()) launch.bound.push_back(range.words);
        __asan_unpoison_memory_region(range.words, range.length * 4);
    }
}

// Runs all groups in one order.
void run_all(const Launch& next, Order with) {
    launch = &next;
    order = with;
    blockDim = {next.threads, 1, 1};
    gridDim = next.groups;
    while (fibers.size() < size_t(next.threads) * next.cluster) {
        fibers.push_back(std::make_unique<Thread>());
        make_fiber(fibers.back()->fiber, thread_main);
    }
    if (groups.size() < next.cluster) groups.resize(next.cluster);
    const unsigned all = next.groups.x * next.groups.y * next.groups.z;
    for (unsigned cluster : ordered(all / next.cluster)) run_cluster(cluster * next.cluster);
}

void serve_launch() {
    Launch next;
    read_launch(next);
    if (next.threads == 0 || next.threads > 1024 || next.cluster == 0 || next.cluster > CLUSTER_GROUPS_MAX ||
        next.groups.x % next.cluster != 0) {
        host::fail("no such launch: %u groups in x of %u threads in clusters of %u", next.groups.x, next.threads,
                   next.cluster);
    }
    alarm(LAUNCH_SECONDS_MAX);
    std::vector<std::vector<unsigned>> results(next.ranges.size());
    for (Order order : ORDERS) {
        for (Range& range : next.ranges) {
            if (range.writable || order == FORWARD) std::copy(range.input.begin(), range.input.end(), range.words);
        }
        run_all(next, order);
        for (size_t i = 0; i < next.ranges.size(); i++) {
            const Range& range = next.ranges[i];
            if (!range.writable) continue;
            if (order == FORWARD) results[i].assign(range.words, range.words + range.length);
            for (size_t at = 0; at < range.length; at++) {
                if (range.words[at] == results[i][at]) continue;
                host::fail("threads race: word %zu of buffer %u is 0x%08x in forward order, 0x%08x in %s order", at,
                           range.argument, results[i][at], range.words[at], order == REVERSE ? "reverse" : "random");
            }
        }
    }
    alarm(0);
    for (size_t i = 0; i < next.ranges.size(); i++) {
        if (next.ranges[i].writable) write_words(results[i].data(), results[i].size());
    }
    for (Buffer& buffer : next.buffers) unmap(buffer);
    fflush(stdout);
}

}  // namespace

// -------------------------------------------------------------------------------------------------- what kernels call

namespace host {

void fail(const char* format, ...) {
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    fflush(stderr);
    _exit(1);
}

void wait(State barrier, unsigned line) {
    Thread* self = thread;
    self->state = barrier;
    self->line = line;
    suspend(self->fiber);
}

void wait_for_part(unsigned part, unsigned threads, unsigned line) {
    if (threads % WARP != 0 || (part + 1) * threads > launch->threads) fail("line %u: part %u is no part", line, part);
    if (part > 14) fail("line %u: a card has 15 barriers for parts", line);
    thread->part_first = part * threads;
    thread->part_threads = threads;
    wait(AT_PART, line);
}

unsigned lane() { return threadIdx.x % WARP; }

uint64_t shuffle(uint64_t value, unsigned lane, unsigned line) {
    Thread* self = thread;
    unsigned place = self->exchanges++ % 2;
    self->exchange[place] = value;
    wait(AT_WARP, line);
    unsigned partner = self->index.x / WARP * WARP + lane;
    if (partner >= launch->threads) fail("line %u: no lane %u in this warp", line, lane);
    return group->threads[partner]->exchange[place];
}

void* dynamic_shared() { return group->dynamic; }

unsigned cluster_rank() { return thread->group; }

void* remote(void* shared, unsigned rank) {
    if (rank >= launch->cluster) fail("no group %u in a cluster of %u", rank, launch->cluster);
    if (rank == thread->group) return shared;
    char* at = static_cast<char*>(shared);
    if (at >= __start_shared_memory && at < __stop_shared_memory) {
        return groups[rank].arrays.data() + (at - __start_shared_memory);
    }
    if (at < group->dynamic || at >= group->dynamic + launch->shared_bytes) fail("remote: not in shared memory");
    return groups[rank].dynamic + (at - group->dynamic);
}

// Nothing says when a copy happens between its start and the wait for it. So it happens at the end in one run, and at
// once in another.
void copy_async16(void* shared_to, const void* global_from) {
    if (uintptr_t(shared_to) % 16 != 0 || uintptr_t(global_from) % 16 != 0) fail("copy_async16: not aligned");
    bool now = order == REVERSE || (order == RANDOM && roll(2) == 0);
    if (now) {
        memcpy(shared_to, global_from, 16);
    } else {
        thread->copies.back().push_back({shared_to, global_from});
    }
}

void copy_async_commit() { thread->copies.emplace_back(); }

void copy_async_wait(unsigned left) {
    std::vector<std::vector<Copy>>& copies = thread->copies;
    while (copies.size() > size_t(left) + 1) {
        for (const Copy& copy : copies.front()) memcpy(copy.to, copy.from, 16);
        copies.erase(copies.begin());
    }
}

}  // namespace host

int main() {
    signal(SIGALRM, [](int) {
        const char text[] = "the launch does not end\n";
        if (write(2, text, sizeof text - 1) < 0) _exit(2);
        _exit(1);
    });
    for (;;) serve_launch();
}
