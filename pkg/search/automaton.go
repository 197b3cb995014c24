package search

import (
	"context"
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// automaton finds the lines of a text that match an expression. It runs all threads of the expression's program at once
// and stores each set of threads as a state, so that a character costs one table look-up; states are made on first use.
// It finds lines and not positions, so it can stop at the first end of any match.
//
// The regular expression package spends 20 to 100 ns on a character in a thread list or a backtracker, the table about
// 2 ns, for every expression. A text that constantly needs new states costs as much as running the threads.
//
// An automaton grows during a scan and belongs to one scan at a time.
type automaton struct {
	prog    *syntax.Prog
	classes *classes

	// next holds the states' rows of 1<<shift columns. An entry is the start of the row to which a class leads, or one of
	// the marks.
	next   []int32
	shift  int
	states []state
	index  map[string]int32
	kept   int // number of threads in all states

	closed, stepped threads
	stack           []uint32
	key             []byte
	work            int // threads run since the last check of the context
}

// Marks are entries without a known state.
const (
	unknown int32 = -1
	matched int32 = -2
)

// state is the set of threads before the next character, and the kind of the preceding character.
type state struct {
	threads   []uint32 // in order of priority
	lineBegin bool
	afterWord bool
}

// Limits of an automaton's memory, above which it starts again: entries of its table and threads in its states.
const (
	maxTable   = 1 << 18
	maxThreads = 1 << 20
)

// newAutomaton returns an automaton for a program.
func newAutomaton(prog *syntax.Prog, c *classes) *automaton {
	a := &automaton{prog: prog, classes: c, closed: newThreads(len(prog.Inst)), stepped: newThreads(len(prog.Inst))}
	for 1<<a.shift < len(c.example)+1 {
		a.shift++
	}
	a.forget()
	return a
}

// forget drops all states except the first, which is the beginning of a line.
func (a *automaton) forget() {
	a.next, a.states, a.kept = a.next[:0], a.states[:0], 0
	a.index = map[string]int32{}
	a.stepped.clear()
	a.stepped.add(uint32(a.prog.Start))
	a.intern(true, false)
}

// find returns a position in the first matching line of data, at the latest its end, or -1. data begins with a line,
// and its end ends the last line. It fails only if ctx ends, which it checks after each large piece of work.
func (a *automaton) find(ctx context.Context, data []byte) (int, error) {
	c := a.classes
	row, next := int32(0), a.next
	for i := 0; i < len(data); i++ {
		to := next[row+int32(c.byte[data[i]])]
		if to >= 0 {
			row = to
			continue
		}
		class, size := c.byte[data[i]], 1
		if class == c.wide {
			var r rune
			r, size = utf8.DecodeRune(data[i:])
			class = c.of(r)
			to = next[row+int32(class)]
		}
		if to == unknown {
			var err error
			if to, err = a.step(ctx, row, class); err != nil {
				return -1, err
			}
			next = a.next
		}
		if to == matched {
			return i, nil
		}
		row = to
		i += size - 1
	}
	if len(data) > 0 && data[len(data)-1] == '\n' {
		return -1, nil
	}
	to := next[row+int32(c.lineEnd)]
	if to == unknown {
		var err error
		if to, err = a.step(ctx, row, c.lineEnd); err != nil {
			return -1, err
		}
	}
	if to == matched {
		return len(data), nil
	}
	return -1, nil
}

// workUnit is the number of threads run between two checks of the context.
const workUnit = 1 << 20

// step computes and stores the row to which class leads from row. It may move the rows.
func (a *automaton) step(ctx context.Context, row int32, class uint16) (int32, error) {
	to := a.follow(a.states[row>>a.shift], class)
	if a.work += len(a.closed.list) + 1; a.work > workUnit {
		a.work = 0
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
	if len(a.next) > maxTable || a.kept > maxThreads {
		if to == matched {
			return to, nil
		}
		stepped := slices.Clone(a.stepped.list)
		a.forget()
		if class == a.classes.lineEnd {
			return 0, nil
		}
		a.stepped.clear()
		for _, pc := range stepped {
			a.stepped.add(pc)
		}
		return a.intern(false, a.isWord(class)), nil
	}
	if to == unknown {
		to = a.intern(false, a.isWord(class))
	}
	a.next[row+int32(class)] = to
	return to, nil
}

// follow runs the threads of a state over a character. It returns a mark or the first row; unknown means that the
// threads in stepped are the new state's.
func (a *automaton) follow(from state, class uint16) int32 {
	ends := class == a.classes.lineEnd
	var empty syntax.EmptyOp
	if from.lineBegin {
		empty |= syntax.EmptyBeginLine
	}
	if ends {
		empty |= syntax.EmptyEndLine
	}
	if from.afterWord != a.isWord(class) {
		empty |= syntax.EmptyWordBoundary
	} else {
		empty |= syntax.EmptyNoWordBoundary
	}
	a.closed.clear()
	for _, pc := range from.threads {
		if a.reach(pc, empty) {
			return matched
		}
	}
	if ends {
		return 0
	}
	a.stepped.clear()
	r := a.classes.example[class]
	for _, pc := range a.closed.list {
		switch inst := &a.prog.Inst[pc]; inst.Op {
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			if inst.MatchRune(r) {
				a.stepped.add(inst.Out)
			}
		}
	}
	a.stepped.add(uint32(a.prog.Start)) // a match may begin anywhere
	return unknown
}

func (a *automaton) isWord(class uint16) bool { return syntax.IsWordChar(a.classes.example[class]) }

// reach adds pc and the instructions reachable from it without a character, and reports whether one is a match.
func (a *automaton) reach(pc uint32, empty syntax.EmptyOp) bool {
	stack := append(a.stack[:0], pc)
	defer func() { a.stack = stack }()
	for len(stack) > 0 {
		pc, stack = stack[len(stack)-1], stack[:len(stack)-1]
		if !a.closed.add(pc) {
			continue
		}
		switch inst := &a.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, inst.Arg, inst.Out)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^empty == 0 {
				stack = append(stack, inst.Out)
			}
		}
	}
	return false
}

// intern returns the row of the state with the threads in stepped.
func (a *automaton) intern(lineBegin, afterWord bool) int32 {
	slices.Sort(a.stepped.list)
	a.key = append(a.key[:0], bit(lineBegin), bit(afterWord))
	for _, pc := range a.stepped.list {
		a.key = binary.LittleEndian.AppendUint32(a.key, pc)
	}
	if row, ok := a.index[string(a.key)]; ok {
		return row
	}
	row := int32(len(a.next))
	for range 1 << a.shift {
		a.next = append(a.next, unknown)
	}
	a.states = append(a.states, state{slices.Clone(a.stepped.list), lineBegin, afterWord})
	a.kept += len(a.stepped.list)
	a.index[string(a.key)] = row
	return row
}

// threads is a set of instructions of a program.
type threads struct {
	list []uint32
	in   []bool
}

func newThreads(n int) threads { return threads{in: make([]bool, n)} }

func (t *threads) clear() {
	for _, pc := range t.list {
		t.in[pc] = false
	}
	t.list = t.list[:0]
}

// add reports whether pc is new.
func (t *threads) add(pc uint32) bool {
	if t.in[pc] {
		return false
	}
	t.in[pc] = true
	t.list = append(t.list, pc)
	return true
}
