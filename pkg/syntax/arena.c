#include "arena.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A block has a header of 8 bytes before it, with its size class. Blocks are at multiples of 16 bytes, as of malloc.
// A large block has its size before the header.
enum {
	STEP = 16,
	CLASSES = 32,              // the small blocks have 8, 24, ... bytes
	LARGE = CLASSES,           // the class of a block of the C heap, which begins a step before it
	SLAB = 256 << 10,          // bytes
	HEADER = sizeof(uint64_t),
};

typedef struct block {
	struct block *next;
} block;

typedef struct slab {
	struct slab *next;
	_Alignas(HEADER) char bytes[SLAB];
} slab;

_Static_assert(offsetof(slab, bytes) % STEP == STEP - HEADER, "the first block of a slab is at a multiple of STEP");

struct kaged_arena {
	block *free[CLASSES];
	slab *slabs;
	size_t used;  // bytes of the first slab
	size_t size;  // of the slabs
	size_t large; // bytes of the large blocks
	size_t bound;
	size_t *flag; // set when size and large exceed bound
};

static _Thread_local kaged_arena *current;

static void *checked(void *block, size_t size) {
	if (block) return block;
	fprintf(stderr, "tree-sitter failed to allocate %zu bytes\n", size); // as its own allocator does
	abort();
}

static uint64_t *header(void *block) { return (uint64_t *)((char *)block - HEADER); }

static uint64_t *large_size(void *block) { return (uint64_t *)((char *)block - STEP); }

// Adds bytes to a counter of an arena and compares the sum with the bound.
static void count(kaged_arena *a, size_t *counter, size_t bytes) {
	*counter += bytes;
	if (a->flag && a->size + a->large > a->bound) __atomic_store_n(a->flag, KAGED_FULL, __ATOMIC_RELAXED);
}

// Returns a new large block, or an old one with another size.
static void *large(void *old, size_t size) {
	char *from = old ? (char *)old - STEP : NULL;
	size_t before = old ? *large_size(old) : 0;
	char *whole = size > SIZE_MAX - STEP ? NULL : realloc(from, size + STEP);
	void *block = (char *)checked(whole, size) + STEP;
	*large_size(block) = size;
	*header(block) = LARGE;
	if (current) {
		current->large -= before;
		count(current, &current->large, size);
	}
	return block;
}

// Returns a block of a class from the slabs.
static void *carve(kaged_arena *a, size_t class) {
	size_t stride = (class + 1) * STEP;
	if (!a->slabs || a->used + stride > SLAB) {
		slab *s = checked(malloc(sizeof *s), sizeof *s);
		s->next = a->slabs;
		a->slabs = s;
		a->used = 0;
		count(a, &a->size, sizeof *s);
	}
	void *block = a->slabs->bytes + a->used + HEADER;
	a->used += stride;
	*header(block) = class;
	return block;
}

static void *arena_malloc(size_t size) {
	size_t class = (size + HEADER - 1) / STEP;
	kaged_arena *a = current;
	if (!a || class >= CLASSES || size > SIZE_MAX - STEP) return large(NULL, size);
	block *found = a->free[class];
	if (!found) return carve(a, class);
	a->free[class] = found->next;
	return found;
}

static void arena_free(void *block_) {
	if (!block_) return;
	uint64_t class = *header(block_);
	kaged_arena *a = current;
	if (class == LARGE) {
		if (a) a->large -= *large_size(block_);
		free((char *)block_ - STEP);
		return;
	}
	if (!a) return; // it goes with its slab
	block *freed = block_;
	freed->next = a->free[class];
	a->free[class] = freed;
}

static void *arena_calloc(size_t count, size_t size) {
	if (size && count > SIZE_MAX / size) checked(NULL, SIZE_MAX);
	return memset(arena_malloc(count * size), 0, count * size);
}

static void *arena_realloc(void *old, size_t size) {
	if (!old) return arena_malloc(size);
	uint64_t class = *header(old);
	if (class == LARGE) return large(old, size);
	size_t room = class * STEP + HEADER;
	if (size <= room) return old;
	void *block = memcpy(arena_malloc(size), old, room);
	arena_free(old);
	return block;
}

void ts_set_allocator(void *(*)(size_t), void *(*)(size_t, size_t), void *(*)(void *, size_t), void (*)(void *));

// Before main, because blocks of the runtime's own allocator have no header.
__attribute__((constructor)) static void install(void) {
	ts_set_allocator(arena_malloc, arena_calloc, arena_realloc, arena_free);
}

kaged_arena *kaged_arena_new(void) { return calloc(1, sizeof(kaged_arena)); }

void kaged_arena_delete(kaged_arena *a) {
	for (slab *s = a->slabs, *next; s; s = next) {
		next = s->next;
		free(s);
	}
	free(a);
}

size_t kaged_arena_size(const kaged_arena *a) { return a->size; }

void kaged_arena_bound(kaged_arena *a, size_t bound, size_t *flag) {
	a->bound = bound;
	a->flag = flag;
}

void kaged_arena_use(kaged_arena *a) { current = a; }
