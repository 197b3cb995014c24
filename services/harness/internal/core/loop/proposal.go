package loop

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"kaged.dev/pkg/contract"
	"kaged.dev/pkg/fault"
)

// proposalText tells a child how to propose todos for the issue of the run. The child has no access to the issue.
const proposalText = "To propose todos for the issue that this work is part of, end your answer with a block:\n" +
	"```todos\n- [ ] A step to take\n- [ ] A statement that must hold (criterion)\n```"

// The marks of a proposal: its fences, and the mark of a criterion.
const (
	proposalFence = "```todos"
	fence         = "```"
	criterionMark = "(criterion)"
)

// maxProposed is the most todos of one proposal, which is the most that one call of kaged.todo takes.
const maxProposed = 100

// proposal holds the todos that an agent proposes.
type proposal struct{ steps, criteria []string }

func (p proposal) count() int { return len(p.steps) + len(p.criteria) }

// proposalOf returns the todos of the last complete block in a text.
func proposalOf(text string) (p proposal) {
	inside := false
	var found proposal
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case !inside:
			if inside = line == proposalFence; inside {
				found = proposal{}
			}
		case line == fence:
			inside, p = false, found
		case found.count() < maxProposed:
			found.add(line)
		}
	}
	return p
}

// add adds the item of one line. It ignores lines that are no list items.
func (p *proposal) add(line string) {
	rest, isItem := strings.CutPrefix(line, "- ")
	if !isItem {
		return
	}
	rest = strings.TrimSpace(strings.TrimPrefix(rest, "[ ]"))
	content, isCriterion := strings.CutSuffix(rest, criterionMark)
	switch content = strings.TrimSpace(content); {
	case content == "":
	case isCriterion:
		p.criteria = append(p.criteria, content)
	default:
		p.steps = append(p.steps, content)
	}
}

// propose returns the todos that a completed child proposes in its text, nil without any. The todos of an agent with
// todo_review: auto are added to the issue in the root agent's name; records are the records of these calls.
func (v *invocation) propose(ctx context.Context, text string) (_ *contract.ProposedTodos, records []contract.Record) {
	p := proposalOf(text)
	if v.start.Issue == 0 || p.count() == 0 {
		return nil, nil
	}
	out := &contract.ProposedTodos{Count: p.count(), Review: "review", Origin: v.agent.Path}
	if !v.agent.AutoTodos {
		return out, nil
	}
	out.Review = "auto"
	for _, part := range []struct {
		kind  string
		items []string
	}{{"step", p.steps}, {"criterion", p.criteria}} {
		if len(part.items) == 0 {
			continue
		}
		outcome, err := v.writeDown(ctx, part.kind, part.items)
		records = append(records, outcome.Audit...)
		if f := fault.From(err); f != nil {
			out.Error = f.Msg
			break
		}
	}
	return out, records
}

// writeDown adds todos to the issue in the root agent's name.
func (v *invocation) writeDown(ctx context.Context, kind string, items []string) (ToolOutcome, error) {
	root := v
	for root.parent != nil {
		root = root.parent
	}
	input, err := json.Marshal(map[string]any{
		"action": "add", "items": items, "kind": kind, "origin_agent": v.agent.Path,
	})
	if err != nil {
		return ToolOutcome{}, fault.From(err)
	}
	began := time.Now()
	out, err := v.deps.Tools.Run(ctx, ToolRequest{
		CallID: v.start.RunID + "." + v.id + ".todos." + kind, Tool: todoTool, Input: string(input),
		Context: root.toolContext,
	}, func(string, string) {})
	out.Duration = time.Since(began)
	switch {
	case err != nil:
		return out, err
	case out.Question != nil:
		return out, fault.New(fault.ApprovalRequired, "Each use of kaged.todo needs an operator's approval.")
	case out.Err != nil:
		return out, out.Err
	}
	return out, nil
}
