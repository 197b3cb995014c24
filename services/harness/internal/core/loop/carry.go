package loop

import (
	"fmt"
	"strings"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/llm"
	"kaged.dev/services/harness/internal/core/compact"
)

// Carried is the state that a root agent's invocation leaves to the session's next run: its conversation, and the
// results of the stages of its last request. Each stage compares its state with the next request and works from the
// first difference on, so requests are the same without the state. It belongs to one run at a time.
type Carried struct {
	messages int                   // length of the history
	talk     *compact.Conversation // the history, pruned
	pruning  string                // the rules it is pruned by
	last     *compact.Conversation // the conversation at the run's end
	callIDs  map[string]struct{}

	fit     fitter
	conceal concealer
	audit   auditProcessor
	sealed  snapshot
	memory  *llm.Memory
	bytes   int
}

// Size returns an estimate of the memory in bytes, without the messages of the history.
func (c *Carried) Size() int {
	const each = 1500 // the stages' lists, per message
	if c == nil {
		return 0
	}
	return c.bytes + each*c.last.Len() + c.memory.Size()
}

// Drop gives the memory back to the drivers of the process.
func (c *Carried) Drop() {
	if c != nil && c.memory != nil {
		c.memory.Drop()
	}
}

// continueTalk makes the conversation of the history, as a continuation of the last run's if possible.
func (v *invocation) continueTalk() {
	c := v.carried
	if c == nil || c.pruning != v.pruningKey() || c.messages > len(v.history) {
		v.talk = compact.New(v.history, v.sources)
	} else if talk, ok := c.talk.Continued(v.history[c.messages:], v.sources[c.messages:], c.last); ok {
		v.talk, v.callIDs = talk, c.callIDs
	} else {
		v.talk = compact.New(v.history, v.sources)
	}
	before := 0
	if v.callIDs == nil {
		v.callIDs = map[string]struct{}{}
	} else {
		before = c.talk.Len()
	}
	for _, m := range v.talk.Messages()[before:] {
		for _, b := range m.Blocks {
			if b.Call != nil {
				v.callIDs[b.Call.ID] = struct{}{}
			}
		}
	}
	if v.start.Carry == nil || v.parent != nil {
		return
	}
	v.prune()
	if c != nil {
		v.talk.Share(c.last)
	}
	v.carry = &Carried{messages: len(v.history), talk: v.talk.Clone(), pruning: v.pruningKey()}
}

// pruningKey returns the inputs of pruning beside the conversation: the rules, and the aliases of tools.
func (v *invocation) pruningKey() string {
	rules, protected, off := v.pruning()
	var key strings.Builder
	fmt.Fprint(&key, off, rules.Protect, rules.Minimum)
	fmt.Fprintf(&key, "%q", protected)
	for _, t := range v.tools {
		if name := v.canonicalName(t.Name); name != t.Name {
			fmt.Fprintf(&key, "%q%q", t.Name, name)
		}
	}
	return key.String()
}

// resumeStages gives the stages of requests their state from the session's last run.
func (v *invocation) resumeStages(fit *fitter, conceal *concealer, audit *auditProcessor) {
	c := v.carried
	if c == nil {
		return
	}
	*fit = c.fit
	if conceal.forms == c.conceal.forms {
		conceal.credentials, conceal.past = c.conceal.credentials, c.conceal.past
	}
	audit.recorded, audit.chained, audit.alias = c.audit.recorded, c.audit.chained, c.audit.alias
	v.sealed = c.sealed
}

// carryOn hands the state of the invocation over to the session's next run.
func (v *invocation) carryOn(fin contract.Finished) {
	c := v.carry
	if c == nil || v.broke || fin.Outcome == contract.HandedOver {
		v.carried.Drop()
		if v.memory != nil {
			v.memory.Drop()
		}
		return
	}
	for _, p := range v.pipeline {
		switch p := p.(type) {
		case *fitter:
			c.fit = *p
		case *concealer:
			c.conceal = concealer{forms: p.forms, credentials: p.credentials, past: p.past}
		case *auditProcessor:
			c.audit = auditProcessor{recorded: p.recorded, chained: p.chained, alias: p.alias}
		}
	}
	c.last, c.callIDs, c.sealed, c.memory, c.bytes = v.talk, v.callIDs, v.sealed, v.memory, int(v.asked)
	v.start.Carry(c)
}
