// The bridge between tree-sitter and Go: one call parses a file and lays its tree out as one array.
//
// Walking a tree with tree-sitter's cursor from Go costs about a microsecond for each node, most of it for crossing into C.
// Done here it costs about 40 nanoseconds, and Go then reads an array.
//
// The declarations below are of the tree-sitter runtime that github.com/smacker/go-tree-sitter links into the program.

#include "flatten.h"

#include "arena.h"

#include <stdbool.h>
#include <stdlib.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

typedef struct TSParser TSParser;
typedef struct TSTree TSTree;

typedef struct {
	uint32_t context[4];
	const void *id;
	const TSTree *tree;
} TSNode;

typedef struct {
	const void *tree;
	const void *id;
	uint32_t context[3];
} TSTreeCursor;

TSParser *ts_parser_new(void);
void ts_parser_delete(TSParser *);
bool ts_parser_set_language(TSParser *, const void *);
TSTree *ts_parser_parse_string(TSParser *, const TSTree *, const char *, uint32_t);
void ts_parser_reset(TSParser *);
void ts_parser_set_cancellation_flag(TSParser *, const size_t *);
void ts_tree_delete(TSTree *);
TSNode ts_tree_root_node(const TSTree *);
uint16_t ts_node_symbol(TSNode);
uint32_t ts_node_start_byte(TSNode);
uint32_t ts_node_end_byte(TSNode);
bool ts_node_is_named(TSNode);
bool ts_node_is_missing(TSNode);
bool ts_node_is_extra(TSNode);
bool ts_node_has_error(TSNode);
TSTreeCursor ts_tree_cursor_new(TSNode);
void ts_tree_cursor_reset(TSTreeCursor *, TSNode);
void ts_tree_cursor_delete(TSTreeCursor *);
bool ts_tree_cursor_goto_first_child(TSTreeCursor *);
bool ts_tree_cursor_goto_next_sibling(TSTreeCursor *);
bool ts_tree_cursor_goto_parent(TSTreeCursor *);
TSNode ts_tree_cursor_current_node(const TSTreeCursor *);
uint32_t ts_language_symbol_count(const void *);
const char *ts_language_symbol_name(const void *, uint16_t);

// An arena of more than KEEP_BYTES is given back after the parse, and an array of more than KEEP entries before the next
// one, so that a large file does not hold memory for ever.
enum { KEEP = 1 << 20, KEEP_BYTES = 32 << 20, FIRST = 1 << 12, CHECK = 1 << 12 };

// The memory that one parse may take: about LEAST, and so much for each byte of the text, because the runtime looks at
// the flag after every hundred operations. Large sources take 10 to 40 bytes for each byte, dense ones of a few
// megabytes 80 to 120; texts made for it take 250.
enum { LEAST = 64 << 20, DENSE_BYTES = 2 << 20, FOR_DENSE_BYTE = 128, FOR_BYTE = 80 };

static size_t memory_for(size_t size) {
	size_t dense = size < DENSE_BYTES ? size : DENSE_BYTES;
	return LEAST + dense * FOR_DENSE_BYTE + (size - dense) * FOR_BYTE;
}

struct kaged_parser {
	TSParser *parser;
	kaged_arena *arena; // of the parser and the tree
	const void *grammar;
	size_t flag;
	kaged_node *nodes;
	size_t room;
	uint32_t *path; // indexes of the nodes from the root to the current one
	size_t path_room;
};

// Makes the runtime's parser in an arena of its own. It reports false without memory for the arena.
static bool begin(kaged_parser *p) {
	p->arena = kaged_arena_new();
	if (!p->arena) return false;
	kaged_arena_use(p->arena);
	p->parser = ts_parser_new();
	kaged_arena_use(NULL);
	ts_parser_set_cancellation_flag(p->parser, &p->flag);
	p->grammar = NULL;
	return true;
}

static void end(kaged_parser *p) {
	kaged_arena_use(p->arena);
	ts_parser_delete(p->parser);
	kaged_arena_use(NULL);
	kaged_arena_delete(p->arena);
}

kaged_parser *kaged_parser_new(void) {
	kaged_parser *p = calloc(1, sizeof *p);
	if (!p) return NULL;
	if (begin(p)) return p;
	free(p);
	return NULL;
}

void kaged_parser_delete(kaged_parser *p) {
	if (p->arena) end(p);
	free(p->nodes);
	free(p->path);
	free(p);
}

size_t *kaged_parser_flag(kaged_parser *p) { return &p->flag; }
kaged_node *kaged_parser_nodes(kaged_parser *p) { return p->nodes; }
uint32_t kaged_grammar_symbols(const void *grammar) { return ts_language_symbol_count(grammar); }
const char *kaged_grammar_symbol(const void *grammar, uint16_t symbol) { return ts_language_symbol_name(grammar, symbol); }

size_t kaged_heap(void) {
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
	struct mallinfo2 info = mallinfo2();
	return info.uordblks + info.hblkhd;
#else
	return 0;
#endif
}

static bool more_nodes(kaged_parser *p) {
	size_t room = p->room ? 2 * p->room : FIRST;
	kaged_node *nodes = realloc(p->nodes, room * sizeof *nodes);
	if (!nodes) return false;
	p->nodes = nodes;
	p->room = room;
	return true;
}

static bool more_path(kaged_parser *p) {
	size_t room = p->path_room ? 2 * p->path_room : 256;
	uint32_t *path = realloc(p->path, room * sizeof *path);
	if (!path) return false;
	p->path = path;
	p->path_room = room;
	return true;
}

static uint8_t flags_of(TSNode n) {
	return (ts_node_is_named(n) ? KAGED_NAMED : 0) | (ts_node_is_missing(n) ? KAGED_MISSING : 0) |
	       (ts_node_is_extra(n) ? KAGED_EXTRA : 0);
}

// Reports whether a node contains a place. Nodes come in preorder, so places before it are never looked at again.
static bool holds(const kaged_wanted *wanted, size_t *place, const kaged_node *n) {
	while (*place < wanted->count && wanted->places[*place] < n->start) ++*place;
	return *place < wanted->count && wanted->places[*place] < n->end;
}

// Returns why a parser stops: KAGED_CANCELLED or KAGED_TOO_MUCH_MEMORY; 0 if it goes on.
static int64_t stopped(const kaged_parser *p) {
	size_t flag = __atomic_load_n(&p->flag, __ATOMIC_RELAXED);
	if (flag == KAGED_FULL) return KAGED_TOO_MUCH_MEMORY;
	return flag ? KAGED_CANCELLED : 0;
}

static int64_t flatten(kaged_parser *p, TSTreeCursor *cursor, uint32_t max_nodes, const kaged_wanted *wanted) {
	size_t count = 0, depth = 0, place = 0;
	size_t within = 0; // the depth of the wanted node around the current one, plus one; 0 outside of wanted nodes
	for (;;) {
		if (count == max_nodes) return KAGED_TOO_MANY_NODES;
		int64_t why = count % CHECK == 0 ? stopped(p) : 0;
		if (why) return why;
		if (count == p->room && !more_nodes(p)) return KAGED_NO_MEMORY;
		TSNode n = ts_tree_cursor_current_node(cursor);
		uint8_t flags = flags_of(n);
		p->nodes[count] = (kaged_node){ts_node_start_byte(n), ts_node_end_byte(n), 0, ts_node_symbol(n), flags, 0};
		if (depth > 0 && flags & KAGED_NAMED) p->nodes[p->path[depth - 1]].flags |= KAGED_NAMED_CHILD;
		bool children = !wanted || within || holds(wanted, &place, &p->nodes[count]);
		if (wanted && children && !within && p->nodes[count].symbol == wanted->symbol) within = depth + 1;
		if (children && ts_tree_cursor_goto_first_child(cursor)) {
			if (depth == p->path_room && !more_path(p)) return KAGED_NO_MEMORY;
			p->path[depth++] = count++;
			continue;
		}
		p->nodes[count].next = count + 1;
		count++;
		if (within == depth + 1) within = 0;
		while (depth > 0 && !ts_tree_cursor_goto_next_sibling(cursor)) {
			ts_tree_cursor_goto_parent(cursor);
			p->nodes[p->path[--depth]].next = count;
			if (within == depth + 1) within = 0;
		}
		if (depth == 0) return count;
	}
}

static int64_t parse(kaged_parser *p, const void *grammar, const char *text, uint32_t size, uint32_t max_nodes,
                     const kaged_wanted *wanted) {
	if (p->grammar != grammar) {
		p->grammar = NULL;
		if (!ts_parser_set_language(p->parser, grammar)) return KAGED_BAD_GRAMMAR;
		p->grammar = grammar;
	}
	TSTree *tree = ts_parser_parse_string(p->parser, NULL, text, size);
	if (!tree) {
		// A parser that was stopped goes on where it was with whatever text comes next, unless it is reset.
		ts_parser_reset(p->parser);
		int64_t why = stopped(p);
		return why ? why : KAGED_CANCELLED;
	}
	TSNode root = ts_tree_root_node(tree);
	TSTreeCursor cursor = ts_tree_cursor_new(root);
	int64_t count = flatten(p, &cursor, max_nodes, ts_node_has_error(root) ? NULL : wanted);
	ts_tree_cursor_delete(&cursor);
	ts_tree_delete(tree);
	return count;
}

int64_t kaged_parse(kaged_parser *p, const void *grammar, const char *text, uint32_t size, uint32_t max_nodes,
                    const kaged_wanted *wanted) {
	if (p->room > KEEP) {
		free(p->nodes);
		p->nodes = NULL;
		p->room = 0;
	}
	if (!p->arena && !begin(p)) return KAGED_NO_MEMORY;
	kaged_arena_bound(p->arena, memory_for(size), &p->flag);
	kaged_arena_use(p->arena);
	int64_t count = parse(p, grammar, text, size, max_nodes, wanted);
	kaged_arena_use(NULL);
	if (kaged_arena_size(p->arena) > KEEP_BYTES) {
		end(p);
		p->arena = NULL;
	}
	return count;
}
