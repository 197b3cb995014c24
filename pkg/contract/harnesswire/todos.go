package harnesswire

import (
	"kaged.dev/pkg/contract"
	harnessv1 "kaged.dev/proto/gen/kaged/harness/v1"
)

// OpenTodos returns todos on the wire, nil for an empty list.
func OpenTodos(t contract.OpenTodos) *harnessv1.OpenTodos {
	if t.Open == 0 {
		return nil
	}
	p := &harnessv1.OpenTodos{Open: int32(t.Open)}
	for _, s := range t.Shown {
		p.Shown = append(p.Shown, &harnessv1.OpenTodo{Content: s.Content, Working: s.Working, Criterion: s.Criterion})
	}
	return p
}

// FromOpenTodos returns todos from the wire.
func FromOpenTodos(p *harnessv1.OpenTodos) contract.OpenTodos {
	t := contract.OpenTodos{Open: int(p.GetOpen())}
	for _, s := range p.GetShown() {
		t.Shown = append(t.Shown, contract.OpenTodo{
			Content: s.GetContent(), Working: s.GetWorking(), Criterion: s.GetCriterion(),
		})
	}
	return t
}
