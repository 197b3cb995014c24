#ifndef KAGED_ARENA_H
#define KAGED_ARENA_H

#include <stddef.h>

// The memory of one parser: small blocks from slabs, with a list of free blocks for each size, and no lock. A parser
// allocates and frees a few blocks for each token, for which a general allocator takes a fifth of the time of parsing.
//
// Slabs are given back all at once. Blocks that are larger than the small sizes come from the C heap and must be freed one
// by one.
typedef struct kaged_arena kaged_arena;

kaged_arena *kaged_arena_new(void);

// Frees the slabs, and so all small blocks.
void kaged_arena_delete(kaged_arena *a);

// The bytes of the slabs.
size_t kaged_arena_size(const kaged_arena *a);

// What the flag of a bound is set to.
enum { KAGED_FULL = 2 };

// Sets the flag to KAGED_FULL when the slabs and the large blocks have more than bound bytes. No allocation fails for
// it: whoever allocates looks at the flag.
void kaged_arena_bound(kaged_arena *a, size_t bound, size_t *flag);

// Makes tree-sitter's runtime use, on this thread, the arena until the next call; NULL for the C heap. A block must be
// freed with the arena that it came from.
void kaged_arena_use(kaged_arena *a);

#endif
