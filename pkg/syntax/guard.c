// Guards around external scanners: the hand-written C of a grammar, which recognizes strings and heredocs. It stores
// its state after each token in a buffer and restores it before the next one. Some scanners end the process for a state
// that they cannot store, or write past the buffer; the guards drop such a state, and the rest of the text is perhaps
// read wrongly.

#include "guard.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

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

// A grammar with guards, and the scanner in it.
typedef struct {
	language grammar;
	scanner of;
} guarded;

// Copies a grammar, and reports false if its layout is unknown.
static bool copy(guarded *g, const void *grammar) {
	if (((const language *)grammar)->version != ABI) return false;
	g->grammar = *(const language *)grammar;
	g->of = g->grammar.scanner;
	return true;
}

// Stores a state of at most STATE bytes. Scanners that compare fewer bytes than they write
// do so before each entry, and so exceed STATE by a few bytes.
static unsigned bounded(const guarded *g, void *payload, char *buffer) {
	_Alignas(uint64_t) char state[2 * STATE];
	unsigned size = g->of.serialize(payload, state);
	if (size > STATE) return 0;
	memcpy(buffer, state, size);
	return size;
}

// The scanner of Kotlin aborts when it begins a string inside of STATE others. It begins at most one after each state.
static guarded kotlin;

static void deserialize_kotlin(void *payload, const char *buffer, unsigned length) {
	kotlin.of.deserialize(payload, buffer, length < STATE ? length : 0);
}

const void *kaged_guarded_kotlin(const void *grammar) {
	if (!copy(&kotlin, grammar)) return grammar;
	kotlin.grammar.scanner.deserialize = deserialize_kotlin;
	return &kotlin.grammar;
}

// The scanner of Ruby stores the lengths of heredocs' words in one byte each, and the words whole. It asserts that it
// reads all that it has stored.
static guarded ruby;

static unsigned serialize_ruby(void *payload, char *buffer) {
	const uint8_t *state = (const uint8_t *)buffer;
	unsigned size = bounded(&ruby, payload, buffer);
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
	if (!copy(&ruby, grammar)) return grammar;
	ruby.grammar.scanner.serialize = serialize_ruby;
	return &ruby.grammar;
}

// The scanner of Bash counts 3 of the 7 bytes that it stores with a heredoc's word.
static guarded bash;

static unsigned serialize_bash(void *payload, char *buffer) { return bounded(&bash, payload, buffer); }

const void *kaged_guarded_bash(const void *grammar) {
	if (!copy(&bash, grammar)) return grammar;
	bash.grammar.scanner.serialize = serialize_bash;
	return &bash.grammar;
}

// The scanner of YAML stores 4 bytes for a level of indentation while one is free.
static guarded yaml;

static unsigned serialize_yaml(void *payload, char *buffer) { return bounded(&yaml, payload, buffer); }

const void *kaged_guarded_yaml(const void *grammar) {
	if (!copy(&yaml, grammar)) return grammar;
	yaml.grammar.scanner.serialize = serialize_yaml;
	return &yaml.grammar;
}
