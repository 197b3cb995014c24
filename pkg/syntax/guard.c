// Guards around external scanners: the hand-written C of a grammar, which recognizes strings and heredocs. It stores
// its state after each token in a buffer and restores it before the next one. Some scanners end the process for a state
// that they cannot store; the guards drop such a state, and the rest of the text is perhaps read wrongly.

#include "guard.h"

#include <stdbool.h>
#include <stdint.h>

// The scanner's functions in a grammar.
typedef struct {
	const bool *states;
	const uint16_t *symbols;
	void *(*create)(void);
	void (*destroy)(void *);
	bool (*scan)(void *, void *lexer, const bool *valid);
	unsigned (*serialize)(void *, char *);
	void (*deserialize)(void *, const char *, unsigned);
} scanner;

// TSLanguage of tree-sitter for the ABI of this version.
typedef struct {
	uint32_t version, counts[8];
	uint16_t longest_alias;
	const void *tables[13];
	bool (*lex)(void *, uint16_t);
	bool (*lex_keyword)(void *, uint16_t);
	uint16_t keyword;
	scanner scanner;
	const void *primary_states;
} language;

enum { ABI = 14, STATE = 1024 /* the bytes of a stored state */ };

// The scanner of Kotlin aborts when it begins a string inside of STATE others. It begins at most one after each state.
static language kotlin;
static scanner of_kotlin;

static void deserialize_kotlin(void *payload, const char *buffer, unsigned length) {
	of_kotlin.deserialize(payload, buffer, length < STATE ? length : 0);
}

const void *kaged_guarded_kotlin(const void *grammar) {
	if (((const language *)grammar)->version != ABI) return grammar;
	kotlin = *(const language *)grammar;
	of_kotlin = kotlin.scanner;
	kotlin.scanner.deserialize = deserialize_kotlin;
	return &kotlin;
}

// The scanner of Ruby stores the lengths of heredocs' words in one byte each, and the words whole. It asserts that it
// reads all that it has stored.
static language ruby;
static scanner of_ruby;

static unsigned serialize_ruby(void *payload, char *buffer) {
	const uint8_t *state = (const uint8_t *)buffer;
	unsigned size = of_ruby.serialize(payload, buffer);
	if (size == 0) return 0;
	unsigned at = 1 + 5 * state[0]; // literals
	if (at >= size) return 0;
	for (unsigned heredocs = state[at++]; heredocs > 0; heredocs--) {
		if (at + 4 > size) return 0;
		at += 4 + state[at + 3]; // flags, length and word
	}
	return at == size ? size : 0;
}

const void *kaged_guarded_ruby(const void *grammar) {
	if (((const language *)grammar)->version != ABI) return grammar;
	ruby = *(const language *)grammar;
	of_ruby = ruby.scanner;
	ruby.scanner.serialize = serialize_ruby;
	return &ruby;
}
