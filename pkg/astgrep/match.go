package astgrep

import (
	"bytes"
	"context"

	"kaged.dev/pkg/syntax"
)

// Match is one place in a source that a pattern matches.
type Match struct {
	// Node is the index of the matched node.
	Node int
	// Captures are the values of the variables, in the order of [Pattern.Names].
	Captures []Capture
}

// Capture is the value of a variable: Count neighbouring nodes, the first being First. An empty
// value has Count 0, an unreached variable a negative First.
type Capture struct{ First, Count int }

// Names returns the names of the captured variables, without dollars.
func (p *Pattern) Names() []string {
	names := make([]string, len(p.vars))
	for i, v := range p.vars {
		names[i] = v.name
	}
	return names
}

// Variables returns the captured variables with their dollars, in the order of [Pattern.Names].
func (p *Pattern) Variables() []string {
	list := make([]string, len(p.vars))
	for i, v := range p.vars {
		list[i] = map[bool]string{true: "$$$", false: "$"}[v.multi] + v.name
	}
	return list
}

// Find calls found for each match in a tree until found returns false. Matches come in the order of their beginnings,
// outer before inner; nested includes the matches inside a match. It returns the context's error if the context ended
// the search.
func (p *Pattern) Find(ctx context.Context, tree *syntax.Tree, nested bool, found func(Match) bool) error {
	m := matcher{ctx: ctx, tree: tree, nodes: tree.Nodes, bound: make([]Capture, len(p.vars))}
	any := p.root.kind == wildcard
	for i := 0; i < len(m.nodes); {
		if !any && m.nodes[i].Symbol != p.root.symbol {
			i++
			continue
		}
		if !m.root(p, i) {
			if m.stopped {
				return ctx.Err()
			}
			i++
			continue
		}
		captures := append([]Capture(nil), m.bound...)
		if !found(Match{i, captures}) {
			return nil
		}
		if nested {
			i++
		} else {
			i = int(m.nodes[i].Next)
		}
	}
	return nil
}

// matcher matches one pattern against one tree.
type matcher struct {
	ctx   context.Context
	tree  *syntax.Tree
	nodes []syntax.Node
	// bound holds the present values of the variables; trail holds their earlier values, so that a trial can be undone.
	bound []Capture
	trail []binding
	// steps counts the comparisons; stopped is true once the context has ended.
	steps   int
	stopped bool
}

// binding is the value of a variable before it was bound.
type binding struct {
	slot   int
	before Capture
}

// outcome is the result of comparing a part of the pattern with a node.
type outcome uint8

const (
	different outcome = iota
	same
	passable // not the wanted node, but it may be skipped
)

// root matches the whole pattern against a node.
func (m *matcher) root(p *Pattern, at int) bool {
	m.trail = m.trail[:0]
	for i := range m.bound {
		m.bound[i] = Capture{First: -1}
	}
	if p.root.kind == wildcard {
		return m.bindOne(&p.root, at)
	}
	return m.compare(&p.root, at) == same && !m.stopped
}

// checkEvery is the number of comparisons between two checks of the context.
const checkEvery = 1 << 14

// compare matches a part of the pattern against a node.
func (m *matcher) compare(goal *node, at int) outcome {
	if m.steps++; m.steps%checkEvery == 0 && m.ctx.Err() != nil {
		m.stopped = true
	}
	n := &m.nodes[at]
	switch goal.kind {
	case terminal:
		// Keywords and punctuation are compared by kind only: in some grammars the text of such a node is elsewhere.
		if goal.symbol == n.Symbol && (!goal.named || bytes.Equal(goal.text, m.tree.Source(at))) {
			return same
		}
		if n.Is(syntax.Extra) || !n.Is(syntax.Named) {
			return passable
		}
	case wildcard:
		if n.Is(syntax.Extra) {
			return passable
		}
		if m.bindOne(goal, at) {
			return same
		}
	case inner:
		if goal.symbol == n.Symbol && m.children(goal.children, at+1, int(n.Next)) {
			return same
		}
	}
	return different
}

// children matches parts of the pattern, in order, against the neighbours from at up to end. All parts must match;
// nodes after the last match are ignored.
func (m *matcher) children(goals []node, at, end int) bool {
	if at >= end {
		return false
	}
	for !m.stopped {
		if len(goals) == 0 {
			return true
		}
		met := false // goals[0] matches the node at
		if goals[0].ellipsis() {
			var done, ok bool
			goals, at, done, met, ok = m.ellipsis(goals, at, end)
			if done || !ok {
				return ok
			}
			if !met && goals[0].ellipsis() {
				continue
			}
		}
		for !met {
			if at >= end {
				return onlyEllipses(goals)
			}
			switch m.compare(&goals[0], at) {
			case same:
				met = true
			case passable:
				at = int(m.nodes[at].Next)
			case different:
				return false
			}
			if m.stopped {
				return false
			}
		}
		goals, at = goals[1:], int(m.nodes[at].Next)
		if len(goals) == 0 {
			return true
		}
		if at >= end {
			return false
		}
	}
	return false
}

func onlyEllipses(goals []node) bool {
	for i := range goals {
		if !goals[i].ellipsis() {
			return false
		}
	}
	return true
}

// ellipsis matches goals[0], a $$$, against as few neighbours from at up to end as possible. Punctuation in the pattern
// after it is dropped, with as many nodes from the end of its value. It returns the remaining parts and the next node.
// done means that the remaining parts match; met means that the next part matches the next node.
func (m *matcher) ellipsis(goals []node, at, end int) (rest []node, next int, done, met, ok bool) {
	dots := &goals[0]
	goals = goals[1:]
	swallowed := 0
	for len(goals) > 0 && goals[0].trivial() {
		goals = goals[1:]
		swallowed++
	}
	first, count := at, 0
	if len(goals) == 0 {
		for ; at < end; at = int(m.nodes[at].Next) {
			count++
		}
		return nil, at, true, false, m.bindMany(dots, first, count-swallowed)
	}
	if goals[0].ellipsis() {
		at = int(m.nodes[at].Next)
		return goals, at, false, false, at < end && m.bindMany(dots, first, 1-swallowed)
	}
	for {
		mark := len(m.trail)
		if m.compare(&goals[0], at) == same {
			if goals[0].again {
				// The remaining parts use this or another variable again, so they must match with this value bound.
				m.undo(mark)
				return goals, at, false, false, m.bindMany(dots, first, count-swallowed)
			}
			return goals, at, false, true, m.bindMany(dots, first, count-swallowed)
		}
		m.undo(mark)
		count++
		if at = int(m.nodes[at].Next); at >= end || m.stopped {
			return nil, at, false, false, false
		}
	}
}

func (m *matcher) bindOne(goal *node, at int) bool {
	if goal.named && !goal.multi && !m.nodes[at].Is(syntax.Named) {
		return false
	}
	if goal.slot < 0 {
		return true
	}
	if have := m.bound[goal.slot]; have.First >= 0 && !m.equal(have.First, at) {
		return false
	}
	m.bind(goal.slot, Capture{at, 1})
	return true
}

func (m *matcher) bindMany(goal *node, first, count int) bool {
	if goal.slot < 0 {
		return true
	}
	c := Capture{first, max(count, 0)}
	if have := m.bound[goal.slot]; have.First >= 0 && !m.equalMany(have, c) {
		return false
	}
	m.bind(goal.slot, c)
	return true
}

func (m *matcher) bind(slot int, c Capture) {
	m.trail = append(m.trail, binding{slot, m.bound[slot]})
	m.bound[slot] = c
}

// undo takes back the bindings after length mark of the trail.
func (m *matcher) undo(mark int) {
	for i := len(m.trail) - 1; i >= mark; i-- {
		m.bound[m.trail[i].slot] = m.trail[i].before
	}
	m.trail = m.trail[:mark]
}

// equalMany compares the named nodes of two captures.
func (m *matcher) equalMany(a, b Capture) bool {
	i, j := a.First, b.First
	skip := func(at, left int) (int, int) {
		for left > 0 && !m.nodes[at].Is(syntax.Named) {
			at, left = int(m.nodes[at].Next), left-1
		}
		return at, left
	}
	for left, other := a.Count, b.Count; ; {
		i, left = skip(i, left)
		j, other = skip(j, other)
		if left == 0 || other == 0 {
			return left == other
		}
		if !m.equal(i, j) {
			return false
		}
		i, left = int(m.nodes[i].Next), left-1
		j, other = int(m.nodes[j].Next), other-1
	}
}

// equal reports whether two nodes are the same code: by text where one of them has no named parts, else part by part.
func (m *matcher) equal(a, b int) bool {
	if a == b {
		return true
	}
	i, j := a, b
	end := int(m.nodes[a].Next)
	for i < end {
		x, y := &m.nodes[i], &m.nodes[j]
		if m.steps++; m.steps%checkEvery == 0 && m.ctx.Err() != nil {
			m.stopped = true
			return false
		}
		if !x.Is(syntax.NamedChild) || !y.Is(syntax.NamedChild) {
			if !bytes.Equal(m.tree.Source(i), m.tree.Source(j)) {
				return false
			}
			i, j = int(x.Next), int(y.Next)
			continue
		}
		if x.Symbol != y.Symbol || m.count(i) != m.count(j) {
			return false
		}
		i, j = i+1, j+1
	}
	return true
}

// count returns how many children a node has.
func (m *matcher) count(at int) int {
	count := 0
	for c := at + 1; c < int(m.nodes[at].Next); c = int(m.nodes[c].Next) {
		count++
	}
	return count
}
