#ifndef KAGED_FLATTEN_H
#define KAGED_FLATTEN_H

#include <stddef.h>
#include <stdint.h>

// A node of a syntax tree in an array in preorder: its children are the nodes from its own index plus one up to next.
typedef struct {
	uint32_t start, end; // bytes
	uint32_t next;       // index of the first node after the subtree
	uint16_t symbol;
	uint8_t flags;
	uint8_t unused;
} kaged_node;

enum {
	KAGED_NAMED = 1,
	KAGED_MISSING = 2,
	KAGED_EXTRA = 4,
	KAGED_NAMED_CHILD = 8, // some child is named
};

// What went wrong, as returned in place of a number of nodes.
enum {
	KAGED_CANCELLED = -1,
	KAGED_TOO_MANY_NODES = -2,
	KAGED_NO_MEMORY = -3,
	KAGED_BAD_GRAMMAR = -4,
	KAGED_TOO_MUCH_MEMORY = -5,
};

typedef struct kaged_parser kaged_parser;

kaged_parser *kaged_parser_new(void);
void kaged_parser_delete(kaged_parser *p);

// The flag another thread sets to anything but zero to end a parse. It is cleared by whoever begins one.
size_t *kaged_parser_flag(kaged_parser *p);

// The nodes that are wanted: those of a symbol that contain one of the places, which are offsets in bytes in ascending
// order. The wanted nodes have all their descendants; a node outside of them that contains no place has no children.
typedef struct {
	const uint32_t *places;
	size_t count;
	uint16_t symbol;
} kaged_wanted;

// Parses text and returns the number of nodes, which are at kaged_parser_nodes until the next call, or an error. If
// wanted is NULL, or the text has a syntax error, the array has all nodes.
int64_t kaged_parse(kaged_parser *p, const void *grammar, const char *text, uint32_t size, uint32_t max_nodes,
                    const kaged_wanted *wanted);
kaged_node *kaged_parser_nodes(kaged_parser *p);

uint32_t kaged_grammar_symbols(const void *grammar);
const char *kaged_grammar_symbol(const void *grammar, uint16_t symbol);

// Bytes the C heap holds now, 0 where that cannot be asked.
size_t kaged_heap(void);

#endif
